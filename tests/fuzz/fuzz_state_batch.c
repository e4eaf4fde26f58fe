/*
 * POST /v1/state: a batch of commits from whoever may request.  What is taken is
 * bounded and whole, means the same when it is written down again, and can be
 * answered.
 */
#include <stdint.h>
#include <stdlib.h>

#include "base/base64.h"
#include "check.h"
#include "state/http/http.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static json_t *commit_json(const struct tenure_commit *c)
{
    json_t *o = json_pack("{s:s, s:s}", "collection", c->collection, "id", c->id);
    char *text = malloc(TN_BASE64_LEN(c->len) + 1);

    assert(o && text);
    tn_base64_encode(c->data ? c->data : "", c->len, text);
    if (c->remove)
        json_object_set_new(o, "delete", json_true());
    else
        json_object_set_new(o, "base64", json_string(text));
    free(text);
    return o;
}

static char *write_down(const struct tn_state_request *request)
{
    json_t *list = json_array();

    for (size_t i = 0; i < request->n_commits; i++)
        json_array_append_new(list, commit_json(&request->commits[i]));
    json_t *all = json_pack("{s:o}", "commits", list);
    char *text = json_dumps(all, JSON_COMPACT);
    json_decref(all);
    assert(text);
    return text;
}

static void check_same(const struct tenure_commit *a, const struct tenure_commit *b)
{
    assert(strcmp(a->collection, b->collection) == 0 && strcmp(a->id, b->id) == 0);
    assert(a->remove == b->remove && a->len == b->len);
    assert(a->len == 0 || memcmp(a->data, b->data, a->len) == 0);
}

static void check_again(const struct tn_state_request *request)
{
    char *text = write_down(request);
    struct tn_state_request again = {.body = (const unsigned char *)text, .len = strlen(text)};
    struct tenure_error err = {0};
    enum tenure_status status = tn_state_batch_parse(&again, &err);

    assert(!status && again.n_commits == request->n_commits);
    for (size_t i = 0; i < request->n_commits; i++)
        check_same(&request->commits[i], &again.commits[i]);
    tn_state_batch_free(&again);
    free(text);
}

/* As many results as commits, and the first failure is the whole's. */
static void check_answer(struct tn_state_request *request, size_t bad)
{
    if (bad < request->n_commits)
        request->commits[bad].status = TENURE_FENCED;
    tn_state_batch_answer(request, "detail");
    json_t *o = json_loadb(request->reply.body, request->reply.len, JSON_REJECT_DUPLICATES, NULL);
    assert(o && json_array_size(json_object_get(o, "results")) == request->n_commits);
    assert(request->reply.status == (bad < request->n_commits ? 409 : 200));
    json_decref(o);
    if (request->reply.owned)
        free(request->reply.body);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tn_state_request request = {.body = data, .len = size};
    struct tenure_error err = {0};
    enum tenure_status status = tn_state_batch_parse(&request, &err);

    if (status) {
        check_refusal(&err, status);
        assert(status == TENURE_INVALID && request.n_commits == 0);
    } else {
        assert(request.n_commits >= 1 && request.n_commits <= 10000);
        for (size_t i = 0; i < request.n_commits; i++) {
            assert(request.commits[i].id[0] && request.commits[i].len <= TENURE_DATA_MAX - 4096);
            assert(request.commits[i].len <= size);
        }
        check_again(&request);
        check_answer(&request, size % (request.n_commits + 2));
    }
    tn_state_batch_free(&request);
    return 0;
}
