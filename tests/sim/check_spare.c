/*
 * I1 where the record went back: lost, restored, or no longer to be understood.
 *
 * Exclusion over that is not promised to everybody, because a candidate may never have heard of
 * the holder.  But one that has read the holder's record, and then sees it gone, gives the holder
 * the time that it had: it starts nothing while that one acts.
 *
 * Not judged: a holder that renewed after that look (the record came back to it, and went
 * again), or that had raised its ttl, which the candidate cannot know; what an operator wrote.
 */
#include <string.h>

#include "body.h"
#include "check.h"

static bool is_usable(const struct sim_value *v)
{
    return v->has_record && !v->corrupt && tn_lease_sane(&v->lease);
}

/* Gone, erased, unusable, or older than what was known. */
static bool went_back(const struct sim_value *v, const struct sim_known *k)
{
    return tenure_token_absent(&v->token) || v->tombstone || !is_usable(v) ||
           v->lease.epoch < k->epoch;
}

/* What this look says about a holder that was known before. */
static void look_for(const struct sim_node *n, struct sim_known *k, const struct sim_value *v)
{
    if (tenure_token_equal(&v->token, &k->token))
        return; /* the same token is the same value, also if its bytes have rotted since */
    if (went_back(v, k))
        k->lost_ns = k->lost_ns ? k->lost_ns : n->facts.request_ns;
    else if (k->lost_ns == 0 ||
             memcmp(v->lease.incarnation, k->incarnation, TENURE_NONCE_SIZE) == 0)
        k->serial = 0; /* somebody later; or there it is, has released, or claimed again */
}

void sim_check_looked(struct sim_world *w, struct sim_node *n)
{
    const struct sim_value *v = &n->req.seen;
    struct sim_facts *f = &n->facts;

    (void)w;
    for (unsigned i = 0; i < SIM_KNOWN_MAX; i++) {
        if (f->known[i].serial != 0)
            look_for(n, &f->known[i], v);
    }
    if (!is_usable(v) || v->tombstone || !tn_lease_held(&v->lease) || v->serial == 0 ||
        memcmp(v->lease.incarnation, n->elector.cfg.incarnation, TENURE_NONCE_SIZE) == 0)
        return;
    struct sim_known *k = &f->known[f->n_known++ % SIM_KNOWN_MAX];
    *k = (struct sim_known){
        .token = v->token, .serial = v->serial, .ttl_ms = v->lease.ttl_ms, .epoch = v->lease.epoch};
    memcpy(k->incarnation, v->lease.incarnation, TENURE_NONCE_SIZE);
}

static bool spares(const struct sim_world *w, const struct sim_node *n, uint32_t serial)
{
    const struct sim_grant *g = &w->grants[serial % SIM_GRANTS_MAX];

    for (unsigned i = 0; i < SIM_KNOWN_MAX; i++) {
        const struct sim_known *k = &n->facts.known[i];

        if (k->serial == serial && k->lost_ns != 0 && g->serial == serial &&
            g->applied_ns <= k->lost_ns && g->ttl_ms <= k->ttl_ms)
            return true;
    }
    return false;
}

/* Whatever befell the record; for all else that exclusion is not promised over, see there. */
static bool counts(const struct sim_world *w, const struct sim_node *n)
{
    return sim_body_acts(w, n) && !sim_exempt(w, n, UINT32_MAX, n->facts.claim_no);
}

void sim_check_spared(struct sim_world *w, struct sim_node *n)
{
    if (!w->plan.family->keeps || !counts(w, n))
        return;
    for (unsigned i = 0; i < w->plan.nodes; i++) {
        const struct sim_node *m = &w->nodes[i];

        if (i != n->index && m->facts.serial > w->edited_serial && counts(w, m) &&
            spares(w, n, m->facts.serial))
            sim_fail(w, "I1", "n%u acts beside n%u, whose record it saw go back", n->index, i);
    }
}
