/* Seal, then read (I4): nothing is used before the store refuses older epochs for it. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "store/state_inner.h"

/* One try to raise the epoch of what was read.  OK, CONFLICT, UNKNOWN, or an error. */
static enum tenure_status raise(tenure_state *s, struct tn_entry *entry,
                                const struct tenure_value *value, const struct tn_document *doc,
                                int64_t deadline, struct tenure_error *err)
{
    struct tn_document sealed = *doc;
    struct tenure_swap swap = {
        .key = entry->key, .expect = value->token, .tombstone = doc->deleted};
    unsigned char *bytes = NULL;
    enum tenure_status status;

    sealed.fence = s->fence;
    status = tn_document_encode(&sealed, &bytes, &swap.len, err);
    if (status)
        return status;
    swap.data = bytes;
    tn_state_nonce(s, swap.nonce);
    status = tenure_store_swap(s->store, &swap, deadline, err);
    if (status == TENURE_OK)
        tn_entry_holds(s, entry, &swap.token);
    free(bytes);
    return status;
}

enum tenure_status tn_state_seal_entry(tenure_state *s, struct tn_entry *entry,
                                       struct tenure_value *value, struct tn_document *doc,
                                       bool *found, int64_t deadline, struct tenure_error *err)
{
    enum tenure_status status;

    for (unsigned round = 0;; round++) {
        status = tenure_store_read(s->store, entry->key, value, deadline, err);
        if (status)
            return status;
        *found = !tenure_token_absent(&value->token);
        tn_entry_saw(s, entry, &value->token);
        entry->seq = 0;
        entry->sealed = s->leads;
        if (!*found)
            return TENURE_OK;
        entry->sealed = false;
        status = tn_document_decode(value, doc, err);
        if (status)
            return tenure_fail_context(err, "%s", entry->key);
        entry->seq = doc->seq;
        tn_state_note(s, doc->fence.epoch);
        if (!s->leads)
            return TENURE_OK;
        switch (tn_fence_judge(&doc->fence, &s->fence)) {
        case TN_VERDICT_SAME: /* sealed before, or by a try whose answer was lost */
            entry->sealed = true;
            return TENURE_OK;
        case TN_VERDICT_RAISE:
            status = raise(s, entry, value, doc, deadline, err);
            break;
        default:
            return tn_state_fenced(s, entry->key, err);
        }
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
