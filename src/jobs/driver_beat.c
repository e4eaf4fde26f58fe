/* jobs/driver_beat.c - the heartbeat: joins, renews, leaves; never held up by the work. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/key.h"
#include "jobs/driver_inner.h"
#include "os/clock.h"
#include "os/poll.h"
#include "os/thread.h"

static bool holds(enum tn_beat_phase phase)
{
    return phase == TN_BEAT_IN || phase == TN_BEAT_DRAINING;
}

/* ---- What is told -------------------------------------------------------- */

static const char *why_lost(const tn_jobs_driver *d, enum tn_beat_kind kind)
{
    const struct tn_heartbeat *h = &d->beat;

    if (kind == TN_BEAT_EV_FIRED)
        return "the guard has fired";
    if (kind != TN_BEAT_EV_READ || h->must_read)
        return "no renewal was acknowledged in time";
    if (!h->present)
        return "its member record is lost";
    if (h->record.mark == TN_MARK_EVICTED)
        return "an operator has evicted it";
    return "its member record is not its own any more";
}

/* Why it cannot join, for people; "": it can, or is a member. */
static void say_why_it_waits(const struct tn_heartbeat *h, char *out, size_t size)
{
    out[0] = '\0';
    if (h->phase != TN_BEAT_OUT || !h->seen || !h->present || h->must_read)
        return;
    if (h->record.mark == TN_MARK_EVICTED)
        snprintf(out, size, "evicted by an operator: `tenure jobs admit` lets it join again");
    else if (h->record.state == TN_MEMBER_ALIVE)
        snprintf(
            out, size,
            "another process is a member under this id, or was until shortly: it is waited for "
            "%u ms of silence",
            h->record.ttl_ms);
}

/* Under the lock, in the step that stops all: the work's thread may see it much later. */
static void write_why_stopped(tn_jobs_driver *d, enum tn_beat_kind kind)
{
    const struct tn_heartbeat *h = &d->beat;
    bool read = kind == TN_BEAT_EV_READ && !h->must_read;

    d->stopped_to_leave = h->phase == TN_BEAT_DRAINING;
    d->stopped_as_lost = read && !h->present;
    d->stopped_as_evicted = read && h->present && h->record.mark == TN_MARK_EVICTED;
    d->status.expired += !d->stopped_to_leave;
}

/* Under the lock, after a step. */
static void write_status(tn_jobs_driver *d, const struct tn_beat_actions *out)
{
    struct tn_jobs_status *s = &d->status;

    s->phase = d->beat.phase;
    s->identity = d->beat.identity;
    s->deadline_ns = out->deadline_ns;
    say_why_it_waits(&d->beat, s->waits, sizeof s->waits);
}

/* ---- Requests ------------------------------------------------------------ */

/* The core gives up at the grace before D: nothing that is still out then is waited for. */
static int64_t request_until(const tn_jobs_driver *d, const struct tn_beat_actions *out)
{
    int64_t last = d->beat.deadline_ns - d->timing.grace_ns;

    return holds(d->beat.phase) && last < out->request_by_ns ? last : out->request_by_ns;
}

static void read_member(tn_jobs_driver *d, int64_t until, struct tn_beat_event *ev,
                        struct tn_member_record *record)
{
    struct tenure_error err = {0};

    ev->kind = TN_BEAT_EV_READ;
    ev->status = tenure_store_read(d->beat_store, d->beat_key, &d->beat_value, until, &err);
    if (!ev->status && !tenure_token_absent(&d->beat_value.token)) {
        ev->status = tn_member_decode(d->beat_value.data, d->beat_value.len, record, &err);
        ev->record = &record->member;
    }
    ev->token = d->beat_value.token;
    tn_jobs_answered(d, &d->beat_failing, "reading the member record", ev->status, &err);
}

static void swap_member(tn_jobs_driver *d, int64_t until, const struct tn_beat_actions *out,
                        struct tn_beat_event *ev)
{
    struct tn_member_record record = d->self;
    struct tenure_swap swap = {.key = d->beat_key, .expect = out->expect};
    struct tenure_error err = {0};

    record.member = out->record;
    record.renewed_ms = tn_wall_ms();
    char *text = tn_member_encode(&record);
    ev->kind = TN_BEAT_EV_SWAPPED;
    ev->status = TENURE_NOMEM;
    if (text) {
        swap.data = text;
        swap.len = strlen(text);
        memcpy(swap.nonce, out->nonce, sizeof swap.nonce);
        ev->status = tenure_store_swap(d->beat_store, &swap, until, &err);
        ev->token = swap.token;
    }
    free(text);
    if (ev->status != TENURE_CONFLICT) /* an operator's edit, or an attempt that landed */
        tn_jobs_answered(d, &d->beat_failing, "writing the member record", ev->status, &err);
}

/* ---- Steps --------------------------------------------------------------- */

/* What the work's thread may still start, and as whom.  Before anything is told to end. */
static void allow_starts(tn_jobs_driver *d, bool allow)
{
    pthread_mutex_lock(&d->hook_lock);
    d->may_start = allow;
    d->may_start_as = d->beat.identity;
    pthread_mutex_unlock(&d->hook_lock);
}

static void stop_all(tn_jobs_driver *d, enum tn_beat_kind kind, int64_t by_ns)
{
    bool leaving = d->beat.phase == TN_BEAT_DRAINING;
    const char *why = leaving ? "it leaves" : why_lost(d, kind);

    if (!leaving)
        tn_jobs_trace(d, (struct tn_jobs_trace){.kind = TN_JOBS_LOST, .text = why});
    d->hooks.stop_all(d->hooks.arg, by_ns, leaving ? TN_CAUSE_LEAVING : TN_CAUSE_LOST, why);
}

static void report(tn_jobs_driver *d, enum tn_beat_phase before, int64_t deadline_before,
                   const char *waits)
{
    bool joined = before != TN_BEAT_IN && d->beat.phase == TN_BEAT_IN;

    if (joined)
        tn_jobs_trace(
            d, (struct tn_jobs_trace){.kind = TN_JOBS_JOINED, .number = d->beat.identity.number});
    else if (holds(before) && holds(d->beat.phase) && d->beat.deadline_ns > deadline_before) {
        pthread_mutex_lock(&d->lock);
        d->status.renewals++;
        pthread_mutex_unlock(&d->lock);
        tn_jobs_trace(d, (struct tn_jobs_trace){.kind = TN_JOBS_RENEWED});
    }
    if (d->status.waits[0] && strcmp(waits, d->status.waits) != 0)
        tn_jobs_trace(d, (struct tn_jobs_trace){.kind = TN_JOBS_WAITING, .text = d->status.waits});
}

static void step(tn_jobs_driver *d, struct tn_beat_event *ev, struct tn_beat_actions *out)
{
    enum tn_beat_phase before = d->beat.phase;
    int64_t deadline_before = d->beat.deadline_ns;
    char waits[sizeof d->status.waits];

    ev->now_ns = tenure_now();
    ev->wall_ms = tn_wall_ms();
    tn_jobs_entropy(ev->entropy);
    pthread_mutex_lock(&d->lock);
    memcpy(waits, d->status.waits, sizeof waits);
    tn_heartbeat_step(&d->beat, ev, out);
    write_status(d, out);
    if (out->set & TN_BEAT_STOP)
        write_why_stopped(d, ev->kind);
    if (before != d->beat.phase && (d->beat.phase == TN_BEAT_OUT || d->beat.phase == TN_BEAT_IN))
        d->fired = false; /* of a membership that is over: it ends no other */
    pthread_mutex_unlock(&d->lock);
    d->hooks.deadline(d->hooks.arg, out->deadline_ns);
    if (before != d->beat.phase || (out->set & TN_BEAT_STOP))
        allow_starts(d, d->beat.phase == TN_BEAT_IN);
    if (out->set & TN_BEAT_STOP)
        stop_all(d, ev->kind, out->stop_by_ns);
    report(d, before, deadline_before, waits);
    if (before != d->beat.phase)
        tn_jobs_wake(d->work_fd);
}

/* What others left, the most urgent first; false: nothing. */
static bool next_request(tn_jobs_driver *d, struct tn_beat_event *ev)
{
    bool any = true;

    pthread_mutex_lock(&d->lock);
    if (d->fired) {
        d->fired = false;
        ev->kind = TN_BEAT_EV_FIRED;
    } else if (d->reaped) {
        d->reaped = false;
        ev->kind = TN_BEAT_EV_REAPED;
    } else if (d->leave) {
        d->leave = false;
        ev->kind = TN_BEAT_EV_LEAVE;
    } else {
        any = false;
    }
    pthread_mutex_unlock(&d->lock);
    return any;
}

static void wait_until(tn_jobs_driver *d, int64_t until)
{
    struct pollfd fd = {.fd = d->beat_fd, .events = POLLIN};

    tn_poll(&fd, 1, until);
}

/* It has left: the last thing is to tell the others, who need not wait for their interval. */
static void halt(tn_jobs_driver *d)
{
    pthread_mutex_lock(&d->lock);
    d->halted = true;
    pthread_mutex_unlock(&d->lock);
    tn_jobs_wake(d->work_fd);
    tn_jobs_trace(d, (struct tn_jobs_trace){.kind = TN_JOBS_LEFT});
    if (d->beat.identity.number != 0)
        tn_bell_ring(d->beat_store, d->group, tenure_now() + d->timing.request_ns);
    if (d->hooks.halted)
        d->hooks.halted(d->hooks.arg);
}

void *tn_jobs_beat_main(void *driver)
{
    tn_jobs_driver *d = driver;
    struct tn_beat_actions out = {0};
    struct tn_member_record record;

    tn_thread_name("jobs-heartbeat");
    for (struct tn_beat_event ev = {.kind = TN_BEAT_EV_TIMER};;) {
        step(d, &ev, &out);
        if (out.set & TN_BEAT_HALT)
            break;
        ev = (struct tn_beat_event){.kind = TN_BEAT_EV_TIMER};
        if (out.set & TN_BEAT_READ) {
            read_member(d, request_until(d, &out), &ev, &record);
        } else if (out.set & TN_BEAT_SWAP) {
            swap_member(d, request_until(d, &out), &out, &ev);
        } else if (!next_request(d, &ev)) {
            wait_until(d, out.wake_ns);
            tn_jobs_drain(d->beat_fd);
            next_request(d, &ev);
        }
    }
    halt(d);
    return NULL;
}
