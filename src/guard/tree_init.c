/*
 * The tree's init: starts the program, reaps, passes signals on.  It decides nothing, but for one
 * thing: if the guard has not ended the program half a margin before the deadline (somebody stopped
 * it, and tenure too), the tree's init does.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guard/children.h"
#include "guard/fork.h"
#include "guard/guard.h"

struct tree_init {
    struct tn_tree_init_orders orders;
    struct tn_alarm alarm; /* half a margin before the deadline, as it was when we last looked */
    int signals;           /* signalfd: SIGCHLD, and SIGCONT: the alarm, or the guard's death */
    int pipe;              /* what the child could not do; its end is success.  -1: known */
    pid_t pid;             /* the program, in our namespace */
    int no_proc;           /* errno: it has no /proc of its own */
    bool exited;
};

struct failure {
    int error;
    enum tn_guard_stage stage;
};

static void send_guard(const struct tree_init *k, uint32_t kind, int value,
                       enum tn_guard_stage stage)
{
    struct tn_tree_init_message m = {.kind = kind, .pid = k->pid, .value = value, .stage = stage};

    if (send(k->orders.socket, &m, sizeof m, MSG_NOSIGNAL) < 0)
        return; /* the guard is gone, which the poll below finds out */
}

/* The guard's end of the socket is closed: it is dead. */
static bool guard_is_gone(const struct tree_init *k)
{
    char byte;

    return recv(k->orders.socket, &byte, sizeof byte, MSG_PEEK | MSG_DONTWAIT) == 0;
}

/* Kill until there is no child left, then end.  As the first process of a
 * namespace it is enough to end: the kernel takes everybody along. */
static _Noreturn void end_all(const struct tree_init *k)
{
    /* By its number first, which takes no descriptor: there may be none to look for children with.
     */
    if (k->pid > 0 && !k->exited)
        kill(k->pid, SIGKILL);
    while (!k->orders.pidns) {
        tn_children_kill(NULL, 0, 0);
        /* Blocks until one of them is dead; its children are ours from then on. */
        if (waitpid(-1, NULL, 0) < 0 && errno == ECHILD)
            break;
    }
    _exit(0);
}

/* The guard's duty, half a margin after it was due (protocol.h: THE WORD). */
static void check_deadline(struct tree_init *k)
{
    struct tn_guard_page *page = k->orders.page;

    for (;;) {
        uint64_t word = atomic_load(&page->word);
        int64_t deadline = (int64_t)(word & TN_WORD_DEADLINE), now = tn_guard_now();
        int64_t due = deadline ? deadline - page->margin_ns / 2 : TN_GUARD_NEVER;

        if (deadline == 0 && !k->orders.warm)
            end_all(k); /* no grant: nothing may run */
        if (now < due) {
            tn_alarm_set(&k->alarm, due, now);
            return;
        }
        /* Once it has fired nobody renews this grant any more. */
        if ((word & TN_WORD_FIRED) ||
            atomic_compare_exchange_strong(&page->word, &word, word | TN_WORD_FIRED))
            end_all(k);
    }
}

static bool put(const char *path, unsigned id)
{
    char text[32];
    int n = snprintf(text, sizeof text, "%u %u 1", id, id);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool ok = fd >= 0 && write(fd, text, (size_t)n) == n;

    if (fd >= 0)
        close(fd);
    return ok;
}

/* Whoever we are outside, we are inside.  Our files in /proc are root's as long as nobody may look
 * into us; what was secret has been closed. */
static int map_user(const struct tn_tree_init_orders *orders)
{
    prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
    int fd = open("/proc/self/setgroups", O_WRONLY | O_CLOEXEC);
    if (fd >= 0 && write(fd, "deny", 4) < 0) {
        /* A condition for unprivileged group maps, which will be refused. */
    }
    if (fd >= 0)
        close(fd);
    bool ok = put("/proc/self/uid_map", orders->uid) && put("/proc/self/gid_map", orders->gid);
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    return ok ? 0 : EPERM;
}

static void start(struct tree_init *k)
{
    struct tn_fork how = {.cgroup = k->orders.cgroup, .same = k->orders.same};
    struct failure failure = {0};
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) != 0) {
        send_guard(k, TN_GUARD_FAILED, errno, TN_STAGE_FORK);
        _exit(1);
    }
    k->pid = tn_fork(&how);
    if (k->pid < 0 && how.same > 0) {
        how.same = 0; /* the number is taken, or we may not choose: any will do */
        k->pid = tn_fork(&how);
    }
    if (k->pid == 0) {
        failure.error = tn_child_exec(&k->orders, &failure.stage);
        if (write(ends[1], &failure, sizeof failure) < 0)
            _exit(1);
        _exit(127);
    }
    if (k->pid < 0) {
        send_guard(k, TN_GUARD_FAILED, errno, TN_STAGE_FORK);
        _exit(1);
    }
    close(ends[1]);
    close(k->orders.block);
    k->orders.block = -1;
    /* Its other end must see the program's end. */
    if (k->orders.pass >= 0)
        close(k->orders.pass);
    k->orders.pass = -1;
    k->pipe = ends[0];
}

static void read_child(struct tree_init *k)
{
    struct failure failure;
    ssize_t n = read(k->pipe, &failure, sizeof failure);

    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (n == sizeof failure)
        send_guard(k, TN_GUARD_FAILED, failure.error, failure.stage);
    else
        send_guard(k, TN_GUARD_SPAWNED, k->no_proc, TN_STAGE_NONE);
    close(k->pipe);
    k->pipe = -1;
}

static void reap(struct tree_init *k)
{
    struct signalfd_siginfo info;
    int status;
    pid_t pid;

    while (read(k->signals, &info, sizeof info) > 0)
        continue;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (pid != k->pid)
            continue; /* an orphan that came to us */
        if (k->pipe >= 0)
            read_child(k); /* it wrote before it ended */
        k->exited = true;
        send_guard(k, TN_GUARD_EXITED, status, TN_STAGE_NONE);
    }
    if (pid < 0 && errno == ECHILD)
        _exit(0); /* nothing is left to keep */
}

static void handle_request(struct tree_init *k)
{
    struct tn_tree_init_message m;
    ssize_t n = recv(k->orders.socket, &m, sizeof m, MSG_DONTWAIT);

    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        end_all(k);
    /* Once it is reaped, its number may be a stranger's. */
    if (n != sizeof m || k->exited)
        return;
    if (m.kind == TN_GUARD_SIGNAL || kill(-k->pid, m.value) != 0)
        kill(k->pid, m.value); /* also if it has no group of its own yet */
    /* A stopped program does not see the request before it is continued. */
    if (m.kind == TN_GUARD_STOP && kill(-k->pid, SIGCONT) != 0)
        kill(k->pid, SIGCONT);
}

static void keep_only(struct tree_init *k)
{
    int *fds[] = {&k->orders.socket, &k->orders.block, &k->orders.cgroup, &k->orders.pass};
    int next = 3;

    /* Away from the low numbers, then down to them: no two can collide. */
    for (int i = 0; i < 4; i++) {
        if (*fds[i] >= 0)
            *fds[i] = fcntl(*fds[i], F_DUPFD_CLOEXEC, 64);
    }
    for (int i = 0; i < 4; i++) {
        if (*fds[i] >= 0) {
            dup3(*fds[i], next, O_CLOEXEC);
            *fds[i] = next++;
        }
    }
    /* Above all the guard's socket to tenure, whose end tells of its death, and
     * the releaser's ticket, which holds secrets. */
    syscall(SYS_close_range, (unsigned)next, ~0u, 0);
}

_Noreturn void tn_tree_init_main(const struct tn_tree_init_orders *orders)
{
    struct tree_init k = {.orders = *orders, .pipe = -1};
    struct tn_tree_init_message go;
    sigset_t set;

    struct sched_param first = {.sched_priority = 1};

    prctl(PR_SET_NAME, "tenure-treeinit", 0, 0, 0);
    /* As punctual as the guard: it has to be scheduled to die. */
    sched_setscheduler(0, SCHED_RR | SCHED_RESET_ON_FORK, &first);
    keep_only(&k);
    if (!k.orders.pidns)
        prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    /* In a namespace its death is everybody's; else it must live to end them, also if it was
     * stopped. */
    prctl(PR_SET_PDEATHSIG, k.orders.pidns ? SIGKILL : SIGCONT, 0, 0, 0);
    k.orders.tree_init = getpid();
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGCONT);
    k.signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    /* The guard says when to begin.  This also finds a guard that died before the parent-death
     * signal was asked for. */
    if (k.signals < 0 || recv(k.orders.socket, &go, sizeof go, 0) != sizeof go || guard_is_gone(&k))
        _exit(1);
    int error = k.orders.userns ? map_user(&k.orders) : 0;
    if (k.orders.proc)
        k.no_proc = tn_proc_mount();
    if (!error)
        error = tn_alarm_make(&k.alarm);
    if (error) {
        send_guard(&k, TN_GUARD_FAILED, error, TN_STAGE_CONTAIN);
        _exit(1);
    }
    check_deadline(&k);
    start(&k);
    for (;;) {
        struct pollfd fds[] = {
            {.fd = k.pipe, .events = POLLIN},
            {.fd = k.signals, .events = POLLIN},
            {.fd = k.orders.socket, .events = POLLIN},
        };

        if (poll(fds, 3, -1) < 0)
            continue;
        if (fds[0].revents)
            read_child(&k);
        if (fds[1].revents)
            reap(&k);
        if (fds[2].revents)
            handle_request(&k);
        check_deadline(&k);
    }
}
