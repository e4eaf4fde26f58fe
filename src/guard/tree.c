/* The program's tree: how much of it can be reached for certain, and its end. */
#include <errno.h>
#include <linux/sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guard/children.h"
#include "guard/fork.h"
#include "guard/guard.h"

static bool has_proc(enum tn_contain contain)
{
    return contain == TN_CONTAIN_PIDNS || contain == TN_CONTAIN_USERNS;
}

static bool is_userns(enum tn_contain contain)
{
    return contain == TN_CONTAIN_USERNS || contain == TN_CONTAIN_USERNS_HOST;
}

static bool is_pidns(enum tn_contain contain)
{
    return has_proc(contain) || is_userns(contain) || contain == TN_CONTAIN_PIDNS_HOST;
}

static uint64_t clone_flags(enum tn_contain contain)
{
    return (is_pidns(contain) ? CLONE_NEWPID : 0) | (has_proc(contain) ? CLONE_NEWNS : 0) |
           (is_userns(contain) ? CLONE_NEWUSER : 0);
}

/* A process that ends at once.  Its number, or -1 with errno. */
static pid_t try_fork(enum tn_contain contain)
{
    struct tn_fork how = {.flags = clone_flags(contain), .cgroup = -1};
    pid_t pid = tn_fork(&how);
    int status = 0;

    if (pid == 0)
        _exit(has_proc(contain) ? tn_proc_mount() : 0);
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    if (pid > 0 && status != 0) {
        errno = WIFEXITED(status) ? WEXITSTATUS(status) : EPERM;
        return -1;
    }
    return pid;
}

static int try_contain(struct tn_tree *tree, enum tn_contain contain)
{
    int error = 0;

    if (contain == TN_CONTAIN_CGROUP)
        error = tn_cgroup_make(tree);
    else if (has_proc(contain) && !tn_proc_is_whole())
        error = EPERM;
    else if (is_pidns(contain) && try_fork(contain) < 0)
        error = errno;
    if (!error)
        tree->contain = contain;
    return error;
}

int tn_tree_probe(struct tn_tree *tree, enum tn_contain wish)
{
    tree->contain = TN_CONTAIN_GROUP;
    if (wish != TN_CONTAIN_AUTO) {
        int error = try_contain(tree, wish);

        return error && has_proc(wish) ? try_contain(tree, tn_tree_without_proc(wish)) : error;
    }
    /* A user namespace is never chosen unasked: it shows other users' files as
     * nobody's, which some programs do not bear.  A program that sees the host's
     * processes in its /proc, under other numbers than its own, is misled by it. */
    if (try_contain(tree, TN_CONTAIN_PIDNS) != 0 && try_contain(tree, TN_CONTAIN_CGROUP) != 0)
        try_contain(tree, TN_CONTAIN_PIDNS_HOST);
    return 0;
}

enum tn_contain tn_tree_without_proc(enum tn_contain contain)
{
    return contain == TN_CONTAIN_PIDNS    ? TN_CONTAIN_PIDNS_HOST
           : contain == TN_CONTAIN_USERNS ? TN_CONTAIN_USERNS_HOST
                                          : contain;
}

int tn_tree_start(struct tn_tree *tree, struct tn_tree_init_orders orders,
                  enum tn_guard_stage *stage)
{
    struct tn_tree_init_message go = {.kind = TN_GUARD_SPAWN};
    struct tn_fork how = {.flags = clone_flags(tree->contain), .cgroup = -1};
    int ends[2];
    int error = 0;

    *stage = TN_STAGE_CONTAIN;
    if (tree->contain == TN_CONTAIN_CGROUP && tree->used) {
        /* Some kernels kill whoever is born in a cgroup that was ever killed. */
        tn_cgroup_remove(tree);
        error = tn_cgroup_make(tree);
        if (error)
            return error;
    }
    tree->used = true;
    orders.cgroup = tree->cgroup;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return errno;
    orders.socket = ends[1];
    orders.pidns = is_pidns(tree->contain);
    orders.proc = has_proc(tree->contain);
    orders.userns = is_userns(tree->contain);
    orders.uid = geteuid();
    orders.gid = getegid();
    /* A number that was free a moment ago, for a program whose own idea of its
     * number is then the one that the rest of the machine has: pid files. */
    if (is_pidns(tree->contain) && !is_userns(tree->contain))
        orders.same = try_fork(TN_CONTAIN_GROUP);
    tree->tree_init = tn_fork(&how);
    if (tree->tree_init == 0)
        tn_tree_init_main(&orders);
    close(ends[1]);
    tree->socket = ends[0];
    if (tree->tree_init < 0) {
        error = errno;
        tree->tree_init = 0;
        return error;
    }
    atomic_store(&orders.page->tree_init, tree->tree_init);
    return send(tree->socket, &go, sizeof go, MSG_NOSIGNAL) == sizeof go ? 0 : EPIPE;
}

void tn_tree_signal(struct tn_tree *tree, int signal, bool group)
{
    struct tn_tree_init_message m = {.kind = group ? TN_GUARD_STOP : TN_GUARD_SIGNAL,
                                     .value = signal};

    if (tree->socket >= 0 && send(tree->socket, &m, sizeof m, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        return; /* the tree's init is dead, and the tree on its way */
}

void tn_tree_kill(struct tn_tree *tree)
{
    /* The first process of a namespace takes everybody along, and can be reaped
     * only when nobody is left.  It has to be scheduled for that, so the others
     * are killed one by one as well. */
    bool pidns = is_pidns(tree->contain);

    if (tree->tree_init && pidns)
        kill(tree->tree_init, SIGKILL);
    /* Without a namespace it is the one that ends the others if we are killed meanwhile. */
    tn_children_kill(NULL, 0, pidns ? 0 : tree->tree_init);
    /* Also if they could not be looked for: with it the kernel ends the program. */
    if (tree->tree_init && !pidns)
        kill(tree->tree_init, SIGKILL);
    /* Last: it waits for a lock that all cgroups of the machine share. */
    tn_cgroup_kill(tree);
}

bool tn_tree_reap(struct tn_tree *tree)
{
    pid_t pid;
    int status;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (pid == tree->tree_init)
            tree->tree_init = 0;
        else if (pid == tree->hook.pid)
            tn_hook_reaped(&tree->hook, status);
    }
    return pid < 0 && errno == ECHILD && tn_cgroup_empty(tree);
}

void tn_tree_forget(struct tn_tree *tree)
{
    if (tree->socket >= 0)
        close(tree->socket);
    tree->socket = -1;
}
