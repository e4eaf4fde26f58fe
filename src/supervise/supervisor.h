/*
 * supervise/supervisor.h - what `tenure run` does: contend, run a program only
 * while leading, behind a guard, and end it in time.
 *
 * It owns the process: it takes its signals, reaps its children, and writes to
 * stderr.  That is why it belongs to the binary and not to the library.
 */
#ifndef TN_SUPERVISE_SUPERVISOR_H
#define TN_SUPERVISE_SUPERVISOR_H

#include "api/api.h"
#include "os/log.h"
#include "supervise/guard/link.h"
#include "supervise/machine.h"
#include "supervise/once.h"
#include "supervise/peer_sync.h"
#include "supervise/program/probe.h"
#include "supervise/program/program.h"
#include "tenure/elector.h"

struct tn_run_options {
    /* store, name, id, address, build, priority and times; the callbacks are ours. */
    struct tenure_elector_options elector;
    struct tn_program program;

    enum tn_contain contain;
    int stop_signal;
    int64_t orphan_grace_ns;
    int64_t release_delay_ns;
    const char *watchdog; /* the device; NULL: none */

    enum tn_on_loss on_loss;
    enum tn_on_exit on_exit;
    int crash_limit; /* RESTART: so many ends in a row yield leadership */

    struct tn_once *once; /* the program runs once; NULL: whenever this candidate leads */

    const char *state;       /* URL of the state that the program may use; NULL: no socket */
    const char *const *seal; /* its collections to seal whole; ends with NULL; may be NULL */

    struct tn_api_options api;              /* HTTP, if it listens anywhere */
    struct tn_leader_page *leader_page;     /* where an agent sees who leads; NULL: nobody looks */
    int agent_socket;                       /* to that agent (api/link.h); 0: none */
    const struct tn_api_options *agent_api; /* how that agent listens; NULL: there is none */

    /* Shell commands, or NULL. */
    const char *on_started, *on_stopped, *on_new_leader;
    int64_t hook_timeout_ns;

    /* A leader that is silent for fence_after_ns is made sure to be off by this; NULL: never. */
    const char *fence_command;
    int64_t fence_after_ns, fence_timeout_ns;

    struct tn_probe_options probe;           /* of the program */
    struct tn_probe_options candidate_probe; /* of this machine, before it may lead */

    bool warm;             /* the program also runs on standbys */
    const char *warm_file; /* where it finds out; NULL: nowhere */
    int warm_signal;       /* sent when that has changed; 0: none */

    /* Contend although another process is there under the same id, and was there first. */
    bool allow_duplicate_id;

    enum tn_prefer prefer;
    bool preempt; /* ask a lower leader to hand over to us */
    int64_t preempt_delay_ns;

    int64_t start_timeout_ns; /* the store must have been opened so soon; 0: whenever that is */

    enum tn_log_format log;
    enum tn_log_level log_level;
    enum tn_log_stamp log_stamp;
    const char *trace; /* a file for what the elector and the program did; NULL: none */

    /* Without a program (program.args is NULL): those who ask are told that we lead for so long at
     * most.  What they were told has run out before the lease is released (I8). */
    int64_t answer_ns;

    /* OPTIONAL: what SIGHUP asks for; else it is passed on.  NULL: everything stays as it is.  What
     * it returns is ours until the end, and differs only in what config/change.c allows. */
    const struct tn_run_options *(*reload)(void *arg);
    void *reload_arg;
};

/* How it ended, besides the program's own way (128 + n for signals). */
struct tn_run_codes {
    int failed;     /* the store refused before anything began */
    int gave_up;    /* it could not be opened within start_timeout_ns */
    int usage;      /* the settings cannot work */
    int lost;       /* leadership was lost, and that was to be the end */
    int broken;     /* no guard, no descriptors, no threads */
    int cannot_run; /* the command cannot be executed */
    int not_found;  /* there is no such command */
};

/* Returns the exit code.  Prints what happened. */
int tn_run(const struct tn_run_options *options, const struct tn_run_codes *codes);

#endif
