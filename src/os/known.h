/*
 * os/known.h - the stores that this process has used, by their paths.
 *
 * A store that was there and is not any more was unmounted or removed: it is not
 * made again, because the others still use it, somewhere.  So only the first open
 * of a process may make one, and what comes later must be the same.
 */
#ifndef TN_OS_KNOWN_H
#define TN_OS_KNOWN_H

#include <stdbool.h>

/* The identity under which this process has used the store at path; NULL if it has not. */
const char *tn_known_identity(const char *path);
/* It has now.  The first identity stays.  false: out of memory. */
bool tn_known_add(const char *path, const char *identity);

#endif
