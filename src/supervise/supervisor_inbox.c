/* The inbox: what other threads post to the supervisor's loop, and what follows from it. */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/url.h"
#include "core/timing.h"
#include "driver/driver.h"
#include "supervise/supervisor_inner.h"

/* ---- Callbacks, on other threads: post, wake the loop -------------- */

void tn_supervisor_wake(struct tn_supervisor *s)
{
    tn_loop_post(&s->loop, &s->drain);
}

static void on_started(void *arg, const struct tenure_term *term)
{
    struct tn_supervisor *s = arg;
    struct tn_inbox *m = &s->inbox;

    pthread_mutex_lock(&m->lock);
    m->start = true;
    m->epoch = term->epoch;
    pthread_mutex_unlock(&m->lock);
    tn_supervisor_wake(s);
}

/* Answered when nothing of the program is left (I8). */
static bool on_stopping(void *arg, enum tn_stop why)
{
    struct tn_supervisor *s = arg;
    struct tn_inbox *m = &s->inbox;

    if (!s->began)
        return true; /* nothing was started, and nobody would answer */
    pthread_mutex_lock(&m->lock);
    m->start = false;
    m->stop = true;
    snprintf(m->why, sizeof m->why, "%s", tn_stop_text(why));
    pthread_mutex_unlock(&m->lock);
    tn_supervisor_wake(s);
    return false;
}

static void on_new_leader(void *arg, const char *leader, uint64_t epoch)
{
    struct tn_supervisor *s = arg;
    struct tn_inbox *m = &s->inbox;

    pthread_mutex_lock(&m->lock);
    m->leader_changed = true;
    snprintf(m->leader, sizeof m->leader, "%s", leader);
    m->leader_epoch = epoch;
    pthread_mutex_unlock(&m->lock);
    tn_supervisor_wake(s);
}

static void tell_renewal(struct tn_supervisor *s, int64_t took_ns)
{
    struct tn_inbox *m = &s->inbox;

    pthread_mutex_lock(&m->lock);
    m->renewed = true;
    m->renewal_ns = took_ns;
    pthread_mutex_unlock(&m->lock);
    tn_supervisor_wake(s);
}

/* On the worker that seals, once a term. */
void tn_supervisor_unsealed(struct tn_supervisor *s, const char *why)
{
    struct tn_inbox *m = &s->inbox;

    tn_election_unsealed(s->election, why);
    pthread_mutex_lock(&m->lock);
    m->unsealed = true;
    snprintf(m->unsealed_why, sizeof m->unsealed_why, "%s", why);
    pthread_mutex_unlock(&m->lock);
    tn_supervisor_wake(s);
}

static void tell_given_up(struct tn_supervisor *s)
{
    struct tn_inbox *m = &s->inbox;

    pthread_mutex_lock(&m->lock);
    m->gave_up = true;
    pthread_mutex_unlock(&m->lock);
    tn_supervisor_wake(s);
}

/* Nothing was there to claim, or an older term is shown: the store does not hold what it held. */
static void compare_epochs(struct tn_supervisor *s, const struct tenure_trace *t)
{
    struct tn_inbox *m = &s->inbox;

    pthread_mutex_lock(&m->lock);
    uint64_t was = m->known_epoch;
    bool lost = was && (t->epoch < was || (t->epoch > was && strcmp(t->text, "absent") == 0));
    if (lost || t->epoch > was) {
        m->memory_changed |= lost || m->forgot_epoch;
        m->forgot_epoch = lost ? was : 0;
    }
    m->known_epoch = t->epoch;
    bool news = m->memory_changed;
    pthread_mutex_unlock(&m->lock);
    if (news)
        tn_supervisor_wake(s);
}

/* On the driver's thread: whoever reads our stderr must not be able to hold it up. */
static void on_trace(void *arg, const struct tenure_trace *t)
{
    struct tn_supervisor *s = arg;
    struct tn_inbox *m = &s->inbox;
    bool ill = t->kind == TENURE_TRACE_TROUBLE || t->kind == TENURE_TRACE_REFUSED;
    char trouble[sizeof m->trouble];

    if (t->kind == TENURE_TRACE_RENEWED && tn_log_wants(TN_LEVEL_DEBUG))
        tell_renewal(s, t->took_ns);
    if (t->kind == TENURE_TRACE_STOPPING && strcmp(t->text, tn_stop_text(TN_STOP_UNSEALED)) == 0)
        tell_given_up(s);
    if (t->kind == TENURE_TRACE_LEADER && t->leader[0])
        compare_epochs(s, t);
    tn_trace_file_event(s->trace, t);
    tn_election_trace(s->election, t);
    if (!ill && t->kind != TENURE_TRACE_RECOVERED)
        return;
    snprintf(trouble, sizeof trouble, "%.*s", (int)sizeof trouble - 1, ill ? t->text : "");
    pthread_mutex_lock(&m->lock);
    bool news = ill ? strcmp(tn_outage_reason(m->trouble), tn_outage_reason(trouble)) != 0
                    : m->trouble[0] != '\0';
    if (news) {
        memcpy(m->trouble, trouble, sizeof trouble);
        m->refused = t->kind == TENURE_TRACE_REFUSED;
        m->gone_ns = t->took_ns;
        m->troubled = true;
    }
    pthread_mutex_unlock(&m->lock);
    if (news)
        tn_supervisor_wake(s);
}

static void on_lead(void *arg, int64_t lead_until_ns, int64_t deadline_ns, uint64_t epoch)
{
    tn_leader_page_write(((struct tn_supervisor *)arg)->leader_page, lead_until_ns, deadline_ns,
                         epoch);
}

static void on_failed(void *arg, enum tenure_status status, const char *text)
{
    struct tn_supervisor *s = arg;
    struct tn_inbox *m = &s->inbox;

    pthread_mutex_lock(&m->lock);
    m->failed = status;
    snprintf(m->failure, sizeof m->failure, "%s", text);
    pthread_mutex_unlock(&m->lock);
    tn_supervisor_wake(s);
}

static void on_halted(void *arg)
{
    struct tn_supervisor *s = arg;
    struct tn_inbox *m = &s->inbox;

    pthread_mutex_lock(&m->lock);
    m->halted = true;
    pthread_mutex_unlock(&m->lock);
    tn_supervisor_wake(s);
}

void tn_supervisor_inbox_connect(struct tn_supervisor *s, struct tenure_elector_options *o,
                                 struct tn_driver_hooks *hooks)
{
    o->arg = s;
    o->manual_dispatch = true;
    o->started = on_started;
    o->new_leader = on_new_leader;
    o->trace = on_trace;
    hooks->stopping = on_stopping;
    hooks->failed = on_failed;
    hooks->halted = on_halted;
    if (s->leader_page)
        hooks->lead = on_lead;
}

/* ---- Drained, in the loop ------------------------------------------------- */

static bool lost(const char *why)
{
    return strcmp(why, tn_stop_text(TN_STOP_YIELD)) != 0 &&
           strcmp(why, tn_stop_text(TN_STOP_SHUTDOWN)) != 0;
}

static void take_stop(struct tn_supervisor *s, const char *why)
{
    bool yields = strcmp(why, tn_stop_text(TN_STOP_YIELD)) == 0;

    s->stop_taken = true;
    s->stop_lost = lost(why);
    snprintf(s->why, sizeof s->why, "%s", yields && s->yield_why[0] ? s->yield_why : why);
    tn_supervisor_step(s, &(struct tn_machine_event){.kind = TN_ON_STOP, .lost = s->stop_lost});
}

void tn_supervisor_answer_stop(struct tn_supervisor *s)
{
    struct tn_inbox *m = &s->inbox;

    s->stop_taken = false;
    s->why[0] = s->yield_why[0] = '\0';
    pthread_mutex_lock(&m->lock);
    m->stop = false;
    pthread_mutex_unlock(&m->lock);
    tn_driver_stopped(s->elector);
}

static void take_start(struct tn_supervisor *s, uint64_t epoch)
{
    s->unsealed = false;
    s->self.trouble[0] = '\0';
    tn_supervisor_step(
        s, &(struct tn_machine_event){.kind = s->idle_epoch == epoch ? TN_ON_LEAD_IDLE : TN_ON_LEAD,
                                      .epoch = epoch});
}

/* The store could not be opened. */
static void take_failure(struct tn_supervisor *s, enum tenure_status status, const char *text)
{
    bool timed_out = tenure_status_class(status) == TENURE_CLASS_TRANSIENT;

    tn_log("failed", "%s%s", text, timed_out ? "; given up (--start-timeout)" : "");
    tn_supervisor_step(
        s, &(struct tn_machine_event){.kind = TN_ON_GIVEN_UP,
                                      .code = timed_out ? s->codes->gave_up
                                                        : tn_supervisor_code_for(s, status)});
}

static void take_unsealed(struct tn_supervisor *s, const char *why)
{
    tn_log("state", "the state is not sealed yet: %s", why);
    s->unsealed = true;
    snprintf(s->self.trouble, sizeof s->self.trouble, "%.*s", (int)sizeof s->self.trouble - 1, why);
    tn_supervisor_sync(s, TN_PEER_ANNOUNCE);
}

static void take_leader(struct tn_supervisor *s, const char *leader, uint64_t epoch)
{
    tn_supervisor_seen_leader(s, epoch);
    if (s->unsealed) /* which is another state now */
        tn_supervisor_sync(s, TN_PEER_ANNOUNCE);
    tn_supervisor_hook_leader(s, leader, epoch);
    tn_supervisor_compare_lease(s);
    if (strcmp(leader, s->id) == 0)
        return;
    if (leader[0])
        tn_log("standby", "%s leads, epoch %" PRIu64 "; standing by", leader, epoch);
    else if (s->machine.life == TN_LIFE_ACTIVE)
        tn_log("vacant", "no leader; contending");
    tn_notify(&s->notify, "STATUS=standby; %s leads", leader[0] ? leader : "nobody");
    if (leader[0])
        tn_supervisor_once_held(s, leader);
}

/* Trouble is said once, not at every try; its end too, with how long it lasted. */
static void take_trouble(struct tn_supervisor *s, const char *trouble, bool refused,
                         int64_t gone_ns)
{
    char store[TN_URL_MAX + 1];

    if (trouble[0]) {
        if (!tn_outage_news(&s->outage, trouble, tenure_now()))
            return;
        tenure_url_redact(s->options->elector.store, store, sizeof store);
        if (refused)
            tn_log("trouble",
                   "%s; nobody claims it before it is replaced: look at it, then "
                   "`tenure reset --name %s --store '%s'`",
                   trouble, s->options->elector.name, store);
        else
            tn_log("trouble", "%s", trouble);
    } else if (tn_outage_over(&s->outage)) {
        if (gone_ns > 0)
            tn_log("recovered", "the store answers again, after %.1f s", (double)gone_ns / 1e9);
        else
            tn_log("recovered", "the lease record can be read again");
    }
}

/* Memory is given back once the news have been dealt with, never while a program waits to start. */
#define TRIM_NS (2 * TN_S)

void tn_supervisor_inbox_drain(struct tn_call *call)
{
    struct tn_supervisor *s =
        (struct tn_supervisor *)((char *)call - offsetof(struct tn_supervisor, drain));
    struct tn_inbox *m = &s->inbox;
    struct tn_inbox news;

    pthread_mutex_lock(&m->lock);
    news = *m;
    m->start = m->unsealed = m->gave_up = m->renewed = m->leader_changed = m->control_changed =
        m->request_fresh = m->troubled = m->memory_changed = m->prove = false;
    m->failed = TENURE_OK;
    pthread_mutex_unlock(&m->lock);

    if (news.failed)
        take_failure(s, news.failed, news.failure);
    if (news.troubled)
        take_trouble(s, news.trouble, news.refused, news.gone_ns);
    if (news.memory_changed)
        tn_supervisor_forgot(s, news.forgot_epoch);
    if (news.renewed)
        tn_log("renewed", "the lease was renewed in %.1f ms", (double)news.renewal_ns / 1e6);
    if (news.unsealed)
        take_unsealed(s, news.unsealed_why);
    if (news.gave_up)
        tn_log("unsealed",
               "the state could not be sealed; the lease is given up for a while, so that "
               "another candidate can try");
    if (news.stop && !s->stop_taken)
        take_stop(s, news.why);
    if (news.start)
        take_start(s, news.epoch);
    if (news.control_changed)
        tn_supervisor_take_control(s, &news.control, news.request_fresh);
    if (news.leader_changed)
        take_leader(s, news.leader, news.leader_epoch);
    if (news.prove)
        tn_supervisor_proof_begin(s, &news.suspect, &news.suspect_token);
    if (news.halted)
        tn_supervisor_happened(s, TN_ON_HALTED);
    s->trim.at_ns = tenure_now() + TRIM_NS;
}
