/*
 * Swaps: a message each, with the sequence that its subject must have.  All of a batch are sent
 * behind each other, and each is answered by itself.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/nats/nats.h"

struct request {
    struct tenure_swap *swap;
    unsigned long long expect; /* the sequence; 0: the subject has no message */
    struct tn_nats_call call;
};

static enum tenure_status conflict(const struct tenure_swap *swap, struct tenure_error *err)
{
    return tenure_fail(err, TENURE_CONFLICT, "%s has changed", swap->key);
}

/* ---- The nonce ----------------------------------------------------------- */

static void send_look(struct tn_nats *h, struct tn_nats_call *call, const struct request *r)
{
    char body[64];

    snprintf(body, sizeof body, "{\"seq\":%llu}", r->expect);
    tn_nats_send_api(h, call, "STREAM.MSG.GET", body);
}

/* Is the message of the expected sequence the one that the caller saw?  Otherwise the swap is
 * answered here: nothing was sent. */
static enum tenure_status take_look(struct tn_nats *h, const struct tn_nats_call *call,
                                    struct request *r, struct tenure_error *err)
{
    char subject[TN_NATS_SUBJECT];
    uint8_t nonce[TENURE_NONCE_SIZE];
    struct tn_nats_message message;
    enum tenure_status status = tn_nats_message(h, call, &message, err);

    tn_nats_subject(h, r->swap->key, subject);
    if (!status) {
        if (message.seq != r->expect || strcmp(message.subject, subject) != 0 ||
            !tn_frame_nonce(message.data, message.len, nonce) ||
            memcmp(nonce, r->swap->expect.nonce, sizeof nonce) != 0)
            r->swap->status = conflict(r->swap, err);
    }
    tn_nats_message_free(&message);
    return status;
}

/* Of all that expect a message, in pieces.  Not OK: why they cannot be sent. */
static enum tenure_status compare_nonces(struct tn_nats *h, struct request *requests, size_t n,
                                         int64_t deadline, struct tenure_error *err)
{
    struct request *chosen[TN_NATS_READS_MAX];
    struct tn_nats_call calls[TN_NATS_READS_MAX] = {0};
    enum tenure_status status = TENURE_OK;
    size_t next = 0;

    while (!status && next < n) {
        size_t count = 0;

        for (; next < n && count < TN_NATS_READS_MAX; next++) {
            if (requests[next].expect)
                chosen[count++] = &requests[next];
        }
        tn_nats_begin(h, calls, count);
        for (size_t i = 0; i < count; i++)
            send_look(h, &calls[i], chosen[i]);
        status = tn_nats_finish(h, deadline, err);
        for (size_t i = 0; i < count; i++) {
            if (!status)
                status = take_look(h, &calls[i], chosen[i], err);
            tn_nats_call_free(&calls[i]);
        }
    }
    return status;
}

/* ---- Outcomes ------------------------------------------------------------ */

static enum tenure_status tell_unknown(struct tenure_error *err)
{
    tenure_fail_context(err, "whether the change took effect is not known");
    return err->code = TENURE_UNKNOWN;
}

static void succeed(struct tn_nats *h, struct tenure_swap *swap, unsigned long long seq)
{
    memset(&swap->token, 0, sizeof swap->token);
    snprintf(swap->token.version, sizeof swap->token.version, "%llu", seq);
    memcpy(swap->token.nonce, swap->nonce, sizeof swap->nonce);
    tn_watcher_learn(&h->watcher, swap->key, &swap->token);
}

/* *refused: the sequence was another one. */
static enum tenure_status take_outcome(struct tn_nats *h, struct request *r, bool *refused,
                                       struct tenure_error *err)
{
    json_t *root;
    json_int_t seq;
    int code;
    enum tenure_status status;

    if (!r->call.done)
        return TENURE_UNKNOWN;
    status = tn_nats_answer(h, &r->call, &root, &code, err);
    if (status) /* denied, deaf, nobody was there, not sent, or nothing that can be read */
        return r->call.deaf || (r->call.answer && !natsMsg_IsNoResponders(r->call.answer))
                   ? tell_unknown(err)
                   : status;
    seq = json_integer_value(json_object_get(root, "seq"));
    *refused = code == TN_NATS_WRONG_SEQUENCE;
    if (code == TN_NATS_WRONG_SEQUENCE || code == TN_NATS_SEQUENCE_IN_USE) {
        status = conflict(r->swap, err);
    } else if (code || seq <= 0) { /* a majority may have agreed on it nevertheless */
        tn_nats_explain(h, root, code, err);
        status = tell_unknown(err);
    } else {
        succeed(h, r->swap, (unsigned long long)seq);
    }
    json_decref(root);
    return status;
}

/* ---- Sending ------------------------------------------------------------- */

static void send_change(struct tn_nats *h, struct request *r)
{
    char subject[TN_NATS_SUBJECT], expect[24];
    size_t len;
    char *data = tn_frame_write(r->swap, &len);

    if (!data) {
        r->call.done = true;
        r->call.failed = TENURE_NOMEM;
        return;
    }
    tn_nats_subject(h, r->swap->key, subject);
    snprintf(expect, sizeof expect, "%llu", r->expect);
    tn_nats_send(h, &r->call, subject, expect, data, len);
    free(data);
}

/* All of them; each gets a status of its own.  Not OK: why some got no answer. */
static enum tenure_status send_changes(struct tn_nats *h, struct request *requests, size_t n,
                                       bool *refused, int64_t deadline, struct tenure_error *err)
{
    struct tn_nats_call *calls = calloc(n, sizeof *calls);
    enum tenure_status status = TENURE_OK;

    if (!calls) {
        status = tenure_fail(err, TENURE_NOMEM, "nats: out of memory");
        for (size_t i = 0; i < n; i++)
            requests[i].swap->status = status;
        return status;
    }
    tn_nats_begin(h, calls, n);
    for (size_t i = 0; i < n; i++) {
        send_change(h, &requests[i]);
        calls[i] = requests[i].call;
    }
    status = tn_nats_finish(h, deadline, err);
    if (status)
        tell_unknown(err);
    for (size_t i = 0; i < n; i++) {
        struct tenure_error own;

        requests[i].call = calls[i];
        requests[i].swap->status = take_outcome(h, &requests[i], &refused[i], status ? &own : err);
        tn_nats_call_free(&requests[i].call);
    }
    free(calls);
    return status;
}

/* A register that somebody deleted is absent, but its subject has a message: the mark of that. */
static enum tenure_status replace_mark(struct tn_nats *h, struct request *r, int64_t deadline,
                                       struct tenure_error *err)
{
    char subject[TN_NATS_SUBJECT];
    struct tn_nats_call call = {0};
    struct tn_nats_message message = {0};
    enum tenure_status status;
    bool refused;

    tn_nats_subject(h, r->swap->key, subject);
    tn_nats_begin(h, &call, 1);
    tn_nats_send_last(h, &call, subject);
    status = tn_nats_finish(h, deadline, err);
    if (!status)
        status = tn_nats_message(h, &call, &message, err);
    tn_nats_call_free(&call);
    if (!status && message.deleted) {
        r->expect = message.seq;
        status = send_changes(h, r, 1, &refused, deadline, err);
    } else { /* it was refused, whatever this look came to */
        status = TENURE_OK;
        conflict(r->swap, err);
    }
    tn_nats_message_free(&message);
    return status;
}

/* CONFLICT: no register can be what the swap expects. */
static enum tenure_status compose(struct tenure_swap *swap, struct request *r,
                                  struct tenure_error *err)
{
    memset(r, 0, sizeof *r);
    r->swap = swap;
    if (tenure_token_absent(&swap->expect) || tn_nats_seq(swap->expect.version, &r->expect))
        return TENURE_OK;
    return conflict(swap, err);
}

static enum tenure_status commit(struct tn_nats *h, struct request *requests, size_t n,
                                 bool *refused, int64_t deadline, struct tenure_error *err)
{
    enum tenure_status status;
    size_t left = 0;

    for (size_t i = 0; i < n; i++)
        requests[i].swap->status = TENURE_OK;
    status = tn_nats_connect(h, deadline, err);
    if (!status)
        status = compare_nonces(h, requests, n, deadline, err);
    for (size_t i = 0; i < n; i++) {
        if (requests[i].swap->status)
            continue; /* answered */
        requests[i].swap->status = status;
        requests[left++] = requests[i];
    }
    if (status || !left)
        return status;
    status = send_changes(h, requests, left, refused, deadline, err);
    for (size_t i = 0; i < left && !status; i++) {
        if (refused[i] && !requests[i].expect)
            status = replace_mark(h, &requests[i], deadline, err);
    }
    return status;
}

enum tenure_status tn_nats_swap_many(void *impl, struct tenure_swap *swaps, size_t n,
                                     int64_t deadline, struct tenure_error *err)
{
    struct request *requests = calloc(n, sizeof *requests);
    bool *refused = calloc(n, sizeof *refused);
    enum tenure_status status = TENURE_OK;
    size_t count = 0;

    if (!requests || !refused) {
        status = tenure_fail(err, TENURE_NOMEM, "nats: out of memory");
        for (size_t i = 0; i < n; i++)
            swaps[i].status = status;
    }
    for (size_t i = 0; !status && i < n; i++) {
        swaps[i].status = compose(&swaps[i], &requests[count], err);
        count += !swaps[i].status;
    }
    if (count)
        status = commit(impl, requests, count, refused, deadline, err);
    free(requests);
    free(refused);
    return status;
}

enum tenure_status tn_nats_swap(void *impl, struct tenure_swap *swap, int64_t deadline,
                                struct tenure_error *err)
{
    struct tn_nats *h = impl;

    if (h->conf.repair && tn_damaged(&swap->expect))
        return tn_raw_swap(&tn_nats_raw, h, swap, deadline, err);
    tn_nats_swap_many(impl, swap, 1, deadline, err);
    return swap->status;
}

enum tenure_status tn_nats_replace(struct tn_nats *h, struct tenure_swap *swap,
                                   unsigned long long seq, int64_t deadline,
                                   struct tenure_error *err)
{
    struct request r = {.swap = swap, .expect = seq};
    bool refused;

    swap->status = tn_nats_connect(h, deadline, err);
    if (!swap->status)
        send_changes(h, &r, 1, &refused, deadline, err);
    return swap->status;
}
