/*
 * store/patience.h - how long a server is given: one that is there, but not ready yet (it starts,
 * loads its data, elects a leader, or has too much to do), and one of several that hangs.
 */
#ifndef TN_STORE_PATIENCE_H
#define TN_STORE_PATIENCE_H

#include <stdbool.h>
#include <time.h>

#include "tenure/store.h"

/* Sleep for a moment.  False, at once, if no time would be left to ask again. */
static inline bool tn_store_pause(int64_t deadline)
{
    const struct timespec moment = {.tv_nsec = 100000000};

    if (deadline - tenure_now() <= 2 * moment.tv_nsec)
        return false;
    nanosleep(&moment, NULL);
    return true;
}

/* Until when one of the attempts left may last: a server that hangs must not use up the time of the
 * `servers` left, but pieces in which nothing gets done help nobody. */
static inline int64_t tn_attempt_until(int64_t deadline, unsigned left, unsigned servers)
{
    const int64_t min = INT64_C(200000000), enough = INT64_C(1000000000);
    int64_t now = tenure_now(), span = (deadline - now) / (int64_t)left;
    int64_t least = (deadline - now) / (int64_t)servers;

    if (least > enough)
        least = enough;
    if (least < min)
        least = min;
    if (span < least)
        span = least;
    return deadline - now < span ? deadline : now + span;
}

/* Is it worth another attempt, with another connection or server?  left: attempts, with this one.
 */
static inline bool tn_attempt_again(enum tenure_status status, unsigned left, int64_t deadline)
{
    return (status == TENURE_UNAVAILABLE || status == TENURE_TIMEOUT) && left > 1 &&
           tenure_now() < deadline;
}

#endif
