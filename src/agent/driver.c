/*
 * The driver: steps the elector, carries its actions out in the order of the
 * duties in core/elector.h, and never runs anybody else's code.
 */
#include "agent/driver.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/driver_inner.h"
#include "os/clock.h"
#include "os/poll.h"

/* ---- Telling ------------------------------------------------------------- */

static void trace(tenure_elector *e, const struct tenure_trace *t)
{
    struct tenure_trace full = *t;

    if (!e->options.trace)
        return;
    full.at_ns = t->at_ns ? t->at_ns : tenure_now();
    full.deadline_ns = e->published_ns;
    full.name = e->name;
    full.id = e->id;
    full.leader = full.leader ? full.leader : "";
    full.text = full.text ? full.text : "";
    e->options.trace(e->options.arg, &full);
}

enum { FAILING_REQUESTS = 1, FAILING_WAITS = 2, FAILING_CONTROL = 4 };

static void trouble(tenure_elector *e, unsigned what, const char *doing, enum tenure_status status,
                    const struct tenure_error *err)
{
    char text[TENURE_ERROR_TEXT_MAX + 32];

    snprintf(text, sizeof text, "%s: %s", doing, err->text);
    pthread_mutex_lock(&e->lock);
    e->status.troubles++;
    snprintf(e->status.trouble, sizeof e->status.trouble, "%.255s", text);
    pthread_mutex_unlock(&e->lock);
    if (!e->failing)
        e->failing_since_ns = tenure_now();
    e->failing |= what;
    e->answered_ns = 0;
    e->waited = false;
    trace(e, &(struct tenure_trace){.kind = TENURE_TRACE_TROUBLE, .status = status, .text = text});
}

/* A store that answers while its notifications fail is told as well only when both work: else
 * each poll between two failing waits would be a recovery.  That a wait lasted its time says
 * little, because it may have been spent on a connection that nobody answers; an answer after it
 * says it. */
static void fine(tenure_elector *e, unsigned what)
{
    if (e->waited)
        what |= FAILING_WAITS;
    bool over = e->failing && !(e->failing & ~what);

    if (e->failing && e->answered_ns == 0)
        e->answered_ns = tenure_now();
    e->failing &= ~what;
    if (what & (FAILING_REQUESTS | FAILING_CONTROL)) {
        pthread_mutex_lock(&e->lock);
        e->status.trouble[0] = '\0';
        pthread_mutex_unlock(&e->lock);
    }
    if (over)
        trace(e, &(struct tenure_trace){.kind = TENURE_TRACE_RECOVERED,
                                        .took_ns = e->answered_ns - e->failing_since_ns});
}

/* What other threads may see of the machine after a step. */
static void snapshot(tenure_elector *e)
{
    const struct tn_elector *m = &e->machine;
    bool held = m->seen == TN_SEEN_HELD;

    pthread_mutex_lock(&e->lock);
    snprintf(e->status.phase, sizeof e->status.phase, "%s", tn_phase_word(m->phase));
    snprintf(e->status.leader, sizeof e->status.leader, "%s", held ? m->lease.holder : "");
    e->status.leader_epoch = held ? m->lease.epoch : 0;
    e->status.deadline_ns = e->published_ns;
    e->sight = (struct tn_driver_sight){.seen = m->seen,
                                        .lease = m->lease,
                                        .observed_ns = m->observed_ns,
                                        .ttl_ns = m->cfg.timing.ttl_ns,
                                        .renew_ns = m->cfg.timing.renew_ns};
    memcpy(e->grant, m->grant, sizeof e->grant);
    e->grant_epoch = m->phase >= TN_PHASE_SEALING && m->phase <= TN_PHASE_STOPPING ? m->epoch : 0;
    pthread_mutex_unlock(&e->lock);
}

/* ---- Requests from other threads ----------------------------------------- */

void tn_driver_lock(tenure_elector *e)
{
    pthread_mutex_lock(&e->lock);
}

void tn_driver_unlock_and_wake(tenure_elector *e)
{
    uint64_t one = 1;

    pthread_mutex_unlock(&e->lock);
    while (write(e->wake_fd, &one, sizeof one) < 0 && errno == EINTR)
        continue;
}

/* Turn one request, if there is one, into an event.  The order is that of
 * urgency; a stop that is done goes before whatever else was asked.  To give
 * up goes before an end, or the lease would be released and claimed again. */
static bool next_request(tenure_elector *e, struct tn_event *ev)
{
    struct tn_requests *r = &e->requests;
    bool any = true;

    pthread_mutex_lock(&e->lock);
    if (r->fired) {
        r->fired = false;
        ev->kind = TN_EV_FIRED;
    } else if (r->quiet) {
        r->quiet = r->ended = false; /* one end a term */
        e->stop_sent = false;
        ev->kind = TN_EV_STOPPED;
    } else if (r->fenced) {
        r->fenced = false;
        ev->kind = TN_EV_FENCED;
        memcpy(ev->grant, r->fenced_grant, sizeof ev->grant);
        ev->floor = r->floor;
    } else if (r->yield) {
        r->yield = false;
        ev->kind = TN_EV_YIELD;
        ev->until_ns = r->yield_until_ns;
    } else if (r->shutdown) {
        r->shutdown = false;
        ev->kind = TN_EV_SHUTDOWN;
    } else if (r->ended && !e->stop_sent && r->ended_epoch == e->machine.epoch) {
        r->ended = false;
        ev->kind = TN_EV_STOPPED;
    } else if (r->sealed) {
        r->sealed = false;
        ev->kind = TN_EV_SEALED;
        memcpy(ev->grant, r->sealed_grant, sizeof ev->grant);
    } else if (r->control) {
        r->control = false;
        ev->kind = TN_EV_CONTROL;
        ev->may_claim = r->may_claim;
        ev->claim_delay_ns = r->claim_delay_ns;
    } else if (r->retime) {
        r->retime = false;
        e->timing = r->timing;
        ev->kind = TN_EV_TIMING;
        ev->timing = &e->timing;
    } else {
        r->ended = false; /* of a term that ended otherwise */
        any = false;
    }
    pthread_mutex_unlock(&e->lock);
    if (any && ev->kind == TN_EV_STOPPED)
        trace(e, &(struct tenure_trace){.kind = TENURE_TRACE_STOPPED, .epoch = e->machine.epoch});
    return any;
}

/* ---- Duties -------------------------------------------------------------- */

/* Duty 1, and I7: what others may believe is lowered before anything is done. */
static void publish(tenure_elector *e)
{
    int64_t deadline = e->actions.deadline_ns;
    bool leads = e->machine.phase == TN_PHASE_LEADING;

    atomic_store(&e->lead_until_ns, leads ? deadline : 0);
    atomic_store(&e->epoch, leads ? e->machine.epoch : 0);
    atomic_store(&e->deadline_ns, deadline);
    if (e->hooks.lead)
        e->hooks.lead(e->hooks.arg, leads ? deadline : 0, deadline, leads ? e->machine.epoch : 0);
    if (deadline == e->published_ns)
        return;
    e->published_ns = deadline;
    tn_dispatch_deadline(&e->dispatch, deadline);
    if (e->hooks.publish && !e->hooks.publish(e->hooks.arg, deadline))
        tn_driver_fired(e);
}

static void announce(tenure_elector *e)
{
    const struct tn_elector *m = &e->machine;
    bool held = m->seen == TN_SEEN_HELD;
    const char *leader = held ? m->lease.holder : "";

    tn_dispatch_leader(&e->dispatch, leader, held ? m->lease.epoch : 0);
    trace(e, &(struct tenure_trace){.kind = TENURE_TRACE_LEADER,
                                    .at_ns = m->now_ns,
                                    .leader = leader,
                                    .epoch = m->lease.epoch,
                                    .text = m->lease.cause});
}

/* What was decided happened when it was decided, however long we were stopped since. */
static void obey(tenure_elector *e)
{
    const struct tn_actions *a = &e->actions;
    int64_t at = e->machine.now_ns;

    publish(e);
    if (a->set & TN_ACT_STOP) {
        trace(e, &(struct tenure_trace){.kind = TENURE_TRACE_STOPPING,
                                        .at_ns = at,
                                        .epoch = e->machine.epoch,
                                        .text = tn_stop_text(a->stop)});
        if (!e->stop_sent)
            tn_dispatch_stop(&e->dispatch, a->stop);
        e->stop_sent = true;
    }
    if (a->set & TN_ACT_SEAL) {
        trace(e,
              &(struct tenure_trace){.kind = TENURE_TRACE_GRANTED, .at_ns = at, .epoch = a->epoch});
        tn_dispatch_seal(&e->dispatch, a->epoch, a->grant);
    }
    if (a->set & TN_ACT_START) {
        trace(e,
              &(struct tenure_trace){.kind = TENURE_TRACE_STARTED, .at_ns = at, .epoch = a->epoch});
        tn_dispatch_start(&e->dispatch, a->epoch);
    }
    if (a->set & TN_ACT_LEADER)
        announce(e);
}

/* ---- Store requests ------------------------------------------------------ */

static void do_read(tenure_elector *e, struct tn_event *ev)
{
    struct tenure_error err = {0};

    ev->kind = TN_EV_READ;
    ev->status =
        tn_lease_read(e->store, e->name, &e->buffer, &e->seen, e->actions.request_by_ns, &err);
    if (ev->status) {
        trouble(e, FAILING_REQUESTS, "reading the lease", ev->status, &err);
        return;
    }
    fine(e, FAILING_REQUESTS);
    ev->token = e->seen.token;
    /* The lease it was.  If the control register has changed too, the next wait ends at once:
     * a stand-by makes one request a renewal, not two. */
    e->woken = e->woken && tenure_token_equal(&ev->token, &e->woken_from);
    ev->tombstone = e->seen.tombstone;
    ev->corrupt = e->seen.corrupt;
    ev->record = e->seen.present ? &e->seen.lease : NULL;
    bool insane = e->seen.present && !tn_lease_sane(&e->seen.lease);
    if (e->seen.corrupt || insane)
        trace(e, &(struct tenure_trace){.kind = TENURE_TRACE_REFUSED,
                                        .status = TENURE_CORRUPT,
                                        .text = insane ? "lease record: epoch or ttl out of bounds"
                                                       : e->seen.why.text});
}

static const char *const purposes[] = {
    [TN_FOR_NONE] = "",
    [TN_FOR_CLAIM] = "claiming the lease",
    [TN_FOR_RENEW] = "renewing the lease",
    [TN_FOR_RELEASE] = "releasing the lease",
    [TN_FOR_REGRANT] = "raising the epoch",
};

/* Asked to give up since the step that wants to claim: that claim is not sent. */
static bool holds_back(tenure_elector *e)
{
    pthread_mutex_lock(&e->lock);
    bool asked = e->requests.yield || e->requests.shutdown;
    pthread_mutex_unlock(&e->lock);
    return asked && e->actions.purpose == TN_FOR_CLAIM;
}

static void do_swap(tenure_elector *e, struct tn_event *ev)
{
    const struct tn_actions *a = &e->actions;
    struct tenure_error err = {0};
    int64_t sent = tenure_now();

    ev->kind = TN_EV_SWAPPED;
    ev->status = TENURE_CANCELLED;
    if (holds_back(e))
        return;
    ev->status = tn_lease_swap(e->store, e->name, &a->expect, a->nonce, &a->record, e->seen.extra,
                               &ev->token, a->request_by_ns, &err);
    if (ev->status == TENURE_CONFLICT)
        return; /* somebody was faster: the ordinary end of a race */
    if (ev->status) {
        trouble(e, FAILING_REQUESTS, purposes[a->purpose], ev->status, &err);
        return;
    }
    fine(e, FAILING_REQUESTS);
    if (a->purpose == TN_FOR_RENEW) {
        pthread_mutex_lock(&e->lock);
        e->status.renewals++;
        pthread_mutex_unlock(&e->lock);
        trace(e, &(struct tenure_trace){.kind = TENURE_TRACE_RENEWED,
                                        .epoch = a->record.epoch,
                                        .took_ns = tenure_now() - sent});
    } else if (a->purpose == TN_FOR_RELEASE) {
        trace(e, &(struct tenure_trace){.kind = TENURE_TRACE_RELEASED,
                                        .epoch = a->record.epoch,
                                        .took_ns = tenure_now() - sent});
    }
}

static void drain_wake(tenure_elector *e)
{
    uint64_t count;

    if (read(e->wake_fd, &count, sizeof count) < 0)
        return; /* nothing there: fine */
}

/* Wait for a request of our own side alone, until then. */
static void doze(tenure_elector *e, int64_t until)
{
    struct pollfd fd = {.fd = e->wake_fd, .events = POLLIN};

    tn_poll(&fd, 1, until);
}

/* A request that does not end leaves its mark with whoever watches this process. */
static void mark_request(tenure_elector *e, int64_t until_ns)
{
    if (e->hooks.request)
        e->hooks.request(e->hooks.arg, until_ns);
}

/* ---- The control register ------------------------------------------------ */

static void look_at_control(tenure_elector *e)
{
    struct tenure_token before = e->control.token;
    int64_t now = tenure_now(), by = now + e->machine.cfg.timing.request_ns;
    struct tenure_error err = {0};
    enum tenure_status status;

    e->control_due |= e->woken && e->control_key[0];
    e->woken = false;
    /* Never at the cost of what the elector waits for, above all a renewal. */
    if ((e->actions.set & TN_ACT_WAIT) && e->actions.wait_until_ns < by)
        by = e->actions.wait_until_ns;
    if (!e->control_key[0] || !e->control_due || by <= now)
        return;
    mark_request(e, by);
    status = tenure_store_read(e->store, e->control_key, &e->control, by, &err);
    mark_request(e, 0);
    if (status) {
        trouble(e, FAILING_CONTROL, "reading the control register", status, &err);
        return; /* still due */
    }
    fine(e, FAILING_CONTROL);
    e->control_due = false;
    if (e->control_known && tenure_token_equal(&before, &e->control.token))
        return;
    e->control_known = true;
    pthread_mutex_lock(&e->lock);
    e->requests.control = true;
    e->hooks.control(e->hooks.arg, &e->control, &e->requests.may_claim,
                     &e->requests.claim_delay_ns);
    pthread_mutex_unlock(&e->lock);
}

/* ---- Waiting ------------------------------------------------------------- */

/* Without notifications a look now and then must do: the waits are short then. */
static bool must_poll_control(const tenure_elector *e)
{
    struct tenure_store_info info;

    tenure_store_info(e->store, &info);
    return !info.notifies;
}

/* While waits fail, one that lasted its time is followed by a question: see fine(). */
static void ask_after_wait(tenure_elector *e, struct tn_event *ev)
{
    e->waited = true;
    if (!(e->failing & FAILING_WAITS))
        return;
    if (e->actions.watch)
        ev->kind = TN_EV_CHANGED;
    else
        e->control_due = true;
}

static void do_wait(tenure_elector *e, struct tn_event *ev)
{
    const struct tn_actions *a = &e->actions;
    char key[TENURE_KEY_MAX + 1];
    struct tenure_watch watches[2];
    struct tenure_error err = {0};
    enum tenure_status status;
    int64_t until = a->wait_until_ns, again = tenure_now() + e->machine.cfg.timing.retry_ns;
    size_t n = 0;

    ev->kind = TN_EV_TIMER;
    /* It could not be read: soon again.  And people want to know soon that a wait works again. */
    if ((e->control_due || (e->failing & FAILING_WAITS)) && again < until)
        until = again;
    if (a->watch) {
        tn_lease_key(e->name, key);
        watches[n++] = (struct tenure_watch){.key = key, .seen = a->expect};
    }
    if (e->control_known && !e->control_due)
        watches[n++] = (struct tenure_watch){.key = e->control_key, .seen = e->control.token};
    if (n == 0) {
        e->waited |= !e->control_key[0]; /* nothing to wait for: that cannot fail */
        doze(e, until);
        return;
    }
    status = tenure_store_wait(e->store, watches, n, e->wake_fd, until, &err);
    e->control_due |=
        e->control_key[0] && ((status == TENURE_OK && !a->watch) || must_poll_control(e));
    if (status == TENURE_OK)
        fine(e, FAILING_WAITS);
    if (status == TENURE_OK && a->watch) {
        e->woken = true;
        e->woken_from = a->expect;
        ev->kind = TN_EV_CHANGED;
    } else if (status == TENURE_TIMEOUT) {
        ask_after_wait(e, ev);
    } else if (status != TENURE_OK && status != TENURE_CANCELLED) {
        /* Without notifications the poll still works; do not ask in a hot loop. */
        int64_t later = tenure_now() + e->machine.cfg.timing.retry_ns;

        trouble(e, FAILING_WAITS, "watching the lease", status, &err);
        doze(e, later < until ? later : until);
    }
}

/* ---- The loop ------------------------------------------------------------ */

static void stamp(struct tn_event *ev)
{
    uint8_t fresh[TENURE_NONCE_SIZE];
    enum tenure_status status = tenure_nonce(fresh, NULL);

    assert(status == TENURE_OK);
    memcpy(ev->entropy, fresh, sizeof ev->entropy);
    ev->wall_ms = tn_wall_ms();
    ev->now_ns = tenure_now();
}

/* Carry out the request of the last step, or wait; fill the event that results. */
static void next_event(tenure_elector *e, struct tn_event *ev)
{
    memset(ev, 0, sizeof *ev);
    if (e->actions.set & (TN_ACT_READ | TN_ACT_SWAP)) {
        mark_request(e, e->actions.request_by_ns);
        if (e->actions.set & TN_ACT_READ)
            do_read(e, ev);
        else
            do_swap(e, ev);
        mark_request(e, 0);
    } else {
        look_at_control(e);
        drain_wake(e);
        if (next_request(e, ev))
            return;
        do_wait(e, ev);
        if (ev->kind == TN_EV_TIMER && next_request(e, ev))
            return;
    }
}

/* Nothing is claimed before it is known whether anything may be. */
static void hold_back(tenure_elector *e)
{
    struct tn_event ev = {.kind = TN_EV_CONTROL};

    if (!e->hooks.control)
        return;
    snprintf(e->control_key, sizeof e->control_key, "%s/control", e->name);
    e->control_due = true;
    look_at_control(e);
    if (e->control_known) {
        ev.may_claim = e->requests.may_claim;
        ev.claim_delay_ns = e->requests.claim_delay_ns;
    }
    stamp(&ev);
    tn_elector_step(&e->machine, &ev, &e->actions);
}

void *tn_driver_main(void *arg)
{
    tenure_elector *e = arg;
    struct tn_event ev = {.kind = TN_EV_START};

    hold_back(e);
    for (;;) {
        stamp(&ev);
        tn_elector_step(&e->machine, &ev, &e->actions);
        obey(e);
        snapshot(e);
        if (e->actions.set & TN_ACT_HALT)
            break;
        next_event(e, &ev);
    }
    atomic_store(&e->halted, true);
    trace(e, &(struct tenure_trace){.kind = TENURE_TRACE_HALTED});
    tn_dispatch_leader(&e->dispatch, e->status.leader, e->status.leader_epoch);
    if (e->hooks.halted)
        e->hooks.halted(e->hooks.arg);
    return NULL;
}
