/* Freeing the lease when nobody else is left who could: the prepared releaser does it, or we do. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "guard/guard.h"

/* A prepared releaser that has not done it by then may hang on a dead connection.  It is left to
 * itself: two releases of one grant do no harm, because both are swaps on what was read (I8). */
#define LATE_NS (INT64_C(200) * 1000 * 1000)

static void drop(struct tn_guard *g)
{
    if (g->releaser >= 0)
        close(g->releaser);
    g->releaser = -1;
}

void tn_releaser_take(struct tn_guard *g, int socket)
{
    drop(g); /* which ends the one before */
    if (socket >= 0)
        g->releaser = fcntl(socket, F_DUPFD_CLOEXEC, TN_GUARD_FD_END);
}

void tn_releaser_hear(struct tn_guard *g)
{
    char word = 0;
    ssize_t n = recv(g->releaser, &word, sizeof word, MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n == 1 && word == TN_RELEASER_DONE && g->told) {
        tn_cgroup_remove(&g->tree);
        _exit(0);
    }
    /* It is gone, or talks nonsense: from now on there is none. */
    drop(g);
    if (g->told)
        g->release_at_ns = tn_guard_now();
}

/* Become a releaser ourselves. */
static _Noreturn void execute(struct tn_guard *g)
{
    static char name[] = "tenure", verb[] = "release-grant", empty[] = "";
    char *const args[] = {name, verb, NULL};
    struct sched_param normal = {0};
    sigset_t none;

    tn_cgroup_remove(&g->tree);
    /* It is short, and a whole election waits for it: ahead of others where we may. */
    sched_setscheduler(0, SCHED_OTHER, &normal);
    setpriority(PRIO_PROCESS, 0, g->origin.nice < -10 ? g->origin.nice : -10);
    fcntl(TN_GUARD_FD_TICKET, F_SETFD, 0);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    syscall(SYS_execveat, TN_GUARD_FD_EXE, empty, args, environ, 0x1000 /* AT_EMPTY_PATH */);
    _exit(1); /* the lease runs out by itself */
}

void tn_releaser_run(struct tn_guard *g, int64_t now)
{
    const char go = TN_RELEASER_GO;
    struct stat st;

    if (fstat(TN_GUARD_FD_TICKET, &st) != 0 || st.st_size == 0)
        _exit(0); /* there never was a grant */
    if (g->releaser < 0 || g->told ||
        send(g->releaser, &go, sizeof go, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)sizeof go)
        execute(g);
    g->told = true;
    g->release_at_ns = now + LATE_NS;
}
