/* Registers as objects: tokens, bytes, and what is not what tenure writes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sum.h"
#include "store/frame.h"
#include "store/object/object.h"

#define SUM 16 /* digits */

/* A server compares tags only: the nonce is bound to it here. */
static void sum_nonce(const uint8_t nonce[TENURE_NONCE_SIZE], char out[SUM + 1])
{
    snprintf(out, SUM + 1, "%016llx",
             (unsigned long long)tn_sum(TN_SUM_START, nonce, TENURE_NONCE_SIZE));
}

void tn_object_version(const char *tag, const uint8_t nonce[TENURE_NONCE_SIZE],
                       char version[TENURE_VERSION_MAX + 1])
{
    char sum[SUM + 1];

    sum_nonce(nonce, sum);
    snprintf(version, TENURE_VERSION_MAX + 1, "%s.%s", tag, sum);
}

bool tn_object_expected(const struct tenure_token *token, char tag[TN_OBJECT_TAG_MAX + 1])
{
    const char *dot = strrchr(token->version, '.');
    char sum[SUM + 1];
    size_t n = dot ? (size_t)(dot - token->version) : 0;

    if (tenure_token_absent(token)) {
        *tag = '\0';
        return true;
    }
    sum_nonce(token->nonce, sum);
    if (n == 0 || n > TN_OBJECT_TAG_MAX || strcmp(dot + 1, sum) != 0 || tn_damaged(token))
        return false;
    memcpy(tag, token->version, n);
    tag[n] = '\0';
    return true;
}

enum tenure_status tn_object_decode(const struct tn_object_exchange *x, struct tenure_value *value,
                                    struct tenure_error *err)
{
    char version[TENURE_VERSION_MAX + 1];
    struct tn_frame frame;

    if (!tn_frame_parse(x->answer.body, x->answer.len, &frame))
        return tenure_fail(err, TENURE_CORRUPT,
                           "the object is something that tenure did not write; it was not touched");
    tn_object_version(x->found, frame.nonce, version);
    return tn_frame_value(&frame, version, value, err);
}

bool tn_object_is(const struct tn_object_exchange *x, const struct tenure_token *token)
{
    struct tenure_token now = {0};

    if (x->outcome != TN_OBJECT_DONE)
        return (x->outcome == TN_OBJECT_ABSENT) == tenure_token_absent(token);
    /* A server may send what was not wanted. */
    if (!tn_frame_nonce(x->answer.body, x->answer.len, now.nonce))
        return false;
    tn_object_version(x->found, now.nonce, now.version);
    return tenure_token_equal(&now, token);
}

/* ---- As they are (store/raw.h) ------------------------------------------- */

static void free_raw(void *raw)
{
    tn_object_release(raw, 1);
    free(raw);
}

static enum tenure_status read_raw(void *impl, const char *key, int64_t deadline, void **raw,
                                   struct tenure_error *err)
{
    struct tn_object *h = impl;
    struct tn_object_exchange *x = calloc(1, sizeof *x);
    enum tenure_status status;

    if (!x)
        return tenure_fail(err, TENURE_NOMEM, "%s: out of memory", h->vendor->scheme);
    x->verb = TN_OBJECT_GET;
    tn_object_name(h, key, x);
    tn_object_send(h, x, 1, deadline);
    status = x->status;
    if (status)
        *err = x->err;
    if (!status && x->outcome == TN_OBJECT_DONE)
        *raw = x;
    else
        free_raw(x);
    return status;
}

static enum tenure_status decode(void *impl, const char *key, const void *raw,
                                 struct tenure_value *value, struct tenure_error *err)
{
    const struct tn_object *h = impl;
    enum tenure_status status = tn_object_decode(raw, value, err);

    if (status)
        tenure_fail_context(err, "%s: %s/%s%s" TN_OBJECT_END, h->vendor->scheme, h->conf.bucket,
                            h->conf.base, key);
    return status;
}

static enum tenure_status take_damaged(void *impl, const char *key, const void *raw,
                                       struct tenure_value *value, struct tenure_error *err)
{
    const struct tn_object_exchange *x = raw;

    (void)impl;
    (void)key;
    if (x->answer.len > TN_DAMAGED_MAX)
        return tenure_fail(err, TENURE_CORRUPT, "too large to be kept");
    return tn_damaged_value(value, x->answer.body, x->answer.len, err);
}

static enum tenure_status replace(void *impl, struct tenure_swap *swap, const void *raw,
                                  int64_t deadline, struct tenure_error *err)
{
    const struct tn_object_exchange *x = raw;

    return tn_object_replace(impl, swap, x->found, deadline, err);
}

const struct tn_raw_ops tn_object_raw = {read_raw, free_raw, decode, take_damaged, replace};
