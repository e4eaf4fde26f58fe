/* Whole collections: seal them at take-over, walk them, wait on them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "state/calls.h"

/* ---- Seal ---------------------------------------------------------------- */

struct sealing {
    tenure_state *s;
    struct tn_write *writes;
    size_t n, most;
    size_t bytes;
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

static bool note_damaged(struct sealing *c, struct tn_entry *entry)
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

/* Collect what is to be sealed until a batch is full. */
static bool collect(void *arg, const char *key, const struct tenure_value *value)
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
        return note_damaged(c, entry);
    tn_state_note(s, doc.fence.epoch);
    bool edited = doc.edited && !tn_entry_known(entry, &value->token);
    tn_entry_saw(s, entry, &value->token);
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
        c->status = tn_state_fenced(s, key, c->err);
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
    c->more = c->n == c->most || c->bytes > TENURE_DATA_MAX || tenure_now() >= c->flush_by;
    return !c->more;
}

/* Write the batch.  Whatever was not plainly sealed is sealed alone. */
static enum tenure_status flush(struct sealing *c, struct tn_root *root, int64_t deadline)
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
        if (c->writes[i].status == TENURE_OK)
            c->writes[i].entry->sealed = true;
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
static enum tenure_status hold(struct sealing *c, struct tn_root *root, int64_t deadline)
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
 * The documents, a batch at a time.  What is behind root->upto is sealed already, by an earlier
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
        listed = tenure_store_list(c->s->store, prefix, c->last[0] ? c->last : NULL, collect, c,
                                   NULL, deadline, c->err);
        status = listed == TENURE_TIMEOUT ? TENURE_OK : listed; /* what was seen is sealed first */
        if (c->status)
            status = c->status;
        if (!status)
            status = flush(c, root, deadline);
        if (!status)
            status = hold(c, root, deadline);
        if (!status && !c->open && strcmp(root->upto, c->last) != 0) {
            memcpy(root->upto, c->last, sizeof root->upto);
            c->s->progress++;
        }
        if (!status && listed)
            status = tenure_fail(c->err, listed, "the seal has come to %s, and goes on from there",
                                 c->last[0] ? c->last : prefix);
    } while (!status && c->more);
    return !status && c->open ? TENURE_CORRUPT : status;
}

/* Announced by an earlier leader and not there: keep a late create out. */
static enum tenure_status block_pending(tenure_state *s, struct tn_root *root, int64_t deadline,
                                        struct tenure_error *err)
{
    struct tenure_value value = {0};
    struct tn_document doc;
    enum tenure_status status = TENURE_OK;
    bool found;

    for (size_t i = 0; i < root->n_pending && !status; i++) {
        char key[2 * TENURE_KEY_MAX + 2];
        struct tn_entry *entry;

        snprintf(key, sizeof key, "%s/%s", root->entry->key, root->pending[i]);
        if (strlen(key) > TENURE_KEY_MAX)
            continue; /* nobody can create it, late or not */
        entry = tn_entry_get(s, key);
        if (!entry)
            status = tenure_fail(err, TENURE_NOMEM, "out of memory");
        else if (tenure_token_absent(&entry->token))
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

    if ((status = tn_state_root(s, collection, &root, deadline, err)))
        return status;
    c.most = s->info.batch_max > 1 ? s->info.batch_max : 64;
    c.writes = calloc(c.most, sizeof *c.writes);
    if (!c.writes)
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    status = seal_documents(&c, root, deadline);
    for (size_t i = 0; i < c.n; i++)
        free((void *)(uintptr_t)c.writes[i].data);
    if (!status)
        status = block_pending(s, root, deadline, err);
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
    tn_state_turn(s);
    status =
        s->fenced ? tn_state_fenced(s, collection, err) : seal_all(s, collection, deadline, err);
    tn_state_next(s);
    return status;
}

/* ---- Walk ---------------------------------------------------------------- */

struct walk {
    tenure_state *s;
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

static bool show(void *arg, const char *key, const struct tenure_value *value)
{
    struct walk *w = arg;
    struct tenure_error err = {0};
    struct tn_document doc = {0};
    char id[TENURE_KEY_MAX + 1];
    const char *segment = strrchr(key, '/') + 1;

    if (!tn_document_id(segment, id))
        memcpy(id, segment, strlen(segment) + 1);
    if (tn_document_decode(value, &doc, &err) ||
        tn_document_fill(&w->document, value, &doc, true, &err)) {
        struct tenure_error why;
        struct tenure_value again = {0};

        /* If it is the store that found it, that knows the very place. */
        if (err.code == TENURE_CORRUPT &&
            tenure_store_read(w->s->store, key, &again, w->deadline, &why) == TENURE_CORRUPT)
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
    enum tenure_status status = tenure_store_read(w->s->store, key, &value, w->deadline, err);

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
    struct walk w = {.s = s, .visit = visit, .arg = arg, .deadline = deadline};
    struct tenure_error scratch;
    char prefix[TENURE_KEY_MAX + 2];
    enum tenure_status status;
    bool more = true;

    if (!err)
        err = &scratch;
    status = tn_document_root(s->name, collection, prefix, err);
    if (status)
        return status;
    tn_state_turn(s);
    status = show_root(&w, prefix, &more, err);
    strcat(prefix, "/");
    if (!status && more)
        status = tenure_store_list(s->store, prefix, NULL, show, &w, NULL, deadline, err);
    tn_state_next(s);
    tenure_document_free(&w.document);
    return status;
}

/* ---- Wait ---------------------------------------------------------------- */

static bool pass(void *arg, const char *key, const struct tenure_value *value)
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
    status = tn_document_root(s->name, collection, prefix, err);
    if (status)
        return status;
    strcat(prefix, "/");
    /* A handle of its own: a wait must not keep commits from the store. */
    pthread_mutex_lock(&s->watch_lock);
    if (!s->watcher)
        status = tenure_store_open(s->url, deadline, &s->watcher, err);
    if (!status && mark[0]) {
        memcpy(watch.mark, mark, sizeof watch.mark);
        status = tenure_store_wait(s->watcher, &watch, 1, wake_fd, deadline, err);
    }
    if (!status)
        status = tenure_store_list(s->watcher, prefix, NULL, pass, NULL, mark, deadline, err);
    pthread_mutex_unlock(&s->watch_lock);
    return status;
}
