/*
 * Registers that are not what this store writes: foreign bytes.  An operator who repairs
 * (repair=yes) reads one as it is: a line with the subject and the sequence, and the bytes.  It is
 * replaced if the subject's sequence is still the one that was read (C2).
 */
#include <stdio.h>
#include <stdlib.h>

#include "store/nats/nats.h"

static void send_last(struct tn_nats *h, struct tn_nats_call *calls, size_t n, const void *arg)
{
    char subject[TN_NATS_SUBJECT];

    (void)n;
    tn_nats_subject(h, arg, subject);
    tn_nats_send_last(h, &calls[0], subject);
}

static void free_raw(void *raw)
{
    tn_nats_message_free(raw);
    free(raw);
}

static enum tenure_status read_raw(void *impl, const char *key, int64_t deadline, void **raw,
                                   struct tenure_error *err)
{
    struct tn_nats_call call = {0};
    struct tn_nats_message *message = calloc(1, sizeof *message);
    enum tenure_status status = message ? tn_nats_ask(impl, &call, 1, send_last, key, deadline, err)
                                        : tenure_fail(err, TENURE_NOMEM, "nats: out of memory");

    if (!status)
        status = tn_nats_message(impl, &call, message, err);
    tn_nats_call_free(&call);
    if (!status && message->seq)
        *raw = message;
    else
        free(message);
    return status;
}

static enum tenure_status decode(void *impl, const char *key, const void *raw,
                                 struct tenure_value *value, struct tenure_error *err)
{
    (void)impl;
    return tn_nats_decode(key, raw, value, err);
}

static enum tenure_status take_damaged(void *impl, const char *key, const void *raw,
                                       struct tenure_value *value, struct tenure_error *err)
{
    const struct tn_nats_message *message = raw;
    char *bytes = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&bytes, &size);

    (void)impl, (void)key;
    if (!to)
        return tenure_fail(err, TENURE_NOMEM, "nats: out of memory");
    fprintf(to, "nats-message 1 %s seq=%llu\n", message->subject, message->seq);
    fwrite(message->data, 1, message->len, to);
    return tn_damaged_stream(value, to, &bytes, &size, err);
}

static enum tenure_status replace(void *impl, struct tenure_swap *swap, const void *raw,
                                  int64_t deadline, struct tenure_error *err)
{
    return tn_nats_replace(impl, swap, ((const struct tn_nats_message *)raw)->seq, deadline, err);
}

const struct tn_raw_ops tn_nats_raw = {read_raw, free_raw, decode, take_damaged, replace};
