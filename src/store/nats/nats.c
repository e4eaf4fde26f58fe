/* nats: - registers in a bucket of JetStream: the table, opening and reading. */
#include "store/nats/nats.h"

#include <stdlib.h>
#include <string.h>

#include "store/open.h"

TENURE_API extern const struct tenure_store_ops *const tenure_store_module[];

/* ---- Life ---------------------------------------------------------------- */

static void nats_close(void *impl)
{
    struct tn_nats *h = impl;

    tn_watcher_free(&h->watcher);
    tn_nats_drop(h);
    tn_url_free(&h->conf.remote.url);
    free(h);
}

static enum tenure_status configure(void *impl, const char *url, struct tenure_error *err)
{
    struct tn_nats *h = impl;

    h->cancel_fd = -1;
    tn_nats_watcher_init(h);
    return tn_nats_conf_parse(url, &h->conf, err);
}

static void send_nothing(struct tn_nats *h, struct tn_nats_call *calls, size_t n, const void *arg)
{
    (void)h, (void)calls, (void)n, (void)arg;
}

/* A cluster elects leaders for JetStream as a whole, and for each bucket. */
static enum tenure_status reach(void *impl, int64_t deadline, bool *unready,
                                struct tenure_error *err)
{
    struct tn_nats *h = impl;
    enum tenure_status status;

    h->unready = false;
    status = tn_nats_ask(h, NULL, 0, send_nothing, NULL, deadline, err);
    *unready = h->unready || (h->conf.n_hosts > 1 && status == TENURE_UNAVAILABLE);
    return status;
}

static enum tenure_status nats_open(const char *url, int64_t deadline, void **impl,
                                    struct tenure_error *err)
{
    static const struct tn_opener opener = {sizeof(struct tn_nats), configure, reach, nats_close};

    return tn_open(&opener, url, deadline, impl, err);
}

static void nats_info(void *impl, struct tenure_store_info *info)
{
    struct tn_nats *h = impl;

    info->scheme = h->conf.remote.url.scheme;
    if (h->conf.remote.blind)
        info->promise = "NATS: kept by JetStream; WARNING: verify=none, anybody may pose as the "
                        "server";
    else if (h->replicas > 1)
        info->promise =
            "NATS: every change is agreed by a majority of the bucket's replicas; it is "
            "lost only with the majority, or by restoring the bucket";
    else
        info->promise = "NATS: one server keeps the bucket; it is lost with its disk, or by "
                        "restoring the bucket";
    if (h->in_memory)
        info->weakness = "the bucket is in the servers' memory: a restart forgets it";
    else if (!h->conf.synced)
        info->weakness = TN_NATS_SYNC_TEXT;
    info->notifies = true;
    info->shared = true;
    info->data_max = h->data_max;
    info->batch_max = TN_NATS_BATCH_MAX;
    info->batch_bytes = 4u << 20;
}

/* ---- Reading ------------------------------------------------------------- */

static enum tenure_status nats_read(void *impl, const char *key, struct tenure_value *value,
                                    int64_t deadline, struct tenure_error *err)
{
    struct tn_nats *h = impl;

    return tn_raw_read_known(&tn_nats_raw, &h->watcher, key, h->conf.repair, value, deadline, err);
}

static void send_reads(struct tn_nats *h, struct tn_nats_call *calls, size_t n, const void *arg)
{
    const struct tenure_read *reads = arg;
    char subject[TN_NATS_SUBJECT];

    for (size_t i = 0; i < n; i++) {
        tn_nats_subject(h, reads[i].key, subject);
        tn_nats_send_last(h, &calls[i], subject);
    }
}

static enum tenure_status take_read(struct tn_nats *h, const struct tn_nats_call *call,
                                    struct tenure_read *r, struct tenure_error *err)
{
    struct tn_nats_message message;

    r->status = tn_nats_message(h, call, &message, err);
    if (!r->status)
        r->status = tn_nats_decode(r->key, &message, &r->value, err);
    if (!r->status)
        tn_watcher_learn(&h->watcher, r->key, &r->value.token);
    tn_nats_message_free(&message);
    return r->status == TENURE_CORRUPT ? TENURE_OK : r->status;
}

static enum tenure_status nats_read_many(void *impl, struct tenure_read *reads, size_t n,
                                         size_t *done, int64_t deadline, struct tenure_error *err)
{
    struct tn_nats *h = impl;
    struct tn_nats_call calls[TN_NATS_READS_MAX] = {0};
    enum tenure_status status;

    *done = 0;
    if (h->conf.repair)
        return TENURE_OK; /* each is read by itself, as it is */
    if (n > TN_NATS_READS_MAX)
        n = TN_NATS_READS_MAX;
    status = tn_nats_ask(h, calls, n, send_reads, reads, deadline, err);
    for (*done = 0; *done < n && !status; ++*done)
        status = take_read(h, &calls[*done], &reads[*done], err);
    for (size_t i = 0; i < n; i++)
        tn_nats_call_free(&calls[i]);
    return status;
}

/* ---- The table ----------------------------------------------------------- */

#define OPS(name)                                                                                  \
    {                                                                                              \
        .options = tn_nats_options, .abi = TENURE_STORE_ABI, .scheme = name, .open = nats_open,    \
        .close = nats_close, .info = nats_info, .read = nats_read, .swap = tn_nats_swap,           \
        .swap_many = tn_nats_swap_many, .wait = tn_watcher_wait, .list = tn_nats_list,             \
        .read_many = nats_read_many,                                                               \
    }
static const struct tenure_store_ops plain = OPS("nats"), tls = OPS("natss");

const struct tenure_store_ops *const tenure_store_module[] = {&plain, &tls, NULL};
