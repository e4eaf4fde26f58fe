#include "init.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "os/inherited.h"

#define AWAITED_MAX 512
#define SHARED      "TENURE_INIT_FD" /* the table's descriptor */
#define SHARED_FD   64               /* above those with a meaning of their own */

/* A table that the init, its child and what that executes share; NULL: there is no init. */
static _Atomic pid_t *awaited;

static bool lives(pid_t pid)
{
    return pid > 0 && kill(pid, 0) == 0;
}

void tn_init_await(pid_t pid)
{
    for (size_t i = 0; awaited && i < AWAITED_MAX; i++) {
        pid_t before = atomic_load(&awaited[i]);

        /* One that was killed could not forget those that it awaited. */
        if (!lives(before) && atomic_compare_exchange_strong(&awaited[i], &before, pid))
            return;
    }
}

void tn_init_forget(pid_t pid)
{
    for (size_t i = 0; awaited && i < AWAITED_MAX; i++) {
        pid_t before = pid;

        if (atomic_compare_exchange_strong(&awaited[i], &before, 0))
            return;
    }
}

static bool anybody_awaited(void)
{
    for (size_t i = 0; i < AWAITED_MAX; i++) {
        if (lives(atomic_load(&awaited[i])))
            return true;
    }
    return false;
}

static bool map_table(int fd)
{
    void *table =
        mmap(NULL, AWAITED_MAX * sizeof *awaited, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (table != MAP_FAILED)
        awaited = table;
    return table != MAP_FAILED;
}

/* The table, for those who are executed too if pass_on. */
static bool make_table(bool pass_on)
{
    int fd = memfd_create("tenure-init", MFD_CLOEXEC);
    bool made = fd >= 0 && ftruncate(fd, AWAITED_MAX * sizeof *awaited) == 0 && map_table(fd);
    int high = made && pass_on ? fcntl(fd, F_DUPFD, SHARED_FD) : -1;

    if (high >= 0)
        tn_inherited_name(SHARED, high);
    if (fd >= 0)
        close(fd);
    return made;
}

void tn_init_join(void)
{
    int fd = tn_inherited_find(SHARED);

    if (fd >= SHARED_FD) {
        map_table(fd);
        close(fd);
    }
    unsetenv(SHARED);
}

/* Everything but what a fault of our own would send. */
static void passed_on(sigset_t *set)
{
    static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS};

    sigfillset(set);
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        sigdelset(set, own[i]);
}

/* The last to be killed when memory runs out, where we may say so. */
static void spare_us(void)
{
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

    if (fd < 0)
        return;
    if (write(fd, "-1000", 5) < 0) {
        /* Not allowed here: it is small, and hardly ever chosen. */
    }
    close(fd);
}

static _Noreturn void be_init(pid_t child, const sigset_t *signals)
{
    /* Somebody awaited who is no child of ours is looked for now and then. */
    const struct timespec look = {.tv_sec = 1};
    bool ended = false;
    int status, code = 0;
    pid_t pid;

    prctl(PR_SET_NAME, "tenure-init", 0, 0, 0);
    spare_us();
    for (;;) {
        int signal = ended ? sigtimedwait(signals, NULL, &look) : sigwaitinfo(signals, NULL);

        if (signal > 0 && signal != SIGCHLD && !ended)
            kill(child, signal);
        while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
            if (pid != child)
                continue;
            ended = true;
            code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        }
        if (ended && !anybody_awaited())
            _exit(code);
    }
}

/* What is typed at a terminal reaches the child directly, and once: it is the foreground instead of
 * us. */
static void take_terminal(void)
{
    bool foreground = tcgetpgrp(STDIN_FILENO) == getpgrp();
    sigset_t stop, before;

    sigemptyset(&stop);
    sigaddset(&stop, SIGTTOU);
    sigprocmask(SIG_BLOCK, &stop, &before);
    setpgid(0, 0);
    if (foreground)
        tcsetpgrp(STDIN_FILENO, getpgrp());
    sigprocmask(SIG_SETMASK, &before, NULL);
}

void tn_init_split(bool pass_on)
{
    sigset_t signals, before;

    if (getpid() != 1 || !make_table(pass_on))
        return;
    signal(SIGCHLD, SIG_DFL); /* ignored, it would take the child's end away */
    passed_on(&signals);
    sigprocmask(SIG_BLOCK, &signals,
                &before); /* also what comes before there is anybody to get it */
    pid_t child = fork();
    if (child > 0)
        be_init(child, &signals);
    if (child == 0)
        take_terminal();
    sigprocmask(SIG_SETMASK, &before, NULL);
}
