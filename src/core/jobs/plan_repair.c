/* core/jobs/plan_repair.c - what keeping and placing leave wrong, by single moves. */
#include "core/jobs/plan_inner.h"

/* Could `job` leave its member for another, so that `weight` fits there? */
static bool make_room(struct plan *p, uint32_t job, uint32_t weight)
{
    uint16_t from = p->slots[job];
    uint64_t limit = p->in->members[from].limit;

    if (p->loads[from].has - p->in->jobs[job].weight + weight > limit)
        return false;
    for (uint32_t m = 0; m < p->in->member_count; m++) {
        if (m == from || fitness(p, job, m) == TN_FIT_NO ||
            !has_room(p, m, p->in->jobs[job].weight))
            continue;
        tn_plan_move(p, job, (uint16_t)m);
        return true;
    }
    return false;
}

/* Every member that is fit for `job` is full: one of their jobs goes elsewhere. */
static bool displace(struct plan *p, uint32_t job)
{
    uint32_t weight = p->in->jobs[job].weight;

    for (uint32_t i = p->in->job_count; i-- > 0;) {
        uint32_t other = p->order[i];
        uint16_t member = p->slots[other];

        if (member == TN_SLOT_NONE || fitness(p, job, member) == TN_FIT_NO ||
            !make_room(p, other, weight))
            continue;
        tn_plan_give(p, job, member);
        return true;
    }
    return false;
}

/* A class whose job of this weight could not be placed is not tried again with one as heavy. */
static void repair_unplaced(struct plan *p)
{
    for (uint32_t i = 0; i < p->free_count && p->repairs < TN_PLAN_REPAIRS_MAX; i++) {
        uint32_t job = p->free[i], weight = p->in->jobs[job].weight;
        struct class *c = &p->classes[p->in->jobs[job].class];

        if (p->slots[job] != TN_SLOT_NONE || c->fit == 0 || (c->light > 0 && weight >= c->light))
            continue;
        if (displace(p, job))
            p->repairs++;
        else
            c->light = weight;
    }
}

/* The fit member with the largest deficit, if that is as much as any job: then it has room. */
static uint16_t better_member(const struct plan *p, uint32_t job)
{
    uint16_t from = p->slots[job], best = TN_SLOT_NONE;
    uint8_t least = fitness(p, job, from);

    for (uint32_t m = 0; m < p->in->member_count; m++) {
        if (deficit(p, m) < (int64_t)p->heaviest || fitness(p, job, m) < least)
            continue;
        if (best == TN_SLOT_NONE || deficit(p, m) > deficit(p, best))
            best = (uint16_t)m;
    }
    return best;
}

/* While a member lacks as much as the heaviest job, those with too much give. */
static void repair_balance(struct plan *p)
{
    for (uint32_t i = p->in->job_count; i-- > 0 && p->repairs < TN_PLAN_REPAIRS_MAX;) {
        uint32_t job = p->order[i];
        uint16_t to;

        if (deficit(p, p->winners[1]) < (int64_t)p->heaviest)
            return;
        if (p->slots[job] == TN_SLOT_NONE || deficit(p, p->slots[job]) >= 0)
            continue;
        to = better_member(p, job);
        if (to == TN_SLOT_NONE)
            continue;
        if (p->moves >= p->in->moves_max) {
            p->out->cut = true;
            return;
        }
        tn_plan_move(p, job, to);
        p->repairs++;
        p->moves++;
    }
}

void tn_plan_repair(struct plan *p)
{
    repair_unplaced(p);
    repair_balance(p);
}
