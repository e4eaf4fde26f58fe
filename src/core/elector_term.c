/*
 * The term: how a grant is won, extended, dropped, lost and given back.
 */
#include <assert.h>
#include <string.h>

#include "core/elector_inner.h"

/* Contend anew.  Whatever of the former term lands later is not won again but
 * claimed, with a new epoch (I2); a grant that the guard fired on stays over. */
void tn_term_follow(struct tn_elector *e)
{
    tn_attempts_settle(e);
    e->phase = e->ending ? TN_PHASE_HALTED : TN_PHASE_FOLLOWING;
    e->deadline_ns = 0;
    e->retry_at_ns = 0;
    e->unchecked = e->cfg.purges;
}

/* Leadership ends in memory, now (I7).  Every way of stopping ends at by_ns or
 * at D, whichever comes first; only a drain goes on renewing D. */
void tn_term_drop(struct tn_elector *e, enum tn_stop why, int64_t by_ns, struct tn_actions *out)
{
    bool first = e->phase != TN_PHASE_STOPPING;

    e->phase = TN_PHASE_STOPPING;
    e->draining = first && (why == TN_STOP_YIELD || why == TN_STOP_SHUTDOWN ||
                            why == TN_STOP_UNSEALED || why == TN_STOP_UNCHECKED);
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
void tn_term_win(struct tn_elector *e, const struct tn_attempt *won, struct tn_actions *out)
{
    e->phase = TN_PHASE_SEALING;
    memcpy(e->grant, won->grant, TENURE_NONCE_SIZE);
    e->epoch = won->epoch;
    e->deadline_ns = won->hold_until_ns;
    e->stop_at_ns = won->stop_at_ns;
    e->renew_at_ns = won->renew_at_ns;
    e->seal_by_ns = e->now_ns + e->cfg.timing.ttl_ns;
    e->lost = e->over = e->draining = e->regrant = e->sealed = false;
    e->unchecked = e->cfg.purges && !e->lease.checked;
    out->set |= TN_ACT_LEADER;
    /* Asked to give up while the claim was on its way: then nothing starts. */
    if (e->ending) {
        tn_term_drop(e, TN_STOP_SHUTDOWN, e->now_ns + e->cfg.drain_ns, out);
    } else if (e->now_ns < e->not_before_ns) {
        tn_term_drop(e, TN_STOP_YIELD, e->now_ns + e->cfg.drain_ns, out);
    } else {
        out->set |= TN_ACT_SEAL;
        memcpy(out->grant, e->grant, TENURE_NONCE_SIZE);
        out->epoch = e->epoch;
    }
}

/* The higher epoch that the state asked for is in the store (I4). */
void tn_term_regranted(struct tn_elector *e, const struct tn_attempt *won, struct tn_actions *out)
{
    if (e->phase == TN_PHASE_SEALING && e->now_ns < won->stop_at_ns)
        tn_term_win(e, won, out);
    else
        memcpy(e->grant, won->grant, TENURE_NONCE_SIZE); /* too late: but ours to release (I8) */
}

/* A renewal took effect.  A grant whose D has passed gains nothing by it (I6b). */
void tn_term_extend(struct tn_elector *e, const struct tn_attempt *renewal)
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
void tn_term_lose(struct tn_elector *e, struct tn_actions *out)
{
    e->lost = true;
    e->deadline_ns = min64(e->deadline_ns, e->now_ns);
    tn_term_drop(e, TN_STOP_LOST, e->now_ns, out);
}

/* The others get as long to take over before this one claims again. */
void tn_term_hold_back(struct tn_elector *e)
{
    e->not_before_ns = e->now_ns + (e->cfg.timing.ttl_ns << e->unsealed);
}

/* Time alone ends leadership, whatever the event was.  An answer that is in
 * hand counts first: it may have renewed the grant in time (I12). */
void tn_term_expire(struct tn_elector *e, struct tn_actions *out)
{
    if ((e->phase != TN_PHASE_SEALING && e->phase != TN_PHASE_LEADING) || e->now_ns < e->stop_at_ns)
        return;
    /* Not renewed because the floor could not be read: another candidate may be able to. */
    if (e->phase == TN_PHASE_SEALING && e->unchecked)
        tn_term_hold_back(e);
    tn_term_drop(e, TN_STOP_EXPIRED, e->deadline_ns, out);
}

/* The program is dead: what is left is to free the lease (I8). */
void tn_term_stopped(struct tn_elector *e)
{
    if (!tn_holding(e))
        return;
    if (e->lost) {
        tn_term_follow(e);
        return;
    }
    e->phase = TN_PHASE_RELEASING;
    e->release_until_ns = e->now_ns + 2 * e->cfg.timing.request_ns;
    e->deadline_ns = 0;
    e->retry_at_ns = 0;
    /* A renewal of unknown outcome may have moved the token on: a swap on the
     * old one then conflicts, and the read that follows finds it. */
}

void tn_term_shut_down(struct tn_elector *e, struct tn_actions *out)
{
    e->ending = true;
    if (e->phase == TN_PHASE_SEALING || e->phase == TN_PHASE_LEADING) {
        tn_term_drop(e, TN_STOP_SHUTDOWN, e->now_ns + e->cfg.drain_ns, out);
    } else if (e->phase == TN_PHASE_NEW) {
        e->phase = TN_PHASE_HALTED;
    } else if (e->phase == TN_PHASE_FOLLOWING && e->out == TN_FOR_NONE) {
        /* A claim that landed too late, or still may land, would cost the
         * others a whole ttl: look for it and release it. */
        bool late = tn_sees_own_process(e);
        e->phase = late || tn_attempts_open(e) ? TN_PHASE_RELEASING : TN_PHASE_HALTED;
        e->release_until_ns = e->now_ns + 2 * e->cfg.timing.request_ns;
        e->must_read = true;
        if (late)
            memcpy(e->grant, e->lease.grant, TENURE_NONCE_SIZE);
    }
}
