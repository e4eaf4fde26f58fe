/*
 * The worker's guard and its launcher.  The guard has one deadline for everything: it ends the
 * launcher's whole tree when the membership does.  A launcher lives as long as a membership, and is
 * started when there is a first job to run.
 */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/timing.h"
#include "guard/children.h"
#include "os/poll.h"
#include "supervise/guard/releaser.h"
#include "supervise/guard/watch.h"
#include "work/inner.h"

/* What was killed does not die at once if it hangs in the kernel. */
#define TREE_NS  (10 * TN_MS)
/* The guard is late already, and has so long to be heard. */
#define LOOK_NS  (2 * TN_MS)
/* The guard did not want the launcher: so long until the next try. */
#define AGAIN_NS (100 * TN_MS)
/* A launcher that lived no longer than this did not run at all; the next one waits as long. */
#define BRIEF_NS TN_S

/* ---- The deadline, on the heartbeat's thread ----------------------------- */

static void watch_guard(struct tn_work *w, int64_t deadline_ns, int64_t told_ns)
{
    int64_t late = tn_guard_late_at(deadline_ns, told_ns, w->link.page->margin_ns);
    struct itimerspec when = {.it_value = {.tv_sec = (time_t)(late / TN_S), /* zero disarms */
                                           .tv_nsec = (long)(late % TN_S)}};

    atomic_store(&w->late_ns, late);
    timerfd_settime(w->late.fd, TFD_TIMER_ABSTIME, &when, NULL);
}

void tn_work_publish(struct tn_work *w, int64_t deadline_ns)
{
    int64_t now = tenure_now();
    bool ok = tn_guard_link_publish(&w->link, deadline_ns);

    atomic_store(&w->deadline_ns, deadline_ns);
    if (ok)
        watch_guard(w, deadline_ns, now);
    if (deadline_ns == 0)
        atomic_store(&w->fired_told, false);
    else if (!ok)
        tn_work_post(w, TN_WORK_MSG_FIRED); /* everything is dead, or about to be */
}

void tn_work_fired(struct tn_work *w)
{
    if (!atomic_exchange(&w->fired_told, true))
        tn_jobs_driver_fired(w->driver);
}

/* What the releaser must know if we crash: with it our jobs are free at once, without the ttl. */
static bool leave_ticket(struct tn_work *w)
{
    const struct tn_jobs_options *o = &w->options->jobs;
    struct tn_release_ticket ticket = {
        .store = o->store, .name = o->group, .id = o->id, .member = true};
    struct tn_jobs_status now;

    tn_jobs_driver_status(w->driver, &now);
    memcpy(ticket.incarnation, now.identity.incarnation, sizeof ticket.incarnation);
    return tn_release_ticket_give(&w->link, &ticket);
}

/* A launcher that is there has outlived the membership before: its ticket is of that one. */
void tn_work_renew_ticket(struct tn_work *w)
{
    if (w->launcher == TN_LAUNCHER_NONE || atomic_load(&w->deadline_ns) == 0)
        return;
    if (!leave_ticket(w))
        tn_log("trouble", "no ticket for the releaser: %s; after a crash the jobs wait for the ttl",
               strerror(errno));
}

/* ---- The launcher -------------------------------------------------------- */

static void hang_up(struct tn_work *w)
{
    tn_watch_set(&w->launcher_report, -1, 0);
    if (w->launcher_socket >= 0)
        close(w->launcher_socket);
    w->launcher_socket = -1;
}

static bool spawn_launcher(struct tn_work *w, struct tenure_error *err)
{
    static char launcher[] = TN_LAUNCHER_ARG;
    char path[PATH_MAX];
    char *const args[] = {path, launcher, NULL}, *env[] = {NULL};
    struct tn_program program = {.args = args, .env = env, .privs = true};
    struct tn_program_env_spec spec = {.id = w->options->jobs.id};
    int ends[2], block = -1;

    if (!leave_ticket(w)) {
        tenure_fail(err, TENURE_UNAVAILABLE, "no ticket for the releaser: %s", strerror(errno));
        return false;
    }
    if (!tn_guard_link_path(path) ||
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
        tenure_fail(err, TENURE_UNAVAILABLE, "no launcher for the programs: %s", strerror(errno));
        return false;
    }
    sigemptyset(&program.mask);
    bool ok = tn_program_block(&program, &spec, &block, err) == TENURE_OK;
    if (ok && !tn_guard_link_spawn(&w->link, block, ends[1])) {
        tenure_fail(err, TENURE_UNAVAILABLE, "the guard takes no command");
        ok = false;
    }
    if (block >= 0)
        close(block);
    close(ends[1]);
    if (!ok) {
        close(ends[0]);
        return false;
    }
    w->launcher_socket = ends[0];
    w->launcher = TN_LAUNCHER_ASKED;
    w->launcher_up_ns = 0;
    w->killed = false;
    tn_watch_set(&w->launcher_report, ends[0], POLLIN);
    return true;
}

void tn_work_launcher_want(struct tn_work *w)
{
    struct tenure_error err;

    if (w->launcher != TN_LAUNCHER_NONE || w->guard_dead || w->stopping_all ||
        atomic_load(&w->deadline_ns) == 0 || tn_fleet_alive(w->launched) == 0)
        return;
    if (tenure_now() < w->launcher_start_ns) {
        w->tree_timer.at_ns = w->launcher_start_ns;
        return;
    }
    if (!spawn_launcher(w, &err)) {
        tn_log("failed", "%s", err.text);
        w->tree_timer.at_ns = tenure_now() + AGAIN_NS;
    }
}

/* The membership goes on, and so does the guard: it is the launcher alone that has failed. */
static bool failed_by_itself(const struct tn_work *w)
{
    return atomic_load(&w->deadline_ns) != 0 && w->link.alive &&
           !(atomic_load(&w->link.page->word) & TN_WORD_FIRED);
}

/* It has hung up, or the guard was faster to tell.  When all of it is dead the guard tells. */
static void launcher_ends(struct tn_work *w)
{
    if (w->launcher == TN_LAUNCHER_UP && failed_by_itself(w))
        tn_log("failed", "the launcher of the programs ended unexpectedly; every program is "
                         "ended and started again");
    w->launcher = TN_LAUNCHER_ENDING;
}

/* One that cannot run is not tried again without a pause. */
static void delay_launcher(struct tn_work *w)
{
    int64_t now = tenure_now();

    if (!failed_by_itself(w) || (w->launcher_up_ns && now - w->launcher_up_ns >= BRIEF_NS))
        return;
    w->launcher_start_ns = now + BRIEF_NS;
    tn_log("failed", "the launcher of the programs cannot run; next try in 1s");
}

/* Nothing of it is left, nor of what it ran. */
static void launcher_died(struct tn_work *w)
{
    hang_up(w);
    w->launcher = TN_LAUNCHER_NONE;
    tn_fleet_detach(w->launched, tenure_now());
}

void tn_work_on_launcher(void *arg, short events)
{
    struct tn_work *w = arg;

    (void)events;
    if (!tn_fleet_read(w->launched, tenure_now())) {
        launcher_ends(w);
        tn_fleet_hang_up(w->launched);
        tn_watch_set(&w->launcher_report, -1, 0);
    }
}

/* ---- The guard's reports ------------------------------------------------- */

static void take_report(struct tn_work *w, const struct tn_guard_report *r)
{
    switch (r->kind) {
    case TN_GUARD_SPAWNED:
        w->launcher = TN_LAUNCHER_UP;
        w->launcher_up_ns = tenure_now();
        tn_fleet_attach(w->launched, w->launcher_socket);
        break;
    case TN_GUARD_FAILED:
        tn_log("failed", "the launcher of the programs cannot be started: %s", strerror(r->error));
        break;
    case TN_GUARD_REFUSED: /* it is too late for this membership */
        hang_up(w);
        w->launcher = TN_LAUNCHER_NONE;
        w->tree_timer.at_ns = tenure_now() + AGAIN_NS;
        break;
    case TN_GUARD_FIRED:
        if (!(atomic_load(&w->link.page->word) & TN_WORD_FIRED))
            break; /* on a membership that has been given up since */
        tn_log("fired", "the membership has run out; the guard ends every program");
        tn_work_fired(w);
        break;
    case TN_GUARD_KILLS:
        w->killed = true;
        break;
    case TN_GUARD_DEAD:
        launcher_ends(w);
        delay_launcher(w);
        launcher_died(w);
        break;
    default:
        break;
    }
}

static void take_reports(struct tn_work *w)
{
    struct tn_guard_report r;

    while (w->link.alive && tn_guard_link_next(&w->link, &r))
        take_report(w, &r);
}

void tn_work_on_guard_report(void *arg, short events)
{
    if (events & POLLIN)
        take_reports(arg);
    if (events & POLLHUP)
        tn_work_on_guard_end(arg, events);
}

static void watch_link(struct tn_work *w)
{
    tn_watch_set(&w->guard_report, w->link.socket, POLLIN);
    tn_watch_set(&w->guard_end, w->link.pidfd, POLLIN);
}

/* ---- The guard's death --------------------------------------------------- */

/* true: nothing is left of what it guarded. */
static bool kill_tree(struct tn_work *w)
{
    unsigned found = tn_children_kill(NULL, 0, atomic_load(&w->link.page->tree_init));
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        continue;
    /* Who cannot look does not know that nothing is left; only that there is no child at all is
     * known in any case. */
    return found == 0 || (pid < 0 && errno == ECHILD);
}

static void restart_guard(struct tn_work *w)
{
    struct tenure_error err;

    launcher_died(w);
    w->guard_dead = false;
    if (tn_guard_link_start(&w->link, &err) || tn_guard_link_wait_ready(&w->link, &err)) {
        tn_log("failed", "%s", err.text);
        w->exit_code = w->codes->broken;
        w->over = true;
    }
    watch_link(w);
}

void tn_work_on_tree_timer(void *arg, int64_t now_ns)
{
    struct tn_work *w = arg;

    if (!w->guard_dead)
        return; /* the loop wants a launcher */
    if (kill_tree(w))
        restart_guard(w);
    else
        w->tree_timer.at_ns = now_ns + TREE_NS;
}

/* The kernel has killed the launcher (parent-death signal, or its namespace); what is left became
 * our own children, and is killed until there are none. */
void tn_work_on_guard_end(void *arg, short events)
{
    struct tn_work *w = arg;

    (void)events;
    take_reports(w); /* its last words */
    if (!w->link.alive)
        return;
    tn_log("guard", "the guard died; every program is ended");
    tn_guard_link_mark_dead(&w->link);
    watch_link(w);
    w->guard_dead = true;
    tn_work_fired(w);
    tn_work_on_tree_timer(w, tenure_now());
}

/* ---- A guard that does not act ------------------------------------------- */

static bool is_late(const struct tn_work *w, int64_t now_ns)
{
    int64_t late = atomic_load(&w->late_ns);

    return w->link.alive && late != 0 && now_ns >= late && !w->killed &&
           w->launcher != TN_LAUNCHER_NONE;
}

void tn_work_on_late(void *arg, short events)
{
    struct tn_work *w = arg;
    struct pollfd report = {.fd = w->link.socket, .events = POLLIN};
    int64_t now = tenure_now();
    uint64_t count;

    (void)events;
    if (read(w->late.fd, &count, sizeof count) < 0 || !is_late(w, now))
        return; /* it was moved on meanwhile */
    do
        take_reports(w);
    while (is_late(w, now) && tn_poll(&report, 1, now + LOOK_NS) > 0 &&
           !(report.revents & POLLHUP));
    if (is_late(w, now)) {
        tn_log("guard", "the guard did not act by the deadline; killing it and every program");
        tn_guard_link_kill(&w->link);
        kill_tree(w); /* at once: its death is still to be told */
    }
}

/* ---- Life ---------------------------------------------------------------- */

enum tenure_status tn_work_guard_open(struct tn_work *w, struct tenure_error *err)
{
    const struct tn_jobs_options *o = &w->options->jobs;
    struct tn_timing_wish wish = {
        .ttl_ns = o->ttl_ms * TN_MS, .kill_ns = o->kill_ms * TN_MS, .rho_ppm = o->rho_ppm};
    struct tn_timing timing;

    tn_timing_plan(&wish, &timing);
    /* The heartbeat asks the programs to stop before the deadline; the guard only kills. */
    struct tn_guard_wish guard = {.contain = w->options->contain,
                                  .kill_ns = timing.kill_ns,
                                  .stop_signal = w->options->stop_signal};
    enum tenure_status status = tn_guard_link_open(&w->link, &guard, err);

    if (!status)
        status = tn_guard_link_start(&w->link, err);
    if (!status)
        status = tn_guard_link_wait_ready(&w->link, err);
    watch_link(w);
    return status;
}

void tn_work_guard_close(struct tn_work *w)
{
    hang_up(w);
    tn_guard_link_quit(&w->link);
    tn_guard_link_close(&w->link);
}
