/*
 * What stands behind the '?' of a request, from anybody: parameters "NAME=VALUE", a line each.
 * What is taken is known, there once and bounded; what is refused is refused in JSON.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/timing.h"
#include "state/http/http.h"
#include "state/http/query.h"

#define KNOWN "name, wait, since, stream"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The value of a parameter is a string of its own, or NULL. */
struct parameters {
    size_t n;
    char *names[16], *values[16];
};

static void each_query(const struct tn_http_request *request,
                       bool (*each)(void *arg, const char *name, const char *value), void *arg)
{
    const struct parameters *p = request->inner;

    for (size_t i = 0; i < p->n && each(arg, p->names[i], p->values[i]); i++)
        continue;
}

static const char *query(const struct tn_http_request *request, const char *name)
{
    const struct parameters *p = request->inner;

    for (size_t i = 0; i < p->n; i++) {
        if (strcmp(p->names[i], name) == 0)
            return p->values[i];
    }
    return NULL;
}

static const char *no_header(const struct tn_http_request *request, const char *name)
{
    (void)request, (void)name;
    return NULL;
}

static void split(char *text, struct parameters *p)
{
    char *rest = NULL;

    for (char *line = strtok_r(text, "\n", &rest); line && p->n < 16;
         line = strtok_r(NULL, "\n", &rest)) {
        p->names[p->n] = line;
        p->values[p->n] = strchr(line, '=');
        if (p->values[p->n])
            *p->values[p->n]++ = '\0';
        p->n++;
    }
}

static void check_refusal(struct tn_http_reply *reply)
{
    assert(reply->status == 400 && reply->len > 0);
    json_t *o = json_loadb(reply->body, reply->len, JSON_REJECT_DUPLICATES, NULL);
    assert(o && strcmp(json_string_value(json_object_get(o, "error")), "invalid") == 0);
    json_decref(o);
    free(reply->body);
    *reply = (struct tn_http_reply){0};
}

static void check_taken(const struct tn_http_request *request, const struct parameters *p)
{
    for (size_t i = 0; i < p->n; i++) {
        const char *name = p->names[i];

        assert(!*name || strcmp(name, "name") == 0 || strcmp(name, "wait") == 0 ||
               strcmp(name, "since") == 0 || strcmp(name, "stream") == 0);
        for (size_t k = 0; k < i; k++)
            assert(!*name || strcmp(name, p->names[k]) != 0);
    }
    const char *name = query(request, "name");
    assert(!name || strcmp(name, "web") == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct parameters p = {0};
    struct tn_http_memo memo = {0};
    struct tn_http_request request = {.method = "GET",
                                      .path = "/v1/leadership",
                                      .memo = &memo,
                                      .header = no_header,
                                      .query = query,
                                      .queries = each_query,
                                      .inner = &p};
    struct tn_http_reply reply = {0};
    struct tn_leadership_query q;
    char *text = strndup((const char *)data, size);

    assert(text);
    split(text, &p);
    if (tn_query_check(&request, KNOWN, "web", &reply))
        check_taken(&request, &p);
    else
        check_refusal(&reply);
    if (tn_leadership_read(&request, &q, &reply)) {
        assert(q.wait_ns >= 0 && q.wait_ns <= 300 * TN_S);
        enum tn_leadership_then then = tn_leadership_waits(&q, "12-3", &memo);
        assert(then == TN_LEADERSHIP_NEWS || (q.since && q.wait_ns > 0 && strstr(q.since, "12-3")));
    } else {
        check_refusal(&reply);
    }
    free(text);
    return 0;
}
