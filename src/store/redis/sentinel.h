/*
 * store/redis/sentinel.h - who is the master, by a majority of the Sentinels.
 *
 * One Sentinel that was cut off from the others goes on naming the old master;
 * a majority of those in the URL cannot, once a majority has named a new one.
 */
#ifndef TN_STORE_REDIS_SENTINEL_H
#define TN_STORE_REDIS_SENTINEL_H

#include "store/redis/link.h"

struct tn_redis_sentinels {
    const struct tn_redis_conf *conf;
    struct tn_redis_link *links[TN_REMOTE_HOSTS]; /* kept open; NULL: to be opened */
    unsigned order[TN_REMOTE_HOSTS];              /* who is asked first: those that answered */
};

void tn_redis_sentinels_init(struct tn_redis_sentinels *s, const struct tn_redis_conf *conf);
void tn_redis_sentinels_close(struct tn_redis_sentinels *s);

/*
 * The address that a majority gives.  UNAVAILABLE if there is no majority,
 * CONFIG if a majority does not know the master's name, TIMEOUT, DENIED.
 */
enum tenure_status tn_redis_sentinels_ask(struct tn_redis_sentinels *s, int64_t deadline,
                                          struct tn_remote_addr *master, struct tenure_error *err);

#endif
