/* turns.h - a cycle at each line of standard input, and how many nanoseconds it took: two programs
 * that take turns see the same disk, however its speed wanders. */
#ifndef TN_BENCH_TURNS_H
#define TN_BENCH_TURNS_H

#include <stdio.h>
#include <time.h>

static inline long long turns_now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec * 1000000000LL + ts.tv_nsec;
}

static inline void turns(void (*half)(void *), void *arg)
{
    for (int c; (c = getchar()) != EOF;) {
        if (c != '\n')
            continue;
        long long from = turns_now();
        half(arg);
        half(arg);
        printf("%lld\n", turns_now() - from);
        fflush(stdout);
    }
}

#endif
