/* supervise/program/notify.h - word to a service manager, over the socket in NOTIFY_SOCKET
 * (sd_notify(3)).
 */
#ifndef TN_SUPERVISE_NOTIFY_H
#define TN_SUPERVISE_NOTIFY_H

#include <stdint.h>

#include "tenure/status.h"

struct tn_notify {
    int fd;              /* -1: nobody asked */
    int64_t watchdog_ns; /* how often it wants to hear from us; 0: never */
};

/* socket and usec are the values of NOTIFY_SOCKET and WATCHDOG_USEC; both may be NULL. */
void tn_notify_open(struct tn_notify *n, const char *socket, const char *usec);
/* "READY=1\nSTATUS=leading". */
void tn_notify(const struct tn_notify *n, const char *format, ...) TENURE_PRINTF(2, 3);
void tn_notify_close(struct tn_notify *n);

#endif
