/* The requests of the driver to its store, and what it reports of the answers. */
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/duration.h"
#include "base/key.h"
#include "base/text.h"
#include "control/control.h"
#include "driver/inner.h"
#include "lease/floor.h"
#include "os/poll.h"

/* ---- Telling ------------------------------------------------------------- */

void tn_driver_trace(tenure_elector *e, const struct tenure_trace *t)
{
    struct tenure_trace full = *t;

    if (!e->options.trace)
        return;
    full.at_ns = t->at_ns ? t->at_ns : tenure_now();
    full.deadline_ns = t->deadline_ns ? t->deadline_ns : e->published_ns;
    full.name = e->name;
    full.id = e->id;
    full.leader = full.leader ? full.leader : "";
    full.text = full.text ? full.text : "";
    e->options.trace(e->options.arg, &full);
}

enum {
    FAILING_READS = 1,
    FAILING_SWAPS = 2,
    FAILING_WAITS = 4,
    FAILING_CONTROL = 8,
    FAILING_RECORD = 16, /* the store is well, what it holds is not */
    FAILING_OPEN = 32,   /* it was never open yet */
};

/* Something fails, from now on or still; its text is what others see. */
static void record_failure(tenure_elector *e, unsigned what, const char *text)
{
    pthread_mutex_lock(&e->lock);
    e->snapshot.troubles += what != FAILING_RECORD;
    snprintf(e->snapshot.trouble, sizeof e->snapshot.trouble, "%.255s", text);
    tn_text_repair(e->snapshot.trouble, '?');
    pthread_mutex_unlock(&e->lock);
    if (!e->failing)
        e->failing_since_ns = tenure_now();
    e->failing |= what;
}

static void report_failure(tenure_elector *e, unsigned what, const char *doing,
                           enum tenure_status status, const struct tenure_error *err)
{
    char text[TENURE_ERROR_TEXT_MAX + 32];

    snprintf(text, sizeof text, "%s: %s", doing, err->text);
    record_failure(e, what, text);
    e->answered_ns = 0;
    e->waited = false;
    tn_driver_trace(
        e, &(struct tenure_trace){.kind = TENURE_TRACE_TROUBLE, .status = status, .text = text});
}

/* A store that answers while its notifications fail is told as well only when both work: else
 * each poll between two failing waits would be a recovery.  That a wait lasted its time says
 * little, because it may have been spent on a connection that nobody answers; an answer after it
 * says it. */
static void report_success(tenure_elector *e, unsigned what)
{
    if (e->waited)
        what |= FAILING_WAITS;
    bool over = e->failing && !(e->failing & ~what), record = e->failing == FAILING_RECORD;

    if (e->failing && e->answered_ns == 0)
        e->answered_ns = tenure_now();
    e->failing &= ~what;
    if (!(e->failing & ~FAILING_WAITS) && what != FAILING_WAITS) {
        pthread_mutex_lock(&e->lock);
        e->snapshot.trouble[0] = '\0';
        pthread_mutex_unlock(&e->lock);
    }
    if (over)
        tn_driver_trace(e, &(struct tenure_trace){
                               .kind = TENURE_TRACE_RECOVERED,
                               .took_ns = record ? 0 : e->answered_ns - e->failing_since_ns});
}

/* The lease is there and nobody claims it, us included, until an operator has replaced it. */
static void report_refused(tenure_elector *e, const char *why)
{
    record_failure(e, FAILING_RECORD, why);
    tn_driver_trace(e, &(struct tenure_trace){
                           .kind = TENURE_TRACE_REFUSED, .status = TENURE_CORRUPT, .text = why});
}

/* Its text says how it is repaired; the lease itself is well. */
static void report_damaged_floor(tenure_elector *e, const struct tenure_error *err)
{
    record_failure(e, FAILING_RECORD, err->text);
    tn_driver_trace(e, &(struct tenure_trace){.kind = TENURE_TRACE_TROUBLE,
                                              .status = TENURE_CORRUPT,
                                              .text = err->text});
}

void tn_driver_began(tenure_elector *e)
{
    e->floor_damaged = false;
    if (e->failing & FAILING_RECORD)
        report_success(e, FAILING_RECORD);
}

/* ---- Store requests ------------------------------------------------------ */

/* A store that can be read may still refuse changes: a full disk.  It takes them if one was made
 * since ours failed, whoever made it; and if we want none, it is well enough. */
static bool accepts_changes(const tenure_elector *e)
{
    return !tenure_token_equal(&e->seen.token, &e->failed_on) || !e->machine.may_claim;
}

/* The lease, and with it the floor of epochs: one request, where the store takes several.  A floor
 * that is damaged does not keep the lease from being read; why says what is wrong with it. */
static enum tenure_status read_with_floor(tenure_elector *e, struct tn_event *ev,
                                          struct tenure_error *why, struct tenure_error *err)
{
    char key[TENURE_KEY_MAX + 1];
    struct tenure_read reads[] = {{.key = key, .value = e->buffer}, {.key = TN_KEY_REMOVED}};

    tn_key_of(e->name, TN_KEY_LEASE, key);
    enum tenure_status status =
        tenure_store_read_many(e->store, reads, 2, e->actions.request_by_ns, err);
    e->buffer = reads[0].value;
    if (!status) {
        if (!reads[1].status)
            reads[1].status = tn_floor_see(&reads[1].value, &ev->floor, why);
        else
            tn_floor_damaged(why);
        e->floor_damaged = ev->floor_damaged = reads[1].status != TENURE_OK;
        status = reads[0].status ? tenure_fail(err, reads[0].status, "%s is damaged", key)
                                 : tn_lease_see(&e->buffer, &e->seen, err);
    }
    tenure_value_free(&reads[1].value);
    return status;
}

void tn_driver_read(tenure_elector *e, struct tn_event *ev)
{
    struct tenure_error err = {0}, floor_err = {0};

    ev->kind = TN_EV_READ;
    ev->status = e->actions.with_floor ? read_with_floor(e, ev, &floor_err, &err)
                                       : tn_lease_read(e->store, e->name, &e->buffer, &e->seen,
                                                       e->actions.request_by_ns, &err);
    ev->final = tenure_status_class(ev->status) == TENURE_CLASS_PERMANENT;
    if (ev->status && ev->status != TENURE_CORRUPT) {
        /* What a person has to change is not over because the lease alone can be read. */
        e->floor_damaged |= e->actions.with_floor && ev->final;
        report_failure(e, e->actions.with_floor && ev->final ? FAILING_RECORD : FAILING_READS,
                       e->actions.with_floor ? "reading the lease and " TN_KEY_REMOVED
                                             : "reading the lease",
                       ev->status, &err);
        return;
    }
    /* What it replaces was compared already: to this election the floor does not matter. */
    if (!ev->status && e->seen.present && e->seen.lease.checked)
        e->floor_damaged = false;
    bool refused = ev->status || e->seen.refused;
    report_success(e, FAILING_READS | (accepts_changes(e) ? FAILING_SWAPS : 0) |
                          (refused || e->floor_damaged ? 0 : FAILING_RECORD));
    if (refused)
        report_refused(e, ev->status ? err.text : e->seen.why.text);
    else if (ev->floor_damaged)
        report_damaged_floor(e, &floor_err);
    if (ev->status)
        return;
    ev->token = e->seen.token;
    /* The lease it was.  If the control register has changed too, the next wait ends at once:
     * a standby makes one request a renewal, not two. */
    e->woken = e->woken && tenure_token_equal(&ev->token, &e->woken_from);
    ev->tombstone = e->seen.tombstone;
    ev->corrupt = e->seen.corrupt;
    ev->record = e->seen.present ? &e->seen.lease : NULL;
}

static const char *const purposes[] = {
    [TN_FOR_NONE] = "",
    [TN_FOR_CLAIM] = "claiming the lease",
    [TN_FOR_RENEW] = "renewing the lease",
    [TN_FOR_RELEASE] = "releasing the lease",
    [TN_FOR_REGRANT] = "raising the epoch",
};

/* Asked to give up since the step that wants to claim: that claim is not sent. */
static bool must_not_claim(tenure_elector *e)
{
    pthread_mutex_lock(&e->lock);
    bool asked = e->requests.yield || e->requests.shutdown || e->requests.unhealthy;
    pthread_mutex_unlock(&e->lock);
    return asked && e->actions.purpose == TN_FOR_CLAIM;
}

void tn_driver_swap(tenure_elector *e, struct tn_event *ev)
{
    const struct tn_actions *a = &e->actions;
    struct tenure_error err = {0};
    int64_t sent = tenure_now();

    ev->kind = TN_EV_SWAPPED;
    ev->status = TENURE_CANCELLED;
    if (must_not_claim(e))
        return;
    ev->status = tn_lease_swap(e->store, e->name, &a->expect, a->nonce, &a->record, e->seen.extra,
                               &ev->token, a->request_by_ns, &err);
    if (ev->status && ev->status != TENURE_CONFLICT) {
        e->failed_on = a->expect;
        report_failure(e, FAILING_SWAPS, purposes[a->purpose], ev->status, &err);
        return;
    }
    report_success(e, FAILING_READS | FAILING_SWAPS);
    if (ev->status)
        return; /* somebody was faster: the ordinary end of a race */
    if (a->purpose == TN_FOR_RENEW) {
        pthread_mutex_lock(&e->lock);
        e->snapshot.renewals++;
        pthread_mutex_unlock(&e->lock);
        tn_driver_trace(e, &(struct tenure_trace){.kind = TENURE_TRACE_RENEWED,
                                                  .epoch = a->record.epoch,
                                                  .took_ns = tenure_now() - sent});
    } else if (a->purpose == TN_FOR_RELEASE) {
        tn_driver_trace(e, &(struct tenure_trace){.kind = TENURE_TRACE_RELEASED,
                                                  .epoch = a->record.epoch,
                                                  .took_ns = tenure_now() - sent});
    }
}

/* Wait for a request of our own side alone, until then. */
static void wait_locally(tenure_elector *e, int64_t until)
{
    struct pollfd fd = {.fd = e->wake_fd, .events = POLLIN};

    tn_poll(&fd, 1, until);
}

void tn_driver_mark(tenure_elector *e, int64_t until_ns)
{
    if (e->hooks.request)
        e->hooks.request(e->hooks.arg, until_ns);
}

/* ---- Opening ------------------------------------------------------------- */

#define OPEN_PAUSE_MIN_NS (100 * TN_MS)
#define OPEN_PAUSE_MAX_NS (2 * TN_S)

/* Until then, or false: asked to shut down. */
static bool sleep_unless_asked(tenure_elector *e, int64_t until)
{
    struct pollfd fd = {.fd = e->wake_fd, .events = POLLIN};
    bool asked;

    for (;;) {
        tn_driver_drain_wake(e); /* what woke us is looked at when the store is open */
        pthread_mutex_lock(&e->lock);
        asked = e->requests.shutdown;
        pthread_mutex_unlock(&e->lock);
        if (asked || tn_poll(&fd, 1, until) == 0)
            return !asked;
    }
}

enum tenure_status tn_driver_open_again(tenure_elector *e, enum tenure_status status,
                                        struct tenure_error *why)
{
    int64_t pause_ns = OPEN_PAUSE_MIN_NS;

    while (tenure_status_class(status) == TENURE_CLASS_TRANSIENT) {
        int64_t now = tenure_now();

        if (now + OPEN_PAUSE_MIN_NS > e->open_by_ns)
            return status;
        report_failure(e, FAILING_OPEN, "opening the store", status, why);
        if (!sleep_unless_asked(e, tn_min_ns(now + pause_ns, e->open_by_ns)))
            return TENURE_CANCELLED;
        pause_ns = tn_min_ns(2 * pause_ns, OPEN_PAUSE_MAX_NS);
        status = tn_driver_open(e, why);
    }
    if (!status)
        report_success(e, FAILING_OPEN);
    return status;
}

/* ---- The control register ------------------------------------------------ */

/* Who may claim does not matter to a term that is ending, and a store that hangs must not keep
 * back the word that the program is dead: the guard takes a silent tenure for hung. */
static bool watches_control(const tenure_elector *e)
{
    return e->control_key[0] && e->machine.phase != TN_PHASE_STOPPING &&
           e->machine.phase != TN_PHASE_RELEASING;
}

/* When a read that begins now has to end; 0: it is not worth beginning. */
static int64_t control_by(const tenure_elector *e)
{
    const struct tn_timing *t = &e->machine.cfg.timing;
    int64_t now = tenure_now(), by = now + t->request_ns;

    if (!(e->actions.set & TN_ACT_WAIT) || e->actions.wait_until_ns >= by)
        return by;
    /* Never at the cost of what the elector waits for, above all a renewal. */
    return e->actions.wait_until_ns - now >= tn_timing_beside(t) ? e->actions.wait_until_ns : 0;
}

void tn_driver_read_control(tenure_elector *e)
{
    struct tenure_token before = e->control.token;
    int64_t by = control_by(e);
    struct tenure_control control = TENURE_CONTROL;
    struct tenure_error err = {0};
    enum tenure_status status;

    e->control_due |= e->woken && e->control_key[0];
    e->woken = false;
    if (!watches_control(e) || !e->control_due || by == 0)
        return;
    tn_driver_mark(e, by);
    status = tenure_store_read(e->store, e->control_key, &e->control, by, &err);
    tn_driver_mark(e, 0);
    if (status) {
        report_failure(e, FAILING_CONTROL, "reading the control register", status, &err);
        return; /* still due */
    }
    report_success(e, FAILING_CONTROL);
    e->control_due = false;
    if (e->control_known && tenure_token_equal(&before, &e->control.token))
        return;
    e->control_known = true;
    status = tn_control_decode(&e->control, &control, &err);
    pthread_mutex_lock(&e->lock);
    e->snapshot.control = control;
    e->requests.control = true;
    e->hooks.control(e->hooks.arg, &control, status ? err.text : NULL, &e->requests.may_claim,
                     &e->requests.claim_delay_ns);
    pthread_mutex_unlock(&e->lock);
}

/* ---- Waiting ------------------------------------------------------------- */

/* Without notifications a look now and then must do: the waits are short then. */
static bool must_poll_control(const tenure_elector *e)
{
    return !tenure_store_info(e->store)->notifies;
}

/* While waits fail, one that lasted its time is followed by a question: see report_success(). */
static void read_after_wait(tenure_elector *e, struct tn_event *ev)
{
    e->waited = true;
    if (!(e->failing & FAILING_WAITS))
        return;
    if (e->actions.watch)
        ev->kind = TN_EV_CHANGED;
    else
        e->control_due = true;
}

void tn_driver_wait(tenure_elector *e, struct tn_event *ev)
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
    if (((e->control_due && watches_control(e)) || (e->failing & FAILING_WAITS)) && again < until)
        until = again;
    if (a->watch) {
        tn_key_of(e->name, TN_KEY_LEASE, key);
        watches[n++] = (struct tenure_watch){.key = key, .seen = a->expect};
    }
    if (e->control_known && !e->control_due && watches_control(e))
        watches[n++] = (struct tenure_watch){.key = e->control_key, .seen = e->control.token};
    if (n == 0) {
        e->waited |= !e->control_key[0]; /* nothing to wait for: that cannot fail */
        wait_locally(e, until);
        return;
    }
    status = tenure_store_wait(e->store, watches, n, e->wake_fd, until, &err);
    e->control_due |=
        e->control_key[0] && ((status == TENURE_OK && !a->watch) || must_poll_control(e));
    if (status == TENURE_OK)
        report_success(e, FAILING_WAITS);
    if (status == TENURE_OK && a->watch) {
        e->woken = true;
        e->woken_from = a->expect;
        ev->kind = TN_EV_CHANGED;
    } else if (status == TENURE_TIMEOUT) {
        read_after_wait(e, ev);
    } else if (status != TENURE_OK && status != TENURE_CANCELLED) {
        /* Without notifications the poll still works; do not ask in a hot loop. */
        int64_t later = tenure_now() + e->machine.cfg.timing.retry_ns;

        report_failure(e, FAILING_WAITS, "watching the lease", status, &err);
        wait_locally(e, later < until ? later : until);
    }
}
