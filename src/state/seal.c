/* Seal, then read (I4): nothing is used before the store refuses older epochs for it. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "state/calls.h"

/* One try to raise the epoch of what was read.  OK, CONFLICT, UNKNOWN, or an error. */
static enum tenure_status raise_fence(tenure_state *s, struct tn_entry *entry,
                                      const struct tenure_value *value,
                                      const struct tn_document *doc, int64_t deadline,
                                      struct tenure_error *err)
{
    struct tn_document sealed = *doc;
    struct tenure_swap swap = {
        .key = entry->key, .expect = value->token, .tombstone = doc->deleted};
    unsigned char *bytes = NULL;
    enum tenure_status status;

    assert(s->leads && doc->fence.epoch <= s->fence.epoch); /* a fence is never lowered (I3) */
    sealed.fence = s->fence;
    status = tn_document_encode(&sealed, &bytes, &swap.len, err);
    if (status)
        return status;
    swap.data = bytes;
    tn_state_new_nonce(s, swap.nonce);
    status = tenure_store_swap(s->store, &swap, deadline, err);
    if (status == TENURE_OK)
        tn_entry_set_token(s, entry, &swap.token);
    free(bytes);
    return status;
}

enum tenure_status tn_state_seal_entry(tenure_state *s, struct tn_root *root,
                                       struct tn_entry *entry, struct tenure_value *value,
                                       struct tn_document *doc, bool *found, int64_t deadline,
                                       struct tenure_error *err)
{
    enum tenure_status status;

    for (unsigned round = 0;; round++) {
        status = tenure_store_read(s->store, entry->key, value, deadline, err);
        if (status)
            return status;
        bool known = tn_entry_is_known(entry, &value->token);
        *found = !tenure_token_absent(&value->token);
        tn_entry_observe(s, entry, &value->token);
        entry->seq = 0;
        entry->sealed = s->leads;
        if (!*found)
            return TENURE_OK;
        entry->sealed = false;
        status = tn_document_decode(value, doc, err);
        if (status)
            return tenure_fail_context(err, "%s", entry->key);
        entry->seq = doc->seq;
        tn_state_raise_floor(s, doc->fence.epoch);
        if (!s->leads)
            return TENURE_OK;
        enum tn_verdict verdict = tn_fence_judge(&doc->fence, &s->fence);
        if (verdict != TN_VERDICT_SAME && verdict != TN_VERDICT_RAISE)
            return tn_state_set_fenced(s, entry->key, err);
        if (root && !s->terms && doc->edited && !known &&
            (status = tn_root_confirm(s, root, deadline, err)))
            return status;
        /* Sealed before, or by a try whose answer was lost.  What is shown must not change
         * afterwards: if a commit may still land, only a swap on that base settles it (I6). */
        entry->sealed = verdict == TN_VERDICT_SAME || s->terms;
        if (entry->sealed && !entry->open)
            return TENURE_OK;
        status = raise_fence(s, entry, value, doc, deadline, err);
        if (status == TENURE_OK) {
            entry->sealed = true;
            return TENURE_OK;
        }
        /* Somebody wrote in between, or nobody knows: what is there decides. */
        if (status != TENURE_CONFLICT && status != TENURE_UNKNOWN)
            return status;
        if (tenure_now() >= deadline)
            return tenure_fail(err, TENURE_TIMEOUT, "%s: could not be sealed in time", entry->key);
        if (round > 2)
            usleep(1000);
    }
}

/* ---- Damage -------------------------------------------------------------- */

/* What the store itself cannot read: does it look before it replaces?  Asked with a token that
 * nothing has, so nothing is written. */
static bool store_compares(tenure_state *s, const char *key, int64_t deadline)
{
    struct tenure_swap swap = {.key = key, .expect.version = "1", .data = "", .len = 0};
    struct tenure_error err;

    return !tenure_nonce(swap.expect.nonce, &err) && !tenure_nonce(swap.nonce, &err) &&
           tenure_store_swap(s->store, &swap, deadline, &err) == TENURE_CORRUPT;
}

/*
 * What is no document bears no fence, and must not keep a leader from the rest.
 * It is written again just as it is, under a nonce of ours: whoever knew it
 * before meets a conflict, and then the damage (I4).  What the store itself
 * cannot read must be guarded by it: else somebody may still replace it, and
 * the seal is CORRUPT until it is repaired.
 */
enum tenure_status tn_state_hold_damaged(tenure_state *s, struct tn_root *root,
                                         struct tn_entry *entry, int64_t deadline,
                                         struct tenure_error *err)
{
    struct tenure_value value = {0};
    struct tn_document doc;
    enum tenure_status status;
    bool found;

    do {
        struct tenure_swap swap = {.key = entry->key};

        status = tenure_store_read(s->store, entry->key, &value, deadline, err);
        if (status)
            break;
        if (tenure_token_absent(&value.token) ||
            tn_document_decode(&value, &doc, err) ==
                TENURE_OK) { /* restored or repaired just now */
            status = tn_state_load_entry(s, root, entry, &value, &doc, &found, deadline, err);
            break;
        }
        if (tn_state_nonce_number(s, value.token.nonce))
            break; /* by a try whose answer was lost */
        swap.expect = value.token;
        swap.tombstone = value.tombstone;
        swap.data = value.data;
        swap.len = value.len;
        tn_state_new_nonce(s, swap.nonce);
        status = tenure_store_swap(s->store, &swap, deadline, err);
    } while ((status == TENURE_CONFLICT || status == TENURE_UNKNOWN) && tenure_now() < deadline);
    tenure_value_free(&value);
    if (status == TENURE_UNKNOWN || status == TENURE_CONFLICT)
        return tenure_fail(err, TENURE_TIMEOUT, "%s: could not be sealed in time", entry->key);
    return status == TENURE_CORRUPT && store_compares(s, entry->key, deadline) ? TENURE_OK : status;
}
