/*
 * guard/children.h - SIGKILL for whatever descends from this process, as /proc shows it.
 *
 * What is forked while we look is missed, and what a dead parent leaves behind
 * becomes a child of the nearest sub-reaper: call again until there is none.
 * Nothing is allocated.
 */
#ifndef TN_GUARD_CHILDREN_H
#define TN_GUARD_CHILDREN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * All descendants of this process, parents first, but for the children in spare
 * and theirs.  Returns how many were found, those included that only wait to be
 * reaped; and at least one if it could not look (no descriptor, no /proc), because
 * what was not seen is not known to be dead (I8).  The one
 * called last, if it is among them, goes after all others: should we be stopped
 * half way, it can finish.
 */
unsigned tn_children_kill(const pid_t *spare, unsigned n_spare, pid_t last);

/* Is it a child of that process, or a descendant?  Not if it is gone. */
bool tn_children_descends(pid_t pid, pid_t from);

#endif
