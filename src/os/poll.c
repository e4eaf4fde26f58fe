#include "poll.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "tenure/store.h"

#define SLICE_NS 1000000000
#define NAP_MS   20

/* poll() takes no more descriptors at once than the process may have: who lowers that limit while
 * we wait has us look at them one by one. */
static int poll_each(struct pollfd *fds, unsigned n, int ms)
{
    struct timespec nap = {.tv_nsec = (ms < NAP_MS ? ms : NAP_MS) * 1000000L};
    int ready = 0;

    for (unsigned i = 0; i < n; i++)
        ready += poll(&fds[i], 1, 0) > 0;
    if (ready == 0)
        nanosleep(&nap, NULL);
    return ready;
}

/* No descriptor is left for a timer: look at the clock every second.  Who could
 * not wait would spin, or be deaf to signals, just when somebody used them up. */
static int poll_in_slices(struct pollfd *fds, unsigned n, int64_t deadline)
{
    for (;;) {
        int64_t left = deadline - tenure_now();
        int slice = left <= 0         ? 0
                    : left > SLICE_NS ? SLICE_NS / 1000000
                                      : (int)(left / 1000000) + 1;
        int ready = poll(fds, n, slice);

        if (ready < 0 && errno == EINVAL)
            ready = poll_each(fds, n, slice);
        if (ready > 0 || (ready == 0 && left <= 0) || (ready < 0 && errno != EINTR))
            return ready;
    }
}

int tn_poll_timer(void)
{
    return timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC);
}

int tn_poll_with(int timer_fd, struct pollfd *fds, unsigned n, int64_t deadline)
{
    struct pollfd all[TN_POLL_MAX + 1];
    struct itimerspec when = {0};
    int ready;

    assert(n <= TN_POLL_MAX);
    if (timer_fd < 0)
        return poll_in_slices(fds, n, deadline);
    /* The timer is looked at first: if it has run out, the others are looked at after the deadline,
     * so that whatever came before it is found. */
    all[0] = (struct pollfd){.fd = timer_fd, .events = POLLIN};
    memcpy(all + 1, fds, n * sizeof *fds);
    if (deadline < 1)
        deadline = 1; /* zero would disarm the timer */
    when.it_value.tv_sec = (time_t)(deadline / 1000000000);
    when.it_value.tv_nsec = (long)(deadline % 1000000000);
    ready = timerfd_settime(timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
    while (ready == 0) {
        ready = poll(all, n + 1, -1);
        if (ready < 0 && errno == EINTR)
            ready = 0;
    }
    if (ready < 0 && errno == EINVAL)
        return poll_in_slices(fds, n, deadline);
    if (ready > 0) {
        memcpy(fds, all + 1, n * sizeof *fds);
        ready -= all[0].revents != 0;
    }
    return ready;
}

int tn_poll(struct pollfd *fds, unsigned n, int64_t deadline)
{
    int timer_fd = tn_poll_timer();
    int ready = tn_poll_with(timer_fd, fds, n, deadline);
    int saved = errno;

    if (timer_fd >= 0)
        close(timer_fd);
    errno = saved;
    return ready;
}
