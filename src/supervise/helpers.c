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

bool tn_helpers_run(struct tn_helpers *h, enum tn_helper_kind kind, const char *command,
                    char *const *env, int64_t limit_ns)
{
    pid_t self = getpid();

    if (h->n == TN_HELPERS_MAX)
        return false;
    pid_t pid = fork();
    if (pid == 0)
        become(h, command, env, self);
    if (pid < 0)
        return false;
    setpgid(pid, pid); /* whoever comes first */
    h->list[h->n].pid = pid;
    h->list[h->n].kind = kind;
    h->list[h->n].kill_at_ns = tenure_now() + limit_ns;
    h->n++;
    return true;
}

bool tn_helpers_reaped(struct tn_helpers *h, pid_t pid, enum tn_helper_kind *kind)
{
    for (unsigned i = 0; i < h->n; i++) {
        if (h->list[i].pid != pid)
            continue;
        *kind = h->list[i].kind;
        h->list[i] = h->list[--h->n];
        return true;
    }
    return false;
}

void tn_helpers_drop(struct tn_helpers *h, enum tn_helper_kind kind)
{
    for (unsigned i = 0; i < h->n; i++) {
        if (h->list[i].kind != kind)
            continue;
        kill(-h->list[i].pid, SIGKILL);
        h->list[i].kind = TN_HELPER_DROPPED;
    }
}

void tn_helpers_time(struct tn_helpers *h, int64_t now)
{
    for (unsigned i = 0; i < h->n; i++) {
        if (now < h->list[i].kill_at_ns)
            continue;
        kill(-h->list[i].pid, SIGKILL);
        h->list[i].kill_at_ns = INT64_MAX / 2; /* once is enough; it will be reaped */
    }
}

int64_t tn_helpers_due(const struct tn_helpers *h)
{
    int64_t due = INT64_MAX / 2;

    for (unsigned i = 0; i < h->n; i++)
        due = h->list[i].kill_at_ns < due ? h->list[i].kill_at_ns : due;
    return due;
}

void tn_helpers_kill_all(struct tn_helpers *h)
{
    for (unsigned i = 0; i < h->n; i++)
        kill(-h->list[i].pid, SIGKILL);
}

unsigned tn_helpers_pids(const struct tn_helpers *h, pid_t out[TN_HELPERS_MAX])
{
    for (unsigned i = 0; i < h->n; i++)
        out[i] = h->list[i].pid;
    return h->n;
}
