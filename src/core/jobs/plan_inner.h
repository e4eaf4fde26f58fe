/* core/jobs/plan_inner.h - a plan in the making, for the files plan*.c. */
#ifndef TN_CORE_JOBS_PLAN_INNER_H
#define TN_CORE_JOBS_PLAN_INNER_H

#include <assert.h>

#include "core/jobs/plan.h"

/* A member while the plan is made. */
struct load {
    uint64_t fair;  /* by the inputs alone, rounded down */
    uint64_t quota; /* ... and one more, for some: the load that it gets */
    uint64_t has;
    uint64_t shed_max; /* how much it may shed in this plan */
};

struct class
{
    uint32_t fit;       /* how many members are fit */
    uint32_t first;     /* where its jobs begin in the order */
    uint32_t light;     /* the lightest job that repairing could not place; 0: none yet */
    uint64_t lacks;     /* what the members that are fit lack, before anything is shed */
    bool everybody : 1; /* all members fit, none is preferred */
};

struct plan {
    const struct tn_plan_input *in;
    uint16_t *slots;
    struct tn_plan_result *out;
    struct load *loads;
    struct class *classes;
    uint32_t *order;   /* jobs, those of the most restricted classes first, then by number */
    uint32_t *free;    /* jobs without a member */
    uint32_t *spare;   /* for sorting */
    uint16_t *winners; /* a tournament of deficits: winners[1] is the largest */
    uint32_t leaves;   /* a power of two */
    uint32_t free_count;
    uint32_t repairs;
    uint32_t moves; /* for fairness alone */
    uint64_t total;
    uint32_t heaviest;
};

/* How much a member lacks; below 0: how much it has too much. */
static inline int64_t deficit(const struct plan *p, uint32_t member)
{
    return (int64_t)(p->loads[member].quota - p->loads[member].has);
}

static inline uint8_t fitness(const struct plan *p, uint32_t job, uint32_t member)
{
    return p->in->fit[(size_t)p->in->jobs[job].class * p->in->member_count + member];
}

static inline bool has_room(const struct plan *p, uint32_t member, uint32_t weight)
{
    return p->loads[member].has + weight <= p->in->members[member].limit;
}

/* plan.c: give a job without a member one, or another one. */
void tn_plan_give(struct plan *p, uint32_t job, uint16_t member);
void tn_plan_move(struct plan *p, uint32_t job, uint16_t member);

/* plan_quota.c: before this, has is what each member was planned for. */
void tn_plan_set_quotas(struct plan *p);

/* plan_order.c */
void tn_plan_measure(struct plan *p);
void tn_plan_order_jobs(struct plan *p); /* restricted classes first, then by number */
void tn_plan_sort_free(struct plan *p);  /* restricted first, then the heaviest, then by number */

/* plan_repair.c */
void tn_plan_repair(struct plan *p);

#endif
