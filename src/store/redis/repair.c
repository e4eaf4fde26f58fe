/*
 * Registers that are not what this store writes: foreign strings, lists, sets.
 * Everybody is told CORRUPT, but an operator who repairs (repair=yes) reads one as it
 * is, and replaces it by a script that compares all of it with what was read (C2).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hex.h"
#include "store/raw.h"
#include "store/redis/ops.h"
#include "store/redis/server.h"

#define STRING "string"

/* ---- Looking ------------------------------------------------------------- */

/* nil, or {type, size, bytes} with all the bytes. */
static enum tenure_status check_look(const redisReply *r, struct tenure_error *err)
{
    if (r->type == REDIS_REPLY_NIL)
        return TENURE_OK;
    if (r->type != REDIS_REPLY_ARRAY || r->elements != 3)
        return tenure_fail(err, TENURE_UNAVAILABLE, "the server answered with something else");
    for (size_t i = 0; i < 3; i++) {
        if (r->element[i]->type != REDIS_REPLY_STRING)
            return tenure_fail(err, TENURE_UNAVAILABLE, "the server answered with something else");
    }
    if (strtoull(r->element[1]->str, NULL, 10) != (unsigned long long)r->element[2]->len)
        return tenure_fail(err, TENURE_CORRUPT,
                           "it is too large to be kept: copy it and cut it to 8 MiB first");
    return TENURE_OK;
}

static void put_name(const struct tn_redis *h, const char *key, char name[TN_REDIS_NAME_MAX])
{
    snprintf(name, TN_REDIS_NAME_MAX, "%s%s", h->registers, key);
}

static enum tenure_status read_raw(void *impl, const char *key, int64_t deadline, void **raw,
                                   struct tenure_error *err)
{
    struct tn_redis *h = impl;
    char name[TN_REDIS_NAME_MAX];
    redisReply *reply = NULL;

    put_name(h, key, name);
    enum tenure_status status =
        tn_redis_fetch(h, TN_REDIS_LOOK, name, TN_DAMAGED_MAX, deadline, &reply, err);
    if (status)
        return status;
    status = check_look(reply, err);
    if (status)
        tenure_fail_context(err, "redis: %s", name);
    if (status || reply->type == REDIS_REPLY_NIL)
        freeReplyObject(reply);
    else
        *raw = reply;
    return status;
}

/* A string is shown as it is; of anything else the type is told first. */
static enum tenure_status take_damaged(void *impl, const char *key, const void *raw,
                                       struct tenure_value *value, struct tenure_error *err)
{
    const redisReply *found = raw, *kind = found->element[0], *bytes = found->element[2];
    size_t size = 0;
    char *text = NULL;

    (void)impl;
    (void)key;
    if (strcmp(kind->str, STRING) == 0)
        return tn_damaged_value(value, bytes->str, (size_t)bytes->len, err);
    FILE *to = open_memstream(&text, &size);
    if (!to)
        return tenure_fail(err, TENURE_NOMEM, "redis: out of memory");
    fprintf(to, "redis-%s\n", kind->str);
    fwrite(bytes->str, 1, (size_t)bytes->len, to);
    return tn_damaged_stream(value, to, &text, &size, err);
}

static enum tenure_status decode(void *impl, const char *key, const void *raw,
                                 struct tenure_value *value, struct tenure_error *err)
{
    const struct tn_redis *h = impl;
    const redisReply *found = raw;

    (void)key;
    if (strcmp(found->element[0]->str, STRING) != 0)
        return tenure_fail(err, TENURE_CORRUPT, "redis: it is a %s", found->element[0]->str);
    return tn_redis_decode(found->element[2]->str, (size_t)found->element[2]->len, h->timeline,
                           value, err);
}

/* ---- Replacing ----------------------------------------------------------- */

/* {version, verdict}, as of a swap. */
static enum tenure_status take_verdict(struct tn_redis *h, const struct tn_redis_answer *answer,
                                       struct tenure_swap *swap, struct tenure_error *err)
{
    const redisReply *r = answer->reply;

    if (r->type != REDIS_REPLY_ARRAY || r->elements != 2 ||
        r->element[0]->type != REDIS_REPLY_STRING || r->element[1]->type != REDIS_REPLY_STRING)
        return tenure_fail(err, TENURE_UNKNOWN, "redis: the script's answer is not ours");
    if (strcmp(r->element[1]->str, "c") == 0)
        return tenure_fail(err, TENURE_CONFLICT, "redis: %s has changed", swap->key);
    if (strcmp(r->element[1]->str, "o") != 0 ||
        !tn_redis_number(r->element[0]->str, (size_t)r->element[0]->len))
        return tenure_fail(err, TENURE_UNKNOWN, "redis: the script's answer is not ours");
    if (answer->unconfirmed)
        return tenure_fail(err, TENURE_UNKNOWN,
                           "redis: %s was written, but fewer than %u replicas confirmed it",
                           swap->key, h->conf.replicas);
    tn_redis_version(r->element[0]->str, (size_t)r->element[0]->len, h->timeline,
                     swap->token.version);
    memcpy(swap->token.nonce, swap->nonce, TENURE_NONCE_SIZE);
    return TENURE_OK;
}

static enum tenure_status replace(void *impl, struct tenure_swap *swap, const void *raw,
                                  int64_t deadline, struct tenure_error *err)
{
    struct tn_redis *h = impl;
    const redisReply *found = raw;
    char name[TN_REDIS_NAME_MAX], *tail = malloc(TN_REDIS_TAIL + swap->len), offset[24],
                                  origin[TENURE_NONCE_SIZE + 1];
    struct tn_redis_answer answer = {0};
    struct tn_redis_args args = {0};
    enum tenure_status status;

    if (!tail || !tn_redis_args_init(&args, 10)) {
        free(tail);
        return tenure_fail(err, TENURE_NOMEM, "redis: out of memory");
    }
    put_name(h, swap->key, name);
    snprintf(offset, sizeof offset, "%zu", strlen(h->registers) + 1);
    tn_hex_encode(swap->nonce, TENURE_NONCE_SIZE / 2, origin);
    tn_redis_args_text(&args, "4");
    tn_redis_args_text(&args, h->seq);
    tn_redis_args_text(&args, h->index);
    tn_redis_args_text(&args, h->log);
    tn_redis_args_text(&args, name);
    tn_redis_args_text(&args, offset);
    tn_redis_args_text(&args, origin);
    tn_redis_args_text(&args, found->element[0]->str);
    tn_redis_args_add(&args, found->element[2]->str, (size_t)found->element[2]->len);
    tn_redis_args_add(&args, tail, tn_redis_put_tail(swap, tail));
    status = tn_redis_run(h, TN_REDIS_REPAIR, &args, deadline, &answer, err);
    if (!status)
        status = take_verdict(h, &answer, swap, err);
    else if (answer.lost) /* it may still take effect (I6) */
        err->code = status = TENURE_UNKNOWN;
    if (answer.reply)
        freeReplyObject(answer.reply);
    tn_redis_args_free(&args);
    free(tail);
    return status;
}

static const struct tn_raw_ops ops = {read_raw, freeReplyObject, decode, take_damaged, replace};

enum tenure_status tn_redis_repair_read(struct tn_redis *h, const char *key,
                                        struct tenure_value *value, int64_t deadline,
                                        struct tenure_error *err)
{
    return tn_raw_read(&ops, h, key, true, value, deadline, err);
}

enum tenure_status tn_redis_repair(struct tn_redis *h, struct tenure_swap *swap, int64_t deadline,
                                   struct tenure_error *err)
{
    return tn_raw_swap(&ops, h, swap, deadline, err);
}
