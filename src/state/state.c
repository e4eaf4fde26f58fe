/* tenure_state: the handle, and one document at a time. */
#include "tenure/state.h"
#include "base/key.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/name.h"
#include "state/calls.h"
#include "state/inner.h"
#include "store/term.h"
#include "tenure/elector.h"

/* ---- The handle ---------------------------------------------------------- */

/* Pass our term to a store that fences terms itself; its handle then answers FENCED by itself. */
static enum tenure_status begin_term(tenure_state *s, const struct tenure_grant *grant,
                                     int64_t deadline, struct tenure_error *err)
{
    uint64_t floor = 0;
    enum tenure_status status = tn_store_begin(s->store, grant, &floor, deadline, err);

    s->terms = status != TENURE_UNSUPPORTED;
    if (status == TENURE_FENCED) {
        s->fenced = true;
        tn_state_raise_floor(s, floor);
    }
    return s->terms && status != TENURE_FENCED ? status : TENURE_OK;
}

enum tenure_status tenure_state_open(const char *url, const char *name,
                                     const struct tenure_grant *grant, int64_t deadline,
                                     tenure_state **state, struct tenure_error *err)
{
    struct tenure_error scratch;
    tenure_state *s = NULL;
    enum tenure_status status = TENURE_OK;

    if (!err)
        err = &scratch;
    const char *fault = tn_name_fault(name);
    if (fault)
        return tenure_fail(err, TENURE_INVALID, "'%.60s' cannot be the name of an election: %s",
                           name ? name : "", fault);
    if (grant && (grant->epoch == 0 || grant->epoch > TN_EPOCH_MAX))
        return tenure_fail(err, TENURE_INVALID, "epoch %llu is out of range",
                           (unsigned long long)grant->epoch);
    s = calloc(1, sizeof *s);
    if (!s || !(s->name = strdup(name)) || !(s->url = strdup(url)))
        status = tenure_fail(err, TENURE_NOMEM, "out of memory");
    else if (!(status = tenure_nonce(s->nonce_base, err)))
        status = tenure_store_open(url, deadline, &s->store, err);
    if (!status && grant)
        status = begin_term(s, grant, deadline, err);
    if (status) {
        if (s) {
            tenure_store_close(s->store);
            free(s->name);
            free(s->url);
        }
        free(s);
        return status;
    }
    tn_turn_init(&s->turn);
    tn_turn_init(&s->reader_turn);
    tn_turn_init(&s->watcher_turn);
    s->queue_tail = &s->queue;
    s->info = *tenure_store_info(s->store);
    if (grant) {
        s->leads = true;
        s->fence.epoch = grant->epoch;
        memcpy(s->fence.grant, grant->id, TENURE_NONCE_SIZE);
    }
    *state = s;
    return TENURE_OK;
}

void tenure_state_close(tenure_state *s)
{
    if (!s)
        return;
    tn_state_free_cache(s);
    assert(!s->queue);
    tenure_store_close(s->store);
    tenure_store_close(s->reader);
    tenure_store_close(s->watcher);
    tn_turn_destroy(&s->turn);
    tn_turn_destroy(&s->reader_turn);
    tn_turn_destroy(&s->watcher_turn);
    explicit_bzero(s->url, strlen(s->url));
    free(s->url);
    free(s->name);
    free(s);
}

uint64_t tenure_state_floor(const tenure_state *s)
{
    return s->floor;
}

void tenure_document_free(struct tenure_document *document)
{
    if (!document)
        return;
    tenure_value_free(&document->value);
    memset(document, 0, sizeof *document);
}

enum tenure_status tn_document_fill(struct tenure_document *out, const struct tenure_value *value,
                                    const struct tn_document *doc, bool found,
                                    struct tenure_error *err)
{
    struct tenure_value kept = out->value;
    bool alive = found && !doc->deleted;
    enum tenure_status status =
        tenure_value_set(&kept, alive ? doc->data : NULL, alive ? doc->len : 0, err);

    out->value = kept;
    if (status)
        return status;
    out->value.token = value->token;
    memcpy(out->value.prev, value->prev, TENURE_NONCE_SIZE);
    out->value.tombstone = found && doc->deleted;
    out->epoch = found ? doc->fence.epoch : 0;
    out->seq = found ? doc->seq : 0;
    out->exists = alive;
    out->edited = found && doc->edited;
    return TENURE_OK;
}

/* ---- Load ---------------------------------------------------------------- */

enum tenure_status tn_state_load_entry(tenure_state *s, struct tn_root *root,
                                       struct tn_entry *entry, struct tenure_value *value,
                                       struct tn_document *doc, bool *found, int64_t deadline,
                                       struct tenure_error *err)
{
    enum tenure_status status;

    for (;;) {
        status = tn_state_seal_entry(s, root, entry, value, doc, found, deadline, err);
        if (status || *found || !s->leads || !entry->announced)
            return status;
        /* Announced by an earlier leader, whose create may still be on its way:
         * a sealed tombstone in its place keeps it out. */
        struct tn_write block = {.entry = entry, .deleted = true, .seal_only = true};
        tn_state_write(s, &block, 1, deadline, err);
        if (block.status == TENURE_UNKNOWN) /* of the block; nothing is known of the document */
            return tenure_fail(err, TENURE_TIMEOUT, "%s: could not be sealed in time", entry->key);
        if (block.status != TENURE_CONFLICT)
            return block.status;
    }
}

/* seen: the caller is shown it, and knows from now on what others have written there. */
static enum tenure_status load(tenure_state *s, const char *collection, const char *id, bool seen,
                               struct tenure_document *document, int64_t deadline,
                               struct tenure_error *err)
{
    char key[TENURE_KEY_MAX + 1];
    struct tenure_value value = {0};
    struct tn_document doc = {0};
    struct tn_root *root = NULL;
    struct tn_entry *entry;
    bool found = false;
    enum tenure_status status;

    if ((status = tn_key_document(s->name, collection, id, key, err)) ||
        (s->leads && (status = tn_state_root(s, collection, &root, deadline, err))))
        return status;
    entry = tn_entry_get(s, key);
    if (!entry)
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    status = tn_state_load_entry(s, root, entry, &value, &doc, &found, deadline, err);
    if (status == TENURE_OK)
        status = tn_document_fill(document, &value, &doc, found, err);
    if (status == TENURE_OK && seen)
        tn_entry_mark(s, entry, &entry->doubt, false);
    tenure_value_free(&value);
    return status;
}

enum tenure_status tn_state_load(tenure_state *s, const char *collection, const char *id,
                                 struct tenure_document *document, int64_t deadline,
                                 struct tenure_error *err)
{
    return load(s, collection, id, true, document, deadline, err);
}

enum tenure_status tn_state_exists(tenure_state *s, const char *collection, const char *id,
                                   bool *exists, int64_t deadline, struct tenure_error *err)
{
    struct tenure_document d = {0};
    enum tenure_status status;

    if ((status = tn_state_begin(s, collection, deadline, err)))
        return status;
    status = load(s, collection, id, false, &d, deadline, err);
    tn_state_end(s);
    if (status == TENURE_OK)
        *exists = d.exists;
    tenure_document_free(&d);
    return status;
}

/*
 * Read a document that this handle has written or sealed, beside a commit that is under way: it is
 * what it was before the commit.  false: there is more to it, which takes the turn.  Nothing is
 * shown of the commit itself, which the store may show before it is on the disk; nor while a commit
 * of unknown outcome may still land (I6), or while the caller has to be shown what somebody else
 * has written.
 */
static bool load_beside(tenure_state *s, tenure_store *store, const char *key,
                        struct tenure_document *document, int64_t deadline)
{
    struct tenure_value value = {0};
    struct tn_document doc = {0};
    struct tenure_error err;
    bool plain = !s->unsettled && !tenure_store_read(store, key, &value, deadline, &err);
    bool found = plain && !tenure_token_absent(&value.token);

    if (found)
        plain = !tn_document_decode(&value, &doc, &err);
    uint64_t number = found ? tn_state_nonce_number(s, value.token.nonce) : 0;
    if (s->leads)
        plain = plain && number && number <= s->settled &&
                tn_fence_judge(&doc.fence, &s->fence) == TN_VERDICT_SAME;
    plain = plain && !s->unsettled && !s->fenced;
    if (plain) {
        tn_state_raise_floor(s, doc.fence.epoch);
        plain = !tn_document_fill(document, &value, &doc, found, &err);
    }
    tenure_value_free(&value);
    return plain;
}

enum tenure_status tenure_state_load(tenure_state *s, const char *collection, const char *id,
                                     struct tenure_document *document, int64_t deadline,
                                     struct tenure_error *err)
{
    char key[TENURE_KEY_MAX + 1];
    struct tenure_error scratch;
    struct tn_reading reading;
    enum tenure_status status;

    if (!err)
        err = &scratch;
    if ((status = tn_key_document(s->name, collection, id, key, err)) ||
        (status = tn_reading_begin(s, &reading, deadline, err)))
        return status;
    if (reading.beside) {
        bool shown = load_beside(s, reading.store, key, document, deadline);

        tn_reading_end(&reading);
        if (shown)
            return TENURE_OK;
        if ((status = tn_state_begin(s, collection, deadline, err)))
            return status;
    }
    status = s->fenced ? tn_state_set_fenced(s, collection, err)
                       : tn_state_load(s, collection, id, document, deadline, err);
    tn_state_end(s);
    return status;
}
