/* zookeeper: - registers in a ZooKeeper ensemble: the table, opening and reading. */
#include "store/zookeeper/zookeeper.h"

#include <stdlib.h>
#include <string.h>

#include "store/open.h"

TENURE_API extern const struct tenure_store_ops *const tenure_store_module[];

static void zk_close(void *impl)
{
    struct tn_zk *h = impl;

    tn_watcher_free(&h->watcher);
    tn_zk_close(h);
    tn_url_free(&h->conf.remote.url);
    free(h);
}

static enum tenure_status configure(void *impl, const char *url, struct tenure_error *err)
{
    struct tn_zk *h = impl;

    h->cancel_fd = -1;
    tn_zk_watcher_init(h);
    return tn_zk_conf_parse(url, &h->conf, err);
}

static void send_nothing(struct tn_zk *h, struct tn_zk_call *calls, size_t n, const void *arg)
{
    (void)h, (void)calls, (void)n, (void)arg;
}

/* A server without a majority accepts the connection and ends it: its ensemble elects a leader. */
static enum tenure_status reach(void *impl, int64_t deadline, bool *unready,
                                struct tenure_error *err)
{
    struct tn_zk *h = impl;
    struct tn_zk_call barrier = {0};
    unsigned before = h->generation;
    enum tenure_status status = tn_zk_ask(h, &barrier, 1, send_nothing, NULL, deadline, err);

    *unready = h->conf.n_hosts > 1 && h->generation != before;
    return status;
}

static enum tenure_status zk_open(const char *url, int64_t deadline, void **impl,
                                  struct tenure_error *err)
{
    static const struct tn_opener opener = {sizeof(struct tn_zk), configure, reach, zk_close};

    return tn_open(&opener, url, deadline, impl, err);
}

static void zk_info(void *impl, struct tenure_store_info *info)
{
    (void)impl;
    info->scheme = "zookeeper";
    info->promise = "zookeeper: every change is agreed by a majority and kept on disk; it is lost "
                    "only with the majority, or by restoring a snapshot";
    info->notifies = true;
    info->shared = true;
    info->data_max = TN_ZK_DATA_MAX;
    info->batch_max = TN_ZK_BATCH_MAX;
    info->batch_bytes = 4u << 20;
}

static enum tenure_status zk_read(void *impl, const char *key, struct tenure_value *value,
                                  int64_t deadline, struct tenure_error *err)
{
    struct tn_zk *h = impl;

    return tn_raw_read_known(&tn_zk_raw, &h->watcher, key, h->conf.repair, value, deadline, err);
}

static void send_reads(struct tn_zk *h, struct tn_zk_call *calls, size_t n, const void *arg)
{
    const struct tenure_read *reads = arg;
    char path[TN_ZK_PATH];

    for (size_t i = 0; i < n; i++) {
        tn_zk_path(h, reads[i].key, path);
        tn_zk_get(h, path, &calls[i]);
    }
}

static enum tenure_status zk_read_many(void *impl, struct tenure_read *reads, size_t n,
                                       size_t *done, int64_t deadline, struct tenure_error *err)
{
    struct tn_zk *h = impl;
    struct tn_zk_call *calls;
    enum tenure_status status;

    *done = 0;
    if (h->conf.repair)
        return TENURE_OK; /* each is read by itself, as it is */
    if (n > TN_ZK_READS_MAX)
        n = TN_ZK_READS_MAX;
    calls = calloc(n + 1, sizeof *calls);
    if (!calls)
        return tenure_fail(err, TENURE_NOMEM, "zookeeper: out of memory");
    status = tn_zk_ask(h, calls, n + 1, send_reads, reads, deadline, err);
    for (*done = 0; *done < n && !status; ++*done) {
        struct tenure_read *r = &reads[*done];
        const struct tn_zk_call *call = &calls[1 + *done];

        r->status = call->rc == ZNONODE ? tenure_value_absent(&r->value, err)
                                        : tn_zk_decode(h, r->key, call, &r->value, err);
        if (!r->status)
            tn_watcher_learn(&h->watcher, r->key, &r->value.token);
        status = r->status == TENURE_CORRUPT ? TENURE_OK : r->status;
    }
    for (size_t i = 0; i <= n && i < TN_ZK_READS_MAX + 1; i++)
        tn_zk_call_free(&calls[i]);
    free(calls);
    return status;
}

static const struct tenure_store_ops zookeeper = {
    .options = tn_zk_options,
    .abi = TENURE_STORE_ABI,
    .scheme = "zookeeper",
    .open = zk_open,
    .close = zk_close,
    .info = zk_info,
    .read = zk_read,
    .swap = tn_zk_swap,
    .swap_many = tn_zk_swap_many,
    .wait = tn_watcher_wait,
    .list = tn_zk_list,
    .read_many = zk_read_many,
};

const struct tenure_store_ops *const tenure_store_module[] = {&zookeeper, NULL};
