/* store/redis/bundle.h - several requests in one write, so that they cost one round trip. */
#ifndef TN_STORE_REDIS_BUNDLE_H
#define TN_STORE_REDIS_BUNDLE_H

#include "store/redis/link.h"

struct tn_redis_bundle {
    char *bytes;
    size_t n;
    unsigned count; /* of requests, and so of the replies that will come */
    bool failed;    /* no memory */
};
/* lens: NULL for texts. */
void tn_redis_bundle_add(struct tn_redis_bundle *bundle, int argc, const char **argv,
                         const size_t *lens);
/* AUTH (if there is a password) and SELECT (if db is not 0). */
enum tenure_status tn_redis_bundle_login(struct tn_redis_bundle *bundle, const char *user,
                                         const struct tn_secret *password, unsigned db,
                                         struct tenure_error *err);
/* Send it, and empty it, whatever comes of it. */
enum tenure_status tn_redis_bundle_send(struct tn_redis_bundle *bundle, struct tn_redis_link *link,
                                        int64_t deadline, struct tenure_error *err);
void tn_redis_bundle_clear(struct tn_redis_bundle *bundle);

#endif
