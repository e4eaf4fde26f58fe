/*
 * tenure/jobs.h - share jobs with other workers: each runs once, and moves when its worker dies.
 *
 *     struct tenure_worker_options o = TENURE_WORKER_OPTIONS;
 *     o.store = "sqlite:/var/lib/app/jobs.db";
 *     o.group = "feeds";
 *     o.id = "worker-1";
 *     o.assigned = on_assigned;
 *     o.revoked = on_revoked;
 *     tenure_worker_start(&o, &worker, &err);
 *
 * The jobs of a group are added with `tenure jobs add`.  A worker joins the group with one lease,
 * which vouches for all of its jobs: holding them costs one write an interval.  The workers agree
 * on a plan that is fair and moves as little as possible; nobody takes a job from a living worker.
 *
 * THREADS.  A handle may be used from any thread.  start() makes three threads: two talk to the
 * store, and never run your code; the third runs your callbacks, one at a time and in order.  All
 * signals are blocked in them.  With manual_dispatch there is no third thread: poll
 * tenure_worker_fd() for reading in your own loop and call tenure_worker_dispatch(), which runs the
 * callbacks that are due.
 *
 * WHAT YOUR PROGRAM MUST DO.
 *  1. Begin the work on a job in assigned(), or after it, from the checkpoint that it names.
 *  2. Ask tenure_worker_holds() right before anything that only the owner of the job may do; it is
 *     false the moment another worker may have the job.
 *  3. In revoked(), or after it, end the work on that job by the deadline; commit how far it came;
 *     then call tenure_worker_finished(), when it has ended and not before: the job is released,
 *     and another worker starts it.  Without a revoked() it is finished at once.
 *  4. Store how far the work has come with tenure_worker_commit().  What is answered OK is what the
 *     next run begins with.  FENCED: the job is another worker's; end the work on it and call
 *     tenure_worker_finished().  The other jobs go on.
 *  5. Carry the epoch with every write to a resource that can check it.  Only that holds over
 *     suspend, or a paused machine.
 */
#ifndef TENURE_JOBS_H
#define TENURE_JOBS_H

#include "store.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tenure_worker tenure_worker;

/* A job that this worker is to run.  Valid during the call only. */
struct tenure_job {
    const char *id;
    uint64_t epoch;            /* the fencing token: higher than that of every earlier run */
    struct tenure_grant grant; /* the same epoch, and the id: for tenure_state_open() */
    const void *checkpoint;    /* as it was last committed; length 0: there is none */
    size_t checkpoint_len;
    const void *spec; /* as it was given to `tenure jobs add`; length 0: there is none */
    size_t spec_len;
};

/* What a worker did, for logs, tests and people. */
enum tenure_worker_event {
    TENURE_WORKER_JOINED,
    TENURE_WORKER_RENEWED,
    TENURE_WORKER_LOST,      /* the membership; text says why */
    TENURE_WORKER_LEFT,      /* one write has freed every job */
    TENURE_WORKER_WAITING,   /* it cannot join yet; text says why */
    TENURE_WORKER_TROUBLE,   /* a store request failed; status and text say how */
    TENURE_WORKER_RECOVERED, /* the store answers again */
    TENURE_WORKER_PLANNED,   /* it wrote a plan */
    TENURE_WORKER_BURIED,    /* it declared a silent worker dead: subject is its id */
    TENURE_WORKER_STARTED,   /* subject is the job; text is "taken over from ID", or "" */
    TENURE_WORKER_STOPPING,  /* subject is the job; text is the cause */
    TENURE_WORKER_RELEASED,  /* subject is the job */
    TENURE_WORKER_DAMAGED,   /* subject is a job or a register that is lost or cannot be read */
};

/* Valid during the call only. */
struct tenure_worker_trace {
    enum tenure_worker_event event;
    int64_t at_ns;       /* CLOCK_BOOTTIME */
    const char *subject; /* never NULL */
    uint64_t epoch;      /* of a job; 0 */
    enum tenure_status status;
    const char *text; /* one line, never NULL */
};

struct tenure_worker_options {
    uint32_t size; /* set by TENURE_WORKER_OPTIONS */

    const char *store;  /* REQUIRED: the URL */
    const char *group;  /* REQUIRED: as the name of an election */
    const char *id;     /* unique among the workers of the group; NULL: the name of the host */
    const char *build;  /* version of your program; for people.  May be NULL */
    const char *labels; /* "zone=a,disk=ssd", for jobs that ask for them.  May be NULL */
    uint32_t share;     /* 0: 1.  Its part of the whole, beside the shares of the others */
    uint32_t limit;     /* 0: none.  The most jobs, by their weight, that it takes */
    bool standby;       /* works only while the group has too few others */
    int64_t linger_ms;  /* 0: none.  After it has left, its jobs wait for it for so long */

    int64_t ttl_ms;   /* 0: 90 s.  How long others wait after your last renewal */
    int64_t renew_ms; /* 0: ttl / 3 */
    int64_t grace_ms; /* 0: 8 s.  How long a job may take to end when it is revoked */
    int64_t kill_ms;  /* 0: ttl / 10, at most 1 s.  From the deadline until all is quiet */
    uint32_t rho_ppm; /* 0: 100000 (10 %).  By how much clocks may run wrong */

    void *arg;
    /* All callbacks may be NULL.  They may call anything here but stop(). */
    void (*assigned)(void *arg, const struct tenure_job *job);
    /* deadline_ns: CLOCK_BOOTTIME; why is for people, such as "moved".  Comes again, with an
     * earlier deadline, if the membership ends before the first one. */
    void (*revoked)(void *arg, const char *id, uint64_t epoch, int64_t deadline_ns,
                    const char *why);
    /* The membership is lost; revoked() follows for each job.  It joins again by itself. */
    void (*lost)(void *arg, const char *why);
    /* Runs on the store threads: be quick, do not call back. */
    void (*trace)(void *arg, const struct tenure_worker_trace *trace);

    bool manual_dispatch;
};

#define TENURE_WORKER_OPTIONS                                                                      \
    {                                                                                              \
        .size = sizeof(struct tenure_worker_options)                                               \
    }

/*
 * Open the store and join the group.  Copies all it needs.  Blocks for as long as opening the store
 * takes, at most five seconds.  CONFIG for options that cannot be, with words; what the store says
 * otherwise.  On failure *worker is untouched.
 */
TENURE_CHECKED enum tenure_status tenure_worker_start(const struct tenure_worker_options *options,
                                                      tenure_worker **worker,
                                                      struct tenure_error *err);

/*
 * Leave: revoked() is called for each job, and when the last one is finished one write frees them
 * all.  Blocks until then.  Frees the handle.  Accepts NULL.  Not from a callback.
 */
TENURE_API void tenure_worker_stop(tenure_worker *worker);

/*
 * The work on that job, in that epoch, has ended.  FENCED: that was known already, and another run
 * of the job, if there is one, goes on.  err may be NULL.
 */
TENURE_API enum tenure_status tenure_worker_finished(tenure_worker *worker, const char *id,
                                                     uint64_t epoch, struct tenure_error *err);

/*
 * This worker has the job, right now, in *epoch (may be NULL; 0 if it has not).  One clock reading
 * and a look into a table; never waits for the store.
 */
TENURE_CHECKED bool tenure_worker_holds(tenure_worker *worker, const char *id, uint64_t *epoch);
/* Nanoseconds until the work on all jobs must have ended, unless the lease is renewed; 0 if nothing
 * may run. */
TENURE_API int64_t tenure_worker_time_left(const tenure_worker *worker);

/*
 * Store the checkpoint of a job.  Blocks until it is stored.  FENCED: the job is not this worker's
 * in that epoch any more.  UNKNOWN: the job ended before it was known.  INVALID: too large.
 */
TENURE_CHECKED enum tenure_status tenure_worker_commit(tenure_worker *worker, const char *id,
                                                       uint64_t epoch, const void *data, size_t len,
                                                       struct tenure_error *err);

/* One checkpoint of many.  The last member is the answer. */
struct tenure_job_commit {
    const char *id;
    uint64_t epoch;
    const void *data;
    size_t len;
    enum tenure_status status;
};
/*
 * Store the checkpoints of many jobs, in as few writes as the store allows.  Each gets a status of
 * its own, as of a single commit.  Returns OK if each is OK, else the first that is not.
 */
TENURE_CHECKED enum tenure_status tenure_worker_commit_many(tenure_worker *worker,
                                                            struct tenure_job_commit *commits,
                                                            size_t n, struct tenure_error *err);

/* A snapshot, for status pages. */
struct tenure_worker_status {
    uint32_t size;       /* set by TENURE_WORKER_STATUS */
    char phase[16];      /* "joining", "member", "draining", "lost", "leaving", "left" */
    uint32_t members;    /* alive */
    uint32_t jobs;       /* wanted running, of the group */
    uint32_t unplaced;   /* ... that no member can take */
    uint32_t planned;    /* for this worker */
    uint32_t running;    /* here */
    uint64_t renewals;   /* acknowledged */
    uint64_t expired;    /* memberships that were lost */
    uint64_t commits;    /* acknowledged */
    uint64_t troubles;   /* store requests that failed */
    int64_t deadline_ns; /* CLOCK_BOOTTIME; 0: nothing may run */
    char trouble[256];   /* the last one; "" if the last request was fine */
    char waits[160];     /* why it cannot join; "" */
    uint64_t lists;      /* of the members: one an interval, and one when somebody rings */
};

#define TENURE_WORKER_STATUS                                                                       \
    {                                                                                              \
        .size = sizeof(struct tenure_worker_status)                                                \
    }

TENURE_API void tenure_worker_status(tenure_worker *worker, struct tenure_worker_status *status);

/* With manual_dispatch: readable when dispatch() has something to do; else -1. */
TENURE_API int tenure_worker_fd(const tenure_worker *worker);
/* Run the callbacks that are due, in the caller's thread. */
TENURE_API void tenure_worker_dispatch(tenure_worker *worker);

#ifdef __cplusplus
}
#endif
#endif
