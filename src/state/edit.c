/*
 * An operator's edit: under the fence that is stored, never a new one, so that
 * it fences nobody and the leader adopts it.
 *
 * A create is announced in the collection's root, as a leader's is: otherwise
 * it could land behind a take-over under the fence of the leader before, who
 * would find a document of its own in a collection that was taken from it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/key.h"
#include "state/calls.h"

/* Announcements that no operator needs any more are looked for from this size on. */
#define PRUNE_FROM 4096

/* Is segment a line of the root? */
static bool is_announced(const struct tn_document *root, const char *segment)
{
    const char *text = (const char *)root->data, *end = text + root->len;
    size_t n = strlen(segment);

    while (text < end) {
        const char *line = memchr(text, '\n', (size_t)(end - text));
        size_t len = (size_t)((line ? line : end) - text);

        if (len == n && memcmp(text, segment, n) == 0)
            return true;
        text += len + 1;
    }
    return false;
}

/* Is there a register, of whatever content?  Then it needs no announcement. */
static enum tenure_status register_exists(tenure_state *s, const char *root, const char *segment,
                                          size_t n, bool *is, int64_t deadline,
                                          struct tenure_error *err)
{
    char key[2 * TENURE_KEY_MAX + 2];
    struct tenure_value value = {0};
    enum tenure_status status;

    snprintf(key, sizeof key, "%s/%.*s", root, (int)n, segment);
    status =
        tenure_key_valid(key) ? tenure_store_read(s->store, key, &value, deadline, err) : TENURE_OK;
    *is = !status && !tenure_token_absent(&value.token);
    tenure_value_free(&value);
    return status;
}

/* The root's lines and one more; those that exist are left out of a long one.  malloc'ed. */
static enum tenure_status add_line(tenure_state *s, const char *key, const struct tn_document *root,
                                   const char *segment, char **out, size_t *len, int64_t deadline,
                                   struct tenure_error *err)
{
    const char *text = (const char *)root->data, *end = text + root->len;
    char *lines = malloc(root->len + strlen(segment) + 3);
    enum tenure_status status = TENURE_OK;
    size_t used = 0;

    if (!lines)
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    while (!status && text < end) {
        const char *line = memchr(text, '\n', (size_t)(end - text));
        size_t n = (size_t)((line ? line : end) - text);
        bool is = false;

        if (root->len > PRUNE_FROM && n <= TENURE_KEY_MAX)
            status = register_exists(s, key, text, n, &is, deadline, err);
        if (!is) {
            memcpy(lines + used, text, n);
            lines[used + n] = '\n';
            used += n + 1;
        }
        text += n + 1;
    }
    if (status) {
        free(lines);
        return status;
    }
    used += (size_t)sprintf(lines + used, "%s\n", segment);
    *out = lines;
    *len = used;
    return TENURE_OK;
}

/* One try.  OK: announced, under *fence.  CONFLICT, UNKNOWN: look again. */
static enum tenure_status announce_once(tenure_state *s, const char *key, const char *segment,
                                        struct tn_fence *fence, int64_t deadline,
                                        struct tenure_error *err)
{
    /* Nobody has ever led here, and nothing is announced. */
    struct tn_document root = {.fence.epoch = 1, .data = (const unsigned char *)""};
    struct tenure_value value = {0};
    struct tenure_swap swap = {.key = key};
    unsigned char *bytes = NULL;
    char *lines = NULL;
    enum tenure_status status = tenure_store_read(s->store, key, &value, deadline, err);

    if (!status && !tenure_token_absent(&value.token))
        status = tn_document_decode(&value, &root, err);
    if (status || is_announced(&root, segment))
        goto done;
    swap.expect = value.token;
    status = add_line(s, key, &root, segment, &lines, &root.len, deadline, err);
    if (status || (status = tn_state_check_length(s, key, root.len, err)))
        goto done;
    root.data = (unsigned char *)lines;
    root.seq++;
    status = tn_document_encode(&root, &bytes, &swap.len, err);
    if (status)
        goto done;
    swap.data = bytes;
    tn_state_new_nonce(s, swap.nonce);
    status = tenure_store_swap(s->store, &swap, deadline, err);
done:
    if (!status)
        *fence = root.fence;
    tenure_value_free(&value);
    free(bytes);
    free(lines);
    return status;
}

static enum tenure_status announce(tenure_state *s, const char *collection, const char *document,
                                   struct tn_fence *fence, int64_t deadline,
                                   struct tenure_error *err)
{
    char root[TENURE_KEY_MAX + 1];
    enum tenure_status status = tn_key_collection(s->name, collection, root, err);

    if (status)
        return status;
    do {
        status = announce_once(s, root, strrchr(document, '/') + 1, fence, deadline, err);
    } while ((status == TENURE_CONFLICT || status == TENURE_UNKNOWN) && tenure_now() < deadline);
    if (status == TENURE_CONFLICT || status == TENURE_UNKNOWN)
        status = tenure_fail(err, TENURE_TIMEOUT, "%s: could not be announced in time", document);
    return status;
}

/* The fence of what is there.  If it is not what was seen, the swap will say so. */
static enum tenure_status read_fence(tenure_state *s, const char *key, struct tn_fence *fence,
                                     int64_t deadline, struct tenure_error *err)
{
    struct tenure_value value = {0};
    struct tn_document doc;
    enum tenure_status status = tenure_store_read(s->store, key, &value, deadline, err);

    if (!status && tenure_token_absent(&value.token))
        status = tenure_fail(err, TENURE_CONFLICT, "%s: no longer exists", key);
    if (!status)
        status = tn_document_decode(&value, &doc, err);
    if (!status)
        *fence = doc.fence;
    tenure_value_free(&value);
    return status;
}

enum tenure_status tn_state_edit(tenure_state *s, const char *collection, const char *id,
                                 const struct tenure_document *seen, const void *data, size_t len,
                                 int64_t deadline, struct tenure_error *err)
{
    char key[TENURE_KEY_MAX + 1];
    struct tn_document doc = {.seq = seen->seq + 1,
                              .deleted = !data,
                              .edited = true,
                              .data = data,
                              .len = data ? len : 0};
    struct tenure_swap swap = {.key = key, .expect = seen->value.token, .tombstone = !data};
    unsigned char *bytes = NULL;
    enum tenure_status status = tn_key_document(s->name, collection, id, key, err);

    if (!status && data)
        status = tn_document_check_id(id, err);
    if (!status)
        status = tn_state_check_length(s, key, doc.len, err);
    if (!status && tenure_token_absent(&seen->value.token))
        status = announce(s, collection, key, &doc.fence, deadline, err);
    else if (!status)
        status = read_fence(s, key, &doc.fence, deadline, err);
    if (!status)
        status = tn_document_encode(&doc, &bytes, &swap.len, err);
    if (status)
        return status;
    swap.data = bytes;
    tn_state_new_nonce(s, swap.nonce);
    status = tenure_store_swap(s->store, &swap, deadline, err);
    free(bytes);
    return status;
}

enum tenure_status tenure_state_edit(tenure_state *s, const char *collection, const char *id,
                                     const struct tenure_document *seen, const void *data,
                                     size_t len, int64_t deadline, struct tenure_error *err)
{
    struct tenure_error scratch;
    enum tenure_status status;

    if (!err)
        err = &scratch;
    if (s->leads)
        return tenure_fail(err, TENURE_INVALID, "a leader commits; it does not edit");
    if ((status = tn_state_begin(s, collection, deadline, err)))
        return status;
    status = tn_state_edit(s, collection, id, seen, data, len, deadline, err);
    tn_state_end(s);
    return status;
}
