/* Changes: one script for up to a thousand swaps. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hex.h"
#include "store/damaged.h"
#include "store/redis/ops.h"
#include "store/redis/server.h"
#include "store/redis/wait.h"

#define ORIGIN 16

/* One script's worth of swaps, and the bytes that its arguments point into. */
struct batch {
    struct tn_redis_args args;
    struct tenure_swap *swaps;
    size_t n;
    bool purge;  /* the only one is deleted */
    size_t sent; /* how many of them are in args: those whose timeline is over are not */
    char *bytes;
    char count[12], offset[12], origin[ORIGIN + 1];
};

/* The bytes that the arguments of a script with these swaps take. */
static size_t size_of(const struct tenure_swap *swaps, size_t n)
{
    size_t total = n * (TN_REDIS_NAME_MAX + TN_REDIS_HEAD_MAX + TN_REDIS_TAIL);

    for (size_t i = 0; i < n; i++)
        total += swaps[i].len;
    return total;
}

size_t tn_redis_put_tail(const struct tenure_swap *swap, char *out)
{
    char nonce[TN_NONCE_HEX + 1], prev[TN_NONCE_HEX + 1];

    tn_hex_encode(swap->nonce, TENURE_NONCE_SIZE, nonce);
    tn_hex_encode(swap->expect.nonce, TENURE_NONCE_SIZE, prev);
    int n = snprintf(out, TN_REDIS_TAIL, "%s %s %c\n", nonce, prev, swap->tombstone ? 't' : 'v');
    if (swap->len)
        memcpy(out + n, swap->data, swap->len);
    return (size_t)n + swap->len;
}

/* A token that was seen before Redis failed over or restarted is not expected
 * any more, whatever the register holds: the caller reads again. */
static void sort_out(struct tn_redis *h, struct batch *b)
{
    b->sent = 0;
    for (size_t i = 0; i < b->n; i++) {
        bool same = tn_redis_same_timeline(&b->swaps[i].expect, h->timeline);

        b->swaps[i].status = same ? TENURE_UNKNOWN : TENURE_CONFLICT;
        b->sent += same;
    }
}

static void compose(struct tn_redis *h, struct batch *b)
{
    char *p = b->bytes;

    tn_hex_encode(b->swaps[0].nonce, ORIGIN / 2, b->origin);
    snprintf(b->count, sizeof b->count, "%zu", b->sent + 3);
    snprintf(b->offset, sizeof b->offset, "%zu", strlen(h->registers) + 1);
    tn_redis_args_text(&b->args, b->count);
    tn_redis_args_text(&b->args, h->seq);
    tn_redis_args_text(&b->args, h->index);
    tn_redis_args_text(&b->args, h->log);
    for (size_t i = 0; i < b->n; i++) {
        if (b->swaps[i].status == TENURE_CONFLICT)
            continue;
        int n = snprintf(p, TN_REDIS_NAME_MAX, "%s%s", h->registers, b->swaps[i].key);
        tn_redis_args_add(&b->args, p, (size_t)n);
        p += n;
    }
    tn_redis_args_text(&b->args, b->offset);
    tn_redis_args_text(&b->args, b->origin);
    for (size_t i = 0; i < b->n; i++) {
        if (b->swaps[i].status == TENURE_CONFLICT)
            continue;
        size_t n = tn_redis_expect(&b->swaps[i].expect, p);
        tn_redis_args_add(&b->args, p, n);
        p += n;
        n = b->purge ? 0 : tn_redis_put_tail(&b->swaps[i], p);
        tn_redis_args_add(&b->args, p, n);
        p += n;
    }
}

/* {version, "ocg..."} */
static enum tenure_status take_verdicts(struct tn_redis *h, const redisReply *r, struct batch *b,
                                        bool unconfirmed, struct tenure_error *err)
{
    if (r->type != REDIS_REPLY_ARRAY || r->elements != 2 ||
        r->element[0]->type != REDIS_REPLY_STRING || r->element[1]->type != REDIS_REPLY_STRING ||
        (size_t)r->element[1]->len != b->sent)
        return tenure_fail(err, TENURE_UNKNOWN, "redis: the script's answer is not ours");
    const redisReply *version = r->element[0];
    const char *verdict = r->element[1]->str;
    for (size_t i = 0; i < b->n; i++) {
        struct tenure_swap *swap = &b->swaps[i];

        if (swap->status == TENURE_CONFLICT)
            continue;
        char v = *verdict++;
        if (v == 'o' && unconfirmed)
            continue; /* stays UNKNOWN */
        if (v == 'o' && !tn_redis_number(version->str, (size_t)version->len))
            return tenure_fail(err, TENURE_UNKNOWN, "redis: the script gave no version");
        swap->status = v == 'o' ? TENURE_OK : v == 'c' ? TENURE_CONFLICT : TENURE_CORRUPT;
        if (v != 'o')
            continue;
        tn_redis_version(version->str, (size_t)version->len, h->timeline, swap->token.version);
        memcpy(swap->token.nonce, swap->nonce, TENURE_NONCE_SIZE);
        tn_watcher_learn(&h->watcher, swap->key, &swap->token);
    }
    return TENURE_OK;
}

static void set_all(struct tenure_swap *swaps, size_t n, enum tenure_status status)
{
    for (size_t i = 0; i < n; i++)
        swaps[i].status = status;
}

static enum tenure_status send_batch(struct tn_redis *h, struct batch *b, int64_t deadline,
                                     struct tn_redis_answer *answer, struct tenure_error *err)
{
    enum tenure_status status = tn_redis_ready(h, deadline, err);

    if (status) {
        set_all(b->swaps, b->n, status);
        return status;
    }
    sort_out(h, b);
    if (!b->sent)
        return TENURE_OK;
    tn_redis_args_reset(&b->args);
    compose(h, b);
    status = tn_redis_run(h, TN_REDIS_SWAP, &b->args, deadline, answer, err);
    if (!status) {
        status = take_verdicts(h, answer->reply, b, answer->unconfirmed, err);
        freeReplyObject(answer->reply);
        answer->reply = NULL;
        return status;
    }
    for (size_t i = 0; i < b->n; i++) {
        /* Whatever may have arrived may still take effect (I6); an error that
         * the server told means that no register was written. */
        if (b->swaps[i].status != TENURE_CONFLICT)
            b->swaps[i].status = answer->lost ? TENURE_UNKNOWN : status;
    }
    if (answer->lost)
        tenure_fail_context(err, "whether the change took effect is not known");
    return status;
}

static enum tenure_status run_batch(struct tn_redis *h, struct tenure_swap *swaps, size_t n,
                                    bool purge, int64_t deadline, struct tenure_error *err)
{
    struct batch b = {.swaps = swaps, .n = n, .purge = purge, .bytes = malloc(size_of(swaps, n))};
    struct tn_redis_answer answer = {0};
    enum tenure_status status;
    unsigned tries = 0;

    if (!b.bytes || !tn_redis_args_init(&b.args, (int)(6 + 3 * n))) {
        free(b.bytes);
        set_all(swaps, n, TENURE_NOMEM);
        return tenure_fail(err, TENURE_NOMEM, "redis: out of memory for a batch");
    }
    do {
        memset(&answer, 0, sizeof answer);
        status = send_batch(h, &b, deadline, &answer, err);
    } while (status && tn_redis_try_again(h, &answer, &tries));
    tn_redis_args_free(&b.args);
    free(b.bytes);
    return status;
}

enum tenure_status tn_redis_swap_many(void *impl, struct tenure_swap *swaps, size_t n,
                                      int64_t deadline, struct tenure_error *err)
{
    return run_batch(impl, swaps, n, false, deadline, err);
}

enum tenure_status tn_redis_purge(void *impl, struct tenure_swap *swap, int64_t deadline,
                                  struct tenure_error *err)
{
    struct tn_redis *h = impl;
    enum tenure_status status = run_batch(h, swap, 1, true, deadline, err);

    tn_watcher_forget(&h->watcher, swap->key);
    if (!status && swap->status)
        tenure_fail(err, swap->status, "redis: %s has changed, or fewer replicas confirmed it",
                    swap->key);
    return swap->status;
}

enum tenure_status tn_redis_swap(void *impl, struct tenure_swap *swap, int64_t deadline,
                                 struct tenure_error *err)
{
    struct tn_redis *h = impl;

    if (h->conf.repair && tn_damaged(&swap->expect))
        return swap->status = tn_redis_repair(h, swap, deadline, err);
    if (tn_redis_swap_many(impl, swap, 1, deadline, err))
        return err->code = swap->status;
    if (swap->status == TENURE_CONFLICT)
        return tenure_fail(err, TENURE_CONFLICT, "redis: %s has changed", swap->key);
    if (swap->status == TENURE_CORRUPT)
        return tenure_fail(err, TENURE_CORRUPT,
                           "redis: %s%s holds something that tenure did not write; it was not "
                           "touched",
                           h->registers, swap->key);
    if (swap->status == TENURE_UNKNOWN)
        return tenure_fail(err, TENURE_UNKNOWN,
                           "redis: %s was written, but fewer than %u replicas confirmed it",
                           swap->key, h->conf.replicas);
    return swap->status;
}
