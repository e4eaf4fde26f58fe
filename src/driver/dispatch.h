/*
 * driver/dispatch.h - the callbacks, on a thread of their own or in the caller's loop.
 *
 * The driver leaves word here and never waits.  What is left is merged: a stop
 * cancels a start that has not run, only the newest leader is announced.  A
 * timer set to the deadline ends the work even if the driver hangs in a store.
 */
#ifndef TN_DRIVER_DISPATCH_H
#define TN_DRIVER_DISPATCH_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/elector.h"
#include "tenure/elector.h"

struct tn_dispatch_calls {
    void *arg;
    /* Seal the state; then answers itself to the driver.  Never NULL. */
    void (*seal)(void *arg, const struct tenure_grant *grant);
    void (*started)(void *arg, const struct tenure_grant *grant);
    /* The work has ended; or, false, tn_dispatch_stopped() will tell. */
    bool (*stopped)(void *arg, const struct tenure_grant *grant, enum tn_stop why);
    /* The answer to every tn_dispatch_stop(), after stopped() or without it. */
    void (*all_quiet)(void *arg);
    /* The deadline came before the driver's word: what ran in that epoch has been
     * stopped, what was to start will not.  The driver may have renewed meanwhile. */
    void (*expired)(void *arg, uint64_t epoch);
    void (*new_leader)(void *arg, const char *leader, uint64_t epoch);
};

struct tn_dispatch {
    struct tn_dispatch_calls calls;
    pthread_mutex_t lock;
    pthread_t thread;
    bool threaded;
    int word_fd;  /* eventfd: something was left */
    int timer_fd; /* CLOCK_BOOTTIME: the deadline */
    int poll_fd;  /* epoll over both; what a foreign loop polls */

    /* Left by the driver, under the lock. */
    bool seal, start, stop, announce, end;
    int64_t deadline_ns; /* 0: no grant */
    struct tenure_grant grant;
    enum tn_stop why;
    char leader[TN_HOLDER_MAX + 1];
    uint64_t leader_epoch;

    /* Of the thread that runs them. */
    bool running; /* started() was called, stopped() was not */
    struct tenure_grant running_grant;
    bool stopping;          /* the work has not ended yet: nothing else is called */
    bool answers;           /* the driver waits for that */
    uint64_t expired_epoch; /* it is to be told that this epoch has expired; 0: not */
};

enum tenure_status tn_dispatch_init(struct tn_dispatch *d, const struct tn_dispatch_calls *calls,
                                    struct tenure_error *err);
/* Run the callbacks on a thread of their own. */
enum tenure_status tn_dispatch_spawn(struct tn_dispatch *d, struct tenure_error *err);
/* Ends the thread, if there is one, after what was left is done.  Accepts what init left. */
void tn_dispatch_destroy(struct tn_dispatch *d);

/* Called by the driver; none of them blocks. */
void tn_dispatch_deadline(struct tn_dispatch *d, int64_t deadline_ns);
void tn_dispatch_seal(struct tn_dispatch *d, const struct tenure_grant *grant);
void tn_dispatch_start(struct tn_dispatch *d, const struct tenure_grant *grant);
void tn_dispatch_stop(struct tn_dispatch *d, enum tn_stop why);
void tn_dispatch_leader(struct tn_dispatch *d, const char *leader, uint64_t epoch);

enum tn_dispatch_left {
    TN_DISPATCH_NOTHING,
    TN_DISPATCH_SEAL, /* seal() is next, which may block, and was not called */
    TN_DISPATCH_END,  /* nothing, and nothing will come */
};

/* Run what is due, now, in this thread, of which there is one at a time.  Says what is left. */
enum tn_dispatch_left tn_dispatch_run(struct tn_dispatch *d, bool may_seal);
/* seal() alone, if it is still due. */
void tn_dispatch_run_seal(struct tn_dispatch *d);
/* The work has ended that stopped() left to end. */
void tn_dispatch_stopped(struct tn_dispatch *d);

#endif
