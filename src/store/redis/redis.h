/* store/redis/redis.h - the tables of redis.c; module.c and module.c export them. */
#ifndef TN_STORE_REDIS_REDIS_H
#define TN_STORE_REDIS_REDIS_H

#include "tenure/store.h"

extern const struct tenure_store_ops tn_store_redis;
extern const struct tenure_store_ops tn_store_redis_unix;
extern const struct tenure_store_ops tn_store_unix;
extern const struct tenure_store_ops tn_store_redis_sentinel;
extern const struct tenure_store_ops tn_store_rediss;
extern const struct tenure_store_ops tn_store_rediss_sentinel;

/* What the loader looks for: the tables of one module, ended by NULL. */
TENURE_API extern const struct tenure_store_ops *const tenure_store_module[];

#endif
