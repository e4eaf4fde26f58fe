/* store/redis_ops.h - the larger functions of redis.c's table. */
#ifndef TN_STORE_REDIS_OPS_H
#define TN_STORE_REDIS_OPS_H

#include "tenure/store.h"

#define TN_REDIS_BATCH_MAX 1000 /* swaps in one script: Lua's unpack() takes some 8000 values */

enum tenure_status tn_redis_swap(void *impl, struct tenure_swap *swap, int64_t deadline,
                                 struct tenure_error *err);
enum tenure_status tn_redis_swap_many(void *impl, struct tenure_swap *swaps, size_t n,
                                      int64_t deadline, struct tenure_error *err);
enum tenure_status tn_redis_list(void *impl, const char *prefix, const char *after,
                                 tenure_visit_fn visit, void *arg,
                                 char mark[TENURE_VERSION_MAX + 1], int64_t deadline,
                                 struct tenure_error *err);

#endif
