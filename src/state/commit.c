/*
 * The commit queue.  Requests that wait together are written as one batch, by the
 * thread whose deadline is the last: so everybody has the time that it asked for, and
 * a caller that has less leaves at its own deadline, without its answer.  What is written for it
 * meanwhile is a copy.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/key.h"
#include "state/calls.h"

enum stage { QUEUED, WRITING, DONE };

/* The commits of one call. */
struct tn_request {
    struct tn_request *next;
    struct tenure_commit *commits;
    size_t n;
    int64_t deadline;
    enum stage stage;
    bool abandoned; /* its caller has left: its writer frees it */
    struct tenure_error err;
};

/* ---- A batch: one commit a document ---------------------------------------- */

/* A commit on its way. */
struct tn_slot {
    struct tenure_commit *commit;
    struct tn_request *request;
    struct tn_entry *entry; /* NULL: not found yet, or settled */
    struct tn_root *root;
    struct tn_slot *later, *last; /* of the same document: the next, and the last of all */
    struct tn_slot *next;         /* in a list of its batch's */
};

struct batch {
    struct tn_slot *slots;
    size_t n_slots, begun;
    struct tn_slot *again, **again_tail; /* those before them, of the same document, are settled */
    struct tn_slot **chosen;             /* to be written now, one a document */
    size_t n;
    struct tn_write *writes;
    struct tn_entry **creates;
    int64_t deadline; /* the latest of all */
};

/* The outcome of a commit.  The next one of its document may follow. */
static void settle(struct batch *b, struct tn_slot *slot, enum tenure_status status, uint64_t seq,
                   const struct tenure_error *err)
{
    struct tn_request *request = slot->request;

    assert(slot->commit->status == TENURE_CANCELLED); /* once */
    slot->commit->status = status;
    slot->commit->seq = status == TENURE_OK ? seq : 0;
    if (status && !request->err.code) {
        request->err = *err;
        request->err.code = status;
    }
    if (slot->later) {
        slot->later->last = slot->last;
        *b->again_tail = slot->later;
        b->again_tail = &slot->later->next;
    }
    if (slot->entry && slot->entry->slot == slot)
        slot->entry->slot = NULL;
    slot->entry = NULL;
}

/* Also for who shares the batch with the one that was told: an edit is not undone. */
static enum tenure_status refuse_unseen(const struct tn_entry *entry, struct tenure_error *err)
{
    if (!entry->doubt)
        return TENURE_OK;
    return tenure_fail(err, TENURE_CONFLICT, "%s: changed by another writer; load it again",
                       entry->key);
}

/* The register of a commit, sealed.  What a sealed collection does not know is absent. */
static enum tenure_status find_entry(tenure_state *s, struct tn_slot *slot,
                                     struct tenure_error *err)
{
    const struct tenure_commit *commit = slot->commit;
    int64_t deadline = slot->request->deadline;
    char key[TENURE_KEY_MAX + 1];
    struct tenure_value value = {0};
    struct tn_document doc;
    bool found;
    enum tenure_status status;

    if (s->fenced)
        return tn_state_set_fenced(s, commit->collection, err);
    if ((status = tn_key_document(s->name, commit->collection, commit->id, key, err)) ||
        (!commit->remove && ((status = tn_document_check_id(commit->id, err)) ||
                             (status = tn_state_check_length(s, key, commit->len, err)))) ||
        (status = tn_state_root(s, commit->collection, &slot->root, deadline, err)))
        return status;
    slot->entry = tn_entry_get(s, key);
    if (!slot->entry)
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    if ((status = refuse_unseen(slot->entry, err)) || slot->entry->sealed)
        return status;
    if (slot->root->complete && tenure_token_absent(&slot->entry->token)) {
        slot->entry->sealed = true;
        return TENURE_OK;
    }
    status = tn_state_load_entry(s, slot->root, slot->entry, &value, &doc, &found, deadline, err);
    tenure_value_free(&value);
    return status ? status : refuse_unseen(slot->entry, err);
}

static struct tn_slot *next_slot(struct batch *b)
{
    struct tn_slot *slot = b->again;

    if (!slot)
        return b->begun < b->n_slots ? &b->slots[b->begun++] : NULL;
    b->again = slot->next;
    slot->next = NULL;
    if (!b->again)
        b->again_tail = &b->again;
    return slot;
}

/* Choose what is written next: one commit a document, and not more than a root can announce. */
static bool choose(tenure_state *s, struct batch *b)
{
    size_t most = s->info.data_max ? s->info.data_max : TENURE_DATA_MAX, names = 0;
    struct tn_slot *slot;

    b->n = 0;
    while (names <= most / 2 && (slot = next_slot(b))) {
        struct tenure_error err = {0};
        enum tenure_status status = find_entry(s, slot, &err);

        if (status) {
            settle(b, slot, status, 0, &err);
        } else if (slot->entry->slot) { /* behind the one that is chosen */
            struct tn_slot *first = slot->entry->slot;

            first->last->later = slot;
            first->last = slot;
        } else {
            slot->entry->slot = slot;
            names += strlen(slot->entry->key);
            b->chosen[b->n++] = slot;
        }
    }
    return b->n > 0;
}

/* Announce what is to be created, a collection at a time. */
static void announce(tenure_state *s, struct batch *b)
{
    for (size_t i = b->n; i > 0; i--) {
        struct tn_slot *slot = b->chosen[i - 1];

        if (tenure_token_absent(&slot->entry->token)) {
            slot->next = slot->root->creates;
            slot->root->creates = slot;
        }
    }
    for (size_t i = 0; i < b->n; i++) {
        struct tn_root *root = b->chosen[i]->root;
        struct tn_slot *creates = root->creates, *next;
        struct tenure_error err = {0};
        size_t n = 0;

        if (!creates)
            continue;
        for (struct tn_slot *slot = creates; slot; slot = slot->next)
            b->creates[n++] = slot->entry;
        enum tenure_status status = tn_root_announce(s, root, b->creates, n, b->deadline, &err);
        if (status == TENURE_UNKNOWN) /* of the announcement; nothing was created */
            status = TENURE_TIMEOUT;
        root->creates = NULL;
        for (struct tn_slot *slot = creates; slot; slot = next) {
            next = slot->next;
            slot->next = NULL;
            if (status)
                settle(b, slot, status, 0, &err);
        }
    }
}

static void write_chosen(tenure_state *s, struct batch *b)
{
    struct tenure_error err = {0};
    size_t n = 0;

    for (size_t i = 0; i < b->n; i++) {
        const struct tn_slot *slot = b->chosen[i];

        if (slot->entry) /* else its create could not be announced */
            b->writes[n++] = (struct tn_write){.entry = slot->entry,
                                               .data = slot->commit->data,
                                               .len = slot->commit->len,
                                               .deleted = slot->commit->remove};
    }
    tn_state_write(s, b->writes, n, b->deadline, &err);
    for (size_t i = 0; i < n; i++) {
        const struct tn_write *w = &b->writes[i];

        settle(b, w->entry->slot, w->status, w->seq, &err);
    }
}

static void add_slots(struct batch *b, struct tn_request *request)
{
    for (size_t i = 0; i < request->n; i++) {
        struct tn_slot *slot = &b->slots[b->n_slots++];

        *slot = (struct tn_slot){.commit = &request->commits[i], .request = request, .last = slot};
        slot->commit->status = TENURE_CANCELLED; /* not settled yet */
    }
}

static void fail_request(struct tn_request *request, enum tenure_status status, const char *text)
{
    for (size_t i = 0; i < request->n; i++)
        request->commits[i].status = tenure_fail(&request->err, status, "%s", text);
}

static void write_requests(tenure_state *s, struct tn_request *requests, int64_t deadline)
{
    struct batch b = {.deadline = deadline, .again_tail = &b.again};
    size_t n = 0;

    for (const struct tn_request *r = requests; r; r = r->next)
        n += r->n;
    b.slots = malloc(n * sizeof *b.slots);
    b.chosen = malloc(n * sizeof *b.chosen);
    b.writes = malloc(n * sizeof *b.writes);
    b.creates = malloc(n * sizeof *b.creates);
    bool room = b.slots && b.chosen && b.writes && b.creates;
    for (struct tn_request *r = requests; r; r = r->next) {
        if (room)
            add_slots(&b, r);
        else
            fail_request(r, TENURE_NOMEM, "out of memory");
    }
    while (room && choose(s, &b)) {
        announce(s, &b);
        write_chosen(s, &b);
    }
    free(b.slots);
    free(b.chosen);
    free(b.writes);
    free(b.creates);
}

/* ---- The queue ------------------------------------------------------------- */

static void *append(unsigned char **end, const void *bytes, size_t len)
{
    void *at = *end;

    if (len)
        memcpy(at, bytes, len);
    *end += len;
    return at;
}

/* A request with everything that it points to, in one piece.  NULL when out of memory. */
static struct tn_request *copy_request(const struct tn_request *from)
{
    size_t size = sizeof *from + from->n * sizeof *from->commits;

    for (size_t i = 0; i < from->n; i++) {
        const struct tenure_commit *c = &from->commits[i];

        size += strlen(c->collection) + 1 + strlen(c->id) + 1 + (c->remove ? 0 : c->len);
    }
    struct tn_request *copy = malloc(size);
    if (!copy)
        return NULL;
    *copy = *from;
    copy->commits = (struct tenure_commit *)(copy + 1);
    unsigned char *end = (unsigned char *)(copy->commits + from->n);
    for (size_t i = 0; i < from->n; i++) {
        struct tenure_commit *c = &copy->commits[i];

        *c = from->commits[i];
        c->len = c->remove ? 0 : c->len;
        c->collection = append(&end, c->collection, strlen(c->collection) + 1);
        c->id = append(&end, c->id, strlen(c->id) + 1);
        c->data = append(&end, c->data, c->len);
    }
    return copy;
}

/* Of those that wait, the one with the latest deadline writes for all. */
static bool is_leader(const tenure_state *s, const struct tn_request *request)
{
    const struct tn_request *latest = s->queue;

    for (const struct tn_request *r = s->queue; r; r = r->next) {
        if (r->deadline > latest->deadline)
            latest = r;
    }
    return latest == request;
}

/* Write whatever waits, request among it.  The lock is held, but not over the writing. */
static void write_queue(tenure_state *s, const struct tn_request *request)
{
    struct tn_request *batch = s->queue, *next;

    s->turn.taken = true;
    s->queue = NULL;
    s->queue_tail = &s->queue;
    for (struct tn_request *r = batch; r; r = r->next)
        r->stage = WRITING;
    pthread_mutex_unlock(&s->turn.lock);
    write_requests(s, batch, request->deadline);
    s->settled = s->nonces;
    pthread_mutex_lock(&s->turn.lock);
    s->turn.taken = false;
    for (struct tn_request *r = batch; r; r = next) {
        next = r->next; /* its owner may return as soon as it is done */
        r->stage = DONE;
        if (r->abandoned) {
            s->unsettled--;
            free(r);
        }
    }
    pthread_cond_broadcast(&s->turn.changed);
}

/* Its deadline has passed.  false: it is being written, and belongs to who writes it. */
static bool withdraw(tenure_state *s, struct tn_request *request)
{
    struct tn_request **link = &s->queue;

    if (request->stage == WRITING) {
        request->abandoned = true;
        s->unsettled++; /* nobody reads beside it: what is shown must not change afterwards */
        return false;
    }
    while (*link != request)
        link = &(*link)->next;
    *link = request->next;
    if (!*link)
        s->queue_tail = link;
    pthread_cond_broadcast(&s->turn.changed); /* another one may have to write */
    fail_request(request, TENURE_TIMEOUT, "the deadline passed before it was its turn");
    return true;
}

/* Have it written, by this thread or another.  The lock is held.  false: its outcome is unknown. */
static bool run_request(tenure_state *s, struct tn_request *request)
{
    *s->queue_tail = request;
    s->queue_tail = &request->next;
    while (request->stage != DONE) {
        if (!s->turn.taken && is_leader(s, request))
            write_queue(s, request);
        else if (!tn_turn_wait(&s->turn, request->deadline))
            return withdraw(s, request);
    }
    return true;
}

enum tenure_status tenure_state_commit(tenure_state *s, struct tenure_commit *commits, size_t n,
                                       int64_t deadline, struct tenure_error *err)
{
    struct tn_request own = {.commits = commits, .n = n, .deadline = deadline}, *request = &own;

    if (!s->leads)
        return tenure_fail(err, TENURE_NOT_LEADER, "only a leader commits; operators edit");
    pthread_mutex_lock(&s->turn.lock);
    if (s->turn.taken || s->queue) { /* it will wait, and may have to leave */
        pthread_mutex_unlock(&s->turn.lock);
        request = copy_request(&own);
        pthread_mutex_lock(&s->turn.lock);
    }
    bool known = request && run_request(s, request);
    pthread_mutex_unlock(&s->turn.lock);
    if (!request)
        fail_request(&own, TENURE_NOMEM, "out of memory");
    else if (!known)
        fail_request(&own, TENURE_UNKNOWN, "the deadline passed while it was being written");
    for (size_t i = 0; known && request != &own && i < n; i++) {
        commits[i].status = request->commits[i].status;
        commits[i].seq = request->commits[i].seq;
    }
    if (known)
        own.err = request->err;
    if (known && request != &own)
        free(request);
    if (err && own.err.code)
        *err = own.err;
    return own.err.code;
}
