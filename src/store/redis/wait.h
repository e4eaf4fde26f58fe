/* store/redis/wait.h - news of changes, on a connection of its own (store/watcher.h). */
#ifndef TN_STORE_REDIS_WAIT_H
#define TN_STORE_REDIS_WAIT_H

#include "store/redis/server.h"

void tn_redis_watcher_init(struct tn_redis *h);

/* The mark of a listing: "N.ORIGIN.TIMELINE".  False if seq is not what a script writes. */
bool tn_redis_mark(const char *seq, size_t n, const char *timeline,
                   char mark[TENURE_VERSION_MAX + 1]);

#endif
