/*
 * oom.h - fail the Nth allocation.
 *
 * Links in front of malloc, calloc, realloc, strdup, strndup and asprintf for
 * all object files of the program (link it with oom_dep), and not for shared
 * libraries: route those by their own means, as test_oom.c does for jansson
 * and SQLite.  Only the thread that armed it is hit.
 */
#ifndef TN_OOM_H
#define TN_OOM_H

#include <stdbool.h>
#include <stddef.h>

/* From now on fail the nth allocation, from 1; if sticky, all after it too. */
void tn_oom_arm(unsigned long nth, bool sticky);
/* Stop; true if any allocation was failed. */
bool tn_oom_disarm(void);
/* Whether the allocation that asks must fail; counts it.  For allocators of other libraries. */
bool tn_oom_strikes(void);
/* malloc() that may fail, for libraries that take one. */
void *tn_oom_malloc(size_t size);

#endif
