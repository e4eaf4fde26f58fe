/*
 * One program for all jobs of a worker (--one-program).
 *
 * The launcher runs it as it runs the program of a job; the jobs are given to it over the socket.
 * It lives as long as the membership.  Whatever ends it ends all of its jobs, each of which is
 * released and claimed again, under a new epoch (J2).  A job that it does not end by its deadline
 * ends it: KILL comes at the deadline, for which the kill time K leaves room behind D.
 */
#include <stdlib.h>

#include "work/inner.h"

/* ---- Its jobs ------------------------------------------------------------ */

static void give_job(void *arg, const struct tn_fleet_program *p)
{
    struct tn_work *w = arg;

    if (!tn_work_socket_give(w->socket, p->job, p->spec, p->spec_len))
        abort(); /* out of memory: the guard ends everything, and the jobs go to others */
}

static void revoke_job(void *arg, const struct tn_fleet_program *p)
{
    struct tn_work *w = arg;

    tn_work_socket_revoke(w->socket, p->job, p->by_ns, p->why);
}

static void kill_for_job(void *arg, const struct tn_fleet_program *p)
{
    struct tn_work *w = arg;
    int64_t now = tenure_now();

    tn_log("failed", "job %s: its end was not confirmed by the deadline; killing the program",
           p->id);
    tn_fleet_stop_all(&w->host, now, "overdue", now);
}

const struct tn_fleet_host tn_work_one_program = {give_job, revoke_job, kill_for_job};

/* ---- Itself -------------------------------------------------------------- */

void tn_work_host_started(void *arg, uint32_t job)
{
    struct tn_work *w = arg;

    (void)job;
    tn_fleet_attach(&w->fleet, -1);
}

void tn_work_host_stopped(void *arg, uint32_t job, uint64_t epoch)
{
    struct tn_work *w = arg;

    (void)job, (void)epoch;
    tn_fleet_detach(&w->fleet, tenure_now());
}

/* From the first job on. */
void tn_work_host_want(struct tn_work *w)
{
    if (w->launched != &w->host || w->stopping_all || w->guard_dead ||
        tn_fleet_alive(&w->fleet) == 0 || tn_fleet_alive(&w->host) > 0)
        return;
    if (!tn_fleet_start(&w->host, 0, "", 0, NULL, 0, tenure_now()))
        abort();
}
