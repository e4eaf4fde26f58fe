/* Requests to those who give out credentials: rare, on connections of their own. */
#include <stdlib.h>
#include <string.h>

#include "store/object/object.h"

#define S          INT64_C(1000000000)
#define ANSWER_MAX 65536u
#define EARLY      INT64_C(300)         /* seconds before the end */
#define LONGEST    (INT64_C(7) * 86400) /* what is said to last longer is renewed all the same */
#define AGAIN      (10 * S)             /* from one failure to the next attempt */
#define SHARE      (2 * S)              /* of a request that does not need it yet */

void tn_object_lifetime_set(struct tn_object_lifetime *life, int64_t left)
{
    int64_t now = tenure_now();

    left = left < 0 ? 0 : left > LONGEST ? LONGEST : left;
    /* One that ends soon is used for as long as it lasts. */
    life->renew_ns = now + (left > 2 * EARLY ? left - EARLY : left / 2) * S;
    life->end_ns = now + left * S;
    life->tried_ns = 0;
}

bool tn_object_lifetime_good(const struct tn_object_lifetime *life)
{
    int64_t now = tenure_now();

    return !life->end_ns || now < life->renew_ns ||
           (now < life->end_ns && life->tried_ns && now < life->tried_ns + AGAIN);
}

bool tn_object_lifetime_spare(const struct tn_object_lifetime *life, int64_t *deadline)
{
    int64_t now = tenure_now();

    if (!life->end_ns || now >= life->end_ns)
        return false;
    *deadline = *deadline < now + SHARE ? *deadline : now + SHARE;
    return true;
}

bool tn_object_lifetime_forget(const struct tn_object_lifetime *life, int64_t *forgot_ns)
{
    int64_t now = tenure_now();

    if (life->end_ns && *forgot_ns && now < *forgot_ns + AGAIN)
        return false;
    *forgot_ns = now;
    return true;
}

enum tenure_status tn_object_fetch_status(long code)
{
    return code >= 500 || code == 408 || code == 410 || code == 429 ? TENURE_UNAVAILABLE
                                                                    : TENURE_DENIED;
}

enum tenure_status tn_object_fetch(const struct tn_object_fetch *f, int64_t deadline,
                                   struct tn_http_answer *answer, struct tenure_error *err)
{
    /* Neither the authorities nor the certificate of the bucket's server are theirs. */
    const struct tn_http_conf own = {.cancel_fd = f->cancel_fd};
    const char *const headers[] = {f->header, NULL};
    const struct tn_http_request request = {
        .method = f->method ? f->method
                  : f->body ? "POST"
                            : "GET",
        .url = f->url,
        .headers = f->header ? headers : NULL,
        .body = f->body,
        .len = f->body ? strlen(f->body) : 0,
        .answer_max = ANSWER_MAX,
        .connect_by = deadline,
    };
    struct tn_http *http = tn_http_new(&own);
    enum tenure_status status;

    if (!http)
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    status = tn_http_call(http, &request, deadline, answer, err);
    tn_http_free(http);
    return status;
}

void tn_object_fetch_free(struct tn_http_answer *answer)
{
    if (answer->body)
        explicit_bzero(answer->body, answer->len);
    free(answer->body);
    memset(answer, 0, sizeof *answer);
}
