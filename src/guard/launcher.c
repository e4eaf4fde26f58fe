#include "guard/launcher.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guard/children.h"
#include "guard/guard.h"

#define MS INT64_C(1000000)

struct program {
    struct tn_tree tree;
    uint32_t number;
    int64_t kill_at_ns; /* TN_GUARD_NEVER: nobody has asked for its end */
    bool lost;          /* its init died before it could end the rest: they are our children now */
};

/* The programs, in no order; their inits; and what they start from. */
struct launcher {
    struct program **programs;
    pid_t *inits; /* room for as many */
    unsigned n, room;
    struct tn_guard_page page; /* of no grant: the inits have no deadline of their own */
    struct tn_guard_origin origin;
    int epoll, signals;
};

/* Blocks while tenure does not read: if it hangs, the guard ends us both. */
static void report(const struct tn_launcher_report *r)
{
    while (send(TN_LAUNCHER_FD, r, sizeof *r, MSG_NOSIGNAL) < 0 && errno == EINTR)
        continue;
}

static void report_kind(uint32_t kind, uint32_t number)
{
    report(&(struct tn_launcher_report){.kind = kind, .number = number});
}

static struct program *find(const struct launcher *l, uint32_t number)
{
    for (unsigned i = 0; i < l->n; i++) {
        if (l->programs[i]->number == number)
            return l->programs[i];
    }
    return NULL;
}

static void watch(struct launcher *l, int fd, void *what)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = what};

    epoll_ctl(l->epoll, EPOLL_CTL_ADD, fd, &event);
}

/* ---- One program --------------------------------------------------------- */

static bool make_room(struct launcher *l)
{
    unsigned room = l->room ? 2 * l->room : 16;

    if (l->n < l->room)
        return true;
    void *programs = realloc(l->programs, room * sizeof(struct program *));
    if (programs)
        l->programs = programs;
    void *inits = realloc(l->inits, room * sizeof *l->inits);
    if (inits)
        l->inits = inits;
    if (!programs || !inits)
        return false;
    l->room = room;
    return true;
}

static void spawn(struct launcher *l, uint32_t number, int block)
{
    struct tn_tree_init_orders orders = {
        .page = &l->page, .block = block, .pass = -1, .warm = true, .origin = l->origin};
    enum tn_guard_stage stage = TN_STAGE_FORK;
    struct program *p;
    int error = ENOMEM;

    if (find(l, number)) {
        report_kind(TN_GUARD_REFUSED, number);
        return;
    }
    p = make_room(l) ? calloc(1, sizeof *p) : NULL;
    if (p) {
        p->number = number;
        p->kill_at_ns = TN_GUARD_NEVER;
        p->tree = (struct tn_tree){.contain = TN_CONTAIN_GROUP, .socket = -1, .cgroup = -1};
        error = tn_tree_start(&p->tree, orders, &stage);
    }
    if (error)
        report(&(struct tn_launcher_report){
            .kind = TN_GUARD_FAILED, .number = number, .error = error, .stage = stage});
    if (!p || !p->tree.tree_init) {
        if (p)
            tn_tree_forget(&p->tree);
        free(p);
        report_kind(TN_GUARD_DEAD, number);
        return;
    }
    l->programs[l->n++] = p;
    watch(l, p->tree.socket, p);
}

/* Its init kills everything below it when we hang up, and then ends. */
static void end(struct launcher *l, struct program *p)
{
    /* An init that was forked just now still has a copy of the socket: to close ours alone would
     * leave the event behind, and what it points at is freed. */
    if (p->tree.socket >= 0)
        epoll_ctl(l->epoll, EPOLL_CTL_DEL, p->tree.socket, NULL);
    tn_tree_forget(&p->tree);
    p->kill_at_ns = TN_GUARD_NEVER;
    if (p->tree.tree_init)
        kill(p->tree.tree_init, SIGCONT); /* somebody may have stopped it */
}

static void stop(struct launcher *l, const struct tn_launcher_command *c)
{
    struct program *p = find(l, c->number);

    if (!p)
        return; /* its DEAD has crossed the command */
    tn_tree_signal(&p->tree, c->signal, true);
    if (p->tree.socket >= 0 && c->by_ns < p->kill_at_ns)
        p->kill_at_ns = c->by_ns;
}

/* What its init says. */
static void hear(struct launcher *l, struct program *p)
{
    struct tn_tree_init_message m;
    ssize_t n;

    while ((n = recv(p->tree.socket, &m, sizeof m, MSG_DONTWAIT)) > 0) {
        struct tn_launcher_report r = {
            .kind = m.kind, .number = p->number, .pid = m.pid, .stage = m.stage};

        if (m.kind == TN_GUARD_EXITED)
            r.status = m.value;
        else if (m.kind == TN_GUARD_FAILED)
            r.error = m.value;
        report(&r);
        if (m.kind == TN_GUARD_EXITED) {
            end(l, p); /* and whatever it left behind */
            return;
        }
    }
    if (n == 0 || (errno != EAGAIN && errno != EINTR))
        end(l, p);
}

/* ---- The end of them ----------------------------------------------------- */

static void remove_at(struct launcher *l, unsigned i)
{
    report_kind(TN_GUARD_DEAD, l->programs[i]->number);
    free(l->programs[i]);
    l->programs[i] = l->programs[--l->n];
}

static void reaped(struct launcher *l, pid_t pid, int status)
{
    unsigned i = 0;

    while (i < l->n && l->programs[i]->tree.tree_init != pid)
        i++;
    if (i == l->n)
        return; /* what a lost init has left to us */
    struct program *p = l->programs[i];
    if (p->tree.socket >= 0)
        hear(l, p); /* what it said before it ended */
    p->tree.tree_init = 0;
    end(l, p);
    if (WIFEXITED(status))
        remove_at(l, i); /* it ends by itself only when nothing is left */
    else
        p->lost = true;
}

/* true: an init was killed, and not all of its children are dead yet. */
static bool kill_lost(struct launcher *l)
{
    unsigned n = 0, lost = 0;

    for (unsigned i = 0; i < l->n; i++) {
        if (l->programs[i]->lost)
            lost++;
        else
            l->inits[n++] = l->programs[i]->tree.tree_init;
    }
    if (lost == 0)
        return false;
    if (tn_children_kill(l->inits, n, 0) > 0)
        return true;
    for (unsigned i = l->n; i-- > 0;) {
        if (l->programs[i]->lost)
            remove_at(l, i);
    }
    return false;
}

static void reap(struct launcher *l)
{
    struct signalfd_siginfo info;
    int status;
    pid_t pid;

    while (read(l->signals, &info, sizeof info) > 0)
        continue;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        reaped(l, pid, status);
}

/* ---- The loop ------------------------------------------------------------ */

/* One command.  false: there is none; *gone: there will be none. */
static bool next_command(struct launcher *l, bool *gone)
{
    struct tn_launcher_command c;
    int fds[2];
    ssize_t n = tn_guard_receive(TN_LAUNCHER_FD, &c, sizeof c, fds);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    *gone = n <= 0;
    if (n == (ssize_t)sizeof c && c.kind == TN_GUARD_SPAWN)
        spawn(l, c.number, fds[0]);
    else if (n == (ssize_t)sizeof c && c.kind == TN_GUARD_STOP)
        stop(l, &c);
    else if (n == (ssize_t)sizeof c && c.kind == TN_GUARD_SIGNAL && find(l, c.number))
        tn_tree_signal(&find(l, c.number)->tree, c.signal, false);
    tn_guard_discard(fds);
    return !*gone;
}

/* Kill what is due.  Milliseconds until there is more to do; -1: that takes an event. */
static int next_due(struct launcher *l)
{
    int64_t now = tn_guard_now(), next = TN_GUARD_NEVER;

    for (unsigned i = 0; i < l->n; i++) {
        if (l->programs[i]->kill_at_ns <= now)
            end(l, l->programs[i]);
        else if (l->programs[i]->kill_at_ns < next)
            next = l->programs[i]->kill_at_ns;
    }
    if (kill_lost(l))
        return 10;
    if (next == TN_GUARD_NEVER)
        return -1;
    return next - now > 1000 * MS ? 1000 : (int)((next - now) / MS) + 1;
}

static bool set_up(struct launcher *l)
{
    struct rlimit files;
    sigset_t set;

    sigfillset(&set);
    sigprocmask(SIG_SETMASK, &set, NULL);
    prctl(PR_SET_NAME, "tenure-launcher", 0, 0, 0);
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    fcntl(TN_LAUNCHER_FD, F_SETFD, FD_CLOEXEC);
    syscall(SYS_close_range, (unsigned)TN_LAUNCHER_FD + 1, ~0u, 0);
    l->origin.nice = getpriority(PRIO_PROCESS, 0);
    /* A descriptor for each program; which get our own limit back. */
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        l->origin.files = files.rlim_cur;
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    l->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    l->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (l->signals < 0 || l->epoll < 0)
        return false;
    watch(l, TN_LAUNCHER_FD, NULL);
    watch(l, l->signals, &l->signals);
    return true;
}

int tn_launcher_main(void)
{
    static struct launcher l;
    bool gone = false;

    if (!set_up(&l))
        return 1;
    while (!gone) {
        struct epoll_event events[64];
        int n = epoll_wait(l.epoll, events, 64, next_due(&l));
        bool children = false;

        for (int i = 0; i < n; i++) {
            if (!events[i].data.ptr)
                while (!gone && next_command(&l, &gone))
                    continue;
            else if (events[i].data.ptr == &l.signals)
                children = true;
            else if (((struct program *)events[i].data.ptr)->tree.socket >= 0)
                hear(&l, events[i].data.ptr);
        }
        /* Last: it frees what the events point at. */
        if (children)
            reap(&l);
    }
    do
        tn_children_kill(NULL, 0, 0);
    while (waitpid(-1, NULL, 0) > 0 || errno != ECHILD);
    return 0;
}
