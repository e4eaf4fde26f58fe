/*
 * An election is removed: asked whether anybody contends, claimed, sealed, erased, and a tombstone
 * keeps the epoch.  Every write is a compare-and-swap on what was listed, so that nothing is taken
 * from somebody who came meanwhile.
 */
#include "tenure/removal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/key.h"
#include "base/name.h"
#include "base/sized.h"
#include "core/timing.h"
#include "lease/lease.h"
#include "os/clock.h"
#include "state/document.h"
#include "store/lease_record.h"
#include "tenure/control.h"
#include "tenure/elector.h"
#include "tenure/lease.h"
#include "tenure/state.h"

#define ANSWER_NS (3 * TN_S)    /* for candidates that are asked whether they are there */
#define WATCH_NS  (200 * TN_MS) /* between looks at a lease that somebody holds */
#define PAUSE_NS  (50 * TN_MS)  /* before another try to erase what somebody changed */
#define PAGE      16            /* registers erased at a time: a small part of a term */

struct removal {
    const char *url, *state_url, *name;
    tenure_store *store;
    tenure_store *state; /* where the state is: store, or another one */
    tenure_elector *elector;
    char id[TENURE_ID_MAX + 1];
    struct tenure_grant grant; /* of our own term */
    uint64_t epoch;            /* the highest that was met */
    struct tenure_removal found;
    int64_t deadline;
};

static uint64_t highest(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* ---- What there is ------------------------------------------------------- */

/* What is kept of an election, by the end of its key. */
enum part {
    PART_NONE,
    PART_LEASE,
    PART_CONTROL,
    PART_HISTORY,
    PART_FENCING,
    PART_CANDIDATE,
    PART_STATE
};

static enum part part_of(const char *key, const char *name)
{
    const char *tail = key + strlen(name);

    if (strncmp(key, name, strlen(name)) != 0)
        return PART_NONE;
    if (strcmp(tail, TN_KEY_LEASE) == 0)
        return PART_LEASE;
    if (strcmp(tail, TN_KEY_CONTROL) == 0)
        return PART_CONTROL;
    if (strcmp(tail, TN_KEY_HISTORY) == 0)
        return PART_HISTORY;
    if (strcmp(tail, TN_KEY_FENCING) == 0)
        return PART_FENCING;
    if (strncmp(tail, TN_KEY_CANDIDATES, strlen(TN_KEY_CANDIDATES)) == 0)
        return PART_CANDIDATE;
    /* The rest belongs to elections whose names begin like this one. */
    return strncmp(tail, TN_KEY_STATE, strlen(TN_KEY_STATE)) == 0 ? PART_STATE : PART_NONE;
}

/* One register that is to be erased, and what its tombstone says. */
struct item {
    char key[TENURE_KEY_MAX + 1];
    struct tenure_token token;
    unsigned char keep[TN_DOCUMENT_HEADER_MAX];
    size_t len;
};

struct page {
    struct removal *r;
    bool state_too, state_only;
    char after[TENURE_KEY_MAX + 1];
    size_t n;
    bool full;
    struct item items[PAGE];
};

static void count(struct tenure_removal *found, enum part part, const char *key)
{
    found->candidates += part == PART_CANDIDATE;
    /* A root is kept for the sake of its documents. */
    found->documents += part == PART_STATE && *tn_key_collection_end(key);
    found->history |= part == PART_HISTORY;
    found->control |= part == PART_CONTROL;
}

/* The tombstone of a document bears our fence, or its own if a lost lease record made it higher. */
static void keep_fence(struct removal *r, const struct tenure_value *value, struct item *item)
{
    struct tn_document kept = {.deleted = true}, doc = {0};

    kept.fence.epoch = r->grant.epoch;
    memcpy(kept.fence.grant, r->grant.id, TENURE_NONCE_SIZE);
    if (tn_document_decode(value, &doc, NULL) == TENURE_OK) {
        kept.seq = doc.seq;
        kept.fence = doc.fence.epoch > kept.fence.epoch ? doc.fence : kept.fence;
        r->epoch = highest(r->epoch, doc.fence.epoch);
    }
    item->len = tn_document_put(&kept, item->keep);
}

static bool visit_key(void *arg, const char *key, const struct tenure_value *value)
{
    struct page *p = arg;
    enum part part = part_of(key, p->r->name);

    snprintf(p->after, sizeof p->after, "%s", key);
    if (part == PART_NONE || part == PART_LEASE || value->tombstone ||
        (part == PART_STATE ? !p->state_too : p->state_only))
        return true;
    struct item *item = &p->items[p->n++];
    *item = (struct item){.token = value->token};
    memcpy(item->key, p->after, sizeof item->key);
    if (part == PART_STATE)
        keep_fence(p->r, value, item);
    p->full = p->n == PAGE;
    return !p->full;
}

static enum tenure_status list_page(tenure_store *store, struct page *p, struct tenure_error *err)
{
    char prefix[TENURE_KEY_MAX + 1];

    p->n = 0;
    p->full = false;
    tn_key_of(p->r->name, "/", prefix);
    return tenure_store_list(store, prefix, p->after[0] ? p->after : NULL, visit_key, p, NULL,
                             p->r->deadline, err);
}

/* ---- May it go? ---------------------------------------------------------- */

struct answers {
    const char *request;
    unsigned there, silent;
    char who[160];
};

static bool count_answer(void *arg, const struct tenure_candidate *c)
{
    struct answers *a = arg;
    size_t used = strlen(a->who);

    if (!*a->request || strcmp(c->answer, a->request) != 0) {
        a->silent++;
        return true;
    }
    a->there++;
    if (used + strlen(c->id) + 3 < sizeof a->who)
        snprintf(a->who + used, sizeof a->who - used, "%s%s", used ? ", " : "", c->id);
    return true;
}

/* Nobody is asked where nobody has announced itself: a question is a write. */
static enum tenure_status refuse_candidates(struct removal *r, struct tenure_error *err)
{
    struct answers a = {.request = ""};
    char request[33] = "";
    int64_t until = tenure_now() + ANSWER_NS;
    enum tenure_status status =
        tenure_candidates(r->store, r->name, count_answer, &a, r->deadline, err);

    if (status || !a.silent)
        return status;
    status = tenure_control_ping(r->store, r->name, until < r->deadline ? until : r->deadline,
                                 request, err);
    a = (struct answers){.request = request};
    if (!status)
        status = tenure_candidates(r->store, r->name, count_answer, &a, r->deadline, err);
    if (!status && a.there)
        return tenure_fail(err, TENURE_CONFLICT, "%s is in use: %u candidate%s (%s); stop %s first",
                           r->name, a.there, a.there == 1 ? "" : "s", a.who,
                           a.there == 1 ? "it" : "them");
    return status;
}

/* A last look, when the time is over, says why it did not suffice. */
static enum tenure_status look(struct removal *r, struct tenure_lease_view *view,
                               struct tenure_error *err)
{
    enum tenure_status status =
        tenure_lease_look(r->store, r->name, view, r->deadline + ANSWER_NS, err);

    if (status)
        return status;
    if (view->state == TENURE_LEASE_REFUSED)
        return tenure_fail(err, TENURE_CORRUPT,
                           "the lease record of %s cannot be used (%s); `tenure reset` it first",
                           r->name, view->trouble);
    r->epoch = highest(r->epoch, view->epoch);
    return TENURE_OK;
}

static enum tenure_status count_all(struct removal *r, const struct tenure_lease_view *view,
                                    struct tenure_error *err)
{
    bool any = view->state != TENURE_LEASE_ABSENT;
    struct page *p = calloc(1, sizeof *p);
    enum tenure_status status = TENURE_OK;

    if (!p)
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    for (int i = 0; i < (r->state == r->store ? 1 : 2) && !status; i++) {
        p->r = r;
        p->after[0] = '\0';
        p->state_only = i == 1;
        p->state_too = r->state == r->store || i == 1;
        do {
            status = list_page(i ? r->state : r->store, p, err);
            for (size_t k = 0; k < p->n && !status; k++)
                count(&r->found, part_of(p->items[k].key, r->name), p->items[k].key);
            any |= p->n > 0;
        } while (!status && p->full);
    }
    free(p);
    if (!status && !any)
        status =
            tenure_fail(err, TENURE_NOT_LEADER, "there is no election '%s' in this store", r->name);
    return status;
}

/* ---- A term of our own --------------------------------------------------- */

static enum tenure_status start_term(struct removal *r, struct tenure_error *err)
{
    struct tenure_elector_options o = TENURE_ELECTOR_OPTIONS;
    char host[65] = "";

    gethostname(host, sizeof host - 1);
    snprintf(r->id, sizeof r->id, "tenure-remove-%s-%d", host, (int)getpid());
    o.store = r->url;
    o.name = r->name;
    o.id = r->id;
    return tenure_elector_start(&o, &r->elector, err);
}

/* Until the term has begun.  Whoever renews meanwhile is alive. */
static enum tenure_status await_term(struct removal *r, const struct tenure_lease_view *first,
                                     struct tenure_error *err)
{
    struct tenure_lease_view view = TENURE_LEASE_VIEW;
    enum tenure_status status;

    for (;;) {
        int64_t until = tenure_now() + WATCH_NS;

        status = tenure_elector_wait(r->elector, until < r->deadline ? until : r->deadline,
                                     &r->grant, err);
        if (status != TENURE_TIMEOUT)
            return status;
        status = look(r, &view, err);
        if (status)
            return status;
        if (view.state == TENURE_LEASE_HELD && strcmp(view.nonce, first->nonce) != 0 &&
            strcmp(view.holder, r->id) != 0)
            return tenure_fail(err, TENURE_CONFLICT, "%s is held by %s, which renews it", r->name,
                               view.holder);
        if (tenure_now() >= r->deadline)
            return tenure_fail(err, TENURE_TIMEOUT,
                               "%s is held by %s, and its lease of %.3g s has not run out yet; "
                               "give it more time (--timeout)",
                               r->name, view.holder, view.ttl_ms / 1000.0);
    }
}

/* ---- Sealing ------------------------------------------------------------- */

struct names {
    char (*name)[TENURE_KEY_MAX + 1];
    size_t n, room;
    bool no_memory;
};

static bool add_name(void *arg, const char *name)
{
    struct names *names = arg;

    if (names->n == names->room) {
        size_t room = names->room ? 2 * names->room : 8;
        void *grown = realloc(names->name, room * sizeof *names->name);

        if (!grown) {
            names->no_memory = true;
            return false;
        }
        names->name = grown;
        names->room = room;
    }
    snprintf(names->name[names->n++], sizeof *names->name, "%s", name);
    return true;
}

/* Who led before can neither change a document nor create one that it announced (I4). */
static enum tenure_status seal_state(struct removal *r, uint64_t *floor, struct tenure_error *err)
{
    struct names names = {0};
    tenure_state *state = NULL;
    enum tenure_status status =
        tenure_state_open(r->state_url, r->name, &r->grant, r->deadline, &state, err);

    if (!status)
        status = tenure_state_collections(state, add_name, &names, r->deadline, err);
    if (!status && names.no_memory)
        status = tenure_fail(err, TENURE_NOMEM, "out of memory");
    for (size_t i = 0; i < names.n && !status; i++)
        status = tenure_state_seal(state, names.name[i], r->deadline, err);
    if (state)
        *floor = tenure_state_floor(state);
    tenure_state_close(state);
    free(names.name);
    return status;
}

/* A state that knows a higher epoch costs another term, above it. */
static enum tenure_status seal(struct removal *r, const struct tenure_lease_view *first,
                               struct tenure_error *err)
{
    enum tenure_status status = TENURE_FENCED;
    uint64_t floor = 0;

    for (int tries = 0; tries < 3 && status == TENURE_FENCED; tries++) {
        if (tries) {
            struct tenure_grant former = r->grant;

            tenure_elector_fenced(r->elector, floor);
            do {
                status = await_term(r, first, err);
            } while (!status && r->grant.epoch == former.epoch && tenure_now() < r->deadline);
            if (status)
                return status;
        }
        status = seal_state(r, &floor, err);
        r->epoch = highest(r->epoch, highest(floor, r->grant.epoch));
    }
    return status;
}

/* ---- Erasing ------------------------------------------------------------- */

/* Until when a request may be under way: no longer than our term, however long this process sleeps
 * before it is sent.  Another term of ours does not count: somebody may have led in between. */
static enum tenure_status limit_to_term(struct removal *r, int64_t *by, struct tenure_error *err)
{
    uint64_t epoch;
    int64_t now = tenure_now(), end = now + tenure_elector_time_left(r->elector);

    *by = end < r->deadline ? end : r->deadline;
    if (tenure_elector_leads(r->elector, &epoch) && epoch == r->grant.epoch)
        return TENURE_OK;
    return tenure_fail(err, TENURE_CONFLICT,
                       "%s: the term of the removal ended before everything was erased; run it "
                       "again",
                       r->name);
}

/* *missed: something is still there, because somebody changed it meanwhile or nobody knows. */
static enum tenure_status erase_page(struct removal *r, tenure_store *store, struct page *p,
                                     bool *missed, struct tenure_error *err)
{
    struct tenure_swap swaps[PAGE];
    enum tenure_status status = TENURE_OK;
    int64_t by;

    if (!p->n)
        return TENURE_OK;
    for (size_t i = 0; i < p->n; i++) {
        swaps[i] = (struct tenure_swap){.key = p->items[i].key,
                                        .expect = p->items[i].token,
                                        .data = p->items[i].keep,
                                        .len = p->items[i].len,
                                        .tombstone = true};
        if ((status = tenure_nonce(swaps[i].nonce, err)))
            return status;
    }
    if ((status = limit_to_term(r, &by, err)))
        return status;
    status = tenure_store_swap_many(store, swaps, p->n, by, err);
    if ((status == TENURE_TIMEOUT || status == TENURE_UNKNOWN) && by < r->deadline) {
        *missed = true; /* the term may go on: its next page tells */
        return TENURE_OK;
    }
    for (size_t i = 0; i < p->n && !status; i++) {
        bool may_be_there = swaps[i].status == TENURE_CONFLICT || swaps[i].status == TENURE_UNKNOWN;

        *missed |= may_be_there;
        if (swaps[i].status != TENURE_OK && !may_be_there)
            status = tenure_fail(err, swaps[i].status, "%s could not be erased: %s", swaps[i].key,
                                 tenure_status_meaning(swaps[i].status));
    }
    return status;
}

/* Again and again, until a whole listing shows nothing that is left. */
static enum tenure_status erase_all(struct removal *r, tenure_store *store, bool state_only,
                                    struct tenure_error *err)
{
    struct page *p = calloc(1, sizeof *p);
    enum tenure_status status = TENURE_OK;
    size_t left;
    bool missed;

    if (!p)
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    p->r = r;
    p->state_only = state_only;
    p->state_too = state_only || r->state == r->store;
    do {
        left = 0;
        missed = false;
        p->after[0] = '\0';
        do {
            status = list_page(store, p, err);
            if (!status)
                status = erase_page(r, store, p, &missed, err);
            left += p->n;
        } while (!status && p->full);
        if (!status && left && tenure_now() >= r->deadline)
            status =
                tenure_fail(err, TENURE_TIMEOUT,
                            "%s: not everything could be erased in time; run it again", r->name);
        else if (!status && missed)
            nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
    } while (!status && left);
    free(p);
    return status;
}

static enum tenure_status refuse_reuse(struct removal *r, const char *holder,
                                       struct tenure_error *err)
{
    return tenure_fail(err, TENURE_CONFLICT,
                       "%s is in use again%s%s: what was kept of it is erased, the election stays",
                       r->name, *holder ? ", by " : "", holder);
}

/* The lease is free again, by our own release and nobody else's: a later term has begun to keep
 * things that were not erased.  In its place stands what keeps the epoch (I2).  *again: the record
 * has changed or may have, and tells more. */
static enum tenure_status entomb(struct removal *r, bool *again, struct tenure_error *err)
{
    struct tenure_value value = {0};
    struct tn_lease_seen seen = {0};
    char key[TENURE_KEY_MAX + 1], *text = NULL;
    struct tenure_swap swap = {.key = key, .tombstone = true};
    enum tenure_status status;

    tn_key_of(r->name, TN_KEY_LEASE, key);
    status = tn_lease_read(r->store, r->name, &value, &seen, r->deadline, err);
    if (status)
        goto done;
    if (seen.tombstone) /* somebody else has removed it meanwhile, or a try of ours has */
        goto done;
    bool ours = seen.present && memcmp(seen.lease.grant, r->grant.id, TENURE_NONCE_SIZE) == 0;
    if (ours && tn_lease_held(&seen.lease)) {
        status = tenure_fail(err, TENURE_TIMEOUT,
                             "%s: what was kept of it is erased, but its lease could not be "
                             "released; run it again",
                             r->name);
        goto done;
    }
    if (!ours) {
        status = refuse_reuse(r, seen.lease.holder, err);
        goto done;
    }
    struct tn_lease last = tn_lease_tombstone(&seen.lease, r->epoch, tn_wall_ms());
    status = tn_lease_encode(&last, NULL, &text, &swap.len, err);
    if (!status)
        status = tenure_nonce(swap.nonce, err);
    if (status)
        goto done;
    swap.data = text;
    swap.expect = seen.token;
    status = tenure_store_swap(r->store, &swap, r->deadline, err);
    *again = status == TENURE_UNKNOWN || status == TENURE_CONFLICT;
    if (status == TENURE_CONFLICT)
        status = refuse_reuse(r, "", err);
    r->epoch = last.epoch;
done:
    free(text);
    tn_lease_seen_free(&seen);
    tenure_value_free(&value);
    return status;
}

static enum tenure_status entomb_surely(struct removal *r, struct tenure_error *err)
{
    enum tenure_status status;
    bool again;

    do {
        again = false;
        status = entomb(r, &again, err);
    } while (again && tenure_now() < r->deadline);
    return status;
}

/* ---- All of it ----------------------------------------------------------- */

static enum tenure_status remove_all(struct removal *r, const struct tenure_lease_view *first,
                                     struct tenure_error *err)
{
    enum tenure_status status = start_term(r, err);

    if (!status)
        status = await_term(r, first, err);
    if (!status)
        status = seal(r, first, err);
    if (!status)
        status = erase_all(r, r->store, false, err);
    if (!status && r->state != r->store)
        status = erase_all(r, r->state, true, err);
    tenure_elector_stop(r->elector);
    return status ? status : entomb_surely(r, err);
}

static enum tenure_status open_stores(struct removal *r, struct tenure_error *err)
{
    enum tenure_status status = tenure_store_open(r->url, r->deadline, &r->store, err);

    if (status)
        return status;
    r->state = r->store;
    if (strcmp(r->state_url, r->url) != 0)
        status = tenure_store_open(r->state_url, r->deadline, &r->state, err);
    return status;
}

static enum tenure_status check(const struct tenure_removal_options *o,
                                const struct tenure_removal *result, struct tenure_error *err)
{
    enum tenure_status status = tn_sized_check(o->size, "TENURE_REMOVAL_OPTIONS", err);
    const char *fault;

    if (!status)
        status = tn_sized_check(result->size, "TENURE_REMOVAL", err);
    if (status)
        return status;
    if (!o->store)
        return tenure_fail(err, TENURE_INVALID, "no store is given");
    fault = tn_name_fault(o->name);
    return fault ? tenure_fail(err, TENURE_INVALID, "'%.60s' cannot be the name of an election: %s",
                               o->name ? o->name : "", fault)
                 : TENURE_OK;
}

enum tenure_status tenure_remove(const struct tenure_removal_options *options,
                                 struct tenure_removal *result, int64_t deadline,
                                 struct tenure_error *err)
{
    struct tenure_lease_view first = TENURE_LEASE_VIEW;
    struct removal r = {.url = options->store,
                        .state_url = options->state ? options->state : options->store,
                        .name = options->name,
                        .deadline = deadline};
    struct tenure_error scratch;
    enum tenure_status status;

    if (!err)
        err = &scratch;
    status = check(options, result, err);
    if (!status)
        status = open_stores(&r, err);
    if (!status)
        status = look(&r, &first, err);
    if (!status)
        status = count_all(&r, &first, err);
    if (!status)
        status = refuse_candidates(&r, err);
    if (!status && !options->dry_run)
        status = remove_all(&r, &first, err);
    if (!status) {
        r.found.epoch = r.epoch;
        tn_sized_copy(result, &r.found, sizeof r.found);
    }
    if (r.state != r.store)
        tenure_store_close(r.state);
    tenure_store_close(r.store);
    return status;
}
