/* Requests to those who give out credentials: rare, on connections of their own. */
#include <stdlib.h>
#include <string.h>

#include "store/object/object.h"

#define ANSWER_MAX 65536u

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
