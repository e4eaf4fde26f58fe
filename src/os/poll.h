/* os/poll.h - poll(2) with a deadline that counts suspended time. */
#ifndef TN_OS_POLL_H
#define TN_OS_POLL_H

#include <poll.h>
#include <stdint.h>

#define TN_POLL_MAX 15

/*
 * Like poll(2) on at most TN_POLL_MAX descriptors, until deadline on
 * CLOCK_BOOTTIME (poll's own timeout stands still while the machine sleeps).
 * Entries with fd -1 are skipped.  Returns how many are ready, 0 at the
 * deadline if none was before it, however late this process comes to look, -1
 * with errno; EINTR is retried.
 */
int tn_poll(struct pollfd *fds, unsigned n, int64_t deadline);

/*
 * The same with a timer that the caller keeps, for those who poll thousands of
 * times a second: a descriptor to close(), or -1, which does as well.
 */
int tn_poll_timer(void);
int tn_poll_with(int timer_fd, struct pollfd *fds, unsigned n, int64_t deadline);

#endif
