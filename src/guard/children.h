/*
 * guard/children.h - SIGKILL for whatever descends from this process, as /proc shows it.
 *
 * What is forked while we look is missed, and what a dead parent leaves behind
 * becomes a child of the nearest sub-reaper: call again until there is none.
 * Neither function allocates.
 */
#ifndef TN_GUARD_CHILDREN_H
#define TN_GUARD_CHILDREN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* All descendants of this process, parents first. */
void tn_children_kill(void);
/* The direct children alone, but for those in spare; works where the kernel lists no children. */
void tn_children_kill_all(const pid_t *spare, unsigned n_spare);

#endif
