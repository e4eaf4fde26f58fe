/*
 * Changes: POST to create; PUT over a record, with what others have noted in it;
 * PATCH over any other register, because a patch can test the nonce as well:
 * versions repeat after a restore, and what is fenced must stay fenced (I3, I5).
 */
#include <stdio.h>
#include <string.h>

#include "base/hex.h"
#include "store/damaged.h"
#include "store/kube/kube.h"

/* The object of swap->expect, to change a record and keep what others have noted in it. */
static enum tenure_status base_of(struct tn_kube *h, const struct tenure_swap *swap,
                                  int64_t deadline, json_t **base, struct tenure_error *err)
{
    struct tenure_token token;
    enum tenure_status status;

    if (tenure_token_absent(&swap->expect) || !tn_kube_is_record(swap->key))
        return TENURE_OK;
    if (h->last && tn_kube_token(swap->key, h->last, &token) &&
        strcmp(token.version, swap->expect.version) == 0) {
        *base = json_incref(h->last);
    } else {
        status = tn_kube_get(h, swap->key, deadline, base, err);
        if (status)
            return status;
        tn_kube_remember(h, swap->key, *base);
    }
    /* The server compares the version and the uid; the nonce is compared here, with
     * the object that has that version. */
    if (!*base || !tn_kube_token(swap->key, *base, &token) ||
        !tenure_token_equal(&token, &swap->expect))
        return tenure_fail(err, TENURE_CONFLICT, "kube: %s has changed", swap->key);
    return TENURE_OK;
}

static enum tenure_status won(struct tn_kube *h, struct tenure_swap *swap, json_t *object,
                              struct tenure_error *err)
{
    struct tenure_token token;

    if (!tn_kube_token(swap->key, object, &token) ||
        memcmp(token.nonce, swap->nonce, TENURE_NONCE_SIZE) != 0)
        return tenure_fail(err, TENURE_UNKNOWN,
                           "kube: %s: the server answers with something else than was written",
                           swap->key);
    swap->token = token;
    tn_kube_remember(h, swap->key, object);
    tn_watcher_learn(&h->watcher, swap->key, &token);
    return TENURE_OK;
}

/* ---- Requests ------------------------------------------------------------ */

static json_t *test_of(const char *path, const char *value)
{
    return json_pack("{s:s, s:s, s:s}", "op", "test", "path", path, "value", value);
}

/* Replace our annotations, if uid, version and nonce are those that were seen. */
static json_t *patch_of(const struct tenure_swap *swap, json_t *object)
{
    char rv[TN_KUBE_RV_MAX + 1], uid[64], nonce[TN_NONCE_HEX + 1];
    json_t *notes = json_object_get(json_object_get(object, "metadata"), "annotations");

    tn_kube_version(swap->expect.version, rv, uid);
    tn_hex_encode(swap->expect.nonce, TENURE_NONCE_SIZE, nonce);
    return json_pack("[o, o, o, {s:s, s:s, s:O}]", test_of("/metadata/uid", uid),
                     test_of("/metadata/resourceVersion", rv),
                     test_of("/metadata/annotations/tenure~1nonce", nonce), "op", "replace", "path",
                     "/metadata/annotations", "value", notes);
}

/* A test that fails and an object that is not accepted are told alike: look which. */
static enum tenure_status refused(struct tn_kube *h, const struct tenure_swap *swap,
                                  int64_t deadline, struct tenure_error *err)
{
    struct tenure_error why = *err;
    struct tenure_token token;
    json_t *object = NULL;
    enum tenure_status status = tn_kube_get(h, swap->key, deadline, &object, err);

    if (!status && object && tn_kube_token(swap->key, object, &token) &&
        tenure_token_equal(&token, &swap->expect)) {
        *err = why;
        status = why.code;
    } else if (!status) {
        status = tenure_fail(err, TENURE_CONFLICT, "kube: %s has changed", swap->key);
    }
    json_decref(object);
    return status;
}

enum tenure_status tn_kube_send(struct tn_kube *h, struct tenure_swap *swap, const char *method,
                                const json_t *body, int64_t deadline, long *code,
                                struct tenure_error *err)
{
    char name[TN_KUBE_NAME_MAX + 1];
    struct tn_kube_request rq = {.method = method,
                                 .name = strcmp(method, "POST") == 0 ? NULL : name,
                                 .body = body,
                                 .change = true};
    struct tn_kube_answer answer;
    enum tenure_status status;

    *code = 0;
    if (!body)
        return tenure_fail(err, TENURE_NOMEM, "kube: out of memory");
    tn_kube_name(h, swap->key, name);
    status = tn_kube_call(h, &rq, deadline, &answer, err);
    *code = answer.code;
    if (!status && (answer.code == 200 || answer.code == 201))
        status = won(h, swap, answer.root, err);
    else if (!status)
        status = tenure_fail(err, TENURE_CONFLICT, "kube: %s has changed", swap->key);
    else if (answer.lost) {
        tenure_fail_context(err, "whether the change took effect is not known");
        status = err->code = TENURE_UNKNOWN;
    }
    json_decref(answer.root);
    return status;
}

static enum tenure_status put(struct tn_kube *h, struct tenure_swap *swap, json_t *object,
                              int64_t deadline, struct tenure_error *err)
{
    bool fresh = tenure_token_absent(&swap->expect),
         patch = !fresh && !tn_kube_is_record(swap->key);
    json_t *body = patch ? patch_of(swap, object) : json_incref(object);
    const char *method = fresh ? "POST" : patch ? "PATCH" : "PUT";
    long code;
    enum tenure_status status = tn_kube_send(h, swap, method, body, deadline, &code, err);

    if (patch && code == 422 && status != TENURE_UNKNOWN)
        status = refused(h, swap, deadline, err);
    json_decref(body);
    return status;
}

enum tenure_status tn_kube_swap(void *impl, struct tenure_swap *swap, int64_t deadline,
                                struct tenure_error *err)
{
    struct tn_kube *h = impl;
    char rv[TN_KUBE_RV_MAX + 1], uid[64];
    json_t *base = NULL, *object = NULL;
    enum tenure_status status;

    if (h->repair && tn_damaged(&swap->expect))
        return swap->status = tn_kube_repair(h, swap, deadline, err);
    if (!tenure_token_absent(&swap->expect) && !tn_kube_version(swap->expect.version, rv, uid))
        return swap->status = tenure_fail(err, TENURE_CONFLICT, "kube: %s has changed", swap->key);
    status = base_of(h, swap, deadline, &base, err);
    if (!status)
        status = tn_kube_encode(h, swap, base, &object, err);
    if (!status)
        status = put(h, swap, object, deadline, err);
    json_decref(base);
    json_decref(object);
    return swap->status = status;
}
