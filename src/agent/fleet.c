#include "agent/fleet.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/proxy.h"
#include "core/timing.h"
#include "os/init.h"
#include "os/log.h"
#include "os/poll.h"
#include "supervise/machine.h"
#include "tenure/elector.h"
#include "tenure/store.h"

#define PAUSE_MIN_NS (500 * TN_MS)
#define PAUSE_MAX_NS (30 * TN_S)
#define NEVER        (INT64_MAX / 2)
/* Descriptors of one election, and of the agent itself without its connections. */
#define FILES_EACH   4u
#define FILES_OWN    64u
/* A child that lives this long has not failed at its start. */
#define STEADY_NS    (60 * TN_S)

struct member {
    char name[TENURE_NAME_MAX + 1];
    pid_t pid; /* 0: does not run */
    int64_t started_ns, start_at_ns;
    int64_t pause_ns;
    bool wanted;   /* it is in the configuration, and has not ended by itself */
    bool stopping; /* told to: it was taken out, and may be back meanwhile */
};

struct tn_fleet {
    struct tn_fleet_options options;
    struct tn_notify notify;
    struct tn_proxy *proxy; /* NULL: no listener of our own */
    int text_fd, known_fd, signal_fd;
    sigset_t mask;       /* as it was */
    struct rlimit files; /* as they were */
    struct member *members;
    size_t n, cap;
    bool leaving;
    unsigned asked;   /* to leave, how often */
    int asked_by;     /* the first signal, */
    int64_t asked_ns; /* and when */
    int exit_code;
    int64_t watchdog_at_ns;
};

/* ---- The text ------------------------------------------------------------ */

/* Who reads and who writes exclude each other, so that nobody sees half of it. */
static bool lock_text(int fd, short how)
{
    struct flock lock = {.l_type = how, .l_whence = SEEK_SET};

    while (fcntl(fd, F_SETLKW, &lock) != 0) {
        if (errno != EINTR)
            return false;
    }
    return true;
}

static enum tenure_status write_text(int fd, const char *text, size_t len, struct tenure_error *err)
{
    bool ok =
        lock_text(fd, F_WRLCK) && ftruncate(fd, 0) == 0 && pwrite(fd, text, len, 0) == (ssize_t)len;
    int saved = errno;

    lock_text(fd, F_UNLCK);
    return ok ? TENURE_OK
              : tenure_fail(err, TENURE_UNAVAILABLE, "cannot pass the configuration on: %s",
                            strerror(saved));
}

char *tn_fleet_text(size_t *len, struct tenure_error *err)
{
    struct stat st = {0};
    char *text = NULL;

    if (lock_text(TN_FLEET_FD, F_RDLCK) && fstat(TN_FLEET_FD, &st) == 0 &&
        (text = calloc(1, (size_t)st.st_size + 1)) &&
        pread(TN_FLEET_FD, text, (size_t)st.st_size, 0) == (ssize_t)st.st_size) {
        *len = (size_t)st.st_size;
        lock_text(TN_FLEET_FD, F_UNLCK);
        return text;
    }
    tenure_fail(err, TENURE_UNAVAILABLE, "this is for `tenure agent` to call: %s", strerror(errno));
    free(text);
    return NULL;
}

/* ---- Children ------------------------------------------------------------ */

/* Each to its number; none of them may be in the place of another. */
static bool pass_on(const int *from, int n)
{
    int high[4];

    for (int i = 0; i < n; i++) {
        high[i] = fcntl(from[i], F_DUPFD_CLOEXEC, TN_FLEET_SOCKET + 1);
        if (high[i] < 0)
            return false;
    }
    for (int i = 0; i < n; i++) {
        if (dup2(high[i], TN_FLEET_FD + i) < 0)
            return false;
    }
    return true;
}

/* Between fork and exec, with other threads about: nothing that takes a lock. */
static _Noreturn void become(const struct tn_fleet *f, const struct tn_proxy_ends *ends,
                             char *const *args, pid_t parent)
{
    const int fds[] = {f->text_fd, f->known_fd, ends->page, ends->socket};

    setpgid(0, 0); /* what is typed at a terminal is for the agent, which passes it on */
    prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0);
    if (getppid() != parent)
        _exit(1);
    if (!pass_on(fds, f->proxy ? 4 : 2))
        _exit(1);
    setrlimit(RLIMIT_NOFILE, &f->files);
    sigset_t mask = f->mask;
    sigaddset(&mask, SIGHUP); /* kept until somebody can take it: tn_fleet_mask() */
    sigprocmask(SIG_SETMASK, &mask, NULL);
    execv("/proc/self/exe", args);
    _exit(1);
}

void tn_fleet_mask(sigset_t *mask)
{
    sigprocmask(SIG_SETMASK, NULL, mask);
    sigdelset(mask, SIGHUP);
}

static void start(struct tn_fleet *f, struct member *m)
{
    static char agent[] = "agent", config[] = "--config";
    char tenure[sizeof m->name + 16]; /* as ps shows it */
    static char election[] = "--election";
    char *path = (char *)(uintptr_t)f->options.config; /* execv(3) writes to none of them */
    static char log[] = "--log", log_level[] = "--log-level";
    static char log_time[] = "--log-time", inner[] = "--inner";
    char *format = (char *)(uintptr_t)f->options.log;
    char *level = (char *)(uintptr_t)f->options.level;
    char *stamp = (char *)(uintptr_t)f->options.stamp;
    char *args[14] = {tenure, agent, config, path, election, m->name};
    struct tn_proxy_ends ends = {-1, -1};
    size_t n = 6;

    snprintf(tenure, sizeof tenure, "tenure: %s", m->name);
    if (f->proxy)
        args[n++] = inner;
    if (format)
        args[n++] = log, args[n++] = format;
    if (level)
        args[n++] = log_level, args[n++] = level;
    if (stamp)
        args[n++] = log_time, args[n++] = stamp;
    bool ready = !f->proxy || tn_proxy_prepare(f->proxy, m->name, &ends);
    pid_t self = getpid(), pid = ready ? fork() : -1;

    if (pid == 0)
        become(f, &ends, args, self);
    if (ends.socket >= 0)
        close(ends.socket); /* once the process is gone, so is its end */
    m->started_ns = tenure_now();
    m->start_at_ns = NEVER;
    if (pid < 0) {
        tn_log("failed", "no new process for %s: %s", m->name, strerror(errno));
        m->start_at_ns = m->started_ns + PAUSE_MAX_NS;
        if (f->proxy)
            tn_proxy_ended(f->proxy, m->name, "its process could not be started; tried again soon");
        return;
    }
    m->pid = pid;
    tn_init_await(pid);
    if (f->proxy)
        tn_proxy_started(f->proxy, m->name, pid);
}

static void pause_for(struct member *m)
{
    bool steady = tenure_now() - m->started_ns >= STEADY_NS;

    m->pause_ns = steady || m->pause_ns == 0 ? PAUSE_MIN_NS : m->pause_ns * 2;
    if (m->pause_ns > PAUSE_MAX_NS)
        m->pause_ns = PAUSE_MAX_NS;
    m->start_at_ns = tenure_now() + m->pause_ns;
}

/* For those who ask the listener. */
static void tell_end(const struct tn_fleet *f, const struct member *m, int status, bool again)
{
    char fate[160];

    if (!f->proxy)
        return;
    snprintf(fate, sizeof fate, "its process has ended (%s %d)%s",
             WIFEXITED(status) ? "code" : "signal",
             WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status),
             again ? " and is started again soon" : "");
    tn_proxy_ended(f->proxy, m->name, fate);
}

static void ended(struct tn_fleet *f, struct member *m, int status)
{
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    bool back = m->stopping && m->wanted; /* it has ended because we told it to */
    bool again = back || !WIFEXITED(status) || code == f->options.codes.again;

    tn_init_forget(m->pid);
    m->pid = 0;
    m->stopping = false;
    tell_end(f, m, status, again && m->wanted && !f->leaving);
    if (!m->wanted || f->leaving || back)
        return;
    if (again) {
        pause_for(m);
        tn_log("restarting", "%s ended (%s %d); starting it again in %.1f s", m->name,
               WIFEXITED(status) ? "code" : "signal", WIFEXITED(status) ? code : WTERMSIG(status),
               (double)m->pause_ns / 1e9);
        return;
    }
    m->wanted = false;
    if (code > f->exit_code)
        f->exit_code = code;
    tn_log("ended", "%s has ended with code %d", m->name, code);
}

static void reap(struct tn_fleet *f)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        for (size_t i = 0; i < f->n; i++) {
            if (f->members[i].pid == pid)
                ended(f, &f->members[i], status);
        }
    }
}

static void signal_one(const struct member *m, int signal)
{
    if (m->pid)
        kill(m->pid, signal);
    if (m->pid && signal == SIGTERM)
        kill(m->pid, SIGCONT); /* who is stopped does not hear it */
}

static void signal_all(const struct tn_fleet *f, int signal)
{
    for (size_t i = 0; i < f->n; i++)
        signal_one(&f->members[i], signal);
}

/* ---- The elections there should be --------------------------------------- */

static struct member *find(struct tn_fleet *f, const char *name)
{
    for (size_t i = 0; i < f->n; i++) {
        if (strcmp(f->members[i].name, name) == 0)
            return &f->members[i];
    }
    return NULL;
}

static bool listed(const char *name, const struct tn_fleet_election *elections, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(name, elections[i].name) == 0)
            return true;
    }
    return false;
}

/* Once: a second one would cut its grace short. */
static void stop(struct member *m)
{
    if (!m->stopping)
        signal_one(m, SIGTERM);
    m->stopping = m->pid != 0;
}

/* Those that are gone and have ended make room. */
static void forget(struct tn_fleet *f, const struct tn_fleet_election *elections, size_t n)
{
    for (size_t i = 0; i < f->n;) {
        struct member *m = &f->members[i];

        if (!listed(m->name, elections, n)) {
            if (m->wanted)
                tn_log("removed", "%s is no longer in the configuration; stopping it", m->name);
            m->wanted = false;
            m->start_at_ns = NEVER;
            stop(m);
        }
        if (!m->wanted && !m->pid && !listed(m->name, elections, n))
            *m = f->members[--f->n];
        else
            i++;
    }
}

/* Some may still be ending while others are added. */
static bool make_room(struct tn_fleet *f, size_t n)
{
    struct member *grown;

    if (f->n + n <= f->cap)
        return true;
    grown = realloc(f->members, (f->n + n) * sizeof *grown);
    if (!grown)
        return false;
    f->members = grown;
    f->cap = f->n + n;
    return true;
}

/* Each election has descriptors of ours, a removed one too; the listener keeps what it had.
 * Children get the limit back that we were started with. */
static void raise_file_limit(const struct tn_fleet *f, size_t n)
{
    struct rlimit files = f->files;
    rlim_t need = files.rlim_cur + (rlim_t)n * FILES_EACH;

    if (!f->proxy || files.rlim_cur == RLIM_INFINITY)
        return;
    files.rlim_cur = need < files.rlim_max ? need : files.rlim_max;
    if (need > files.rlim_max && n * FILES_EACH + FILES_OWN > files.rlim_max)
        tn_log("limit",
               "%zu elections need %zu open files, and the hard limit is %llu: raise it "
               "(LimitNOFILE= of the unit, or ulimit -Hn)",
               n, n * FILES_EACH + FILES_OWN, (unsigned long long)files.rlim_max);
    setrlimit(RLIMIT_NOFILE, &files);
}

/* The listener's own list. */
static enum tenure_status set_proxy(struct tn_fleet *f, const struct tn_fleet_election *elections,
                                    size_t n, struct tenure_error *err)
{
    const char **names = calloc(n, sizeof *names);
    enum tenure_status status = TENURE_OK;

    if (!names)
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    for (size_t i = 0; i < n; i++)
        names[i] = elections[i].name;
    raise_file_limit(f, f->proxy ? tn_proxy_count(f->proxy, names, n) : n);
    if (f->proxy)
        status = tn_proxy_set(f->proxy, names, n, err);
    free(names);
    return status;
}

/* One that runs goes on; if it cannot be changed like that, it alone is started again. */
static void change(struct member *m, bool restart)
{
    if (restart)
        stop(m);
    if (m->pid && !m->stopping)
        kill(m->pid, SIGHUP);
    else
        m->start_at_ns = 0; /* it may be better now */
}

enum tenure_status tn_fleet_set(struct tn_fleet *f, const char *text, size_t len,
                                const struct tn_fleet_election *elections, size_t n,
                                struct tenure_error *err)
{
    enum tenure_status status = make_room(f, n) ? write_text(f->text_fd, text, len, err)
                                                : tenure_fail(err, TENURE_NOMEM, "out of memory");

    if (!status)
        status = set_proxy(f, elections, n, err);
    if (status)
        return status;
    forget(f, elections, n);
    for (size_t i = 0; i < n; i++) {
        struct member *m = find(f, elections[i].name);

        if (m && m->wanted) {
            change(m, elections[i].restart);
            continue;
        }
        if (!m) {
            m = &f->members[f->n++];
            memset(m, 0, sizeof *m); /* another one may have been there */
        }
        /* It may be on its way out: started again after that. */
        *m = (struct member){.pid = m->pid, .stopping = m->stopping, .wanted = true};
        snprintf(m->name, sizeof m->name, "%s", elections[i].name);
    }
    return TENURE_OK;
}

enum tenure_status tn_fleet_listen(struct tn_fleet *f, const struct tn_api_options *options,
                                   struct tenure_error *err)
{
    return tn_proxy_open(options, &f->proxy, err);
}

/* ---- The loop ------------------------------------------------------------ */

static void leave(struct tn_fleet *f, int signal)
{
    int64_t now = tenure_now();

    if (f->asked > 0 && tn_machine_is_repeated(f->asked_by, f->asked_ns, signal, now))
        return;
    if (f->asked == 0) {
        f->asked_by = signal;
        f->asked_ns = now;
    }
    if (f->asked == 0)
        tn_log("leaving", "asked to stop (%s)", strsignal(signal));
    else if (f->asked == 1)
        tn_log("hastening", "asked again: the programs are killed");
    else
        tn_log("hastening", "asked once more: the elections' processes are killed; their guards "
                            "end the programs and release");
    f->asked++;
    f->leaving = true;
    f->exit_code = 0;
    tn_notify(&f->notify, "STOPPING=1\nSTATUS=stopping");
    for (size_t i = 0; i < f->n; i++) {
        struct member *m = &f->members[i];

        if (!m->stopping)
            signal_one(m, f->asked > 2 ? SIGKILL : SIGTERM);
        else if (f->asked > 1) /* else its grace would be cut short */
            signal_one(m, f->asked > 2 ? SIGKILL : SIGQUIT);
    }
}

static void take_signals(struct tn_fleet *f)
{
    struct signalfd_siginfo info;

    while (read(f->signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
        int signal = (int)info.ssi_signo;

        if (signal == SIGCHLD)
            reap(f);
        else if (signal == SIGHUP && !f->leaving)
            f->options.reload(f->options.arg);
        else if (signal == SIGTERM || signal == SIGINT || signal == SIGQUIT)
            leave(f, signal);
        else if (signal == SIGUSR1 || signal == SIGUSR2)
            signal_all(f, signal); /* for the programs */
    }
}

static int64_t start_due(struct tn_fleet *f, int64_t now)
{
    int64_t next = NEVER;

    for (size_t i = 0; i < f->n && !f->leaving; i++) {
        struct member *m = &f->members[i];

        if (m->wanted && !m->pid && now >= m->start_at_ns)
            start(f, m);
        if (m->wanted && !m->pid && m->start_at_ns < next)
            next = m->start_at_ns;
    }
    if (f->notify.watchdog_ns > 0 && now >= f->watchdog_at_ns) {
        tn_notify(&f->notify, "WATCHDOG=1");
        f->watchdog_at_ns = now + f->notify.watchdog_ns;
    }
    if (f->notify.watchdog_ns > 0 && f->watchdog_at_ns < next)
        next = f->watchdog_at_ns;
    return next;
}

static bool anybody(const struct tn_fleet *f)
{
    for (size_t i = 0; i < f->n; i++) {
        if (f->members[i].pid || (f->members[i].wanted && !f->leaving))
            return true;
    }
    return false;
}

int tn_fleet_run(struct tn_fleet *f)
{
    struct pollfd fd = {.fd = f->signal_fd, .events = POLLIN};
    int64_t next = start_due(f, tenure_now());

    tn_notify(&f->notify, "READY=1\nSTATUS=%zu elections", f->n);
    while (anybody(f)) {
        if (tn_poll(&fd, 1, next) > 0)
            take_signals(f);
        next = start_due(f, tenure_now());
    }
    return f->exit_code;
}

/* ---- Life ---------------------------------------------------------------- */

enum tenure_status tn_fleet_open(const struct tn_fleet_options *options, struct tn_fleet **fleet,
                                 struct tenure_error *err)
{
    static const char *const ours[] = {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID",
                                       "LISTEN_FDS",    "LISTEN_PID",    "LISTEN_FDNAMES"};
    static const int signals[] = {SIGTERM, SIGINT, SIGQUIT, SIGHUP, SIGUSR1, SIGUSR2, SIGCHLD};
    struct tn_fleet *f = calloc(1, sizeof *f);
    sigset_t set;

    if (!f)
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    f->options = *options;
    if (getrlimit(RLIMIT_NOFILE, &f->files) != 0)
        f->files.rlim_cur = f->files.rlim_max = RLIM_INFINITY;
    tn_notify_open(&f->notify, getenv("NOTIFY_SOCKET"), getenv("WATCHDOG_USEC"));
    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++)
        unsetenv(ours[i]); /* the children answer to us */
    signal(SIGCHLD, SIG_DFL);
    signal(SIGPIPE, SIG_IGN);
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        sigaddset(&set, signals[i]);
    sigprocmask(SIG_BLOCK, &set, &f->mask);
    f->text_fd = memfd_create("tenure-config", MFD_CLOEXEC);
    f->known_fd = memfd_create("tenure-known", MFD_CLOEXEC);
    f->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (f->text_fd < 0 || f->signal_fd < 0 || fcntl(f->known_fd, F_SETFL, O_APPEND) != 0) {
        tenure_fail(err, TENURE_UNAVAILABLE, "cannot make descriptors: %s", strerror(errno));
        tn_fleet_close(f);
        return TENURE_UNAVAILABLE;
    }
    *fleet = f;
    return TENURE_OK;
}

void tn_fleet_close(struct tn_fleet *f)
{
    if (!f)
        return;
    tn_proxy_close(f->proxy);
    if (f->text_fd >= 0)
        close(f->text_fd);
    if (f->known_fd >= 0)
        close(f->known_fd);
    if (f->signal_fd >= 0)
        close(f->signal_fd);
    tn_notify_close(&f->notify);
    free(f->members);
    free(f);
}
