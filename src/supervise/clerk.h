/*
 * supervise/clerk.h - the candidate's paperwork in the store, on a thread of its own.
 *
 * Announcing oneself, answering calls, looking who else is there: none of it is
 * urgent and all of it may block, so it must not happen on the driver's thread.
 * The thread and its store handle exist only while there is something to do.
 */
#ifndef TN_SUPERVISE_CLERK_H
#define TN_SUPERVISE_CLERK_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "tenure/control.h"

enum tn_clerk_job {
    TN_CLERK_ANNOUNCE = 1 << 0, /* write our record */
    TN_CLERK_ROLL = 1 << 1,     /* let the others look */
    TN_CLERK_RANK = 1 << 2,     /* how many better candidates stand by? */
    TN_CLERK_ASIDE = 1 << 3,    /* find somebody healthy, and ask for a hand-over to him */
    TN_CLERK_PREEMPT = 1 << 4,  /* we outrank the leader: ask for a hand-over to us */
    TN_CLERK_WITHDRAW = 1 << 5, /* remove our record; the last job, instead of all others */
};

/* Which of two candidates with the same priority is better. */
enum tn_prefer { TN_PREFER_NONE, TN_PREFER_OLDEST, TN_PREFER_NEWEST };

/* What the clerk found out. */
struct tn_clerk_news {
    unsigned done; /* jobs */
    unsigned better;
    bool aside; /* somebody healthy was found, and the hand-over asked for */
};

struct tn_clerk {
    const char *store;
    const char *name;
    enum tn_prefer prefer;
    void (*tell)(void *arg, const struct tn_clerk_news *news); /* on the clerk's thread */
    /* A store request is on, and ends by until_ns; 0: it has ended.  May be NULL. */
    void (*request)(void *arg, int64_t until_ns);
    void *arg;

    pthread_mutex_t lock;
    pthread_t thread;
    bool started; /* the thread has to be joined */
    bool busy;    /* it still works */
    unsigned jobs;
    struct tenure_candidate self;
    uint64_t epoch; /* of our own term, for ASIDE */
};

void tn_clerk_init(struct tn_clerk *c);
/* Leave jobs; self and epoch are copied.  Returns at once. */
void tn_clerk_do(struct tn_clerk *c, unsigned jobs, const struct tenure_candidate *self,
                 uint64_t epoch);
/* Nothing is under way. */
bool tn_clerk_idle(struct tn_clerk *c);
/* Waits for what is under way, which may take as long as the store does: see above. */
void tn_clerk_end(struct tn_clerk *c);

/* a is a better leader than b. */
bool tn_clerk_outranks(const struct tenure_candidate *a, const struct tenure_candidate *b,
                       enum tn_prefer prefer);

#endif
