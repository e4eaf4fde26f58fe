/*
 * Registers that are not what this store writes: foreign bytes, or a companion
 * that is missing or differs.  Everybody is told CORRUPT, but an operator who
 * repairs (repair=yes) reads one as it is: a line that quotes the companion, and the
 * bytes.  It is replaced by a transaction on the very revisions that were read (C2).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* The two pairs of a register. */
struct pairs {
    struct tn_etcd_pair data, nonce;
};

static const struct tn_etcd_pair *mate_of(const struct pairs *p)
{
    return p->nonce.data ? &p->nonce : NULL;
}

static void free_raw(void *raw)
{
    struct pairs *p = raw;

    free(p->data.data);
    free(p->nonce.data);
    free(p);
}

static enum tenure_status read_raw(void *impl, const char *key, int64_t deadline, void **raw,
                                   struct tenure_error *err)
{
    struct pairs *p = calloc(1, sizeof *p);
    enum tenure_status status = p ? tn_etcd_look(impl, key, &p->data, &p->nonce, deadline, err)
                                  : tenure_fail(err, TENURE_NOMEM, "etcd: out of memory");

    if (!status && p->data.key[0])
        *raw = p;
    else if (p)
        free_raw(p);
    return status;
}

static enum tenure_status decode(void *impl, const char *key, const void *raw,
                                 struct tenure_value *value, struct tenure_error *err)
{
    const struct tn_etcd *h = impl;
    const struct pairs *p = raw;
    enum tenure_status status = tn_etcd_decode(&p->data, mate_of(p), value, err);

    return status ? tenure_fail_context(err, "etcd: %s%s", h->conf.base, key) : TENURE_OK;
}

static enum tenure_status take_damaged(void *impl, const char *key, const void *raw,
                                       struct tenure_value *value, struct tenure_error *err)
{
    const struct pairs *p = raw;

    (void)impl;
    (void)key;
    if (p->nonce.key[0] && !p->nonce.data)
        return tenure_fail(err, TENURE_UNAVAILABLE, "etcd: the answer cannot be understood");
    return tn_etcd_take_damaged(&p->data, mate_of(p), value, err);
}

static enum tenure_status replace(void *impl, struct tenure_swap *swap, const void *raw,
                                  int64_t deadline, struct tenure_error *err)
{
    const struct pairs *p = raw;
    json_t *same = unchanged(impl, swap->key, &p->data, mate_of(p));

    return tn_etcd_commit(impl, swap, tn_etcd_txn_if(impl, swap, same), deadline, err);
}

const struct tn_raw_ops tn_etcd_raw = {read_raw, free_raw, decode, take_damaged, replace};
