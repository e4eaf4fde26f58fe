/* Changes: a transaction each, or many in one. */
#include <string.h>

#include "store/consul/consul.h"

/* A version that Consul never gave out fits nothing. */
static bool is_possible(const struct tenure_swap *swap)
{
    return tenure_token_absent(&swap->expect) || tn_consul_is_index(swap->expect.version);
}

/* The operations of one swap, behind those that are there.  False: no memory. */
static bool append_swap(const struct tn_consul *h, json_t *ops, const struct tenure_swap *swap)
{
    char name[TN_CONSUL_NAME_MAX];

    if (tenure_token_absent(&swap->expect)) {
        tn_consul_name(h, swap->key, "", name);
        return tn_consul_op(ops, "check-not-exists", name, NULL) &&
               tn_consul_op_anchor(h, ops, swap->key) && tn_consul_op_row(h, ops, swap);
    }
    /* "delete-cas" of a key that is not there succeeds: it is checked first. */
    tn_consul_row_name(h, swap->key, swap->expect.nonce, name);
    return tn_consul_op(ops, "check-index", name, swap->expect.version) &&
           tn_consul_op(ops, "delete", name, NULL) && tn_consul_op_row(h, ops, swap);
}

/* The index of its row, from the answer.  False if the answer lacks it. */
static bool take_token(struct tn_consul *h, const json_t *answer, struct tenure_swap *swap)
{
    char name[TN_CONSUL_NAME_MAX];
    const json_t *one;
    size_t i;

    tn_consul_row_name(h, swap->key, swap->nonce, name);
    json_array_foreach(json_object_get(answer, "Results"), i, one)
    {
        const json_t *entry = json_object_get(one, "KV");
        const char *whose = tn_consul_entry_name(entry);
        struct tenure_token token = {0};

        if (!whose || strcmp(whose, name) != 0 || !tn_consul_entry_index(entry, token.version))
            continue;
        memcpy(token.nonce, swap->nonce, sizeof token.nonce);
        swap->token = token;
        swap->status = TENURE_OK;
        tn_watcher_learn(&h->watcher, swap->key, &token);
        return true;
    }
    return false;
}

/* ---- One ----------------------------------------------------------------- */

enum tenure_status tn_consul_commit(struct tn_consul *h, struct tenure_swap *swap, json_t *ops,
                                    int64_t deadline, struct tenure_error *err)
{
    struct tn_consul_verdict v;
    enum tenure_status status = tn_consul_txn(h, ops, true, deadline, &v, err);

    if (!status && v.refused) {
        status = tenure_fail(err, TENURE_CONFLICT, "consul: %s has changed", swap->key);
    } else if (!status && !take_token(h, v.answer, swap)) {
        status = tenure_fail(err, TENURE_UNKNOWN, "consul: the answer has no index");
        v.lost = true;
    }
    json_decref(v.answer);
    if (v.lost) {
        tenure_fail_context(err, "whether the change took effect is not known");
        status = err->code = TENURE_UNKNOWN;
    }
    return swap->status = status;
}

enum tenure_status tn_consul_swap(void *impl, struct tenure_swap *swap, int64_t deadline,
                                  struct tenure_error *err)
{
    struct tn_consul *h = impl;
    json_t *ops;

    if (h->conf.repair && tn_damaged(&swap->expect))
        return tn_raw_swap(&tn_consul_raw, h, swap, deadline, err);
    if (!is_possible(swap))
        return swap->status =
                   tenure_fail(err, TENURE_CONFLICT, "consul: %s has changed", swap->key);
    ops = json_array();
    if (ops && !append_swap(h, ops, swap)) {
        json_decref(ops);
        ops = NULL;
    }
    return tn_consul_commit(h, swap, ops, deadline, err);
}

/* ---- Batches ------------------------------------------------------------- */

/*
 * A transaction takes effect as a whole or not at all, and one that does not says which of its
 * operations failed: those swaps are lost, and the rest is sent once more without them.
 */
struct batch {
    struct tenure_swap *swaps;
    size_t n;
    size_t owner[TN_CONSUL_OPS_MAX]; /* of each operation: its swap */
    size_t n_ops;
};

/* Of all swaps that are UNKNOWN.  NULL: no memory. */
static json_t *compose(struct tn_consul *h, struct batch *b)
{
    json_t *ops = json_array();

    b->n_ops = 0;
    for (size_t i = 0; ops && i < b->n; i++) {
        if (b->swaps[i].status != TENURE_UNKNOWN)
            continue;
        if (!append_swap(h, ops, &b->swaps[i])) {
            json_decref(ops);
            return NULL;
        }
        while (b->n_ops < json_array_size(ops))
            b->owner[b->n_ops++] = i;
    }
    return ops;
}

/* False if the answer names none of them. */
static bool take_losers(struct batch *b, const json_t *answer)
{
    const json_t *one;
    bool any = false;
    size_t i;

    json_array_foreach(json_object_get(answer, "Errors"), i, one)
    {
        json_int_t at = json_integer_value(json_object_get(one, "OpIndex"));

        if (at < 0 || (size_t)at >= b->n_ops)
            continue;
        b->swaps[b->owner[at]].status = TENURE_CONFLICT;
        any = true;
    }
    return any;
}

static enum tenure_status take_winners(struct tn_consul *h, struct batch *b, const json_t *answer,
                                       struct tenure_error *err)
{
    for (size_t i = 0; i < b->n; i++) {
        if (b->swaps[i].status == TENURE_UNKNOWN && !take_token(h, answer, &b->swaps[i]))
            return tenure_fail(err, TENURE_UNKNOWN, "consul: the answer lacks a member's index");
    }
    return TENURE_OK;
}

/* *again: the losers are known, and the others have not been written. */
static enum tenure_status send_batch(struct tn_consul *h, struct batch *b, int64_t deadline,
                                     bool *again, struct tenure_error *err)
{
    struct tn_consul_verdict v;
    json_t *ops = compose(h, b);
    enum tenure_status status;

    *again = false;
    if (ops && !b->n_ops) { /* all of them have lost */
        json_decref(ops);
        return TENURE_OK;
    }
    status = tn_consul_txn(h, ops, true, deadline, &v, err);
    if (!status && !v.refused) {
        status = take_winners(h, b, v.answer, err);
        v.lost = status != TENURE_OK;
    } else if (!status) {
        *again = take_losers(b, v.answer);
        status =
            *again ? TENURE_OK
                   : tenure_fail(err, TENURE_UNAVAILABLE, "consul: the refusal names no operation");
    }
    json_decref(v.answer);
    for (size_t i = 0; status && !v.lost && i < b->n; i++) {
        if (b->swaps[i].status == TENURE_UNKNOWN)
            b->swaps[i].status = status; /* certainly not carried out */
    }
    if (v.lost)
        tenure_fail_context(err, "whether the changes took effect is not known");
    return status;
}

enum tenure_status tn_consul_swap_many(void *impl, struct tenure_swap *swaps, size_t n,
                                       int64_t deadline, struct tenure_error *err)
{
    struct batch b = {.swaps = swaps, .n = n};
    bool again;
    enum tenure_status status;

    for (size_t i = 0; i < n; i++)
        swaps[i].status = is_possible(&swaps[i]) ? TENURE_UNKNOWN : TENURE_CONFLICT;
    do
        status = send_batch(impl, &b, deadline, &again, err);
    while (again);
    return status;
}
