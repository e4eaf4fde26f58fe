/* Seconds, for rates. */
#ifndef FLOOR_TIME_H
#define FLOOR_TIME_H

#include <time.h>

static inline double now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

#endif
