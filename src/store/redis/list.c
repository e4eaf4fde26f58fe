/* Listings: the index gives keys in byte order, a page at a time. */
#include <stdio.h>
#include <string.h>

#include "store/damaged.h"
#include "store/redis/ops.h"
#include "store/redis/server.h"
#include "store/redis/wait.h"

#define STR_(x)  #x
#define STR(x)   STR_(x)
#define PAGE_MAX 128 /* keys in one answer */

struct listing {
    const char *prefix;
    tenure_visit_fn visit;
    void *arg;
    char *mark; /* NULL once it is known, or not wanted */
    char last[TENURE_KEY_MAX + 1];
    bool more;
};

static enum tenure_status run_page(struct tn_redis *h, const struct listing *l, int64_t deadline,
                                   redisReply **reply, struct tenure_error *err)
{
    struct tn_redis_args args;
    char limit[16], low[TENURE_KEY_MAX + 2], high[TENURE_KEY_MAX + 3];
    enum tenure_status status;

    if (!tn_redis_args_init(&args, 10))
        return tenure_fail(err, TENURE_NOMEM, "redis: out of memory");
    snprintf(limit, sizeof limit, "%u", TENURE_DATA_MAX + TN_REDIS_HEAD_MAX);
    /* From the prefix itself, or behind the key where we stopped. */
    if (strcmp(l->last, l->prefix) < 0)
        snprintf(low, sizeof low, "[%s", l->prefix);
    else
        snprintf(low, sizeof low, "(%s", l->last);
    snprintf(high, sizeof high, "(%s\xff", l->prefix);
    tn_redis_args_text(&args, "3");
    tn_redis_args_text(&args, h->seq);
    tn_redis_args_text(&args, h->sync);
    tn_redis_args_text(&args, h->index);
    tn_redis_args_text(&args, h->conf.replicas ? "1" : "0");
    tn_redis_args_text(&args, limit);
    tn_redis_args_text(&args, h->registers);
    tn_redis_args_text(&args, low);
    tn_redis_args_text(&args, high);
    tn_redis_args_text(&args, STR(PAGE_MAX));
    status = tn_redis_ask(h, TN_REDIS_LIST, &args, deadline, reply, err);
    tn_redis_args_free(&args);
    return status;
}

static bool page_sound(const redisReply *r)
{
    if (r->type != REDIS_REPLY_ARRAY || r->elements < 3 || r->elements % 2 == 0)
        return false;
    for (size_t i = 0; i < r->elements; i++) {
        if (r->element[i]->type != REDIS_REPLY_STRING)
            return false;
    }
    return (size_t)r->element[2]->len <= TENURE_KEY_MAX;
}

/*
 * A register of a page.  What is none does not end the listing; read() tells why.  Who repairs sees
 * it as it is, unless it has vanished meanwhile.
 */
static enum tenure_status take_listed(struct tn_redis *h, const char *key, const redisReply *text,
                                      struct tenure_value *value, int64_t deadline,
                                      struct tenure_error *err)
{
    enum tenure_status status =
        tn_redis_decode(text->str, (size_t)text->len, h->timeline, value, err);

    if (status != TENURE_CORRUPT)
        return status;
    tenure_fail_context(err, "redis: %s%s", h->registers, key);
    struct tenure_error why = *err;
    if (h->conf.repair &&
        (status = tn_redis_repair_read(h, key, value, deadline, err)) != TENURE_CORRUPT)
        return status;
    status = tn_damaged_value(value, text->str, (size_t)text->len, err);
    return status ? status : tn_damaged_listed(value, &why, err);
}

static enum tenure_status take_page(struct tn_redis *h, struct listing *l, const redisReply *r,
                                    struct tenure_value *value, int64_t deadline,
                                    struct tenure_error *err)
{
    if (!page_sound(r))
        return tenure_fail(err, TENURE_UNAVAILABLE, "redis: the listing's answer is not ours");
    if (l->mark &&
        !tn_redis_mark(r->element[0]->str, (size_t)r->element[0]->len, h->timeline, l->mark))
        return tenure_fail(err, TENURE_CORRUPT,
                           "redis: %s holds something that tenure did not "
                           "write; move it away by hand",
                           h->seq);
    l->mark = NULL;
    l->more = r->element[1]->str[0] == '1' && strcmp(r->element[2]->str, l->last) > 0;
    for (size_t i = 3; i < r->elements; i += 2) {
        const char *key = r->element[i]->str;
        enum tenure_status status;

        /* The index belongs to anybody who may write to Redis. */
        if (!tenure_key_valid(key) || strncmp(key, l->prefix, strlen(l->prefix)) != 0)
            continue;
        status = take_listed(h, key, r->element[i + 1], value, deadline, err);
        if (status)
            return status;
        if (!tenure_token_absent(&value->token) && !l->visit(l->arg, key, value)) {
            l->more = false;
            return TENURE_OK;
        }
    }
    snprintf(l->last, sizeof l->last, "%s", r->element[2]->str);
    return TENURE_OK;
}

static enum tenure_status list_page(struct tn_redis *h, struct listing *l,
                                    struct tenure_value *value, int64_t deadline,
                                    struct tenure_error *err)
{
    redisReply *reply = NULL;
    enum tenure_status status = run_page(h, l, deadline, &reply, err);

    if (!status)
        status = take_page(h, l, reply, value, deadline, err);
    freeReplyObject(reply);
    return status;
}

enum tenure_status tn_redis_list(void *impl, const char *prefix, const char *after,
                                 tenure_visit_fn visit, void *arg,
                                 char mark[TENURE_VERSION_MAX + 1], int64_t deadline,
                                 struct tenure_error *err)
{
    struct listing l = {.prefix = prefix, .visit = visit, .arg = arg, .mark = mark};
    struct tenure_value value = {0};
    enum tenure_status status;

    if (after)
        snprintf(l.last, sizeof l.last, "%s", after);
    do {
        status = list_page(impl, &l, &value, deadline, err);
    } while (!status && l.more);
    tenure_value_free(&value);
    return status;
}
