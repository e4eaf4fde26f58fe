/*
 * os/known.h - the stores that this process has used, by their paths.
 *
 * A store that was there and is not any more was unmounted or removed: it is not
 * made again, because the others still use it, somewhere.  So only the first open
 * of a process may make one, and what comes later must be the same.  A process that
 * is started in the place of another one knows what that one knew (tn_known_share()).
 */
#ifndef TN_OS_KNOWN_H
#define TN_OS_KNOWN_H

#include <stdbool.h>

/* The identity under which this process has used the store at path; NULL if it has not. */
const char *tn_known_identity(const char *path);
/* It has now.  The first identity stays.  false: out of memory. */
bool tn_known_add(const char *path, const char *identity);
/* fd is a file, open for reading and appending, in which the processes of one agent remember
 * together what they have used.  Before the first open of a store, and before there are threads; it
 * puts the number into the environment, where modules find it. */
void tn_known_share(int fd);

#endif
