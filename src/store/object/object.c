/* s3: - registers in a bucket: the tables, opening and reading. */
#include <stdlib.h>
#include <string.h>

#include "store/object/object.h"
#include "store/open.h"

TENURE_API extern const struct tenure_store_ops *const tenure_store_module[];

/* ---- Life ---------------------------------------------------------------- */

static void object_close(void *impl)
{
    struct tn_object *h = impl;

    tn_watcher_free(&h->watcher);
    tn_http_free(h->http);
    tn_http_free(h->several);
    if (h->vendor)
        h->vendor->free(h);
    tn_object_conf_free(&h->conf);
    free(h);
}

static enum tenure_status configure(struct tn_object *h, const struct tn_object_vendor *vendor,
                                    const struct tn_option *options, const char *url,
                                    struct tenure_error *err)
{
    enum tenure_status status = tn_object_conf_parse(url, options, &h->conf, err);

    if (status)
        return status;
    h->vendor = vendor;
    tn_object_watcher_init(h);
    return vendor->configure(h, err);
}

static enum tenure_status reach(void *impl, int64_t deadline, bool *unready,
                                struct tenure_error *err)
{
    struct tn_object *h = impl;
    enum tenure_status status;

    h->unready = false;
    status = tn_object_probe(h, deadline, err);
    *unready = h->unready;
    return status;
}

static void object_info(void *impl, struct tenure_store_info *info)
{
    struct tn_object *h = impl;

    info->scheme = h->vendor->scheme;
    info->promise = h->conf.http.blind ? h->vendor->blind_promise : h->vendor->promise;
    info->notifies = false;
    info->shared = true;
    info->batch_max = TN_OBJECT_CALLS;
    info->poll_ms = (uint32_t)(h->conf.poll_ns / 1000000);
    if (!h->conf.endpoint) {
        info->swap_price = h->vendor->swap_price;
        info->read_price = h->vendor->read_price;
    }
}

/* ---- Reading ------------------------------------------------------------- */

static enum tenure_status object_read(void *impl, const char *key, struct tenure_value *value,
                                      int64_t deadline, struct tenure_error *err)
{
    struct tn_object *h = impl;

    return tn_raw_read_known(&tn_object_raw, &h->watcher, key, h->conf.repair, value, deadline,
                             err);
}

static enum tenure_status take_read(struct tn_object *h, const struct tn_object_exchange *x,
                                    struct tenure_read *read, struct tenure_error *err)
{
    if (x->status) {
        *err = x->err;
        return x->status;
    }
    read->status = x->outcome == TN_OBJECT_DONE ? tn_object_decode(x, &read->value, err)
                                                : tenure_value_absent(&read->value, err);
    if (!read->status)
        tn_watcher_learn(&h->watcher, read->key, &read->value.token);
    return read->status == TENURE_CORRUPT ? TENURE_OK : read->status;
}

static enum tenure_status object_read_many(void *impl, struct tenure_read *reads, size_t n,
                                           size_t *done, int64_t deadline, struct tenure_error *err)
{
    struct tn_object *h = impl;
    struct tn_object_exchange xs[TN_OBJECT_CALLS] = {0};
    size_t most = n < TN_OBJECT_CALLS ? n : TN_OBJECT_CALLS;
    enum tenure_status status = TENURE_OK;

    *done = 0;
    if (h->conf.repair)
        return TENURE_OK; /* each is read by itself, as it is */
    for (size_t i = 0; i < most; i++) {
        xs[i].verb = TN_OBJECT_GET;
        tn_object_name(h, reads[i].key, &xs[i]);
    }
    tn_object_send(h, xs, most, deadline);
    for (*done = 0; *done < most && !status; ++*done)
        status = take_read(h, &xs[*done], &reads[*done], err);
    tn_object_release(xs, most);
    return status;
}

/* ---- Tables -------------------------------------------------------------- */

#define TABLE(symbol, name, vendor, rows)                                                          \
    static enum tenure_status symbol##_configure(void *impl, const char *url,                      \
                                                 struct tenure_error *err)                         \
    {                                                                                              \
        return configure(impl, &vendor, rows, url, err);                                           \
    }                                                                                              \
    static enum tenure_status symbol##_open(const char *url, int64_t deadline, void **impl,        \
                                            struct tenure_error *err)                              \
    {                                                                                              \
        static const struct tn_opener opener = {sizeof(struct tn_object), symbol##_configure,      \
                                                reach, object_close};                              \
                                                                                                   \
        return tn_open(&opener, url, deadline, impl, err);                                         \
    }                                                                                              \
    static const struct tenure_store_ops symbol = {                                                \
        .options = rows,                                                                           \
        .abi = TENURE_STORE_ABI,                                                                   \
        .scheme = name,                                                                            \
        .open = symbol##_open,                                                                     \
        .close = object_close,                                                                     \
        .info = object_info,                                                                       \
        .read = object_read,                                                                       \
        .swap = tn_object_swap,                                                                    \
        .swap_many = tn_object_swap_many,                                                          \
        .wait = tn_watcher_wait,                                                                   \
        .list = tn_object_list,                                                                    \
        .read_many = object_read_many,                                                             \
    }

TABLE(s3, "s3", tn_s3, tn_s3_options);
TABLE(azblob, "azblob", tn_azure, tn_azure_options);

const struct tenure_store_ops *const tenure_store_module[] = {&s3, &azblob, NULL};
