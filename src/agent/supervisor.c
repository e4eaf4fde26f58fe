/* The supervisor's loop: signals, the guard, the timers; its life. */
#include "agent/supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/driver.h"
#include "agent/supervisor_inner.h"
#include "core/timing.h"
#include "os/poll.h"
#include "os/trim.h"

/* ---- What the driver and the clerk tell the guard --------------------------- */

/*
 * The guard sends KILL a margin before the deadline.  Half of that later it must
 * have said so: else somebody stopped the guard, and we end it and the program.
 */
static int64_t late_at(const struct tn_supervisor *s, int64_t deadline_ns)
{
    return deadline_ns - s->link.page->margin_ns / 2;
}

static bool publish(void *arg, int64_t deadline_ns)
{
    struct tn_supervisor *s = arg;
    int64_t late = late_at(s, deadline_ns);
    struct itimerspec when = {0};
    bool ok = tn_guard_link_publish(&s->link, deadline_ns);

    /* It has fired: the program has what is left of its grace, and KILL comes
     * when it was due before.  The guard is not late until then. */
    if (!ok)
        return false;
    atomic_store(&s->deadline_ns, deadline_ns);
    if (deadline_ns > 0) {
        when.it_value.tv_sec = (time_t)(late / TN_S);
        when.it_value.tv_nsec = (long)(late % TN_S);
    }
    timerfd_settime(s->late_fd, TFD_TIMER_ABSTIME, &when, NULL);
    return true;
}

/* Half of what a request may last again, and at least half a second: then a
 * stand-by hangs in it, and who hangs in an SQLite transaction blocks everybody. */
static int64_t hangs_at(int64_t until_ns)
{
    int64_t span = until_ns - tenure_now();

    return until_ns == 0 ? 0 : until_ns + (span > TN_S ? span / 2 : TN_S / 2);
}

static void on_request(void *arg, int64_t until_ns)
{
    struct tn_supervisor *s = arg;

    tn_guard_link_busy(&s->link, TN_BUSY_DRIVER, hangs_at(until_ns));
}

static void on_paper(void *arg, int64_t until_ns)
{
    struct tn_supervisor *s = arg;

    tn_guard_link_busy(&s->link, TN_BUSY_CLERK, hangs_at(until_ns));
}

/* ---- The program's state ------------------------------------------------- */

static enum tenure_status on_seal(void *arg, uint64_t epoch, const uint8_t grant[TENURE_NONCE_SIZE],
                                  uint64_t *floor, struct tenure_error *err)
{
    struct tn_supervisor *s = arg;
    enum tenure_status status = tn_state_socket_seal(s->socket, epoch, grant, floor, err);

    /* Tried again many times a second: once a grant is enough to know. */
    if (status && s->unsealed_epoch != epoch)
        tn_log("state", "the state is not sealed yet: %s", err->text);
    s->unsealed_epoch = status ? epoch : 0;
    return status;
}

static void on_fenced(void *arg, uint64_t floor)
{
    struct tn_supervisor *s = arg;

    tn_election_fenced(s->election);
    tenure_elector_fenced(s->elector, floor);
}

static void on_committed(void *arg, const char *collection, const char *id, uint64_t seq)
{
    tn_election_committed(((struct tn_supervisor *)arg)->election, collection, id, seq);
}

static int64_t time_left(void *arg)
{
    struct tn_supervisor *s = arg;

    return s->elector ? tenure_elector_time_left(s->elector) : 0;
}

static enum tenure_status open_socket(struct tn_supervisor *s, struct tn_driver_hooks *hooks,
                                      struct tenure_error *err)
{
    struct tn_state_socket_options o = {.store = s->options->state,
                                        .name = s->options->elector.name,
                                        .seal = s->options->seal,
                                        .fenced = on_fenced,
                                        .committed = on_committed,
                                        .time_left = time_left,
                                        .arg = s};
    enum tenure_status status = tn_program_user(&s->options->program, &o.user, err);

    hooks->seal = on_seal;
    return status ? status : tn_state_socket_open(&o, &s->socket, err);
}

/* ---- Signals ------------------------------------------------------------- */

/* Everything that is passed on or means something to us; the rest stays as it was. */
static void handled_signals(sigset_t *set)
{
    static const int plain[] = {SIGTERM, SIGINT,   SIGQUIT, SIGHUP,  SIGUSR1, SIGUSR2,
                                SIGALRM, SIGWINCH, SIGCHLD, SIGPIPE, SIGIO};

    sigemptyset(set);
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++)
        sigaddset(set, plain[i]);
    for (int i = SIGRTMIN; i <= SIGRTMAX; i++)
        sigaddset(set, i);
}

int64_t tn_supervisor_grace(const struct tn_supervisor *s)
{
    return (s->options->elector.grace_ms ? s->options->elector.grace_ms : 8000) * TN_MS;
}

/* The first time: drain.  The second time: at once. */
static void asked_to_go(struct tn_supervisor *s, int signal)
{
    if (++s->signals_seen > 1) {
        tn_log("hastening", "asked again: killing the program");
        tn_guard_link_stop(&s->link, SIGKILL, 1);
        return;
    }
    tn_log("leaving", "asked to stop (%s)", strsignal(signal));
    if (signal != SIGTERM)
        s->stop_signal = signal; /* as the terminal would have */
    /* Before the driver knows, who may be waiting for a slow store. */
    if (s->state != TN_PROGRAM_NONE)
        tn_guard_link_stop(&s->link, s->stop_signal, tenure_now() + tn_supervisor_grace(s));
    tn_supervisor_leave(s);
}

static void reap(struct tn_supervisor *s)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        tn_supervisor_reaped(s, pid, status);
}

static void take_signals(struct tn_supervisor *s)
{
    struct signalfd_siginfo info;

    while (read(s->signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
        int signal = (int)info.ssi_signo;

        if (signal == SIGHUP && s->options->reload) {
            tn_supervisor_reload(s);
        } else if (signal == SIGTERM || signal == SIGINT || signal == SIGQUIT ||
                   (signal == SIGHUP && s->has_terminal)) {
            asked_to_go(s, signal);
        } else if (signal == SIGCHLD) {
            reap(s);
        } else if (signal != SIGPIPE && signal != SIGIO) {
            tn_guard_link_signal(&s->link, signal);
        }
    }
}

void tn_supervisor_leave(struct tn_supervisor *s)
{
    if (s->leaving)
        return;
    s->leaving = true;
    s->restart_at_ns = TN_NEVER;
    tn_election_stopping(s->election);
    tn_notify(&s->notify, "STOPPING=1\nSTATUS=stopping");
    tn_driver_shutdown(s->elector);
}

/* ---- The guard's guard --------------------------------------------------- */

/* It had so long to answer the order to start the program. */
#define ANSWER_NS (10 * TN_S)
/* Memory is given back once the news have been dealt with, never while a program waits to start. */
#define TRIM_NS   (2 * TN_S)

static bool guard_is_late(const struct tn_supervisor *s, int64_t now)
{
    int64_t deadline = atomic_load(&s->deadline_ns);

    if (s->state == TN_PROGRAM_NONE || s->state == TN_PROGRAM_ENDING || s->state == TN_PROGRAM_HOOK)
        return false;
    return (deadline > 0 && now >= late_at(s, deadline)) ||
           (s->state == TN_PROGRAM_ASKED && now - s->started_ns >= ANSWER_NS);
}

/* No KILL at the deadline, or no answer at all. */
static void check_guard(struct tn_supervisor *s, int64_t now)
{
    if (!guard_is_late(s, now))
        return;
    tn_supervisor_reports(s); /* the word may just have come */
    if (guard_is_late(s, now)) {
        tn_log("guard", "the guard does not do its duty; ending it and the program");
        tn_guard_link_shoot(&s->link);
    }
}

/* ---- The loop ------------------------------------------------------------ */

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static void pass_time(struct tn_supervisor *s)
{
    int64_t now = tenure_now();

    check_guard(s, now);
    tn_helpers_time(&s->helpers, now);
    tn_supervisor_health_time(s, now);
    tn_supervisor_control_time(s, now);
    tn_supervisor_clients_time(s, now);
    if (now >= s->restart_at_ns)
        tn_supervisor_start_program(s);
    if (now >= s->trim_at_ns) {
        tn_trim(); /* news are rare; between them there is little to do */
        s->trim_at_ns = TN_NEVER;
    }
    if (now >= s->pet_at_ns) {
        tn_notify(&s->notify, "WATCHDOG=1");
        s->pet_at_ns = now + s->notify.watchdog_ns;
    }
}

static int64_t next_due(const struct tn_supervisor *s)
{
    int64_t next = min64(s->restart_at_ns, min64(s->pet_at_ns, s->trim_at_ns));

    next = min64(next, s->quiet_at_ns);
    if (s->state == TN_PROGRAM_ASKED)
        next = min64(next, s->started_ns + ANSWER_NS);
    next = min64(next, tn_helpers_due(&s->helpers));
    next = min64(next, tn_probe_due(&s->probe));
    next = min64(next, tn_probe_due(&s->candidate_probe));
    return min64(next, tn_supervisor_control_due(s));
}

static void loop(struct tn_supervisor *s)
{
    for (;;) {
        struct pollfd fds[] = {
            {.fd = s->link.socket, .events = POLLIN},
            {.fd = s->link.pidfd, .events = POLLIN},
            {.fd = s->mailbox.event_fd, .events = POLLIN},
            {.fd = s->signal_fd, .events = POLLIN},
            {.fd = s->late_fd, .events = POLLIN},
            {.fd = s->program_notify, .events = POLLIN},
            {.fd = -1},
            {.fd = -1},
        };
        uint64_t count;

        fds[6].fd = tn_probe_fd(&s->probe, &fds[6].events);
        fds[7].fd = tn_probe_fd(&s->candidate_probe, &fds[7].events);
        if (tn_poll(fds, 8, next_due(s)) < 0)
            continue;
        if (fds[4].revents && read(s->late_fd, &count, sizeof count) < 0)
            continue; /* it was moved on meanwhile */
        if (fds[0].revents & POLLIN)
            tn_supervisor_reports(s);
        if (fds[1].revents || (fds[0].revents & POLLHUP))
            tn_supervisor_guard_died(s);
        if (fds[3].revents)
            take_signals(s);
        if (fds[2].revents && !tn_supervisor_take_mail(s))
            return;
        if (fds[5].revents)
            tn_supervisor_health_notified(s);
        if (fds[6].revents)
            tn_probe_ready(&s->probe, tenure_now());
        if (fds[7].revents)
            tn_probe_ready(&s->candidate_probe, tenure_now());
        if (fds[2].revents)
            s->trim_at_ns = tenure_now() + TRIM_NS;
        pass_time(s);
    }
}

/* ---- Life ---------------------------------------------------------------- */

static enum tenure_status open_guard(struct tn_supervisor *s, struct tenure_error *err)
{
    const struct tn_run_options *o = s->options;
    struct tn_timing_wish wish = {.ttl_ns = o->elector.ttl_ms * TN_MS,
                                  .renew_ns = o->elector.renew_ms * TN_MS,
                                  .grace_ns = o->elector.grace_ms * TN_MS,
                                  .kill_ns = o->elector.kill_ms * TN_MS,
                                  .rho_ppm = o->elector.rho_ppm};
    struct tn_timing timing;

    /* Times that cannot work are refused by the driver, with the arithmetic. */
    tn_timing_plan(&wish, &timing);
    if (o->trace) {
        enum tenure_status opened =
            tn_trace_file_open(o->trace, o->elector.name, &timing, &s->trace, err);
        if (opened)
            return opened;
    }
    struct tn_guard_wish guard = {.contain = o->contain,
                                  .grace_ns = timing.grace_ns,
                                  .kill_ns = timing.kill_ns,
                                  .orphan_grace_ns = o->orphan_grace_ns,
                                  .release_delay_ns = max64(o->release_delay_ns, o->answer_ns),
                                  .stop_signal = o->stop_signal,
                                  .watchdog = o->watchdog,
                                  .watchdog_s = (uint32_t)((timing.kill_ns + TN_S - 1) / TN_S)};
    enum tenure_status status = tn_guard_link_open(&s->link, &guard, err);

    if (!status)
        status = tn_guard_link_start(&s->link, err);
    /* A wish that cannot be met is refused before anybody contends. */
    if (!status && (o->contain != TN_CONTAIN_AUTO || o->watchdog))
        status = tn_guard_link_greet(&s->link, err);
    return status;
}

static enum tenure_status open_all(struct tn_supervisor *s, struct tenure_error *err)
{
    struct tenure_elector_options o = s->options->elector;
    struct tn_driver_hooks hooks = {.arg = s, .publish = publish};
    sigset_t set;
    enum tenure_status status;

    handled_signals(&set);
    sigprocmask(SIG_BLOCK, &set, NULL);
    s->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    s->late_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    s->mailbox.event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (s->signal_fd < 0 || s->late_fd < 0 || s->mailbox.event_fd < 0)
        return tenure_fail(err, TENURE_UNAVAILABLE, "cannot make descriptors: %s", strerror(errno));
    status = tn_supervisor_health_open(s, err);
    if (!status)
        status = open_guard(s, err);
    if (status)
        return status;
    if (strncmp(o.store, "sqlite:", 7) == 0) {
        hooks.request = on_request;
        s->clerk.request = on_paper;
    }
    if (s->options->state && (status = open_socket(s, &hooks, err)))
        return status;
    /* Nobody else sees what is in these. */
    s->controlled = strncmp(o.store, "noop:", 5) != 0 && strncmp(o.store, "memory:", 7) != 0;
    if (s->controlled)
        hooks.control = tn_supervisor_on_control;
    s->election = tn_supervisor_election(s);
    if (!s->election)
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    /* A port that is taken is told before anybody contends. */
    if ((status = tn_supervisor_listen(s, err)))
        return status;
    tn_supervisor_hear(s, &o, &hooks);
    status = tn_driver_start(&o, &hooks, &s->elector, err);
    if (!status)
        tn_election_attach(s->election, s->elector);
    /* It came up while the store was opened.  Nothing is started before it is there. */
    if (!status && s->link.contain == TN_CONTAIN_AUTO)
        status = tn_guard_link_greet(&s->link, err);
    if (!status)
        tn_election_contain(s->election, tn_contain_text(s->link.contain));
    return status;
}

static void close_all(struct tn_supervisor *s)
{
    tn_helpers_kill_all(&s->helpers);
    tn_api_stop(s->api); /* its answers ask the elector, and the state */
    if (s->election) {
        tn_election_state(s->election, NULL, NULL);
        tn_election_attach(s->election, NULL);
    }
    tn_state_socket_mute(s->socket); /* likewise */
    tenure_elector_stop(s->elector); /* which may still be sealing */
    tn_trace_file_close(s->trace);
    tn_state_socket_close(s->socket);
    if (s->announced)
        usleep(20 * 1000); /* the next leader first */
    tn_clerk_end(&s->clerk, s->announced);
    tn_election_free(s->election);
    tn_supervisor_health_close(s);
    tn_guard_link_quit(&s->link);
    tn_guard_link_close(&s->link);
    tn_notify_close(&s->notify);
    if (s->signal_fd >= 0)
        close(s->signal_fd);
    if (s->late_fd >= 0)
        close(s->late_fd);
    if (s->mailbox.event_fd >= 0)
        close(s->mailbox.event_fd);
}

static int code_for(const struct tn_supervisor *s, enum tenure_status status)
{
    switch (status) {
    case TENURE_CONFIG:
    case TENURE_INVALID:
        return s->codes->usage;
    default:
        return s->link.alive ? s->codes->failed : s->codes->broken;
    }
}

/* What was closed when we were started would otherwise become something of ours,
 * and the program would read and write that. */
static void fill_standard_descriptors(void)
{
    int fd;

    do
        fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd > STDERR_FILENO)
        close(fd);
}

int tn_run(const struct tn_run_options *options, const struct tn_run_codes *codes)
{
    struct tn_supervisor s = {.options = options,
                              .codes = codes,
                              .signal_fd = -1,
                              .late_fd = -1,
                              .stop_signal = options->stop_signal,
                              .program_notify = -1,
                              .restart_at_ns = TN_NEVER,
                              .quiet_at_ns = TN_NEVER,
                              .trim_at_ns = TN_NEVER,
                              .paper_at_ns = TN_NEVER,
                              .yield_at_ns = TN_NEVER,
                              .preempt_at_ns = TN_NEVER,
                              .pet_at_ns = TN_NEVER};
    struct tenure_error err = {0};

    fill_standard_descriptors();
    signal(SIGCHLD, SIG_DFL); /* ignored, it would take our children's ends away */
    pthread_mutex_init(&s.mailbox.lock, NULL);
    pthread_cond_init(&s.mailbox.quiet, NULL);
    s.mailbox.event_fd = s.link.socket = s.link.pidfd = -1;
    s.helpers.mask = options->program.mask;
    s.clerk.store = options->elector.store;
    s.clerk.name = options->elector.name;
    s.clerk.prefer = options->prefer;
    s.clerk.tell = tn_supervisor_on_news;
    s.clerk.arg = &s;
    tn_clerk_init(&s.clerk);
    tn_log_setup(options->log, options->elector.name,
                 options->elector.id ? options->elector.id : "");
    tn_notify_open(&s.notify, getenv("NOTIFY_SOCKET"), getenv("WATCHDOG_USEC"));
    int terminal = open("/dev/tty", O_RDONLY | O_CLOEXEC);
    s.has_terminal = terminal >= 0;
    if (terminal >= 0)
        close(terminal);
    /* If the guard dies, what it guarded becomes ours. */
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);

    enum tenure_status status = open_all(&s, &err);
    if (status) {
        tn_log("failed", "%s", err.text);
        s.exit_code = code_for(&s, status);
    } else {
        tn_supervisor_enrol(&s);
        tn_notify(&s.notify, "READY=1\nSTATUS=stand-by");
        if (s.notify.watchdog_ns > 0)
            s.pet_at_ns = 0;
        if (options->warm)
            s.restart_at_ns = 0;
        loop(&s);
    }
    close_all(&s);
    return s.exit_code;
}
