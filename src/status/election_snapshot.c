/* One election as others ask for it, whether it is of this process or of another. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/timing.h"
#include "os/clock.h"
#include "status/election_inner.h"

const char *tn_election_name(const struct tn_election *e)
{
    return e->name;
}

const char *tn_election_store(const struct tn_election *e)
{
    return e->store;
}

static bool remote_leads(const struct tn_election *e, bool *running)
{
    struct tn_leader_view view;

    e->remote->leader(e->remote_arg, &view);
    *running = view.running;
    return view.leads;
}

bool tn_election_leads(const struct tn_election *e)
{
    const tenure_elector *elector = atomic_load(&e->elector);
    bool running;

    if (e->remote)
        return remote_leads(e, &running);
    return elector && tenure_elector_leads(elector, NULL);
}

bool tn_election_ready(const struct tn_election *e)
{
    bool running;

    if (e->remote)
        return remote_leads(e, &running) && running;
    return atomic_load(&e->running) && tn_election_leads(e);
}

bool tn_election_is_stopping(const struct tn_election *e)
{
    return e->remote ? e->remote->stopping(e->remote_arg) : atomic_load(&e->stopping);
}

bool tn_election_is_fresh(const struct tn_election *e, uint64_t *ping)
{
    return !e->remote || e->remote->fresh(e->remote_arg, ping);
}

void *tn_election_remote(const struct tn_election *e)
{
    return e->remote ? e->remote_arg : NULL;
}

bool tn_election_wants_refresh(struct tn_election *e)
{
    return atomic_exchange(&e->wants_refresh, false);
}

/* ---- The snapshot -------------------------------------------------------- */

void tn_election_read_driver(struct tn_election *e, struct tn_snapshot *out)
{
    tenure_elector *elector = atomic_load(&e->elector);

    if (elector)
        tn_driver_snapshot(elector, out);
    else
        *out = (struct tn_snapshot){.phase = TN_PHASE_HALTED};
    memcpy(out->name, e->name, sizeof out->name);
    if (out->ttl_ns == 0) { /* the store is not open yet */
        out->ttl_ns = e->ttl_ms * TN_MS;
        out->renew_ns = e->renew_ms * TN_MS;
    }
}

/* Under the cache's lock. */
static void read_cache(const struct tn_history_cache *cache, struct tn_election_snapshot *s)
{
    s->gap_ms = -1;
    if (!cache)
        return;
    s->n_candidates = cache->n_candidates;
    for (unsigned i = 0; i < cache->n_candidates; i++)
        s->n_healthy += cache->candidates[i].healthy;
    if (cache->history.n > 0)
        s->gap_ms = cache->history.terms[cache->history.n - 1].gap_ms;
    if (s->n_listed)
        memcpy(tn_snapshot_candidates(s), cache->candidates,
               s->n_listed * sizeof cache->candidates[0]);
    if (s->n_terms)
        memcpy(tn_snapshot_terms(s), cache->history.terms,
               s->n_terms * sizeof cache->history.terms[0]);
}

static struct tn_election_snapshot *new_snapshot(struct tn_election *e, bool lists)
{
    pthread_mutex_lock(&e->cache_lock);
    const struct tn_history_cache *cache = e->cache;
    uint32_t n_listed = cache && lists ? cache->n_candidates : 0;
    uint32_t n_terms = cache && lists ? cache->history.n : 0;
    struct tn_election_snapshot *s = calloc(1, tn_snapshot_size(n_listed, n_terms));
    if (s) {
        s->n_listed = n_listed;
        s->n_terms = n_terms;
        read_cache(cache, s);
    }
    pthread_mutex_unlock(&e->cache_lock);
    return s;
}

struct tn_election_snapshot *tn_election_snapshot(struct tn_election *e, bool lists, uint64_t ping)
{
    struct tn_election_snapshot *s;

    if (e->remote)
        return e->remote->snapshot(e->remote_arg, lists, ping);
    if (lists)
        tn_history_cache_touch(e);
    if (!(s = new_snapshot(e, lists)))
        return NULL;
    s->started_ms = e->started_ms;
    /* Before the rest: a change in between makes an asker ask once more, not miss it. */
    s->changes = atomic_load(&e->version);
    pthread_mutex_lock(&e->lock);
    s->record = e->record;
    pthread_mutex_unlock(&e->lock);
    tn_election_read_driver(e, &s->driver);
    s->now_ns = tenure_now();
    s->epoch = tn_snapshot_epoch(&s->driver, s->now_ns);
    s->leads = s->epoch != 0;
    s->grant_ns = tn_snapshot_left(&s->driver, s->now_ns);
    /* What is said here has run out before the lease is released (supervise/machine.c). */
    s->left_ns = e->answer_ns > 0 && s->grant_ns > e->answer_ns ? e->answer_ns : s->grant_ns;
    s->running = atomic_load(&e->running);
    s->stopping = atomic_load(&e->stopping);
    return s;
}

void tn_election_reason(struct tn_election *e, char *out, size_t size)
{
    struct tn_election_snapshot *s = tn_election_snapshot(e, false, 0);

    if (!s)
        snprintf(out, size, "out of memory");
    else if (s->reach == TN_REACH_UNKNOWN && !s->leads)
        snprintf(out, size, "does not lead"); /* nobody has asked it, until now */
    else if (s->remote && s->leads && !s->running)
        snprintf(out, size, "leads, epoch %llu; its program does not run yet",
                 (unsigned long long)s->epoch);
    else
        tn_snapshot_reason(s, out, size);
    free(s);
}
