/* core/jobs/plan.c - keep what is fair, shed the rest, place what is free, repair. */
#include "core/jobs/plan.h"

#include <string.h>

#include "core/jobs/plan_inner.h"

/* ---- Memory ----------------------------------------------------------- */

static uint32_t leaves_for(uint32_t members)
{
    uint32_t n = 1;

    while (n < members)
        n *= 2;
    return n;
}

static size_t rounded(size_t bytes)
{
    return (bytes + 7) / 8 * 8;
}

size_t tn_plan_scratch_size(const struct tn_plan_input *in)
{
    return rounded(in->member_count * sizeof(struct load)) +
           rounded(in->class_count * sizeof(struct class)) +
           3 * rounded(in->job_count * sizeof(uint32_t)) +
           rounded(2 * (size_t)leaves_for(in->member_count) * sizeof(uint16_t));
}

static void *carve(unsigned char **at, size_t bytes)
{
    void *part = *at;

    *at += rounded(bytes);
    return part;
}

static void lay_out(struct plan *p, void *scratch)
{
    const struct tn_plan_input *in = p->in;
    unsigned char *at = scratch;

    memset(scratch, 0, tn_plan_scratch_size(in));
    p->leaves = leaves_for(in->member_count);
    p->loads = carve(&at, in->member_count * sizeof *p->loads);
    p->classes = carve(&at, in->class_count * sizeof *p->classes);
    p->order = carve(&at, in->job_count * sizeof *p->order);
    p->free = carve(&at, in->job_count * sizeof *p->free);
    p->spare = carve(&at, in->job_count * sizeof *p->spare);
    p->winners = carve(&at, 2 * (size_t)p->leaves * sizeof *p->winners);
}

/* ---- Deficits --------------------------------------------------------- */

static uint16_t winner_of(const struct plan *p, uint16_t a, uint16_t b)
{
    if (a == TN_SLOT_NONE || b == TN_SLOT_NONE)
        return a == TN_SLOT_NONE ? b : a;
    return deficit(p, b) > deficit(p, a) ? b : a;
}

static void play(struct plan *p, uint32_t node)
{
    p->winners[node] = winner_of(p, p->winners[2 * node], p->winners[2 * node + 1]);
}

static void play_all(struct plan *p)
{
    for (uint32_t i = 0; i < p->leaves; i++)
        p->winners[p->leaves + i] = i < p->in->member_count ? (uint16_t)i : TN_SLOT_NONE;
    for (uint32_t node = p->leaves - 1; node > 0; node--)
        play(p, node);
}

/* A member's load has changed. */
static void replay(struct plan *p, uint32_t member)
{
    for (uint32_t node = (p->leaves + member) / 2; node > 0; node /= 2)
        play(p, node);
}

/*
 * The member for a job: fit, with room, a preferred one before the others, the largest deficit
 * first; among equals the one that the job was planned for, then the first.  NONE: there is none.
 */
static uint16_t best_member(const struct plan *p, uint32_t job)
{
    const struct tn_plan_job *j = &p->in->jobs[job];
    uint16_t best = p->winners[1];
    uint8_t best_fit = TN_FIT_NO;

    if (p->classes[j->class].everybody && has_room(p, best, j->weight) &&
        (j->slot == TN_SLOT_NONE || deficit(p, best) > deficit(p, j->slot)))
        return best;
    best = TN_SLOT_NONE;
    for (uint32_t m = 0; m < p->in->member_count; m++) {
        uint8_t fit = fitness(p, job, m);

        if (fit == TN_FIT_NO || fit < best_fit || !has_room(p, m, j->weight))
            continue;
        if (fit > best_fit || deficit(p, m) > deficit(p, best) ||
            (deficit(p, m) == deficit(p, best) && m == j->slot)) {
            best = (uint16_t)m;
            best_fit = fit;
        }
    }
    return best;
}

static void assign(struct plan *p, uint32_t job, uint16_t member)
{
    p->slots[job] = member;
    p->loads[member].has += p->in->jobs[job].weight;
}

static void withdraw(struct plan *p, uint32_t job)
{
    p->loads[p->slots[job]].has -= p->in->jobs[job].weight;
    p->slots[job] = TN_SLOT_NONE;
}

void tn_plan_give(struct plan *p, uint32_t job, uint16_t member)
{
    assign(p, job, member);
    replay(p, member);
}

void tn_plan_move(struct plan *p, uint32_t job, uint16_t member)
{
    uint16_t from = p->slots[job];

    withdraw(p, job);
    replay(p, from);
    tn_plan_give(p, job, member);
}

/* ---- Keep and shed ---------------------------------------------------- */

/* A job stays for as long as its member may run it and, all in all, has no more than its limit. */
static bool may_stay(const struct plan *p, uint32_t job)
{
    uint16_t slot = p->in->jobs[job].slot;

    return slot != TN_SLOT_NONE && fitness(p, job, slot) != TN_FIT_NO &&
           has_room(p, slot, p->in->jobs[job].weight);
}

static void keep_all(struct plan *p)
{
    p->free_count = 0;
    for (uint32_t m = 0; m < p->in->member_count; m++)
        p->loads[m].has = 0;
    for (uint32_t i = 0; i < p->in->job_count; i++) {
        uint32_t job = p->order[i];

        p->slots[job] = TN_SLOT_NONE;
        if (p->in->jobs[job].weight == 0)
            continue;
        if (may_stay(p, job))
            assign(p, job, p->in->jobs[job].slot);
        else
            p->free[p->free_count++] = job;
    }
}

/* What a member has beyond its quota, but for less than one heaviest job. */
static uint64_t excess(const struct plan *p, uint32_t member)
{
    uint64_t most = p->loads[member].quota + p->heaviest - 1;

    return p->loads[member].has > most ? p->loads[member].has - most : 0;
}

/* Each member's part of the moves that are allowed, in weight: its part of the whole excess. */
static bool set_sheds(struct plan *p)
{
    uint64_t whole = 0, allowed = (uint64_t)p->in->moves_max * p->heaviest;

    for (uint32_t m = 0; m < p->in->member_count; m++)
        whole += excess(p, m);
    p->out->cut = whole > allowed;
    for (uint32_t m = 0; m < p->in->member_count; m++) {
        uint64_t most = excess(p, m);

        p->loads[m].shed_max = whole > allowed ? (most * allowed + whole - 1) / whole : most;
    }
    return whole > 0;
}

static void measure_lacks(struct plan *p)
{
    for (uint32_t c = 0; c < p->in->class_count; c++)
        for (uint32_t m = 0; m < p->in->member_count; m++)
            if (p->in->fit[(size_t)c * p->in->member_count + m] != TN_FIT_NO && deficit(p, m) > 0)
                p->classes[c].lacks += (uint64_t)deficit(p, m);
}

static uint64_t less(uint64_t from, uint64_t by)
{
    return by < from ? from - by : 0;
}

/*
 * From the least restricted classes, the highest numbers first; of a class no more than those
 * lack that are fit for it, or members with too much would only swap their jobs.
 */
static void shed(struct plan *p)
{
    measure_lacks(p);
    for (uint32_t i = p->in->job_count; i-- > 0;) {
        uint32_t job = p->order[i], weight = p->in->jobs[job].weight;
        struct class *c = &p->classes[p->in->jobs[job].class];
        struct load *l;

        if (p->slots[job] == TN_SLOT_NONE || c->lacks == 0)
            continue;
        l = &p->loads[p->slots[job]];
        if (l->shed_max == 0)
            continue;
        l->shed_max = less(l->shed_max, weight);
        c->lacks = less(c->lacks, weight);
        withdraw(p, job);
        p->free[p->free_count++] = job;
        p->moves++;
    }
}

/* ---- Place ------------------------------------------------------------ */

static void place(struct plan *p)
{
    tn_plan_sort_free(p);
    for (uint32_t i = 0; i < p->free_count; i++) {
        uint16_t member = best_member(p, p->free[i]);

        if (member == TN_SLOT_NONE)
            continue;
        tn_plan_give(p, p->free[i], member);
    }
}

static void count(struct plan *p)
{
    for (uint32_t i = 0; i < p->in->job_count; i++) {
        uint16_t before = p->in->jobs[i].slot, now = p->slots[i];

        if (p->in->jobs[i].weight == 0)
            continue;
        p->out->unplaced += now == TN_SLOT_NONE;
        p->out->placed += before == TN_SLOT_NONE && now != TN_SLOT_NONE;
        p->out->moved += before != TN_SLOT_NONE && now != before;
    }
}

/* ---- The whole -------------------------------------------------------- */

/* How far the loads are from what is fair: the sum of squares. */
static uint64_t unfairness(const struct plan *p)
{
    uint64_t sum = 0;

    for (uint32_t m = 0; m < p->in->member_count; m++) {
        int64_t off = (int64_t)(p->loads[m].has - p->loads[m].fair);

        sum += (uint64_t)(off * off);
    }
    return sum;
}

static uint32_t count_unplaced(const struct plan *p)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < p->free_count; i++)
        n += p->slots[p->free[i]] == TN_SLOT_NONE;
    return n;
}

/* Fewer jobs without a member, or else fairer. */
static bool is_better(const struct plan *p, uint32_t unplaced_before, uint64_t unfairness_before)
{
    uint32_t unplaced = count_unplaced(p);

    if (unplaced != unplaced_before)
        return unplaced < unplaced_before;
    return unfairness(p) < unfairness_before;
}

/* From what was kept and shed. */
static void finish(struct plan *p)
{
    play_all(p);
    place(p);
    tn_plan_repair(p);
}

/*
 * What is shed must leave fewer jobs without a member, or the loads fairer; otherwise nothing is
 * shed.  So plans that continue one another come to an end: each is better by a measure of the
 * inputs alone.  (The moves of tn_plan_repair() are better by it one by one.)
 */
static void assign_all(struct plan *p)
{
    uint32_t unplaced;
    uint64_t before;

    keep_all(p);
    unplaced = p->free_count;
    before = unfairness(p);
    if (set_sheds(p) && p->in->moves_max > 0) {
        shed(p);
        finish(p);
        if (is_better(p, unplaced, before))
            return;
        keep_all(p);
        p->moves = p->repairs = 0;
        for (uint32_t c = 0; c < p->in->class_count; c++)
            p->classes[c].light = 0;
        p->out->cut = false;
    }
    finish(p);
}

void tn_plan_assign(const struct tn_plan_input *in, void *scratch, uint16_t *slots,
                    struct tn_plan_result *out)
{
    struct plan p = {.in = in, .slots = slots, .out = out, .heaviest = 1};

    assert(in->member_count <= TN_PLAN_MEMBERS_MAX && in->job_count <= TN_PLAN_JOBS_MAX);
    memset(out, 0, sizeof *out);
    lay_out(&p, scratch);
    tn_plan_measure(&p);
    if (in->member_count > 0) {
        tn_plan_set_quotas(&p);
        tn_plan_order_jobs(&p);
        assign_all(&p);
    }
    count(&p);
}

uint32_t tn_plan_tenth(uint32_t job_count)
{
    return job_count < 10 ? 1 : job_count / 10;
}
