/*
 * The machine: each event, and what follows from it for what is known of the
 * register (elector_view.c) and for the grant in hand (elector_term.c).  What is
 * asked of the store next is elector_plan.c.
 */
#include "core/elector.h"

#include <assert.h>
#include <string.h>

#include "core/elector_inner.h"

/* The release does not wait for a request that was sent before the program died:
 * it is itself the first try on what is seen (I10), and conditional on it (I5). */
static void retry_later(struct tn_elector *e, const struct tn_event *ev)
{
    if (e->phase == TN_PHASE_RELEASING && e->asked_in != TN_PHASE_RELEASING)
        return;
    e->retry_at_ns = e->now_ns + jitter(ev, e->cfg.timing.retry_ns);
}

/* ---- The beginning of a term ---------------------------------------------- */

/* The grant in hand has an epoch that was used before.  Instead of dying: take a higher one, and
 * seal again (I4). */
static void outranked(struct tn_elector *e, struct tn_actions *out)
{
    if (e->phase == TN_PHASE_SEALING && tn_epoch_next(e->epoch, 0, e->floor) != 0)
        e->regrant = true;
    else if (e->phase == TN_PHASE_SEALING || e->phase == TN_PHASE_LEADING)
        tn_term_drop(e, TN_STOP_FENCED, e->now_ns + e->cfg.timing.grace_ns, out);
}

static void begin_if_ready(struct tn_elector *e, struct tn_actions *out)
{
    if (!e->sealed || e->unchecked || e->regrant || e->now_ns >= e->stop_at_ns)
        return;
    e->phase = TN_PHASE_LEADING;
    e->unsealed = 0;
    out->set |= TN_ACT_START;
    out->epoch = e->epoch;
    memcpy(out->grant, e->grant, TENURE_NONCE_SIZE);
}

/* Another candidate may be able to begin where this one cannot, so the lease is not kept.  If it
 * fails for good, the others get longer each time to take over. */
static void give_up(struct tn_elector *e, enum tn_stop why, bool final, struct tn_actions *out)
{
    tn_term_hold_back(e);
    if (final && e->unsealed < TN_UNSEALED_MAX)
        e->unsealed++;
    tn_term_drop(e, why, e->now_ns + e->cfg.drain_ns, out);
}

/* A tombstone that was deleted has left its epoch in the floor before.  Our grant has taken effect
 * before this read, so if it was made where that tombstone had been, however long ago it was sent,
 * the floor shows it: no clock is asked (I2).  A floor that cannot be read is not zero. */
static void check_floor(struct tn_elector *e, const struct tn_event *ev, struct tn_actions *out)
{
    if (ev->floor_damaged) {
        give_up(e, TN_STOP_UNCHECKED, true, out);
        return;
    }
    e->unchecked = false;
    tn_view_know_epoch(e, ev->floor);
    if (ev->floor >= e->epoch)
        outranked(e, out);
    else
        begin_if_ready(e, out);
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
    const struct tn_attempt *mine = tn_attempt_landed(e);
    if (mine && !nonce_equal(mine->grant, e->grant)) {
        tn_term_regranted(e, mine, out);
        return;
    }
    if (!tn_sees_own_grant(e)) {
        tn_term_lose(e, out);
        return;
    }
    if (mine)
        tn_term_extend(e, mine);
    else if (moved)
        e->renew_at_ns = e->now_ns; /* ours, but too old to tell which: renew on it */
    if (e->unchecked && e->phase == TN_PHASE_SEALING && !e->over)
        check_floor(e, ev, out);
}

static void read_following(struct tn_elector *e, struct tn_actions *out)
{
    const struct tn_attempt *mine = tn_attempt_landed(e);

    if (mine && e->now_ns < mine->stop_at_ns)
        tn_term_win(e, mine, out);
}

static void read_releasing(struct tn_elector *e)
{
    const struct tn_attempt *mine = tn_attempt_landed(e);

    if (mine)
        memcpy(e->grant, mine->grant, TENURE_NONCE_SIZE);
    /* Only the very term that ended here may be released (I8); a record that
     * is refused is not touched. */
    if (!tn_sees_own_grant(e))
        tn_term_follow(e);
}

static void read_done(struct tn_elector *e, const struct tn_event *ev, struct tn_actions *out)
{
    if (!e->reading)
        return;
    e->reading = false;
    if (ev->status != TENURE_OK) {
        /* A read error is never absence, and never loss. */
        e->must_read = e->unanswered = true;
        retry_later(e, ev);
        /* The floor may be what it has no right to. */
        if (ev->final && e->unchecked && e->phase == TN_PHASE_SEALING)
            give_up(e, TN_STOP_UNCHECKED, true, out);
        return;
    }
    if (e->unanswered)
        e->answered_ns = e->now_ns;
    e->unanswered = false;
    bool moved = tn_view_observe(e, ev, out);
    e->must_read = false;
    /* A conflict on what is still there: the store contradicts itself or is
     * behind.  Do not ask in a hot loop. */
    if (e->conflicted && !moved)
        retry_later(e, ev);
    e->conflicted = false;
    /* Until D the register is the one that we claimed; what is seen later may have been made where
     * that was deleted, and the floor was not read since. */
    if (e->over || !tn_holding(e))
        e->unchecked = e->cfg.purges;
    if (tn_holding(e))
        read_holding(e, moved, ev, out);
    else if (e->phase == TN_PHASE_FOLLOWING)
        read_following(e, out);
    else if (e->phase == TN_PHASE_RELEASING)
        read_releasing(e);
    if (moved)
        tn_attempts_settle(e);
}

static void swap_took_effect(struct tn_elector *e, enum tn_purpose purpose,
                             const struct tn_event *ev, struct tn_actions *out)
{
    struct tn_attempt done = *tn_attempt_last(e);

    tn_view_observe_own(e, ev);
    if (purpose == TN_FOR_RENEW) {
        tn_term_extend(e, &done);
    } else if (purpose == TN_FOR_REGRANT) {
        tn_term_regranted(e, &done, out);
    } else if (purpose == TN_FOR_RELEASE) {
        out->set |= TN_ACT_LEADER;
        tn_term_follow(e);
    } else if (e->now_ns < done.stop_at_ns) {
        tn_term_win(e, &done, out);
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
        tn_attempt_void(e);
        e->conflicted = true;
        e->must_read = true;
        break;
    case TENURE_UNKNOWN:
        /* A retry on the same base settles a renewal; who claims looks first. */
        e->must_read |= purpose == TN_FOR_CLAIM || purpose == TN_FOR_REGRANT;
        retry_later(e, ev);
        break;
    default:
        tn_attempt_void(e);
        retry_later(e, ev);
        break;
    }
    /* Asked to end while a claim was out, which did not win: look for it. */
    if (e->ending && e->phase == TN_PHASE_FOLLOWING)
        tn_term_shut_down(e, out);
}

/* ---- Requests from our own side ------------------------------------------ */

static void fenced(struct tn_elector *e, const struct tn_event *ev, struct tn_actions *out)
{
    tn_view_know_epoch(e, ev->floor);
    if (!nonce_equal(ev->grant, e->grant))
        return; /* about a grant that is over already */
    outranked(e, out);
}

/* Another candidate may reach a state that this one cannot: the lease is kept neither for a seal
 * that only a person can help, nor for one that has not got on for a whole ttl. */
static void unsealed(struct tn_elector *e, const struct tn_event *ev, struct tn_actions *out)
{
    if (e->phase != TN_PHASE_SEALING || !nonce_equal(ev->grant, e->grant))
        return; /* about a grant that is over already */
    if (ev->gained)
        e->seal_by_ns = e->now_ns + e->cfg.timing.ttl_ns;
    if (ev->final || e->now_ns >= e->seal_by_ns)
        give_up(e, TN_STOP_UNSEALED, ev->final, out);
}

/* What was granted under the former timing keeps its times; a renewal that
 * carries the new ttl is due at once. */
static void retime(struct tn_elector *e, const struct tn_timing *timing)
{
    e->cfg.timing = *timing;
    e->renew_at_ns = e->now_ns;
}

/* The holder's machine is off: nothing acts under the record that was read before the command began
 * (the swap on its token sees to it that there is no later one), so W need not pass.  What has
 * changed since is not covered; nor is anything if the command failed. */
static void proved(struct tn_elector *e, const struct tn_event *ev)
{
    if (!e->proving)
        return;
    e->proving = false;
    e->proved = ev->status == TENURE_OK && tenure_token_equal(&e->token, &e->proof);
    if (!e->proved)
        e->prove_again_ns = e->now_ns + e->cfg.prove_ns;
}

static void take_event(struct tn_elector *e, const struct tn_event *ev, struct tn_actions *out)
{
    switch (ev->kind) {
    case TN_EV_START:
        if (e->phase == TN_PHASE_NEW)
            e->phase = TN_PHASE_FOLLOWING;
        tn_view_know_epoch(e, ev->floor);
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
        if (e->phase == TN_PHASE_SEALING && nonce_equal(ev->grant, e->grant)) {
            e->sealed = true;
            begin_if_ready(e, out);
        }
        break;
    case TN_EV_FENCED:
        fenced(e, ev, out);
        break;
    case TN_EV_UNSEALED:
        unsealed(e, ev, out);
        break;
    case TN_EV_STOPPED:
        tn_term_stopped(e);
        break;
    case TN_EV_FIRED:
        if (tn_holding(e) && !e->over) {
            e->over = true;
            tn_term_drop(e, TN_STOP_FIRED, e->now_ns, out);
        }
        break;
    case TN_EV_YIELD:
        e->not_before_ns = ev->until_ns;
        if (e->phase == TN_PHASE_SEALING || e->phase == TN_PHASE_LEADING)
            tn_term_drop(e, TN_STOP_YIELD, e->now_ns + e->cfg.drain_ns, out);
        break;
    case TN_EV_SHUTDOWN:
        tn_term_shut_down(e, out);
        break;
    case TN_EV_CONTROL:
        e->may_claim = ev->may_claim;
        e->claim_delay_ns = ev->claim_delay_ns;
        break;
    case TN_EV_TIMING:
        retime(e, ev->timing);
        break;
    case TN_EV_PROVED:
        proved(e, ev);
        break;
    }
}

/* ---- The machine --------------------------------------------------------- */

void tn_elector_init(struct tn_elector *e, const struct tn_elector_config *cfg)
{
    assert(cfg->id[0] != '\0' && !nonce_zero(cfg->incarnation));
    assert(cfg->timing.hold_ns > 0 && cfg->timing.renew_ns > 0 && cfg->timing.request_ns > 0);
    memset(e, 0, sizeof *e);
    e->cfg = *cfg;
    e->may_claim = true;
    e->unchecked = cfg->purges;
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
    tn_term_expire(e, out);
    if (e->phase == TN_PHASE_RELEASING && e->now_ns >= e->release_until_ns && !e->reading &&
        e->out == TN_FOR_NONE)
        tn_term_follow(e);
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
