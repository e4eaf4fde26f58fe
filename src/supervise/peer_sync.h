/*
 * supervise/peer_sync.h - the candidate's records in the store, on a worker.
 *
 * Announcing oneself, answering calls, finding out who else is there: none of it is
 * urgent and all of it may block, so it must not happen on the driver's thread.
 * The store is open only while there is something to do.
 */
#ifndef TN_SUPERVISE_PEER_SYNC_H
#define TN_SUPERVISE_PEER_SYNC_H

#include "os/worker.h"
#include "supervise/fence_turn.h"
#include "tenure/control.h"

enum tn_peer_job {
    TN_PEER_ANNOUNCE = 1 << 0,   /* write our record */
    TN_PEER_MEMBERSHIP = 1 << 1, /* have the others read the records again */
    TN_PEER_RANK = 1 << 2,       /* how many better candidates stand by? */
    TN_PEER_STEP_DOWN = 1 << 3,  /* is there a healthy candidate to step down for? */
    TN_PEER_PREEMPT = 1 << 4,    /* we outrank the leader: request a hand-over to us */
    TN_PEER_WITHDRAW = 1 << 5,   /* remove our record; instead of all jobs that came before */
    TN_PEER_TURN = 1 << 6,       /* may we run the fence command? */
    TN_PEER_TURN_OVER = 1 << 7,  /* it has ended */
};

/* Which of two candidates with the same priority is better. */
enum tn_prefer { TN_PREFER_NONE, TN_PREFER_OLDEST, TN_PREFER_NEWEST };

struct tn_peer_result {
    unsigned done; /* jobs */
    unsigned better;
    bool successor; /* a healthy candidate answers that it stands by */
    bool turn;      /* it is ours */
    /* ANNOUNCE, RANK: what was found in our record, after this process had written it. */
    struct tenure_candidate duplicate; /* what another process wrote; its id is "" if none did */
    bool removed;                      /* nothing: another process wrote it, and has left */
};

struct tn_peer_sync {
    const char *store;
    const char *name;
    enum tn_prefer prefer;
    void (*finished)(void *arg, const struct tn_peer_result *result); /* in the loop */
    /* On the worker's thread: a store request is on, and ends by until_ns; 0: it has ended.  May be
     * NULL. */
    void (*request)(void *arg, int64_t until_ns);
    void *arg;
    struct tn_worker *worker;

    int64_t turn_limit_ns;       /* TURN: of the command */
    struct tenure_token suspect; /* TURN: of the lease, as it was read */

    struct tn_fence_turn turn;
    bool running;
    bool announced; /* our record was written */
    unsigned jobs;  /* for when it has finished */
    struct tenure_candidate self;
};

/* Jobs, at once or after those that run; self is copied. */
void tn_peer_sync_post(struct tn_peer_sync *p, unsigned jobs, const struct tenure_candidate *self);
/* Nothing is under way. */
bool tn_peer_sync_idle(const struct tn_peer_sync *p);

/* a is a better leader than b. */
bool tn_peer_outranks(const struct tenure_candidate *a, const struct tenure_candidate *b,
                      enum tn_prefer prefer);
/*
 * Of two processes with the same id, self does not contend, but other does; both come to the same
 * answer from the two records.  Only a leader and a healthy standby contend: no other one keeps
 * anybody from it.  A leader comes first, then who began to contend earlier.
 */
bool tn_peer_holds_back(const struct tenure_candidate *self, const struct tenure_candidate *other);

#endif
