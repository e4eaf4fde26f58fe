#include "store/redis/bundle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void tn_redis_bundle_clear(struct tn_redis_bundle *bundle)
{
    if (bundle->bytes)
        explicit_bzero(bundle->bytes, bundle->n); /* AUTH may be in it */
    free(bundle->bytes);
    memset(bundle, 0, sizeof *bundle);
}

void tn_redis_bundle_add(struct tn_redis_bundle *bundle, int argc, const char **argv,
                         const size_t *lens)
{
    char *request = NULL, *grown = NULL;
    long n = (long)redisFormatCommandArgv(&request, argc, argv, lens);

    if (n >= 0)
        grown = malloc(bundle->n + (size_t)n); /* not realloc(), which leaves secrets behind */
    if (grown) {
        if (bundle->n)
            memcpy(grown, bundle->bytes, bundle->n);
        memcpy(grown + bundle->n, request, (size_t)n);
        if (bundle->bytes)
            explicit_bzero(bundle->bytes, bundle->n);
        free(bundle->bytes);
        bundle->bytes = grown;
        bundle->n += (size_t)n;
        bundle->count++;
    } else {
        bundle->failed = true;
    }
    if (n >= 0)
        explicit_bzero(request, (size_t)n);
    free(request);
}

enum tenure_status tn_redis_bundle_login(struct tn_redis_bundle *bundle, const char *user,
                                         const struct tn_secret *password, unsigned db,
                                         struct tenure_error *err)
{
    char *secret = tn_secret_load(password, err);
    char number[12];

    if (!secret)
        return err->code;
    if (user)
        tn_redis_bundle_add(bundle, 3, (const char *[]){"AUTH", user, secret}, NULL);
    else if (*secret)
        tn_redis_bundle_add(bundle, 2, (const char *[]){"AUTH", secret}, NULL);
    tn_secret_free(secret);
    snprintf(number, sizeof number, "%u", db);
    if (db)
        tn_redis_bundle_add(bundle, 2, (const char *[]){"SELECT", number}, NULL);
    return TENURE_OK;
}

enum tenure_status tn_redis_bundle_send(struct tn_redis_bundle *bundle, struct tn_redis_link *l,
                                        int64_t deadline, struct tenure_error *err)
{
    enum tenure_status status =
        bundle->failed ? tenure_fail(err, TENURE_NOMEM, "redis: out of memory")
                       : tn_redis_link_send(l, bundle->bytes, bundle->n, deadline, NULL, err);

    tn_redis_bundle_clear(bundle);
    return status;
}
