/* One election as this process sees it: what its owner tells is counted and kept. */
#include "status/election.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "core/timing.h"
#include "os/clock.h"
#include "status/election_inner.h"
#include "status/outage.h"

const int64_t tn_buckets_ns[TN_BUCKETS] = {
    500000,    1000000,   2500000,   5000000,    10000000,   25000000,   50000000,
    100000000, 250000000, 500000000, 1000000000, 2500000000, 5000000000,
};

const char *tn_cause_word(enum tn_cause cause)
{
    static const char *const words[] = {"first",   "handover",  "released",
                                        "expired", "reclaimed", "crashed"};

    return words[cause];
}

/* ---- Life ---------------------------------------------------------------- */

struct tn_election *tn_election_new(const struct tn_election_options *o)
{
    struct tn_election *e = calloc(1, sizeof *e);

    if (!e || !(e->store = strdup(o->store))) {
        free(e);
        return NULL;
    }
    snprintf(e->name, sizeof e->name, "%s", o->name);
    snprintf(e->address, sizeof e->address, "%s", o->address ? o->address : "");
    snprintf(e->build, sizeof e->build, "%s", o->build ? o->build : "");
    e->priority = o->priority;
    e->answer_ns = o->answer_ns;
    e->ttl_ms = o->ttl_ms ? o->ttl_ms : 15000;
    e->renew_ms = o->renew_ms ? o->renew_ms : e->ttl_ms / 3;
    e->shared = o->shared;
    e->page = o->facts;
    if (e->page)
        atomic_store(&e->page->answer_ns, o->answer_ns);
    e->started_ms = tn_wall_ms();
    e->facts.healthy = true;
    pthread_mutex_init(&e->lock, NULL);
    pthread_rwlock_init(&e->state_lock, NULL);
    tn_papers_init(e);
    return e;
}

struct tn_election *tn_election_new_far(const char *name, const struct tn_election_far *far,
                                        void *arg)
{
    struct tn_election_options o = {.name = name, .store = ""};
    struct tn_election *e = tn_election_new(&o);

    if (e) {
        e->far = far;
        e->far_arg = arg;
    }
    return e;
}

void tn_election_free(struct tn_election *e)
{
    if (!e)
        return;
    tn_papers_end(e);
    pthread_rwlock_destroy(&e->state_lock);
    pthread_mutex_destroy(&e->lock);
    free(e->store);
    free(e);
}

/* ---- Telling ------------------------------------------------------------- */

void tn_election_tell(struct tn_election *e, bool plain)
{
    if (!plain)
        atomic_fetch_add(&e->version, 1);
    pthread_mutex_lock(&e->lock);
    void (*changed)(void *arg) = e->changed;
    void *arg = e->changed_arg;
    if (changed)
        changed(arg); /* under the lock, so that nobody is called who has gone */
    pthread_mutex_unlock(&e->lock);
}

void tn_election_snapshot(struct tn_election *e, struct tn_snapshot *out)
{
    tenure_elector *elector = atomic_load(&e->elector);

    if (elector)
        tn_driver_snapshot(elector, out);
    else
        *out = (struct tn_snapshot){.phase = TN_PHASE_HALTED};
    if (out->ttl_ns == 0) { /* the store is not open yet */
        out->ttl_ns = e->ttl_ms * TN_MS;
        out->renew_ns = e->renew_ms * TN_MS;
    }
}

void tn_election_copy_facts(struct tn_election *e, struct tn_election_facts *out)
{
    pthread_mutex_lock(&e->lock);
    *out = e->facts;
    pthread_mutex_unlock(&e->lock);
}

void tn_election_on_change(struct tn_election *e, void (*changed)(void *arg), void *arg)
{
    pthread_mutex_lock(&e->lock);
    e->changed = changed;
    e->changed_arg = arg;
    pthread_mutex_unlock(&e->lock);
}

void tn_election_attach(struct tn_election *e, tenure_elector *elector)
{
    atomic_store(&e->elector, elector);
    tn_election_tell(e, false);
}

static void count_renewal(struct tn_election_facts *f, int64_t took_ns)
{
    unsigned i = 0;

    while (i < TN_BUCKETS && took_ns > tn_buckets_ns[i])
        i++;
    f->buckets[i]++;
    f->renewals++;
    f->renew_sum_ns += took_ns;
    f->recent_ns[f->recent_at] = took_ns;
    f->recent_at = (f->recent_at + 1) % TN_RECENT;
    if (f->recent_n < TN_RECENT)
        f->recent_n++;
    f->trouble[0] = '\0';
}

/* The lease record's word, and whether somebody had asked for it. */
static enum tn_cause cause_of(const struct tn_election_facts *f, const struct tn_snapshot *now,
                              const char *word)
{
    const struct tenure_control *c = &now->control;

    if (strcmp(word, "absent") == 0)
        return TN_CAUSE_FIRST;
    if (strcmp(word, "expired") == 0)
        return TN_CAUSE_EXPIRED;
    if (strcmp(word, "reclaimed") == 0)
        return TN_CAUSE_RECLAIMED;
    if (now->crashed)
        return TN_CAUSE_CRASHED;
    if (strcmp(c->kind, "yield") == 0 && c->epoch != 0 && c->epoch == f->leader_epoch)
        return TN_CAUSE_HANDOVER;
    return TN_CAUSE_RELEASED;
}

/* Under the lock.  True: those who wait for a change want to know. */
static bool take_trace(struct tn_election *e, const struct tenure_trace *t,
                       const struct tn_snapshot *now)
{
    struct tn_election_facts *f = &e->facts;
    char trouble[sizeof f->trouble];
    bool news = true;

    switch (t->kind) {
    case TENURE_TRACE_RENEWED:
        count_renewal(f, t->took_ns);
        return false;
    case TENURE_TRACE_TROUBLE:
    case TENURE_TRACE_REFUSED:
        if (t->kind == TENURE_TRACE_TROUBLE && (unsigned)t->status < TN_STATUSES)
            f->failures[t->status]++;
        snprintf(trouble, sizeof trouble, "%.*s", (int)sizeof trouble - 1, t->text);
        news = strcmp(tn_outage_reason(f->trouble), tn_outage_reason(trouble)) != 0;
        memcpy(f->trouble, trouble, sizeof trouble);
        return news;
    case TENURE_TRACE_RECOVERED:
        f->trouble[0] = '\0';
        break;
    case TENURE_TRACE_STOPPING:
        f->unsealed_terms += strcmp(t->text, tn_stop_text(TN_STOP_UNSEALED)) == 0;
        break;
    case TENURE_TRACE_LEADER:
        f->trouble[0] = '\0';
        if (t->leader[0] && strcmp(t->leader, t->id) == 0)
            f->cause = cause_of(f, now, t->text);
        if (t->leader[0])
            f->leader_epoch = t->epoch;
        break;
    default:
        break;
    }
    return news;
}

void tn_election_trace(struct tn_election *e, const struct tenure_trace *t)
{
    struct tn_snapshot now;

    tn_election_snapshot(e, &now);
    pthread_mutex_lock(&e->lock);
    bool news = take_trace(e, t, &now);
    pthread_mutex_unlock(&e->lock);
    if (t->kind == TENURE_TRACE_LEADER)
        atomic_store(&e->wants_refresh, true);
    tn_election_tell(e, !news);
}

void tn_election_control(struct tn_election *e)
{
    atomic_store(&e->wants_refresh, true); /* somebody may have come or gone */
    tn_election_tell(e, false);
}

void tn_election_began(struct tn_election *e, uint64_t epoch)
{
    struct tenure_term_record term = {.epoch = epoch, .from_ms = tn_wall_ms()};
    struct tn_snapshot now;

    tn_election_snapshot(e, &now);
    snprintf(term.holder, sizeof term.holder, "%s", now.id);
    pthread_mutex_lock(&e->lock);
    struct tn_election_facts *f = &e->facts;
    bool again = f->began_epoch == epoch;
    uint64_t heard_ms = f->cause == TN_CAUSE_RECLAIMED ? 0 : now.heard_ms;
    if (!again) {
        f->began_epoch = epoch;
        f->takeovers[f->cause]++;
    }
    snprintf(term.cause, sizeof term.cause, "%s", tn_cause_word(f->cause));
    pthread_mutex_unlock(&e->lock);
    if (again)
        return;
    tn_papers_note_begin(e, &term, heard_ms);
    tn_election_tell(e, false);
}

static void show_running(const struct tn_election *e, bool running)
{
    if (e->page)
        atomic_store(&e->page->running, running);
}

const char *tn_election_cause(struct tn_election *e)
{
    static const char *const words[] = {
        [TN_CAUSE_FIRST] = "nobody has led before",
        [TN_CAUSE_HANDOVER] = "handed over",
        [TN_CAUSE_RELEASED] = "the leader before has released",
        [TN_CAUSE_EXPIRED] = "the leader before did not renew in time",
        [TN_CAUSE_RECLAIMED] = "its own lease, claimed anew",
        [TN_CAUSE_CRASHED] = "the leader before crashed, and its guard released",
    };

    pthread_mutex_lock(&e->lock);
    enum tn_cause cause = e->facts.cause;
    pthread_mutex_unlock(&e->lock);
    return words[cause];
}

void tn_election_running(struct tn_election *e, bool running)
{
    show_running(e, running);
    if (atomic_exchange(&e->running, running) != running)
        tn_election_tell(e, false);
}

static bool asked_for(const char *why)
{
    return strcmp(why, tn_stop_text(TN_STOP_YIELD)) == 0 ||
           strcmp(why, tn_stop_text(TN_STOP_SHUTDOWN)) == 0 ||
           strcmp(why, tn_stop_text(TN_STOP_PROGRAM)) == 0;
}

void tn_election_ended(struct tn_election *e, uint64_t epoch, const char *why)
{
    struct tenure_term_record term = {.epoch = epoch, .to_ms = tn_wall_ms()};
    struct tn_snapshot now;

    tn_election_snapshot(e, &now);
    snprintf(term.holder, sizeof term.holder, "%s", now.id);
    snprintf(term.end, sizeof term.end, "%s", why);
    atomic_store(&e->running, false);
    show_running(e, false);
    pthread_mutex_lock(&e->lock);
    struct tn_election_facts *f = &e->facts;
    bool ours = f->began_epoch == epoch && f->ended_epoch != epoch;
    if (ours) {
        f->ended_epoch = epoch;
        f->losses += !asked_for(why);
        snprintf(f->end, sizeof f->end, "%s", why);
    }
    pthread_mutex_unlock(&e->lock);
    if (ours)
        tn_papers_note_end(e, &term);
    tn_election_tell(e, false);
}

void tn_election_stopping(struct tn_election *e)
{
    atomic_store(&e->stopping, true);
    if (e->page)
        atomic_store(&e->page->stopping, true);
    tn_election_tell(e, false);
}

void tn_election_healthy(struct tn_election *e, bool healthy, const char *why)
{
    pthread_mutex_lock(&e->lock);
    e->facts.healthy = healthy;
    snprintf(e->facts.unhealthy, sizeof e->facts.unhealthy, "%s", why ? why : "");
    pthread_mutex_unlock(&e->lock);
    tn_election_tell(e, false);
}

void tn_election_contain(struct tn_election *e, const char *containment)
{
    pthread_mutex_lock(&e->lock);
    e->facts.has_guard = containment != NULL;
    snprintf(e->facts.containment, sizeof e->facts.containment, "%s",
             containment ? containment : "");
    pthread_mutex_unlock(&e->lock);
}

void tn_election_killed(struct tn_election *e)
{
    pthread_mutex_lock(&e->lock);
    e->facts.kills++;
    pthread_mutex_unlock(&e->lock);
    tn_election_tell(e, false);
}

void tn_election_probed(struct tn_election *e, enum tn_probe_of which, bool well)
{
    pthread_mutex_lock(&e->lock);
    bool news = !e->facts.probes[which].asked || e->facts.probes[which].well != well;
    e->facts.probes[which].asked = true;
    e->facts.probes[which].well = well;
    if (well)
        e->facts.probes[which].good++;
    else
        e->facts.probes[which].bad++;
    pthread_mutex_unlock(&e->lock);
    tn_election_tell(e, !news);
}

/* ---- The state ----------------------------------------------------------- */

static void know_collection(struct tn_election_facts *f, const char *collection)
{
    for (unsigned i = 0; i < f->n_collections; i++) {
        if (strcmp(f->collections[i], collection) == 0)
            return;
    }
    if (f->n_collections < TN_COLLECTIONS && strlen(collection) < sizeof f->collections[0])
        snprintf(f->collections[f->n_collections++], sizeof f->collections[0], "%s", collection);
}

void tn_election_committed(struct tn_election *e, const char *collection, const char *id,
                           uint64_t seq)
{
    pthread_mutex_lock(&e->lock);
    struct tn_election_facts *f = &e->facts;
    struct tn_commit_note *note = &f->last[f->last_at];
    f->commits++;
    snprintf(note->collection, sizeof note->collection, "%s", collection);
    snprintf(note->id, sizeof note->id, "%s", id);
    tn_text_repair(note->id, '?');
    note->seq = seq;
    note->at_ms = tn_wall_ms();
    f->last_at = (f->last_at + 1) % TN_COMMITS;
    if (f->last_n < TN_COMMITS)
        f->last_n++;
    know_collection(f, collection);
    pthread_mutex_unlock(&e->lock);
    tn_election_tell(e, true);
}

void tn_election_unsealed(struct tn_election *e, const char *why)
{
    pthread_mutex_lock(&e->lock);
    snprintf(e->facts.unsealed, sizeof e->facts.unsealed, "%.*s", (int)sizeof e->facts.unsealed - 1,
             why);
    pthread_mutex_unlock(&e->lock);
    tn_election_tell(e, false);
}

void tn_election_fenced(struct tn_election *e)
{
    pthread_mutex_lock(&e->lock);
    e->facts.fenced++;
    pthread_mutex_unlock(&e->lock);
    tn_election_tell(e, false);
}

void tn_election_state(struct tn_election *e, tn_election_state_fn answer, void *arg)
{
    pthread_mutex_lock(&e->lock);
    e->facts.has_state = answer != NULL;
    pthread_mutex_unlock(&e->lock);
    /* Waits for who is being answered: afterwards the old one is not called any more. */
    pthread_rwlock_wrlock(&e->state_lock);
    e->state = answer;
    e->state_arg = arg;
    pthread_rwlock_unlock(&e->state_lock);
}

bool tn_election_answer_state(struct tn_election *e, const struct tn_http_request *request,
                              struct tn_http_reply *reply)
{
    pthread_rwlock_rdlock(&e->state_lock);
    bool has = e->state != NULL;
    if (has)
        e->state(e->state_arg, request, reply);
    pthread_rwlock_unlock(&e->state_lock);
    return has;
}

/* ---- Asking -------------------------------------------------------------- */

const char *tn_election_name(const struct tn_election *e)
{
    return e->name;
}

const char *tn_election_store(const struct tn_election *e)
{
    return e->store;
}

bool tn_election_leads(const struct tn_election *e)
{
    const tenure_elector *elector = atomic_load(&e->elector);

    if (e->far)
        return e->far->leads(e->far_arg);
    return elector && tenure_elector_is_leader(elector);
}

bool tn_election_ready(const struct tn_election *e)
{
    return e->far ? e->far->ready(e->far_arg) : atomic_load(&e->running) && tn_election_leads(e);
}

bool tn_election_is_stopping(const struct tn_election *e)
{
    return e->far ? e->far->stopping(e->far_arg) : atomic_load(&e->stopping);
}

bool tn_election_is_fresh(const struct tn_election *e)
{
    return !e->far || e->far->fresh(e->far_arg);
}

void *tn_election_far(const struct tn_election *e)
{
    return e->far ? e->far_arg : NULL;
}

uint64_t tn_election_version(const struct tn_election *e)
{
    return atomic_load(&e->version);
}

bool tn_election_wants_refresh(struct tn_election *e)
{
    return atomic_exchange(&e->wants_refresh, false);
}
