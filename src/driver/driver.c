/*
 * The driver: steps the elector, carries its actions out in the order of the
 * duties in core/elector.h, and never runs anybody else's code.
 */
#include "driver/driver.h"
#include "base/key.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "driver/inner.h"
#include "os/clock.h"
#include "os/thread.h"

/* ---- Telling ------------------------------------------------------------- */

/* A grant was won.  The snapshot still shows what it was taken over from: a lease that was
 * released says when, and whether by the guard of a leader that died. */
static void remember_former(struct tn_snapshot *s)
{
    int64_t ago_ms = (tenure_now() - s->observed_ns) / TN_MS;
    uint64_t now_ms = tn_wall_ms();

    s->crashed = s->seen == TN_SEEN_FREE && strcmp(s->lease.cause, TN_LEASE_CRASHED) == 0;
    if (s->seen == TN_SEEN_FREE)
        s->heard_ms = s->lease.renewed_ms;
    else if (s->seen == TN_SEEN_HELD)
        s->heard_ms = ago_ms > 0 && (uint64_t)ago_ms < now_ms ? now_ms - (uint64_t)ago_ms : now_ms;
    else
        s->heard_ms = 0;
}

/* What other threads may see of the machine after a step. */
static void write_snapshot(tenure_elector *e)
{
    const struct tn_elector *m = &e->machine;
    struct tn_snapshot *s = &e->snapshot;

    pthread_mutex_lock(&e->lock);
    if (s->phase != m->phase)
        pthread_cond_broadcast(&e->met); /* tenure_elector_wait() */
    if (e->actions.set & TN_ACT_SEAL)
        remember_former(s);
    if (s->phase > TN_PHASE_FOLLOWING && m->phase == TN_PHASE_FOLLOWING)
        s->owes = false; /* lost, or released */
    s->phase = m->phase;
    memcpy(s->grant.id, m->grant, sizeof s->grant.id);
    s->grant.epoch = m->phase >= TN_PHASE_SEALING && m->phase <= TN_PHASE_STOPPING ? m->epoch : 0;
    s->deadline_ns = e->actions.deadline_ns;
    s->seen = m->seen;
    s->lease = m->lease;
    s->observed_ns = m->observed_ns;
    s->may_claim = m->may_claim;
    s->not_before_ns = m->not_before_ns;
    s->ttl_ns = m->cfg.timing.ttl_ns;
    s->renew_ns = m->cfg.timing.renew_ns;
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

static bool leads_or_seals(const tenure_elector *e)
{
    return e->machine.phase == TN_PHASE_SEALING || e->machine.phase == TN_PHASE_LEADING;
}

/* Turn one request, if there is one, into an event.  The order is that of
 * urgency; a stop that is done goes before whatever else was asked.  To give
 * up goes before an end, or the lease would be released and claimed again. */
static bool next_request(tenure_elector *e, struct tn_event *ev)
{
    struct tn_requests *r = &e->requests;
    bool any = true;

    pthread_mutex_lock(&e->lock);
    e->machine.cfg.priority = r->priority; /* what is written next carries it */
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
    } else if (r->unsealed) {
        ev->kind = TN_EV_UNSEALED;
        memcpy(ev->grant, r->unsealed_grant, sizeof ev->grant);
        ev->gained = r->seal_gained;
        ev->final = r->seal_final;
        r->unsealed = r->seal_gained = r->seal_final = false;
    } else if (r->yield) {
        r->yield = false;
        ev->kind = TN_EV_YIELD;
        ev->until_ns = r->yield_until_ns;
    } else if (r->step_down || (r->unhealthy && leads_or_seals(e))) {
        /* The latter: a claim that had been on its way was won after all. */
        r->step_down = false;
        ev->kind = TN_EV_YIELD;
        ev->until_ns = e->machine.not_before_ns; /* of an earlier one */
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
    } else if (r->proved) {
        r->proved = false;
        ev->kind = TN_EV_PROVED;
        ev->status = r->proof ? TENURE_OK : TENURE_UNAVAILABLE;
    } else if (r->control) {
        r->control = false;
        ev->kind = TN_EV_CONTROL;
        ev->may_claim = r->may_claim && !r->unhealthy;
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
        tn_driver_trace(
            e, &(struct tenure_trace){.kind = TENURE_TRACE_STOPPED, .epoch = e->machine.epoch});
    return any;
}

/* ---- Duties -------------------------------------------------------------- */

/* Duty 1, and I7: what others may believe is lowered before anything is done. */
static void publish(tenure_elector *e)
{
    int64_t deadline = e->actions.deadline_ns;
    bool leads = e->machine.phase == TN_PHASE_LEADING;

    /* One epoch a grant (I2), and D has not passed when it is published as leading (I1). */
    assert(!leads || (e->machine.epoch >= 1 && e->machine.epoch < TN_EPOCH_MAX && deadline != 0));
    assert(!leads || atomic_load(&e->lead_until_ns) == 0 ||
           atomic_load(&e->epoch) == e->machine.epoch);
    if (!leads)
        atomic_store(&e->lead_until_ns, 0);
    atomic_store(&e->epoch, leads ? e->machine.epoch : 0);
    atomic_store(&e->deadline_ns, deadline);
    atomic_store(&e->lead_until_ns, leads ? deadline : 0); /* last: tenure_elector_leads() */
    write_snapshot(e);
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
    tn_driver_trace(e, &(struct tenure_trace){.kind = TENURE_TRACE_LEADER,
                                              .at_ns = m->now_ns,
                                              .leader = leader,
                                              .epoch = m->lease.epoch,
                                              .text = m->lease.cause});
}

static struct tenure_grant grant_of(const struct tn_actions *a)
{
    struct tenure_grant grant = {.epoch = a->epoch};

    memcpy(grant.id, a->grant, sizeof grant.id);
    return grant;
}

/* Without a state there is nothing to seal, nor any other thread to ask. */
static void seal(tenure_elector *e, const struct tn_actions *a)
{
    if (e->hooks.seal) {
        struct tenure_grant grant = grant_of(a);

        tn_dispatch_seal(&e->dispatch, &grant);
        return;
    }
    pthread_mutex_lock(&e->lock);
    e->requests.sealed = true;
    memcpy(e->requests.sealed_grant, a->grant, TENURE_NONCE_SIZE);
    pthread_mutex_unlock(&e->lock);
}

/* A renewal whose answer was lost stands in the record: it counts from before it was sent (I6),
 * and is told like any other, with the deadline before it. */
static void report_found(tenure_elector *e, int64_t before_ns)
{
    /* Not later than now, unless the times were changed meanwhile. */
    int64_t at = e->machine.now_ns, sent = e->published_ns - e->machine.cfg.timing.hold_ns;

    pthread_mutex_lock(&e->lock);
    e->snapshot.renewals++;
    pthread_mutex_unlock(&e->lock);
    tn_driver_trace(e, &(struct tenure_trace){.kind = TENURE_TRACE_RENEWED,
                                              .at_ns = at,
                                              .epoch = e->machine.epoch,
                                              .deadline_ns = before_ns,
                                              .took_ns = sent < at ? at - sent : 0});
}

/* What was decided happened when it was decided, however long we were stopped since. */
static void carry_out(tenure_elector *e, const struct tn_event *ev)
{
    const struct tn_actions *a = &e->actions;
    int64_t at = e->machine.now_ns, before = e->published_ns;

    publish(e);
    if (ev->kind == TN_EV_READ && before != 0 && e->published_ns > before)
        report_found(e, before);
    if (a->set & TN_ACT_STOP) {
        tn_driver_trace(e, &(struct tenure_trace){.kind = TENURE_TRACE_STOPPING,
                                                  .at_ns = at,
                                                  .epoch = e->machine.epoch,
                                                  .text = tn_stop_text(a->stop)});
        if (!e->stop_sent)
            tn_dispatch_stop(&e->dispatch, a->stop);
        e->stop_sent = true;
    }
    if (a->set & TN_ACT_SEAL) {
        tn_driver_trace(e, &(struct tenure_trace){
                               .kind = TENURE_TRACE_GRANTED, .at_ns = at, .epoch = a->epoch});
        seal(e, a);
    }
    if (a->set & TN_ACT_START) {
        struct tenure_grant grant = grant_of(a);

        tn_driver_trace(e, &(struct tenure_trace){
                               .kind = TENURE_TRACE_STARTED, .at_ns = at, .epoch = a->epoch});
        tn_dispatch_start(&e->dispatch, &grant);
        tn_driver_began(e);
    }
    if (a->set & TN_ACT_LEADER)
        announce(e);
    if (a->set & TN_ACT_PROVE)
        e->hooks.prove(e->hooks.arg, &a->suspect, &e->machine.proof);
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

void tn_driver_drain_wake(tenure_elector *e)
{
    uint64_t count;

    if (read(e->wake_fd, &count, sizeof count) < 0)
        return; /* nothing there: fine */
}

static void set_owes(tenure_elector *e, bool owes)
{
    pthread_mutex_lock(&e->lock);
    e->snapshot.owes = owes;
    pthread_mutex_unlock(&e->lock);
}

/* A claim is owed from before it is sent, unless it was certainly not made: then it is as before.
 */
static void swap(tenure_elector *e, struct tn_event *ev)
{
    bool claims = e->actions.purpose == TN_FOR_CLAIM, owed = e->snapshot.owes;

    if (claims)
        set_owes(e, true);
    tn_driver_swap(e, ev);
    if (claims && (ev->status == TENURE_CONFLICT || ev->status == TENURE_CANCELLED))
        set_owes(e, owed);
}

/* Carry out the request of the last step, or wait; fill the event that results. */
static void next_event(tenure_elector *e, struct tn_event *ev)
{
    memset(ev, 0, sizeof *ev);
    if (e->actions.set & (TN_ACT_READ | TN_ACT_SWAP)) {
        tn_driver_mark(e, e->actions.request_by_ns);
        if (e->actions.set & TN_ACT_READ)
            tn_driver_read(e, ev);
        else
            swap(e, ev);
        tn_driver_mark(e, 0);
    } else {
        tn_driver_read_control(e);
        tn_driver_drain_wake(e);
        if (next_request(e, ev))
            return;
        tn_driver_wait(e, ev);
        if (ev->kind == TN_EV_TIMER && next_request(e, ev))
            return;
    }
}

/* Nothing is claimed before it is known whether anything may be. */
static void read_control_first(tenure_elector *e)
{
    struct tn_event ev = {.kind = TN_EV_CONTROL};

    if (!e->hooks.control)
        return;
    tn_key_of(e->name, TN_KEY_CONTROL, e->control_key);
    e->control_due = true;
    tn_driver_read_control(e);
    if (e->control_known) {
        ev.may_claim = e->requests.may_claim && !e->requests.unhealthy;
        ev.claim_delay_ns = e->requests.claim_delay_ns;
    }
    stamp(&ev);
    tn_elector_step(&e->machine, &ev, &e->actions);
}

static void set_halted(tenure_elector *e)
{
    pthread_mutex_lock(&e->lock);
    atomic_store(&e->halted, true);
    pthread_cond_broadcast(&e->met);
    pthread_mutex_unlock(&e->lock);
}

static void halt(tenure_elector *e)
{
    set_halted(e);
    tn_driver_trace(e, &(struct tenure_trace){.kind = TENURE_TRACE_HALTED});
    tn_dispatch_leader(&e->dispatch, "", 0); /* wakes the thread that runs the callbacks */
    if (e->hooks.halted)
        e->hooks.halted(e->hooks.arg);
}

/* Open the store, if whoever prepared us left that to us, and wait until we may go. */
static bool get_ready(tenure_elector *e)
{
    struct tenure_error why = {0};
    enum tenure_status found = e->opened ? TENURE_OK : tn_driver_open(e, &why);
    bool again = tenure_status_class(found) == TENURE_CLASS_TRANSIENT;

    pthread_mutex_lock(&e->lock);
    e->opened = true;
    e->found = again || e->unattended ? TENURE_OK : found;
    e->why = why;
    pthread_cond_broadcast(&e->met);
    while (!e->go && !e->requests.shutdown)
        pthread_cond_wait(&e->met, &e->lock);
    bool ready = e->go && !e->found;
    pthread_mutex_unlock(&e->lock);
    if (!ready) {
        set_halted(e);
        return false;
    }
    if (again)
        found = tn_driver_open_again(e, found, &why);
    if (found && found != TENURE_CANCELLED && e->hooks.failed)
        e->hooks.failed(e->hooks.arg, found, why.text);
    if (found)
        halt(e);
    return !found;
}

void *tn_driver_main(void *arg)
{
    tenure_elector *e = arg;
    struct tn_event ev = {.kind = TN_EV_START};

    tn_thread_name("tenure-driver");
    if (!get_ready(e))
        return NULL;
    e->machine.cfg.prove_ns = e->hooks.prove ? e->hooks.prove_ns : 0;
    read_control_first(e);
    for (;;) {
        stamp(&ev);
        tn_elector_step(&e->machine, &ev, &e->actions);
        carry_out(e, &ev);
        if (e->actions.set & TN_ACT_HALT)
            break;
        next_event(e, &ev);
    }
    halt(e);
    return NULL;
}
