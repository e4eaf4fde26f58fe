/*
 * Writing documents: a batch of swaps, then whatever was not plainly answered
 * is resolved one by one by reading back (I6).
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "state/inner.h"

enum tenure_status tn_state_check_length(const tenure_state *s, const char *key, size_t len,
                                         struct tenure_error *err)
{
    size_t most = s->info.data_max - TN_DOCUMENT_HEADER_MAX;

    if (len <= most)
        return TENURE_OK;
    return tenure_fail(err, TENURE_INVALID, "%s: %zu bytes are more than the %zu of a document",
                       key, len, most);
}

/* ---- One swap ------------------------------------------------------------ */

/* At most so many bytes are written for w. */
static size_t room_for(const struct tn_write *w)
{
    return TN_DOCUMENT_HEADER_MAX + (w->deleted ? 0 : w->len);
}

/* Fill swap from w, under a fresh nonce; its data go to bytes. */
static void prepare_swap(tenure_state *s, struct tn_write *w, struct tenure_swap *swap,
                         unsigned char *bytes)
{
    struct tn_document doc = {.fence = s->fence,
                              .seq = w->entry->seq + (w->seal_only ? 0 : 1),
                              .deleted = w->deleted,
                              .edited = w->edited,
                              .data = w->data,
                              .len = w->deleted ? 0 : w->len};

    assert(s->leads);
    assert(w->seal_only || w->entry->sealed); /* I4 */
    /* A create was announced (I3). */
    assert(s->terms || w->seal_only || w->entry->root || w->entry->announced ||
           !tenure_token_absent(&w->entry->token));
    memset(swap, 0, sizeof *swap);
    swap->len = tn_document_put(&doc, bytes);
    swap->data = bytes;
    w->last = tn_state_new_nonce(s, swap->nonce);
    if (!w->first)
        w->first = w->last;
    swap->key = w->entry->key;
    swap->expect = w->entry->token;
    swap->tombstone = w->deleted;
}

/* Take in what a swap answered.  true: w is done. */
static bool apply_answer(tenure_state *s, struct tn_write *w, const struct tenure_swap *swap)
{
    w->status = swap->status;
    if (swap->status == TENURE_OK) {
        tn_entry_set_token(s, w->entry, &swap->token);
        w->entry->seq += w->seal_only ? 0 : 1;
        w->seq = w->entry->seq;
        return true;
    }
    if (swap->status == TENURE_FENCED) /* of a store that fences terms */
        s->fenced = true;
    if (swap->status == TENURE_UNKNOWN) {
        w->unsure = true;
        tn_entry_mark(s, w->entry, &w->entry->open, true);
    }
    if (swap->status == TENURE_UNKNOWN || swap->status == TENURE_CONFLICT)
        return false;
    /* This try came to nothing; an earlier one may still land (I6). */
    if (!w->unsure)
        return true;
    w->status = TENURE_UNKNOWN;
    return tenure_status_class(swap->status) != TENURE_CLASS_TRANSIENT;
}

/* ---- Resolving ----------------------------------------------------------- */

enum finding { DONE, TRY_AGAIN };

/*
 * Somebody else's value is there, and the caller has not seen it.  What it
 * tried cannot land any more; it may have landed and been overwritten.
 */
static enum finding end_superseded(tenure_state *s, struct tn_write *w, const char *text,
                                   struct tenure_error *err)
{
    if (w->seal_only)
        w->entry->sealed = false; /* to be looked at again */
    else
        tn_entry_mark(s, w->entry, &w->entry->doubt, true);
    w->status = tenure_fail(err, w->unsure ? TENURE_UNKNOWN : TENURE_CONFLICT,
                            "%s: %s; load it again", w->entry->key, text);
    return DONE;
}

/* What the register shows under our own grant, after a conflict or silence. */
static enum finding resolve_own(tenure_state *s, struct tn_write *w,
                                const struct tenure_value *value, const struct tn_document *doc,
                                struct tenure_error *err)
{
    struct tn_entry *entry = w->entry;
    uint64_t number = tn_state_nonce_number(s, value->token.nonce);
    uint64_t before = tn_state_nonce_number(s, value->prev);

    if (tenure_token_equal(&entry->token, &value->token))
        return TRY_AGAIN; /* proves nothing about the first try; the next swap settles it */
    bool restored = tn_entry_is_restored(s, entry, &value->token);
    if (restored)
        number = 0;
    /* The caller was shown that there is none: an operator's create meanwhile is news to it. */
    if (w->seal_only && entry->sealed && !number && tenure_token_absent(&entry->token))
        tn_entry_mark(s, entry, &entry->doubt, true);
    tn_entry_set_token(s, entry, &value->token);
    entry->seq = doc->seq;
    if (number && number < w->first && !w->seal_only)
        return TRY_AGAIN; /* an earlier commit of ours came in late; ours goes on top */
    if (number && number < w->first) {
        w->status = TENURE_CONFLICT; /* a seal goes on top of nothing: it is looked at again */
        return DONE;
    }
    w->seq = doc->seq;
    if (number) {
        w->status = TENURE_OK;
        return DONE;
    }
    if (before && before >= w->first) { /* ours was there, until an operator came */
        w->seq = doc->seq - 1;
        /* A load takes it away; a seal is no look. */
        tn_entry_mark(s, entry, &entry->doubt, true);
        w->status = w->seal_only ? TENURE_CONFLICT : TENURE_OK; /* a seal is looked at again */
        return DONE;
    }
    return end_superseded(s, w,
                          restored      ? "an older version has been restored"
                          : doc->edited ? "edited by an operator"
                                        : "changed by another writer under the same grant",
                          err);
}

static enum finding read_back(tenure_state *s, struct tn_write *w, int64_t deadline,
                              struct tenure_error *err)
{
    struct tenure_value value = {0};
    struct tn_document doc;
    enum finding finding = DONE;
    enum tenure_status status = tenure_store_read(s->store, w->entry->key, &value, deadline, err);

    if (status) {
        w->status = w->unsure ? TENURE_UNKNOWN : status;
        finding = tenure_status_class(status) == TENURE_CLASS_TRANSIENT ? TRY_AGAIN : DONE;
        goto done;
    }
    if (tenure_token_absent(&value.token)) {
        finding = tenure_token_absent(&w->entry->token) ? TRY_AGAIN : DONE;
        w->entry->sealed = finding == TRY_AGAIN;
        if (finding == DONE)
            end_superseded(s, w, "no longer exists", err);
        goto done;
    }
    status = tn_document_decode(&value, &doc, err);
    if (status) { /* ours may have been there before it was damaged */
        tenure_fail_context(err, "%s", w->entry->key);
        w->status = w->unsure ? TENURE_UNKNOWN : status;
        goto done;
    }
    tn_state_raise_floor(s, doc.fence.epoch);
    switch (tn_fence_judge(&doc.fence, &s->fence)) {
    case TN_VERDICT_SAME:
        finding = resolve_own(s, w, &value, &doc, err);
        break;
    case TN_VERDICT_RAISE: /* older than us: restored from a back-up, or never sealed */
        w->entry->sealed = false;
        end_superseded(s, w, "an older version has been restored", err);
        break;
    default:
        w->status = tn_state_set_fenced(s, w->entry->key, err);
        break;
    }
done:
    tenure_value_free(&value);
    return finding;
}

static void resolve(tenure_state *s, struct tn_write *w, int64_t deadline, struct tenure_error *err)
{
    unsigned char *bytes = NULL;

    for (unsigned round = 0;; round++) {
        struct tenure_swap swap;

        if (read_back(s, w, deadline, err) == DONE)
            break;
        if (tenure_now() >= deadline) {
            w->status =
                tenure_fail(err, w->unsure ? TENURE_UNKNOWN : TENURE_TIMEOUT,
                            "%s: the outcome could not be determined in time", w->entry->key);
            break;
        }
        if (round > 0)
            usleep(1000 * (round < 50 ? round : 50));
        if (!bytes && !(bytes = malloc(room_for(w)))) {
            w->status = tenure_fail(err, w->unsure ? TENURE_UNKNOWN : TENURE_NOMEM,
                                    "%s: out of memory", w->entry->key);
            break;
        }
        prepare_swap(s, w, &swap, bytes);
        tenure_store_swap(s->store, &swap, deadline, err);
        if (apply_answer(s, w, &swap))
            break;
    }
    free(bytes);
}

/* ---- Many ---------------------------------------------------------------- */

static void write_chunk(tenure_state *s, struct tn_write *writes, size_t n, int64_t deadline,
                        struct tenure_error *err)
{
    size_t size = 0;

    for (size_t i = 0; i < n; i++)
        size += room_for(&writes[i]);
    struct tenure_swap *swaps = malloc(n * sizeof *swaps);
    unsigned char *bytes = malloc(size), *end = bytes; /* of all: many small pieces cost more */
    if (!swaps || !bytes) {
        for (size_t i = 0; i < n; i++)
            writes[i].status = tenure_fail(err, TENURE_NOMEM, "out of memory for a batch");
        goto done;
    }
    for (size_t i = 0; i < n; i++) {
        prepare_swap(s, &writes[i], &swaps[i], end);
        end += swaps[i].len;
    }
    if (n == 1)
        tenure_store_swap(s->store, swaps, deadline, err);
    else
        tenure_store_swap_many(s->store, swaps, n, deadline, err);
    for (size_t i = 0; i < n; i++) { /* both are sorted by key, and no key is there twice */
        if (!apply_answer(s, &writes[i], &swaps[i]))
            resolve(s, &writes[i], deadline, err);
    }
done:
    free(bytes);
    free(swaps);
}

static int by_key(const void *a, const void *b)
{
    const struct tn_write *left = a, *right = b;

    return strcmp(left->entry->key, right->entry->key);
}

/* How many of the writes go into one batch: the store's own bound, and not
 * more memory than a few of its largest values. */
static size_t chunk_of(const tenure_state *s, const struct tn_write *writes, size_t n)
{
    size_t bytes = 0, most = s->info.batch_max ? s->info.batch_max : 1, i;

    for (i = 0; i < n && i < most; i++) {
        bytes += room_for(&writes[i]);
        if (i > 0 && bytes > 4u * TENURE_DATA_MAX)
            break;
    }
    return i;
}

void tn_state_write(tenure_state *s, struct tn_write *writes, size_t n, int64_t deadline,
                    struct tenure_error *err)
{
    size_t sorted = 1;

    while (sorted < n && by_key(&writes[sorted - 1], &writes[sorted]) < 0)
        sorted++;
    if (sorted < n)
        qsort(writes, n, sizeof *writes, by_key);
    for (size_t done = 0; done < n;) {
        size_t chunk = chunk_of(s, writes + done, n - done);

        write_chunk(s, writes + done, chunk, deadline, err);
        done += chunk;
    }
}
