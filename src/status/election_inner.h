/* status/election_inner.h - the state of one election; election.c and its sisters share it. */
#ifndef TN_STATUS_ELECTION_INNER_H
#define TN_STATUS_ELECTION_INNER_H

#include <pthread.h>
#include <stdatomic.h>

#include "driver/driver.h"
#include "status/election.h"
#include "status/snapshot.h"

/* Read from the store, by the cache's thread alone. */
struct tn_history_cache {
    struct tenure_candidate candidates[TN_CANDIDATES];
    unsigned n_candidates;
    struct tenure_history history;
};

struct tn_election {
    char name[TENURE_NAME_MAX + 1], address[128], build[32];
    char *store;
    int32_t priority;
    int64_t answer_ns;
    int64_t ttl_ms, renew_ms;
    bool shared;
    struct tn_leader_page *page;             /* NULL: nobody looks */
    const struct tn_election_remote *remote; /* of another process; else NULL */
    void *remote_arg;
    uint64_t started_ms;

    _Atomic(tenure_elector *) elector;
    _Atomic uint64_t version;
    _Atomic bool running, stopping, wants_refresh;
    _Atomic int64_t looked_ns; /* when the cache was last read again because somebody looked */

    pthread_mutex_t lock; /* of these; held for a copy, never longer */
    struct tn_election_record record;
    struct {
        void (*changed)(void *arg);
        void *arg;
    } watchers[TN_WATCHERS];

    pthread_rwlock_t state_lock; /* written when the state comes and goes */
    tn_election_state_fn state;
    void *state_arg;

    pthread_mutex_t cache_lock;     /* of the cache; the driver's thread never takes it */
    struct tn_history_cache *cache; /* 60 KiB; NULL: never read */

    /* A thread while there is something to write or to read. */
    pthread_mutex_t work_lock;
    pthread_cond_t work_wake;
    pthread_t thread;
    bool thread_started, thread_busy, hurry;
    bool refresh;
    struct tenure_term_record begin, end; /* epoch 0: nothing to note */
    uint64_t begin_heard_ms;
};

/* Something changed: the watchers are notified.  plain: not worth an answer to a long poll. */
void tn_election_notify(struct tn_election *e, bool plain);
/* The driver's snapshot, or before there is one what the options say. */
void tn_election_read_driver(struct tn_election *e, struct tn_snapshot *out);

/* history_cache.c */
void tn_history_cache_init(struct tn_election *e);
void tn_history_cache_end(struct tn_election *e);
void tn_history_cache_begin_term(struct tn_election *e, const struct tenure_term_record *term,
                                 uint64_t heard_ms);
void tn_history_cache_end_term(struct tn_election *e, const struct tenure_term_record *term);
/* Somebody looks: it is read again soon, if it is old. */
void tn_history_cache_touch(struct tn_election *e);

#endif
