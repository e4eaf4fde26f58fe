/*
 * What the elector believes, and how each event changes it.  What it asks of
 * the store next is elector_plan.c.
 */
#include "core/elector.h"

#include <assert.h>
#include <string.h>

#include "core/elector_inner.h"

static const uint8_t zero[TENURE_NONCE_SIZE];

static bool nonce_equal(const uint8_t *a, const uint8_t *b)
{
    return memcmp(a, b, TENURE_NONCE_SIZE) == 0;
}

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* span, less up to a quarter: candidates must not move in step. */
static int64_t jitter(const struct tn_event *ev, int64_t span)
{
    return span - (int64_t)(ev->entropy[0] % (uint64_t)(span / 4 + 1));
}

/* The release does not wait for a request that was sent before the program died:
 * it is itself the first try on what is seen (I10), and conditional on it (I5). */
static void retry_later(struct tn_elector *e, const struct tn_event *ev)
{
    if (e->phase == TN_PHASE_RELEASING && e->asked_in != TN_PHASE_RELEASING)
        return;
    e->retry_at_ns = e->now_ns + jitter(ev, e->cfg.timing.retry_ns);
}

/* ---- Unknown outcomes ---------------------------------------------------- */

/* The attempt that the register now shows to have taken effect, or NULL (I6):
 * its nonce, and the grant that it wrote, under our own name. */
static const struct tn_attempt *attempt_landed(const struct tn_elector *e)
{
    if (e->seen != TN_SEEN_HELD || nonce_equal(e->token.nonce, zero))
        return NULL;
    for (int i = 0; i < TN_ATTEMPTS; i++) {
        const struct tn_attempt *a = &e->attempts[i];

        if (nonce_equal(a->nonce, e->token.nonce) &&
            tn_lease_is_grant(&e->lease, e->cfg.id, e->cfg.incarnation, a->grant))
            return a;
    }
    return NULL;
}

/* The register has moved on: whatever expected its former state never lands. */
static void attempts_settle(struct tn_elector *e)
{
    memset(e->attempts, 0, sizeof e->attempts);
}

static struct tn_attempt *attempt_last(struct tn_elector *e)
{
    return &e->attempts[(e->attempt_next + TN_ATTEMPTS - 1) % TN_ATTEMPTS];
}

/* The last request definitely did not take effect. */
static void attempt_void(struct tn_elector *e)
{
    e->attempt_next = (e->attempt_next + TN_ATTEMPTS - 1) % TN_ATTEMPTS;
    memset(&e->attempts[e->attempt_next], 0, sizeof e->attempts[0]);
}

static bool attempts_open(const struct tn_elector *e)
{
    for (int i = 0; i < TN_ATTEMPTS; i++) {
        if (!nonce_equal(e->attempts[i].nonce, zero))
            return true;
    }
    return false;
}

/* ---- What the register shows --------------------------------------------- */

bool tn_sees_own_process(const struct tn_elector *e)
{
    return e->seen == TN_SEEN_HELD && strcmp(e->lease.holder, e->cfg.id) == 0 &&
           nonce_equal(e->lease.incarnation, e->cfg.incarnation);
}

bool tn_sees_own_grant(const struct tn_elector *e)
{
    return e->seen == TN_SEEN_HELD &&
           tn_lease_is_grant(&e->lease, e->cfg.id, e->cfg.incarnation, e->grant);
}

static enum tn_seen classify(const struct tn_event *ev)
{
    if (tenure_token_absent(&ev->token))
        return TN_SEEN_ABSENT;
    if (ev->corrupt || (ev->record && !tn_lease_sane(ev->record)))
        return TN_SEEN_REFUSED;
    if (ev->tombstone)
        return TN_SEEN_ABSENT;
    if (!ev->record)
        return TN_SEEN_REFUSED;
    return tn_lease_held(ev->record) ? TN_SEEN_HELD : TN_SEEN_FREE;
}

/* Whatever is deleted or restored later, the epoch does not go back (I2). */
static void know_epoch(struct tn_elector *e, uint64_t epoch)
{
    if (epoch > e->floor)
        e->floor = epoch;
}

/* The record is gone, or an older one is back: deleted or restored under its
 * holder, who acts on until it looks.  Exclusion over that is not promised
 * (I1), but whoever knew the holder gives it the time that it had. */
static void spare_holder(struct tn_elector *e, const struct tn_event *ev, enum tn_seen now)
{
    bool back = tenure_token_absent(&ev->token) ||
                (ev->record && now != TN_SEEN_REFUSED && ev->record->epoch < e->lease.epoch);

    if (back && e->seen == TN_SEEN_HELD && !tn_sees_own_process(e))
        e->spare_ns = e->now_ns + (int64_t)e->lease.ttl_ms * TN_MS;
}

/* Take in a read.  The same token is the same value: its time runs on from
 * when it was first seen (observation counts from AFTER that read).  Only what
 * was refused is looked at again: it may have been mended in place. */
static bool observe(struct tn_elector *e, const struct tn_event *ev, struct tn_actions *out)
{
    e->poll_at_ns = e->now_ns + jitter(ev, e->cfg.timing.poll_ns);
    if (e->seen != TN_SEEN_NOTHING && e->seen != TN_SEEN_REFUSED &&
        tenure_token_equal(&e->token, &ev->token))
        return false;

    enum tn_seen seen = classify(ev);
    spare_holder(e, ev, seen);
    bool held = seen == TN_SEEN_HELD;
    if (held != (e->seen == TN_SEEN_HELD) ||
        (held && !nonce_equal(ev->record->grant, e->lease.grant)))
        out->set |= TN_ACT_LEADER;
    e->seen = seen;
    e->token = ev->token;
    e->observed_ns = e->now_ns;
    if (ev->record && seen != TN_SEEN_REFUSED) {
        e->lease = *ev->record;
        know_epoch(e, e->lease.epoch);
    } else {
        memset(&e->lease, 0, sizeof e->lease);
    }
    return true;
}

/* Take in a swap of our own that took effect. */
static void observe_own(struct tn_elector *e, const struct tn_event *ev)
{
    e->seen = tn_lease_held(&e->draft) ? TN_SEEN_HELD : TN_SEEN_FREE;
    e->token = ev->token;
    e->lease = e->draft;
    know_epoch(e, e->lease.epoch);
    e->observed_ns = e->now_ns;
    e->must_read = false;
    e->poll_at_ns = e->now_ns + jitter(ev, e->cfg.timing.poll_ns);
    attempts_settle(e);
}

/* ---- Leadership ---------------------------------------------------------- */

/* Contend anew.  Whatever of the former term lands later is not won again but
 * claimed, with a new epoch (I2); a grant that the guard fired on stays over. */
static void follow(struct tn_elector *e)
{
    attempts_settle(e);
    e->phase = e->ending ? TN_PHASE_HALTED : TN_PHASE_FOLLOWING;
    e->deadline_ns = 0;
    e->retry_at_ns = 0;
}

/* Leadership ends in memory, now (I7).  Every way of stopping ends at by_ns or
 * at D, whichever comes first; only a drain goes on renewing D. */
static void drop(struct tn_elector *e, enum tn_stop why, int64_t by_ns, struct tn_actions *out)
{
    bool first = e->phase != TN_PHASE_STOPPING;

    e->phase = TN_PHASE_STOPPING;
    e->draining = first && (why == TN_STOP_YIELD || why == TN_STOP_SHUTDOWN);
    e->regrant = false;
    if (first)
        e->stop_by_ns = by_ns;
    if (!e->draining)
        e->stop_by_ns = min64(min64(e->stop_by_ns, by_ns), e->deadline_ns);
    out->set |= TN_ACT_STOP;
    out->stop = why;
    out->stop_by_ns = e->stop_by_ns;
}

/* A grant is ours from before its request was sent until D after that. */
static void win(struct tn_elector *e, const struct tn_attempt *won, struct tn_actions *out)
{
    e->phase = TN_PHASE_SEALING;
    memcpy(e->grant, won->grant, TENURE_NONCE_SIZE);
    e->epoch = won->epoch;
    e->deadline_ns = won->hold_until_ns;
    e->stop_at_ns = won->stop_at_ns;
    e->renew_at_ns = won->renew_at_ns;
    e->lost = e->over = e->draining = e->regrant = false;
    out->set |= TN_ACT_LEADER;
    /* Asked to give up while the claim was on its way: then nothing starts. */
    if (e->ending) {
        drop(e, TN_STOP_SHUTDOWN, e->now_ns + e->cfg.drain_ns, out);
    } else if (e->now_ns < e->not_before_ns) {
        drop(e, TN_STOP_YIELD, e->now_ns + e->cfg.drain_ns, out);
    } else {
        out->set |= TN_ACT_SEAL;
        memcpy(out->grant, e->grant, TENURE_NONCE_SIZE);
        out->epoch = e->epoch;
    }
}

/* The higher epoch that the state asked for is in the store (I4). */
static void regranted(struct tn_elector *e, const struct tn_attempt *won, struct tn_actions *out)
{
    if (e->phase == TN_PHASE_SEALING && e->now_ns < won->stop_at_ns)
        win(e, won, out);
    else
        memcpy(e->grant, won->grant, TENURE_NONCE_SIZE); /* too late: but ours to release (I8) */
}

/* A renewal took effect.  A grant whose D has passed gains nothing by it (I6b). */
static void extend(struct tn_elector *e, const struct tn_attempt *renewal)
{
    if (!tn_holding(e))
        return;
    /* Sending it lowered the deadline to what it entitles to, if that was less
     * (a lower ttl): so it never takes anything away, and both times are its own. */
    assert(renewal->hold_until_ns >= e->deadline_ns);
    if (!e->over) {
        e->deadline_ns = renewal->hold_until_ns;
        e->stop_at_ns = renewal->stop_at_ns;
    }
    e->renew_at_ns = renewal->renew_at_ns;
}

/* Another grant is in the store: somebody else may act already. */
static void lose(struct tn_elector *e, struct tn_actions *out)
{
    e->lost = true;
    e->deadline_ns = min64(e->deadline_ns, e->now_ns);
    drop(e, TN_STOP_LOST, e->now_ns, out);
}

/* Time alone ends leadership, whatever the event was.  An answer that is in
 * hand counts first: it may have renewed the grant in time (I12). */
static void expire(struct tn_elector *e, struct tn_actions *out)
{
    if ((e->phase == TN_PHASE_SEALING || e->phase == TN_PHASE_LEADING) &&
        e->now_ns >= e->stop_at_ns)
        drop(e, TN_STOP_EXPIRED, e->deadline_ns, out);
}

/* The program is dead: what is left is to free the lease (I8). */
static void stopped(struct tn_elector *e)
{
    if (!tn_holding(e))
        return;
    if (e->lost) {
        follow(e);
        return;
    }
    e->phase = TN_PHASE_RELEASING;
    e->release_until_ns = e->now_ns + 2 * e->cfg.timing.request_ns;
    e->deadline_ns = 0;
    e->retry_at_ns = 0;
    /* A renewal of unknown outcome may have moved the token on: a swap on the
     * old one then conflicts, and the read that follows finds it. */
}

static void shut_down(struct tn_elector *e, struct tn_actions *out)
{
    e->ending = true;
    if (e->phase == TN_PHASE_SEALING || e->phase == TN_PHASE_LEADING) {
        drop(e, TN_STOP_SHUTDOWN, e->now_ns + e->cfg.drain_ns, out);
    } else if (e->phase == TN_PHASE_NEW) {
        e->phase = TN_PHASE_HALTED;
    } else if (e->phase == TN_PHASE_FOLLOWING && e->out == TN_FOR_NONE) {
        /* A claim that landed too late, or still may land, would cost the
         * others a whole ttl: look for it and release it. */
        bool late = tn_sees_own_process(e);
        e->phase = late || attempts_open(e) ? TN_PHASE_RELEASING : TN_PHASE_HALTED;
        e->release_until_ns = e->now_ns + 2 * e->cfg.timing.request_ns;
        e->must_read = true;
        if (late)
            memcpy(e->grant, e->lease.grant, TENURE_NONCE_SIZE);
    }
}

/* ---- Answers ------------------------------------------------------------- */

static void read_holding(struct tn_elector *e, bool moved, const struct tn_event *ev,
                         struct tn_actions *out)
{
    if (e->seen == TN_SEEN_REFUSED) {
        /* Not another grant, so no loss (I9), but nothing to renew on either. */
        e->must_read = true;
        retry_later(e, ev);
        return;
    }
    const struct tn_attempt *mine = attempt_landed(e);
    if (mine && !nonce_equal(mine->grant, e->grant)) {
        regranted(e, mine, out);
        return;
    }
    if (!tn_sees_own_grant(e)) {
        lose(e, out);
        return;
    }
    if (mine)
        extend(e, mine);
    else if (moved)
        e->renew_at_ns = e->now_ns; /* ours, but too old to tell which: renew on it */
}

static void read_following(struct tn_elector *e, struct tn_actions *out)
{
    const struct tn_attempt *mine = attempt_landed(e);

    if (mine && e->now_ns < mine->stop_at_ns)
        win(e, mine, out);
}

static void read_releasing(struct tn_elector *e)
{
    const struct tn_attempt *mine = attempt_landed(e);

    if (mine)
        memcpy(e->grant, mine->grant, TENURE_NONCE_SIZE);
    /* Only the very term that ended here may be released (I8); a record that
     * is refused is not touched. */
    if (!tn_sees_own_grant(e))
        follow(e);
}

static void read_done(struct tn_elector *e, const struct tn_event *ev, struct tn_actions *out)
{
    if (!e->reading)
        return;
    e->reading = false;
    if (ev->status != TENURE_OK) {
        /* A read error is never absence, and never loss. */
        e->must_read = true;
        retry_later(e, ev);
        return;
    }
    bool moved = observe(e, ev, out);
    e->must_read = false;
    /* A conflict on what is still there: the store contradicts itself or is
     * behind.  Do not ask in a hot loop. */
    if (e->conflicted && !moved)
        retry_later(e, ev);
    e->conflicted = false;
    if (tn_holding(e))
        read_holding(e, moved, ev, out);
    else if (e->phase == TN_PHASE_FOLLOWING)
        read_following(e, out);
    else if (e->phase == TN_PHASE_RELEASING)
        read_releasing(e);
    if (moved)
        attempts_settle(e);
}

static void swap_took_effect(struct tn_elector *e, enum tn_purpose purpose,
                             const struct tn_event *ev, struct tn_actions *out)
{
    struct tn_attempt done = *attempt_last(e);

    observe_own(e, ev);
    if (purpose == TN_FOR_RENEW) {
        extend(e, &done);
    } else if (purpose == TN_FOR_REGRANT) {
        regranted(e, &done, out);
    } else if (purpose == TN_FOR_RELEASE) {
        out->set |= TN_ACT_LEADER;
        follow(e);
    } else if (e->now_ns < done.stop_at_ns) {
        win(e, &done, out);
    }
    /* A claim whose answer came too late leaves a record of ours that nobody
     * acts under; it is claimed anew, or released if we are ending. */
}

static void swap_done(struct tn_elector *e, const struct tn_event *ev, struct tn_actions *out)
{
    enum tn_purpose purpose = e->out;

    if (purpose == TN_FOR_NONE)
        return;
    e->out = TN_FOR_NONE;
    switch (ev->status) {
    case TENURE_OK:
        swap_took_effect(e, purpose, ev, out);
        break;
    case TENURE_CONFLICT:
        /* Not loss: an earlier request of our own may have landed (I9). */
        attempt_void(e);
        e->conflicted = true;
        e->must_read = true;
        break;
    case TENURE_UNKNOWN:
        /* A retry on the same base settles a renewal; who claims looks first. */
        e->must_read |= purpose == TN_FOR_CLAIM || purpose == TN_FOR_REGRANT;
        retry_later(e, ev);
        break;
    default:
        attempt_void(e);
        retry_later(e, ev);
        break;
    }
    /* Asked to end while a claim was out, which did not win: look for it. */
    if (e->ending && e->phase == TN_PHASE_FOLLOWING)
        shut_down(e, out);
}

/* ---- Requests from our own side ------------------------------------------ */

static void fenced(struct tn_elector *e, const struct tn_event *ev, struct tn_actions *out)
{
    know_epoch(e, ev->floor);
    if (!nonce_equal(ev->grant, e->grant))
        return; /* about a grant that is over already */
    if (e->phase == TN_PHASE_SEALING && tn_epoch_next(e->epoch, 0, e->floor) != 0)
        e->regrant = true; /* instead of dying: take a higher epoch and seal again (I4) */
    else if (e->phase == TN_PHASE_SEALING || e->phase == TN_PHASE_LEADING)
        drop(e, TN_STOP_FENCED, e->now_ns + e->cfg.timing.grace_ns, out);
}

/* What was granted under the former timing keeps its times; a renewal that
 * carries the new ttl is due at once. */
static void retime(struct tn_elector *e, const struct tn_timing *timing)
{
    e->cfg.timing = *timing;
    e->renew_at_ns = e->now_ns;
}

static void take_event(struct tn_elector *e, const struct tn_event *ev, struct tn_actions *out)
{
    switch (ev->kind) {
    case TN_EV_START:
        if (e->phase == TN_PHASE_NEW)
            e->phase = TN_PHASE_FOLLOWING;
        know_epoch(e, ev->floor);
        break;
    case TN_EV_TIMER:
        break;
    case TN_EV_CHANGED:
        e->must_read = true;
        break;
    case TN_EV_READ:
        read_done(e, ev, out);
        break;
    case TN_EV_SWAPPED:
        swap_done(e, ev, out);
        break;
    case TN_EV_SEALED:
        if (e->phase == TN_PHASE_SEALING && !e->regrant && nonce_equal(ev->grant, e->grant) &&
            e->now_ns < e->stop_at_ns) {
            e->phase = TN_PHASE_LEADING;
            out->set |= TN_ACT_START;
            out->epoch = e->epoch;
            memcpy(out->grant, e->grant, TENURE_NONCE_SIZE);
        }
        break;
    case TN_EV_FENCED:
        fenced(e, ev, out);
        break;
    case TN_EV_STOPPED:
        stopped(e);
        break;
    case TN_EV_FIRED:
        if (tn_holding(e) && !e->over) {
            e->over = true;
            drop(e, TN_STOP_FIRED, e->now_ns, out);
        }
        break;
    case TN_EV_YIELD:
        e->not_before_ns = ev->until_ns;
        if (e->phase == TN_PHASE_SEALING || e->phase == TN_PHASE_LEADING)
            drop(e, TN_STOP_YIELD, e->now_ns + e->cfg.drain_ns, out);
        break;
    case TN_EV_SHUTDOWN:
        shut_down(e, out);
        break;
    case TN_EV_CONTROL:
        e->may_claim = ev->may_claim;
        e->claim_delay_ns = ev->claim_delay_ns;
        break;
    case TN_EV_TIMING:
        retime(e, ev->timing);
        break;
    }
}

/* ---- The machine --------------------------------------------------------- */

void tn_elector_init(struct tn_elector *e, const struct tn_elector_config *cfg)
{
    assert(cfg->id[0] != '\0' && !nonce_equal(cfg->incarnation, zero));
    assert(cfg->timing.hold_ns > 0 && cfg->timing.renew_ns > 0 && cfg->timing.request_ns > 0);
    memset(e, 0, sizeof *e);
    e->cfg = *cfg;
    e->may_claim = true;
}

void tn_elector_step(struct tn_elector *e, const struct tn_event *ev, struct tn_actions *out)
{
    assert(ev->now_ns >= e->now_ns);
    assert((ev->entropy[0] | ev->entropy[1]) != 0);
    e->now_ns = ev->now_ns;
    out->set = 0;
    if (tn_holding(e) && e->now_ns >= e->deadline_ns)
        e->over = true; /* D has passed: no answer brings this grant back (I6b) */
    take_event(e, ev, out);
    expire(e, out);
    if (e->phase == TN_PHASE_RELEASING && e->now_ns >= e->release_until_ns && !e->reading &&
        e->out == TN_FOR_NONE)
        follow(e);
    tn_elector_plan(e, ev, out);
    out->deadline_ns =
        e->phase == TN_PHASE_STOPPING ? min64(e->deadline_ns, e->stop_by_ns) : e->deadline_ns;
}

bool tn_elector_leads(const struct tn_elector *e, int64_t now_ns)
{
    return e->phase == TN_PHASE_LEADING && now_ns < e->deadline_ns;
}

const char *tn_phase_word(enum tn_phase phase)
{
    static const char *const words[] = {"new",      "following", "sealing", "leading",
                                        "stopping", "releasing", "halted"};

    return (unsigned)phase < sizeof words / sizeof words[0] ? words[phase] : "?";
}

const char *tn_stop_text(enum tn_stop stop)
{
    static const char *const texts[] = {
#define TN_X(name, text) text,
        TN_STOP_MAP(TN_X)
#undef TN_X
    };

    return (unsigned)stop < sizeof texts / sizeof texts[0] ? texts[stop] : "?";
}
