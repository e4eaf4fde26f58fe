/*
 * What to ask of the store next: a read, a swap, or to wait.  Nothing here
 * changes what the elector believes; that is done before, by elector.c.
 */
#include <assert.h>
#include <string.h>

#include "core/elector_inner.h"

/* Backing off, or only waiting for our own side: changes do not matter. */
static void sleep_until(struct tn_actions *out, int64_t until_ns)
{
    out->set |= TN_ACT_WAIT;
    out->wait_until_ns = until_ns;
    out->watch = false;
}

static void wait_until(struct tn_elector *e, struct tn_actions *out, int64_t until_ns)
{
    out->set |= TN_ACT_WAIT;
    out->watch = true;
    out->wait_until_ns = until_ns;
    out->expect = e->token;
}

/* A request ends when its time is up, and early enough to send TERM: a store
 * that hangs must not keep the stop from being ordered. */
static int64_t request_by(const struct tn_elector *e)
{
    int64_t by = e->now_ns + e->cfg.timing.request_ns;

    if (e->phase == TN_PHASE_FOLLOWING)
        by = e->now_ns + tn_timing_contend(&e->cfg.timing);
    else if (e->phase == TN_PHASE_SEALING || e->phase == TN_PHASE_LEADING)
        by = min64(by, e->stop_at_ns);
    else if (e->phase == TN_PHASE_STOPPING)
        by = min64(by, min64(e->deadline_ns, e->stop_by_ns));
    return by;
}

static void read_now(struct tn_elector *e, struct tn_actions *out)
{
    e->reading = true;
    out->set |= TN_ACT_READ;
    out->with_floor = e->unchecked && e->phase == TN_PHASE_SEALING;
    out->request_by_ns = request_by(e);
}

/* ---- Swaps --------------------------------------------------------------- */

static void set_word(char *to, size_t size, const char *word)
{
    size_t n = strlen(word);

    assert(n < size);
    memcpy(to, word, n);
    memset(to + n, 0, size - n);
}

/* What every record of ours says about ourselves and about now. */
static void draft_self(struct tn_elector *e, const struct tn_event *ev)
{
    struct tn_lease *d = &e->draft;

    memcpy(d->holder, e->cfg.id, sizeof d->holder);
    memcpy(d->incarnation, e->cfg.incarnation, TENURE_NONCE_SIZE);
    memcpy(d->address, e->cfg.address, sizeof d->address);
    memcpy(d->build, e->cfg.build, sizeof d->build);
    d->priority = e->cfg.priority;
    d->ttl_ms = (uint32_t)(e->cfg.timing.ttl_ns / TN_MS);
    d->renewed_ms = ev->wall_ms;
}

static const char *claim_cause(const struct tn_elector *e)
{
    switch (e->seen) {
    case TN_SEEN_ABSENT:
        return "absent";
    case TN_SEEN_FREE:
        return "free";
    default:
        if (tn_sees_own_process(e))
            return "reclaimed";
        return e->proved ? "proved" : "expired";
    }
}

/* May the draft say that its epoch is above all that was deleted?  The record that it replaces says
 * so, and is still there when it takes effect (I5); or the floor was read since our claim was. */
static bool is_checked(const struct tn_elector *e)
{
    return e->lease.checked || (e->cfg.purges && !e->unchecked);
}

/* A new grant: the nonce of the claim names it, so every claim has its own. */
static void draft_grant(struct tn_elector *e, const struct tn_event *ev, uint64_t epoch,
                        const char *cause)
{
    struct tn_lease *d = &e->draft;

    draft_self(e, ev);
    memcpy(d->grant, ev->entropy, TENURE_NONCE_SIZE);
    d->epoch = epoch;
    d->transitions = e->lease.transitions < TN_EPOCH_MAX ? e->lease.transitions + 1 : TN_EPOCH_MAX;
    d->acquired_ms = ev->wall_ms;
    d->checked = is_checked(e);
    set_word(d->cause, sizeof d->cause, cause);
}

/* Send the draft.  Its entitlement counts from now, which is before the send;
 * remembered until the outcome is known (I6). */
static void swap_now(struct tn_elector *e, const struct tn_event *ev, enum tn_purpose purpose,
                     struct tn_actions *out)
{
    struct tn_attempt *attempt = &e->attempts[e->attempt_next];

    e->attempt_next = (e->attempt_next + 1) % TN_ATTEMPTS;
    memcpy(attempt->nonce, ev->entropy, TENURE_NONCE_SIZE);
    memcpy(attempt->grant, e->draft.grant, TENURE_NONCE_SIZE);
    attempt->epoch = e->draft.epoch;
    attempt->renew_at_ns = e->now_ns + e->cfg.timing.renew_ns;
    attempt->hold_until_ns = e->now_ns + e->cfg.timing.hold_ns;
    attempt->stop_at_ns = attempt->hold_until_ns - e->cfg.timing.grace_ns;
    /* If this lands, observers wait by the ttl that it carries: a lower ttl
     * binds us from the moment it is sent, a higher one only once it is known. */
    if (tn_holding(e)) {
        e->deadline_ns = min64(e->deadline_ns, attempt->hold_until_ns);
        e->stop_at_ns = min64(e->stop_at_ns, attempt->stop_at_ns);
    }

    e->out = purpose;
    out->set |= TN_ACT_SWAP;
    out->purpose = purpose;
    out->request_by_ns = request_by(e);
    out->expect = e->token;
    memcpy(out->nonce, ev->entropy, TENURE_NONCE_SIZE);
    out->record = e->draft;
}

/* The record as it is.  Whoever edited it, our own epoch does not go back (I2). */
static void draft_same(struct tn_elector *e)
{
    e->draft = e->lease;
    e->draft.checked = is_checked(e);
    if (e->draft.epoch < e->epoch)
        e->draft.epoch = e->epoch;
}

static void renew(struct tn_elector *e, const struct tn_event *ev, struct tn_actions *out)
{
    draft_same(e);
    draft_self(e, ev);
    swap_now(e, ev, TN_FOR_RENEW, out);
}

static void release(struct tn_elector *e, const struct tn_event *ev, struct tn_actions *out)
{
    draft_same(e);
    e->draft.holder[0] = '\0';
    e->draft.renewed_ms = ev->wall_ms;
    set_word(e->draft.cause, sizeof e->draft.cause, "released");
    swap_now(e, ev, TN_FOR_RELEASE, out);
}

/* ---- One plan a phase ---------------------------------------------------- */

/* When this candidate may claim what it sees; TN_FOREVER if never. */
static int64_t claim_at(const struct tn_elector *e)
{
    bool own = tn_sees_own_process(e);
    int64_t at = e->observed_ns;

    if (!e->may_claim || e->seen == TN_SEEN_REFUSED ||
        tn_epoch_next(e->lease.epoch, 0, e->floor) == 0)
        return TN_FOREVER;
    if (e->seen == TN_SEEN_HELD && !own && !e->proved)
        at += (int64_t)e->lease.ttl_ms * TN_MS; /* W: the recorded holder's, not ours */
    at = max64(at, e->spare_ns);
    /* A grant of this process that it does not act under is nobody's: a claim
     * that landed late.  It is taken over at once, with a new epoch, unless it
     * was restored over another holder's. */
    return max64(own ? at : at + e->claim_delay_ns, e->not_before_ns);
}

/* When the holder has been silent for long enough to be suspected of being dead, while the store
 * answered us: it may be the store that kept it from renewing.  A holder of our own id ran on our
 * own machine: who is here to ask would be switched off with it. */
static int64_t prove_at(const struct tn_elector *e)
{
    int64_t own_ms = e->cfg.timing.ttl_ns / TN_MS;
    int64_t silence_ms = e->cfg.prove_ns / TN_MS;

    if (e->cfg.prove_ns == 0 || e->proving || e->proved || e->seen != TN_SEEN_HELD ||
        strcmp(e->lease.holder, e->cfg.id) == 0)
        return TN_FOREVER;
    /* Who has a longer ttl than we do renews less often than we expect. */
    if (e->lease.ttl_ms > own_ms)
        silence_ms = silence_ms * e->lease.ttl_ms / own_ms;
    return max64(max64(e->observed_ns, e->answered_ns) + silence_ms * TN_MS,
                 max64(e->prove_again_ns, e->not_before_ns));
}

static void prove(struct tn_elector *e, struct tn_actions *out)
{
    e->proving = true;
    e->proof = e->token;
    out->set |= TN_ACT_PROVE;
    out->suspect = e->lease;
}

static void plan_following(struct tn_elector *e, const struct tn_event *ev, struct tn_actions *out)
{
    if (e->now_ns < e->retry_at_ns) {
        sleep_until(out, e->retry_at_ns);
        return;
    }
    if (e->must_read || e->seen == TN_SEEN_NOTHING || e->now_ns >= e->poll_at_ns) {
        read_now(e, out);
        return;
    }
    int64_t at = claim_at(e);
    if (e->now_ns < at) {
        int64_t suspect_at = at < TN_FOREVER ? prove_at(e) : TN_FOREVER;

        /* A machine is not switched off on an old view: the record is read once more. */
        if (e->now_ns >= suspect_at && e->looked_ns < suspect_at) {
            read_now(e, out);
            return;
        }
        if (e->now_ns >= suspect_at) {
            prove(e, out);
            suspect_at = TN_FOREVER;
        }
        wait_until(e, out, min64(min64(at, e->poll_at_ns), suspect_at));
        return;
    }
    draft_grant(e, ev, tn_epoch_next(e->lease.epoch, ev->wall_ms, e->floor), claim_cause(e));
    swap_now(e, ev, TN_FOR_CLAIM, out);
}

static void plan_holding(struct tn_elector *e, const struct tn_event *ev, struct tn_actions *out)
{
    bool stopping = e->phase == TN_PHASE_STOPPING;
    int64_t stop_at = stopping ? min64(e->deadline_ns, e->stop_by_ns) : e->stop_at_ns;

    if (stopping && (!e->draining || e->now_ns >= stop_at)) {
        sleep_until(out, TN_FOREVER); /* until the program is dead */
    } else if (e->now_ns < e->retry_at_ns) {
        sleep_until(out, min64(e->retry_at_ns, stop_at));
    } else if (e->must_read || (e->unchecked && e->phase == TN_PHASE_SEALING)) {
        read_now(e, out);
    } else if (e->regrant) {
        draft_grant(e, ev, tn_epoch_next(e->epoch, ev->wall_ms, e->floor), "regrant");
        swap_now(e, ev, TN_FOR_REGRANT, out);
    } else if (e->now_ns >= e->renew_at_ns) {
        renew(e, ev, out);
    } else {
        wait_until(e, out, min64(e->renew_at_ns, stop_at));
    }
}

static void plan_releasing(struct tn_elector *e, const struct tn_event *ev, struct tn_actions *out)
{
    if (e->now_ns < e->retry_at_ns)
        sleep_until(out, min64(e->retry_at_ns, e->release_until_ns));
    else if (e->must_read)
        read_now(e, out);
    else
        release(e, ev, out);
}

void tn_elector_plan(struct tn_elector *e, const struct tn_event *ev, struct tn_actions *out)
{
    if (e->out != TN_FOR_NONE || e->reading)
        return;
    e->asked_in = e->phase;
    if (e->phase == TN_PHASE_FOLLOWING)
        plan_following(e, ev, out);
    else if (tn_holding(e))
        plan_holding(e, ev, out);
    else if (e->phase == TN_PHASE_RELEASING)
        plan_releasing(e, ev, out);
    else if (e->phase == TN_PHASE_HALTED)
        out->set |= TN_ACT_HALT;
}
