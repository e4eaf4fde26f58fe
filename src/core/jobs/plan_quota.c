/* core/jobs/plan_quota.c - the load that is fair for each member. */
#include "core/jobs/plan_inner.h"

/*
 * Water filling: the load goes out by share; a member whose limit is below its part takes its
 * limit, and the others share what it leaves.  Returns what is left for those without a quota.
 */
static uint64_t fill_limited(struct plan *p, uint64_t *shares)
{
    const struct tn_plan_member *members = p->in->members;
    uint64_t left = p->total;
    bool again = true;

    while (again) {
        uint64_t level = left, all = *shares;

        again = false;
        for (uint32_t m = 0; m < p->in->member_count; m++) {
            if (p->loads[m].quota != UINT64_MAX ||
                members[m].limit * all >= level * members[m].share)
                continue;
            p->loads[m].quota = members[m].limit;
            left -= members[m].limit;
            *shares -= members[m].share;
            again = true;
        }
    }
    return left;
}

/* The units that whole numbers leave over, one each: first to those that hold more already. */
static void hand_out(struct plan *p, uint64_t rest, bool to_holders)
{
    for (uint32_t m = 0; m < p->in->member_count && rest > 0; m++) {
        struct load *l = &p->loads[m];

        if (l->shed_max == 0 || l->quota == p->in->members[m].limit ||
            (l->has > l->quota) != to_holders)
            continue;
        l->quota++;
        l->shed_max = 0;
        rest--;
    }
    if (to_holders)
        hand_out(p, rest, false);
}

/* shed_max marks those that share what whole numbers leave over. */
void tn_plan_set_quotas(struct plan *p)
{
    uint64_t shares = 0, left, rest;

    for (uint32_t m = 0; m < p->in->member_count; m++) {
        assert(p->in->members[m].share >= 1 && p->in->members[m].share <= TN_PLAN_SHARE_MAX);
        shares += p->in->members[m].share;
        p->loads[m].quota = UINT64_MAX;
    }
    left = rest = fill_limited(p, &shares);
    for (uint32_t m = 0; m < p->in->member_count; m++) {
        struct load *l = &p->loads[m];

        if (l->quota != UINT64_MAX)
            continue;
        l->quota = left * p->in->members[m].share / shares;
        l->shed_max = 1;
        rest -= l->quota;
    }
    for (uint32_t m = 0; m < p->in->member_count; m++)
        p->loads[m].fair = p->loads[m].quota;
    if (shares > 0)
        hand_out(p, rest, true);
}
