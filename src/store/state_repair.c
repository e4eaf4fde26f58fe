/*
 * An operator's repair of what is not a document any more.  Its bytes are kept
 * first, as a document of their own; only then is it replaced, by a swap on the
 * very bytes that were kept, so nothing is ever dropped.
 *
 * The fence of a damaged document is lost with it.  The root's takes its place:
 * whoever leads has sealed the root, so nothing older gets in by a repair (I3),
 * and the leader itself is not fenced by it.  A damaged root gets the highest
 * fence of its documents.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/state_calls.h"

/* ---- The fence ----------------------------------------------------------- */

static enum tenure_status root_fence(tenure_state *s, const char *root, struct tn_fence *fence,
                                     int64_t deadline, struct tenure_error *err)
{
    struct tenure_value value = {0};
    struct tn_document doc = {.fence.epoch = 1}; /* nobody has ever led here */
    enum tenure_status status = tenure_store_read(s->store, root, &value, deadline, err);

    if (!status && !tenure_token_absent(&value.token) &&
        (status = tn_document_decode(&value, &doc, err)))
        status = tenure_fail_context(err, "the root of the collection, which must be repaired "
                                          "first, is");
    if (!status)
        *fence = doc.fence;
    tenure_value_free(&value);
    return status;
}

static bool note_fence(void *arg, const char *key, const struct tenure_value *value)
{
    struct tn_fence *highest = arg;
    struct tn_document doc;

    (void)key;
    if (tn_document_decode(value, &doc, NULL) == TENURE_OK && doc.fence.epoch > highest->epoch)
        *highest = doc.fence;
    return true;
}

static enum tenure_status highest_fence(tenure_state *s, const char *root, struct tn_fence *fence,
                                        int64_t deadline, struct tenure_error *err)
{
    char prefix[TENURE_KEY_MAX + 2];

    *fence = (struct tn_fence){.epoch = 1};
    snprintf(prefix, sizeof prefix, "%s/", root);
    return tenure_store_list(s->store, prefix, NULL, note_fence, fence, NULL, deadline, err);
}

/* ---- Keeping ------------------------------------------------------------- */

/* The bytes of value as a document of their own; OK also if they are kept already. */
static enum tenure_status keep(tenure_state *s, const char *collection, const char *id,
                               const struct tenure_value *value, int64_t deadline,
                               struct tenure_error *err)
{
    struct tenure_document kept = {0};
    enum tenure_status status = tn_state_load(s, collection, id, &kept, deadline, err);

    if (!status && kept.exists && kept.value.len == value->len &&
        memcmp(kept.value.data, value->data, value->len) == 0)
        goto done;
    if (!status && kept.exists)
        status = tenure_fail(err, TENURE_CONFLICT, "%s/%s holds something else; move it away",
                             collection, id);
    if (!status)
        status =
            tn_state_edit(s, collection, id, &kept, value->len ? (const void *)value->data : "",
                          value->len, deadline, err);
    if (status)
        tenure_fail_context(err, "could not be kept as %s/%s, and was left alone", collection, id);
done:
    tenure_document_free(&kept);
    return status;
}

/* ---- Repairing ----------------------------------------------------------- */

static enum tenure_status replace(tenure_state *s, tenure_store *store, const char *key,
                                  const struct tenure_token *seen, const struct tn_document *doc,
                                  int64_t deadline, struct tenure_error *err)
{
    struct tenure_swap swap = {.key = key, .expect = *seen, .tombstone = doc->deleted};
    unsigned char *bytes = NULL;
    enum tenure_status status = tn_document_encode(doc, &bytes, &swap.len, err);

    if (status)
        return status;
    swap.data = bytes;
    tn_state_nonce(s, swap.nonce);
    status = tenure_store_swap(store, &swap, deadline, err);
    free(bytes);
    return status;
}

/*
 * The store itself says that its data is damaged.  Stores that know the rest of
 * the register, though, can be opened to read and replace it as it is.
 */
static enum tenure_status look_below(tenure_state *s, const char *key, struct tenure_value *value,
                                     tenure_store **store, int64_t deadline,
                                     struct tenure_error *err)
{
    char *url = malloc(strlen(s->url) + 16);
    struct tenure_error told = *err;
    enum tenure_status status;

    if (!url)
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    sprintf(url, "%s%cmend=yes", s->url, strchr(s->url, '?') ? '&' : '?');
    status = tenure_store_open(url, deadline, store, err);
    explicit_bzero(url, strlen(url));
    free(url);
    if (!status)
        status = tenure_store_read(*store, key, value, deadline, err);
    if (status) /* not this store, or not this damage: what it said first says more */
        *err = told;
    return status ? TENURE_CORRUPT : TENURE_OK;
}

/* key is read into value, from *store, and is indeed damaged. */
static enum tenure_status look(tenure_state *s, const char *key, struct tenure_value *value,
                               tenure_store **mender, int64_t deadline, struct tenure_error *err)
{
    struct tn_document doc;
    enum tenure_status status = tenure_store_read(s->store, key, value, deadline, err);

    if (status == TENURE_CORRUPT)
        return look_below(s, key, value, mender, deadline, err);
    if (status)
        return status;
    if (tenure_token_absent(&value->token))
        return tenure_fail(err, TENURE_INVALID, "%s: there is nothing", key);
    if (tn_document_decode(value, &doc, err) == TENURE_OK)
        return tenure_fail(err, TENURE_INVALID, "%s: is not damaged", key);
    return TENURE_OK;
}

static enum tenure_status repair(tenure_state *s, const char *collection, const char *id,
                                 const void *data, size_t len, char kept[TENURE_KEEP_MAX + 1],
                                 int64_t deadline, struct tenure_error *err)
{
    struct tn_document doc = {
        .seq = 1, .edited = true, .deleted = !data, .data = data, .len = data ? len : 0};
    char root[TENURE_KEY_MAX + 1], key[TENURE_KEY_MAX + 1];
    char aside[TENURE_KEY_MAX + 16], name[2 * TENURE_KEY_MAX];
    struct tenure_value value = {0};
    tenure_store *mender = NULL; /* opened for damage that the store knows of */
    enum tenure_status status = tn_document_root(s->name, collection, root, err);

    if (!status && *id)
        status = tn_document_key(s->name, collection, id, key, err);
    else if (!status)
        memcpy(key, root, sizeof key);
    if (!status)
        status = look(s, key, &value, &mender, deadline, err);
    if (!status)
        status = *id ? root_fence(s, root, &doc.fence, deadline, err)
                     : highest_fence(s, root, &doc.fence, deadline, err);
    snprintf(aside, sizeof aside, "%s.damaged", collection);
    snprintf(name, sizeof name, "%s@%s", id, value.token.version);
    if (!status)
        status = keep(s, aside, name, &value, deadline, err);
    if (!status && !*id) { /* nothing is announced any more */
        doc.deleted = doc.edited = false;
        doc.data = NULL;
        doc.len = 0;
    }
    if (!status)
        status = replace(s, mender ? mender : s->store, key, &value.token, &doc, deadline, err);
    if (!status)
        snprintf(kept, TENURE_KEEP_MAX + 1, "%s/%s", aside, name);
    tenure_store_close(mender);
    tenure_value_free(&value);
    return status;
}

enum tenure_status tenure_state_repair(tenure_state *s, const char *collection, const char *id,
                                       const void *data, size_t len, char kept[TENURE_KEEP_MAX + 1],
                                       int64_t deadline, struct tenure_error *err)
{
    struct tenure_error scratch;
    enum tenure_status status;

    if (!err)
        err = &scratch;
    if (s->leads)
        return tenure_fail(err, TENURE_INVALID, "a leader commits; it does not repair");
    tn_state_turn(s);
    status = repair(s, collection, id, data, len, kept, deadline, err);
    tn_state_next(s);
    return status;
}
