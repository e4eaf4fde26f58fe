/*
 * work/work.h - what `tenure work` does: join a group of jobs, and run a program for each job that
 * this worker owns, or one for all, behind one guard.
 *
 *     tenure ── tenure-guard ── init ── launcher ─┬─ init ── program of a job
 *                                                 └─ init ── program of a job
 *
 * The driver (jobs/driver.h) keeps the membership and claims the jobs, on threads of its own; the
 * fleet (work/fleet.h) has the programs; the socket (work/socket.h) takes their checkpoints.  It
 * owns the process, as the supervisor does.
 */
#ifndef TN_WORK_WORK_H
#define TN_WORK_WORK_H

#include "api/api.h"
#include "jobs/driver.h"
#include "os/log.h"
#include "supervise/guard/link.h"
#include "supervise/program/program.h"

struct tn_work_options {
    struct tn_jobs_options jobs; /* limit 0: as many as the kill time covers */
    struct tn_program program;
    enum tn_contain contain;
    int stop_signal;
    unsigned start_rate; /* programs started a second */
    bool one_program;    /* one for all jobs, not one for each */
    enum tn_log_format log;
    struct tn_api_options api; /* HTTP, if it listens anywhere */
};

/* How it ended. */
struct tn_work_codes {
    int failed; /* the store refused before anything began */
    int usage;  /* the settings cannot work */
    int broken; /* no guard, no descriptors, no threads */
};

/* Returns the exit code: 0 after it has left on request.  Prints what happened. */
int tn_work(const struct tn_work_options *options, const struct tn_work_codes *codes);

#endif
