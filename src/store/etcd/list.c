/* Listings: pages of etcd's own order. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/etcd/etcd.h"
#include "store/pager.h"

#define PAGE_FIRST 64 /* pairs; a register is two */
#define PAGE_MAX   2048
#define SMALL      4096 /* bytes of a pair: pages of such may grow */

struct listing {
    struct tn_pager pager;
    char from[TENURE_KEY_MAX + 2];
    unsigned page;
};

/* A register of a page; its nonce may be NULL. */
struct row {
    const struct tn_etcd_pair *data, *nonce;
};

static json_t *page_request(struct tn_etcd *h, const struct listing *l)
{
    char limit[12];

    snprintf(limit, sizeof limit, "%u", l->page);
    /* No key holds a byte as high as that. */
    return json_pack("{s:o, s:o, s:s}", "key", tn_etcd_key(h, l->from, ""), "range_end",
                     tn_etcd_key(h, l->pager.prefix, "\x7f"), "limit", limit);
}

static enum tenure_status decode(struct tn_pager *p, const char *key, const void *row,
                                 struct tenure_error *err)
{
    const struct tn_etcd *h = p->impl;
    const struct row *r = row;
    enum tenure_status status = tn_etcd_decode(r->data, r->nonce, &p->value, err);

    if (status == TENURE_CORRUPT)
        tenure_fail_context(err, "etcd: %s%s", h->conf.base, key);
    return status;
}

static enum tenure_status take_damaged(struct tn_pager *p, const char *key, const void *row,
                                       struct tenure_error *err)
{
    const struct row *r = row;

    (void)key;
    return tn_etcd_take_damaged(r->data, r->nonce, &p->value, err);
}

static enum tenure_status show(struct listing *l, const struct tn_etcd_pair *data,
                               const struct tn_etcd_pair *nonce, struct tenure_error *err)
{
    const struct row row = {data, nonce};

    return tn_pager_show(&l->pager, data->key, &row, err);
}

/* Pairs come in order: a register, then its nonce.  One whose nonce is not in
 * this page is where the next page begins. */
static enum tenure_status show_page(struct listing *l, const json_t *kvs, size_t *bytes,
                                    struct tenure_error *err)
{
    const struct tn_etcd *h = l->pager.impl;
    struct tn_etcd_pair data = {0}, pair;
    enum tenure_status status = TENURE_OK;
    const json_t *kv;
    size_t i;

    json_array_foreach(kvs, i, kv)
    {
        if (status || l->pager.stop)
            break;
        if (!tn_etcd_pair(h, kv, &pair) && !pair.broken)
            continue; /* somebody else's */
        if (!pair.data) {
            status = tenure_fail(err, TENURE_UNAVAILABLE, "etcd: %s%s cannot be understood",
                                 h->conf.base, pair.key);
            break;
        }
        *bytes += pair.len;
        bool mates = data.data && pair.nonce && strcmp(data.key, pair.key) == 0;
        if (data.data)
            status = show(l, &data, mates ? &pair : NULL, err);
        free(data.data);
        data = pair;
        if (pair.nonce) { /* shown, or an orphan */
            snprintf(l->from, sizeof l->from, "%s$", pair.key);
            free(data.data);
            data.data = NULL;
        }
    }
    if (data.data && !status && !l->pager.stop) {
        if (l->pager.more && strcmp(l->from, data.key) != 0)
            snprintf(l->from, sizeof l->from, "%s", data.key);
        else
            status = show(l, &data, NULL, err);
    }
    free(data.data);
    return status;
}

static enum tenure_status list_page(struct tn_pager *p, struct tenure_error *err)
{
    struct listing *l = (struct listing *)p; /* the pager is its first member */
    struct tn_etcd *h = p->impl;
    json_t *request = page_request(h, l), *answer = NULL;
    const json_t *kvs;
    char mark[TENURE_VERSION_MAX + 1];
    size_t bytes = 0;
    enum tenure_status status =
        tn_etcd_call(h, "/v3/kv/range", request, false, p->deadline, &answer, NULL, err);

    json_decref(request);
    if (status)
        return status;
    kvs = json_object_get(answer, "kvs");
    if (!tn_etcd_mark(answer, mark) || (kvs && !json_is_array(kvs))) {
        json_decref(answer);
        return tenure_fail(err, TENURE_UNAVAILABLE, "etcd: the listing cannot be understood");
    }
    if (p->mark)
        memcpy(p->mark, mark, sizeof mark);
    p->mark = NULL;
    p->more = json_is_true(json_object_get(answer, "more")) && json_array_size(kvs);
    status = show_page(l, kvs, &bytes, err);
    if (bytes < json_array_size(kvs) * SMALL && l->page < PAGE_MAX)
        l->page *= 2;
    else if (bytes >= json_array_size(kvs) * SMALL)
        l->page = PAGE_FIRST;
    json_decref(answer);
    return status;
}

enum tenure_status tn_etcd_list(void *impl, const char *prefix, const char *after,
                                tenure_visit_fn visit, void *arg, char mark[TENURE_VERSION_MAX + 1],
                                int64_t deadline, struct tenure_error *err)
{
    static const struct tn_pager_ops ops = {list_page, decode, take_damaged};
    struct tn_etcd *h = impl;
    struct listing l = {.page = PAGE_FIRST};

    /* Behind a key and its nonce stands nothing below '$'. */
    if (after && strcmp(after, prefix) >= 0)
        snprintf(l.from, sizeof l.from, "%s$", after);
    else
        snprintf(l.from, sizeof l.from, "%s", prefix);
    return tn_pager_list(&l.pager, &ops, impl, h->conf.repair, prefix, after, visit, arg, mark,
                         deadline, err);
}
