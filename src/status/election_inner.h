/* status/election_inner.h - the facts of one election; election.c and its sisters share them. */
#ifndef TN_STATUS_ELECTION_INNER_H
#define TN_STATUS_ELECTION_INNER_H

#include <pthread.h>
#include <stdatomic.h>

#include "driver/driver.h"
#include "status/election.h"

#define TN_RECENT      60 /* renewals whose time is kept one by one */
#define TN_BUCKETS     13 /* of the histogram, without the last, which holds all */
#define TN_COMMITS     8  /* last commits that are shown */
#define TN_COLLECTIONS 16
#define TN_CANDIDATES  64
#define TN_STATUSES    16

/* Why terms of ours began; the words are in election.c. */
enum tn_cause {
    TN_CAUSE_FIRST,
    TN_CAUSE_HANDOVER,
    TN_CAUSE_RELEASED,
    TN_CAUSE_EXPIRED,
    TN_CAUSE_RECLAIMED,
    TN_CAUSE_CRASHED,
    TN_CAUSES
};

/* Upper bounds in nanoseconds. */
extern const int64_t tn_buckets_ns[TN_BUCKETS];
const char *tn_cause_word(enum tn_cause cause);

struct tn_commit_note {
    char collection[64], id[96];
    uint64_t seq, at_ms;
};

/* What is counted and copied under the lock; nothing in it points anywhere. */
struct tn_election_facts {
    uint64_t renewals, failures[TN_STATUSES];
    uint64_t buckets[TN_BUCKETS + 1];
    int64_t renew_sum_ns;
    int64_t recent_ns[TN_RECENT];
    unsigned recent_n, recent_at; /* how many, and where the next goes */
    uint64_t takeovers[TN_CAUSES];
    uint64_t losses; /* terms of ours that ended unasked */
    char trouble[256];

    enum tn_cause cause;   /* of the grant in hand */
    uint64_t leader_epoch; /* as last seen */
    uint64_t began_epoch;  /* the last term of ours that began */
    uint64_t ended_epoch;  /* the last that ended */
    char end[96];          /* why */

    bool healthy;
    char unhealthy[160];
    bool has_guard;
    char containment[48];
    uint64_t kills;
    struct {
        bool asked, well;
        uint64_t good, bad;
    } probes[2];

    bool has_state;
    uint64_t commits, fenced;
    char unsealed[160]; /* why the last try to seal it failed; "" if it did not */
    uint64_t unsealed_terms;
    struct tn_commit_note last[TN_COMMITS];
    unsigned last_n, last_at;
    char collections[TN_COLLECTIONS][64];
    unsigned n_collections;
};

/* Read from the store, by the paperwork's thread alone. */
struct tn_election_papers {
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
    struct tn_facts *page;             /* NULL: nobody looks */
    const struct tn_election_far *far; /* of another process; else NULL */
    void *far_arg;
    uint64_t started_ms;

    _Atomic(tenure_elector *) elector;
    _Atomic uint64_t version;
    _Atomic bool running, stopping, wants_refresh;
    _Atomic int64_t looked_ns; /* when somebody last saw the papers and had them read anew */

    pthread_mutex_t lock; /* of these; held for a copy, never longer */
    struct tn_election_facts facts;
    void (*changed)(void *arg);
    void *changed_arg;

    pthread_rwlock_t state_lock; /* written when the state comes and goes */
    tn_election_state_fn state;
    void *state_arg;

    pthread_mutex_t papers_lock;       /* of the papers; the driver's thread never takes it */
    struct tn_election_papers *papers; /* 60 KiB; NULL: never read */

    /* The paperwork: a thread while there is some. */
    pthread_mutex_t work_lock;
    pthread_cond_t work_word;
    pthread_t thread;
    bool thread_started, thread_busy, hurry;
    bool refresh;
    struct tenure_term_record begin, end; /* epoch 0: nothing to note */
    uint64_t begin_heard_ms;
};

/* Something changed: those who wait are told.  plain: not worth an answer to a long poll. */
void tn_election_tell(struct tn_election *e, bool plain);
/* The driver's, or before there is one what the options say. */
void tn_election_snapshot(struct tn_election *e, struct tn_snapshot *out);
void tn_election_copy_facts(struct tn_election *e, struct tn_election_facts *out);

/* election_papers.c */
void tn_papers_init(struct tn_election *e);
void tn_papers_end(struct tn_election *e);
void tn_papers_note_begin(struct tn_election *e, const struct tenure_term_record *term,
                          uint64_t heard_ms);
void tn_papers_note_end(struct tn_election *e, const struct tenure_term_record *term);
/* Somebody sees the papers. */
void tn_papers_look(struct tn_election *e);

#endif
