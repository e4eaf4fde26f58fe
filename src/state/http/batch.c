/*
 * POST /v1/state: several commits in one request, of one flush.
 *
 *     {"commits": [{"collection": "jobs", "id": "a", "data": "text"},
 *                  {"collection": "jobs", "id": "b", "base64": "AAEC"},
 *                  {"collection": "jobs", "id": "c", "delete": true}]}
 */
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/words.h"
#include "state/http/http.h"

#define COMMITS_MAX 10000
#define COMMIT      "collection, id, data, base64, delete"

const char *tn_batch_text(const json_t *o, const char *name)
{
    const json_t *value = json_object_get(o, name);
    const char *text = json_string_value(value);

    return text && strlen(text) == json_string_length(value) ? text : NULL;
}

bool tn_batch_data(const json_t *o, const void **data, size_t *len, unsigned char *bytes,
                   size_t *used)
{
    const json_t *text = json_object_get(o, "data"), *encoded = json_object_get(o, "base64");

    if (!!text + !!encoded != 1)
        return false;
    if (text) {
        *data = json_string_value(text);
        *len = json_string_length(text);
        return json_is_string(text);
    }
    if (!json_is_string(encoded) ||
        !tn_base64_decode(json_string_value(encoded), json_string_length(encoded), bytes + *used,
                          len))
        return false;
    *data = bytes + *used;
    *used += *len;
    return true;
}

/* One of data, base64, delete.  *used: bytes of request->bytes that are taken. */
static bool parse_data(const json_t *o, struct tenure_commit *c, unsigned char *bytes, size_t *used)
{
    const json_t *gone = json_object_get(o, "delete");

    if (!gone)
        return tn_batch_data(o, &c->data, &c->len, bytes, used);
    c->remove = true;
    return json_is_true(gone) && !json_object_get(o, "data") && !json_object_get(o, "base64");
}

const char *tn_batch_unknown(json_t *o, const char *known)
{
    const char *member;
    json_t *value;

    json_object_foreach(o, member, value)
    {
        if (!tn_words_have(known, member))
            return member;
    }
    return NULL;
}

static enum tenure_status parse_commits(struct tn_state_request *request, const json_t *list,
                                        struct tenure_error *err)
{
    size_t n = json_array_size(list), used = 0;

    request->commits = calloc(n, sizeof *request->commits);
    request->bytes = malloc(request->len + 1); /* base64 is longer than what it says */
    if (!request->commits || !request->bytes)
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    for (size_t i = 0; i < n; i++) {
        json_t *o = json_array_get(list, i);
        struct tenure_commit *c = &request->commits[i];
        const char *unknown = tn_batch_unknown(o, COMMIT);

        if (unknown)
            return tenure_fail(err, TENURE_INVALID,
                               "commit %zu: unknown member '%.60s'; known: " COMMIT, i, unknown);

        c->collection = tn_batch_text(o, "collection");
        c->id = tn_batch_text(o, "id");
        if (!c->collection || !c->id || !*c->id || !parse_data(o, c, request->bytes, &used))
            return tenure_fail(err, TENURE_INVALID,
                               "commit %zu: give collection, id, and one of data, base64 and "
                               "\"delete\": true",
                               i);
        if (c->len > TENURE_DATA_MAX - 4096)
            return tenure_fail(err, TENURE_INVALID, "commit %zu: longer than 1,044,480 bytes", i);
    }
    request->n_commits = n;
    return TENURE_OK;
}

enum tenure_status tn_state_batch_parse(struct tn_state_request *request, struct tenure_error *err)
{
    json_error_t wrong;
    const json_t *list;

    request->batch = json_loadb((const char *)request->body, request->len, JSON_ALLOW_NUL, &wrong);
    if (!request->batch)
        return tenure_fail(err, TENURE_INVALID, "not JSON: line %d: %s", wrong.line, wrong.text);
    const char *unknown = tn_batch_unknown(request->batch, "commits");
    if (unknown)
        return tenure_fail(err, TENURE_INVALID, "unknown member '%.60s'; known: commits", unknown);
    list = json_object_get(request->batch, "commits");
    if (!json_is_array(list) || json_array_size(list) == 0 || json_array_size(list) > COMMITS_MAX)
        return tenure_fail(err, TENURE_INVALID, "give {\"commits\": [...]}, 1 to %d of them",
                           COMMITS_MAX);
    return parse_commits(request, list, err);
}

void tn_state_batch_answer(struct tn_state_request *request, const char *detail)
{
    enum tenure_status first = TENURE_OK;
    json_t *results = json_array();

    for (size_t i = 0; results && i < request->n_commits; i++) {
        const struct tenure_commit *c = &request->commits[i];

        if (c->status && !first)
            first = c->status;
        if (json_array_append_new(
                results,
                c->status ? json_pack("{s:s}", "status", tenure_status_word(c->status))
                          : json_pack("{s:s, s:I}", "status", "ok", "seq", (json_int_t)c->seq))) {
            json_decref(results); /* a result in another's place would be worse than none */
            results = NULL;
        }
    }
    if (!first) {
        tn_http_answer_json(&request->reply, 200, json_pack("{s:o}", "results", results));
        return;
    }
    /* As the first that failed is answered alone, and what became of each. */
    tn_http_answer_status(&request->reply, first, detail);
    unsigned status = request->reply.status;
    if (request->reply.owned)
        free(request->reply.body);
    json_t *json = json_pack("{s:s, s:s, s:O}", "error", tenure_status_word(first), "detail",
                             detail, "results", results);
    if (!json) /* a text may hold anybody's bytes */
        json = json_pack("{s:s, s:O}", "error", tenure_status_word(first), "results", results);
    json_decref(results);
    tn_http_answer_json(&request->reply, status, json);
}

void tn_state_batch_free(struct tn_state_request *request)
{
    if (request->commits != &request->one)
        free(request->commits);
    free(request->bytes);
    json_decref(request->batch);
    request->commits = NULL;
    request->bytes = NULL;
    request->batch = NULL;
}
