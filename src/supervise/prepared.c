#include "supervise/prepared.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/timing.h"
#include "os/init.h"
#include "supervise/environment.h"

#define NEVER     (INT64_MAX / 2)
/* After the program's start, and after the release. */
#define SETTLE_NS (100 * TN_MS)
/* It died, or could not be started: the guard can do without. */
#define AGAIN_NS  (10 * TN_S)

bool tn_prepared_pays(const char *store)
{
    /* No client library to load, no connection to open (figures: docs/explanation/guard.md). */
    static const char *const quick[] = {"noop:", "memory:", "file:", "sqlite:"};

    for (size_t i = 0; i < sizeof quick / sizeof quick[0]; i++) {
        if (strncmp(store, quick[i], strlen(quick[i])) == 0)
            return false;
    }
    return true;
}

/* ---- Start and end ------------------------------------------------------- */

/* With the guard's numbers for what it gets, and nothing else. */
static bool place(posix_spawn_file_actions_t *plan, const int from[3])
{
    static const int to[3] = {TN_GUARD_FD_SOCKET, TN_GUARD_FD_FACTS, TN_GUARD_FD_EXE};

    if (posix_spawn_file_actions_addopen(plan, STDIN_FILENO, "/dev/null", O_RDWR, 0) ||
        posix_spawn_file_actions_addopen(plan, STDOUT_FILENO, "/dev/null", O_RDWR, 0))
        return false;
    for (int i = 0; i < 3; i++) {
        if (from[i] < 0 || posix_spawn_file_actions_adddup2(plan, from[i], to[i]))
            return false;
    }
    for (int fd = TN_GUARD_FD_SOCKET; fd < TN_GUARD_FD_EXE; fd++) {
        if (fd != TN_GUARD_FD_SOCKET && fd != TN_GUARD_FD_FACTS &&
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
                         fcntl(l->facts_fd, F_DUPFD_CLOEXEC, 64),
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

void tn_prepared_time(struct tn_prepared *p, struct tn_guard_link *link, bool wanted, int64_t now)
{
    if (wanted == (p->pid > 0)) {
        p->due_ns = NEVER;
        return;
    }
    if (p->due_ns == NEVER)
        p->due_ns = now + SETTLE_NS;
    if (now < p->due_ns)
        return;
    p->due_ns = now + AGAIN_NS;
    if (wanted)
        start(p, link);
    else
        kill(p->pid, SIGKILL); /* and reaped like any other child */
}

int64_t tn_prepared_due(const struct tn_prepared *p)
{
    return p->due_ns;
}

bool tn_prepared_reaped(struct tn_prepared *p, pid_t pid, int64_t now)
{
    if (pid <= 0 || pid != p->pid)
        return false;
    tn_init_forget(pid);
    p->pid = 0;
    p->due_ns = now + AGAIN_NS;
    return true;
}
