/* jobs/driver_work.c - the work: rounds, claims, commits, starts and stops. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/key.h"
#include "jobs/driver_inner.h"
#include "os/clock.h"
#include "os/poll.h"
#include "os/thread.h"

#define SPECS_AT_ONCE 64u

/* ---- Status -------------------------------------------------------------- */

/* Nobody runs it, as far as we know: no worker can take it, the one that it is planned for has
 * ended, or it is planned for us, and not asked for with a living owner. */
static bool is_unowned(const struct tn_worker *w, const struct tn_known *k, bool own)
{
    const struct tn_held *h = k->held ? &w->cfg.held[k->held - 1] : NULL;
    const struct tn_member *r;

    if (k->slot == TN_SLOT_NONE)
        return true;
    if (own)
        return !h || (h->program == TN_PROGRAM_NONE && !h->asked);
    r = &w->cfg.records[k->slot];
    return !w->cfg.peers[k->slot].damaged &&
           (r->state == TN_MEMBER_DEAD || (r->state == TN_MEMBER_LEFT && r->linger_ms == 0));
}

static void count_jobs(const struct tn_worker *w, struct tn_jobs_status *s)
{
    s->jobs = s->unplaced = s->planned = s->unowned = 0;
    s->load_total = 0;
    for (uint32_t j = 0; j < w->job_count; j++) {
        const struct tn_known *k = &w->cfg.known[j];

        if (!k->listed || k->wanted != TN_WANTED_RUNNING)
            continue;
        s->jobs++;
        s->load_total += k->weight;
        s->unplaced += k->slot == TN_SLOT_NONE;
        bool own = k->slot == w->own;
        s->planned += own;
        s->unowned += is_unowned(w, k, own);
    }
}

static void count_held(const struct tn_worker *w, struct tn_jobs_status *s)
{
    s->running = s->asked = s->in_doubt = 0;
    s->load = 0;
    for (uint32_t i = 0; i < w->held_count; i++) {
        const struct tn_held *h = &w->cfg.held[i];
        bool runs = h->program != TN_PROGRAM_NONE;

        s->running += runs;
        s->load += runs ? w->cfg.known[h->job].weight : 0;
        s->asked += h->asked;
        s->in_doubt += h->doubt;
    }
}

static void write_status(tn_jobs_driver *d)
{
    const struct tn_worker *w = &d->worker;
    struct tn_jobs_status *s = &d->status;

    if (!d->changed)
        return;
    d->changed = false;
    pthread_mutex_lock(&d->lock);
    s->members = 0;
    for (uint32_t at = 0; at < w->peer_count; at++)
        s->members += w->cfg.peers[at].present && !w->cfg.peers[at].damaged &&
                      w->cfg.records[at].state == TN_MEMBER_ALIVE;
    count_jobs(w, s);
    count_held(w, s);
    if (s->unowned == 0)
        d->oldest_ns = 0;
    else if (d->oldest_ns == 0)
        d->oldest_ns = tenure_now();
    s->oldest_ns = d->oldest_ns;
    s->plan_changes += s->plan_seq != w->plan_seq;
    s->plan_seq = w->plan_seq;
    pthread_mutex_unlock(&d->lock);
    if (d->hooks.changed)
        d->hooks.changed(d->hooks.arg);
}

static void count_one(tn_jobs_driver *d, uint64_t *counter)
{
    pthread_mutex_lock(&d->lock);
    ++*counter;
    pthread_mutex_unlock(&d->lock);
}

/* ---- Starts -------------------------------------------------------------- */

static void report_stopped(tn_jobs_driver *d, const struct tn_start *start)
{
    pthread_mutex_lock(&d->lock);
    tn_jobs_push_stopped(&d->inbox, start->job, start->epoch);
    pthread_mutex_unlock(&d->lock);
}

static void add_start(tn_jobs_driver *d, const struct tn_start *start)
{
    struct tn_side *side = d->sides[start->job];

    while (side && side->commits) { /* of a run before this one */
        struct tn_commit *next = side->commits->next;

        free(side->commits);
        side->commits = next;
    }
    if (d->due_count == d->due_room) {
        size_t room = d->due_room ? 2 * d->due_room : 64;
        struct tn_due_start *grown = realloc(d->due, room * sizeof *grown);

        if (!grown) {
            report_stopped(d, start);
            return;
        }
        d->due = grown;
        d->due_room = room;
    }
    d->due[d->due_count++] = (struct tn_due_start){.start = *start, .identity = d->identity};
    d->due_at_ns = 0;
}

/* A start that has not been told to the owner is not told any more: its run is over. */
static bool drop_start(tn_jobs_driver *d, uint32_t number)
{
    for (size_t i = 0; i < d->due_count; i++) {
        if (d->due[i].start.job != number)
            continue;
        report_stopped(d, &d->due[i].start);
        d->due[i] = d->due[--d->due_count];
        return true;
    }
    return false;
}

/* Only as the incarnation that claimed it, and before the heartbeat has told all to end. */
static bool start_job(tn_jobs_driver *d, const struct tn_due_start *due, const char *id,
                      const struct tenure_value *spec)
{
    const struct tn_side *side = d->sides[due->start.job];
    struct tn_job_start start = {.number = due->start.job,
                                 .id = id,
                                 .epoch = due->start.epoch,
                                 .checkpoint = side ? side->checkpoint : NULL,
                                 .checkpoint_len = side ? side->checkpoint_len : 0,
                                 .spec = spec->data,
                                 .spec_len = spec->len};
    bool may;

    memcpy(start.grant, due->start.grant, sizeof start.grant);
    pthread_mutex_lock(&d->hook_lock);
    may = d->may_start && tn_identity_equal(&d->may_start_as, &due->identity);
    if (may)
        d->hooks.start(d->hooks.arg, &start);
    pthread_mutex_unlock(&d->hook_lock);
    return may;
}

static void report_started(tn_jobs_driver *d, const struct tn_due_start *due, const char *id)
{
    struct tn_side *side = d->sides[due->start.job];
    char text[TN_MEMBER_ID_MAX + 32] = "";

    if (side && side->taken_from)
        snprintf(text, sizeof text, "taken over from %s", d->former_owners[side->taken_from - 1]);
    if (side) {
        side->taken_from = 0;
        tn_jobs_trim_side(d, due->start.job);
    }
    tn_jobs_moves_started(d, due->start.job);
    pthread_mutex_lock(&d->lock);
    d->status.starts++;
    d->status.takeovers += text[0] != '\0';
    pthread_mutex_unlock(&d->lock);
    tn_jobs_trace(d, (struct tn_jobs_trace){.kind = TN_JOBS_STARTED,
                                            .job = id,
                                            .number = due->start.job,
                                            .epoch = due->start.epoch,
                                            .text = text});
}

/* A specification that cannot be read now is read again later: by the plan the job stays ours. */
static bool start_or_wait(tn_jobs_driver *d, size_t i, const char *id,
                          const struct tenure_read *spec)
{
    struct tn_due_start due = d->due[i];

    if (spec->status == TENURE_CORRUPT && !due.damaged) {
        d->due[i].damaged = true;
        tn_jobs_trace(d, (struct tn_jobs_trace){
                             .kind = TN_JOBS_DAMAGED, .job = spec->key, .text = "it is damaged"});
    }
    if (spec->status)
        return false;
    d->due[i] = d->due[--d->due_count];
    if (id && start_job(d, &due, id, &spec->value))
        report_started(d, &due, id);
    else
        report_stopped(d, &due.start);
    return true;
}

/* Those from first to end, the specifications of all in one request; false: it failed. */
static bool start_some(tn_jobs_driver *d, size_t first, size_t end)
{
    static const struct tenure_read none;
    struct tenure_read reads[SPECS_AT_ONCE] = {0};
    const struct tenure_read *specs[SPECS_AT_ONCE];
    const char *ids[SPECS_AT_ONCE];
    char keys[SPECS_AT_ONCE][TENURE_KEY_MAX + 1];
    enum tenure_status status;
    size_t n = 0;

    for (size_t i = first; i < end; i++) {
        bool has_spec = false;
        const char *id = tn_jobs_id_of(d, d->due[i].start.job, &has_spec);

        if (id && has_spec && tn_key_item(d->group, TN_KEY_SPEC, id, keys[n], NULL))
            id = NULL;
        ids[i - first] = id;
        specs[i - first] = id && has_spec ? &reads[n] : &none;
        if (id && has_spec) {
            reads[n].key = keys[n];
            n++;
        }
    }
    status = tn_jobs_read_specs(d, reads, n);
    for (size_t i = end; i-- > first;) /* the last takes the place of one that starts */
        if (!start_or_wait(d, i, ids[i - first], specs[i - first]))
            d->due_at_ns = tenure_now() + d->timing.retry_ns;
    for (size_t i = 0; i < n; i++)
        tenure_value_free(&reads[i].value);
    return status == TENURE_OK;
}

/* Until when other things may go before a request that waits: half of its time is its own. */
static int64_t spare_until(const tn_jobs_driver *d)
{
    int64_t now = tenure_now();

    if (d->actions.request == TN_WORK_NOTHING)
        return INT64_MAX;
    return now + (d->actions.request_by_ns - now) / 2;
}

/* Some of them at least; no more after `until`. */
static void start_due(tn_jobs_driver *d, int64_t until)
{
    bool goes_on = tenure_now() >= d->due_at_ns;

    for (size_t end = d->due_count, first; end > 0 && goes_on; end = first) {
        first = end > SPECS_AT_ONCE ? end - SPECS_AT_ONCE : 0;
        goes_on = start_some(d, first, end) && tenure_now() < until;
    }
}

/* ---- The duties of a step ------------------------------------------------ */

static void stop_job(tn_jobs_driver *d, uint32_t number, int64_t by_ns, bool fenced)
{
    bool wanted = d->worker.cfg.known[number].wanted == TN_WANTED_RUNNING;
    enum tn_jobs_cause cause = fenced    ? TN_CAUSE_FENCED
                               : !wanted ? TN_CAUSE_PAUSED
                                         : TN_CAUSE_MOVED;

    if (fenced)
        tn_jobs_fail_commits(d, number, "the job is not this worker's any more");
    tn_jobs_record_stop(d, number, fenced);
    count_one(d, &d->status.stops[cause]);
    tn_jobs_trace(d, (struct tn_jobs_trace){.kind = TN_JOBS_STOPPING,
                                            .job = tn_jobs_id_of(d, number, NULL),
                                            .number = number,
                                            .text = tn_jobs_cause_word(cause)});
    if (!drop_start(d, number))
        d->hooks.stop(d->hooks.arg, number, by_ns, cause);
}

static void do_duties(tn_jobs_driver *d, const struct tn_work_actions *out)
{
    for (unsigned i = 0; i < out->stop_count; i++)
        stop_job(d, out->stops[i], out->stop_by_ns[i], out->fenced[i]);
    for (unsigned i = 0; i < out->start_count; i++) {
        tn_jobs_record_started(d, &out->starts[i]);
        add_start(d, &out->starts[i]);
    }
    for (unsigned i = 0; i < out->committed_count; i++)
        tn_jobs_committed(d, out->committed[i]);
    d->ring |= out->ring;
    d->changed |= out->stop_count || out->start_count;
}

/* What is held no more needs no bytes; whose job is another's gets no answer any more. */
static void sweep(tn_jobs_driver *d)
{
    for (uint32_t j = 0; j < d->jobs_max; j++) {
        uint32_t at = d->worker.cfg.known[j].held;

        if (!d->sides[j])
            continue;
        if (at == 0 || d->worker.cfg.held[at - 1].fenced)
            tn_jobs_fail_commits(d, j, "the job is not this worker's any more");
        if (at == 0)
            tn_jobs_drop_side(d, j);
    }
    d->changed = true;
}

/* As the heartbeat knows it now.  Whoever has joined rings: the others need not wait. */
static void take_membership(tn_jobs_driver *d, struct tn_work_event *ev)
{
    pthread_mutex_lock(&d->lock);
    ev->in = tn_heartbeat_holds(&d->beat, ev->now_ns);
    ev->leaving = d->beat.phase == TN_BEAT_DRAINING;
    ev->deadline_ns = d->beat.deadline_ns;
    ev->identity = d->beat.identity;
    pthread_mutex_unlock(&d->lock);
}

static int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

/* The core asks in the order in which it holds the jobs; a record has them ascending, or nobody can
 * read it. */
static void copy_profile(tn_jobs_driver *d)
{
    struct tn_member *to = &d->beat.profile;
    const struct tn_member *from = &d->worker.profile;

    pthread_mutex_lock(&d->lock);
    to->applied = from->applied;
    to->ask_count = from->ask_count;
    memcpy(to->asks, from->asks, sizeof to->asks);
    qsort(to->asks, to->ask_count, sizeof to->asks[0], by_number);
    pthread_mutex_unlock(&d->lock);
}

/* Fresh for every step, but drawn for many at once: a system call for each of 100,000 commits is
 * felt. */
static void draw_entropy(tn_jobs_driver *d, uint64_t entropy[2])
{
    const unsigned all = sizeof d->entropy / sizeof d->entropy[0];

    if (d->entropy_left == 0) {
        for (unsigned i = 0; i < all; i += 2)
            tn_jobs_entropy(&d->entropy[i]);
        d->entropy_left = all;
    }
    entropy[0] = d->entropy[--d->entropy_left];
    entropy[1] = d->entropy[--d->entropy_left];
}

void tn_jobs_feed(tn_jobs_driver *d, struct tn_work_event *ev)
{
    struct tn_work_actions *out = d->actions.request == TN_WORK_NOTHING ? &d->actions : &d->beside;
    bool another;

    ev->now_ns = tenure_now();
    ev->wall_ms = tn_wall_ms();
    draw_entropy(d, ev->entropy);
    take_membership(d, ev);
    another = ev->in != d->joined || (ev->in && !tn_identity_equal(&ev->identity, &d->identity));
    tn_jobs_record_membership(d, ev);
    d->joined = ev->in;
    d->ring |= ev->in && another;
    if (ev->in)
        d->identity = ev->identity;
    pthread_mutex_lock(&d->table_lock);
    tn_jobs_moves_before(d, ev);
    tn_worker_step(&d->worker, ev, out);
    tn_jobs_moves_after(d, ev);
    pthread_mutex_unlock(&d->table_lock);
    d->actions.wake_ns = out->wake_ns;
    if (ev->kind == TN_WORK_CATALOGUE) /* the end of a round: the only time that it changes */
        copy_profile(d);
    do_duties(d, out);
    if (another || ev->kind == TN_WORK_CATALOGUE)
        sweep(d);
}

/* ---- The inbox ----------------------------------------------------------- */

static void feed_stopped(tn_jobs_driver *d, const struct tn_stopped *s)
{
    struct tn_work_event ev = {.kind = TN_WORK_STOPPED, .job = s->job};
    uint32_t at = s->job < d->jobs_max ? d->worker.cfg.known[s->job].held : 0;

    if (!at || d->worker.cfg.held[at - 1].epoch != s->epoch)
        return; /* of a run that has been reported before */
    tn_jobs_fail_commits(d, s->job, "the job has ended");
    d->changed = true;
    tn_jobs_feed(d, &ev);
}

static void feed_all_stopped(tn_jobs_driver *d)
{
    d->due_count = 0;
    for (uint32_t i = d->worker.held_count; i-- > 0;) {
        const struct tn_held *h = &d->worker.cfg.held[i];

        if (i < d->worker.held_count && h->program != TN_PROGRAM_NONE)
            feed_stopped(d, &(struct tn_stopped){h->job, h->epoch});
    }
}

/* All in one event, so that they travel in one batch. */
static void feed_commits(tn_jobs_driver *d)
{
    struct tn_work_event ev = {
        .kind = TN_WORK_COMMIT, .jobs = d->again, .n = (unsigned)d->again_count};
    uint32_t *again = d->again;

    if (d->again_count == 0)
        return;
    d->again = NULL; /* the answer to some may already make others due */
    d->again_count = d->again_room = 0;
    tn_jobs_feed(d, &ev);
    free(again);
}

static bool drain_inbox(tn_jobs_driver *d)
{
    struct tn_inbox in;

    pthread_mutex_lock(&d->lock);
    in = d->inbox;
    d->inbox = (struct tn_inbox){.commits_end = &d->inbox.commits};
    bool halted = d->halted;
    pthread_mutex_unlock(&d->lock);
    while (in.commits) {
        struct tn_commit *c = in.commits;

        in.commits = c->next;
        tn_jobs_add_commit(d, c);
    }
    feed_commits(d);
    for (size_t i = 0; i < in.stopped_count; i++)
        feed_stopped(d, &in.stopped[i]);
    free(in.stopped);
    if (in.all_stopped)
        feed_all_stopped(d);
    return halted;
}

static bool inbox_is_empty(tn_jobs_driver *d)
{
    pthread_mutex_lock(&d->lock);
    bool empty = !d->inbox.commits && !d->inbox.stopped_count && !d->inbox.all_stopped;
    pthread_mutex_unlock(&d->lock);
    return empty && d->again_count == 0;
}

/* ---- The loop ------------------------------------------------------------ */

/* Once a batch, and not between two of them. */
static void ring_bell(tn_jobs_driver *d)
{
    if (!d->ring || d->actions.request == TN_WORK_SWAP_JOBS)
        return;
    d->ring = false;
    tn_bell_ring(d->work_store, d->group, tenure_now() + d->timing.request_ns);
}

static void carry_out(tn_jobs_driver *d)
{
    struct tn_answer answer = {0};

    d->batched |= d->actions.n >= TN_WORK_BATCH_FIRST;
    tn_jobs_request(d, &answer);
    /* What came meanwhile goes into the next batch: the worker still waits for this answer. */
    drain_inbox(d);
    d->actions.request = TN_WORK_NOTHING;
    tn_jobs_feed(d, &answer.event);
    tn_answer_free(d, &answer);
}

/* While the store fails, no wait of its own: a little later everything is asked again, also what
 * is in doubt. */
static enum tn_work_kind wait_a_little(tn_jobs_driver *d, int64_t until)
{
    struct pollfd wake = {.fd = d->work_fd, .events = POLLIN};
    int64_t later = tenure_now() + d->timing.retry_ns;

    if (later < until)
        until = later;
    return tn_poll(&wake, 1, until) == 0 && d->joined ? TN_WORK_BELL : TN_WORK_TIMER;
}

/* After much work the memory for it goes back: a worker that only holds its jobs needs none. */
static void give_back_memory(tn_jobs_driver *d)
{
    if (d->batched)
        tn_jobs_array_clear(d->worker.cfg.batch);
    tn_jobs_free_spares(d);
    tn_jobs_free_reads(d);
    d->batched = false;
    if (d->due_count == 0) {
        free(d->due);
        d->due = NULL;
        d->due_room = 0;
    }
}

static void wait_for_change(tn_jobs_driver *d)
{
    struct tn_work_event ev = {.kind = TN_WORK_TIMER};
    int64_t until = d->actions.wake_ns;
    struct tenure_error err = {0};
    enum tenure_status status;

    if (d->due_count && d->due_at_ns < until)
        until = d->due_at_ns;
    if (tn_jobs_record_due(d) < until)
        until = tn_jobs_record_due(d);
    if (d->joined && !d->work_failing) {
        status = tenure_store_wait(d->work_store, d->watches, 3, d->work_fd, until, &err);
        if (status == TENURE_OK)
            ev.kind = TN_WORK_BELL;
        else if (status != TENURE_TIMEOUT && status != TENURE_CANCELLED)
            tn_jobs_answered(d, &d->work_failing, "watching the plan", status, &err);
    } else {
        ev.kind = wait_a_little(d, until);
    }
    tn_jobs_drain(d->work_fd);
    tn_jobs_feed(d, &ev);
}

void *tn_jobs_work_main(void *driver)
{
    tn_jobs_driver *d = driver;

    tn_thread_name("jobs-work");
    tn_jobs_feed(d, &(struct tn_work_event){.kind = TN_WORK_TIMER});
    while (!drain_inbox(d)) {
        int64_t until = spare_until(d), now;

        start_due(d, until);
        ring_bell(d);
        now = tenure_now();
        if (now >= tn_jobs_record_due(d) && now < until)
            tn_jobs_record_write(d, until, false);
        if (d->actions.request != TN_WORK_NOTHING) {
            carry_out(d);
        } else if (inbox_is_empty(d)) {
            write_status(d);
            give_back_memory(d);
            wait_for_change(d);
        }
    }
    pthread_mutex_lock(&d->lock);
    d->closed = true;
    pthread_mutex_unlock(&d->lock);
    drain_inbox(d);
    for (uint32_t j = 0; j < d->jobs_max; j++)
        tn_jobs_fail_commits(d, j, "the worker has left");
    tn_jobs_record_write(d, INT64_MAX, true);
    return NULL;
}
