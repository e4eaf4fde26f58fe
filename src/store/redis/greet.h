/* store/redis/greet.h - what is done once on a fresh link, and what the server says of itself. */
#ifndef TN_STORE_REDIS_GREET_H
#define TN_STORE_REDIS_GREET_H

#include "store/redis/server.h"

/*
 * Go on with h->setup: connect, and in one write log in, load all scripts and
 * probe.  OK: its link may be used.  After TIMEOUT and CANCELLED a later call
 * goes on where this one ended.
 */
enum tenure_status tn_redis_greet(struct tn_redis *h, int64_t deadline,
                                  struct tn_redis_answer *answer, struct tenure_error *err);
/* Load all scripts in one round trip; the server tells their digests. */
enum tenure_status tn_redis_load_scripts(struct tn_redis *h, int64_t deadline,
                                         struct tenure_error *err);
/*
 * Is the server one to use, by its INFO?  Sets the handle's timeline and, the
 * first time, its promise.  answer->fault is ROUTE for a replica.
 */
enum tenure_status tn_redis_judge(struct tn_redis *h, const char *info,
                                  struct tn_redis_answer *answer, struct tenure_error *err);

#endif
