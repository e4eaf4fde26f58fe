#include "supervise/guard/prepared.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/url.h"
#include "core/timing.h"
#include "os/init.h"
#include "supervise/program/environment.h"

/* After the program's start, and after the release. */
#define SETTLE_NS (100 * TN_MS)
/* It died, or could not be started: the guard can do without. */
#define AGAIN_NS  (10 * TN_S)

bool tn_prepared_pays(const char *store)
{
    /* No client library to load, no connection to open (figures: docs/explanation/guard.md). */
    return !(tn_url_traits(store) & (TN_URL_PRIVATE | TN_URL_IN_FILES));
}

/* ---- Start and end ------------------------------------------------------- */

/* With the guard's numbers for what it gets, and nothing else. */
static bool place(posix_spawn_file_actions_t *plan, const int from[3])
{
    static const int to[3] = {TN_GUARD_FD_SOCKET, TN_GUARD_FD_TICKET, TN_GUARD_FD_EXE};

    if (posix_spawn_file_actions_addopen(plan, STDIN_FILENO, "/dev/null", O_RDWR, 0) ||
        posix_spawn_file_actions_addopen(plan, STDOUT_FILENO, "/dev/null", O_RDWR, 0))
        return false;
    for (int i = 0; i < 3; i++) {
        if (from[i] < 0 || posix_spawn_file_actions_adddup2(plan, from[i], to[i]))
            return false;
    }
    for (int fd = TN_GUARD_FD_SOCKET; fd < TN_GUARD_FD_EXE; fd++) {
        if (fd != TN_GUARD_FD_SOCKET && fd != TN_GUARD_FD_TICKET &&
            posix_spawn_file_actions_addclose(plan, fd))
            return false;
    }
    return posix_spawn_file_actions_addclosefrom_np(plan, TN_GUARD_FD_END) == 0;
}

/* Its signals stay blocked, as ours are: it is not meant by any of them. */
static pid_t launch(const struct tn_guard_link *l, int socket)
{
    static char name[] = "tenure", verb[] = "release-grant", word[] = "--when-told";
    char *const args[] = {name, verb, word, NULL};
    /* Up and away first, so that no two can collide on the way down. */
    const int high[3] = {fcntl(socket, F_DUPFD_CLOEXEC, 64),
                         fcntl(l->ticket_fd, F_DUPFD_CLOEXEC, 64),
                         fcntl(l->exe_fd, F_DUPFD_CLOEXEC, 64)};
    posix_spawn_file_actions_t plan;
    posix_spawnattr_t how;
    char path[32], *env[TN_ENVIRONMENT_BARE];
    pid_t pid = 0;

    tn_environment_bare(env);
    snprintf(path, sizeof path, "/proc/self/fd/%d", TN_GUARD_FD_EXE);
    posix_spawn_file_actions_init(&plan);
    posix_spawnattr_init(&how);
    if (!place(&plan, high) || posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSID) ||
        posix_spawn(&pid, path, &plan, &how, args, env))
        pid = 0;
    posix_spawnattr_destroy(&how);
    posix_spawn_file_actions_destroy(&plan);
    for (int i = 0; i < 3; i++) {
        if (high[i] >= 0)
            close(high[i]);
    }
    return pid;
}

static bool start(struct tn_prepared *p, struct tn_guard_link *l)
{
    int ends[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return false;
    p->pid = launch(l, ends[0]);
    tn_init_await(p->pid);
    /* If the guard does not get it, the other end sees that it is closed. */
    if (p->pid > 0)
        tn_guard_link_prepared(l, ends[1]);
    close(ends[0]);
    close(ends[1]);
    return p->pid > 0;
}

void tn_prepared_end(struct tn_prepared *p)
{
    if (p->pid <= 0)
        return;
    kill(p->pid, SIGKILL);
    waitpid(p->pid, NULL, 0);
    tn_init_forget(p->pid);
    p->pid = 0;
}

/* ---- When ---------------------------------------------------------------- */

static void start_or_end(void *arg, int64_t now)
{
    struct tn_prepared *p = arg;

    p->timer.at_ns = now + AGAIN_NS;
    if (p->wanted)
        start(p, p->link);
    else
        kill(p->pid, SIGKILL); /* and reaped like any other child */
}

void tn_prepared_open(struct tn_prepared *p, struct tn_loop *loop, struct tn_guard_link *link)
{
    p->link = link;
    tn_loop_timer(loop, &p->timer, start_or_end, p);
}

void tn_prepared_want(struct tn_prepared *p, bool wanted, int64_t now)
{
    p->wanted = wanted;
    if (wanted == (p->pid > 0))
        p->timer.at_ns = TN_NEVER;
    else if (p->timer.at_ns == TN_NEVER)
        p->timer.at_ns = now + SETTLE_NS;
}

bool tn_prepared_reaped(struct tn_prepared *p, pid_t pid, int64_t now)
{
    if (pid <= 0 || pid != p->pid)
        return false;
    tn_init_forget(pid);
    p->pid = 0;
    p->timer.at_ns = now + AGAIN_NS;
    return true;
}
