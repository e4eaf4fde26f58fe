/*
 * Hooks: commands of tenure's that belong to a term.  They are children of the guard itself, so
 * whatever ends the tree ends them, and nothing is dead before they are (I8).  Unlike the program
 * they run outside of its containment, as tenure's own user.
 */
#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include "guard/fork.h"
#include "guard/guard.h"

/* The term runs, or it ends and this is its last command. */
static bool may_start(const struct tn_guard *g)
{
    int64_t deadline = (int64_t)(atomic_load(&g->page->word) & TN_WORD_DEADLINE);

    if (g->tenure_gone || g->quit || g->tree.hook.pid)
        return false;
    return (g->phase == TN_GUARD_IDLE || g->phase == TN_GUARD_RUNNING) &&
           tn_guard_now() < deadline - g->page->margin_ns;
}

static pid_t start(const struct tn_guard *g, int block)
{
    struct tn_tree_init_orders orders = {
        .block = block, .pass = -1, .cgroup = -1, .tree_init = getpid(), .origin = g->origin};
    enum tn_guard_stage stage;
    pid_t pid = tn_fork(&(struct tn_fork){.cgroup = -1});

    if (pid == 0) {
        tn_child_exec(&orders, &stage);
        _exit(127);
    }
    if (pid > 0)
        setpgid(pid, pid); /* as it does itself: who comes first */
    return pid;
}

void tn_hook_start(struct tn_guard *g, int block, int64_t by_ns)
{
    bool alone = g->phase == TN_GUARD_IDLE;
    bool may = may_start(g);
    pid_t pid = may ? start(g, block) : -1;

    if (pid < 0) {
        tn_guard_report(
            &(struct tn_guard_report){.kind = TN_GUARD_HOOKED, .error = may ? errno : ECANCELED});
        return;
    }
    g->tree.hook = (struct tn_hook){.pid = pid, .alone = alone, .by_ns = by_ns};
    if (alone) {
        g->phase = TN_GUARD_STOPPING;
        g->stop_by_ns = by_ns;
        g->killed = g->warm = false;
    }
}

void tn_hook_reaped(struct tn_hook *hook, int status)
{
    hook->pid = 0;
    hook->status = status;
    hook->ended = true;
}

void tn_hook_kill(const struct tn_hook *hook)
{
    if (hook->pid)
        kill(-hook->pid, SIGKILL);
}

bool tn_hook_tell(struct tn_hook *hook, bool dead)
{
    bool was_tree = hook->alone && dead;

    if (hook->ended && (dead || !hook->alone)) {
        tn_guard_report(&(struct tn_guard_report){.kind = TN_GUARD_HOOKED, .status = hook->status});
        *hook = (struct tn_hook){0};
    }
    return was_tree;
}
