/*
 * tenure/elector.h - take part in an election.
 *
 *     struct tenure_elector_options o = TENURE_ELECTOR_OPTIONS;
 *     o.store = "sqlite:/var/lib/app/lease.db";
 *     o.name = "app";
 *     o.started = on_started;
 *     o.stopped = on_stopped;
 *     tenure_elector_start(&o, &elector, &err);
 *
 * THREADS.  A handle may be used from any thread.  start() makes two threads:
 * one talks to the store, and never runs your code; the other runs your
 * callbacks, one at a time and in order, so that none can delay a renewal.
 * All signals are blocked in both.  With manual_dispatch there is no second
 * thread: poll tenure_elector_fd() for reading in your own loop and call
 * tenure_elector_dispatch(), which runs the callbacks that are due.
 *
 * WHAT YOUR PROGRAM MUST DO.
 *  1. Begin the exclusive work in started(), or after it.
 *  2. Ask tenure_elector_leads() right before anything that only a leader may
 *     do; it is false the moment the lease can pass on.
 *  3. In stopped(), end the work and return only when it has ended: the lease
 *     is released when stopped() returns, not before (I8).  Without a stopped()
 *     it is released at once.  time_left() says
 *     how long that may take; after that somebody else may lead.
 *  4. Carry the epoch with every write to a resource that can check it, and
 *     open the state (tenure/state.h) with the grant of the term.  Only that
 *     holds over suspend, a paused machine, or a lost lease record.
 */
#ifndef TENURE_ELECTOR_H
#define TENURE_ELECTOR_H

#include "store.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TENURE_ID_MAX   127
#define TENURE_NAME_MAX 100 /* a key holds more: the rest is for what is kept under it */

typedef struct tenure_elector tenure_elector;

/* One term of leadership. */
struct tenure_term {
    const char *name;          /* of the election */
    const char *id;            /* of this candidate */
    uint64_t epoch;            /* the fencing token: higher than that of every earlier term */
    struct tenure_grant grant; /* the same epoch, and the id: for tenure_state_open() */
};

/* What the elector did, for logs, tests and people.  Valid during the call only. */
enum tenure_trace_kind {
    TENURE_TRACE_LEADER,    /* somebody leads, or nobody does */
    TENURE_TRACE_GRANTED,   /* this candidate won a term */
    TENURE_TRACE_STARTED,   /* and began to lead */
    TENURE_TRACE_RENEWED,   /* a renewal was acknowledged */
    TENURE_TRACE_STOPPING,  /* leadership is over; text says why */
    TENURE_TRACE_STOPPED,   /* the work has ended */
    TENURE_TRACE_RELEASED,  /* the lease is free */
    TENURE_TRACE_TROUBLE,   /* a store request failed; text and status say how */
    TENURE_TRACE_REFUSED,   /* the record cannot be used; an operator must look */
    TENURE_TRACE_HALTED,    /* this candidate has ended */
    TENURE_TRACE_RECOVERED, /* the store answers again; took_ns says after how long; 0: it is the
                               record that can be used again */
};

struct tenure_trace {
    enum tenure_trace_kind kind;
    int64_t at_ns; /* CLOCK_BOOTTIME: of the decision, for what was decided */
    const char *name;
    const char *id;
    const char *leader; /* LEADER: who, or "" */
    uint64_t epoch;
    enum tenure_status status; /* TROUBLE */
    int64_t took_ns;           /* RENEWED, RELEASED: how long the store took; RECOVERED */
    const char *text;          /* one line, never NULL */
    int64_t deadline_ns;       /* in force: the work must have ended by then; 0: no grant */
};

struct tenure_elector_options {
    uint32_t size; /* set by TENURE_ELECTOR_OPTIONS; how newer libraries know what you know */

    const char *store;   /* REQUIRED: the URL; "noop:" always leads */
    const char *name;    /* REQUIRED: the election; a key of at most TENURE_NAME_MAX bytes, with
                          * no segment "state" or "candidates" behind the first */
    const char *id;      /* unique among candidates; NULL: host name, pid and a random part */
    const char *address; /* where this candidate can be reached; for people.  May be NULL */
    const char *build;   /* version of your program; for people.  May be NULL */
    int32_t priority;    /* for people, and for `tenure run` */

    int64_t ttl_ms;   /* 0: 15 s.  How long others wait after your last renewal */
    int64_t renew_ms; /* 0: ttl / 3 */
    int64_t grace_ms; /* 0: 8 s.  How long stopped() may take when you are asked to go */
    int64_t kill_ms;  /* 0: ttl / 10, at most 1 s.  From the deadline until all is quiet */
    uint32_t rho_ppm; /* 0: 100000 (10 %).  By how much clocks may run wrong */

    void *arg;
    /* All callbacks may be NULL.  They may call anything here but stop(). */
    void (*started)(void *arg, const struct tenure_term *term);
    void (*stopped)(void *arg, const struct tenure_term *term, const char *why);
    /* leader is "" when nobody leads. */
    void (*new_leader)(void *arg, const char *leader, uint64_t epoch);
    /* Runs on the store thread: be quick, do not call back. */
    void (*trace)(void *arg, const struct tenure_trace *trace);

    bool manual_dispatch;
};

#define TENURE_ELECTOR_OPTIONS                                                                     \
    {                                                                                              \
        .size = sizeof(struct tenure_elector_options)                                              \
    }

/*
 * Open the store and begin to contend.  Copies all it needs.  Blocks for as
 * long as opening the store takes, at most five seconds.  CONFIG for timings
 * that cannot be safe, with the arithmetic; what the store says otherwise.
 * On failure *elector is untouched.
 */
TENURE_CHECKED enum tenure_status tenure_elector_start(const struct tenure_elector_options *options,
                                                       tenure_elector **elector,
                                                       struct tenure_error *err);

/*
 * Stop contending; if leading, stopped() is called and the lease released.
 * Blocks until then: at most grace plus a few store requests.  Frees the
 * handle.  Accepts NULL.  Not from a callback.
 */
TENURE_API void tenure_elector_stop(tenure_elector *elector);

/*
 * Leads, right now, in *epoch (may be NULL; 0 if it does not).  One clock
 * reading and a few atomic loads; never blocks.
 */
TENURE_CHECKED bool tenure_elector_leads(const tenure_elector *elector, uint64_t *epoch);
/*
 * Wait until it leads: OK, and *grant (may be NULL) is that of the term.
 * TIMEOUT at the deadline (CLOCK_BOOTTIME); CANCELLED if it has ended.  started()
 * of that term may still be about to run.  Any number of threads may wait.
 */
TENURE_CHECKED enum tenure_status tenure_elector_wait(tenure_elector *elector, int64_t deadline,
                                                      struct tenure_grant *grant,
                                                      struct tenure_error *err);
/* Nanoseconds until the work must have ended; 0 if nothing may run. */
TENURE_API int64_t tenure_elector_time_left(const tenure_elector *elector);

/* Step down, and do not contend for the next for_ms.  Returns at once. */
TENURE_API void tenure_elector_yield(tenure_elector *elector, int64_t for_ms);
/*
 * A resource refused an epoch of ours because it knows a higher one: the term
 * is over, and the next one gets an epoch above floor.  Returns at once.
 */
TENURE_API void tenure_elector_fenced(tenure_elector *elector, uint64_t floor);

/*
 * While it runs; each returns at once.
 *
 * Unhealthy: claims nothing, and steps down if it leads.  It contends again
 * when it is healthy, as it is at the start.
 */
TENURE_API void tenure_elector_set_healthy(tenure_elector *elector, bool healthy);
/* As in the options; the next renewal or claim shows it. */
TENURE_API void tenure_elector_set_priority(tenure_elector *elector, int32_t priority);
/*
 * Another ttl and another interval of renewals, 0 as in the options; the other
 * times stay.  A lower ttl binds when it is sent, a higher one when it is
 * acknowledged.  CONFIG for times that cannot be safe, with the arithmetic;
 * then nothing has changed.
 */
TENURE_CHECKED enum tenure_status tenure_elector_set_ttl(tenure_elector *elector, int64_t ttl_ms,
                                                         int64_t renew_ms,
                                                         struct tenure_error *err);

/* A snapshot, for status pages. */
struct tenure_elector_status {
    uint32_t size; /* set by TENURE_ELECTOR_STATUS */
    char id[TENURE_ID_MAX + 1];
    char
        phase[16]; /* "new", "following", "sealing", "leading", "stopping", "releasing", "halted" */
    char leader[TENURE_ID_MAX + 1]; /* as last seen; "" if nobody */
    uint64_t leader_epoch;
    uint64_t renewals;   /* acknowledged */
    uint64_t troubles;   /* store requests that failed */
    int64_t deadline_ns; /* CLOCK_BOOTTIME; 0 without a grant */
    char trouble[256];   /* the last one; "" if the last request was fine */
};

#define TENURE_ELECTOR_STATUS                                                                      \
    {                                                                                              \
        .size = sizeof(struct tenure_elector_status)                                               \
    }

TENURE_API void tenure_elector_status(tenure_elector *elector,
                                      struct tenure_elector_status *status);

/* With manual_dispatch: readable when dispatch() has something to do; else -1. */
TENURE_API int tenure_elector_fd(const tenure_elector *elector);
/* Run the callbacks that are due, in the caller's thread. */
TENURE_API void tenure_elector_dispatch(tenure_elector *elector);

#ifdef __cplusplus
}
#endif
#endif
