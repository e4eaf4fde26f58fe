/* store/redis/ops.h - the larger functions of redis.c's table. */
#ifndef TN_STORE_REDIS_OPS_H
#define TN_STORE_REDIS_OPS_H

#include "base/hex.h"
#include "tenure/store.h"

#define TN_REDIS_BATCH_MAX   1000 /* swaps in one script: Lua's unpack() takes some 8000 values */
#define TN_REDIS_BATCH_BYTES (4u << 20)

enum tenure_status tn_redis_swap(void *impl, struct tenure_swap *swap, int64_t deadline,
                                 struct tenure_error *err);
enum tenure_status tn_redis_swap_many(void *impl, struct tenure_swap *swaps, size_t n,
                                      int64_t deadline, struct tenure_error *err);
enum tenure_status tn_redis_purge(void *impl, struct tenure_swap *swap, int64_t deadline,
                                  struct tenure_error *err);
enum tenure_status tn_redis_list(void *impl, const char *prefix, const char *after,
                                 tenure_visit_fn visit, void *arg,
                                 char mark[TENURE_VERSION_MAX + 1], int64_t deadline,
                                 struct tenure_error *err);

/*
 * Of a handle that repairs.  read(): also what is no register, as it is (store/damaged.h): a
 * string, or "redis-TYPE" and what DUMP gives.  swap(): replaces just that.
 */
struct tn_redis;
enum tenure_status tn_redis_repair_read(struct tn_redis *h, const char *key,
                                        struct tenure_value *value, int64_t deadline,
                                        struct tenure_error *err);
enum tenure_status tn_redis_repair(struct tn_redis *h, struct tenure_swap *swap, int64_t deadline,
                                   struct tenure_error *err);

/* "NONCE PREV v\n" and the data, which follow "tenure1 VERSION "; out has room for TN_REDIS_TAIL
 * bytes and the data.  Returns how many there are. */
#define TN_REDIS_TAIL (2 * TN_NONCE_HEX + 5)
size_t tn_redis_put_tail(const struct tenure_swap *swap, char *out);

#endif
