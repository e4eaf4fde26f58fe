/* I2: epochs strictly increase, one per grant, within 1 .. 2^53 - 1. */
#include <string.h>

#include "check.h"

static struct sim_grant *find(struct sim_world *w, const uint8_t *grant)
{
    unsigned have = w->n_grants < SIM_GRANTS_MAX ? w->n_grants : SIM_GRANTS_MAX;

    for (unsigned i = 0; i < have; i++) {
        struct sim_grant *g = &w->grants[(w->n_grants - i) % SIM_GRANTS_MAX];

        if (memcmp(g->grant, grant, TENURE_NONCE_SIZE) == 0)
            return g;
    }
    return NULL;
}

bool sim_check_used(struct sim_world *w, const uint8_t grant[TENURE_NONCE_SIZE])
{
    const struct sim_grant *g = find(w, grant);

    return g && g->used && g->serial > w->exempt_serial;
}

void sim_check_won(struct sim_world *w, struct sim_node *n)
{
    struct sim_grant *g = find(w, n->out.grant);

    if (!g) {
        sim_fail(w, "I6", "n%u won a grant that was never made in the store", n->index);
        return;
    }
    if (g->used)
        sim_fail(w, "I2", "n%u won grant %u a second time: one epoch, two terms", n->index,
                 g->serial);
    if (g->node != n->index)
        sim_fail(w, "I2", "n%u won a grant of n%u", n->index, g->node);
    if (g->epoch != n->out.epoch)
        sim_fail(w, "I2", "n%u won epoch %llu, the store granted %llu", n->index,
                 (unsigned long long)n->out.epoch, (unsigned long long)g->epoch);
    g->used = true;
    n->facts.serial = g->serial;
    n->facts.claim_no = g->claim_no;
    n->facts.ordered = n->facts.unsealed_final = false;
    n->facts.seal_by_ns = n->elector.now_ns + n->elector.cfg.timing.ttl_ns;
}

/* A term has an epoch above that of every grant before it, also of those whose tombstone was
 * deleted.
 */
void sim_check_begun(struct sim_world *w, struct sim_node *n)
{
    const struct sim_grant *g = find(w, n->out.grant);

    if (g && w->plan.family->keeps && n->out.epoch <= g->above)
        sim_fail(w, "I2", "n%u begins a term with epoch %llu after %llu", n->index,
                 (unsigned long long)n->out.epoch, (unsigned long long)g->above);
}

/* A claim that was on its way while a tombstone was deleted may land in its place, even for the
 * second time; what must not follow from it is a term. */
void sim_check_granted(struct sim_world *w, const struct sim_msg *msg,
                       const struct sim_value *before)
{
    uint64_t epoch = msg->record.epoch;

    if (epoch < 1 || epoch > TN_EPOCH_MAX)
        sim_fail(w, "I2", "n%u was granted epoch %llu, out of range", msg->node,
                 (unsigned long long)epoch);
    if (before->has_record && !before->corrupt && epoch <= before->lease.epoch)
        sim_fail(w, "I2", "n%u was granted epoch %llu over %llu", msg->node,
                 (unsigned long long)epoch, (unsigned long long)before->lease.epoch);
    if (w->plan.family->keeps && epoch <= w->age_epoch)
        sim_fail(w, "I2", "n%u was granted epoch %llu after %llu", msg->node,
                 (unsigned long long)epoch, (unsigned long long)w->age_epoch);
    const struct sim_grant *same = find(w, msg->record.grant);
    if (same && same->serial > w->exempt_serial &&
        same->age == w->store.age) /* a restored record may be claimed again */
        sim_fail(w, "I2", "n%u used the name of a grant twice", msg->node);
    w->age_epoch = epoch > w->age_epoch ? epoch : w->age_epoch;
    w->top_epoch = epoch > w->top_epoch ? epoch : w->top_epoch;
}
