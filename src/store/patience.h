/*
 * store/patience.h - opening a store whose server is there, but not ready yet:
 * it starts, loads its data, elects a leader, or has too much to do.
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

#endif
