/*
 * I1: at most one candidate acts, at any true instant.
 *
 * Acting begins only where a program starts, so looking there sees every
 * overlap; and once more where a candidate's exemption ends.  Under a guard
 * what counts is the program: it acts until it is dead.  For a library user
 * what counts is the belief.
 *
 * Not promised (SAFETY, I1), and so exempt: the grants that existed when the
 * record was lost, restored or rewritten; a host that sleeps, until K after it
 * wakes up; a paused virtual machine, for the grants claimed before; tenure
 * and guard both stopped, until K after (there is no init here); clocks beyond rho; the grants of
 * two servers that both answer after a fail-over.
 */
#include "body.h"
#include "check.h"

bool sim_exempt(const struct sim_world *w, const struct sim_node *n, uint32_t serial,
                uint32_t claim_no)
{
    return w->plan.wild || w->now_ns < w->store.split_until_ns || serial <= w->exempt_serial ||
           w->now_ns < n->facts.exempt_until_ns || claim_no <= n->facts.exempt_no;
}

static bool acts(const struct sim_world *w, const struct sim_node *n)
{
    return sim_body_acts(w, n) && !sim_exempt(w, n, n->facts.serial, n->facts.claim_no);
}

void sim_check_exclusion(struct sim_world *w, struct sim_node *n)
{
    if (w->plan.guarded && n->ghost.prog != SIM_PROG_NONE && n->body.prog != SIM_PROG_NONE &&
        !sim_exempt(w, n, n->ghost.serial, UINT32_MAX))
        sim_fail(w, "I1", "n%u starts a program while that of its life before is alive", n->index);
    if (!acts(w, n))
        return;
    for (unsigned i = 0; i < w->plan.nodes; i++) {
        if (i != n->index && acts(w, &w->nodes[i]))
            sim_fail(w, "I1", "n%u and n%u act at the same time", i, n->index);
    }
}

void sim_check_exclusion_all(struct sim_world *w)
{
    for (unsigned i = 0; i < w->plan.nodes && !w->failed; i++)
        sim_check_exclusion(w, &w->nodes[i]);
}

void sim_check_record_lost(struct sim_world *w)
{
    w->exempt_serial = w->n_grants;
    w->top_epoch = w->age_epoch = 0;
}
