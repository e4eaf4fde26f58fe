/* tenure-guard: ends a program by its deadline, whatever happens to tenure.  See guard.h. */
#include "guard/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "guard/launcher.h"

#define S INT64_C(1000000000)

int64_t tn_guard_now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_BOOTTIME, &ts);
    return (int64_t)ts.tv_sec * S + ts.tv_nsec;
}

void tn_guard_arm(int timer, int64_t at_ns)
{
    struct itimerspec when = tn_guard_when(at_ns);

    timerfd_settime(timer, TFD_TIMER_ABSTIME, &when, NULL);
}

void tn_guard_report(const struct tn_guard_report *report)
{
    struct tn_guard_report r = *report;

    r.at_ns = tn_guard_now();
    if (send(TN_GUARD_FD_SOCKET, &r, sizeof r, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        return; /* dead or hung; both are looked after */
}

/* ---- Start --------------------------------------------------------------- */

static void read_origin(struct tn_guard_origin *origin)
{
    char text[16] = "";
    int fd = open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC);

    origin->nice = getpriority(PRIO_PROCESS, 0);
    if (fd < 0)
        return;
    /* The last to be killed when memory runs out, if we may. */
    if (read(fd, text, sizeof text - 1) > 0 && write(fd, "-1000", 5) == 5) {
        origin->oom_score_adj = atoi(text);
        origin->oom_known = true;
    }
    close(fd);
}

/* On time on a loaded machine, and never swapped out.  All of it is a help and
 * none of it a condition. */
static void be_punctual(struct tn_guard *g)
{
    struct sched_param first = {.sched_priority = 1};

    read_origin(&g->origin);
    prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
    if (sched_setscheduler(0, SCHED_RR | SCHED_RESET_ON_FORK, &first) != 0)
        setpriority(PRIO_PROCESS, 0, -10);
    mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT);
}

/* errno, or 0. */
static int set_up(struct tn_guard *g)
{
    sigset_t all, ours;

    memset(g, 0, sizeof *g);
    g->tree.socket = g->tree.cgroup = g->watchdog = g->releaser = -1;
    g->hang_by_ns = g->release_at_ns = g->ping_at_ns = TN_GUARD_NEVER;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    signal(SIGCHLD, SIG_DFL); /* ignored, it would take our children's ends away */
    /* Out of tenure's group and terminal: what is meant for them is not for us. */
    setsid();
    /* Tenure's death continues a guard that was stopped: it is what the guard is there for. */
    prctl(PR_SET_PDEATHSIG, SIGCONT, 0, 0, 0);
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    syscall(SYS_close_range, (unsigned)TN_GUARD_FD_END, ~0u, 0);
    for (int fd = TN_GUARD_FD_SOCKET; fd < TN_GUARD_FD_END; fd++)
        fcntl(fd, F_SETFD, FD_CLOEXEC);
    g->page = mmap(NULL, sizeof *g->page, PROT_READ | PROT_WRITE, MAP_SHARED, TN_GUARD_FD_PAGE, 0);
    if (g->page == MAP_FAILED)
        return errno;
    if (g->page->abi != TN_GUARD_ABI)
        return EPROTO;
    g->fired = atomic_load(&g->page->word) & TN_WORD_FIRED; /* under the guard before us */
    sigemptyset(&ours);
    sigaddset(&ours, SIGCHLD);
    sigaddset(&ours, SIGCONT);
    g->signals = signalfd(-1, &ours, SFD_CLOEXEC | SFD_NONBLOCK);
    if (g->signals < 0)
        return errno;
    be_punctual(g);
    /* Or the program, if it has our user, could read the ticket, and the page.  Last: from here on
     * our own files in /proc are root's. */
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    return tn_alarm_make(&g->alarm);
}

/* ---- The loop ------------------------------------------------------------ */

static void drain(int fd)
{
    struct signalfd_siginfo info; /* large enough for a timer's count too */

    while (read(fd, &info, sizeof info) > 0)
        continue;
}

ssize_t tn_guard_receive(int socket, void *message, size_t size, int fds[2])
{
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(2 * sizeof(int))];
    } control;
    struct iovec part = {.iov_base = message, .iov_len = size};
    struct msghdr m = {.msg_iov = &part,
                       .msg_iovlen = 1,
                       .msg_control = &control,
                       .msg_controllen = sizeof control};
    ssize_t n = recvmsg(socket, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&m) : NULL;

    fds[0] = fds[1] = -1;
    if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
        memcpy(fds, CMSG_DATA(c), c->cmsg_len - CMSG_LEN(0));
    return n;
}

void tn_guard_discard(const int fds[2])
{
    for (int i = 0; i < 2; i++) {
        if (fds[i] >= 0)
            close(fds[i]);
    }
}

/* One command, with the descriptors that may come with it.  false: nothing there. */
static bool next_command(struct tn_guard *g)
{
    struct tn_guard_command command;
    int fds[2];
    ssize_t n = tn_guard_receive(TN_GUARD_FD_SOCKET, &command, sizeof command, fds);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (n <= 0) {
        tn_guard_orphan(g, false);
        return false;
    }
    if (n == (ssize_t)sizeof command)
        tn_guard_obey(g, &command, fds);
    tn_guard_discard(fds);
    return true;
}

static void read_tree_init(struct tn_guard *g)
{
    struct tn_tree_init_message m;
    ssize_t n;

    while ((n = recv(g->tree.socket, &m, sizeof m, MSG_DONTWAIT)) > 0) {
        if (n == (ssize_t)sizeof m)
            tn_guard_hear(g, &m);
    }
    if (n == 0 || (errno != EAGAIN && errno != EINTR))
        tn_tree_forget(&g->tree); /* it is dead; the reaping will tell */
}

static void wait_for_something(struct tn_guard *g)
{
    struct pollfd fds[] = {
        {.fd = g->tenure_gone ? -1 : TN_GUARD_FD_SOCKET, .events = POLLIN},
        {.fd = g->tenure_dead ? -1 : TN_GUARD_FD_TENURE, .events = POLLIN},
        {.fd = g->tree.socket, .events = POLLIN},
        {.fd = g->signals, .events = POLLIN},
        {.fd = TN_GUARD_FD_TIMER, .events = POLLIN},
        {.fd = TN_GUARD_FD_BUSY, .events = POLLIN},
        {.fd = g->releaser, .events = POLLIN},
    };

    if (poll(fds, 7, -1) < 0)
        return;
    for (int i = 3; i < 6; i++) {
        if (fds[i].revents)
            drain(fds[i].fd);
    }
    while (fds[0].revents && !g->tenure_gone && next_command(g))
        continue;
    if (fds[1].revents)
        tn_guard_orphan(g, true);
    if (fds[2].revents)
        read_tree_init(g);
    /* Only what was polled: a command may have replaced it since. */
    if (fds[6].revents && fds[6].fd == g->releaser)
        tn_releaser_hear(g);
}

int main(int argc, char **argv)
{
    static struct tn_guard guard;

    if (argc == 2 && strcmp(argv[1], TN_LAUNCHER_ARG) == 0)
        return tn_launcher_main();
    int error = set_up(&guard);

    if (error) {
        fprintf(stderr, "tenure-guard: %s; it is started by tenure run, not by hand\n",
                strerror(error));
        return 1;
    }
    error = tn_tree_probe(&guard.tree, (enum tn_contain)guard.page->contain);
    tn_guard_report(&(struct tn_guard_report){
        .kind = TN_GUARD_HELLO,
        .contain = guard.tree.contain,
        .error = error ? error : tn_watchdog_probe(guard.page),
        .stage = error ? TN_STAGE_CONTAIN : TN_STAGE_WATCHDOG,
    });
    for (;;) {
        tn_guard_act(&guard);
        wait_for_something(&guard);
    }
}
