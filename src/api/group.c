/* What is answered for a group of jobs, from what its worker knows. */
#include <stdlib.h>
#include <string.h>

#include "api/inner.h"
#include "state/http/http.h"
#include "state/http/query.h"
#include "status/metrics.h"

#define LIMIT_MAX 10000u

void tn_answer_group_readyz(struct tn_api *api, struct tn_election *e,
                            const struct tn_http_request *request, struct tn_http_reply *reply)
{
    char why[512];

    (void)e, (void)request;
    if (api->group->ready(api->group_arg, why, sizeof why))
        tn_reply_yes(reply);
    else
        tn_reply_no(reply, why);
}

void tn_answer_group_metrics(struct tn_api *api, struct tn_election *e,
                             const struct tn_http_request *request, struct tn_http_reply *reply)
{
    const char *accept = request->header(request, "Accept");
    bool open = accept && strstr(accept, "application/openmetrics-text");
    struct tn_http_counts counts;
    char *text = NULL;
    FILE *out = open_memstream(&text, &reply->len);

    (void)e;
    tn_api_count(api, &counts);
    if (out) {
        api->group->metrics(api->group_arg, out, open);
        tn_metrics_end(out, open, &counts);
        fclose(out);
    }
    reply->body = text;
    reply->owned = text != NULL;
    reply->status = text ? 200 : 500;
    reply->type = tn_metrics_type(open);
    tn_reply_no_store(reply);
}

/* False: it is not valid, and the request has been answered. */
static bool read_limit(const struct tn_http_request *request, uint32_t *limit,
                       struct tn_http_reply *reply)
{
    const char *text = request->query(request, "limit");
    char *end = NULL;
    unsigned long n = text ? strtoul(text, &end, 10) : TN_GROUP_JOBS;

    *limit = (uint32_t)n;
    if (!text || (*text >= '0' && *text <= '9' && !*end && n <= LIMIT_MAX))
        return true;
    tn_http_answer_error(reply, 400, "invalid", "limit: give a number from 0 to 10000");
    return false;
}

void tn_answer_group(struct tn_api *api, struct tn_election *e,
                     const struct tn_http_request *request, struct tn_http_reply *reply)
{
    const char *search = request->query(request, "search");
    struct tn_leadership_query query;
    uint32_t limit;

    (void)e;
    if (!read_limit(request, &limit, reply) || !tn_leadership_read(request, &query, reply))
        return;
    if (query.stream) {
        tn_reply_stream(api, reply);
        return;
    }
    tn_http_answer_json(reply, 200,
                        search ? api->group->find(api->group_arg, search, limit)
                               : tn_api_group_view(api, limit));
    tn_reply_no_store(reply);
}
