/*
 * core/jobs/plan.h - which worker should run which job (JOBS: The plan).
 *
 * The plan is advice: a wrong one cannot make a job run twice, because nobody
 * takes a job from a living member.  A good one is fair, sticky and quick:
 *
 *   fair    every member's load is within one job (by weight: the heaviest) of
 *           its share of the whole, as far as limits and labels allow it;
 *   sticky  a join moves the newcomer's quota, a leave only the leaver's jobs,
 *           and a plan made from its own result moves nothing;
 *   quick   linear in the jobs; a member is found by a tournament tree.
 *
 * The caller has turned labels, pins and unfitness into classes: jobs of one
 * class fit the same members.  Members are those that count (tn_member_counts).
 */
#ifndef TN_CORE_JOBS_PLAN_H
#define TN_CORE_JOBS_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TN_SLOT_NONE        UINT16_MAX /* planned for nobody */
#define TN_PLAN_MEMBERS_MAX 65534u
#define TN_PLAN_JOBS_MAX    1000000u
#define TN_PLAN_WEIGHT_MAX  1000u
#define TN_PLAN_SHARE_MAX   65535u
#define TN_PLAN_REPAIRS_MAX 4096u

/* May this member run a job of this class? */
enum tn_fit { TN_FIT_NO, TN_FIT_YES, TN_FIT_PREFERRED };

struct tn_plan_member {
    uint32_t share; /* 1 .. TN_PLAN_SHARE_MAX: its part of the whole */
    uint32_t limit; /* the most weight that it takes; UINT32_MAX: any */
};

struct tn_plan_job {
    uint32_t weight; /* 1 .. TN_PLAN_WEIGHT_MAX; 0: is not to run, gets no member */
    uint16_t class;
    uint16_t slot; /* the member that it was planned for, if that one still counts, else NONE */
};

struct tn_plan_input {
    const struct tn_plan_member *members;
    const struct tn_plan_job *jobs; /* in the order of their numbers */
    const uint8_t *fit;             /* enum tn_fit of [class * member_count + member] */
    uint32_t member_count;
    uint32_t job_count;
    uint32_t class_count;
    uint32_t moves_max; /* how many jobs may leave a member that counts, for fairness alone */
};

struct tn_plan_result {
    uint32_t moved;    /* left a member that counts */
    uint32_t placed;   /* had none, and got one */
    uint32_t unplaced; /* no member is fit, or all that are fit are full */
    bool cut;          /* moves_max was reached: fairer is possible, plan again */
};

/* How many bytes of scratch memory, aligned for uint64_t, tn_plan_assign() needs. */
size_t tn_plan_scratch_size(const struct tn_plan_input *in);

/* Fill slots[job_count] with the index of a member or TN_SLOT_NONE. */
void tn_plan_assign(const struct tn_plan_input *in, void *scratch, uint16_t *slots,
                    struct tn_plan_result *out);

/*
 * How many jobs a plan that only rebalances may move: a tenth, at least one
 * (JOBS: Damping).
 */
uint32_t tn_plan_tenth(uint32_t job_count);

#endif
