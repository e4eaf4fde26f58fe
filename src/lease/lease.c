#include "lease/lease.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/key.h"
#include "store/lease_record.h"

void tn_lease_seen_free(struct tn_lease_seen *seen)
{
    free(seen->extra);
    memset(seen, 0, sizeof *seen);
}

enum tenure_status tn_lease_read(tenure_store *store, const char *name, struct tenure_value *buffer,
                                 struct tn_lease_seen *seen, int64_t deadline,
                                 struct tenure_error *err)
{
    char key[TENURE_KEY_MAX + 1];

    tn_key_of(name, TN_KEY_LEASE, key);
    enum tenure_status status = tenure_store_read(store, key, buffer, deadline, err);
    return status ? status : tn_lease_see(buffer, seen, err);
}

enum tenure_status tn_lease_see(const struct tenure_value *value, struct tn_lease_seen *seen,
                                struct tenure_error *err)
{
    struct tn_lease_seen fresh = {.token = value->token, .tombstone = value->tombstone};
    enum tenure_status status;

    if (!tenure_token_absent(&value->token) && !(value->tombstone && value->len == 0)) {
        status = tn_lease_decode(value->data, value->len, &fresh.lease, &fresh.extra, &fresh.why);
        fresh.present = status == TENURE_OK;
        fresh.corrupt = status == TENURE_CORRUPT;
        if (status != TENURE_OK && status != TENURE_CORRUPT) {
            if (err)
                *err = fresh.why;
            return status;
        }
    }
    fresh.refused = fresh.corrupt;
    if (fresh.present && !tn_lease_sane(&fresh.lease)) {
        fresh.refused = true;
        tenure_fail(&fresh.why, TENURE_CORRUPT,
                    "lease record: epoch %" PRIu64 ", ttl_ms %" PRIu32 ": an epoch is 1 to %" PRIu64
                    ", a ttl %u to %u ms",
                    fresh.lease.epoch, fresh.lease.ttl_ms, TN_EPOCH_MAX - 1, TN_TTL_MIN_MS,
                    TN_TTL_MAX_MS);
    }
    tn_lease_seen_free(seen);
    *seen = fresh;
    return TENURE_OK;
}

enum tenure_status tn_lease_swap(tenure_store *store, const char *name,
                                 const struct tenure_token *expect,
                                 const uint8_t nonce[TENURE_NONCE_SIZE],
                                 const struct tn_lease *lease, const char *extra,
                                 struct tenure_token *token, int64_t deadline,
                                 struct tenure_error *err)
{
    char key[TENURE_KEY_MAX + 1];
    char *text = NULL;
    struct tenure_swap swap = {.key = key, .expect = *expect};
    enum tenure_status status;

    tn_key_of(name, TN_KEY_LEASE, key);
    status = tn_lease_encode(lease, extra, &text, &swap.len, err);
    if (status)
        return status;
    swap.data = text;
    memcpy(swap.nonce, nonce, TENURE_NONCE_SIZE);
    status = tenure_store_swap(store, &swap, deadline, err);
    if (status == TENURE_OK)
        *token = swap.token;
    free(text);
    return status;
}
