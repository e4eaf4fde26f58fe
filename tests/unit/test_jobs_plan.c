/* The plan of jobs: fair, sticky, within limits and labels, and what it says of the rest. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/jobs/plan.h"

#define MEMBERS 70
#define JOBS    9000 /* more than twice TN_PLAN_REPAIRS_MAX */
#define DRAWN   1200
#define CLASSES 6

/* A group: what the plan is made from, and the plan. */
struct group {
    struct tn_plan_member members[MEMBERS];
    struct tn_plan_job jobs[JOBS];
    uint8_t fit[CLASSES * MEMBERS];
    struct tn_plan_input in;
    struct tn_plan_result out;
    uint16_t slots[JOBS];
};

static void make(struct group *g, uint32_t members, uint32_t jobs, uint32_t classes)
{
    memset(g, 0, sizeof *g);
    memset(g->fit, TN_FIT_YES, sizeof g->fit);
    for (uint32_t i = 0; i < MEMBERS; i++)
        g->members[i] = (struct tn_plan_member){.share = 1, .limit = UINT32_MAX};
    for (uint32_t i = 0; i < JOBS; i++)
        g->jobs[i] = (struct tn_plan_job){.weight = 1, .slot = TN_SLOT_NONE};
    g->in = (struct tn_plan_input){.members = g->members,
                                   .jobs = g->jobs,
                                   .fit = g->fit,
                                   .member_count = members,
                                   .job_count = jobs,
                                   .class_count = classes,
                                   .moves_max = UINT32_MAX};
}

static void plan(struct group *g)
{
    void *scratch = malloc(tn_plan_scratch_size(&g->in));

    assert_non_null(scratch);
    tn_plan_assign(&g->in, scratch, g->slots, &g->out);
    free(scratch);
}

/* The plan becomes what the next one is made from. */
static void apply(struct group *g)
{
    for (uint32_t i = 0; i < g->in.job_count; i++)
        g->jobs[i].slot = g->slots[i];
}

static uint64_t load(const struct group *g, uint32_t member)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < g->in.job_count; i++)
        sum += g->slots[i] == member ? g->jobs[i].weight : 0;
    return sum;
}

static uint8_t fitness(const struct group *g, uint32_t job)
{
    return g->fit[g->jobs[job].class * g->in.member_count + g->slots[job]];
}

/* A member goes: its jobs are planned for nobody, and those behind it move up. */
static void leave(struct group *g, uint32_t member)
{
    for (uint32_t i = 0; i < g->in.job_count; i++) {
        uint16_t *slot = &g->jobs[i].slot;

        if (*slot == member)
            *slot = TN_SLOT_NONE;
        else if (*slot != TN_SLOT_NONE && *slot > member)
            --*slot;
    }
    g->in.member_count--;
}

static void test_nobody_and_nothing(void **unused)
{
    static struct group g;

    (void)unused;
    make(&g, 0, 3, 1);
    plan(&g);
    assert_int_equal(g.out.unplaced, 3);
    assert_int_equal(g.slots[0], TN_SLOT_NONE);
    make(&g, 2, 0, 1);
    plan(&g);
    assert_int_equal(g.out.unplaced + g.out.placed + g.out.moved, 0);
}

static void test_a_first_plan_is_even(void **unused)
{
    static struct group g;

    (void)unused;
    make(&g, 7, 100, 1);
    plan(&g);
    assert_int_equal(g.out.placed, 100);
    for (uint32_t m = 0; m < 7; m++)
        assert_in_range(load(&g, m), 14, 15);
}

static void test_its_own_result_moves_nothing(void **unused)
{
    static struct group g;

    (void)unused;
    make(&g, 7, 100, 1);
    plan(&g);
    apply(&g);
    plan(&g);
    assert_int_equal(g.out.moved + g.out.placed, 0);
    assert_false(g.out.cut);
}

static void test_a_join_moves_its_quota(void **unused)
{
    static struct group g;

    (void)unused;
    make(&g, 10, 1000, 1);
    plan(&g);
    apply(&g);
    g.in.member_count = 11;
    plan(&g);
    assert_int_equal(load(&g, 10), 90);
    assert_int_equal(g.out.moved, 90);
}

static void test_a_leave_moves_only_the_leavers(void **unused)
{
    static struct group g;

    (void)unused;
    make(&g, 10, 1000, 1);
    plan(&g);
    apply(&g);
    leave(&g, 4);
    plan(&g);
    assert_int_equal(g.out.moved, 0);
    assert_int_equal(g.out.placed, 100);
    for (uint32_t m = 0; m < 9; m++)
        assert_in_range(load(&g, m), 111, 112);
}

static void test_only_so_many_moves(void **unused)
{
    static struct group g;
    unsigned rounds = 0;

    (void)unused;
    make(&g, 1, 1000, 1);
    plan(&g);
    apply(&g);
    g.in.member_count = 4;
    g.in.moves_max = tn_plan_tenth(1000);
    do {
        plan(&g);
        assert_in_range(g.out.moved, 1, 100);
        apply(&g);
        rounds++;
    } while (g.out.cut);
    assert_int_equal(rounds, 8);
    for (uint32_t m = 0; m < 4; m++)
        assert_int_equal(load(&g, m), 250);
    assert_int_equal(tn_plan_tenth(9), 1);
}

static void test_shares_and_limits(void **unused)
{
    static struct group g;

    (void)unused;
    make(&g, 4, 100, 1);
    g.members[0].share = 3;
    g.members[1].limit = 4;
    plan(&g);
    /* 4 are limited; 96 go out as 3 : 1 : 1. */
    assert_int_equal(load(&g, 1), 4);
    assert_in_range(load(&g, 0), 57, 58);
    assert_in_range(load(&g, 2), 19, 20);
    assert_in_range(load(&g, 3), 19, 20);
}

static void test_more_than_everybody_takes(void **unused)
{
    static struct group g;

    (void)unused;
    make(&g, 2, 10, 1);
    g.members[0].limit = 3;
    g.members[1].limit = 4;
    plan(&g);
    assert_int_equal(load(&g, 0), 3);
    assert_int_equal(load(&g, 1), 4);
    assert_int_equal(g.out.unplaced, 3);
    /* A limit that falls below what its member has is kept at once. */
    apply(&g);
    g.members[1].limit = 2;
    plan(&g);
    assert_int_equal(load(&g, 1), 2);
    assert_int_equal(g.out.moved, 2);
    assert_int_equal(g.out.unplaced, 5);
}

/* A limit that is just its part is not exceeded by the unit that is left over. */
static void test_a_limit_that_is_just_the_part(void **unused)
{
    static struct group g;

    (void)unused;
    make(&g, 3, 11, 1);
    g.members[0].share = 2;
    g.members[0].limit = 5;
    plan(&g);
    assert_int_equal(load(&g, 0), 5);
    assert_in_range(load(&g, 1), 3, 3);
    g.in.job_count = 10;
    plan(&g);
    assert_int_equal(load(&g, 0), 5);
    assert_int_equal(load(&g, 1), 3);
}

static void test_labels(void **unused)
{
    static struct group g;

    (void)unused;
    make(&g, 3, 30, 3);
    for (uint32_t i = 0; i < 30; i++)
        g.jobs[i].class = (uint16_t)(i % 3);
    memset(g.fit + 3, TN_FIT_NO, 3); /* class 1: nobody */
    g.fit[6] = TN_FIT_NO;            /* class 2: not the first, rather the last */
    g.fit[8] = TN_FIT_PREFERRED;
    plan(&g);
    assert_int_equal(g.out.unplaced, 10);
    for (uint32_t i = 0; i < 30; i++) {
        if (i % 3 == 1)
            assert_int_equal(g.slots[i], TN_SLOT_NONE);
        if (i % 3 == 2)
            assert_int_equal(g.slots[i], 2);
    }
    /* A job whose member is no longer fit for it goes. */
    apply(&g);
    g.fit[8] = TN_FIT_NO;
    plan(&g);
    assert_int_equal(g.out.moved, 15); /* and five others make room for them */
    assert_int_equal(load(&g, 1), 10);
}

/* The restricted are placed first, and the others give way to them. */
static void test_the_restricted_come_first(void **unused)
{
    static struct group g;

    (void)unused;
    make(&g, 2, 20, 2);
    for (uint32_t i = 10; i < 20; i++)
        g.jobs[i].class = 1;
    g.fit[2] = TN_FIT_NO; /* class 1: the second only */
    for (uint32_t i = 0; i < 20; i++)
        g.jobs[i].slot = 1;
    plan(&g);
    assert_int_equal(load(&g, 0), 10);
    assert_int_equal(g.out.moved, 10);
}

static void test_a_full_member_makes_room(void **unused)
{
    static struct group g;

    (void)unused;
    /* Class 1 fits the first only, which is full of what fits the second as well. */
    make(&g, 2, 6, 2);
    g.members[0].limit = 3;
    g.members[1].limit = 4;
    g.fit[3] = TN_FIT_NO;
    for (uint32_t i = 0; i < 3; i++)
        g.jobs[i].slot = 0;
    g.jobs[3].class = g.jobs[4].class = 1;
    g.jobs[5].slot = 1;
    plan(&g);
    assert_int_equal(g.out.unplaced, 0);
    assert_int_equal(g.slots[3], 0);
    assert_int_equal(g.slots[4], 0);
    assert_int_equal(load(&g, 0), 3);
    /* And where nobody can give way, it says so. */
    g.members[1].limit = 1;
    plan(&g);
    assert_int_equal(g.out.unplaced, 2);
}

/* One that goes must leave enough room, be fit elsewhere, and find room there. */
static void test_nobody_can_make_room(void **unused)
{
    static struct group g;

    (void)unused;
    make(&g, 2, 5, 3);
    g.members[0].limit = 3;
    g.members[1].limit = 1;
    g.fit[3] = TN_FIT_NO;            /* class 1: the first only */
    memset(g.fit + 4, TN_FIT_NO, 2); /* class 2: nobody */
    g.jobs[0] = (struct tn_plan_job){.weight = 1, .class = 1, .slot = 0};
    g.jobs[1] = (struct tn_plan_job){.weight = 2, .class = 0, .slot = 0};
    g.jobs[2] = (struct tn_plan_job){.weight = 3, .class = 1, .slot = TN_SLOT_NONE};
    g.jobs[3] = (struct tn_plan_job){.weight = 1, .class = 1, .slot = TN_SLOT_NONE};
    g.jobs[4] = (struct tn_plan_job){.weight = 1, .class = 2, .slot = TN_SLOT_NONE};
    plan(&g);
    assert_int_equal(g.slots[2], TN_SLOT_NONE);
    assert_int_equal(g.slots[3], TN_SLOT_NONE);
    assert_int_equal(g.slots[4], TN_SLOT_NONE);
    /* A lighter one of the same class is tried, and finds its place. */
    g.jobs[1].weight = 1;
    g.jobs[3].weight = 2;
    plan(&g);
    assert_int_equal(g.slots[1], 1);
    assert_int_equal(g.slots[3], 0);
}

/* So many repairs a plan, and no more: both kinds. */
static void test_repairs_are_bounded(void **unused)
{
    static struct group g;
    uint32_t half = 4200;

    (void)unused;
    make(&g, 2, 2 * half, 2);
    g.members[0].limit = half;
    g.fit[3] = TN_FIT_NO;
    for (uint32_t i = 0; i < half; i++) {
        g.jobs[i].slot = 0;
        g.jobs[half + i].class = 1;
    }
    g.in.moves_max = 0;
    plan(&g);
    assert_int_equal(g.out.unplaced, half - TN_PLAN_REPAIRS_MAX);
}

static void test_weights(void **unused)
{
    static struct group g;

    (void)unused;
    make(&g, 3, 30, 1);
    for (uint32_t i = 0; i < 30; i++)
        g.jobs[i].weight = i % 10 + 1;
    g.jobs[7].weight = 0;
    plan(&g);
    assert_int_equal(g.slots[7], TN_SLOT_NONE);
    assert_int_equal(g.out.unplaced, 0);
    for (uint32_t m = 0; m < 3; m++)
        assert_in_range(load(&g, m), 157 / 3 - 9, 157 / 3 + 10);
}

/* As short as the member that the job comes from, but with room. */
static void test_equal_deficits(void **unused)
{
    static struct group g;

    (void)unused;
    make(&g, 2, 3, 1);
    g.members[1].limit = 11;
    g.jobs[0] = (struct tn_plan_job){.weight = 8, .slot = 1};
    g.jobs[1] = (struct tn_plan_job){.weight = 4, .slot = 1};
    g.jobs[2] = (struct tn_plan_job){.weight = 8, .slot = 0};
    plan(&g);
    assert_int_equal(g.slots[1], 0);
    assert_int_equal(g.out.moved, 1);
}

/* Many that are a little over, by less than the heaviest, and one with nothing. */
static void test_many_small_excesses(void **unused)
{
    static struct group g;

    (void)unused;
    make(&g, 12, 12 * 10, 1);
    g.jobs[0].weight = 3;
    for (uint32_t i = 0; i < 120; i++)
        g.jobs[i].slot = (uint16_t)(i % 11);
    g.in.moves_max = 3;
    plan(&g);
    assert_true(g.out.cut);
    assert_in_range(g.out.moved, 1, 3);
    g.in.moves_max = UINT32_MAX;
    plan(&g);
    assert_false(g.out.cut);
    assert_true(load(&g, 11) + 3 > 122 / 12);
}

/* ---- Whatever comes ------------------------------------------------------ */

static uint64_t state;

static uint32_t draw(uint32_t below)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(state >> 33) % below;
}

static void draw_group(struct group *g)
{
    bool labels = draw(2), limits = draw(3) == 0;
    uint32_t weight = draw(2) ? 1 : 1 + draw(TN_PLAN_WEIGHT_MAX);

    make(g, 1 + draw(MEMBERS), 1 + draw(DRAWN), labels ? 1 + draw(CLASSES) : 1);
    for (uint32_t m = 0; m < g->in.member_count; m++) {
        g->members[m].share = draw(4) ? 1 : 1 + draw(5);
        if (limits && draw(2))
            g->members[m].limit = draw(2 * weight * g->in.job_count / g->in.member_count + 2);
    }
    for (uint32_t i = 0; labels && i < g->in.class_count * g->in.member_count; i++)
        g->fit[i] = (uint8_t)(draw(4) ? TN_FIT_YES : draw(3));
    for (uint32_t i = 0; i < g->in.job_count; i++) {
        g->jobs[i].weight = draw(20) ? 1 + draw(weight) : 0;
        g->jobs[i].class = (uint16_t)draw(g->in.class_count);
        g->jobs[i].slot = (uint16_t)(draw(3) ? draw(g->in.member_count) : TN_SLOT_NONE);
    }
    if (draw(2))
        g->in.moves_max = draw(g->in.job_count);
}

/* What holds for every plan: limits and labels; a job with a fit member that has room has one. */
static void check_rules(const struct group *g)
{
    uint64_t loads[MEMBERS];
    uint32_t unplaced = 0, moved = 0;

    for (uint32_t m = 0; m < g->in.member_count; m++) {
        loads[m] = load(g, m);
        assert_true(loads[m] <= g->members[m].limit);
    }
    for (uint32_t i = 0; i < g->in.job_count; i++) {
        const struct tn_plan_job *j = &g->jobs[i];

        if (j->weight == 0) {
            assert_int_equal(g->slots[i], TN_SLOT_NONE);
            continue;
        }
        moved += j->slot != TN_SLOT_NONE && g->slots[i] != j->slot;
        if (g->slots[i] != TN_SLOT_NONE) {
            assert_int_not_equal(fitness(g, i), TN_FIT_NO);
            continue;
        }
        unplaced++;
        for (uint32_t m = 0; m < g->in.member_count; m++)
            if (g->fit[j->class * g->in.member_count + m] != TN_FIT_NO)
                assert_true(loads[m] + j->weight > g->members[m].limit);
    }
    assert_int_equal(g->out.unplaced, unplaced);
    assert_int_equal(g->out.moved, moved);
}

/* Without limits and labels: within the heaviest job of the fair part, and then at rest. */
static void check_fair(struct group *g)
{
    uint64_t shares = 0, total = 0, heaviest = 1;

    for (uint32_t m = 0; m < g->in.member_count; m++)
        shares += g->members[m].share;
    for (uint32_t i = 0; i < g->in.job_count; i++) {
        total += g->jobs[i].weight;
        heaviest = g->jobs[i].weight > heaviest ? g->jobs[i].weight : heaviest;
    }
    for (uint32_t m = 0; m < g->in.member_count; m++) {
        uint64_t fair = total * g->members[m].share / shares, has = load(g, m);

        assert_true(has <= fair + heaviest && has + heaviest > fair);
    }
    apply(g);
    plan(g);
    assert_int_equal(g->out.moved + g->out.placed, 0);
}

static void test_random_groups(void **unused)
{
    static struct group g;

    (void)unused;
    for (uint64_t seed = 1; seed <= 2000; seed++) {
        bool limits = false;

        state = seed;
        draw_group(&g);
        plan(&g);
        check_rules(&g);
        for (uint32_t m = 0; m < g.in.member_count; m++)
            limits = limits || g.members[m].limit != UINT32_MAX;
        if (g.in.class_count > 1 || limits || memchr(g.fit, TN_FIT_NO, g.in.member_count) ||
            memchr(g.fit, TN_FIT_PREFERRED, g.in.member_count))
            continue;
        g.in.moves_max = UINT32_MAX;
        apply(&g);
        plan(&g);
        check_fair(&g);
    }
}

/* Two members that alone are fit for their jobs have more than their part: they swap none. */
static void test_what_others_cannot_run_stays(void **unused)
{
    static struct group g;

    (void)unused;
    make(&g, 4, 30, 2);
    g.fit[2] = g.fit[3] = TN_FIT_NO; /* for the jobs of class 0 */
    for (uint32_t i = 0; i < 30; i++)
        g.jobs[i] = (struct tn_plan_job){
            .weight = i % 2 ? 3 : 2, .class = i >= 26, .slot = (uint16_t)(i % 2)};
    g.in.moves_max = tn_plan_tenth(30);
    for (uint32_t round = 0; round < 4; round++) {
        plan(&g);
        for (uint32_t i = 0; i < 26; i++)
            assert_int_equal(g.slots[i], i % 2);
        apply(&g);
    }
    assert_int_equal(load(&g, 2) + load(&g, 3), 10);
    assert_int_equal(g.out.moved, 0);
}

/* No moves are allowed yet: nothing moves, and the plan says that fairer is possible. */
static void test_moves_that_must_wait(void **unused)
{
    static struct group g;

    (void)unused;
    make(&g, 3, 9, 1);
    for (uint32_t i = 0; i < 9; i++)
        g.jobs[i].slot = 0;
    g.in.moves_max = 0;
    plan(&g);
    assert_int_equal(g.out.moved, 0);
    assert_true(g.out.cut);
}

/* A plan that was cut is continued, with nothing else changed: that comes to an end. */
static void test_continuations_end(void **unused)
{
    static struct group g;

    (void)unused;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        uint32_t rounds = 0;

        state = seed * 7919;
        draw_group(&g);
        g.in.moves_max = tn_plan_tenth(g.in.job_count);
        do {
            plan(&g);
            check_rules(&g);
            apply(&g);
            assert_in_range(++rounds, 1, 200);
        } while (g.out.cut && g.out.moved > 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nobody_and_nothing),
        cmocka_unit_test(test_a_first_plan_is_even),
        cmocka_unit_test(test_its_own_result_moves_nothing),
        cmocka_unit_test(test_a_join_moves_its_quota),
        cmocka_unit_test(test_a_leave_moves_only_the_leavers),
        cmocka_unit_test(test_only_so_many_moves),
        cmocka_unit_test(test_shares_and_limits),
        cmocka_unit_test(test_more_than_everybody_takes),
        cmocka_unit_test(test_a_limit_that_is_just_the_part),
        cmocka_unit_test(test_labels),
        cmocka_unit_test(test_the_restricted_come_first),
        cmocka_unit_test(test_a_full_member_makes_room),
        cmocka_unit_test(test_nobody_can_make_room),
        cmocka_unit_test(test_repairs_are_bounded),
        cmocka_unit_test(test_weights),
        cmocka_unit_test(test_equal_deficits),
        cmocka_unit_test(test_many_small_excesses),
        cmocka_unit_test(test_random_groups),
        cmocka_unit_test(test_what_others_cannot_run_stays),
        cmocka_unit_test(test_moves_that_must_wait),
        cmocka_unit_test(test_continuations_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
