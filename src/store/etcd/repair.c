/*
 * Registers that are not what this store writes: foreign bytes, or a companion
 * that is missing or differs.  Everybody is told CORRUPT, but an operator who
 * repairs (repair=yes) reads one as it is: a line that quotes the companion, and the
 * bytes.  It is replaced by a transaction on the very revisions that were read (C2).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/damaged.h"
#include "store/etcd/etcd.h"

enum tenure_status tn_etcd_take_damaged(const struct tn_etcd_pair *data,
                                        const struct tn_etcd_pair *nonce,
                                        struct tenure_value *value, struct tenure_error *err)
{
    char *bytes = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&bytes, &size);

    if (!to)
        return tenure_fail(err, TENURE_NOMEM, "etcd: out of memory");
    fputs("etcd-pair 1 nonce=", to);
    if (nonce)
        tn_damaged_quote(to, nonce->data, nonce->len);
    fputs(nonce ? "\n" : "none\n", to);
    fwrite(data->data, 1, data->len, to);
    return tn_damaged_stream(value, to, &bytes, &size, err);
}

/* Both are what they were. */
static json_t *unchanged(const struct tn_etcd *h, const char *key, const struct tn_etcd_pair *data,
                         const struct tn_etcd_pair *nonce)
{
    json_t *all = tn_etcd_same(h, key, false, data), *mate = tn_etcd_same(h, key, true, nonce);

    if (!all || !mate || json_array_extend(all, mate)) {
        json_decref(all);
        all = NULL;
    }
    json_decref(mate);
    return all;
}

/* Is it damaged, and just as expected? */
static enum tenure_status check(const struct tenure_swap *swap, const struct tn_etcd_pair *data,
                                const struct tn_etcd_pair *nonce, struct tenure_error *err)
{
    struct tenure_value value = {0};
    enum tenure_status status = TENURE_CONFLICT;

    if (data->key[0])
        status = tn_etcd_decode(data, nonce, &value, err);
    if (status == TENURE_CORRUPT)
        status = tn_etcd_take_damaged(data, nonce, &value, err);
    if (!status && !tenure_token_equal(&value.token, &swap->expect))
        status = TENURE_CONFLICT;
    tenure_value_free(&value);
    return status == TENURE_CONFLICT
               ? tenure_fail(err, TENURE_CONFLICT, "etcd: %s has changed", swap->key)
               : status;
}

enum tenure_status tn_etcd_repair(struct tn_etcd *h, struct tenure_swap *swap, int64_t deadline,
                                  struct tenure_error *err)
{
    struct tn_etcd_pair data = {0}, nonce = {0};
    enum tenure_status status = tn_etcd_look(h, swap->key, &data, &nonce, deadline, err);
    const struct tn_etcd_pair *mate = nonce.data ? &nonce : NULL;

    if (!status && nonce.key[0] && !mate)
        status = tenure_fail(err, TENURE_UNAVAILABLE, "etcd: the answer cannot be understood");
    if (!status)
        status = check(swap, &data, mate, err);
    if (!status)
        status = tn_etcd_commit(
            h, swap, tn_etcd_txn_if(h, swap, unchanged(h, swap->key, &data, mate)), deadline, err);
    free(data.data);
    free(nonce.data);
    return swap->status = status;
}
