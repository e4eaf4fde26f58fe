/*
 * Registers that are not what this store writes: foreign strings, lists, sets.
 * Everybody is told CORRUPT, but an operator who repairs (repair=yes) reads one as it
 * is, and replaces it by a script that compares all of it with what was read (C2).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hex.h"
#include "store/damaged.h"
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

/* What is there.  OK: *found for the caller to free. */
static enum tenure_status look(struct tn_redis *h, const char *name, int64_t deadline,
                               redisReply **found, struct tenure_error *err)
{
    redisReply *reply = NULL;
    enum tenure_status status =
        tn_redis_fetch(h, TN_REDIS_LOOK, name, TN_DAMAGED_MAX, deadline, &reply, err);

    if (status)
        return status;
    status = check_look(reply, err);
    if (status) {
        tenure_fail_context(err, "redis: %s", name);
        freeReplyObject(reply);
        return status;
    }
    *found = reply;
    return TENURE_OK;
}

/* A string is shown as it is; of anything else the type is told first. */
static enum tenure_status take_damaged(const redisReply *found, struct tenure_value *value,
                                       struct tenure_error *err)
{
    const redisReply *kind = found->element[0], *bytes = found->element[2];
    size_t size = 0;
    char *text = NULL;

    if (strcmp(kind->str, STRING) == 0)
        return tn_damaged_value(value, bytes->str, (size_t)bytes->len, err);
    FILE *to = open_memstream(&text, &size);
    if (!to)
        return tenure_fail(err, TENURE_NOMEM, "redis: out of memory");
    fprintf(to, "redis-%s\n", kind->str);
    fwrite(bytes->str, 1, (size_t)bytes->len, to);
    return tn_damaged_stream(value, to, &text, &size, err);
}

static enum tenure_status take(struct tn_redis *h, const redisReply *found,
                               struct tenure_value *value, struct tenure_error *err)
{
    enum tenure_status status = TENURE_CORRUPT;

    if (found->type == REDIS_REPLY_NIL)
        return tenure_value_absent(value, err);
    if (strcmp(found->element[0]->str, STRING) == 0)
        status = tn_redis_decode(found->element[2]->str, (size_t)found->element[2]->len,
                                 h->timeline, value, err);
    return status == TENURE_CORRUPT ? take_damaged(found, value, err) : status;
}

enum tenure_status tn_redis_repair_read(struct tn_redis *h, const char *key,
                                        struct tenure_value *value, int64_t deadline,
                                        struct tenure_error *err)
{
    char name[TN_REDIS_NAME_MAX];
    redisReply *found = NULL;

    snprintf(name, sizeof name, "%s%s", h->registers, key);
    enum tenure_status status = look(h, name, deadline, &found, err);
    if (status)
        return status;
    status = take(h, found, value, err);
    freeReplyObject(found);
    return status;
}

/* ---- Replacing ----------------------------------------------------------- */

static enum tenure_status conflict(const struct tenure_swap *swap, struct tenure_error *err)
{
    return tenure_fail(err, TENURE_CONFLICT, "redis: %s has changed", swap->key);
}

/* {version, verdict}, as of a swap. */
static enum tenure_status take_verdict(struct tn_redis *h, const struct tn_redis_answer *answer,
                                       struct tenure_swap *swap, struct tenure_error *err)
{
    const redisReply *r = answer->reply;

    if (r->type != REDIS_REPLY_ARRAY || r->elements != 2 ||
        r->element[0]->type != REDIS_REPLY_STRING || r->element[1]->type != REDIS_REPLY_STRING)
        return tenure_fail(err, TENURE_UNKNOWN, "redis: the script's answer is not ours");
    if (strcmp(r->element[1]->str, "c") == 0)
        return conflict(swap, err);
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

static enum tenure_status replace(struct tn_redis *h, const char *name, const redisReply *found,
                                  struct tenure_swap *swap, int64_t deadline,
                                  struct tenure_error *err)
{
    char *tail = malloc(TN_REDIS_TAIL + swap->len), offset[24], origin[TENURE_NONCE_SIZE + 1];
    struct tn_redis_answer answer = {0};
    struct tn_redis_args args = {0};
    enum tenure_status status;

    if (!tail || !tn_redis_args_init(&args, 10)) {
        free(tail);
        return tenure_fail(err, TENURE_NOMEM, "redis: out of memory");
    }
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
    status = tn_redis_run(h, TN_REDIS_MEND, &args, deadline, &answer, err);
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

enum tenure_status tn_redis_repair(struct tn_redis *h, struct tenure_swap *swap, int64_t deadline,
                                   struct tenure_error *err)
{
    struct tenure_value value = {0};
    char name[TN_REDIS_NAME_MAX];
    redisReply *found = NULL;

    snprintf(name, sizeof name, "%s%s", h->registers, swap->key);
    enum tenure_status status = look(h, name, deadline, &found, err);
    if (status)
        return status;
    status = take(h, found, &value, err);
    if (!status && !tenure_token_equal(&value.token, &swap->expect))
        status = conflict(swap, err);
    if (!status)
        status = replace(h, name, found, swap, deadline, err);
    freeReplyObject(found);
    tenure_value_free(&value);
    return status;
}
