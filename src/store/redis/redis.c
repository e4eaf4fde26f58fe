/*
 * redis: - registers in a Redis server, a Sentinel set or a cluster.
 *
 * The table of functions.  What runs in the server is script.c, the way
 * there server.c, changes swap.c, listings list.c, and news
 * of changes wait.c.
 */
#include "store/redis/redis.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/open.h"
#include "store/redis/ops.h"
#include "store/redis/server.h"
#include "store/redis/wait.h"

/* ---- Life ---------------------------------------------------------------- */

static void redis_close(void *impl)
{
    struct tn_redis *h = impl;

    tn_redis_drop(h);
    tn_redis_drop_setup(h);
    tn_watcher_free(&h->watcher);
    tn_redis_sentinels_close(&h->sentinels);
    tn_redis_conf_free(&h->conf);
    free(h);
}

static enum tenure_status configure(void *impl, const char *url, struct tenure_error *err)
{
    struct tn_redis *h = impl;
    enum tenure_status status = tn_redis_conf_parse(url, &h->conf, err);

    if (status)
        return status;
    tn_redis_sentinels_init(&h->sentinels, &h->conf);
    tn_redis_watcher_init(h);
    snprintf(h->registers, sizeof h->registers, "{%s}:k:", h->conf.prefix);
    snprintf(h->seq, sizeof h->seq, "{%s}:seq", h->conf.prefix);
    snprintf(h->index, sizeof h->index, "{%s}:index", h->conf.prefix);
    snprintf(h->log, sizeof h->log, "{%s}:log", h->conf.prefix);
    snprintf(h->sync, sizeof h->sync, "{%s}:sync", h->conf.prefix);
    return TENURE_OK;
}

/* After a restart it takes a while to read its own data. */
static enum tenure_status reach(void *impl, int64_t deadline, bool *unready,
                                struct tenure_error *err)
{
    struct tn_redis *h = impl;
    enum tenure_status status;

    h->loading = false;
    status = tn_redis_ready(h, deadline, err);
    *unready = status && h->loading;
    return status;
}

static enum tenure_status redis_open(const char *url, int64_t deadline, void **impl,
                                     struct tenure_error *err)
{
    static const struct tn_opener opener = {sizeof(struct tn_redis), configure, reach, redis_close};

    return tn_open(&opener, url, deadline, impl, err);
}

static void redis_info(void *impl, struct tenure_store_info *info)
{
    struct tn_redis *h = impl;

    info->scheme = h->conf.remote.url.scheme;
    info->promise = h->promise;
    info->weakness = h->no_log ? "Redis keeps no append-only file: a restart of it may forget "
                                 "everything; set appendonly yes"
                               : NULL;
    info->notifies = true;
    info->shared = true;
    info->batch_max = TN_REDIS_BATCH_MAX;
    info->batch_bytes = TN_REDIS_BATCH_BYTES;
}

/* ---- Reading ------------------------------------------------------------- */

static enum tenure_status take_value(struct tn_redis *h, const redisReply *r,
                                     struct tenure_value *value, struct tenure_error *err)
{
    if (r->type == REDIS_REPLY_STRING)
        return tn_redis_decode(r->str, (size_t)r->len, h->timeline, value, err);
    if (r->type != REDIS_REPLY_NIL)
        return tenure_fail(err, TENURE_UNAVAILABLE, "the server answered with something else");
    return tenure_value_absent(value, err);
}

static enum tenure_status redis_read(void *impl, const char *key, struct tenure_value *value,
                                     int64_t deadline, struct tenure_error *err)
{
    struct tn_redis *h = impl;
    char name[TN_REDIS_NAME_MAX];
    redisReply *reply = NULL;

    if (h->conf.repair)
        return tn_redis_repair_read(h, key, value, deadline, err);
    snprintf(name, sizeof name, "%s%s", h->registers, key);
    enum tenure_status status = tn_redis_fetch(
        h, TN_REDIS_READ, name, TENURE_DATA_MAX + TN_REDIS_HEAD_MAX, deadline, &reply, err);
    if (status == TENURE_CORRUPT)
        tenure_fail_context(err, "%s", name);
    if (status)
        return status;
    status = take_value(h, reply, value, err);
    if (status)
        tenure_fail_context(err, "redis: %s", name);
    else
        tn_watcher_learn(&h->watcher, key, &value->token);
    freeReplyObject(reply);
    return status;
}

/* The answer is as long as the reads that it is for, or shorter. */
static enum tenure_status take_reads(struct tn_redis *h, const redisReply *r,
                                     struct tenure_read *reads, size_t n, size_t *done,
                                     struct tenure_error *err)
{
    enum tenure_status status = TENURE_OK;

    if (r->type != REDIS_REPLY_ARRAY || r->elements == 0 || r->elements > n)
        return tenure_fail(err, TENURE_UNAVAILABLE, "redis: the script's answer is not ours");
    for (*done = 0; *done < r->elements && !status; ++*done) {
        struct tenure_read *read = &reads[*done];

        read->status = take_value(h, r->element[*done], &read->value, err);
        status = read->status == TENURE_CORRUPT ? TENURE_OK : read->status;
        if (!read->status)
            tn_watcher_learn(&h->watcher, read->key, &read->value.token);
    }
    return status;
}

/* The arguments of TN_REDIS_READ_MANY; the names are written to `names`. */
static void compose_reads(const struct tn_redis *h, const struct tenure_read *reads, size_t n,
                          char (*names)[TN_REDIS_NAME_MAX], struct tn_redis_args *args,
                          char count[12], char limit[12])
{
    snprintf(count, 12, "%zu", n + 2);
    snprintf(limit, 12, "%u", TENURE_DATA_MAX + TN_REDIS_HEAD_MAX);
    tn_redis_args_text(args, count);
    tn_redis_args_text(args, h->seq);
    tn_redis_args_text(args, h->sync);
    for (size_t i = 0; i < n; i++) {
        snprintf(names[i], TN_REDIS_NAME_MAX, "%s%s", h->registers, reads[i].key);
        tn_redis_args_text(args, names[i]);
    }
    tn_redis_args_text(args, h->conf.replicas ? "1" : "0");
    tn_redis_args_text(args, limit);
}

static enum tenure_status redis_read_many(void *impl, struct tenure_read *reads, size_t n,
                                          size_t *done, int64_t deadline, struct tenure_error *err)
{
    struct tn_redis *h = impl;
    size_t most = n < TN_REDIS_BATCH_MAX ? n : TN_REDIS_BATCH_MAX;
    char(*names)[TN_REDIS_NAME_MAX];
    struct tn_redis_args args = {0};
    char count[12], limit[12];
    redisReply *reply = NULL;
    enum tenure_status status;

    *done = 0;
    if (h->conf.repair)
        return TENURE_OK; /* each is read by itself, as it is */
    names = malloc(most * sizeof *names);
    if (!names || !tn_redis_args_init(&args, (int)most + 5)) {
        free(names);
        return tenure_fail(err, TENURE_NOMEM, "redis: out of memory for %zu reads", most);
    }
    compose_reads(h, reads, most, names, &args, count, limit);
    status = tn_redis_ask(h, TN_REDIS_READ_MANY, &args, deadline, &reply, err);
    if (!status)
        status = take_reads(h, reply, reads, most, done, err);
    freeReplyObject(reply);
    tn_redis_args_free(&args);
    free(names);
    return status;
}

#define TABLE(symbol, name)                                                                        \
    const struct tenure_store_ops symbol = {                                                       \
        .options = tn_redis_options,                                                               \
        .abi = TENURE_STORE_ABI,                                                                   \
        .scheme = name,                                                                            \
        .open = redis_open,                                                                        \
        .close = redis_close,                                                                      \
        .info = redis_info,                                                                        \
        .read = redis_read,                                                                        \
        .swap = tn_redis_swap,                                                                     \
        .swap_many = tn_redis_swap_many,                                                           \
        .wait = tn_watcher_wait,                                                                   \
        .list = tn_redis_list,                                                                     \
        .read_many = redis_read_many,                                                              \
        .purge = tn_redis_purge,                                                                   \
    }

TABLE(tn_store_redis, "redis");
TABLE(tn_store_redis_unix, "redis+unix");
TABLE(tn_store_unix, "unix");
TABLE(tn_store_redis_sentinel, "redis+sentinel");
TABLE(tn_store_rediss, "rediss");
TABLE(tn_store_rediss_sentinel, "rediss+sentinel");
