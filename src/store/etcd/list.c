/* Listings: pages of etcd's own order. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/damaged.h"
#include "store/etcd/etcd.h"

#define PAGE_FIRST 64 /* pairs; a register is two */
#define PAGE_MAX   2048
#define SMALL      4096 /* bytes of a pair: pages of such may grow */

struct listing {
    const char *prefix;
    tenure_visit_fn visit;
    void *arg;
    char *mark; /* NULL once it is known, or not wanted */
    char from[TENURE_KEY_MAX + 2];
    unsigned page;
    bool more, stop;
};

static json_t *page_request(struct tn_etcd *h, const struct listing *l)
{
    char limit[12];

    snprintf(limit, sizeof limit, "%u", l->page);
    /* No key holds a byte as high as that. */
    return json_pack("{s:o, s:o, s:s}", "key", tn_etcd_key(h, l->from, ""), "range_end",
                     tn_etcd_key(h, l->prefix, "\x7f"), "limit", limit);
}

static enum tenure_status show(struct tn_etcd *h, struct listing *l,
                               const struct tn_etcd_pair *data, const struct tn_etcd_pair *nonce,
                               struct tenure_value *value, struct tenure_error *err)
{
    enum tenure_status status = tn_etcd_decode(data, nonce, value, err);

    /* What is no register does not end the listing; read() tells why. */
    if (status == TENURE_CORRUPT) {
        tenure_fail_context(err, "etcd: %s%s", h->conf.base, data->key);
        struct tenure_error why = *err;
        status = tn_etcd_take_damaged(data, nonce, value, err);
        if (!status && !h->conf.repair)
            status = tn_damaged_listed(value, &why, err);
    }
    if (status)
        return status;
    l->stop = !l->visit(l->arg, data->key, value);
    return TENURE_OK;
}

/* Pairs come in order: a register, then its nonce.  One whose nonce is not in
 * this page is where the next page begins. */
static enum tenure_status take_page(struct tn_etcd *h, struct listing *l, const json_t *kvs,
                                    struct tenure_value *value, size_t *bytes,
                                    struct tenure_error *err)
{
    struct tn_etcd_pair data = {0}, pair;
    enum tenure_status status = TENURE_OK;
    const json_t *kv;
    size_t i;

    json_array_foreach(kvs, i, kv)
    {
        if (status || l->stop)
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
            status = show(h, l, &data, mates ? &pair : NULL, value, err);
        free(data.data);
        data = pair;
        if (pair.nonce) { /* shown, or an orphan */
            snprintf(l->from, sizeof l->from, "%s$", pair.key);
            free(data.data);
            data.data = NULL;
        }
    }
    if (data.data && !status && !l->stop) {
        if (l->more && strcmp(l->from, data.key) != 0)
            snprintf(l->from, sizeof l->from, "%s", data.key);
        else
            status = show(h, l, &data, NULL, value, err);
    }
    free(data.data);
    return status;
}

static enum tenure_status list_page(struct tn_etcd *h, struct listing *l,
                                    struct tenure_value *value, int64_t deadline,
                                    struct tenure_error *err)
{
    json_t *request = page_request(h, l), *answer = NULL;
    const json_t *kvs;
    char mark[TENURE_VERSION_MAX + 1];
    size_t bytes = 0;
    enum tenure_status status =
        tn_etcd_call(h, "/v3/kv/range", request, false, deadline, &answer, NULL, err);

    json_decref(request);
    if (status)
        return status;
    kvs = json_object_get(answer, "kvs");
    if (!tn_etcd_mark(answer, mark) || (kvs && !json_is_array(kvs))) {
        json_decref(answer);
        return tenure_fail(err, TENURE_UNAVAILABLE, "etcd: the listing cannot be understood");
    }
    if (l->mark)
        memcpy(l->mark, mark, sizeof mark);
    l->mark = NULL;
    l->more = json_is_true(json_object_get(answer, "more")) && json_array_size(kvs);
    status = take_page(h, l, kvs, value, &bytes, err);
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
    struct listing l = {
        .prefix = prefix, .visit = visit, .arg = arg, .mark = mark, .page = PAGE_FIRST};
    struct tenure_value value = {0};
    enum tenure_status status;

    /* Behind a key and its nonce stands nothing below '$'. */
    if (after && strcmp(after, prefix) >= 0)
        snprintf(l.from, sizeof l.from, "%s$", after);
    else
        snprintf(l.from, sizeof l.from, "%s", prefix);
    do {
        status = list_page(impl, &l, &value, deadline, err);
    } while (!status && l.more && !l.stop);
    tenure_value_free(&value);
    return status;
}
