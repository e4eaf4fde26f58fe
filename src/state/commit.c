/*
 * Commits, and how those that arrive together share one batch: the first
 * caller takes the turn and writes for everybody who waits behind it.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "state/calls.h"

struct tn_call {
    struct tn_call *next;
    struct tenure_commit *commits;
    size_t n;
    int64_t deadline;
    bool done;
    struct tenure_error err;
};

/* ---- Turns --------------------------------------------------------------- */

void tn_state_init_turns(tenure_state *s)
{
    pthread_condattr_t attr;

    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&s->done, &attr);
    pthread_condattr_destroy(&attr);
}

void tn_state_turn(tenure_state *s)
{
    pthread_mutex_lock(&s->lock);
    while (s->busy)
        pthread_cond_wait(&s->done, &s->lock);
    s->busy = true;
    pthread_mutex_unlock(&s->lock);
}

void tn_state_next(tenure_state *s)
{
    pthread_mutex_lock(&s->lock);
    s->busy = false;
    pthread_cond_broadcast(&s->done);
    pthread_mutex_unlock(&s->lock);
}

/* ---- One round ----------------------------------------------------------- */

struct slot {
    struct tenure_commit *commit;
    struct tn_call *call;
    struct tn_entry *entry;
    struct tn_root *root;
};

struct round {
    struct slot *slots;
    size_t n;
    struct tn_write *writes;
    const char **segments;
    int64_t deadline; /* the latest of those who wait */
};

static void settle(struct slot *slot, enum tenure_status status, const struct tenure_error *err)
{
    slot->commit->status = status;
    slot->commit->seq = status == TENURE_OK ? slot->entry->written : 0;
    if (status && !slot->call->err.code) {
        slot->call->err = *err;
        slot->call->err.code = status;
    }
}

/* Also for who shares the batch with the one that was told: an edit is not undone. */
static enum tenure_status refuse_unseen(const struct tn_entry *entry, struct tenure_error *err)
{
    if (!entry->doubt)
        return TENURE_OK;
    return tenure_fail(err, TENURE_CONFLICT, "%s: somebody else has written it; load it again",
                       entry->key);
}

/* The register of a commit, sealed.  What a sealed collection does not know is absent. */
static enum tenure_status find_entry(tenure_state *s, struct slot *slot, int64_t deadline,
                                     struct tenure_error *err)
{
    char key[TENURE_KEY_MAX + 1];
    struct tenure_value value = {0};
    struct tn_document doc;
    bool found;
    enum tenure_status status;

    if ((status = tn_document_key(s->name, slot->commit->collection, slot->commit->id, key, err)) ||
        (!slot->commit->remove && ((status = tn_document_check_id(slot->commit->id, err)) ||
                                   (status = tn_state_fits(s, key, slot->commit->len, err)))) ||
        (status = tn_state_root(s, slot->commit->collection, &slot->root, deadline, err)))
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

/* Announce what is to be created, a collection at a time. */
static void announce(tenure_state *s, struct round *r)
{
    for (struct tn_root *root = s->roots; root; root = root->next) {
        struct tenure_error err = {0};
        size_t n = 0;

        for (size_t i = 0; i < r->n; i++) {
            struct slot *slot = &r->slots[i];
            if (slot->root == root && slot->entry && tenure_token_absent(&slot->entry->token))
                r->segments[n++] = strrchr(slot->entry->key, '/') + 1;
        }
        enum tenure_status status =
            n ? tn_root_announce(s, root, r->segments, n, r->deadline, &err) : TENURE_OK;
        if (status == TENURE_UNKNOWN) /* of the announcement; nothing was created */
            status = TENURE_TIMEOUT;
        for (size_t i = 0; status && i < r->n; i++) {
            struct slot *slot = &r->slots[i];
            if (slot->root == root && slot->entry && tenure_token_absent(&slot->entry->token)) {
                settle(slot, status, &err);
                slot->entry->in_round = false;
                slot->entry = NULL;
            }
        }
    }
}

static void write_round(tenure_state *s, struct round *r)
{
    struct tenure_error err = {0};
    size_t n = 0;

    for (size_t i = 0; i < r->n; i++) {
        const struct slot *slot = &r->slots[i];
        if (slot->entry)
            r->writes[n++] = (struct tn_write){.entry = slot->entry,
                                               .data = slot->commit->data,
                                               .len = slot->commit->len,
                                               .deleted = slot->commit->remove};
    }
    tn_state_write(s, r->writes, n, r->deadline, &err);
    for (size_t i = 0; i < n; i++) {
        r->writes[i].entry->outcome = r->writes[i].status;
        r->writes[i].entry->written = r->writes[i].seq;
    }
    for (size_t i = 0; i < r->n; i++) {
        struct slot *slot = &r->slots[i];
        if (!slot->entry)
            continue; /* its create could not be announced */
        slot->entry->in_round = false;
        settle(slot, slot->entry->outcome, &err);
    }
}

/* Fill a round with commits that are not settled, one a document, and not more
 * than a root can announce. */
static bool fill_round(tenure_state *s, struct tn_call *calls, struct round *r)
{
    size_t most = s->info.data_max ? s->info.data_max : TENURE_DATA_MAX, names = 0;

    r->n = 0;
    for (struct tn_call *call = calls; call; call = call->next) {
        for (size_t i = 0; i < call->n; i++) {
            struct tenure_commit *commit = &call->commits[i];
            struct slot slot = {.commit = commit, .call = call};
            struct tenure_error err = {0};

            if (commit->status != TENURE_CANCELLED)
                continue; /* settled in an earlier round */
            if (names > most / 2)
                return true;
            enum tenure_status status = s->fenced ? tn_state_fenced(s, commit->collection, &err)
                                                  : find_entry(s, &slot, call->deadline, &err);
            if (status) {
                settle(&slot, status, &err);
            } else if (!slot.entry->in_round) {
                slot.entry->in_round = true;
                names += strlen(slot.entry->key);
                r->slots[r->n++] = slot;
            }
        }
    }
    return r->n > 0;
}

/* ---- The batch of everybody who waits ------------------------------------ */

static void commit_all(tenure_state *s, struct tn_call *calls)
{
    struct round r = {0};
    size_t n = 0;

    for (struct tn_call *call = calls; call; call = call->next) {
        n += call->n;
        r.deadline = call->deadline > r.deadline ? call->deadline : r.deadline;
        for (size_t i = 0; i < call->n; i++)
            call->commits[i].status = TENURE_CANCELLED; /* not settled yet */
    }
    r.slots = calloc(n, sizeof *r.slots);
    r.writes = calloc(n, sizeof *r.writes);
    r.segments = calloc(n, sizeof *r.segments);
    if (r.slots && r.writes && r.segments) {
        while (fill_round(s, calls, &r)) {
            announce(s, &r);
            write_round(s, &r);
        }
    } else {
        for (struct tn_call *call = calls; call; call = call->next) {
            for (size_t i = 0; i < call->n; i++)
                call->commits[i].status = tenure_fail(&call->err, TENURE_NOMEM, "out of memory");
        }
    }
    free(r.slots);
    free(r.writes);
    free(r.segments);
}

/* Wait for the turn, at most until the deadline.  false: it has passed. */
static bool wait_turn(tenure_state *s, int64_t deadline)
{
    int64_t left = deadline - tenure_now(), ns;
    struct timespec until;

    if (left <= 0)
        return false;
    clock_gettime(CLOCK_MONOTONIC, &until);
    ns = until.tv_nsec + left % 1000000000;
    until.tv_sec += left / 1000000000 + ns / 1000000000;
    until.tv_nsec = ns % 1000000000;
    pthread_cond_timedwait(&s->done, &s->lock, &until);
    return true;
}

/* Leave the queue, if nobody has taken it from there to write it. */
static bool withdraw(tenure_state *s, struct tn_call *call)
{
    struct tn_call **link = &s->queue;

    while (*link && *link != call)
        link = &(*link)->next;
    if (!*link)
        return false;
    *link = call->next;
    if (!*link)
        s->queue_tail = link;
    for (size_t i = 0; i < call->n; i++)
        call->commits[i].status =
            tenure_fail(&call->err, TENURE_TIMEOUT, "the deadline passed before it was its turn");
    return true;
}

enum tenure_status tenure_state_commit(tenure_state *s, struct tenure_commit *commits, size_t n,
                                       int64_t deadline, struct tenure_error *err)
{
    struct tn_call call = {.commits = commits, .n = n, .deadline = deadline}, *mine, *next;

    if (!s->leads)
        return tenure_fail(err, TENURE_NOT_LEADER, "only a leader commits; operators edit");
    pthread_mutex_lock(&s->lock);
    *s->queue_tail = &call;
    s->queue_tail = &call.next;
    while (!call.done) {
        if (s->busy) {
            if (wait_turn(s, deadline))
                continue;
            if (withdraw(s, &call))
                break;
            pthread_cond_wait(&s->done, &s->lock); /* it is being written */
            continue;
        }
        s->busy = true;
        mine = s->queue;
        s->queue = NULL;
        s->queue_tail = &s->queue;
        pthread_mutex_unlock(&s->lock);
        commit_all(s, mine);
        pthread_mutex_lock(&s->lock);
        s->busy = false;
        for (; mine; mine = next) {
            next = mine->next; /* its owner may return as soon as done is set */
            mine->done = true;
        }
        pthread_cond_broadcast(&s->done);
    }
    pthread_mutex_unlock(&s->lock);
    if (err && call.err.code)
        *err = call.err;
    return call.err.code;
}
