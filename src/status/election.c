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
    e->page = o->leader_page;
    if (e->page)
        atomic_store(&e->page->answer_ns, o->answer_ns);
    e->started_ms = tn_wall_ms();
    e->record.healthy = true;
    pthread_mutex_init(&e->lock, NULL);
    pthread_rwlock_init(&e->state_lock, NULL);
    tn_history_cache_init(e);
    return e;
}

struct tn_election *tn_election_new_remote(const char *name,
                                           const struct tn_election_remote *remote, void *arg)
{
    struct tn_election_options o = {.name = name, .store = ""};
    struct tn_election *e = tn_election_new(&o);

    if (e) {
        e->remote = remote;
        e->remote_arg = arg;
    }
    return e;
}

void tn_election_free(struct tn_election *e)
{
    if (!e)
        return;
    tn_history_cache_end(e);
    pthread_rwlock_destroy(&e->state_lock);
    pthread_mutex_destroy(&e->lock);
    free(e->store);
    free(e);
}

/* ---- What its owner reports ------------------------------------------------------------- */

void tn_election_notify(struct tn_election *e, bool plain)
{
    if (!plain)
        atomic_fetch_add(&e->version, 1);
    /* Under the lock, so that nobody is called who has gone. */
    pthread_mutex_lock(&e->lock);
    for (int i = 0; i < TN_WATCHERS; i++) {
        if (e->watchers[i].changed && !(plain && i == TN_WATCHER_SOCKET))
            e->watchers[i].changed(e->watchers[i].arg);
    }
    pthread_mutex_unlock(&e->lock);
}

void tn_election_on_change(struct tn_election *e, enum tn_watcher who, void (*changed)(void *arg),
                           void *arg)
{
    pthread_mutex_lock(&e->lock);
    e->watchers[who].changed = changed;
    e->watchers[who].arg = arg;
    pthread_mutex_unlock(&e->lock);
}

void tn_election_attach(struct tn_election *e, tenure_elector *elector)
{
    atomic_store(&e->elector, elector);
    tn_election_notify(e, false);
}

static void count_renewal(struct tn_election_record *r, int64_t took_ns)
{
    unsigned i = 0;

    while (i < TN_BUCKETS && took_ns > tn_buckets_ns[i])
        i++;
    r->buckets[i]++;
    r->renewals++;
    r->renew_sum_ns += took_ns;
    r->recent_ns[r->recent_at] = took_ns;
    r->recent_at = (r->recent_at + 1) % TN_RECENT;
    if (r->recent_n < TN_RECENT)
        r->recent_n++;
    r->trouble[0] = '\0';
}

/* The lease record's word, and whether somebody had asked for it. */
static enum tn_cause cause_of(const struct tn_election_record *r, const struct tn_snapshot *now,
                              const char *word)
{
    const struct tenure_control *c = &now->control;

    if (strcmp(word, "absent") == 0)
        return TN_CAUSE_FIRST;
    if (strcmp(word, "expired") == 0)
        return TN_CAUSE_EXPIRED;
    if (strcmp(word, "reclaimed") == 0)
        return TN_CAUSE_RECLAIMED;
    if (strcmp(word, "proved") == 0)
        return TN_CAUSE_PROVED;
    if (now->crashed)
        return TN_CAUSE_CRASHED;
    if (strcmp(c->kind, "yield") == 0 && c->epoch != 0 && c->epoch == r->leader_epoch)
        return c->to[0] ? TN_CAUSE_HANDOVER : TN_CAUSE_STEP_DOWN; /* a hand-over names who */
    return TN_CAUSE_RELEASED;
}

/* Under the lock.  True: those who wait for a change want to know. */
static bool count_trace(struct tn_election *e, const struct tenure_trace *t,
                        const struct tn_snapshot *now)
{
    struct tn_election_record *r = &e->record;
    char trouble[sizeof r->trouble];
    bool news = true;

    switch (t->kind) {
    case TENURE_TRACE_RENEWED:
        count_renewal(r, t->took_ns);
        return false;
    case TENURE_TRACE_TROUBLE:
    case TENURE_TRACE_REFUSED:
        if (t->kind == TENURE_TRACE_TROUBLE && (unsigned)t->status < TN_STATUSES)
            r->failures[t->status]++;
        snprintf(trouble, sizeof trouble, "%.*s", (int)sizeof trouble - 1, t->text);
        news = strcmp(tn_outage_reason(r->trouble), tn_outage_reason(trouble)) != 0;
        memcpy(r->trouble, trouble, sizeof trouble);
        return news;
    case TENURE_TRACE_RECOVERED:
        r->trouble[0] = '\0';
        break;
    case TENURE_TRACE_STOPPING:
        r->unsealed_terms += strcmp(t->text, tn_stop_text(TN_STOP_UNSEALED)) == 0;
        break;
    case TENURE_TRACE_LEADER:
        r->trouble[0] = '\0';
        if (t->leader[0] && strcmp(t->leader, t->id) == 0)
            r->cause = cause_of(r, now, t->text);
        if (t->leader[0])
            r->leader_epoch = t->epoch;
        break;
    default:
        break;
    }
    return news;
}

void tn_election_trace(struct tn_election *e, const struct tenure_trace *t)
{
    struct tn_snapshot now;

    tn_election_read_driver(e, &now);
    pthread_mutex_lock(&e->lock);
    bool news = count_trace(e, t, &now);
    pthread_mutex_unlock(&e->lock);
    if (t->kind == TENURE_TRACE_LEADER)
        atomic_store(&e->wants_refresh, true);
    tn_election_notify(e, !news);
}

void tn_election_control(struct tn_election *e)
{
    atomic_store(&e->wants_refresh, true); /* somebody may have come or gone */
    tn_election_notify(e, false);
}

void tn_election_began(struct tn_election *e, uint64_t epoch)
{
    struct tenure_term_record term = {.epoch = epoch, .from_ms = tn_wall_ms()};
    struct tn_snapshot now;

    tn_election_read_driver(e, &now);
    snprintf(term.holder, sizeof term.holder, "%s", now.id);
    pthread_mutex_lock(&e->lock);
    struct tn_election_record *r = &e->record;
    bool again = r->began_epoch == epoch;
    uint64_t heard_ms = r->cause == TN_CAUSE_RECLAIMED ? 0 : now.heard_ms;
    if (!again) {
        r->began_epoch = epoch;
        r->takeovers[r->cause]++;
    }
    snprintf(term.cause, sizeof term.cause, "%s", tn_cause_word(r->cause));
    pthread_mutex_unlock(&e->lock);
    if (again)
        return;
    tn_history_cache_begin_term(e, &term, heard_ms);
    tn_election_notify(e, false);
}

static void show_running(const struct tn_election *e, bool running)
{
    if (e->page)
        atomic_store(&e->page->running, running);
}

const char *tn_election_cause(struct tn_election *e)
{
    pthread_mutex_lock(&e->lock);
    enum tn_cause cause = e->record.cause;
    pthread_mutex_unlock(&e->lock);
    return tn_cause_text(cause);
}

void tn_election_running(struct tn_election *e, bool running)
{
    show_running(e, running);
    if (atomic_exchange(&e->running, running) != running)
        tn_election_notify(e, false);
}

void tn_election_ended(struct tn_election *e, uint64_t epoch, const char *why, bool lost)
{
    struct tenure_term_record term = {.epoch = epoch, .to_ms = tn_wall_ms()};
    struct tn_snapshot now;

    tn_election_read_driver(e, &now);
    snprintf(term.holder, sizeof term.holder, "%s", now.id);
    snprintf(term.end, sizeof term.end, "%s", why);
    tn_text_repair(term.end, '?'); /* a long id may have been cut */
    atomic_store(&e->running, false);
    show_running(e, false);
    pthread_mutex_lock(&e->lock);
    struct tn_election_record *r = &e->record;
    bool ours = r->began_epoch == epoch && r->ended_epoch != epoch;
    if (ours) {
        r->ended_epoch = epoch;
        r->losses += lost;
        snprintf(r->end, sizeof r->end, "%s", why);
    }
    pthread_mutex_unlock(&e->lock);
    if (ours)
        tn_history_cache_end_term(e, &term);
    tn_election_notify(e, false);
}

void tn_election_stopping(struct tn_election *e)
{
    atomic_store(&e->stopping, true);
    if (e->page)
        atomic_store(&e->page->stopping, true);
    tn_election_notify(e, false);
}

void tn_election_healthy(struct tn_election *e, bool healthy, const char *why)
{
    pthread_mutex_lock(&e->lock);
    e->record.healthy = healthy;
    snprintf(e->record.unhealthy, sizeof e->record.unhealthy, "%s", why ? why : "");
    pthread_mutex_unlock(&e->lock);
    tn_election_notify(e, false);
}

void tn_election_contain(struct tn_election *e, const char *containment)
{
    pthread_mutex_lock(&e->lock);
    e->record.has_guard = containment != NULL;
    snprintf(e->record.containment, sizeof e->record.containment, "%s",
             containment ? containment : "");
    pthread_mutex_unlock(&e->lock);
}

void tn_election_killed(struct tn_election *e)
{
    pthread_mutex_lock(&e->lock);
    e->record.kills++;
    pthread_mutex_unlock(&e->lock);
    tn_election_notify(e, false);
}

void tn_election_exited(struct tn_election *e)
{
    pthread_mutex_lock(&e->lock);
    e->record.exits++;
    pthread_mutex_unlock(&e->lock);
    tn_election_notify(e, true);
}

bool tn_election_warn(struct tn_election *e, unsigned warning, const char *text)
{
    pthread_mutex_lock(&e->lock);
    char *kept = e->record.warnings[warning];
    bool news = strncmp(kept, text, sizeof e->record.warnings[0] - 1) != 0;
    snprintf(kept, sizeof e->record.warnings[0], "%.*s", (int)sizeof e->record.warnings[0] - 1,
             text);
    pthread_mutex_unlock(&e->lock);
    if (news)
        tn_election_notify(e, false);
    return news;
}

void tn_election_probed(struct tn_election *e, enum tn_probe_of which, bool healthy)
{
    pthread_mutex_lock(&e->lock);
    bool news = !e->record.probes[which].asked || e->record.probes[which].healthy != healthy;
    e->record.probes[which].asked = true;
    e->record.probes[which].healthy = healthy;
    if (healthy)
        e->record.probes[which].good++;
    else
        e->record.probes[which].bad++;
    pthread_mutex_unlock(&e->lock);
    tn_election_notify(e, !news);
}

/* ---- The state ----------------------------------------------------------- */

static void add_collection(struct tn_election_record *r, const char *collection)
{
    for (unsigned i = 0; i < r->n_collections; i++) {
        if (strcmp(r->collections[i], collection) == 0)
            return;
    }
    if (r->n_collections < TN_COLLECTIONS && strlen(collection) < sizeof r->collections[0])
        snprintf(r->collections[r->n_collections++], sizeof r->collections[0], "%s", collection);
}

void tn_election_committed(struct tn_election *e, const char *collection, const char *id,
                           uint64_t seq)
{
    pthread_mutex_lock(&e->lock);
    struct tn_election_record *r = &e->record;
    struct tn_commit_record *note = &r->last[r->last_at];
    r->commits++;
    snprintf(note->collection, sizeof note->collection, "%s", collection);
    snprintf(note->id, sizeof note->id, "%s", id);
    tn_text_repair(note->id, '?');
    note->seq = seq;
    note->at_ms = tn_wall_ms();
    r->last_at = (r->last_at + 1) % TN_COMMITS;
    if (r->last_n < TN_COMMITS)
        r->last_n++;
    add_collection(r, collection);
    pthread_mutex_unlock(&e->lock);
    tn_election_notify(e, true);
}

void tn_election_unsealed(struct tn_election *e, const char *why)
{
    pthread_mutex_lock(&e->lock);
    snprintf(e->record.unsealed, sizeof e->record.unsealed, "%.*s",
             (int)sizeof e->record.unsealed - 1, why);
    pthread_mutex_unlock(&e->lock);
    tn_election_notify(e, false);
}

void tn_election_fenced(struct tn_election *e)
{
    pthread_mutex_lock(&e->lock);
    e->record.fenced++;
    pthread_mutex_unlock(&e->lock);
    tn_election_notify(e, false);
}

void tn_election_state(struct tn_election *e, tn_election_state_fn answer, void *arg)
{
    pthread_mutex_lock(&e->lock);
    e->record.has_state = answer != NULL;
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
