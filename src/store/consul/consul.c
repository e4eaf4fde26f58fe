/* consul: - registers in Consul's key-value store: the table, opening and reading. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/consul/consul.h"
#include "store/open.h"

TENURE_API extern const struct tenure_store_ops *const tenure_store_module[];

/* ---- Life ---------------------------------------------------------------- */

static void consul_close(void *impl)
{
    struct tn_consul *h = impl;

    tn_watcher_free(&h->watcher);
    tn_http_free(h->http);
    tn_consul_conf_free(&h->conf);
    free(h);
}

static enum tenure_status configure(void *impl, const char *url, struct tenure_error *err)
{
    struct tn_consul *h = impl;
    enum tenure_status status = tn_consul_conf_parse(url, &h->conf, err);

    if (status)
        return status;
    tn_consul_watcher_init(h);
    h->http = tn_http_new(&h->conf.http);
    return h->http ? TENURE_OK : tenure_fail(err, TENURE_NOMEM, "consul: out of memory");
}

/* In the middle of an election it serves nothing, for a few seconds. */
static enum tenure_status reach(void *impl, int64_t deadline, bool *unready,
                                struct tenure_error *err)
{
    static const char *const probe[] = {"probe"};
    struct tn_consul *h = impl;
    json_t *answer = NULL;
    enum tenure_status status;

    h->unready = false;
    status = tn_consul_fetch(h, probe, 1, deadline, &answer, err);
    *unready = h->unready;
    json_decref(answer);
    return status;
}

static enum tenure_status consul_open(const char *url, int64_t deadline, void **impl,
                                      struct tenure_error *err)
{
    static const struct tn_opener opener = {sizeof(struct tn_consul), configure, reach,
                                            consul_close};

    return tn_open(&opener, url, deadline, impl, err);
}

static void consul_info(void *impl, struct tenure_store_info *info)
{
    struct tn_consul *h = impl;

    info->scheme = h->conf.remote.url.scheme;
    info->promise = h->conf.http.blind
                        ? "Consul: agreed by a majority and kept on disk; WARNING: verify=none, "
                          "anybody may pose as the server"
                        : "Consul: every change is agreed by a majority and kept on disk; it is "
                          "lost only with the majority, or by restoring a snapshot; an agent "
                          "started with -dev keeps nothing";
    info->notifies = true;
    info->shared = true;
    info->data_max = TN_CONSUL_DATA_MAX;
    info->batch_max = TN_CONSUL_BATCH_MAX;
    info->batch_bytes = TN_CONSUL_BATCH_BYTES;
}

/* ---- Reading ------------------------------------------------------------- */

/* One operation on the name of each key, behind which stands suffix.  NULL: no memory. */
static json_t *ops_of(struct tn_consul *h, const char *verb, const char *const *keys, size_t n,
                      const char *suffix, const char *index)
{
    json_t *ops = json_array();
    char name[TN_CONSUL_NAME_MAX];

    for (size_t i = 0; ops && i < n; i++) {
        tn_consul_name(h, keys[i], suffix, name);
        if (!tn_consul_op(ops, verb, name, index)) {
            json_decref(ops);
            return NULL;
        }
    }
    return ops;
}

/*
 * A tree that the token may not read looks like one that is not there.  A check of an index tells
 * the two apart: it is refused in another way when the key is missing.
 */
static enum tenure_status check_rights(struct tn_consul *h, const char *const *keys, size_t n,
                                       int64_t deadline, struct tenure_error *err)
{
    struct tn_consul_verdict v;
    json_t *ops = ops_of(h, "check-index", keys, n, "#", "1");
    enum tenure_status status = tn_consul_txn(h, ops, false, deadline, &v, err);

    json_decref(v.answer);
    return status;
}

enum tenure_status tn_consul_fetch(struct tn_consul *h, const char *const *keys, size_t n,
                                   int64_t deadline, json_t **answer, struct tenure_error *err)
{
    const char *absent[TN_CONSUL_READS_MAX];
    size_t n_absent = 0;
    struct tn_consul_verdict v;
    json_t *ops = ops_of(h, "get-tree", keys, n, "", NULL);
    enum tenure_status status = tn_consul_txn(h, ops, false, deadline, &v, err);

    if (!status && v.refused)
        status = tenure_fail(err, TENURE_UNAVAILABLE, "consul: %s refused to read",
                             h->conf.hosts[h->at]);
    for (size_t i = 0; !status && i < n; i++) {
        struct tn_consul_register r = tn_consul_gather(h, v.answer, keys[i]);

        if (!r.anchor)
            absent[n_absent++] = keys[i];
    }
    if (!status && n_absent)
        status = check_rights(h, absent, n_absent, deadline, err);
    if (status)
        json_decref(v.answer);
    else
        *answer = v.answer;
    return status;
}

static enum tenure_status consul_read(void *impl, const char *key, struct tenure_value *value,
                                      int64_t deadline, struct tenure_error *err)
{
    struct tn_consul *h = impl;

    return tn_raw_read_known(&tn_consul_raw, &h->watcher, key, h->conf.repair, value, deadline,
                             err);
}

static enum tenure_status consul_read_many(void *impl, struct tenure_read *reads, size_t n,
                                           size_t *done, int64_t deadline, struct tenure_error *err)
{
    struct tn_consul *h = impl;
    const char *keys[TN_CONSUL_READS_MAX] = {NULL};
    size_t most = n < TN_CONSUL_READS_MAX ? n : TN_CONSUL_READS_MAX;
    json_t *answer = NULL;
    enum tenure_status status;

    *done = 0;
    if (h->conf.repair)
        return TENURE_OK; /* each is read by itself, as it is */
    for (size_t i = 0; i < most; i++)
        keys[i] = reads[i].key;
    status = tn_consul_fetch(h, keys, most, deadline, &answer, err);
    for (*done = 0; *done < most && !status; ++*done) {
        struct tenure_read *one = &reads[*done];
        struct tn_consul_register r = tn_consul_gather(h, answer, one->key);

        status = one->status = tn_consul_decode(h, one->key, &r, &one->value, err);
        if (!status)
            tn_watcher_learn(&h->watcher, one->key, &one->value.token);
        if (status == TENURE_CORRUPT)
            status = TENURE_OK;
    }
    json_decref(answer);
    return status;
}

#define TABLE(symbol, name)                                                                        \
    static const struct tenure_store_ops symbol = {                                                \
        .options = tn_consul_options,                                                              \
        .abi = TENURE_STORE_ABI,                                                                   \
        .scheme = name,                                                                            \
        .open = consul_open,                                                                       \
        .close = consul_close,                                                                     \
        .info = consul_info,                                                                       \
        .read = consul_read,                                                                       \
        .swap = tn_consul_swap,                                                                    \
        .swap_many = tn_consul_swap_many,                                                          \
        .wait = tn_watcher_wait,                                                                   \
        .list = tn_consul_list,                                                                    \
        .read_many = consul_read_many,                                                             \
    }

TABLE(consul, "consul");
TABLE(consuls, "consuls");

const struct tenure_store_ops *const tenure_store_module[] = {&consul, &consuls, NULL};
