/*
 * state/http/queue.h - requests for the state, on their way to the threads that answer them.
 *
 * The server's thread hands them over and parks them.  One thread takes all
 * commits that have come meanwhile, and answers them together; another one
 * answers the reads, which do not wait for commits.  Then the server is woken
 * and collects.  Each thread is started by the first request that needs it.
 */
#ifndef TN_STATE_HTTP_QUEUE_H
#define TN_STATE_HTTP_QUEUE_H

#include "state/http/http.h"

struct tn_state_queue;

struct tn_state_queue_options {
    /* Answer them all: one read, or commits.  On one of the two threads; blocks. */
    void (*answer)(void *arg, struct tn_state_request *const *requests, size_t n);
    /* Some are answered. */
    void (*wake)(void *arg);
    /* The turn that a request comes in.  On the server's thread; must not block. */
    uint64_t (*turn)(void *arg);
    int64_t span_ns; /* what came so long after the oldest commit is not answered with it */
    void *arg;
};

/* NOMEM. */
enum tenure_status tn_state_queue_open(const struct tn_state_queue_options *options,
                                       struct tn_state_queue **queue, struct tenure_error *err);
/* The server must have stopped.  Accepts NULL. */
void tn_state_queue_close(struct tn_state_queue *queue);

/* The server's handler: parks a request, and answers it when it is done.  Not begun if it is full.
 */
void tn_state_queue_handle(struct tn_state_queue *queue, const struct tn_http_request *request,
                           struct tn_http_reply *reply);
/* The server says that a request is over: whatever is left of it is waited for. */
void tn_state_queue_done(struct tn_state_queue *queue, struct tn_http_memo *memo);

#endif
