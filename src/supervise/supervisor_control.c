/*
 * What the candidates have to say to each other, and what operators say to them:
 * pause, calls, hand-overs, ranks.  None of it is needed for safety; all of it
 * works through registers beside the lease.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/hex.h"
#include "base/rfc3339.h"
#include "control/control.h"
#include "core/timing.h"
#include "driver/driver.h"
#include "os/clock.h"
#include "supervise/supervisor_inner.h"

/* After a hand-over to somebody else: how long the others leave the free lease to him. */
#define HOLD_BACK_NS  TN_S
/* For each better candidate that stands by. */
#define RANK_NS       (100 * TN_MS)
/* Between being asked and draining, so that everybody has heard who is meant. */
#define HEAR_NS       (100 * TN_MS)
/* Who steps aside because its program is ill does not contend for so long. */
#define ILL_MS        10000
/* The peer sync waits until whatever caused it is over: a write in the store at the
 * wrong moment would be in the way of the next leader. */
#define SYNC_NS       (200 * TN_MS)
/* The last of it: the next leader comes first. */
#define NEXT_FIRST_NS (20 * TN_MS)

/* ---- May we claim, and when? --------------------------------------------- */

/* Under the inbox's lock. */
static void decide_claim(const struct tn_supervisor *s, bool *may_claim, int64_t *delay_ns)
{
    const struct tn_inbox *m = &s->inbox;

    *may_claim = !m->control.paused && !m->unhealthy && !m->duplicate;
    *delay_ns = (int64_t)m->better * RANK_NS;
    if (m->held_for[0] && strcmp(m->held_for, m->self) != 0 && *delay_ns < HOLD_BACK_NS)
        *delay_ns = HOLD_BACK_NS;
}

void tn_supervisor_apply_claim(struct tn_supervisor *s)
{
    bool may_claim;
    int64_t delay_ns;

    pthread_mutex_lock(&s->inbox.lock);
    decide_claim(s, &may_claim, &delay_ns);
    pthread_mutex_unlock(&s->inbox.lock);
    tn_driver_control(s->elector, may_claim, delay_ns);
}

/* On the driver's thread: the register as it was just read. */
void tn_supervisor_on_control(void *arg, const struct tenure_control *control, const char *damage,
                              bool *may_claim, int64_t *delay_ns)
{
    struct tn_supervisor *s = arg;
    struct tn_inbox *m = &s->inbox;

    if (damage)
        tn_log("control", "%s; until then nothing is claimed", damage);
    tn_election_control(s->election);
    pthread_mutex_lock(&m->lock);
    /* What stood there when we came was meant for others. */
    bool fresh = m->control_seen && strcmp(control->request, m->control.request) != 0;
    m->control = *control;
    m->control_seen = m->control_changed = true;
    m->request_fresh |= fresh;
    if (fresh && strcmp(control->kind, "yield") == 0 && control->to[0]) {
        snprintf(m->held_for, sizeof m->held_for, "%s", control->to);
        m->held_epoch = control->epoch;
    }
    decide_claim(s, may_claim, delay_ns);
    pthread_mutex_unlock(&m->lock);
    tn_supervisor_wake(s);
}

/* Somebody leads a later term: the hand-over is done. */
void tn_supervisor_seen_leader(struct tn_supervisor *s, uint64_t epoch)
{
    struct tn_inbox *m = &s->inbox;

    pthread_mutex_lock(&m->lock);
    bool over = m->held_for[0] && epoch > m->held_epoch;
    if (over)
        m->held_for[0] = '\0';
    pthread_mutex_unlock(&m->lock);
    if (over)
        tn_supervisor_apply_claim(s);
    if (s->options->preempt && epoch != 0 && epoch != s->machine.epoch)
        s->preempt.at_ns = tenure_now() + s->options->preempt_delay_ns;
}

void tn_supervisor_healthy(struct tn_supervisor *s, bool healthy)
{
    pthread_mutex_lock(&s->inbox.lock);
    bool changed = s->inbox.unhealthy == healthy;
    s->inbox.unhealthy = !healthy;
    pthread_mutex_unlock(&s->inbox.lock);
    if (!changed)
        return;
    s->self.healthy = healthy;
    tn_election_healthy(s->election, healthy, NULL);
    tn_supervisor_apply_claim(s);
    tn_supervisor_sync(s, TN_PEER_ANNOUNCE | TN_PEER_MEMBERSHIP);
}

/* ---- Peer sync ----------------------------------------------------------- */

static void read_boot(char *out, size_t size)
{
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, out, size - 1) : 0;

    if (fd >= 0)
        close(fd);
    out[n > 0 ? n : 0] = '\0';
    out[strcspn(out, "\n")] = '\0';
}

void tn_supervisor_register(struct tn_supervisor *s)
{
    struct tn_snapshot now;
    struct tenure_candidate *c = &s->self;
    const struct tenure_elector_options *o = &s->options->elector;

    tn_driver_snapshot(s->elector, &now);
    *c = (struct tenure_candidate)TENURE_CANDIDATE;
    snprintf(c->id, sizeof c->id, "%s", now.id);
    snprintf(s->id, sizeof s->id, "%s", now.id);
    tn_hex_encode(now.incarnation, sizeof now.incarnation, c->incarnation);
    snprintf(c->build, sizeof c->build, "%s", o->build ? o->build : "");
    snprintf(c->address, sizeof c->address, "%s", o->address ? o->address : "");
    tn_api_page_url(s->options->agent_api ? s->options->agent_api : &s->options->api, s->api,
                    c->page, sizeof c->page);
    snprintf(c->contain, sizeof c->contain, "%s", tn_contain_text(s->link.contain));
    tn_rfc3339_format(tn_wall_ms(), c->since);
    read_boot(c->boot, sizeof c->boot);
    c->priority = o->priority;
    pthread_mutex_lock(&s->inbox.lock);
    c->healthy = !s->inbox.unhealthy;
    tn_election_healthy(s->election, c->healthy, NULL);
    snprintf(s->inbox.self, sizeof s->inbox.self, "%s", c->id);
    pthread_mutex_unlock(&s->inbox.lock);
    tn_log_setup(s->options->log, o->name, c->id);
    if (tn_driver_is_suffixed(s->elector))
        tn_log("id",
               "another candidate of %s on this machine has its name as id; this one is %s (--id "
               "chooses another)",
               o->name, c->id);
}

void tn_supervisor_sync(struct tn_supervisor *s, unsigned jobs)
{
    if (!s->controlled || s->machine.withdraw_by_ns != TN_NEVER)
        return;
    s->peer_jobs |= jobs;
    if (s->sync.at_ns == TN_NEVER)
        s->sync.at_ns = tenure_now() + SYNC_NS;
}

/* A candidate that could not seal its state says so, while it holds the lease and after that. */
static const char *state_of(const struct tn_supervisor *s)
{
    struct tn_snapshot now;

    if (s->machine.life != TN_LIFE_ACTIVE)
        return "stopping";
    if (s->machine.epoch != 0)
        return "leading";
    tn_driver_snapshot(s->elector, &now);
    if (s->unsealed && now.phase == TN_PHASE_SEALING)
        return "sealing";
    if (!s->self.healthy || s->unsealed)
        return "unhealthy";
    return tenure_now() < now.not_before_ns ? "held-back" : "standby";
}

struct tenure_candidate tn_supervisor_record(const struct tn_supervisor *s)
{
    struct tenure_candidate record = s->self;

    snprintf(record.state, sizeof record.state, "%s", state_of(s));
    if (!record.trouble[0])
        snprintf(record.trouble, sizeof record.trouble, "%s", tn_supervisor_warning(s));
    record.healthy = record.healthy && !s->unsealed;
    return record;
}

/* It claims as soon as it may. */
static bool stands_by(const struct tn_supervisor *s)
{
    return strcmp(state_of(s), "standby") == 0 && !s->inbox.duplicate;
}

static void post_sync(struct tn_supervisor *s)
{
    struct tenure_candidate self = tn_supervisor_record(s);
    struct tn_snapshot now;

    tn_driver_snapshot(s->elector, &now);
    if (now.not_before_ns > tenure_now())
        s->contend.at_ns = now.not_before_ns;
    if (s->inbox.duplicate && strcmp(self.state, "standby") == 0)
        snprintf(self.state, sizeof self.state, "held-back");
    s->announced |= (s->peer_jobs & TN_PEER_ANNOUNCE) != 0;
    tn_peer_sync_post(&s->peers, s->peer_jobs, &self);
    s->peer_jobs = 0;
    s->sync.at_ns = TN_NEVER;
}

void tn_supervisor_sync_now(struct tn_supervisor *s, unsigned jobs)
{
    if (!s->controlled || s->machine.withdraw_by_ns != TN_NEVER)
        return;
    s->peer_jobs |= jobs;
    post_sync(s);
}

void tn_supervisor_withdraw(struct tn_supervisor *s, int64_t now)
{
    pthread_mutex_lock(&s->inbox.lock);
    bool well = !s->inbox.trouble[0];
    pthread_mutex_unlock(&s->inbox.lock);

    s->peer_jobs = s->announced && well ? TN_PEER_WITHDRAW : 0;
    /* Another process under our id learns of it at once. */
    if (s->peer_jobs && s->duplicate.at_ns != TN_NEVER)
        s->peer_jobs |= TN_PEER_ANNOUNCE | TN_PEER_MEMBERSHIP;
    s->sync.at_ns = s->peer_jobs ? now + NEXT_FIRST_NS : TN_NEVER;
}

static void on_synced(void *arg, const struct tn_peer_result *result)
{
    struct tn_supervisor *s = arg;

    if (result->duplicate.id[0])
        tn_supervisor_duplicate_found(s, &result->duplicate);
    else if (result->removed)
        tn_supervisor_duplicate_over(s);
    if (result->done & TN_PEER_RANK) {
        tn_supervisor_compare_lease(s);
        pthread_mutex_lock(&s->inbox.lock);
        bool changed = s->inbox.better != result->better;
        s->inbox.better = result->better;
        pthread_mutex_unlock(&s->inbox.lock);
        if (changed)
            tn_supervisor_apply_claim(s);
    }
    if (result->done & TN_PEER_TURN)
        tn_supervisor_proof_turn(s, result->turn);
    if (result->done & TN_PEER_STEP_DOWN) {
        if (result->successor && s->machine.unhealthy && s->machine.epoch != 0) {
            snprintf(s->yield_why, sizeof s->yield_why, "gave leadership up: %.70s",
                     s->self.trouble);
            tenure_elector_yield(s->elector, ILL_MS);
        }
        tn_supervisor_step(
            s, &(struct tn_machine_event){.kind = TN_ON_STEP_DOWN_DONE, .ok = result->successor});
    }
}

/* ---- Requests ------------------------------------------------------------ */

/* At once: somebody waits for it. */
static void answer(struct tn_supervisor *s, const char *request)
{
    snprintf(s->self.answer, sizeof s->self.answer, "%s", request);
    tn_supervisor_sync_now(s, TN_PEER_ANNOUNCE);
}

static void take_request(struct tn_supervisor *s, const struct tenure_control *c)
{
    bool meant = !c->to[0] || strcmp(c->to, s->id) == 0;

    if (strcmp(c->kind, "ping") == 0 && meant) {
        answer(s, c->request);
    } else if (strcmp(c->kind, "call") == 0 && meant && stands_by(s) && !c->paused) {
        answer(s, c->request);
    } else if (strcmp(c->kind, "yield") == 0 && s->machine.epoch != 0 &&
               c->epoch == s->machine.epoch && strcmp(c->to, s->id) != 0) {
        tn_log("yielding", "asked to %s%s", c->to[0] ? "hand over to " : "step down", c->to);
        snprintf(s->yield_why, sizeof s->yield_why, "%s%.80s",
                 c->to[0] ? "handed over to " : tn_stop_text(TN_STOP_YIELD), c->to);
        s->yield_for_ms = s->machine.unhealthy && c->for_ms < ILL_MS ? ILL_MS : c->for_ms;
        s->yield.at_ns = tenure_now() + (c->to[0] ? HEAR_NS : 0);
    }
}

void tn_supervisor_take_control(struct tn_supervisor *s, const struct tenure_control *c, bool fresh)
{
    if (c->paused != s->paused) {
        s->paused = c->paused;
        if (c->paused)
            tn_log("paused", "PAUSED%s%s%s%s: nobody takes over until `tenure resume`",
                   c->paused_by[0] ? " by " : "", c->paused_by, c->reason[0] ? ", " : "",
                   c->reason);
        else
            tn_log("resumed", "resumed");
        tn_notify(&s->notify, "STATUS=%s", c->paused ? "PAUSED" : "resumed");
        if (c->paused)
            tn_supervisor_once_held(s, "");
    }
    if (!s->registered)
        tn_supervisor_sync(s, TN_PEER_ANNOUNCE | TN_PEER_MEMBERSHIP | TN_PEER_RANK);
    s->registered = true;
    if (fresh)
        take_request(s, c);
    if (c->roll != s->membership) /* somebody came, went, or fell ill */
        tn_supervisor_sync(s, TN_PEER_RANK);
    s->membership = c->roll;
}

/* ---- Time ---------------------------------------------------------------- */

static void yield_now(void *arg, int64_t now)
{
    struct tn_supervisor *s = arg;

    (void)now;
    if (s->machine.epoch != 0)
        tenure_elector_yield(s->elector, s->yield_for_ms);
}

static void preempt_now(void *arg, int64_t now)
{
    struct tn_supervisor *s = arg;

    (void)now;
    if (s->machine.epoch == 0 && s->self.healthy && !s->inbox.duplicate && !s->paused)
        tn_supervisor_sync(s, TN_PEER_PREEMPT);
}

static void contend_again(void *arg, int64_t now)
{
    (void)now;
    tn_supervisor_sync(arg, TN_PEER_ANNOUNCE | TN_PEER_MEMBERSHIP);
}

static void sync_now(void *arg, int64_t now)
{
    (void)now;
    post_sync(arg);
}

void tn_supervisor_control_open(struct tn_supervisor *s)
{
    s->peers = (struct tn_peer_sync){.store = s->options->elector.store,
                                     .name = s->options->elector.name,
                                     .prefer = s->options->prefer,
                                     .finished = on_synced,
                                     .worker = s->peer_worker,
                                     .arg = s};
    tn_loop_timer(&s->loop, &s->yield, yield_now, s);
    tn_loop_timer(&s->loop, &s->preempt, preempt_now, s);
    tn_loop_timer(&s->loop, &s->contend, contend_again, s);
    tn_loop_timer(&s->loop, &s->sync, sync_now, s);
    tn_supervisor_duplicate_open(s);
}
