/* Whole collections: seal them at take-over, walk them, wait on them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/key.h"
#include "state/calls.h"

/* ---- Seal ---------------------------------------------------------------- */

/* Documents that are sealed after one listing, and their bytes: to list again from where the last
 * listing ended may cost a store as much as to list everything. */
#define PORTION_MAX   65536
#define PORTION_BYTES (4u * TENURE_DATA_MAX)

struct sealing {
    tenure_state *s;
    struct tn_write *writes;
    size_t n, bytes;
    char last[TENURE_KEY_MAX + 1];
    int64_t flush_by; /* what was collected by then is written in the time that is left */
    bool more;
    bool edited; /* an operator wrote some of it, and we have not seen that before */
    struct tn_entry **damaged;
    size_t n_damaged;
    bool open; /* something damaged is not held: no seal, though the rest is sealed */
    enum tenure_status status;
    struct tenure_error *err;
};

static bool add_damaged(struct sealing *c, struct tn_entry *entry)
{
    struct tn_entry **grown = realloc(c->damaged, (c->n_damaged + 1) * sizeof(void *));

    if (!grown) {
        c->status = tenure_fail(c->err, TENURE_NOMEM, "out of memory");
        return false;
    }
    c->damaged = grown;
    c->damaged[c->n_damaged++] = entry;
    return true;
}

/* Collect what is to be sealed, a portion. */
static bool collect_document(void *arg, const char *key, const struct tenure_value *value)
{
    struct sealing *c = arg;
    tenure_state *s = c->s;
    struct tn_document doc;
    struct tn_entry *entry = tn_entry_get(s, key);
    void *copy;

    memcpy(c->last, key, strlen(key) + 1);
    if (!entry) {
        c->status = tenure_fail(c->err, TENURE_NOMEM, "out of memory");
        return false;
    }
    if (tn_document_decode(value, &doc, c->err) != TENURE_OK)
        return add_damaged(c, entry);
    tn_state_raise_floor(s, doc.fence.epoch);
    bool edited = doc.edited && !tn_entry_is_known(entry, &value->token);
    tn_entry_observe(s, entry, &value->token);
    entry->seq = doc.seq;
    entry->sealed = !edited; /* that is sealed when the root has been looked at */
    c->edited |= edited;
    switch (tn_fence_judge(&doc.fence, &s->fence)) {
    case TN_VERDICT_SAME:
        return true;
    case TN_VERDICT_RAISE:
        break;
    default:
        entry->sealed = false;
        c->status = tn_state_set_fenced(s, key, c->err);
        return false;
    }
    copy = malloc(doc.len + 1);
    if (!copy) {
        c->status = tenure_fail(c->err, TENURE_NOMEM, "out of memory");
        return false;
    }
    memcpy(copy, doc.data, doc.len);
    c->writes[c->n++] = (struct tn_write){.entry = entry,
                                          .data = copy,
                                          .len = doc.len,
                                          .deleted = doc.deleted,
                                          .edited = doc.edited,
                                          .seal_only = true};
    c->bytes += doc.len;
    c->more = c->n == PORTION_MAX || c->bytes > PORTION_BYTES || tenure_now() >= c->flush_by;
    return !c->more;
}

/* Write the portion.  Whatever was not plainly sealed is sealed alone. */
static enum tenure_status write_portion(struct sealing *c, struct tn_root *root, int64_t deadline)
{
    enum tenure_status status = TENURE_OK;
    struct tenure_value value = {0};
    struct tn_document doc;
    bool found;

    if (c->edited && (status = tn_root_confirm(c->s, root, deadline, c->err)))
        return status;
    c->edited = false;
    tn_state_write(c->s, c->writes, c->n, deadline, c->err);
    for (size_t i = 0; i < c->n; i++) {
        free((void *)(uintptr_t)c->writes[i].data);
        if (c->writes[i].status == TENURE_OK) {
            c->writes[i].entry->sealed = true;
            c->s->progress++; /* also if the rest of the portion has to be tried again */
        }
        if (c->writes[i].status == TENURE_OK || status)
            continue;
        status = c->writes[i].status;
        if (status == TENURE_CONFLICT || status == TENURE_UNKNOWN)
            status = tn_state_load_entry(c->s, root, c->writes[i].entry, &value, &doc, &found,
                                         deadline, c->err);
    }
    tenure_value_free(&value);
    c->n = c->bytes = 0;
    return status;
}

/* What is damaged.  If it cannot be held that is told in the end, after the rest. */
static enum tenure_status hold_damaged(struct sealing *c, struct tn_root *root, int64_t deadline)
{
    enum tenure_status status = TENURE_OK;
    struct tenure_error err;

    for (size_t i = 0; i < c->n_damaged && !status; i++) {
        status = tn_state_hold_damaged(c->s, root, c->damaged[i], deadline, &err);
        if (status)
            *c->err = err;
        c->open |= status == TENURE_CORRUPT;
        if (status == TENURE_CORRUPT)
            status = TENURE_OK;
    }
    c->n_damaged = 0;
    return status;
}

/*
 * The documents, a portion at a time.  What is behind root->upto is sealed already, by an earlier
 * call that had too little time: nobody of before changes it any more, and whoever creates
 * something there has seen our root.
 */
static enum tenure_status seal_documents(struct sealing *c, struct tn_root *root, int64_t deadline)
{
    char prefix[TENURE_KEY_MAX + 2];
    enum tenure_status status, listed;

    snprintf(prefix, sizeof prefix, "%s/", root->entry->key);
    snprintf(c->last, sizeof c->last, "%s", root->upto);
    do {
        int64_t now = tenure_now();

        c->more = false;
        c->flush_by = now + (deadline - now) / 2;
        listed = tenure_store_list(c->s->store, prefix, c->last[0] ? c->last : NULL,
                                   collect_document, c, NULL, deadline, c->err);
        status = listed == TENURE_TIMEOUT ? TENURE_OK : listed; /* what was seen is sealed first */
        if (c->status)
            status = c->status;
        if (!status)
            status = write_portion(c, root, deadline);
        if (!status)
            status = hold_damaged(c, root, deadline);
        if (!status && !c->open && strcmp(root->upto, c->last) != 0) {
            memcpy(root->upto, c->last, sizeof root->upto);
            c->s->progress++;
        }
        if (!status && listed)
            status = tenure_fail(c->err, listed, "sealed up to %s; the next try continues there",
                                 c->last[0] ? c->last : prefix);
    } while (!status && c->more);
    return !status && c->open ? TENURE_CORRUPT : status;
}

/* Announced by an earlier leader and not there: keep a late create out. */
static enum tenure_status block_announced(tenure_state *s, struct tn_root *root, int64_t deadline,
                                          struct tenure_error *err)
{
    struct tenure_value value = {0};
    struct tn_document doc;
    enum tenure_status status = TENURE_OK;
    bool found;

    for (size_t i = 0; i < root->n_announced && !status; i++) {
        struct tn_entry *entry = root->announced[i];

        if (strlen(entry->key) > TENURE_KEY_MAX || !tenure_token_absent(&entry->token))
            continue; /* nobody can create it, late or not; or it is there */
        status = tn_state_load_entry(s, root, entry, &value, &doc, &found, deadline, err);
        if (status == TENURE_CORRUPT) /* it is there, so no create can land; load() will tell */
            status = TENURE_OK;
    }
    tenure_value_free(&value);
    return status;
}

static enum tenure_status seal_all(tenure_state *s, const char *collection, int64_t deadline,
                                   struct tenure_error *err)
{
    struct sealing c = {.s = s, .err = err};
    struct tn_root *root = NULL;
    enum tenure_status status;

    if (s->terms)
        return TENURE_OK;
    if ((status = tn_state_root(s, collection, &root, deadline, err)))
        return status;
    c.writes = malloc(PORTION_MAX * sizeof *c.writes);
    if (!c.writes)
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    status = seal_documents(&c, root, deadline);
    for (size_t i = 0; i < c.n; i++)
        free((void *)(uintptr_t)c.writes[i].data);
    if (!status)
        status = block_announced(s, root, deadline, err);
    root->complete = status == TENURE_OK;
    if (!status || tenure_status_class(status) != TENURE_CLASS_TRANSIENT)
        root->upto[0] = '\0';
    free(c.damaged);
    free(c.writes);
    return status;
}

enum tenure_status tenure_state_seal(tenure_state *s, const char *collection, int64_t deadline,
                                     struct tenure_error *err)
{
    struct tenure_error scratch;
    enum tenure_status status;

    if (!err)
        err = &scratch;
    if (!s->leads)
        return tenure_fail(err, TENURE_NOT_LEADER, "only a leader seals");
    if ((status = tn_state_begin(s, collection, deadline, err)))
        return status;
    status = seal_all(s, collection, deadline, err);
    tn_state_end(s);
    return status;
}

/* ---- Walk ---------------------------------------------------------------- */

struct walk {
    tenure_store *store;
    tenure_document_fn visit;
    void *arg;
    int64_t deadline;
    struct tenure_document document;
};

static bool show_damage(struct walk *w, const char *key, const char *id,
                        const struct tenure_value *value, struct tenure_error *err)
{
    static const struct tn_document none;

    tn_document_fill(&w->document, value, &none, false, NULL);
    if (value->token.version[0])
        tenure_fail_context(err, "register %s, version %s", key, value->token.version);
    else
        tenure_fail_context(err, "register %s", key);
    return w->visit(w->arg, id, &w->document, err->text);
}

static bool show_document(void *arg, const char *key, const struct tenure_value *value)
{
    struct walk *w = arg;
    struct tenure_error err = {0};
    struct tn_document doc = {0};
    char id[TENURE_KEY_MAX + 1];
    const char *segment = strrchr(key, '/') + 1;

    if (!tn_key_document_id(segment, id))
        memcpy(id, segment, strlen(segment) + 1);
    if (tn_document_decode(value, &doc, &err) ||
        tn_document_fill(&w->document, value, &doc, true, &err)) {
        struct tenure_error why;
        struct tenure_value again = {0};

        /* If it is the store that found it, that knows the very place. */
        if (err.code == TENURE_CORRUPT &&
            tenure_store_read(w->store, key, &again, w->deadline, &why) == TENURE_CORRUPT)
            err = why;
        tenure_value_free(&again);
        return show_damage(w, key, id, value, &err);
    }
    return doc.deleted || w->visit(w->arg, id, &w->document, NULL);
}

/* The root, if it is damaged.  *more is false if the visitor has had enough. */
static enum tenure_status show_root(struct walk *w, const char *key, bool *more,
                                    struct tenure_error *err)
{
    struct tenure_value value = {0};
    struct tn_document doc;
    enum tenure_status status = tenure_store_read(w->store, key, &value, w->deadline, err);

    if (!status && !tenure_token_absent(&value.token))
        status = tn_root_decode(&value, &doc, err);
    if (status == TENURE_CORRUPT) {
        *more = show_damage(w, key, "", &value, err);
        status = TENURE_OK;
    }
    tenure_value_free(&value);
    return status;
}

enum tenure_status tenure_state_list(tenure_state *s, const char *collection,
                                     tenure_document_fn visit, void *arg, int64_t deadline,
                                     struct tenure_error *err)
{
    struct walk w = {.visit = visit, .arg = arg, .deadline = deadline};
    struct tn_reading reading;
    struct tenure_error scratch;
    char prefix[TENURE_KEY_MAX + 2];
    enum tenure_status status;
    bool more = true;

    if (!err)
        err = &scratch;
    if ((status = tn_key_collection(s->name, collection, prefix, err)) ||
        (status = tn_reading_begin(s, &reading, deadline, err)))
        return status;
    w.store = reading.store;
    status = show_root(&w, prefix, &more, err);
    strcat(prefix, "/");
    if (!status && more)
        status = tenure_store_list(w.store, prefix, NULL, show_document, &w, NULL, deadline, err);
    tn_reading_end(&reading);
    tenure_document_free(&w.document);
    return status;
}

/* ---- Wait ---------------------------------------------------------------- */

static bool ignore_document(void *arg, const char *key, const struct tenure_value *value)
{
    (void)arg;
    (void)key;
    (void)value;
    return true;
}

enum tenure_status tenure_state_wait(tenure_state *s, const char *collection,
                                     char mark[TENURE_VERSION_MAX + 1], int wake_fd,
                                     int64_t deadline, struct tenure_error *err)
{
    struct tenure_error scratch;
    char prefix[TENURE_KEY_MAX + 2];
    struct tenure_watch watch = {.key = prefix, .prefix = true};
    enum tenure_status status;

    if (!err)
        err = &scratch;
    status = tn_key_collection(s->name, collection, prefix, err);
    if (status)
        return status;
    strcat(prefix, "/");
    /* A handle of its own: a wait must not keep commits from the store. */
    if (!tn_turn_take(&s->watcher_turn, deadline))
        return tenure_fail(err, TENURE_TIMEOUT, "the deadline passed behind another wait");
    if (!s->watcher)
        status = tenure_store_open(s->url, deadline, &s->watcher, err);
    if (!status && mark[0]) {
        memcpy(watch.mark, mark, sizeof watch.mark);
        status = tenure_store_wait(s->watcher, &watch, 1, wake_fd, deadline, err);
    }
    if (!status)
        status =
            tenure_store_list(s->watcher, prefix, NULL, ignore_document, NULL, mark, deadline, err);
    tn_turn_give(&s->watcher_turn);
    return status;
}
