/*
 * os/loop.h - one thread's event loop: descriptors, timers, and calls from other threads.
 *
 * Watches and timers are the caller's memory, added once; afterwards their owner sets what they
 * wait for.  A turn runs what is ready in the order in which it was added: watches, then calls,
 * then timers.  Only tn_loop_post() may be called from another thread.
 */
#ifndef TN_OS_LOOP_H
#define TN_OS_LOOP_H

#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/duration.h"
#include "tenure/status.h"

struct tn_watch {
    void (*ready)(void *arg, short events);
    void *arg;
    int fd; /* set by tn_watch_set() */
    short events, ready_events;
    struct tn_watch *next;
};

struct tn_timer {
    int64_t at_ns;                              /* TN_NEVER: not set; written by its owner */
    void (*expired)(void *arg, int64_t now_ns); /* it is not set any more; NULL: only wakes up */
    void *arg;
    struct tn_timer *next;
};

struct tn_call {
    void (*run)(struct tn_call *call); /* in the loop; call may be posted again or freed */
    struct tn_call *next;
    bool posted;
};

struct tn_loop {
    struct tn_watch *watches;
    struct tn_timer *timers;
    int timer_fd;

    pthread_mutex_t lock; /* for the calls */
    struct tn_call *calls;
    struct tn_watch wake;
};

/* UNAVAILABLE if there is no descriptor.  Needs tn_loop_close(), also after a failure. */
enum tenure_status tn_loop_open(struct tn_loop *l, struct tenure_error *err);
void tn_loop_close(struct tn_loop *l);

/* For descriptor -1: nothing, until tn_watch_set(). */
void tn_loop_watch(struct tn_loop *l, struct tn_watch *w, int fd,
                   void (*ready)(void *arg, short events), void *arg);
/* Another descriptor, or none (-1).  What was ready of the former one is forgotten. */
void tn_watch_set(struct tn_watch *w, int fd, short events);
/* Set to TN_NEVER. */
void tn_loop_timer(struct tn_loop *l, struct tn_timer *t,
                   void (*expired)(void *arg, int64_t now_ns), void *arg);
/* Have it run in the loop; once, if it is posted again before that.  From any thread. */
void tn_loop_post(struct tn_loop *l, struct tn_call *call);
/* It does not run any more, if it was posted. */
void tn_loop_cancel(struct tn_loop *l, struct tn_call *call);

/* Wait for something, and deal with all that is ready. */
void tn_loop_turn(struct tn_loop *l);

#endif
