/*
 * faultstore.h - a store that wraps another and misbehaves on command.
 *
 *   tn_fault *f = NULL;
 *   tn_fault_new("x", "memory:x", &f, &err);
 *   tn_fault_hook(f, my_hook, arg);          decides about every call
 *   tenure_store_open("fault:x", ...);       any number of handles
 *
 * Every fault keeps the contract of tenure/store.h unless it says otherwise:
 * what is told UNKNOWN may have happened, or happens later.  Uses the public
 * header only.
 */
#ifndef TN_FAULTSTORE_H
#define TN_FAULTSTORE_H

#include <tenure/store.h>

typedef struct tn_fault tn_fault;

enum tn_fault_call {
    TN_CALL_OPEN,
    TN_CALL_READ,
    TN_CALL_SWAP,
    TN_CALL_BATCH,
    TN_CALL_WAIT,
    TN_CALL_LIST,
};

enum tn_fault_action {
    TN_FAULT_PASS,         /* as the inner store says */
    TN_FAULT_DROP_REQUEST, /* never sent: a swap is UNKNOWN, anything else TIMEOUT */
    TN_FAULT_DROP_ANSWER,  /* sent, and done; a swap is UNKNOWN, anything else TIMEOUT */
    TN_FAULT_LATER,        /* a swap or batch: UNKNOWN, and sent later; see calls and later_ns */
    TN_FAULT_CUT,          /* a batch: the first `calls` members are done, all are UNKNOWN */
    TN_FAULT_FAIL,         /* not sent; answered with `status` */
    TN_FAULT_DEAF,         /* a wait: hears nothing until its deadline.  Breaks C6 on purpose */
    TN_FAULT_SPURIOUS,     /* a wait: OK at once */
};

/* What to do with one call.  All zero: pass it on. */
struct tn_fault_plan {
    enum tn_fault_action action;
    int64_t
        before_ns; /* delay in front of the request; a call that reaches its deadline is TIMEOUT */
    int64_t after_ns;          /* delay in front of the answer; then a swap is UNKNOWN */
    enum tenure_status status; /* FAIL */
    unsigned calls;            /* LATER: after so many further calls; CUT */
    int64_t later_ns;          /* LATER: after so long, if calls is 0 */
};

struct tn_fault_event {
    enum tn_fault_call call;
    uint64_t number; /* of the call, from 1, over all handles */
    unsigned handle; /* which made it, from 1, in the order of opening */
    const char *key; /* register or prefix; the first one of a batch or a wait; or NULL */
    const struct tenure_swap *swaps; /* SWAP, BATCH */
    size_t n;
    int64_t deadline; /* of the call */
};

/* Called before each call, on its thread, without a lock held.  May block. */
typedef void (*tn_fault_fn)(void *arg, const struct tn_fault_event *event,
                            struct tn_fault_plan *plan);
/* Called after each call with one line: "#7 h1 swap a/b 3 -> unknown (drop answer)". */
typedef void (*tn_fault_trace_fn)(void *arg, const char *line);

/* Makes "fault:ID" stand for inner_url.  An id that is in use is INVALID.  Thread-safe. */
enum tenure_status tn_fault_new(const char *id, const char *inner_url, tn_fault **fault,
                                struct tenure_error *err);
/* Applies nothing that is still to come.  Its handles must be closed.  Accepts NULL. */
void tn_fault_free(tn_fault *fault);

/* Set them before the handles are used by other threads.  NULL: pass; no trace. */
void tn_fault_hook(tn_fault *fault, tn_fault_fn hook, void *arg);
void tn_fault_trace(tn_fault *fault, tn_fault_trace_fn trace, void *arg);

/* How many swaps are still to come. */
size_t tn_fault_pending(tn_fault *fault);
/* Sends them now; how many took effect. */
size_t tn_fault_flush(tn_fault *fault);

/* A ready hook: faults at random, in percent of the calls that they can befall. */
struct tn_fault_odds {
    uint64_t seed;
    unsigned drop_request, drop_answer, later, fail, deaf, spurious;
    unsigned later_calls;      /* LATER within so many calls */
    enum tenure_status status; /* FAIL */
};
/* arg is a struct tn_fault_odds; its seed moves on under a lock. */
void tn_fault_random(void *arg, const struct tn_fault_event *event, struct tn_fault_plan *plan);

#endif
