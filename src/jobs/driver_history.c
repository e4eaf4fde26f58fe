/*
 * jobs/driver_history.c - what the worker did to its jobs, for people (jobs/history.h).
 *
 * On the work's thread.  What happens is collected, one event for all jobs to which the same
 * happened, and written when there is nothing else to do: one read and one write after a burst,
 * however many jobs it had; none while nothing moves.  Nothing waits for it, and what cannot be
 * written is forgotten.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/key.h"
#include "base/text.h"
#include "control/edit.h"
#include "jobs/driver_inner.h"
#include "jobs/history.h"
#include "os/clock.h"

#define WRITE_AFTER_NS TN_S /* of quiet: what follows soon goes with it */
#define WRITE_BY_NS    TN_S
#define LAST_BY_NS     (5 * TN_S) /* when the worker has left: nothing else is to be done */
#define EPOCHS_MAX     64u        /* different events at a time; then one is of several epochs */
#define RANGES_MAX     65536u
#define TOGETHER_MS    200

/* Jobs to which the same happened. */
struct tn_recorded {
    struct tn_jobs_history_event event; /* without its numbers */
    struct range {
        uint32_t first, last;
    } * ranges; /* in the order in which they came */
    uint32_t count, room;
};

/* ---- Collecting ---------------------------------------------------------- */

static bool is_same(const struct tn_jobs_history_event *a, const struct tn_jobs_history_event *b,
                    bool any_epoch)
{
    return a->kind == b->kind && a->cause == b->cause && (any_epoch || a->epoch == b->epoch) &&
           strcmp(a->other, b->other) == 0;
}

/* The event that tells of it, made if there is none; NULL: no memory, or too many of them. */
static struct tn_recorded *event_of(struct tn_record *r, const struct tn_jobs_history_event *e)
{
    bool many = r->count >= EPOCHS_MAX;

    for (uint32_t i = r->count; i-- > 0 && e->kind != TN_HISTORY_BURIED;) {
        if (!is_same(&r->events[i].event, e, many) ||
            (!many && e->at_ms - r->events[i].event.at_ms > TOGETHER_MS))
            continue;
        if (r->events[i].event.epoch != e->epoch)
            r->events[i].event.epoch = 0;
        return &r->events[i];
    }
    if (r->count == TN_HISTORY_EVENTS_MAX)
        return NULL;
    if (r->count == r->room) {
        uint32_t room = r->room ? 2 * r->room : 8;
        struct tn_recorded *grown = realloc(r->events, room * sizeof *grown);

        if (!grown)
            return NULL;
        r->events = grown;
        r->room = room;
    }
    struct tn_recorded *one = &r->events[r->count++];
    *one = (struct tn_recorded){.event = *e};
    return one;
}

static void add_job(struct tn_recorded *one, uint32_t job)
{
    struct range *last = one->count ? &one->ranges[one->count - 1] : NULL;

    if (last && job == last->last + 1) {
        last->last = job;
    } else if (one->count < RANGES_MAX) {
        if (one->count == one->room) {
            uint32_t room = one->room ? 2 * one->room : 8;
            struct range *grown = realloc(one->ranges, room * sizeof *grown);

            if (!grown)
                return;
            one->ranges = grown;
            one->room = room;
        }
        one->ranges[one->count++] = (struct range){job, job};
    }
    one->event.jobs++;
}

static struct tn_recorded *record(tn_jobs_driver *d, enum tn_jobs_history_kind kind, unsigned cause,
                                  uint64_t epoch, const char *other)
{
    struct tn_jobs_history_event e = {
        .at_ms = (int64_t)tn_wall_ms(), .kind = kind, .cause = cause, .epoch = epoch};

    memcpy(e.other, other, strnlen(other, TN_MEMBER_ID_MAX));
    if (d->record.count == 0)
        d->record.due_ns = tenure_now() + WRITE_AFTER_NS;
    return event_of(&d->record, &e);
}

static void record_job(tn_jobs_driver *d, enum tn_jobs_history_kind kind, unsigned cause,
                       uint64_t epoch, const char *other, uint32_t job)
{
    struct tn_recorded *one = record(d, kind, cause, epoch, other);

    if (one)
        add_job(one, job);
}

/* ---- What happens -------------------------------------------------------- */

static const struct tn_held *held_of_job(const tn_jobs_driver *d, uint32_t job)
{
    uint32_t at = d->worker.cfg.known[job].held;

    return at ? &d->worker.cfg.held[at - 1] : NULL;
}

void tn_jobs_record_started(tn_jobs_driver *d, const struct tn_start *start)
{
    const struct tn_side *side = d->sides[start->job];
    const char *from = side && side->taken_from ? d->former_owners[side->taken_from - 1] : "";
    enum tn_move_cause cause = *from ? tn_jobs_owner_cause(d, from) : TN_MOVE_PLACED;

    if (cause == TN_MOVE_REBALANCED || cause == TN_MOVE_DRAINED)
        cause = TN_MOVE_DIED; /* it lives again, as another incarnation */
    record_job(d, TN_HISTORY_CLAIMED, cause, start->epoch, from, start->job);
}

/* By the plan and the catalogue as they are now; *to gets the worker that it is planned for. */
static unsigned cause_of_stop(const tn_jobs_driver *d, uint32_t job, const char **to)
{
    const struct tn_worker *w = &d->worker;
    const struct tn_known *k = &w->cfg.known[job];
    const struct tn_held *h = held_of_job(d, job);

    *to = "";
    if (!k->listed || k->wanted == TN_WANTED_REMOVED)
        return TN_HISTORY_REMOVED;
    if (k->wanted != TN_WANTED_RUNNING || (h && h->wanted != TN_WANTED_RUNNING))
        return TN_MOVE_PAUSED;
    if (k->slot == TN_SLOT_NONE)
        return TN_MOVE_UNPLACED;
    if (k->slot == w->own)
        return TN_HISTORY_ENDED;
    *to = w->cfg.peers[k->slot].id;
    if (w->cfg.requirements[k->requirements].pin[0])
        return TN_HISTORY_PINNED;
    if (w->own == w->peer_count)
        return TN_MOVE_LOST;
    if (w->cfg.records[w->own].mark != TN_MARK_NONE)
        return w->cfg.records[w->own].mark == TN_MARK_EVICTED ? TN_MOVE_EVICTED : TN_MOVE_LOST;
    return w->cfg.records[w->own].draining ? TN_MOVE_DRAINED : TN_MOVE_REBALANCED;
}

void tn_jobs_record_stop(tn_jobs_driver *d, uint32_t job, bool fenced)
{
    const struct tn_held *h = held_of_job(d, job);
    const char *to;
    unsigned cause = cause_of_stop(d, job, &to);

    record_job(d, TN_HISTORY_REVOKED, fenced ? TN_HISTORY_FENCED : cause, h ? h->epoch : 0,
               fenced ? "" : to, job);
}

void tn_jobs_record_released(tn_jobs_driver *d, uint32_t job, uint64_t epoch)
{
    const char *to;
    unsigned cause = cause_of_stop(d, job, &to);

    record_job(d, TN_HISTORY_RELEASED, cause, epoch, to, job);
}

void tn_jobs_record_buried(tn_jobs_driver *d, const char *id, const struct tn_member *member)
{
    static const unsigned causes[] = {[TN_MARK_NONE] = TN_MOVE_DIED,
                                      [TN_MARK_EVICTED] = TN_MOVE_EVICTED,
                                      [TN_MARK_PLACEHOLDER] = TN_MOVE_LOST};

    record(d, TN_HISTORY_BURIED, causes[member->mark], 0, id);
}

/* What runs here, in one event an epoch. */
static void record_all(tn_jobs_driver *d, enum tn_jobs_history_kind kind, unsigned cause)
{
    for (uint32_t i = 0; i < d->worker.held_count; i++) {
        const struct tn_held *h = &d->worker.cfg.held[i];

        if (h->program != TN_PROGRAM_NONE)
            record_job(d, kind, cause, h->epoch, "", h->job);
    }
}

void tn_jobs_record_membership(tn_jobs_driver *d, const struct tn_work_event *ev)
{
    bool over = d->joined && (!ev->in || !tn_identity_equal(&ev->identity, &d->identity));
    bool leaving = ev->in && ev->leaving;
    unsigned cause = TN_HISTORY_EXPIRED;

    pthread_mutex_lock(&d->lock);
    leaving |= over && d->stopped_to_leave; /* its programs ended before this thread looked */
    if (d->stopped_as_lost)
        cause = TN_MOVE_LOST;
    else if (d->stopped_as_evicted)
        cause = TN_MOVE_EVICTED;
    pthread_mutex_unlock(&d->lock);
    if (leaving && !d->record.leaving)
        record_all(d, TN_HISTORY_LEAVING, TN_MOVE_LEFT);
    else if (over && !d->record.leaving)
        record_all(d, TN_HISTORY_LOST, cause);
    d->record.leaving = leaving || (d->record.leaving && !ev->in);
}

/* ---- Writing ------------------------------------------------------------- */

static int by_first(const void *a, const void *b)
{
    const struct range *x = a, *y = b;

    return (x->first > y->first) - (x->first < y->first);
}

/* The numbers as text: those that have no room are counted, not named.  Twice the same is once. */
static char *text_of(struct tn_recorded *one)
{
    char *text = malloc(TN_HISTORY_JOBS_MAX + 1);
    size_t used = 0;
    uint64_t named = 0;

    if (!text)
        return NULL;
    strcpy(text, "-");
    if (one->count)
        qsort(one->ranges, one->count, sizeof *one->ranges, by_first);
    for (uint32_t i = 0, next; i < one->count; i = next) {
        uint32_t first = one->ranges[i].first, last = one->ranges[i].last;

        for (next = i + 1; next < one->count && one->ranges[next].first <= last + 1; next++)
            last = one->ranges[next].last > last ? one->ranges[next].last : last;
        if (used + 24 > TN_HISTORY_JOBS_MAX) {
            snprintf(text + used, TN_HISTORY_JOBS_MAX - used, ",+");
            one->event.jobs = one->event.jobs > named ? one->event.jobs : (uint32_t)named + 1;
            return text;
        }
        used += (size_t)snprintf(text + used, TN_HISTORY_JOBS_MAX - used, "%s%u", used ? "," : "",
                                 first);
        if (last > first)
            used += (size_t)snprintf(text + used, TN_HISTORY_JOBS_MAX - used, "-%u", last);
        named += last - first + 1;
    }
    one->event.jobs = (uint32_t)named;
    return text;
}

/* What was written by an attempt whose answer was lost is there already, among those that were
 * read. */
static bool is_there(const struct tn_jobs_history *h, uint32_t read,
                     const struct tn_jobs_history_event *e)
{
    for (uint32_t i = read; i-- > 0;)
        if (h->events[i].at_ms == e->at_ms && is_same(&h->events[i], e, false))
            return true;
    return false;
}

static enum tenure_status add_events(void *arg, const struct tenure_value *value,
                                     struct tn_edit *edit, struct tenure_error *err)
{
    tn_jobs_driver *d = arg;
    struct tn_record *r = &d->record;
    struct tn_jobs_history h = {0};
    size_t bytes = d->data_max < TN_HISTORY_BYTES_MAX ? d->data_max : TN_HISTORY_BYTES_MAX;
    enum tenure_status status = TENURE_OK;
    bool done = true;

    if (!tenure_token_absent(&value->token) && !value->tombstone)
        status = tn_jobs_history_read(value->data, value->len, &h, err);
    if (status && status != TENURE_CORRUPT)
        return status; /* a newer build's: it stays */
    if (status && tn_jobs_is_foreign(value->data, value->len, TN_HISTORY_KIND " "))
        return tenure_fail(err, TENURE_INVALID, "there is a record of something else");
    const uint32_t read = h.count;
    for (uint32_t i = 0; i < r->count && done; i++) {
        struct tn_recorded *one = &r->events[i];

        if (one->event.kind != TN_HISTORY_BURIED && one->count == 0)
            continue; /* no memory for its jobs */
        if (is_there(&h, read, &one->event))
            continue;
        struct tn_jobs_history_event e = one->event;
        e.numbers = text_of(one);
        e.jobs = one->event.jobs;
        done = e.numbers && tn_jobs_history_append(&h, &e);
    }
    const bool same = done && h.count == read;
    edit->text = done && !same ? tn_jobs_history_text(&h, bytes) : NULL;
    tn_jobs_history_free(&h);
    return edit->text || same ? TENURE_OK : tenure_fail(err, TENURE_NOMEM, "out of memory");
}

static void forget(struct tn_record *r)
{
    for (uint32_t i = 0; i < r->count; i++)
        free(r->events[i].ranges);
    free(r->events);
    r->events = NULL;
    r->count = r->room = 0;
}

int64_t tn_jobs_record_due(const tn_jobs_driver *d)
{
    bool busy = d->actions.request != TN_WORK_NOTHING;

    if (d->record.count == 0)
        return INT64_MAX;
    return d->record.due_ns + (busy ? d->timing.poll_ns : 0);
}

/* Once, until it can be written again: what it would have told is forgotten. */
static void report_unwritten(tn_jobs_driver *d, const char *key, enum tenure_status status,
                             const struct tenure_error *err)
{
    char text[TENURE_KEY_MAX + 300];

    snprintf(text, sizeof text, "%s is not written: %.200s", key,
             err->text[0] ? err->text : tenure_status_word(status));
    tn_text_repair(text, '?');
    if (status && !d->record.failing)
        tn_jobs_trace(
            d, (struct tn_jobs_trace){.kind = TN_JOBS_TROUBLE, .status = status, .text = text});
    d->record.failing = status;
}

void tn_jobs_record_write(tn_jobs_driver *d, int64_t until, bool last)
{
    char key[TENURE_KEY_MAX + 1];
    int64_t by_ns = tenure_now() + (last ? LAST_BY_NS : WRITE_BY_NS);
    struct tenure_error err = {0};
    enum tenure_status status;

    if (d->record.count == 0 || (last && d->work_failing))
        return;
    status = tn_key_item(d->group, TN_KEY_JOB_HISTORY, d->id, key, &err);
    if (status)
        tn_key_of(d->group, TN_KEY_JOB_HISTORY, key);
    else
        status = tn_edit_register(d->work_store, key, add_events, d, by_ns < until ? by_ns : until,
                                  &err);
    if (status == TENURE_UNAVAILABLE || status == TENURE_TIMEOUT || status == TENURE_UNKNOWN ||
        status == TENURE_CONFLICT) {
        d->record.due_ns = tenure_now() + d->timing.poll_ns; /* until then there may be more */
        return;
    }
    report_unwritten(d, key, status, &err);
    forget(&d->record);
}

void tn_jobs_record_free(tn_jobs_driver *d)
{
    forget(&d->record);
}
