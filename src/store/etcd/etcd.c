/* etcd: - registers in an etcd cluster: the table, opening and reading. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/etcd/etcd.h"
#include "store/etcd/news.h"
#include "store/open.h"

TENURE_API extern const struct tenure_store_ops *const tenure_store_module[];

/* ---- Life ---------------------------------------------------------------- */

static void etcd_close(void *impl)
{
    struct tn_etcd *h = impl;

    tn_watcher_free(&h->watcher);
    tn_http_free(h->http);
    tn_etcd_forget_token(h);
    tn_etcd_conf_free(&h->conf);
    free(h);
}

static enum tenure_status configure(void *impl, const char *url, struct tenure_error *err)
{
    struct tn_etcd *h = impl;
    enum tenure_status status = tn_etcd_conf_parse(url, &h->conf, err);

    if (status)
        return status;
    tn_etcd_watcher_init(h);
    h->http = tn_http_new(&h->conf.http);
    return h->http ? TENURE_OK : tenure_fail(err, TENURE_NOMEM, "etcd: out of memory");
}

/* In the middle of an election it serves nothing, for a second or so. */
static enum tenure_status reach(void *impl, int64_t deadline, bool *unready,
                                struct tenure_error *err)
{
    struct tn_etcd *h = impl;
    char mark[TENURE_VERSION_MAX + 1];
    json_t *answer = NULL;
    json_t *request = json_pack("{s:o, s:o, s:s, s:b}", "key", tn_etcd_key(h, "", ""), "range_end",
                                tn_etcd_key(h, "", "\xff"), "limit", "1", "keys_only", true);

    h->unready = false;
    enum tenure_status status =
        tn_etcd_call(h, "/v3/kv/range", request, false, deadline, &answer, NULL, err);
    *unready = h->unready;
    json_decref(request);
    if (!status && !tn_etcd_mark(answer, mark))
        status = tenure_fail(err, TENURE_CONFIG, "etcd: %s does not answer as etcd does",
                             h->conf.hosts[h->at]);
    json_decref(answer);
    return status;
}

static enum tenure_status etcd_open(const char *url, int64_t deadline, void **impl,
                                    struct tenure_error *err)
{
    static const struct tn_opener opener = {sizeof(struct tn_etcd), configure, reach, etcd_close};

    return tn_open(&opener, url, deadline, impl, err);
}

static void etcd_info(void *impl, struct tenure_store_info *info)
{
    struct tn_etcd *h = impl;

    info->scheme = h->conf.remote.url.scheme;
    info->promise = h->conf.http.blind
                        ? "etcd: agreed by a majority and kept on disk; WARNING: verify=none, "
                          "anybody may pose as the server"
                        : "etcd: every change is agreed by a majority and kept on disk; it is lost "
                          "only with the majority, or by restoring a snapshot";
    info->notifies = true;
    info->shared = true;
    info->batch_max = TN_ETCD_BATCH_MAX;
    info->batch_bytes = TN_ETCD_BATCH_BYTES;
}

/* ---- Reading ------------------------------------------------------------- */

static enum tenure_status check_header(const json_t *answer, struct tenure_error *err)
{
    char mark[TENURE_VERSION_MAX + 1];

    return tn_etcd_mark(answer, mark)
               ? TENURE_OK
               : tenure_fail(err, TENURE_UNAVAILABLE, "the answer has no header");
}

/* The pairs of a register in the answer to a range. */
static enum tenure_status take_pairs(struct tn_etcd *h, const char *key, const json_t *range,
                                     struct tn_etcd_pair *data, struct tn_etcd_pair *nonce,
                                     struct tenure_error *err)
{
    const json_t *kvs = json_object_get(range, "kvs"), *kv;
    bool broken = kvs && !json_is_array(kvs);
    size_t i;

    json_array_foreach(kvs, i, kv)
    {
        struct tn_etcd_pair pair;
        bool ours = tn_etcd_pair(h, kv, &pair);

        broken = broken || pair.broken;
        if (!ours || strcmp(pair.key, key) != 0) {
            free(pair.data);
            continue;
        }
        struct tn_etcd_pair *to = pair.nonce ? nonce : data;
        free(to->data);
        *to = pair;
    }
    if (broken || (data->key[0] && !data->data)) /* and that is never absence (C1) */
        return tenure_fail(err, TENURE_UNAVAILABLE, "the answer cannot be understood");
    return TENURE_OK;
}

/* What asks for both pairs of a register. */
static json_t *range_of(const struct tn_etcd *h, const char *key)
{
    return json_pack("{s:o, s:o}", "key", tn_etcd_key(h, key, ""), "range_end",
                     tn_etcd_key(h, key, "$"));
}

enum tenure_status tn_etcd_look(struct tn_etcd *h, const char *key, struct tn_etcd_pair *data,
                                struct tn_etcd_pair *nonce, int64_t deadline,
                                struct tenure_error *err)
{
    json_t *answer = NULL;
    json_t *request = range_of(h, key);
    enum tenure_status status =
        tn_etcd_call(h, "/v3/kv/range", request, false, deadline, &answer, NULL, err);

    json_decref(request);
    if (!status && !(status = check_header(answer, err)))
        status = take_pairs(h, key, answer, data, nonce, err);
    if (status && answer)
        tenure_fail_context(err, "etcd: %s%s", h->conf.base, key);
    json_decref(answer);
    return status;
}

static enum tenure_status etcd_read(void *impl, const char *key, struct tenure_value *value,
                                    int64_t deadline, struct tenure_error *err)
{
    struct tn_etcd *h = impl;

    return tn_raw_read_known(&tn_etcd_raw, &h->watcher, key, h->conf.repair, value, deadline, err);
}

/* One transaction of ranges, which shows one revision of all of them. */
static json_t *ranges_of(const struct tn_etcd *h, const struct tenure_read *reads, size_t n)
{
    json_t *all = json_array();

    for (size_t i = 0; i < n; i++) {
        json_t *one = json_pack("{s:o}", "requestRange", range_of(h, reads[i].key));

        if (!one || json_array_append_new(all, one)) {
            json_decref(all);
            return NULL;
        }
    }
    return json_pack("{s:o}", "success", all);
}

static enum tenure_status take_read(struct tn_etcd *h, const json_t *range,
                                    struct tenure_read *read, struct tenure_error *err)
{
    struct tn_etcd_pair data = {0}, nonce = {0};
    enum tenure_status status = take_pairs(h, read->key, range, &data, &nonce, err);

    if (!status)
        read->status = status =
            data.key[0] ? tn_etcd_decode(&data, nonce.data ? &nonce : NULL, &read->value, err)
                        : tenure_value_absent(&read->value, err);
    free(data.data);
    free(nonce.data);
    if (!status)
        tn_watcher_learn(&h->watcher, read->key, &read->value.token);
    return status == TENURE_CORRUPT ? TENURE_OK : status;
}

static enum tenure_status etcd_read_many(void *impl, struct tenure_read *reads, size_t n,
                                         size_t *done, int64_t deadline, struct tenure_error *err)
{
    struct tn_etcd *h = impl;
    size_t most = n < TN_ETCD_READS_MAX ? n : TN_ETCD_READS_MAX;
    json_t *request, *answer = NULL;
    enum tenure_status status;

    *done = 0;
    if (h->conf.repair)
        return TENURE_OK; /* each is read by itself, as it is */
    request = ranges_of(h, reads, most);
    status = tn_etcd_call(h, "/v3/kv/txn", request, false, deadline, &answer, NULL, err);
    json_decref(request);
    if (!status)
        status = check_header(answer, err);
    const json_t *responses = json_object_get(answer, "responses");
    if (!status && json_array_size(responses) != most)
        status = tenure_fail(err, TENURE_UNAVAILABLE, "etcd: the answer lacks a register");
    for (*done = 0; *done < most && !status; ++*done) {
        const json_t *one = json_array_get(responses, *done);

        one = json_object_get(one, "response_range");
        status = one ? take_read(h, one, &reads[*done], err)
                     : tenure_fail(err, TENURE_UNAVAILABLE, "etcd: the answer lacks a register");
    }
    json_decref(answer);
    return status;
}

#define TABLE(symbol, name)                                                                        \
    static const struct tenure_store_ops symbol = {                                                \
        .options = tn_etcd_options,                                                                \
        .abi = TENURE_STORE_ABI,                                                                   \
        .scheme = name,                                                                            \
        .open = etcd_open,                                                                         \
        .close = etcd_close,                                                                       \
        .info = etcd_info,                                                                         \
        .read = etcd_read,                                                                         \
        .swap = tn_etcd_swap,                                                                      \
        .swap_many = tn_etcd_swap_many,                                                            \
        .wait = tn_watcher_wait,                                                                   \
        .list = tn_etcd_list,                                                                      \
        .read_many = etcd_read_many,                                                               \
        .purge = tn_etcd_purge,                                                                    \
    }

TABLE(etcd, "etcd");
TABLE(etcds, "etcds");

const struct tenure_store_ops *const tenure_store_module[] = {&etcd, &etcds, NULL};
