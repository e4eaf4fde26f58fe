#include "prover.h"

#include "check.h"
#include "node.h"
#include "ops.h"

enum { SWITCH_OFF, REPORT }; /* what it does next */

/* The argument of its event: whom it is about, what comes next, and how it ends. */
static uint32_t pack(unsigned target, unsigned next, bool well)
{
    return target | next << 8 | (uint32_t)well << 16;
}

void sim_prover_start(struct sim_world *w, struct sim_node *n)
{
    const char *holder = n->out.suspect.holder;
    unsigned target = (unsigned)(holder[1] - '0');
    bool ours = holder[0] == 'n' && target < w->plan.nodes; /* or an operator's invention */
    struct sim_rng rng = sim_rng_keyed(w->plan.seed, SIM_RND_PROVER, n->index, ++n->proofs);
    int64_t ttl = n->timing->ttl_ns;
    bool off = !sim_rng_chance(&rng, 20) && ours;
    bool well = off && !sim_rng_chance(&rng, 15);
    int64_t off_ns = sim_rng_span(&rng, 1, sim_rng_chance(&rng, 50) ? ttl / 20 : ttl);
    int64_t report_ns = sim_rng_span(&rng, 1, sim_rng_chance(&rng, 70) ? ttl / 50 : 2 * ttl);

    if (!ours)
        target = 0; /* nobody is switched off */
    else if (target == n->index)
        sim_fail(w, "P1", "n%u switches its own machine off", target);
    if (n->proving)
        sim_fail(w, "P2", "n%u has two commands under way", n->index);
    n->proving = true;
    if (!sim_fault(w, SIM_RND_PROVER, n->index, n->proofs))
        off = well = false;
    sim_say(w, n->index, "suspects %s of being dead", holder);
    if (off)
        sim_at(w, w->now_ns + off_ns, SIM_Q_PROVER, n->index, n->life,
               pack(target, SWITCH_OFF, well));
    sim_at(w, w->now_ns + off_ns + report_ns, SIM_Q_PROVER, n->index, n->life,
           pack(target, REPORT, well));
}

void sim_prover_step(struct sim_world *w, struct sim_node *n, uint32_t life, uint32_t arg)
{
    struct sim_node *target = &w->nodes[arg & 0xff];
    bool well = arg >> 16;

    if ((arg >> 8 & 0xff) == SWITCH_OFF) {
        if (w->quiet)
            return; /* and does not prove anything, see below */
        sim_say(w, target->index, "is switched off");
        n->switched_off |= n->life == life;
        sim_ops_reboot(w, target);
        sim_at(w,
               w->now_ns + 1 +
                   (int64_t)(sim_key(w->plan.seed, SIM_RND_PROVER, n->index,
                                     (uint64_t)n->proofs << 32) %
                             (uint64_t)n->timing->ttl_ns),
               SIM_Q_BOOT, target->index, 0, 0);
        return;
    }
    if (n->life != life)
        return; /* nobody is there to hear of it */
    n->proving = false;
    struct sim_mail mail = {.kind = TN_EV_PROVED,
                            .status = well && n->switched_off ? TENURE_OK : TENURE_UNAVAILABLE};
    n->switched_off = false;
    sim_node_post(w, n, &mail);
}
