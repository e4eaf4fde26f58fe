/* Files that are built in, answered plain or compressed, or not again if the browser has them. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "api/inner.h"
#include "api/page.h"

/* A coding of weight 0 is refused (RFC 9110, 12.5.3); "*" stands for those that are not named. */
bool tn_page_accepts_gzip(const char *accept)
{
    bool any = false;

    for (const char *at = accept; at && *at; at += *at == ',') {
        at += strspn(at, " \t");
        size_t len = strcspn(at, ",");
        size_t name = strcspn(at, ",; \t");
        const char *weight = memmem(at, len, "q=", 2);
        bool allowed = !weight || strtod(weight + 2, NULL) > 0;

        if ((name == 4 && strncasecmp(at, "gzip", 4) == 0) ||
            (name == 6 && strncasecmp(at, "x-gzip", 6) == 0))
            return allowed;
        if (name == 1 && *at == '*')
            any = allowed;
        at += len;
    }
    return any;
}

bool tn_page_is_known(const char *tags, const char *etag)
{
    return tags && (strcmp(tags, "*") == 0 || strstr(tags, etag));
}

static void answer(const struct tn_page_file *file, const struct tn_http_request *request,
                   struct tn_http_reply *reply)
{
    bool gzip = tn_page_accepts_gzip(request->header(request, "Accept-Encoding"));
    const unsigned char *body = gzip ? file->gzip : file->plain;
    const char *etag = gzip ? file->etag_gzip : file->etag;
    const struct {
        const char *name, *value;
    } headers[] = {
        {"Cache-Control", "no-cache"},
        {"Vary", "Accept-Encoding"},
        {"ETag", etag},
        {"Content-Security-Policy", file->policy},
        {"X-Content-Type-Options", "nosniff"},
        {"Referrer-Policy", "no-referrer"},
        {"X-Frame-Options", "DENY"},
        {gzip ? "Content-Encoding" : NULL, "gzip"},
    };

    _Static_assert(sizeof headers / sizeof headers[0] <=
                       sizeof reply->headers / sizeof reply->headers[0],
                   "an answer has room for them");
    for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++) {
        reply->headers[i].name = headers[i].name;
        reply->headers[i].value = headers[i].value;
    }
    if (tn_page_is_known(request->header(request, "If-None-Match"), etag)) {
        reply->status = 304;
        return;
    }
    reply->status = 200;
    reply->type = file->type;
    memcpy(&reply->body, &body, sizeof reply->body); /* lives on, and is not changed */
    reply->len = gzip ? file->gzip_len : file->plain_len;
}

void tn_answer_page(struct tn_api *api, struct tn_election *e,
                    const struct tn_http_request *request, struct tn_http_reply *reply)
{
    (void)api, (void)e;
    answer(&tn_page_html, request, reply);
}

void tn_answer_group_page(struct tn_api *api, struct tn_election *e,
                          const struct tn_http_request *request, struct tn_http_reply *reply)
{
    (void)api, (void)e;
    answer(&tn_page_jobs, request, reply);
}

void tn_answer_openapi(struct tn_api *api, struct tn_election *e,
                       const struct tn_http_request *request, struct tn_http_reply *reply)
{
    (void)api, (void)e;
    answer(&tn_page_openapi, request, reply);
}
