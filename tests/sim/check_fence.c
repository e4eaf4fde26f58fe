/*
 * I3: once a document has accepted (epoch, grant), no write with a lower one
 * takes effect, nor one with an equal epoch and another grant.
 * I4: sealed, then read: what a leader starts with is what it sealed, and holds
 * every commit that was acknowledged before.
 *
 * Both hold over everything, also where exclusion does not.
 */
#include <string.h>

#include "check.h"
#include "check_docs.h"

void sim_check_doc(struct sim_world *w, unsigned doc, const struct sim_doc *value,
                   const struct sim_doc *before, uint64_t expect_version, uint64_t expect_nonce)
{
    struct sim_state *s = &w->state;
    uint64_t top = s->top_epoch[doc];

    if (before->version != expect_version || before->nonce != expect_nonce)
        sim_fail(w, "I5", "a commit to document %u took effect on a version it had not seen", doc);
    if (value->epoch < top)
        sim_fail(w, "I3", "document %u accepted epoch %llu after %llu", doc,
                 (unsigned long long)value->epoch, (unsigned long long)top);
    if (value->epoch == top && memcmp(value->grant, s->top_grant[doc], TENURE_NONCE_SIZE) != 0)
        sim_fail(w, "I3", "document %u accepted two grants of epoch %llu", doc,
                 (unsigned long long)top);
    s->top_epoch[doc] = value->epoch;
    memcpy(s->top_grant[doc], value->grant, TENURE_NONCE_SIZE);
}

void sim_check_loaded(struct sim_world *w, struct sim_node *n)
{
    const struct sim_state *s = &w->state;

    if (w->plan.product)
        sim_check_term(w, n->index, n->out.epoch);
    if (!w->plan.commits || w->plan.product)
        return;
    for (unsigned i = 0; i < (w->plan.files ? 1 : SIM_DOCS); i++) {
        if (!w->plan.files && s->top_epoch[i] < n->out.epoch)
            sim_fail(w, "I4", "n%u starts with document %u not sealed", n->index, i);
        if (s->acked_epoch[i] < n->out.epoch && n->saver.data[i] < s->acked_data[i])
            sim_fail(w, "I4", "n%u starts with %llu commits of document %u; %llu were acknowledged",
                     n->index, (unsigned long long)n->saver.data[i], i,
                     (unsigned long long)s->acked_data[i]);
    }
}
