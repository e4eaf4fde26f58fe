/*
 * The root of a collection.  Absence has no version: a stale leader's create
 * could land on a key that nobody has sealed.  So a create is announced in the
 * root first, by a swap that only the current leader can win; whoever takes
 * over seals the root, then blocks what was announced and is not there yet.
 *
 * The root is a document whose data is the announced ids, escaped, a line each.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/decimal.h"
#include "base/grow.h"
#include "base/key.h"
#include "state/inner.h"

static void forget_announced(struct tn_root *root)
{
    while (root->n_announced)
        root->announced[--root->n_announced]->announced = false;
}

void tn_root_free(struct tn_root *root)
{
    free(root->announced);
    free(root);
}

static bool push(struct tn_root *root, struct tn_entry *entry)
{
    if (!tn_grow(&root->announced, &root->room, root->n_announced, sizeof(struct tn_entry *)))
        return false;
    entry->announced = true;
    root->announced[root->n_announced++] = entry;
    return true;
}

/* The next line of a root, its length in *n; NULL behind the last. */
static const char *next_line(const char **text, const char *end, size_t *n)
{
    const char *line = *text, *stop;

    if (line >= end)
        return NULL;
    stop = memchr(line, '\n', (size_t)(end - line));
    *n = (size_t)((stop ? stop : end) - line);
    *text = stop ? stop + 1 : end;
    return line;
}

/* Is it what a key may end in?  Whoever seals the collection asks for the documents by it. */
static bool is_segment(const char *line, size_t n)
{
    char segment[TENURE_KEY_MAX + 1];

    if (n == 0 || n > TENURE_KEY_MAX || memchr(line, '\0', n) || memchr(line, '/', n))
        return false;
    memcpy(segment, line, n);
    segment[n] = '\0';
    return tenure_key_valid(segment);
}

enum tenure_status tn_root_decode(const struct tenure_value *value, struct tn_document *doc,
                                  struct tenure_error *err)
{
    struct tn_document d;
    enum tenure_status status = tn_document_decode(value, &d, err);

    if (status)
        return status;
    const char *text = (const char *)d.data, *end = text + d.len, *line;
    size_t n;
    while ((line = next_line(&text, end, &n))) {
        if (!is_segment(line, n))
            return tenure_fail(err, TENURE_CORRUPT,
                               "the root of the collection is damaged: "
                               "what it announces is no list of ids");
    }
    *doc = d;
    return TENURE_OK;
}

static enum tenure_status parse(tenure_state *s, struct tn_root *root,
                                const struct tn_document *doc, struct tenure_error *err)
{
    const char *text = (const char *)doc->data, *end = text + doc->len, *line;
    char key[2 * TENURE_KEY_MAX + 2];
    struct tn_entry *entry;
    size_t n;

    while ((line = next_line(&text, end, &n))) {
        snprintf(key, sizeof key, "%s/%.*s", root->entry->key, (int)n, line);
        entry = tn_entry_get(s, key);
        if (!entry || (!entry->announced && !push(root, entry)))
            return tenure_fail(err, TENURE_NOMEM, "out of memory");
    }
    return TENURE_OK;
}

/* The root as text, with those that exist by now left out. */
static char *compose(struct tn_root *root, size_t *len)
{
    size_t skip = strlen(root->entry->key) + 1, size = 1, keep = 0;
    char *text, *end;

    for (size_t i = 0; i < root->n_announced; i++) {
        struct tn_entry *e = root->announced[i];

        e->announced = !e->sealed || tenure_token_absent(&e->token);
        if (!e->announced)
            continue;
        root->announced[keep++] = e;
        size += strlen(e->key + skip) + 1;
    }
    root->n_announced = keep;
    text = end = malloc(size);
    for (size_t i = 0; text && i < keep; i++)
        end = tn_put_text(tn_put_text(end, root->announced[i]->key + skip), "\n");
    *len = text ? (size_t)(end - text) : 0;
    return text;
}

static enum tenure_status write_root(tenure_state *s, struct tn_root *root, int64_t deadline,
                                     struct tenure_error *err)
{
    struct tn_write w = {.entry = root->entry};
    char *text = compose(root, &w.len);

    if (!text)
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    w.status = tn_state_check_length(s, root->entry->key, w.len, err);
    if (w.status) {
        free(text);
        return w.status;
    }
    w.data = text;
    tn_entry_mark(s, root->entry, &root->entry->doubt, false);
    tn_state_write(s, &w, 1, deadline, err);
    free(text);
    /* An operator has announced something on top: to be read again, or our next write would take it
     * back, and its create could land behind the next leader's seal (I3). */
    if (w.status == TENURE_OK && root->entry->doubt)
        return tenure_fail(err, TENURE_CONFLICT, "%s: changed by another writer", root->entry->key);
    return w.status;
}

/* Seal what is there, or write a sealed empty one. */
static enum tenure_status seal_root(tenure_state *s, struct tn_root *root, int64_t deadline,
                                    struct tenure_error *err)
{
    struct tenure_value value = {0};
    struct tn_document doc;
    bool found = false;
    enum tenure_status status =
        tn_state_seal_entry(s, NULL, root->entry, &value, &doc, &found, deadline, err);

    forget_announced(root);
    if (status == TENURE_OK && found && (status = tn_root_decode(&value, &doc, err)))
        tenure_fail_context(err, "%s", root->entry->key);
    else if (status == TENURE_OK && found)
        status = parse(s, root, &doc, err);
    else if (status == TENURE_OK && s->leads)
        status = write_root(s, root, deadline, err);
    root->stale = status != TENURE_OK;
    s->progress += !root->stale;
    tenure_value_free(&value);
    return status;
}

/*
 * A document that was damaged when a later leader sealed the collection has no epoch that could be
 * raised; its repair may have been on the way, and land behind that seal under our fence or an
 * older one.  But the root was sealed first.  If it is ours even now, after the document was read,
 * then whoever seals the root later finds the document repaired, and seals it too (I3, I4).
 */
enum tenure_status tn_root_confirm(tenure_state *s, struct tn_root *root, int64_t deadline,
                                   struct tenure_error *err)
{
    struct tenure_value value = {0};
    struct tn_document doc = {0};
    enum tenure_status status =
        tenure_store_read(s->store, root->entry->key, &value, deadline, err);

    if (!status && !tenure_token_absent(&value.token))
        status = tn_root_decode(&value, &doc, err);
    if (!status && tn_fence_judge(&doc.fence, &s->fence) == TN_VERDICT_STALE) {
        tn_state_raise_floor(s, doc.fence.epoch);
        status = tn_state_set_fenced(s, root->entry->key, err);
    } else if (!status && tn_fence_judge(&doc.fence, &s->fence) != TN_VERDICT_SAME) {
        root->stale = true; /* lost, or restored from a back-up: to be sealed again */
    }
    tenure_value_free(&value);
    return status;
}

static enum tenure_status find(tenure_state *s, const char *collection, struct tn_root **out,
                               struct tenure_error *err)
{
    char key[TENURE_KEY_MAX + 1];
    enum tenure_status status = tn_key_collection(s->name, collection, key, err);
    struct tn_entry *entry = status ? NULL : tn_entry_get(s, key);

    if (status)
        return status;
    if (entry && !entry->root && (entry->root = calloc(1, sizeof *entry->root))) {
        entry->root->entry = entry;
        entry->root->stale = true;
        entry->root->next = s->roots;
        s->roots = entry->root;
    }
    if (!entry || !entry->root)
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    *out = entry->root;
    return TENURE_OK;
}

enum tenure_status tn_state_root(tenure_state *s, const char *collection, struct tn_root **out,
                                 int64_t deadline, struct tenure_error *err)
{
    struct tn_root *root;
    enum tenure_status status = find(s, collection, &root, err);

    if (status)
        return status;
    if (!s->terms && (root->stale || !s->leads)) {
        root->upto[0] = '\0';
        status = seal_root(s, root, deadline, err);
        /* Created by somebody at this very moment: now it is there to be sealed. */
        if (status == TENURE_CONFLICT)
            status = seal_root(s, root, deadline, err);
    }
    if (status == TENURE_UNKNOWN) /* of the root; nothing is known of a document */
        status =
            tenure_fail(err, TENURE_TIMEOUT, "%s: could not be sealed in time", root->entry->key);
    if (status == TENURE_OK)
        *out = root;
    return status;
}

enum tenure_status tn_root_announce(tenure_state *s, struct tn_root *root,
                                    struct tn_entry *const *entries, size_t n, int64_t deadline,
                                    struct tenure_error *err)
{
    enum tenure_status status = TENURE_OK;

    if (s->terms) /* no create of an earlier term can land */
        return TENURE_OK;
    do {
        /* An operator has announced something meanwhile, under our own fence. */
        if (status == TENURE_CONFLICT)
            status = seal_root(s, root, deadline, err);
        size_t before = root->n_announced;
        for (size_t i = 0; i < n && !status; i++) {
            /* Whoever announced it: an announced id may be created. */
            if (!entries[i]->announced && !push(root, entries[i]))
                status = tenure_fail(err, TENURE_NOMEM, "out of memory");
        }
        if (!status && root->n_announced != before)
            status = write_root(s, root, deadline, err);
    } while (status == TENURE_CONFLICT && tenure_now() < deadline);
    /* Not known to be announced is not announced. */
    if (status)
        root->stale = true;
    return status;
}
