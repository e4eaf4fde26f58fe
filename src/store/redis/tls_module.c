/* tenure-store-rediss.so: the same over TLS (tls.c). */
#include "store/redis/redis.h"

const struct tenure_store_ops *const tenure_store_module[] = {
    &tn_store_rediss,
    &tn_store_rediss_sentinel,
    NULL,
};
