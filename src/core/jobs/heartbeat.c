/* core/jobs/heartbeat.c - join, renew, lose, leave. */
#include "core/jobs/heartbeat.h"

#include <assert.h>
#include <string.h>

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static bool holding(const struct tn_heartbeat *h)
{
    return h->phase == TN_BEAT_IN || h->phase == TN_BEAT_DRAINING;
}

static bool shows_own(const struct tn_heartbeat *h)
{
    return h->present && h->record.state == TN_MEMBER_ALIVE && h->record.mark == TN_MARK_NONE &&
           tn_identity_equal(&h->record.identity, &h->identity);
}

/* ---- Attempts ------------------------------------------------------------ */

static struct tn_beat_attempt *last_attempt(struct tn_heartbeat *h)
{
    return &h->attempts[(h->attempt_next + TN_BEAT_ATTEMPTS - 1) % TN_BEAT_ATTEMPTS];
}

/* The attempt that wrote what the register shows; NULL: none of ours. */
static const struct tn_beat_attempt *landed(const struct tn_heartbeat *h)
{
    for (unsigned i = 0; i < TN_BEAT_ATTEMPTS; i++)
        if (h->attempts[i].identity.number != 0 &&
            memcmp(h->attempts[i].nonce, h->token.nonce, TENURE_NONCE_SIZE) == 0)
            return &h->attempts[i];
    return NULL;
}

/* The record is of this very process: of the incarnation in hand, or of an attempt to join. */
static bool of_this_process(const struct tn_heartbeat *h)
{
    if (tn_identity_equal(&h->record.identity, &h->identity))
        return true;
    for (unsigned i = 0; i < TN_BEAT_ATTEMPTS; i++)
        if (tn_identity_equal(&h->record.identity, &h->attempts[i].identity))
            return true;
    return false;
}

/* ---- The term ------------------------------------------------------------ */

/* A join or a renewal took effect: the time counts from BEFORE it was sent. */
static void extend(struct tn_heartbeat *h, const struct tn_beat_attempt *by)
{
    int64_t until_ns = by->sent_ns + h->timing.hold_ns;

    if (until_ns <= h->deadline_ns)
        return;
    h->deadline_ns = until_ns;
    h->renew_at_ns = by->sent_ns + h->timing.renew_ns;
}

static void enter(struct tn_heartbeat *h, const struct tn_beat_attempt *by)
{
    /* Too late to be of use: it is replaced under a fresh incarnation. */
    if (h->now_ns >= by->sent_ns + h->timing.hold_ns - h->timing.grace_ns)
        return;
    h->identity = by->identity;
    h->deadline_ns = 0;
    extend(h, by);
    /* Asked to leave while the join was out: nothing runs under it yet. */
    h->phase = h->leave ? TN_BEAT_LEAVING : TN_BEAT_IN;
    h->reaped = h->leave;
}

static void stop(struct tn_heartbeat *h, enum tn_beat_phase phase, int64_t by_ns,
                 struct tn_beat_actions *out)
{
    h->phase = phase;
    h->stop_by_ns = min64(by_ns, h->deadline_ns);
    out->set |= TN_BEAT_STOP;
    out->stop_by_ns = h->stop_by_ns;
}

/* No answer brings this incarnation back: it joins under a fresh one. */
static void lose(struct tn_heartbeat *h, struct tn_beat_actions *out)
{
    memset(h->attempts, 0, sizeof h->attempts);
    stop(h, TN_BEAT_LOST, h->now_ns + h->timing.grace_ns, out);
}

static void reaped(struct tn_heartbeat *h)
{
    h->reaped = true;
    if (h->phase != TN_BEAT_DRAINING && h->phase != TN_BEAT_LOST)
        return;
    h->must_read |= h->phase == TN_BEAT_LOST;
    h->phase = h->leave ? TN_BEAT_LEAVING : TN_BEAT_OUT;
}

/* ---- Answers ------------------------------------------------------------- */

static void retry_later(struct tn_heartbeat *h)
{
    h->retry_at_ns = h->now_ns + h->timing.retry_ns;
}

static void observe(struct tn_heartbeat *h, const struct tn_beat_event *ev)
{
    if (!h->seen || !tenure_token_equal(&h->token, &ev->token))
        h->seen_ns = h->now_ns;
    h->seen = true;
    h->token = ev->token;
    h->present = ev->record != NULL;
    if (h->present)
        h->record = *ev->record;
    /* An operator's word outlives this incarnation, and the process: what we wrote is ours. */
    if (h->present && h->record.mark != TN_MARK_PLACEHOLDER && landed(h) == NULL)
        h->profile.draining = h->record.draining;
    h->namesake = !h->present && h->record.state == TN_MEMBER_ALIVE &&
                  h->record.identity.number != 0 && !of_this_process(h);
}

static void read_done(struct tn_heartbeat *h, const struct tn_beat_event *ev,
                      struct tn_beat_actions *out)
{
    const struct tn_beat_attempt *mine;

    if (!h->reading)
        return;
    h->reading = false;
    h->must_read = ev->status != TENURE_OK;
    retry_later(h);
    if (ev->status != TENURE_OK)
        return;
    observe(h, ev);
    mine = h->present ? landed(h) : NULL;
    if (holding(h)) {
        if (!shows_own(h))
            lose(h, out);
        else if (mine != NULL)
            extend(h, mine);
        else
            h->renew_at_ns = h->now_ns; /* an operator's edit: adopted, and renewed on it */
        h->retry_at_ns = h->now_ns;
    } else if (h->phase == TN_BEAT_OUT && mine != NULL && h->record.state == TN_MEMBER_ALIVE) {
        enter(h, mine);
    } else if (h->phase == TN_BEAT_LEAVING && !shows_own(h)) {
        h->phase = TN_BEAT_HALTED;
    }
}

static void swap_took_effect(struct tn_heartbeat *h, const struct tn_beat_event *ev)
{
    const struct tn_beat_attempt *mine = last_attempt(h);

    h->token = ev->token;
    h->record = h->draft;
    h->present = true;
    h->seen_ns = h->now_ns;
    if (h->phase == TN_BEAT_LEAVING)
        h->phase = TN_BEAT_HALTED;
    else if (h->phase == TN_BEAT_OUT)
        enter(h, mine);
    else if (holding(h))
        extend(h, mine);
}

static void swap_done(struct tn_heartbeat *h, const struct tn_beat_event *ev)
{
    if (!h->swapping)
        return;
    h->swapping = false;
    if (ev->status == TENURE_OK) {
        swap_took_effect(h, ev);
        return;
    }
    /* A conflict is not loss: an earlier request of our own may have landed. */
    h->must_read = true;
    if (ev->status != TENURE_CONFLICT)
        retry_later(h);
}

/* ---- Requests ------------------------------------------------------------ */

static void ask_read(struct tn_heartbeat *h, struct tn_beat_actions *out)
{
    h->reading = true;
    out->set |= TN_BEAT_READ;
    out->request_by_ns = h->now_ns + h->timing.request_ns;
}

/* Swap in h->record as changed, on the token last seen. */
static void ask_swap(struct tn_heartbeat *h, const struct tn_beat_event *ev,
                     struct tn_beat_actions *out)
{
    struct tn_beat_attempt *a = &h->attempts[h->attempt_next];

    h->attempt_next = (h->attempt_next + 1) % TN_BEAT_ATTEMPTS;
    memcpy(a->nonce, ev->entropy, TENURE_NONCE_SIZE);
    a->identity = out->record.identity;
    a->sent_ns = h->now_ns;
    h->draft = out->record;
    h->swapping = true;
    out->set |= TN_BEAT_SWAP;
    out->expect = h->token;
    memcpy(out->nonce, a->nonce, TENURE_NONCE_SIZE);
    out->request_by_ns = h->now_ns + h->timing.request_ns;
}

static void describe(const struct tn_heartbeat *h, struct tn_member *m)
{
    m->share = h->profile.share;
    m->limit = h->profile.limit;
    m->format = h->profile.format;
    m->standby = h->profile.standby;
    m->draining = h->profile.draining;
    m->applied = h->profile.applied;
    m->linger_ms = h->profile.linger_ms;
    m->ask_count = h->profile.ask_count;
    m->unfit_count = h->profile.unfit_count;
    memcpy(m->asks, h->profile.asks, sizeof m->asks);
    memcpy(m->unfit, h->profile.unfit, sizeof m->unfit);
    memcpy(m->labels, h->profile.labels, sizeof m->labels);
}

/* Every attempt to join is a fresh incarnation under a number of its own. */
static void ask_join(struct tn_heartbeat *h, const struct tn_beat_event *ev,
                     struct tn_beat_actions *out)
{
    uint64_t seen = h->present ? h->record.identity.number : 0;
    uint64_t number = tn_member_number(seen, h->tried, ev->wall_ms);
    uint64_t incarnation[2] = {ev->entropy[1] * UINT64_C(0x9e3779b97f4a7c15), ev->entropy[0]};

    if (number == 0) {
        retry_later(h);
        return;
    }
    h->tried = number;
    out->record = (struct tn_member){.state = TN_MEMBER_ALIVE, .ttl_ms = h->profile.ttl_ms};
    out->record.flaps = tn_member_flaps_joined(h->present ? &h->record : NULL);
    out->record.identity.number = number;
    memcpy(out->record.identity.incarnation, incarnation, TENURE_NONCE_SIZE);
    describe(h, &out->record);
    ask_swap(h, ev, out);
}

static void ask_renew(struct tn_heartbeat *h, const struct tn_beat_event *ev,
                      struct tn_beat_actions *out)
{
    out->record = h->record;
    out->record.renewals++;
    out->record.flaps = tn_member_flaps_renewed(h->record.flaps, out->record.renewals);
    describe(h, &out->record);
    ask_swap(h, ev, out);
}

static void ask_leave(struct tn_heartbeat *h, const struct tn_beat_event *ev,
                      struct tn_beat_actions *out)
{
    out->record = h->record;
    out->record.state = TN_MEMBER_LEFT;
    out->record.ask_count = 0;
    ask_swap(h, ev, out);
}

static void contend(struct tn_heartbeat *h, const struct tn_beat_event *ev,
                    struct tn_beat_actions *out)
{
    bool silent, own;

    if (!h->seen || h->must_read) {
        ask_read(h, out);
        return;
    }
    /* Absence is not death: another process under this id may live on under its lost record. */
    if (h->namesake && h->now_ns - h->seen_ns < h->record.ttl_ms * TN_MS) {
        ask_read(h, out);
        return;
    }
    silent = h->present && tn_member_silent(&h->record, h->seen_ns, h->now_ns);
    own = h->present && of_this_process(h);
    if (tn_member_may_join(h->present ? &h->record : NULL, own ? &h->record.identity : NULL,
                           h->reaped, silent) == TN_JOIN_NOW)
        ask_join(h, ev, out);
    else
        ask_read(h, out);
}

static void ask_next(struct tn_heartbeat *h, const struct tn_beat_event *ev,
                     struct tn_beat_actions *out)
{
    if (h->reading || h->swapping || h->now_ns < h->retry_at_ns)
        return;
    switch (h->phase) {
    case TN_BEAT_OUT:
        if (h->leave)
            h->phase = TN_BEAT_HALTED;
        else
            contend(h, ev, out);
        break;
    case TN_BEAT_IN:
    case TN_BEAT_DRAINING:
        if (h->must_read)
            ask_read(h, out);
        else if (h->now_ns >= h->renew_at_ns)
            ask_renew(h, ev, out);
        break;
    case TN_BEAT_LEAVING:
        if (h->must_read)
            ask_read(h, out);
        else
            ask_leave(h, ev, out);
        break;
    default:
        break;
    }
}

/* ---- The machine --------------------------------------------------------- */

static void take_event(struct tn_heartbeat *h, const struct tn_beat_event *ev,
                       struct tn_beat_actions *out)
{
    switch (ev->kind) {
    case TN_BEAT_EV_READ:
        read_done(h, ev, out);
        break;
    case TN_BEAT_EV_SWAPPED:
        swap_done(h, ev);
        break;
    case TN_BEAT_EV_REAPED:
        reaped(h);
        break;
    case TN_BEAT_EV_FIRED:
        if (holding(h))
            lose(h, out);
        break;
    case TN_BEAT_EV_LEAVE:
        h->leave = true;
        if (h->phase == TN_BEAT_IN)
            stop(h, TN_BEAT_DRAINING, h->now_ns + h->drain_ns, out);
        break;
    default: /* the timer */
        break;
    }
}

static int64_t wake_at(const struct tn_heartbeat *h)
{
    int64_t at = h->now_ns + h->timing.poll_ns;

    if (holding(h)) {
        at = min64(at, h->deadline_ns - h->timing.grace_ns);
        if (!h->reading && !h->swapping)
            at = min64(at, h->renew_at_ns > h->retry_at_ns ? h->renew_at_ns : h->retry_at_ns);
    } else {
        at = min64(at, h->now_ns + h->timing.retry_ns);
    }
    assert(at > h->now_ns);
    return at;
}

void tn_heartbeat_init(struct tn_heartbeat *h, const struct tn_timing *timing,
                       const struct tn_member *profile, int64_t drain_ns)
{
    assert(timing->hold_ns > 0 && timing->renew_ns > 0 && profile->ttl_ms * TN_MS > 0);
    assert(timing->poll_ns > 0 && timing->retry_ns > 0);
    memset(h, 0, sizeof *h);
    h->timing = *timing;
    h->profile = *profile;
    h->drain_ns = drain_ns;
    h->reaped = true;
}

void tn_heartbeat_step(struct tn_heartbeat *h, const struct tn_beat_event *ev,
                       struct tn_beat_actions *out)
{
    assert(ev->now_ns >= h->now_ns);
    h->now_ns = ev->now_ns;
    out->set = 0;
    /* The grace before D: no answer that is still out is waited for. */
    if (holding(h) && h->now_ns >= h->deadline_ns - h->timing.grace_ns)
        lose(h, out);
    take_event(h, ev, out);
    ask_next(h, ev, out);
    if (h->phase == TN_BEAT_HALTED)
        out->set |= TN_BEAT_HALT;
    out->deadline_ns = holding(h) ? h->deadline_ns : h->phase == TN_BEAT_LOST ? h->stop_by_ns : 0;
    out->wake_ns = wake_at(h);
}
