#include "clock.h"

#include <limits.h>
#include <time.h>

#include "tenure/store.h"

int64_t tenure_now(void)
{
    struct timespec ts;

    /* Suspend counts: CLOCK_MONOTONIC would let a holder sleep over its deadline. */
    clock_gettime(CLOCK_BOOTTIME, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

uint64_t tn_wall_ms(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_REALTIME, &ts);
    return ts.tv_sec < 0 ? 0 : (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

int tn_poll_ms(int64_t deadline)
{
    int64_t left = deadline - tenure_now();

    if (left <= 0)
        return 0;
    left = (left + 999999) / 1000000;
    return left > INT_MAX ? INT_MAX : (int)left;
}
