#include "supervise/guard/link.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/duration.h"
#include "core/timing.h"
#include "os/init.h"
#include "os/pass.h"
#include "os/poll.h"
#include "supervise/program/environment.h"
#include "tenure/store.h"
#include "tn_version.h"

#define START_LIMIT_NS (5 * TN_S)

/* ---- What is shared ------------------------------------------------------ */

static void fill_page(struct tn_guard_page *page, const struct tn_guard_wish *wish)
{
    page->abi = TN_GUARD_ABI;
    page->contain = wish->contain;
    atomic_store(&page->grace_ns, wish->grace_ns);
    /* KILL is delivered AT the deadline at the latest, so it goes out before:
     * waking up takes time on a loaded machine, the more so without the right
     * to real-time scheduling. */
    page->margin_ns = tn_min_ns(wish->kill_ns / 4, 50 * TN_MS);
    page->orphan_grace_ns = wish->orphan_grace_ns;
    page->hang_ns = tn_max_ns(2 * wish->kill_ns, TN_S);
    page->release_delay_ns = wish->release_delay_ns;
    page->stop_signal = wish->stop_signal;
    page->watchdog_s = wish->watchdog_s;
    snprintf(page->watchdog, sizeof page->watchdog, "%s", wish->watchdog ? wish->watchdog : "");
}

enum tenure_status tn_guard_link_open(struct tn_guard_link *l, const struct tn_guard_wish *wish,
                                      struct tenure_error *err)
{
    *l = TN_GUARD_LINK_NONE;
    l->page_fd = memfd_create("tenure-guard-page", MFD_CLOEXEC);
    l->ticket_fd = memfd_create("tenure-guard-ticket", MFD_CLOEXEC);
    l->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    l->busy_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    l->exe_fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    l->self_fd = (int)syscall(SYS_pidfd_open, getpid(), 0);
    if (l->page_fd < 0 || l->ticket_fd < 0 || l->timer_fd < 0 || l->busy_fd < 0 || l->exe_fd < 0 ||
        l->self_fd < 0 || ftruncate(l->page_fd, sizeof *l->page) != 0)
        return tenure_fail(err, TENURE_UNAVAILABLE, "cannot prepare the guard: %s",
                           strerror(errno));
    void *page = mmap(NULL, sizeof *l->page, PROT_READ | PROT_WRITE, MAP_SHARED, l->page_fd, 0);
    if (page == MAP_FAILED)
        return tenure_fail(err, TENURE_NOMEM, "cannot share memory with the guard: %s",
                           strerror(errno));
    l->page = page;
    fill_page(l->page, wish);
    return TENURE_OK;
}

void tn_guard_link_close(struct tn_guard_link *l)
{
    int fds[] = {l->socket,  l->pidfd,     l->page_fd, l->timer_fd,
                 l->busy_fd, l->ticket_fd, l->exe_fd,  l->self_fd};

    if (l->page)
        munmap(l->page, sizeof *l->page);
    for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++) {
        if (fds[i] >= 0)
            close(fds[i]);
    }
    pthread_mutex_destroy(&l->lock);
}

/* ---- Start and end ------------------------------------------------------- */

bool tn_guard_link_path(char out[PATH_MAX])
{
    char own[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", own, sizeof own - 1);

    if (n > 0) {
        own[n] = '\0';
        char *slash = strrchr(own, '/');
        static const char *const places[] = {"tenure-guard", "../libexec/tenure/tenure-guard"};

        for (size_t i = 0; slash && i < sizeof places / sizeof places[0]; i++) {
            snprintf(out, PATH_MAX, "%.*s/%s", (int)(slash - own), own, places[i]);
            if (access(out, X_OK) == 0)
                return true;
        }
    }
    snprintf(out, PATH_MAX, "%s/tenure-guard", TN_LIBEXEC_DIR);
    return access(out, X_OK) == 0;
}

/* In the new process, which has our memory until it is the guard (vfork): put the
 * descriptors where the guard expects them. */
__attribute__((noinline)) static _Noreturn void become_guard(const struct tn_guard_link *l,
                                                             int socket, const char *path,
                                                             char *const *env)
{
    const int from[] = {socket,     l->page_fd,   l->timer_fd, l->busy_fd,
                        l->self_fd, l->ticket_fd, l->exe_fd};
    enum { COUNT = TN_GUARD_FD_END - TN_GUARD_FD_SOCKET };
    static char name[] = "tenure-guard";
    char *const args[] = {name, NULL};
    int high[COUNT];

    _Static_assert(sizeof from / sizeof from[0] == COUNT, "one for each of enum tn_guard_fd");
    /* Up and away first, so that no two can collide on the way down. */
    for (int i = 0; i < COUNT; i++)
        high[i] = fcntl(from[i], F_DUPFD_CLOEXEC, 64);
    for (int i = 0; i < COUNT; i++) {
        if (high[i] < 0 || dup2(high[i], TN_GUARD_FD_SOCKET + i) < 0)
            _exit(1);
    }
    execve(path, args, env);
    _exit(1);
}

static enum tenure_status receive_hello(struct tn_guard_link *l, struct tenure_error *err)
{
    struct pollfd fd = {.fd = l->socket, .events = POLLIN};
    struct tn_guard_report hello;

    if (tn_poll(&fd, 1, tenure_now() + START_LIMIT_NS) <= 0 || !tn_guard_link_next(l, &hello) ||
        hello.kind != TN_GUARD_HELLO)
        return tenure_fail(err, TENURE_UNAVAILABLE, "the guard did not start");
    l->contain = (enum tn_contain)hello.contain;
    if (hello.error && hello.stage == TN_STAGE_CONTAIN)
        return tenure_fail(err, TENURE_CONFIG,
                           "this containment cannot be had here: %s; "
                           "use --contain auto",
                           strerror(hello.error));
    if (hello.error)
        return tenure_fail(err, TENURE_CONFIG, "watchdog %s: %s", l->page->watchdog,
                           strerror(hello.error));
    return TENURE_OK;
}

enum tenure_status tn_guard_link_start(struct tn_guard_link *l, struct tenure_error *err)
{
    char path[PATH_MAX], *env[TN_ENVIRONMENT_BARE];
    sigset_t all, before;
    int ends[2];

    if (!tn_guard_link_path(path))
        return tenure_fail(err, TENURE_CONFIG,
                           "tenure-guard was not found beside tenure or in %s; install it",
                           TN_LIBEXEC_DIR);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return tenure_fail(err, TENURE_UNAVAILABLE, "cannot talk to a guard: %s", strerror(errno));
    /* Nothing of ours is copied, nor to be copied later; and nothing may stop it half way. */
    tn_environment_bare(env);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid_t pid = vfork();
    if (pid == 0)
        become_guard(l, ends[1], path, env);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        return tenure_fail(err, TENURE_UNAVAILABLE, "cannot start a guard: %s", strerror(errno));
    }
    tn_init_await(pid);
    pthread_mutex_lock(&l->lock);
    l->pid = pid;
    l->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    l->socket = ends[0];
    l->alive = true;
    pthread_mutex_unlock(&l->lock);
    return TENURE_OK;
}

enum tenure_status tn_guard_link_wait_ready(struct tn_guard_link *l, struct tenure_error *err)
{
    enum tenure_status status = receive_hello(l, err);

    if (status)
        tn_guard_link_quit(l);
    return status;
}

/* By its descriptor: it may have died and been reaped with the orphans, and
 * its number may be a stranger's. */
static void signal_guard(const struct tn_guard_link *l, int signal)
{
    if (l->pidfd < 0)
        kill(l->pid, signal);
    else
        syscall(SYS_pidfd_send_signal, l->pidfd, signal, NULL, 0);
}

void tn_guard_link_kill(struct tn_guard_link *l)
{
    if (l->alive)
        signal_guard(l, SIGKILL);
}

void tn_guard_link_mark_dead(struct tn_guard_link *l)
{
    uint64_t word = l->page ? atomic_load(&l->page->word) : 0;

    tn_init_forget(l->pid);
    pthread_mutex_lock(&l->lock);
    l->alive = false;
    /* The next guard must not take this grant for its own. */
    while ((word & TN_WORD_DEADLINE) &&
           !atomic_compare_exchange_strong(&l->page->word, &word, word | TN_WORD_FIRED))
        continue;
    if (l->socket >= 0)
        close(l->socket);
    if (l->pidfd >= 0)
        close(l->pidfd);
    l->socket = l->pidfd = -1;
    pthread_mutex_unlock(&l->lock);
}

static bool order(struct tn_guard_link *l, const struct tn_guard_command *command)
{
    return l->alive && send(l->socket, command, sizeof *command, MSG_NOSIGNAL | MSG_DONTWAIT) ==
                           (ssize_t)sizeof *command;
}

void tn_guard_link_quit(struct tn_guard_link *l)
{
    struct pollfd fd = {.fd = l->pidfd, .events = POLLIN};

    if (!l->alive)
        return;
    if (!order(l, &(struct tn_guard_command){.kind = TN_GUARD_QUIT}))
        tn_guard_link_kill(l);
    if (tn_poll(&fd, 1, tenure_now() + START_LIMIT_NS) == 0)
        tn_guard_link_kill(l); /* the parent-death signals end what it guarded */
    waitpid(l->pid, NULL, 0);
    tn_guard_link_mark_dead(l);
}

/* ---- The deadline -------------------------------------------------------- */

static void arm(int timer, int64_t at_ns)
{
    struct itimerspec when = {0}; /* zero disarms */

    if (at_ns > 0) {
        when.it_value.tv_sec = (time_t)(at_ns / TN_S);
        when.it_value.tv_nsec = (long)(at_ns % TN_S);
    }
    timerfd_settime(timer, TFD_TIMER_ABSTIME, &when, NULL);
}

/* A deadline that is late by one instruction would be too late: the guard
 * lowers it as well, when it gets there first (protocol.h). */
static void lower(struct tn_guard_link *l, uint64_t word, int64_t deadline_ns)
{
    order(l,
          &(struct tn_guard_command){.kind = TN_GUARD_LOWER, .by_ns = deadline_ns, .expect = word});
}

bool tn_guard_link_publish(struct tn_guard_link *l, int64_t deadline_ns)
{
    uint64_t word = atomic_load(&l->page->word);

    pthread_mutex_lock(&l->lock);
    bool alive = l->alive;
    do {
        if (deadline_ns != 0 && ((word & TN_WORD_FIRED) || !alive))
            break;
        if (deadline_ns != 0 && (uint64_t)deadline_ns < word)
            lower(l, word, deadline_ns);
    } while (!atomic_compare_exchange_strong(&l->page->word, &word, (uint64_t)deadline_ns));
    /* A grant begins: a guard that was stopped before has set no alarm for it. */
    if (word == 0 && deadline_ns != 0 && alive)
        signal_guard(l, SIGCONT);
    pthread_mutex_unlock(&l->lock);

    if (deadline_ns == 0) {
        arm(l->timer_fd, 0);
        return true;
    }
    if ((word & TN_WORD_FIRED) || !alive)
        return false;
    arm(l->timer_fd, deadline_ns - tn_max_ns(atomic_load(&l->page->grace_ns), l->page->margin_ns));
    return true;
}

void tn_guard_link_busy(struct tn_guard_link *l, enum tn_busy who, int64_t until_ns)
{
    int64_t first = 0;

    pthread_mutex_lock(&l->lock);
    l->busy[who] = until_ns;
    for (int i = 0; i < TN_BUSY_END; i++) {
        if (l->busy[i] != 0 && (first == 0 || l->busy[i] < first))
            first = l->busy[i];
    }
    atomic_store(&l->page->busy_ns, (uint64_t)first);
    arm(l->busy_fd, first);
    pthread_mutex_unlock(&l->lock);
}

void tn_guard_link_keep(struct tn_guard_link *l, int64_t until_ns)
{
    atomic_store(&l->page->kept_ns, until_ns);
}

/* ---- Orders and reports -------------------------------------------------- */

bool tn_guard_link_ticket(struct tn_guard_link *l, const void *ticket, size_t len)
{
    return ftruncate(l->ticket_fd, 0) == 0 && pwrite(l->ticket_fd, ticket, len, 0) == (ssize_t)len;
}

/* An order and a descriptor, or two. */
static bool order_with(struct tn_guard_link *l, uint32_t kind, int fd, int second, int64_t by_ns)
{
    struct tn_guard_command command = {.kind = kind, .by_ns = by_ns};
    const int fds[] = {fd, second};

    return l->alive && tn_pass_fds(l->socket, &command, sizeof command, fds, second >= 0 ? 2 : 1);
}

bool tn_guard_link_spawn(struct tn_guard_link *l, int block_fd, int pass_fd)
{
    return order_with(l, TN_GUARD_SPAWN, block_fd, pass_fd, 0);
}

bool tn_guard_link_prepared(struct tn_guard_link *l, int socket)
{
    return order_with(l, TN_GUARD_PREPARED, socket, -1, 0);
}

bool tn_guard_link_hook(struct tn_guard_link *l, int block_fd, int64_t by_ns)
{
    return order_with(l, TN_GUARD_HOOK, block_fd, -1, by_ns);
}

void tn_guard_link_signal(struct tn_guard_link *l, int signal)
{
    order(l, &(struct tn_guard_command){.kind = TN_GUARD_SIGNAL, .signal = signal});
}

void tn_guard_link_stop(struct tn_guard_link *l, int signal, int64_t by_ns)
{
    order(l, &(struct tn_guard_command){.kind = TN_GUARD_STOP, .signal = signal, .by_ns = by_ns});
}

bool tn_guard_link_next(struct tn_guard_link *l, struct tn_guard_report *report)
{
    struct tn_guard_report r;

    if (recv(l->socket, &r, sizeof r, MSG_DONTWAIT) != (ssize_t)sizeof r)
        return false;
    *report = r;
    return true;
}

const char *tn_contain_text(enum tn_contain contain)
{
    static const char *const texts[] = {"auto",
                                        "process group and parent-death signal",
                                        "cgroup v2",
                                        "PID namespace",
                                        "PID namespace within a user namespace",
                                        "PID namespace with the host's /proc",
                                        "PID and user namespace with the host's /proc"};

    return (unsigned)contain < sizeof texts / sizeof texts[0] ? texts[contain] : "?";
}
