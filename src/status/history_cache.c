/*
 * The history cache of an election: terms are written into the history, candidates
 * and history are read for those who look.  On a thread of its own that exists
 * while there is something to do, never in the way of a renewal or a take-over.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "control/history.h"
#include "core/timing.h"
#include "os/thread.h"
#include "os/trim.h"
#include "status/election_inner.h"

/* Whatever caused it comes first: the program's start, the next leader's claim. */
#define CALM_NS  (300 * TN_MS)
#define LIMIT_NS (3 * TN_S)
#define AGAIN_NS (5 * TN_S)
#define TRIES    100
#define STALE_NS (2 * TN_S)

/* Taken from the election under its lock, done without. */
struct work {
    struct tenure_term_record begin, end;
    uint64_t heard_ms;
    bool refresh;
};

/* ---- The work ------------------------------------------------------------ */

static struct tn_history_cache *new_cache(void)
{
    struct tn_history_cache *p = calloc(1, sizeof *p);

    if (p)
        p->history.size = sizeof p->history;
    return p;
}

static bool add_candidate(void *arg, const struct tenure_candidate *candidate)
{
    struct tn_history_cache *p = arg;

    p->candidates[p->n_candidates++] = *candidate;
    return p->n_candidates < TN_CANDIDATES;
}

static void read_cache(struct tn_election *e, tenure_store *store)
{
    struct tn_history_cache *fresh = new_cache(), *old = fresh;

    if (!fresh)
        return;
    bool ok = tenure_candidates(store, e->name, add_candidate, fresh, tenure_now() + LIMIT_NS,
                                NULL) == TENURE_OK;
    /* A damaged history is shown as none. */
    tenure_history_look(store, e->name, &fresh->history, tenure_now() + LIMIT_NS, NULL);
    bool news = false;
    if (ok) {
        pthread_mutex_lock(&e->cache_lock);
        old = e->cache;
        news = !old || memcmp(old, fresh, sizeof *fresh) != 0;
        e->cache = fresh;
        pthread_mutex_unlock(&e->cache_lock);
    }
    free(old);
    if (news)
        tn_election_notify(e, true);
}

/* What is done is struck out of w.  The driver tells about stores that fail. */
static void do_work(struct tn_election *e, struct work *w)
{
    tenure_store *store = NULL;

    if (tenure_store_open(e->store, tenure_now() + LIMIT_NS, &store, NULL) != TENURE_OK)
        return;
    if (w->begin.epoch && tenure_history_note(store, e->name, &w->begin, w->heard_ms,
                                              tenure_now() + LIMIT_NS, NULL) == TENURE_OK)
        w->begin.epoch = 0;
    if (w->end.epoch &&
        tenure_history_note(store, e->name, &w->end, 0, tenure_now() + LIMIT_NS, NULL) == TENURE_OK)
        w->end.epoch = 0;
    if (w->refresh)
        read_cache(e, store);
    tenure_store_close(store);
}

/* Nobody else sees the store: what was noted is shown, and not written. */
static void merge_locally(struct tn_election *e, struct work *w)
{
    pthread_mutex_lock(&e->cache_lock);
    if (!e->cache)
        e->cache = new_cache();
    if (e->cache && w->begin.epoch)
        tn_history_merge(&e->cache->history, &w->begin, w->heard_ms);
    if (e->cache && w->end.epoch)
        tn_history_merge(&e->cache->history, &w->end, 0);
    w->begin.epoch = w->end.epoch = 0;
    pthread_mutex_unlock(&e->cache_lock);
    tn_election_notify(e, true);
}

/* ---- The thread ---------------------------------------------------------- */

/* A moment's rest, unless somebody is in a hurry.  Under the lock. */
static void rest(struct tn_election *e, int64_t for_ns)
{
    struct timespec at;

    clock_gettime(CLOCK_MONOTONIC, &at);
    int64_t until = at.tv_sec * TN_S + at.tv_nsec + for_ns;
    at.tv_sec = (time_t)(until / TN_S);
    at.tv_nsec = (long)(until % TN_S);
    while (!e->hurry && pthread_cond_timedwait(&e->work_wake, &e->work_lock, &at) != ETIMEDOUT)
        continue;
}

static bool take_work(struct tn_election *e, struct work *w)
{
    pthread_mutex_lock(&e->work_lock);
    if (e->begin.epoch || e->end.epoch || e->refresh)
        rest(e, CALM_NS);
    *w = (struct work){
        .begin = e->begin, .end = e->end, .heard_ms = e->begin_heard_ms, .refresh = e->refresh};
    e->begin.epoch = e->end.epoch = 0;
    e->refresh = false;
    bool any = w->begin.epoch || w->end.epoch || w->refresh;
    e->thread_busy = any;
    pthread_mutex_unlock(&e->work_lock);
    return any;
}

/* The store was away: what ended a term may well have been the same.  Later again,
 * unless there is something newer to write, or we go. */
static void put_back(struct tn_election *e, const struct work *w)
{
    pthread_mutex_lock(&e->work_lock);
    if (!e->hurry)
        rest(e, AGAIN_NS);
    if (!e->hurry && !e->begin.epoch && w->begin.epoch) {
        e->begin = w->begin;
        e->begin_heard_ms = w->heard_ms;
    }
    if (!e->hurry && !e->end.epoch && w->end.epoch)
        e->end = w->end;
    pthread_mutex_unlock(&e->work_lock);
}

static void *work_main(void *arg)
{
    struct tn_election *e = arg;
    struct work w;

    tn_thread_name("tenure-history");
    for (int tries = 0; take_work(e, &w);) {
        if (e->shared)
            do_work(e, &w);
        else
            merge_locally(e, &w);
        if ((w.begin.epoch || w.end.epoch) && ++tries < TRIES)
            put_back(e, &w);
    }
    tn_trim();
    return NULL;
}

/* Under the lock. */
static void start_work(struct tn_election *e)
{
    if (e->thread_busy)
        return; /* it looks again when it is done */
    if (e->thread_started)
        pthread_join(e->thread, NULL);
    e->thread_started = tn_thread_start(&e->thread, work_main, e, NULL) == 0;
    e->thread_busy = e->thread_started;
}

/* ---- Asking for it ------------------------------------------------------- */

void tn_history_cache_begin_term(struct tn_election *e, const struct tenure_term_record *term,
                                 uint64_t heard_ms)
{
    pthread_mutex_lock(&e->work_lock);
    e->begin = *term;
    e->begin_heard_ms = heard_ms;
    start_work(e);
    pthread_mutex_unlock(&e->work_lock);
    atomic_store(&e->wants_refresh, true);
}

void tn_history_cache_end_term(struct tn_election *e, const struct tenure_term_record *term)
{
    pthread_mutex_lock(&e->work_lock);
    if (e->begin.epoch == term->epoch) { /* not written yet: one note for both */
        e->begin.to_ms = term->to_ms;
        memcpy(e->begin.end, term->end, sizeof e->begin.end);
    } else {
        e->end = *term;
    }
    start_work(e);
    pthread_mutex_unlock(&e->work_lock);
    atomic_store(&e->wants_refresh, true);
}

void tn_election_refresh(struct tn_election *e)
{
    if (!e->shared)
        return;
    pthread_mutex_lock(&e->work_lock);
    e->refresh = true;
    start_work(e);
    pthread_mutex_unlock(&e->work_lock);
}

/* Nobody notifies us of what others write: whenever somebody looks and it is old, it is read. */
void tn_history_cache_touch(struct tn_election *e)
{
    int64_t now = tenure_now(), last = atomic_load(&e->looked_ns);

    if (now - last > STALE_NS && atomic_compare_exchange_strong(&e->looked_ns, &last, now))
        tn_election_refresh(e);
}

/* ---- Life ---------------------------------------------------------------- */

void tn_history_cache_init(struct tn_election *e)
{
    pthread_condattr_t attr;

    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&e->work_wake, &attr);
    pthread_condattr_destroy(&attr);
    pthread_mutex_init(&e->work_lock, NULL);
    pthread_mutex_init(&e->cache_lock, NULL);
}

void tn_history_cache_end(struct tn_election *e)
{
    pthread_mutex_lock(&e->work_lock);
    e->hurry = true;
    e->refresh = false; /* nobody looks any more */
    pthread_cond_broadcast(&e->work_wake);
    bool started = e->thread_started;
    pthread_mutex_unlock(&e->work_lock);
    if (started)
        pthread_join(e->thread, NULL);
    pthread_cond_destroy(&e->work_wake);
    pthread_mutex_destroy(&e->work_lock);
    pthread_mutex_destroy(&e->cache_lock);
    free(e->cache);
}
