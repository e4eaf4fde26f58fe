/*
 * supervise/program/notified.h - the program's own word that it is well: sd_notify(3), with tenure
 * at the receiving end.
 *
 * The socket lies in a directory that the program's user alone may enter, and a
 * message counts only if it was sent by that user, from within the program's tree.
 */
#ifndef TN_SUPERVISE_NOTIFIED_H
#define TN_SUPERVISE_NOTIFIED_H

#include <stdbool.h>
#include <stddef.h>

#include "os/socket_dir.h"
#include "supervise/program/program.h"

struct tn_notified {
    int fd; /* -1: nobody listens */
    uid_t user;
    char dir[TN_SOCKET_DIR_MAX];
    char path[TN_SOCKET_DIR_MAX + 8]; /* for NOTIFY_SOCKET */
};
#define TN_NOTIFIED_NONE ((struct tn_notified){.fd = -1})

enum tenure_status tn_notified_open(struct tn_notified *n, const struct tn_program *program,
                                    struct tenure_error *err);
/* Take what has come.  true: the program, whose tree hangs from the guard, said that it is
 * well. */
bool tn_notified_take(const struct tn_notified *n, pid_t guard);
void tn_notified_close(struct tn_notified *n);

/* One of its lines is WATCHDOG=1 or READY=1. */
bool tn_notified_is_well(const char *text, size_t len);

#endif
