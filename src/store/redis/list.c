/* Listings: the index gives keys in byte order, a page at a time. */
#include <stdio.h>
#include <string.h>

#include "store/damaged.h"
#include "store/pager.h"
#include "store/redis/ops.h"
#include "store/redis/server.h"
#include "store/redis/wait.h"

#define STR_(x)  #x
#define STR(x)   STR_(x)
#define PAGE_MAX 128 /* keys in one answer */

static enum tenure_status fetch(struct tn_redis *h, const struct tn_pager *p, redisReply **reply,
                                struct tenure_error *err)
{
    struct tn_redis_args args;
    char limit[16], low[TENURE_KEY_MAX + 2], high[TENURE_KEY_MAX + 3];
    enum tenure_status status;

    if (!tn_redis_args_init(&args, 10))
        return tenure_fail(err, TENURE_NOMEM, "redis: out of memory");
    snprintf(limit, sizeof limit, "%u", TENURE_DATA_MAX + TN_REDIS_HEAD_MAX);
    /* From the prefix itself, or behind the key where we stopped. */
    if (strcmp(p->last, p->prefix) < 0)
        snprintf(low, sizeof low, "[%s", p->prefix);
    else
        snprintf(low, sizeof low, "(%s", p->last);
    snprintf(high, sizeof high, "(%s\xff", p->prefix);
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
    status = tn_redis_ask(h, TN_REDIS_LIST, &args, p->deadline, reply, err);
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

static enum tenure_status decode(struct tn_pager *p, const char *key, const void *row,
                                 struct tenure_error *err)
{
    const struct tn_redis *h = p->impl;
    const redisReply *text = row;
    enum tenure_status status =
        tn_redis_decode(text->str, (size_t)text->len, h->timeline, &p->value, err);

    if (status == TENURE_CORRUPT)
        tenure_fail_context(err, "redis: %s%s", h->registers, key);
    return status;
}

static enum tenure_status take_damaged(struct tn_pager *p, const char *key, const void *row,
                                       struct tenure_error *err)
{
    const redisReply *text = row;

    return p->repair ? tn_redis_repair_read(p->impl, key, &p->value, p->deadline, err)
                     : tn_damaged_value(&p->value, text->str, (size_t)text->len, err);
}

static enum tenure_status show_page(struct tn_pager *p, const redisReply *r,
                                    struct tenure_error *err)
{
    const struct tn_redis *h = p->impl;
    enum tenure_status status = TENURE_OK;

    if (!page_sound(r))
        return tenure_fail(err, TENURE_UNAVAILABLE, "redis: the listing's answer is not ours");
    if (p->mark &&
        !tn_redis_mark(r->element[0]->str, (size_t)r->element[0]->len, h->timeline, p->mark))
        return tenure_fail(err, TENURE_CORRUPT,
                           "redis: %s holds something that tenure did not "
                           "write; move it away by hand",
                           h->seq);
    p->mark = NULL;
    p->more = r->element[1]->str[0] == '1' && strcmp(r->element[2]->str, p->last) > 0;
    for (size_t i = 3; i < r->elements && !status && !p->stop; i += 2)
        status = tn_pager_show(p, r->element[i]->str, r->element[i + 1], err);
    snprintf(p->last, sizeof p->last, "%s", r->element[2]->str);
    return status;
}

static enum tenure_status list_page(struct tn_pager *p, struct tenure_error *err)
{
    redisReply *reply = NULL;
    enum tenure_status status = fetch(p->impl, p, &reply, err);

    if (!status)
        status = show_page(p, reply, err);
    freeReplyObject(reply);
    return status;
}

enum tenure_status tn_redis_list(void *impl, const char *prefix, const char *after,
                                 tenure_visit_fn visit, void *arg,
                                 char mark[TENURE_VERSION_MAX + 1], int64_t deadline,
                                 struct tenure_error *err)
{
    static const struct tn_pager_ops ops = {list_page, decode, take_damaged};
    struct tn_redis *h = impl;
    struct tn_pager p = {0};

    return tn_pager_list(&p, &ops, impl, h->conf.repair, prefix, after, visit, arg, mark, deadline,
                         err);
}
