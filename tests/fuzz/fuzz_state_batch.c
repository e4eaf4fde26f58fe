/*
 * POST /v1/state: a batch of commits from whoever may ask.  What is taken is
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

static char *write_down(const struct tn_state_ask *ask)
{
    json_t *list = json_array();

    for (size_t i = 0; i < ask->n_commits; i++)
        json_array_append_new(list, commit_json(&ask->commits[i]));
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

static void check_again(const struct tn_state_ask *ask)
{
    char *text = write_down(ask);
    struct tn_state_ask again = {.body = (const unsigned char *)text, .len = strlen(text)};
    struct tenure_error err = {0};
    enum tenure_status status = tn_state_batch_parse(&again, &err);

    assert(!status && again.n_commits == ask->n_commits);
    for (size_t i = 0; i < ask->n_commits; i++)
        check_same(&ask->commits[i], &again.commits[i]);
    tn_state_batch_free(&again);
    free(text);
}

/* As many results as commits, and the first failure is the whole's. */
static void check_answer(struct tn_state_ask *ask, size_t bad)
{
    if (bad < ask->n_commits)
        ask->commits[bad].status = TENURE_FENCED;
    tn_state_batch_answer(ask, "detail");
    json_t *o = json_loadb(ask->reply.body, ask->reply.len, JSON_REJECT_DUPLICATES, NULL);
    assert(o && json_array_size(json_object_get(o, "results")) == ask->n_commits);
    assert(ask->reply.status == (bad < ask->n_commits ? 409 : 200));
    json_decref(o);
    if (ask->reply.owned)
        free(ask->reply.body);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tn_state_ask ask = {.body = data, .len = size};
    struct tenure_error err = {0};
    enum tenure_status status = tn_state_batch_parse(&ask, &err);

    if (status) {
        check_refusal(&err, status);
        assert(status == TENURE_INVALID && ask.n_commits == 0);
    } else {
        assert(ask.n_commits >= 1 && ask.n_commits <= 10000);
        for (size_t i = 0; i < ask.n_commits; i++) {
            assert(ask.commits[i].id[0] && ask.commits[i].len <= TENURE_DATA_MAX - 4096);
            assert(ask.commits[i].len <= size);
        }
        check_again(&ask);
        check_answer(&ask, size % (ask.n_commits + 2));
    }
    tn_state_batch_free(&ask);
    return 0;
}
