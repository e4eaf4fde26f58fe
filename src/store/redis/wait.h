/*
 * store/redis/wait.h - news of changes, on a connection of its own.
 *
 * The subscription outlives one wait(): what was read or written meanwhile is
 * remembered, so that a standby that waits again need not ask again.
 */
#ifndef TN_STORE_REDIS_WAIT_H
#define TN_STORE_REDIS_WAIT_H

#include "store/redis/server.h"

enum tenure_status tn_redis_wait(struct tn_redis *h, const struct tenure_watch *watches, size_t n,
                                 int wake_fd, int64_t deadline, struct tenure_error *err);
/* This handle has just seen the register like that. */
void tn_redis_news_learn(struct tn_redis *h, const char *key, const struct tenure_token *token);
/* Close the subscription and forget what was learnt by it.  Accepts a handle without one. */
void tn_redis_news_drop(struct tn_redis *h);

/* The mark of a listing: "N.ORIGIN.TIMELINE".  False if seq is not what a script writes. */
bool tn_redis_mark(const char *seq, size_t n, const char *timeline,
                   char mark[TENURE_VERSION_MAX + 1]);

#endif
