/*
 * os/socket_dir.h - a directory of mode 0700 for one socket between tenure and its program.
 */
#ifndef TN_OS_SOCKET_DIR_H
#define TN_OS_SOCKET_DIR_H

#include <sys/types.h>

#include "tenure/status.h"

#define TN_SOCKET_DIR_MAX 80 /* with a short name behind it a socket's path is not too long */

/* Make one, in XDG_RUNTIME_DIR, /run or /tmp: the first that is ours or root's and that others
 * cannot write to, or only as in /tmp.  The caller removes it.  "" on failure, and CONFIG. */
enum tenure_status tn_socket_dir_make(char dir[TN_SOCKET_DIR_MAX], struct tenure_error *err);
/*
 * Give the socket there and the directory to the program's user; 0: it is ours.  The
 * socket while the directory is still ours alone: from then on its user can put
 * anything in its place, and a link there must not be followed.
 */
enum tenure_status tn_socket_dir_give(const char *dir, const char *socket, uid_t user,
                                      struct tenure_error *err);

#endif
