/* The worker's loop, and its life. */
#include "work/work.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/timing.h"
#include "driver/timing_text.h"
#include "os/trim.h"
#include "work/capacity.h"
#include "work/inner.h"

/* timeout(1) signals a process and then its group: signals within this time are one request. */
#define SAME_REQUEST_NS TN_S
/* Asked again: so long for the last write; then the lease runs out by itself. */
#define HURRY_NS        (2 * TN_S)

/* ---- The fleet ----------------------------------------------------------- */

/* All are dead, and the driver waits for that. */
static void check_reaped(struct tn_work *w)
{
    if (!w->stopping_all || tn_fleet_alive(&w->fleet) > 0 || tn_fleet_alive(w->launched) > 0 ||
        w->guard_dead)
        return;
    w->stopping_all = false;
    tn_jobs_driver_reaped(w->driver);
}

static void on_stopped(void *arg, uint32_t job, uint64_t epoch)
{
    struct tn_work *w = arg;

    tn_work_socket_end(w->socket, job);
    if (!w->stopping_all) /* else reaped() answers for all of them */
        tn_jobs_driver_stopped(w->driver, job, epoch);
}

static enum tenure_status on_commit(void *arg, uint32_t job, uint64_t epoch, const void *data,
                                    size_t len, uint64_t ticket, struct tenure_error *err)
{
    const struct tn_work *w = arg;

    return tn_jobs_driver_commit(w->driver, job, epoch, data, len, ticket, err);
}

static void start_job(struct tn_work *w, struct tn_work_message *m, int64_t now)
{
    if (!tn_work_socket_begin(w->socket, m->job, m->text, m->epoch, m->checkpoint,
                              m->checkpoint_len) ||
        !tn_fleet_start(&w->fleet, m->job, m->text, m->epoch, m->spec, m->spec_len, now))
        abort(); /* out of memory: the guard ends everything, and the jobs go to others */
    m->spec = NULL;
    if (!w->options->one_program && !tn_work_socket_give(w->socket, m->job, NULL, 0))
        abort();
}

static void stop_all(struct tn_work *w, const struct tn_work_message *m, int64_t now)
{
    const char *why = tn_jobs_cause_word(m->cause);

    w->stopping_all = true;
    tn_work_socket_ending(w->socket, m->cause == TN_CAUSE_LOST, m->at_ns, m->text);
    tn_fleet_stop_all(&w->fleet, m->at_ns, why, now);
    tn_fleet_stop_all(&w->host, m->at_ns, why, now);
}

/* ---- Events -------------------------------------------------------------- */

static void handle_message(struct tn_work *w, struct tn_work_message *m, int64_t now)
{
    switch (m->kind) {
    case TN_WORK_MSG_START:
        start_job(w, m, now);
        break;
    case TN_WORK_MSG_STOP:
        tn_fleet_stop(&w->fleet, m->job, m->at_ns, tn_jobs_cause_word(m->cause), now);
        break;
    case TN_WORK_MSG_STOP_ALL:
        stop_all(w, m, now);
        break;
    case TN_WORK_MSG_STOPPED:
        tn_fleet_confirm(&w->fleet, m->job, m->epoch, now);
        break;
    case TN_WORK_MSG_FIRED:
        tn_work_fired(w);
        break;
    case TN_WORK_MSG_HALTED:
        w->halted = true;
        break;
    case TN_WORK_MSG_DEADLINE: /* a launcher may be wanted */
        tn_work_renew_ticket(w);
        break;
    }
}

static void drain_inbox(struct tn_call *call)
{
    struct tn_work *w = (struct tn_work *)((char *)call - offsetof(struct tn_work, drain));
    struct tn_work_message *m = tn_work_inbox_take(w);
    int64_t now = tenure_now();

    while (m) {
        struct tn_work_message *next = m->next;

        handle_message(w, m, now);
        tn_work_message_free(m);
        m = next;
    }
}

static void asked_to_go(struct tn_work *w, int signal, int64_t now)
{
    if (w->asked_ns && now - w->asked_ns < SAME_REQUEST_NS)
        return;
    if (!w->asked_ns) {
        tn_log("leaving", "got SIG%s: stopping every program, then leaving the group",
               sigabbrev_np(signal));
        tn_notify(&w->notify, "STOPPING=1");
        w->leaving = true;
        tn_jobs_driver_leave(w->driver);
    } else {
        tn_log("leaving", "got SIG%s again: killing every program", sigabbrev_np(signal));
        tn_fleet_stop_all(w->launched, now, "leaving", now);
        w->hurry.at_ns = now + HURRY_NS;
    }
    w->asked_ns = now;
}

static void take_signals(void *arg, short events)
{
    struct tn_work *w = arg;
    struct signalfd_siginfo info;

    (void)events;
    while (read(w->signal.fd, &info, sizeof info) == (ssize_t)sizeof info) {
        int signal = (int)info.ssi_signo;

        if (signal == SIGTERM || signal == SIGINT || signal == SIGQUIT)
            asked_to_go(w, signal, tenure_now());
        else if (signal == SIGCHLD)
            continue; /* settle() reaps */
        else if (signal != SIGPIPE)
            tn_fleet_signal(w->launched, signal);
    }
}

static void hurry_over(void *arg, int64_t now)
{
    struct tn_work *w = arg;

    (void)now;
    if (w->halted)
        return;
    tn_log("failed", "the store did not confirm the leave; its jobs move when the lease runs out");
    w->exit_code = w->codes->failed;
    w->over = true;
}

static void ping_watchdog(void *arg, int64_t now)
{
    struct tn_work *w = arg;

    tn_notify(&w->notify, "WATCHDOG=1");
    w->ping.at_ns = now + w->notify.watchdog_ns;
}

/* What follows from whatever happened in this turn. */
static void settle(struct tn_work *w)
{
    while (waitpid(-1, NULL, WNOHANG) > 0)
        continue; /* what a dead guard has left to us, and the guard itself: its descriptor tells */
    check_reaped(w);
    tn_work_host_want(w);
    tn_work_launcher_want(w);
    w->fleet_timer.at_ns = tn_fleet_act(&w->fleet, tenure_now());
    w->host_timer.at_ns = tn_fleet_act(&w->host, tenure_now());
    check_reaped(w); /* one that could not be started is dead too */
    tn_work_socket_publish(w->socket);
    if (w->halted)
        w->over = true;
}

/* ---- Life ---------------------------------------------------------------- */

static int open_signals(void)
{
    static const int handled[] = {SIGTERM, SIGINT,  SIGQUIT,  SIGHUP,  SIGUSR1,
                                  SIGUSR2, SIGALRM, SIGWINCH, SIGCHLD, SIGPIPE};
    sigset_t set;

    sigemptyset(&set);
    for (size_t i = 0; i < sizeof handled / sizeof handled[0]; i++)
        sigaddset(&set, handled[i]);
    sigprocmask(SIG_BLOCK, &set, NULL);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static enum tenure_status open_loop(struct tn_work *w, struct tenure_error *err)
{
    struct tn_loop *l = &w->loop;
    enum tenure_status status = tn_loop_open(l, err);

    tn_loop_watch(l, &w->guard_report, -1, tn_work_on_guard_report, w);
    tn_loop_watch(l, &w->guard_end, -1, tn_work_on_guard_end, w);
    tn_loop_watch(l, &w->launcher_report, -1, tn_work_on_launcher, w);
    tn_loop_watch(l, &w->signal, open_signals(), take_signals, w);
    tn_loop_watch(l, &w->late, timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK),
                  tn_work_on_late, w);
    w->drain.run = drain_inbox;
    tn_loop_timer(l, &w->fleet_timer, NULL, NULL); /* settle() acts */
    tn_loop_timer(l, &w->host_timer, NULL, NULL);
    tn_loop_timer(l, &w->tree_timer, tn_work_on_tree_timer, w);
    tn_loop_timer(l, &w->hurry, hurry_over, w);
    tn_loop_timer(l, &w->ping, ping_watchdog, w);
    if (!status && (w->signal.fd < 0 || w->late.fd < 0))
        return tenure_fail(err, TENURE_UNAVAILABLE, "cannot make descriptors: %s", strerror(errno));
    return status;
}

/* K must cover every program: the rest would still run when others start the jobs. */
static enum tenure_status settle_capacity(struct tn_jobs_options *o, bool one_program,
                                          struct tenure_error *err)
{
    uint32_t programs = o->limit && !one_program ? o->limit : 1;
    struct tn_timing_wish wish = {.ttl_ns = o->ttl_ms * TN_MS,
                                  .renew_ns = o->renew_ms * TN_MS,
                                  .grace_ns = o->grace_ms * TN_MS,
                                  .kill_ns = o->kill_ms * TN_MS,
                                  .rho_ppm = o->rho_ppm};
    struct tn_timing timing;
    enum tenure_status status = tn_timing_explain(tn_timing_plan(&wish, &timing), &timing, err);
    uint32_t covered = tn_work_capacity(timing.kill_ns);
    char kill[TN_DURATION_TEXT], need[TN_DURATION_TEXT];

    if (status)
        return status;
    tn_duration_format(timing.kill_ns, kill);
    tn_duration_format(tn_work_kill_ns(programs), need);
    if (programs > covered)
        return tenure_fail(
            err, TENURE_CONFIG,
            "a kill time of %s covers %u programs (%d ms and %d ms each), not %u: "
            "use --capacity %u, or --kill-time %s with a ttl that leaves room for it",
            kill, covered, TN_WORK_KILL_BASE_MS, TN_WORK_KILL_EACH_MS, programs, covered, need);
    if (o->limit == 0 && !one_program)
        o->limit = covered;
    return TENURE_OK;
}

static enum tenure_status open_socket(struct tn_work *w, struct tenure_error *err)
{
    const struct tn_work_options *o = w->options;
    struct tn_work_socket_options options = {.group = o->jobs.group,
                                             .id = o->jobs.id,
                                             .arg = w,
                                             .commit = on_commit,
                                             .stopped =
                                                 o->one_program ? tn_work_post_stopped : NULL};
    enum tenure_status status = tn_program_user(&o->program, &options.user, err);

    if (!status)
        status = tn_work_socket_open(&options, &w->socket, err);
    if (status)
        return status;
    struct tn_fleet_options programs = {.program = &o->program,
                                        .group = o->jobs.group,
                                        .id = o->jobs.id,
                                        .store = o->jobs.store,
                                        .socket = tn_work_socket_variable(w->socket),
                                        .dir = tn_work_socket_dir(w->socket),
                                        .user = options.user,
                                        .stop_signal = o->stop_signal,
                                        .rate = o->start_rate,
                                        .arg = w,
                                        .stopped = on_stopped};
    struct tn_fleet_options jobs = {.host = &tn_work_one_program, .arg = w, .stopped = on_stopped};
    if (o->one_program) {
        programs.started = tn_work_host_started;
        programs.stopped = tn_work_host_stopped;
    }
    tn_fleet_init(w->launched, &programs);
    if (o->one_program)
        tn_fleet_init(&w->fleet, &jobs);
    return TENURE_OK;
}

static enum tenure_status open_all(struct tn_work *w, struct tenure_error *err)
{
    struct tn_jobs_options jobs = w->options->jobs;
    struct tn_jobs_hooks hooks;
    enum tenure_status status = open_loop(w, err);

    if (status || (status = settle_capacity(&jobs, w->options->one_program, err)))
        return status;
    if ((status = open_socket(w, err)) || (status = tn_work_guard_open(w, err)))
        return status;
    if ((status = tn_work_listen(&w->options->api, jobs.group, jobs.id, &w->listener, err)))
        return status;
    jobs.observed = w->listener != NULL;
    w->exit_code = w->codes->failed;
    tn_work_hooks(w, &hooks);
    status = tn_jobs_driver_start(&jobs, &hooks, &w->driver, err);
    if (!status)
        w->exit_code = 0;
    tn_work_listen_for(w->listener, w->driver);
    return status;
}

static void close_all(struct tn_work *w)
{
    if (w->driver && !w->halted)
        _exit(w->exit_code); /* its threads wait for the store, and the guard ends what runs */
    tn_jobs_driver_join(w->driver); /* whose hooks notify the listener, which asks the driver */
    tn_work_listen_close(w->listener);
    tn_jobs_driver_free(w->driver);
    tn_work_guard_close(w);
    tn_work_socket_close(w->socket);
    tn_fleet_free(&w->fleet);
    tn_fleet_free(&w->host);
    tn_notify_close(&w->notify);
    if (w->signal.fd >= 0)
        close(w->signal.fd);
    if (w->late.fd >= 0)
        close(w->late.fd);
    tn_loop_close(&w->loop);
    pthread_mutex_destroy(&w->lock);
}

int tn_work(const struct tn_work_options *options, const struct tn_work_codes *codes)
{
    struct tn_work w = {.options = options,
                        .codes = codes,
                        .exit_code = codes->broken,
                        .launcher_socket = -1,
                        .signal.fd = -1,
                        .late.fd = -1};
    struct tenure_error err = {0};

    signal(SIGCHLD, SIG_DFL); /* ignored, it would take our children's ends away */
    pthread_mutex_init(&w.lock, NULL);
    w.last = &w.first;
    w.launched = options->one_program ? &w.host : &w.fleet;
    w.link = TN_GUARD_LINK_NONE;
    tn_log_setup(options->log, options->jobs.group, options->jobs.id);
    tn_notify_open(&w.notify, getenv("NOTIFY_SOCKET"), getenv("WATCHDOG_USEC"));
    /* If the guard dies, what it guarded becomes ours. */
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);

    enum tenure_status status = open_all(&w, &err);
    if (status) {
        tn_log("failed", "%s", err.text);
        if (status == TENURE_CONFIG || status == TENURE_INVALID)
            w.exit_code = codes->usage;
    } else {
        tn_notify(&w.notify, "READY=1\nSTATUS=working");
        if (w.notify.watchdog_ns > 0)
            w.ping.at_ns = 0;
        settle(&w);
        while (!w.over) {
            tn_loop_turn(&w.loop);
            settle(&w);
        }
    }
    close_all(&w);
    return w.exit_code;
}
