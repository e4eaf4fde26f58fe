/* core/jobs/plan_order.c - in which order jobs are kept, shed and placed. */
#include "core/jobs/plan_inner.h"

static void measure_classes(struct plan *p)
{
    for (uint32_t c = 0; c < p->in->class_count; c++) {
        const uint8_t *fit = p->in->fit + (size_t)c * p->in->member_count;
        uint32_t yes = 0;

        for (uint32_t m = 0; m < p->in->member_count; m++) {
            p->classes[c].fit += fit[m] != TN_FIT_NO;
            yes += fit[m] == TN_FIT_YES;
        }
        p->classes[c].everybody = yes == p->in->member_count;
    }
}

static void measure_jobs(struct plan *p)
{
    for (uint32_t i = 0; i < p->in->job_count; i++) {
        const struct tn_plan_job *j = &p->in->jobs[i];

        assert(j->class < p->in->class_count && j->weight <= TN_PLAN_WEIGHT_MAX);
        assert(j->slot == TN_SLOT_NONE || j->slot < p->in->member_count);
        p->slots[i] = TN_SLOT_NONE;
        p->total += j->weight;
        if (j->weight > p->heaviest)
            p->heaviest = j->weight;
        if (j->slot != TN_SLOT_NONE)
            p->loads[j->slot].has += j->weight;
        p->classes[j->class].first++;
    }
}

void tn_plan_measure(struct plan *p)
{
    measure_classes(p);
    measure_jobs(p);
}

/*
 * Turn the counts of jobs in `first` into beginnings: classes with fewer fit members come first.
 * Quadratic in the classes, of which there are few.
 */
static void order_classes(struct plan *p)
{
    uint32_t at = 0;

    for (uint32_t placed = 0; placed < p->in->class_count; placed++) {
        struct class *next = NULL;

        for (uint32_t c = 0; c < p->in->class_count; c++) {
            struct class *candidate = &p->classes[c];

            if (candidate->light == 0 && (next == NULL || candidate->fit < next->fit))
                next = candidate;
        }
        next->light = 1;
        at += next->first;
        next->first = at - next->first;
    }
}

void tn_plan_order_jobs(struct plan *p)
{
    order_classes(p);
    for (uint32_t i = 0; i < p->in->job_count; i++)
        p->order[p->classes[p->in->jobs[i].class].first++] = i;
    for (uint32_t c = 0; c < p->in->class_count; c++)
        p->classes[c].light = 0;
}

/* One stable pass of a radix sort: by eight bits of a key, ascending. */
static void sort_pass(struct plan *p, uint32_t (*key)(const struct plan *, uint32_t),
                      unsigned shift)
{
    uint32_t start[257] = {0};
    uint32_t *from = p->free;

    for (uint32_t i = 0; i < p->free_count; i++)
        start[(key(p, from[i]) >> shift & 255) + 1]++;
    for (unsigned b = 0; b < 256; b++)
        start[b + 1] += start[b];
    for (uint32_t i = 0; i < p->free_count; i++)
        p->spare[start[key(p, from[i]) >> shift & 255]++] = from[i];
    p->free = p->spare;
    p->spare = from;
}

static uint32_t key_number(const struct plan *p, uint32_t job)
{
    (void)p;
    return job;
}

static uint32_t key_weight(const struct plan *p, uint32_t job)
{
    return p->heaviest - p->in->jobs[job].weight;
}

static uint32_t key_fit(const struct plan *p, uint32_t job)
{
    return p->classes[p->in->jobs[job].class].fit;
}

/* Only as many passes as the largest key has bytes. */
static void sort_by(struct plan *p, uint32_t (*key)(const struct plan *, uint32_t), uint32_t most)
{
    assert(most < 1u << 24);
    for (unsigned shift = 0; most >> shift > 0; shift += 8)
        sort_pass(p, key, shift);
}

void tn_plan_sort_free(struct plan *p)
{
    sort_by(p, key_number, p->in->job_count);
    sort_by(p, key_weight, p->heaviest - 1);
    if (p->in->class_count > 1)
        sort_by(p, key_fit, p->in->member_count);
}
