/* Changes: a transaction each, or many in one. */
#include <string.h>

#include "store/damaged.h"
#include "store/etcd/etcd.h"

/* A version that etcd never gave out fits nothing. */
static bool possible(const struct tenure_swap *swap)
{
    return tenure_token_absent(&swap->expect) || tn_etcd_is_number(swap->expect.version);
}

static void won(struct tn_etcd *h, struct tenure_swap *swap, const char *revision)
{
    swap->status = TENURE_OK;
    memset(&swap->token, 0, sizeof swap->token);
    memcpy(swap->token.version, revision, strlen(revision));
    memcpy(swap->token.nonce, swap->nonce, TENURE_NONCE_SIZE);
    tn_watcher_learn(&h->watcher, swap->key, &swap->token);
}

/* The revision of a transaction's answer. */
static const char *revision_of(const json_t *answer)
{
    return tn_etcd_number(json_object_get(answer, "header"), "revision");
}

enum tenure_status tn_etcd_swap(void *impl, struct tenure_swap *swap, int64_t deadline,
                                struct tenure_error *err)
{
    struct tn_etcd *h = impl;

    if (h->conf.repair && tn_damaged(&swap->expect))
        return tn_raw_swap(&tn_etcd_raw, h, swap, deadline, err);
    if (!possible(swap))
        return swap->status = tenure_fail(err, TENURE_CONFLICT, "etcd: %s has changed", swap->key);
    return tn_etcd_commit(h, swap, tn_etcd_txn(h, swap), deadline, err);
}

enum tenure_status tn_etcd_purge(void *impl, struct tenure_swap *swap, int64_t deadline,
                                 struct tenure_error *err)
{
    struct tn_etcd *h = impl;

    if (!possible(swap))
        return swap->status = tenure_fail(err, TENURE_CONFLICT, "etcd: %s has changed", swap->key);
    tn_etcd_commit(h, swap, tn_etcd_txn_purge(h, swap), deadline, err);
    tn_watcher_forget(&h->watcher, swap->key);
    return swap->status;
}

enum tenure_status tn_etcd_commit(struct tn_etcd *h, struct tenure_swap *swap, json_t *request,
                                  int64_t deadline, struct tenure_error *err)
{
    json_t *answer = NULL;
    bool lost = false;
    enum tenure_status status;

    status = tn_etcd_call(h, "/v3/kv/txn", request, true, deadline, &answer, &lost, err);
    json_decref(request);
    if (!status && !revision_of(answer)) {
        status = tenure_fail(err, TENURE_UNKNOWN, "etcd: the answer has no revision");
        lost = true;
    }
    if (status) {
        if (lost)
            tenure_fail_context(err, "whether the change took effect is not known");
        swap->status = lost ? TENURE_UNKNOWN : status;
        err->code = swap->status;
    } else if (json_is_true(json_object_get(answer, "succeeded"))) {
        won(h, swap, revision_of(answer));
    } else {
        swap->status = tenure_fail(err, TENURE_CONFLICT, "etcd: %s has changed", swap->key);
    }
    json_decref(answer);
    return swap->status;
}

/* ---- Batches ------------------------------------------------------------- */

/* One transaction that holds one for each register, with its own comparison. */
static json_t *compose(struct tn_etcd *h, struct tenure_swap *swaps, size_t n)
{
    json_t *all = json_array();

    for (size_t i = 0; i < n; i++) {
        swaps[i].status = possible(&swaps[i]) ? TENURE_UNKNOWN : TENURE_CONFLICT;
        if (swaps[i].status == TENURE_CONFLICT)
            continue;
        json_t *one = json_pack("{s:o}", "requestTxn", tn_etcd_txn(h, &swaps[i]));
        if (!one || json_array_append_new(all, one)) {
            json_decref(all);
            return NULL;
        }
    }
    return json_pack("{s:o}", "success", all);
}

static enum tenure_status take_verdicts(struct tn_etcd *h, const json_t *answer,
                                        struct tenure_swap *swaps, size_t n,
                                        struct tenure_error *err)
{
    const json_t *responses = json_object_get(answer, "responses");
    const char *revision = revision_of(answer);
    size_t next = 0;

    for (size_t i = 0; i < n; i++) {
        if (swaps[i].status == TENURE_CONFLICT)
            continue;
        const json_t *one = json_object_get(json_array_get(responses, next++), "response_txn");
        if (!one || !revision)
            return tenure_fail(err, TENURE_UNKNOWN, "etcd: the answer lacks a member's verdict");
        if (json_is_true(json_object_get(one, "succeeded")))
            won(h, &swaps[i], revision);
        else
            swaps[i].status = TENURE_CONFLICT;
    }
    return TENURE_OK;
}

enum tenure_status tn_etcd_swap_many(void *impl, struct tenure_swap *swaps, size_t n,
                                     int64_t deadline, struct tenure_error *err)
{
    struct tn_etcd *h = impl;
    json_t *request = compose(h, swaps, n), *answer = NULL;
    bool lost = false;
    enum tenure_status status =
        tn_etcd_call(h, "/v3/kv/txn", request, true, deadline, &answer, &lost, err);

    json_decref(request);
    if (!status)
        status = take_verdicts(h, answer, swaps, n, err);
    else {
        for (size_t i = 0; i < n; i++) {
            if (swaps[i].status != TENURE_CONFLICT)
                swaps[i].status = lost ? TENURE_UNKNOWN : status;
        }
        if (lost)
            tenure_fail_context(err, "whether the changes took effect is not known");
    }
    json_decref(answer);
    return status;
}
