/* os/pass.h - a descriptor that is handed to another process. */
#ifndef TN_OS_PASS_H
#define TN_OS_PASS_H

#include <stdbool.h>
#include <stddef.h>

/* Send a message, and with it a copy of fd, over a Unix socket.  Never blocks.  false: the other
 * end is gone, or takes nothing. */
bool tn_pass_fd(int socket, const void *message, size_t len, int fd);

#endif
