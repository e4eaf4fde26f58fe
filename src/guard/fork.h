/* guard/fork.h - fork(2) with the few things that only clone3(2) can do. */
#ifndef TN_GUARD_FORK_H
#define TN_GUARD_FORK_H

#include <stdint.h>
#include <sys/types.h>

struct tn_fork {
    uint64_t flags; /* CLONE_NEWPID, CLONE_NEWUSER */
    int cgroup;     /* a directory to be born in; -1: ours */
    pid_t same;     /* the number in both the innermost and the next PID namespace; 0: any */
};

/* As fork(2). */
pid_t tn_fork(const struct tn_fork *how);

#endif
