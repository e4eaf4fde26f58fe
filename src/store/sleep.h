/* store/sleep.h - the end of a round of wait(), when nothing has changed. */
#ifndef TN_STORE_SLEEP_H
#define TN_STORE_SLEEP_H

#include <errno.h>
#include <poll.h>
#include <string.h>

#include "os/poll.h"
#include "tenure/store.h"

/*
 * Sleep until fd (-1: none) is readable, or `until`: OK, compare again.  TIMEOUT at the deadline,
 * CANCELLED when wake_fd is readable.
 */
static inline enum tenure_status tn_store_sleep(const char *scheme, int fd, int wake_fd,
                                                int64_t until, int64_t deadline,
                                                struct tenure_error *err)
{
    struct pollfd fds[2] = {{.fd = fd, .events = POLLIN}, {.fd = wake_fd, .events = POLLIN}};
    int ready = tn_poll(fds, 2, until < deadline ? until : deadline);

    if (ready < 0)
        return tenure_fail(err, TENURE_UNAVAILABLE, "%s: poll: %s", scheme, strerror(errno));
    if (ready == 0 && until >= deadline)
        return tenure_fail(err, TENURE_TIMEOUT, "%s: nothing changed", scheme);
    if (ready > 0 && fds[1].revents)
        return tenure_fail(err, TENURE_CANCELLED, "%s: wait was cancelled", scheme);
    return TENURE_OK;
}

#endif
