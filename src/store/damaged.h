/*
 * store/damaged.h - how a store shows a register that it cannot read.
 *
 * read() is CORRUPT.  A listing goes on behind it: its value is the reason, which
 * is no record of anything.  Whoever repairs (repair=yes) gets its bytes as they are,
 * to keep them and then replace just these (C2).  Its token is of a kind that no
 * value has which the store wrote, so nobody takes it for absent, and no plain
 * swap expects it.
 */
#ifndef TN_STORE_DAMAGED_H
#define TN_STORE_DAMAGED_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sum.h"
#include "tenure/store.h"

#define TN_DAMAGED     "damaged."
#define TN_DAMAGED_MAX ((size_t)8 * TENURE_DATA_MAX) /* what is larger is not ours in any way */

/* The token of these bytes. */
static inline void tn_damaged_token(const void *bytes, size_t len, struct tenure_token *token)
{
    uint64_t sum = tn_sum(TN_SUM_START, bytes, len);

    memset(token, 0, sizeof *token);
    snprintf(token->version, sizeof token->version, TN_DAMAGED "%016llx", (unsigned long long)sum);
    tn_sum_nonce(sum, token->nonce);
}

static inline bool tn_damaged(const struct tenure_token *token)
{
    return strncmp(token->version, TN_DAMAGED, sizeof TN_DAMAGED - 1) == 0;
}

/* The value of a register that consists of these bytes, and is not what the store writes. */
static inline enum tenure_status tn_damaged_value(struct tenure_value *value, const void *bytes,
                                                  size_t len, struct tenure_error *err)
{
    enum tenure_status status = tenure_value_set(value, bytes, len, err);

    if (status)
        return status;
    tn_damaged_token(bytes, len, &value->token);
    memset(value->prev, 0, sizeof value->prev);
    value->tombstone = false;
    return TENURE_OK;
}

/* The same of what was written to a stream over *bytes (open_memstream), which ends here. */
static inline enum tenure_status tn_damaged_stream(struct tenure_value *value, FILE *to,
                                                   char **bytes, const size_t *size,
                                                   struct tenure_error *err)
{
    enum tenure_status status = fclose(to) == 0 ? tn_damaged_value(value, *bytes, *size, err)
                                                : tenure_fail(err, TENURE_NOMEM, "out of memory");

    free(*bytes);
    return status;
}

/* Bytes as people read them. */
static inline void tn_damaged_quote(FILE *to, const void *bytes, size_t len)
{
    fputs("x'", to);
    for (size_t i = 0; i < len; i++)
        fprintf(to, "%02x", ((const unsigned char *)bytes)[i]);
    fputs("'", to);
}

/* What a listing shows of it to everybody else: why, instead of the bytes. */
static inline enum tenure_status tn_damaged_listed(struct tenure_value *value,
                                                   const struct tenure_error *why,
                                                   struct tenure_error *err)
{
    return tenure_value_set(value, why->text, strlen(why->text), err);
}

#endif
