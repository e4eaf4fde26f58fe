/*
 * I5: every change is conditional on the exact version and nonce last seen.
 * I6: a timeout is an unknown outcome; nonces are fresh; what a success
 *     entitles to counts from before its request was sent.
 * I6b: another incarnation's record is somebody else's; a grant whose D has
 *     passed never renews.
 */
#include <string.h>

#include "check.h"
#include "store.h"

void sim_check_swap_sent(struct sim_world *w, struct sim_node *n)
{
    struct sim_facts *f = &n->facts;
    uint64_t nonce;

    memcpy(&nonce, n->out.nonce, sizeof nonce);
    for (unsigned i = 0; i < sizeof f->nonces / sizeof f->nonces[0]; i++) {
        if (f->nonces[i] == nonce)
            sim_fail(w, "I6", "n%u used a nonce twice", n->index);
    }
    f->nonces[n->req.no % (sizeof f->nonces / sizeof f->nonces[0])] = nonce;
    if (n->req.purpose == TN_FOR_RENEW && n->elector.now_ns >= n->out.deadline_ns)
        sim_fail(w, "I6b", "n%u renews a grant whose D has passed", n->index);
    if (n->req.purpose == TN_FOR_CLAIM && !n->may_claim)
        sim_fail(w, "control", "n%u claims while claims are suppressed", n->index);
}

void sim_check_swap_applied(struct sim_world *w, const struct sim_msg *msg,
                            const struct sim_value *before)
{
    const struct tn_lease *was = &before->lease, *is = &msg->record;

    if (!tenure_token_equal(&msg->expect, &before->token))
        sim_fail(w, "I5", "n%u's request to %s took effect on v%s; it had seen v%s", msg->node,
                 sim_purpose_word(msg->purpose), before->token.version, msg->expect.version);
    if (msg->purpose == TN_FOR_RENEW &&
        (!before->has_record || before->tombstone ||
         !tn_lease_is_grant(was, is->holder, is->incarnation, is->grant) || is->epoch < was->epoch))
        sim_fail(w, "I6b", "n%u renewed what was not its own grant", msg->node);
}

static bool holds(const struct sim_node *n)
{
    enum tn_phase phase = n->elector.phase;

    return phase == TN_PHASE_SEALING || phase == TN_PHASE_LEADING || phase == TN_PHASE_STOPPING;
}

/* The deadline against what the register, as it really is, entitles to. */
void sim_check_deadline(struct sim_world *w, struct sim_node *n)
{
    const struct sim_value *now = &w->store.now;
    int64_t deadline = n->out.deadline_ns, before = n->facts.published_ns;

    if (!holds(n)) {
        if (deadline != 0)
            sim_fail(w, "I7", "n%u holds nothing and publishes a deadline", n->index);
        return;
    }
    if (!(n->out.set & TN_ACT_SEAL) && before != 0 && n->elector.now_ns >= before &&
        deadline > n->elector.now_ns)
        sim_fail(w, "I6b", "n%u: the deadline had passed, and was raised again", n->index);
    if (n->elector.phase != TN_PHASE_STOPPING && n->elector.now_ns >= deadline)
        sim_fail(w, "I6b", "n%u is %s, and D has passed", n->index,
                 tn_phase_word(n->elector.phase));
    if (now->serial == n->facts.serial && now->serial > w->exempt_serial && w->plan.family->keeps &&
        !now->corrupt && tn_lease_held(&now->lease) && deadline > now->sent_ns + now->hold_ns)
        sim_fail(w, "I6", "n%u: the deadline is %.3f s later than its last request entitles to",
                 n->index, (double)(deadline - now->sent_ns - now->hold_ns) / 1e9);
}
