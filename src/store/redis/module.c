/* tenure-store-redis.so: everything but TLS, so that OpenSSL is not mapped. */
#include "store/redis/redis.h"
#include "store/redis/tls.h"

const struct tn_redis_tls_ops *const tn_redis_tls = NULL;

const struct tenure_store_ops *const tenure_store_module[] = {
    &tn_store_redis, &tn_store_redis_unix, &tn_store_unix, &tn_store_redis_sentinel, NULL,
};
