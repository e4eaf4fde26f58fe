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
#include "state/http/http.h"

#define COMMITS_MAX 10000

/* A string of a member, without a NUL in it.  NULL if it is not there. */
static const char *text_of(const json_t *o, const char *name)
{
    const json_t *value = json_object_get(o, name);
    const char *text = json_string_value(value);

    return text && strlen(text) == json_string_length(value) ? text : NULL;
}

/* One of data, base64, delete.  *used: bytes of ask->bytes that are taken. */
static bool take_data(const json_t *o, struct tenure_commit *c, unsigned char *bytes, size_t *used)
{
    const json_t *data = json_object_get(o, "data"), *encoded = json_object_get(o, "base64");
    const json_t *gone = json_object_get(o, "delete");

    if (!!data + !!encoded + !!gone != 1)
        return false;
    if (gone) {
        c->remove = true;
        return json_is_true(gone);
    }
    if (data) {
        c->data = json_string_value(data);
        c->len = json_string_length(data);
        return json_is_string(data);
    }
    if (!json_is_string(encoded) ||
        !tn_base64_decode(json_string_value(encoded), json_string_length(encoded), bytes + *used,
                          &c->len))
        return false;
    c->data = bytes + *used;
    *used += c->len;
    return true;
}

static enum tenure_status take_commits(struct tn_state_ask *ask, const json_t *list,
                                       struct tenure_error *err)
{
    size_t n = json_array_size(list), used = 0;

    ask->commits = calloc(n, sizeof *ask->commits);
    ask->bytes = malloc(ask->len + 1); /* base64 is longer than what it says */
    if (!ask->commits || !ask->bytes)
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    for (size_t i = 0; i < n; i++) {
        const json_t *o = json_array_get(list, i);
        struct tenure_commit *c = &ask->commits[i];

        c->collection = text_of(o, "collection");
        c->id = text_of(o, "id");
        if (!c->collection || !c->id || !*c->id || !take_data(o, c, ask->bytes, &used))
            return tenure_fail(err, TENURE_INVALID,
                               "commit %zu: give collection, id, and one of data, base64 and "
                               "\"delete\": true",
                               i);
        if (c->len > TENURE_DATA_MAX - 4096)
            return tenure_fail(err, TENURE_INVALID, "commit %zu: longer than 1,044,480 bytes", i);
    }
    ask->n_commits = n;
    return TENURE_OK;
}

enum tenure_status tn_state_batch_parse(struct tn_state_ask *ask, struct tenure_error *err)
{
    json_error_t wrong;
    const json_t *list;

    ask->batch = json_loadb((const char *)ask->body, ask->len, JSON_ALLOW_NUL, &wrong);
    if (!ask->batch)
        return tenure_fail(err, TENURE_INVALID, "not JSON: line %d: %s", wrong.line, wrong.text);
    list = json_object_get(ask->batch, "commits");
    if (!json_is_array(list) || json_array_size(list) == 0 || json_array_size(list) > COMMITS_MAX)
        return tenure_fail(err, TENURE_INVALID, "give {\"commits\": [...]}, 1 to %d of them",
                           COMMITS_MAX);
    return take_commits(ask, list, err);
}

void tn_state_batch_answer(struct tn_state_ask *ask, const char *detail)
{
    enum tenure_status first = TENURE_OK;
    json_t *results = json_array();

    for (size_t i = 0; results && i < ask->n_commits; i++) {
        const struct tenure_commit *c = &ask->commits[i];

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
        tn_http_answer_json(&ask->reply, 200, json_pack("{s:o}", "results", results));
        return;
    }
    /* As the first that failed is answered alone, and what became of each. */
    tn_http_answer_status(&ask->reply, first, detail);
    unsigned status = ask->reply.status;
    if (ask->reply.owned)
        free(ask->reply.body);
    json_t *json = json_pack("{s:s, s:s, s:O}", "error", tenure_status_word(first), "detail",
                             detail, "results", results);
    if (!json) /* a text may hold anybody's bytes */
        json = json_pack("{s:s, s:O}", "error", tenure_status_word(first), "results", results);
    json_decref(results);
    tn_http_answer_json(&ask->reply, status, json);
}

void tn_state_batch_free(struct tn_state_ask *ask)
{
    if (ask->commits != &ask->one)
        free(ask->commits);
    free(ask->bytes);
    json_decref(ask->batch);
    ask->commits = NULL;
    ask->bytes = NULL;
    ask->batch = NULL;
}
