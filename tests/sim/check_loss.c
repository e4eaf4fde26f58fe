/*
 * I9: loss is a linearizable read that shows another grant.
 * I12: while its record is current and D has not passed, a leader does not
 *      lose: no needless stops.
 *
 * For I12 the checker keeps a D of its own, from the acknowledgements that
 * reached the driver, and remembers when something last went wrong for this
 * candidate.  A stop because renewals failed needs both: the time, and an
 * excuse.
 */
#include "check.h"

void sim_check_excuse(struct sim_world *w, struct sim_node *n)
{
    n->facts.excuse_ns = w->now_ns;
}

/* What an answer entitles to, and what is given up by sending, as the checker sees it. */
void sim_check_believed(struct sim_world *w, struct sim_node *n, const struct tn_event *ev)
{
    struct sim_facts *f = &n->facts;
    const struct sim_request *r = &n->req;
    const struct tn_timing *t = &n->elector.cfg.timing;
    int64_t hold = r->sent_ns + r->hold_ns;

    (void)w;
    if (n->out.set & TN_ACT_SEAL) {
        f->believed_ns = n->elector.deadline_ns;
        f->stop_ns = n->elector.stop_at_ns;
        f->acked_ns = f->request_ns;
    } else if (ev->kind == TN_EV_SWAPPED && ev->status == TENURE_OK && r->purpose == TN_FOR_RENEW &&
               n->elector.now_ns < f->published_ns) {
        if (hold > f->believed_ns) {
            f->believed_ns = hold;
            f->stop_ns = hold - r->grace_ns;
        }
        f->acked_ns = f->request_ns;
    }
    if ((n->out.set & TN_ACT_SWAP) && n->out.purpose == TN_FOR_RENEW) {
        /* A lower ttl binds from the moment it is sent. */
        hold = n->elector.now_ns + t->hold_ns;
        f->believed_ns = hold < f->believed_ns ? hold : f->believed_ns;
        f->stop_ns = hold - t->grace_ns < f->stop_ns ? hold - t->grace_ns : f->stop_ns;
    }
}

static void lost(struct sim_world *w, struct sim_node *n)
{
    const struct sim_value *now = &w->store.now;

    if (now->serial == n->facts.serial && now->serial > w->exempt_serial && now->has_record &&
        !now->corrupt && !now->tombstone && tn_lease_held(&now->lease))
        sim_fail(w, "I9", "n%u takes itself for beaten; the store shows its grant", n->index);
}

/* Renewals failed: not before it has to, and not without a reason. */
static void expired(struct sim_world *w, struct sim_node *n)
{
    struct sim_facts *f = &n->facts;
    int64_t early = f->stop_ns - n->elector.now_ns;

    if (early > 0)
        sim_fail(w, "I12", "n%u stops %.3f s before it has to", n->index, (double)early / 1e9);
    if (f->excuse_ns < f->acked_ns)
        sim_fail(w, "I12", "n%u stops (%s), and nothing went wrong", n->index,
                 tn_stop_text(n->out.stop));
}

/* The guard fires on a leader.  It may know less than the elector: a driver that
 * is stopped before it publishes is fired upon at the earlier deadline.  But
 * something must have gone wrong. */
void sim_check_fired(struct sim_world *w, struct sim_node *n)
{
    const struct sim_facts *f = &n->facts;

    if (w->plan.family->linear && w->plan.family->keeps && f->excuse_ns < f->acked_ns &&
        (f->phase == TN_PHASE_LEADING || f->phase == TN_PHASE_SEALING))
        sim_fail(w, "I12", "n%u's guard fires, and nothing went wrong", n->index);
}

/* The state could not be sealed: only a person can help, or it has been tried for a ttl. */
static void gave_up(struct sim_world *w, struct sim_node *n)
{
    if (!n->facts.unsealed_final && n->elector.now_ns < n->facts.seal_by_ns)
        sim_fail(w, "I12", "n%u gives up a seal that may still succeed", n->index);
}

void sim_check_stop(struct sim_world *w, struct sim_node *n)
{
    if (!w->plan.family->linear || !w->plan.family->keeps)
        return;
    if (n->facts.phase == TN_PHASE_STOPPING)
        return; /* it was ending already; now it ends faster */
    switch (n->out.stop) {
    case TN_STOP_LOST:
        lost(w, n);
        break;
    case TN_STOP_EXPIRED:
        expired(w, n);
        break;
    case TN_STOP_UNSEALED:
        gave_up(w, n);
        break;
    case TN_STOP_YIELD:
    case TN_STOP_SHUTDOWN:
        if (!(n->out.stop == TN_STOP_YIELD ? n->facts.ordered : n->facts.ending))
            sim_fail(w, "I12", "n%u steps down, and nobody asked it to", n->index);
        break;
    default:
        break;
    }
}
