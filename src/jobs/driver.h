/*
 * jobs/driver.h - one worker of a group of jobs, on a real store.
 *
 * It runs the two machines of the core (core/jobs/heartbeat.h, core/jobs/worker.h), each on a
 * thread and a handle of its own, so that no work on the jobs holds up a renewal.  `tenure work`
 * and the library (include/tenure/jobs.h) stand on it.
 *
 * THE OWNER'S DUTIES.
 *  1. deadline(): nothing may run at or after it; 0: nothing may run.  It is called before anything
 *     else of a step, and before any request.
 *  2. stop(): end that job, by by_ns at the latest, then call tn_jobs_driver_stopped(): when it is
 *     dead, and not before.  A job that ended by itself is reported in the same way; it is
 * released, and whoever is planned for it (this worker too) starts it again.
 *  3. stop_all(): end every job, by by_ns at the latest, then call tn_jobs_driver_reaped(): when
 *     nothing is left, and not before.  No start() comes between.  It answers for every job: no
 *     tn_jobs_driver_stopped() is needed.
 *  4. The hooks must not block.  They may call the functions below, but start, free and status.
 */
#ifndef TN_JOBS_DRIVER_H
#define TN_JOBS_DRIVER_H

#include "core/jobs/heartbeat.h"
#include "jobs/records.h"

/* 0 and NULL: the default. */
struct tn_jobs_options {
    const char *store; /* REQUIRED: the URL */
    const char *group; /* REQUIRED: as the name of an election */
    const char *id;    /* REQUIRED: unique among the workers of the group */
    const char *host, *build;
    const char *labels; /* "k=v,k=v" */
    uint32_t share;     /* 1: its part of the whole */
    uint32_t limit;     /* the most weight that it takes; any */
    bool standby;
    int64_t linger_ms; /* after it has left, its jobs stay planned for it for so long */

    int64_t ttl_ms;   /* 90 s */
    int64_t renew_ms; /* ttl / 3 */
    int64_t grace_ms; /* 8 s: how long a job may take to stop when it is asked to */
    int64_t kill_ms;  /* ttl / 10, at most 1 s: from the deadline until all jobs are dead */
    uint32_t rho_ppm; /* 100000 */

    bool observed; /* moves and times are kept, for jobs/view.h */
};

/* What is to be run.  Valid during the call only. */
struct tn_job_start {
    uint32_t number; /* of the catalogue: names the job to the functions below */
    const char *id;
    uint64_t epoch;
    uint8_t grant[TENURE_NONCE_SIZE];
    const void *checkpoint; /* as the last run committed it; length 0: there is none */
    size_t checkpoint_len;
    const void *spec; /* length 0: there is none */
    size_t spec_len;
};

enum tn_jobs_cause {
    TN_CAUSE_MOVED,   /* the plan gives it to another worker */
    TN_CAUSE_PAUSED,  /* or removed */
    TN_CAUSE_FENCED,  /* the register is another's: whatever it still does is refused */
    TN_CAUSE_LOST,    /* the membership ended */
    TN_CAUSE_LEAVING, /* the worker leaves */
    TN_JOBS_CAUSES,
};
const char *tn_jobs_cause_word(enum tn_jobs_cause cause);
/* "joining", "member", "draining", "lost", "leaving", "left" */
const char *tn_jobs_phase_word(enum tn_beat_phase phase);

/* Why a new plan gives a job to another worker. */
enum tn_move_cause {
    TN_MOVE_PLACED,     /* nobody had it: it is new, resumed, or can be run now */
    TN_MOVE_REBALANCED, /* the loads are fairer so, or its labels or its pin want it */
    TN_MOVE_DIED,       /* its worker was silent for its ttl */
    TN_MOVE_LEFT,
    TN_MOVE_DRAINED,
    TN_MOVE_EVICTED,
    TN_MOVE_LOST,     /* the record of its worker is gone, or cannot be read */
    TN_MOVE_PAUSED,   /* or removed: to nobody */
    TN_MOVE_UNPLACED, /* to nobody: no worker can take it any more */
    TN_MOVE_CAUSES,
};

enum tn_jobs_trace_kind {
    TN_JOBS_JOINED,
    TN_JOBS_RENEWED,
    TN_JOBS_LOST,      /* text says why */
    TN_JOBS_LEFT,      /* clean: one write freed every job */
    TN_JOBS_WAITING,   /* cannot join: text says why */
    TN_JOBS_TROUBLE,   /* a request failed: status, text */
    TN_JOBS_RECOVERED, /* the store answers again */
    TN_JOBS_PLANNED,   /* this worker wrote a plan: number is its sequence number */
    TN_JOBS_BURIED,    /* it declared a silent worker dead: job is its id */
    TN_JOBS_STARTED,   /* job, epoch; text is "taken over from ID", or "" */
    TN_JOBS_STOPPING,  /* job; text is the cause */
    TN_JOBS_RELEASED,  /* job */
    TN_JOBS_DAMAGED,   /* job: its register is absent or cannot be read */
};

/* Valid during the call only. */
struct tn_jobs_trace {
    enum tn_jobs_trace_kind kind;
    int64_t at_ns;
    const char *job;
    uint64_t number, epoch;
    enum tenure_status status;
    const char *text; /* never NULL */
};

typedef struct tn_jobs_driver tn_jobs_driver;

struct tn_jobs_hooks {
    void *arg;
    /* REQUIRED, on the heartbeat's thread. */
    void (*deadline)(void *arg, int64_t deadline_ns);
    /* REQUIRED, on the work's thread. */
    void (*start)(void *arg, const struct tn_job_start *start);
    void (*stop)(void *arg, uint32_t number, int64_t by_ns, enum tn_jobs_cause cause);
    /* REQUIRED, on the heartbeat's thread.  cause is LOST or LEAVING; why is for people. */
    void (*stop_all)(void *arg, int64_t by_ns, enum tn_jobs_cause cause, const char *why);
    /*
     * OPTIONAL, on the work's thread: what came of a commit.  OK: it is stored.  FENCED: the job is
     * not ours any more.  UNKNOWN: the job ended before that was known.
     */
    void (*committed)(void *arg, uint32_t number, uint64_t ticket, enum tenure_status status,
                      const struct tenure_error *err);
    /* OPTIONAL, on either thread. */
    void (*trace)(void *arg, const struct tn_jobs_trace *trace);
    /* OPTIONAL, on the work's thread: what the status shows of the jobs may have changed. */
    void (*changed)(void *arg);
    /* OPTIONAL, on the heartbeat's thread, the last thing it does: it has left. */
    void (*halted)(void *arg);
};

/*
 * Open the store and join.  Copies all it needs.  Blocks for as long as opening the store takes,
 * at most five seconds.  CONFIG for options that cannot be, with words.
 */
enum tenure_status tn_jobs_driver_start(const struct tn_jobs_options *options,
                                        const struct tn_jobs_hooks *hooks, tn_jobs_driver **driver,
                                        struct tenure_error *err);

/* From any thread; each returns at once. */

/* Leave: stop_all(LEAVING) follows if it is a member, and halted() at the end. */
void tn_jobs_driver_leave(tn_jobs_driver *driver);
/* The run of that epoch has ended.  Nothing happens if that is known already: what is reported
 * twice does not end the next run. */
void tn_jobs_driver_stopped(tn_jobs_driver *driver, uint32_t number, uint64_t epoch);
void tn_jobs_driver_reaped(tn_jobs_driver *driver);
/* The guard has fired: all jobs are being killed.  stop_all(LOST) follows. */
void tn_jobs_driver_fired(tn_jobs_driver *driver);
/* This worker cannot run the job: the plan gives it to others, until it joins again. */
void tn_jobs_driver_unfit(tn_jobs_driver *driver, uint32_t number);
/*
 * Store a checkpoint of that run; data is copied.  committed() tells what came of it, with the
 * ticket; those of one job in their order, those of many jobs travel together.  INVALID, NOMEM: it
 * was not taken.
 */
enum tenure_status tn_jobs_driver_commit(tn_jobs_driver *driver, uint32_t number, uint64_t epoch,
                                         const void *data, size_t len, uint64_t ticket,
                                         struct tenure_error *err);

/* The same, of one of many: it waits until tn_jobs_driver_send_commits(), so that they travel
 * together. */
enum tenure_status tn_jobs_driver_queue_commit(tn_jobs_driver *driver, uint32_t number,
                                               uint64_t epoch, const void *data, size_t len,
                                               uint64_t ticket, struct tenure_error *err);
void tn_jobs_driver_send_commits(tn_jobs_driver *driver);

struct tn_jobs_status {
    enum tn_beat_phase phase;
    struct tn_identity identity; /* from IN to LEAVING */
    struct tn_timing timing;
    int64_t deadline_ns; /* 0: nothing may run */
    char waits[160];     /* why it cannot join; "" */
    char trouble[256];   /* the last that the store refused; "" if the last request was fine */
    uint64_t renewals, expired, troubles;

    /* As of the last round. */
    uint32_t members;       /* alive */
    uint32_t jobs;          /* wanted running */
    uint32_t unplaced;      /* ... and planned for nobody */
    uint32_t planned;       /* for this worker */
    uint32_t running;       /* here, or being stopped */
    uint64_t load;          /* weight of what runs here */
    uint64_t load_total;    /* weight of all jobs that are wanted */
    uint32_t asked;         /* planned for this worker, and a living one has it */
    uint32_t in_doubt;      /* a swap whose outcome is not known */
    uint32_t unowned;       /* runnable, and nobody runs it, as far as this worker knows: unplaced,
                               planned for one that has ended, or for this one and not run yet */
    int64_t oldest_ns;      /* since when there is such a job; 0: there is none */
    uint64_t plan_seq;      /* that it follows */
    uint64_t plan_changes;  /* seen */
    uint64_t plans_written; /* by this worker */
    uint64_t burials;       /* by this worker */
    uint64_t rounds, lists; /* of the work, since the start */
    uint64_t starts;
    uint64_t takeovers; /* ... of jobs whose owner had died or left */
    uint64_t stops[TN_JOBS_CAUSES];
    uint64_t commits;
    uint64_t moves[TN_MOVE_CAUSES]; /* to this worker, if it is observed */
};
void tn_jobs_driver_status(tn_jobs_driver *driver, struct tn_jobs_status *status);

/* Leaves, if it has not yet, and waits for that: reaped() must still be called if jobs run.  No
 * hook is called any more, and what is asked is still answered.  Not from a hook.  Accepts NULL. */
void tn_jobs_driver_join(tn_jobs_driver *driver);
/* The same, and the driver is gone. */
void tn_jobs_driver_free(tn_jobs_driver *driver);

#endif
