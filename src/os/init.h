/*
 * os/init.h - the first process of a container.
 *
 * When PID 1 dies the kernel kills everybody, a guard that still has a lease to free included.  So
 * PID 1 is a small process that nothing can crash: it passes signals on, reaps what others leave
 * behind, and ends only when everybody who has work to do after a crash is done.
 */
#ifndef TN_OS_INIT_H
#define TN_OS_INIT_H

#include <stdbool.h>
#include <sys/types.h>

/* As PID 1: fork, stay behind as the init, and return in the child alone.  Before any thread is
 * started.  The init ends with the child's exit code, or 128 + the signal that ended it. Elsewhere,
 * or if there is no memory for it: nothing.  pass_on: those whom we execute may join. */
void tn_init_split(bool pass_on);
/* In one that such a process has executed, before any thread: the init waits for our children too.
 * What was passed on is taken out of the environment and the descriptors. */
void tn_init_join(void);
/* The init waits for this child of ours if it outlives us; and no longer does. */
void tn_init_await(pid_t pid);
void tn_init_forget(pid_t pid);

#endif
