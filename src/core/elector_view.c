/*
 * What this candidate knows of the register: what was last seen in it, since
 * when, and which requests of its own may still land there.
 */
#include <string.h>

#include "core/elector_inner.h"

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
void tn_view_know_epoch(struct tn_elector *e, uint64_t epoch)
{
    if (epoch > e->floor)
        e->floor = epoch;
}

/* The register has moved on, to nothing, to what cannot be used, or to an older record. */
static bool went_back(const struct tn_elector *e, const struct tn_event *ev, enum tn_seen now)
{
    if (tenure_token_equal(&e->token, &ev->token))
        return false;
    return now == TN_SEEN_ABSENT || now == TN_SEEN_REFUSED || ev->record->epoch < e->lease.epoch;
}

/* The record went back under its holder, who acts on until it looks.  Exclusion over that is
 * not promised (I1), but a candidate that knew the holder gives it the time that it had; while
 * that runs, from every look that shows the record to have gone back once more, because the
 * holder may have renewed in between. */
static void spare_holder(struct tn_elector *e)
{
    bool running = e->now_ns < e->spare_ns;

    if (e->seen == TN_SEEN_HELD && !tn_sees_own_process(e)) {
        e->spared = e->lease;
        if (running) /* for another grant as well: the return of one says nothing of the other */
            memset(e->spared.incarnation, 0, TENURE_NONCE_SIZE);
    } else if (!running) {
        return;
    }
    e->spare_ns = max64(e->spare_ns, e->now_ns + (int64_t)e->spared.ttl_ms * TN_MS);
}

/* The spared holder is seen again, at its grant or a later one: a process acts under one grant
 * at a time, so what it could still do is what this record says, and nothing else. */
static bool spared_is_seen(const struct tn_elector *e)
{
    return e->seen != TN_SEEN_ABSENT && !nonce_zero(e->spared.incarnation) &&
           e->lease.epoch >= e->spared.epoch &&
           nonce_equal(e->lease.incarnation, e->spared.incarnation);
}

/* Take in a read.  The same token is the same value: its time runs on from
 * when it was first seen (observation counts from AFTER that read).  Only what
 * was refused is looked at again: it may have been repaired in place. */
bool tn_view_observe(struct tn_elector *e, const struct tn_event *ev, struct tn_actions *out)
{
    e->looked_ns = e->now_ns;
    e->poll_at_ns = e->now_ns + jitter(ev, e->cfg.timing.poll_ns);
    if (e->seen != TN_SEEN_NOTHING && e->seen != TN_SEEN_REFUSED &&
        tenure_token_equal(&e->token, &ev->token))
        return false;

    enum tn_seen seen = classify(ev);
    if (went_back(e, ev, seen))
        spare_holder(e);
    bool held = seen == TN_SEEN_HELD;
    if (held != (e->seen == TN_SEEN_HELD) ||
        (held && !nonce_equal(ev->record->grant, e->lease.grant)))
        out->set |= TN_ACT_LEADER;
    e->seen = seen;
    e->token = ev->token;
    e->proved = false;
    e->observed_ns = e->now_ns;
    if (ev->record && seen != TN_SEEN_REFUSED) {
        e->lease = *ev->record;
        tn_view_know_epoch(e, e->lease.epoch);
        if (spared_is_seen(e))
            e->spare_ns = 0;
    } else {
        memset(&e->lease, 0, sizeof e->lease);
    }
    return true;
}

/* Take in a swap of our own that took effect. */
void tn_view_observe_own(struct tn_elector *e, const struct tn_event *ev)
{
    e->seen = tn_lease_held(&e->draft) ? TN_SEEN_HELD : TN_SEEN_FREE;
    e->token = ev->token;
    e->proved = false;
    e->lease = e->draft;
    tn_view_know_epoch(e, e->lease.epoch);
    e->observed_ns = e->now_ns;
    e->must_read = false;
    e->poll_at_ns = e->now_ns + jitter(ev, e->cfg.timing.poll_ns);
    tn_attempts_settle(e);
}

/* ---- Unknown outcomes ---------------------------------------------------- */

/* The attempt that the register now shows to have taken effect, or NULL (I6):
 * its nonce, and the grant that it wrote, under our own name. */
const struct tn_attempt *tn_attempt_landed(const struct tn_elector *e)
{
    if (e->seen != TN_SEEN_HELD || nonce_zero(e->token.nonce))
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
void tn_attempts_settle(struct tn_elector *e)
{
    memset(e->attempts, 0, sizeof e->attempts);
}

struct tn_attempt *tn_attempt_last(struct tn_elector *e)
{
    return &e->attempts[(e->attempt_next + TN_ATTEMPTS - 1) % TN_ATTEMPTS];
}

/* The last request definitely did not take effect. */
void tn_attempt_void(struct tn_elector *e)
{
    e->attempt_next = (e->attempt_next + TN_ATTEMPTS - 1) % TN_ATTEMPTS;
    memset(&e->attempts[e->attempt_next], 0, sizeof e->attempts[0]);
}

bool tn_attempts_open(const struct tn_elector *e)
{
    for (int i = 0; i < TN_ATTEMPTS; i++) {
        if (!nonce_zero(e->attempts[i].nonce))
            return true;
    }
    return false;
}
