/* os/pass.h - descriptors that are handed to another process. */
#ifndef TN_OS_PASS_H
#define TN_OS_PASS_H

#include <stdbool.h>
#include <stddef.h>

#define TN_PASS_MAX 2

/* Send a message, and with it copies of 1 to TN_PASS_MAX descriptors, over a Unix socket.  Never
 * blocks.  false: the other end is gone, or takes nothing. */
bool tn_pass_fds(int socket, const void *message, size_t len, const int *fds, unsigned n);

#endif
