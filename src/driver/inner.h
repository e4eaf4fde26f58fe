/* driver/inner.h - the handle behind tenure_elector; driver.c, requests.c and
 * elector.c share it. */
#ifndef TN_DRIVER_INNER_H
#define TN_DRIVER_INNER_H

#include <pthread.h>
#include <stdatomic.h>

#include "driver/dispatch.h"
#include "driver/driver.h"
#include "lease/lease.h"

/* What others asked of the driver, under the lock; each is stepped as one event. */
struct tn_requests {
    bool fired;
    bool quiet; /* stopped() has returned */
    bool ended; /* the program of ended_epoch ended by itself */
    uint64_t ended_epoch;
    bool sealed;
    uint8_t sealed_grant[TENURE_NONCE_SIZE];
    bool fenced;
    uint8_t fenced_grant[TENURE_NONCE_SIZE];
    uint64_t floor;
    bool unsealed;
    uint8_t unsealed_grant[TENURE_NONCE_SIZE];
    bool seal_gained, seal_final;
    bool control;
    bool may_claim;            /* as pause and rank have it */
    bool unhealthy, step_down; /* which may not claim, and does not go on leading */
    int32_t priority;
    int64_t claim_delay_ns;
    bool yield;
    int64_t yield_until_ns;
    bool proved, proof;
    bool shutdown;
    bool retime;
    struct tn_timing timing;
};

struct tenure_elector {
    char name[TENURE_NAME_MAX + 1];
    char id[TENURE_ID_MAX + 1];
    struct tenure_elector_options options; /* its strings are not ours: store until it is opened */
    struct tn_driver_hooks hooks;
    struct tn_dispatch dispatch;
    pthread_t thread;
    bool threaded;
    int wake_fd; /* eventfd: a request was left, or the guard fired */

    /* The driver thread's own. */
    tenure_store *store;
    int id_claim;     /* os/claim.h; -1: none */
    bool id_suffixed; /* another candidate of this machine has the id that it would have had */
    struct tn_elector machine;
    struct tn_actions actions;
    struct tn_lease_seen seen;
    struct tenure_value buffer;
    bool floor_damaged; /* or not ours to read, when it was read last, and it matters */
    int64_t published_ns;
    struct tn_timing timing;       /* that the machine was told last */
    unsigned failing;              /* FAILING_...: what the store refused at the last try */
    struct tenure_token failed_on; /* what the last swap that was refused expected */
    int64_t failing_since_ns;
    int64_t answered_ns; /* while failing: the first answer since the last failure; 0 if none */
    bool waited;         /* the last wait ran out of time, and nothing has failed since */
    bool stop_sent;      /* a stop is with the callbacks, not yet quiet */
    char control_key[TENURE_KEY_MAX + 1]; /* "" without a control hook */
    struct tenure_value control;          /* as last read */
    bool control_known;                   /* it could be read at least once */
    bool control_due;                     /* look again: it may have changed */
    bool woken;                           /* a wait ended, and what changed is not known yet */
    struct tenure_token woken_from;       /* of the lease, when it began */

    pthread_mutex_t lock;
    pthread_cond_t met;       /* opened, go, a shutdown before that, another phase, halted */
    bool opened;              /* or not: found and why tell */
    bool unattended;          /* nobody waits for that any more: failed() tells */
    bool go;                  /* may contend */
    enum tenure_status found; /* at the first try to open the store; OK also if it is tried again */
    struct tenure_error why;
    int64_t open_by_ns; /* no more tries after that */
    bool planned;       /* the store is open, and the times are planned with what it promises: */
    struct tenure_store_info info;
    struct tn_requests requests;
    struct tn_snapshot snapshot;

    _Atomic int64_t lead_until_ns; /* 0: does not lead */
    _Atomic int64_t deadline_ns;
    _Atomic uint64_t epoch;
    _Atomic bool halted;
};

/* callbacks.c; without its arg. */
extern const struct tn_dispatch_calls tn_driver_calls;

void *tn_driver_main(void *elector);
/* options.c: who it is. */
enum tenure_status tn_driver_configure(tenure_elector *e, struct tenure_error *err);
/* options.c: open the store and plan with what it promises. */
enum tenure_status tn_driver_open(tenure_elector *e, struct tenure_error *err);
/* Ask something: set members of e->requests between these two. */
void tn_driver_lock(tenure_elector *e);
void tn_driver_unlock_and_wake(tenure_elector *e);
/* On the driver's thread: it is awake. */
void tn_driver_drain_wake(tenure_elector *e);

/* ---- requests.c: on the driver's thread ---- */

/* Tell whoever traces; what is the same each time is filled in. */
void tn_driver_trace(tenure_elector *e, const struct tenure_trace *t);
/* A request that does not end leaves its mark with whoever watches this process. */
void tn_driver_mark(tenure_elector *e, int64_t until_ns);
/* Carry out the request of the last step; ev is what came of it. */
void tn_driver_read(tenure_elector *e, struct tn_event *ev);
/* A term begins: whatever was wrong with the record or the floor is so no more. */
void tn_driver_began(tenure_elector *e);
void tn_driver_swap(tenure_elector *e, struct tn_event *ev);
void tn_driver_wait(tenure_elector *e, struct tn_event *ev);
/* Read the control register if it may have changed, and leave what it says as a request. */
void tn_driver_read_control(tenure_elector *e);
/* The first try to open the store failed with status; *why says how.  Try again, for as long as
 * that may help and nobody asks for a shutdown (CANCELLED). */
enum tenure_status tn_driver_open_again(tenure_elector *e, enum tenure_status status,
                                        struct tenure_error *why);

#endif
