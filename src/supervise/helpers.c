#include "supervise/helpers.h"

#include <linux/close_range.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tenure/store.h"

static _Noreturn void become(const struct tn_helpers *h, const char *command, char *const *env,
                             pid_t parent)
{
    static char shell[] = "sh", flag[] = "-c";
    char *text = (char *)(uintptr_t)command; /* execve(2) writes to none of them */
    char *const args[] = {shell, flag, text, NULL};

    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (getppid() != parent)
        _exit(127); /* it died before the signal was asked for */
    syscall(SYS_close_range, 3u, ~0u, CLOSE_RANGE_CLOEXEC);
    sigprocmask(SIG_SETMASK, &h->mask, NULL);
    execve("/bin/sh", args, env);
    _exit(127);
}

static void kill_late(void *arg, int64_t now)
{
    const pid_t *pid = arg;

    (void)now;
    kill(-*pid, SIGKILL);
}

static void kill_group(struct tn_helpers *h, unsigned i)
{
    if (h->list[i].pid)
        kill(-h->list[i].pid, SIGKILL);
}

void tn_helpers_open(struct tn_helpers *h, struct tn_loop *loop, const sigset_t *mask)
{
    h->mask = *mask;
    for (unsigned i = 0; i < TN_HELPERS_MAX; i++)
        tn_loop_timer(loop, &h->list[i].kill, kill_late, &h->list[i].pid);
}

bool tn_helpers_run(struct tn_helpers *h, enum tn_helper_kind kind, const char *command,
                    char *const *env, int64_t limit_ns)
{
    pid_t self = getpid();
    unsigned i = 0;

    while (i < TN_HELPERS_MAX && h->list[i].pid)
        i++;
    if (i == TN_HELPERS_MAX)
        return false;
    pid_t pid = fork();
    if (pid == 0)
        become(h, command, env, self);
    if (pid < 0)
        return false;
    setpgid(pid, pid); /* whoever comes first */
    h->list[i].pid = pid;
    h->list[i].kind = kind;
    h->list[i].kill.at_ns = tenure_now() + limit_ns;
    return true;
}

bool tn_helpers_reaped(struct tn_helpers *h, pid_t pid, enum tn_helper_kind *kind)
{
    for (unsigned i = 0; i < TN_HELPERS_MAX; i++) {
        if (h->list[i].pid != pid)
            continue;
        *kind = h->list[i].kind;
        h->list[i].pid = 0;
        h->list[i].kill.at_ns = TN_NEVER;
        return true;
    }
    return false;
}

void tn_helpers_drop(struct tn_helpers *h, enum tn_helper_kind kind)
{
    for (unsigned i = 0; i < TN_HELPERS_MAX; i++) {
        if (h->list[i].kind != kind)
            continue;
        kill_group(h, i);
        h->list[i].kind = TN_HELPER_DROPPED;
    }
}

void tn_helpers_kill_all(struct tn_helpers *h)
{
    for (unsigned i = 0; i < TN_HELPERS_MAX; i++)
        kill_group(h, i);
}

unsigned tn_helpers_pids(const struct tn_helpers *h, pid_t out[TN_HELPERS_MAX])
{
    unsigned n = 0;

    for (unsigned i = 0; i < TN_HELPERS_MAX; i++) {
        if (h->list[i].pid)
            out[n++] = h->list[i].pid;
    }
    return n;
}
