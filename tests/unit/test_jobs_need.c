/* When a worker plans, and what it makes the plan from. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/jobs/worker_inner.h"

#define MEMBERS 5
#define JOBS    8
#define CLASSES 5

enum { ANY, ZONE_A, ZONE_A_SSD, PREFERS_SSD, ONLY_C };

static const struct tn_requirements requirements[] = {
    [ZONE_A] = {.must = "zone=a"},
    [ZONE_A_SSD] = {.must = "disk=ssd,zone=a"},
    [PREFERS_SSD] = {.prefer = "disk=ssd"},
    [ONLY_C] = {.pin = "c"},
};

static struct tn_worker w;
static struct tn_peer peers[MEMBERS];
static struct tn_member records[MEMBERS];
static bool counts[MEMBERS];
static struct tn_known known[JOBS];
static uint64_t scratch[1024];
static uint64_t batch[1024];
static struct tn_work_actions out;

/* The members of these letters, all settled; so many jobs without requirements. */
static void begin(const char *ids, uint32_t jobs)
{
    struct tn_worker_config cfg = {.id = "b",
                                   .ttl_ms = 90000,
                                   .timing = {.request_ns = 10 * TN_S, .poll_ns = 20 * TN_S},
                                   .members_max = MEMBERS,
                                   .jobs_max = JOBS,
                                   .class_max = CLASSES,
                                   .requirements = requirements,
                                   .peers = peers,
                                   .records = records,
                                   .counts = counts,
                                   .known = known,
                                   .scratch = scratch,
                                   .batch_max = 8,
                                   .batch_min = 8,
                                   .batch = batch};

    assert_true(tn_worker_scratch_size(&cfg) <= sizeof scratch);
    assert_true(tn_worker_batch_size(8) <= sizeof batch);
    tn_worker_init(&w, &cfg);
    memset(peers, 0, sizeof peers);
    memset(records, 0, sizeof records);
    for (; ids[w.peer_count] != '\0'; w.peer_count++) {
        peers[w.peer_count].id[0] = ids[w.peer_count];
        peers[w.peer_count].present = true;
        records[w.peer_count] = (struct tn_member){.renewals = 1, .share = 1, .limit = UINT32_MAX};
    }
    for (uint32_t j = 0; j < jobs; j++)
        known[j] = (struct tn_known){.weight = 1, .slot = TN_SLOT_NONE, .listed = true};
    w.job_count = jobs;
    w.planned = true;
    w.round_at_ns = INT64_MAX;
}

static bool plans(int64_t at_s)
{
    w.now_ns = at_s * TN_S;
    w.plan_tried = false;
    return tn_plan_ask(&w, &(struct tn_work_event){.entropy = {1, 2}}, &out);
}

/* It was written, and read back. */
static void adopt(void)
{
    static uint16_t slots[JOBS];
    static char ids[MEMBERS][TN_MEMBER_ID_MAX + 1];
    struct tn_plan_record plan = out.plan;

    memcpy(slots, plan.slots, plan.job_count * sizeof *slots);
    memcpy(ids, plan.members, plan.member_count * sizeof *ids);
    plan.slots = slots;
    plan.members = (const char(*)[TN_MEMBER_ID_MAX + 1]) ids;
    tn_view_plan(&w, &(struct tn_work_event){
                         .plan = &plan, .token = {.version = "v", .nonce = {(uint8_t)plan.seq}}});
}

static void applied_by_all(void)
{
    for (uint32_t at = 0; at < w.peer_count; at++)
        records[at].applied = w.plan_seq;
}

/* The letter of the member that a job is planned for; '-': none. */
static char planned_for(uint32_t job)
{
    uint16_t slot = out.plan.slots[job];

    return slot == TN_SLOT_NONE ? '-' : out.plan.members[slot][0];
}

static uint32_t planned_count(char id)
{
    uint32_t n = 0;

    for (uint32_t j = 0; j < w.job_count; j++)
        n += planned_for(j) == id;
    return n;
}

/* ---- The need ------------------------------------------------------------ */

static void test_a_need_is_a_difference_of_inputs(void **unused)
{
    (void)unused;
    begin("bc", 4);
    w.planned = false; /* it could not be read */
    assert_false(plans(0));
    w.planned = true;
    assert_true(plans(0));
    assert_int_equal(out.request, TN_WORK_SWAP_PLAN);
    assert_true(tenure_token_absent(&out.expect));
    assert_int_equal(out.request_by_ns, 10 * TN_S);
    assert_int_equal(out.plan.seq, 1);
    assert_int_equal(planned_count('b'), 2);
    assert_false(tn_plan_ask(&w, &(struct tn_work_event){0}, &out)); /* once a round */
    adopt();
    assert_false(plans(1));
    records[0].share = 2;
    assert_true(plans(2));
    assert_true(tenure_token_equal(&out.expect, &w.plan_token));
    assert_int_equal(out.plan.seq, 2);
    adopt();
    records[1].unfit_count = 1;
    assert_true(plans(3));
    adopt();
    w.catalogue++;
    assert_true(plans(4));
    adopt();
    strcpy(records[1].labels, "zone=a");
    assert_true(plans(5));
    adopt();
    records[1].renewals++; /* of no concern to a plan */
    assert_false(plans(6));
    w.plan_seq = 0; /* without a plan, whatever the digest */
    assert_true(plans(7));
}

static void test_rank_k_waits_k_steps(void **unused)
{
    (void)unused;
    begin("ab", 2);
    assert_false(plans(0));
    assert_int_equal(w.round_at_ns, 5 * TN_S);
    w.round_at_ns = 2 * TN_S;
    assert_false(plans(4));
    assert_int_equal(w.round_at_ns, 2 * TN_S); /* sooner anyway */
    assert_true(plans(5));
    begin("ab", 2);
    peers[0].present = false;
    assert_true(plans(0));
    begin("ab", 2);
    records[0].state = TN_MEMBER_DEAD;
    assert_true(plans(0));
    begin("ab", 2);
    records[0].mark = TN_MARK_EVICTED;
    assert_true(plans(0));
    begin("a", 2); /* its own record is not listed yet */
    assert_false(plans(0));
}

static void test_a_cut_plan_is_a_need_when_applied(void **unused)
{
    (void)unused;
    begin("b", 8);
    assert_true(plans(0));
    adopt();
    begin("bc", 8);
    assert_true(plans(0));
    adopt();
    for (uint32_t j = 0; j < 8; j++)
        known[j].slot = 0; /* all with b */
    w.catalogue++;
    assert_true(plans(1)); /* nobody has applied the last: nothing moves yet */
    assert_int_equal(planned_count('b'), 8);
    assert_true(out.plan.cut);
    adopt();
    assert_false(plans(2));
    applied_by_all();
    records[1].applied--;
    assert_false(plans(3));
    for (uint32_t left = 7; left >= 4; left--) { /* a tenth, which is one, at a time */
        applied_by_all();
        assert_true(plans(4));
        assert_int_equal(planned_count('b'), left);
        assert_int_equal(out.plan.cut, left > 4);
        adopt();
    }
    applied_by_all();
    assert_false(plans(5));
}

/* ---- The making ---------------------------------------------------------- */

static void test_labels_and_pins(void **unused)
{
    (void)unused;
    begin("bcd", 5);
    strcpy(records[0].labels, "zone=ab,rack=a");
    strcpy(records[1].labels, "zone=b");
    strcpy(records[2].labels, "disk=ssd,zone=a");
    records[2].share = 0; /* as good as one */
    known[0].requirements = ZONE_A;
    known[1].requirements = ZONE_A_SSD;
    known[2].requirements = PREFERS_SSD;
    known[3].requirements = ONLY_C;
    known[4].requirements = ONLY_C;
    assert_true(plans(0));
    assert_int_equal(planned_for(0), 'd');
    assert_int_equal(planned_for(1), 'd');
    assert_int_equal(planned_for(2), 'd');
    assert_int_equal(planned_for(3), 'c');
    assert_int_equal(planned_for(4), 'c');
}

static void test_the_unfit(void **unused)
{
    (void)unused;
    begin("bc", 8);
    records[0].unfit_count = 2;
    records[0].unfit[0] = 3;
    records[0].unfit[1] = 5;
    records[1].unfit_count = 99; /* more than a record can name */
    for (uint32_t i = 0; i < TN_MEMBER_ASKS_MAX; i++)
        records[1].unfit[i] = 1000;
    assert_true(plans(0));
    assert_int_equal(planned_for(3), 'c');
    assert_int_equal(planned_for(5), 'c');
    assert_int_equal(planned_count('b'), 4);
    /* Only so many classes: the rest is planned as if all were fit. */
    records[0].unfit_count = 8;
    for (uint32_t i = 0; i < 8; i++)
        records[0].unfit[i] = i + 1;
    assert_true(plans(1));
    assert_int_equal(planned_count('-'), 0);
}

static void test_what_is_not_to_run(void **unused)
{
    (void)unused;
    begin("b", 4);
    known[1].wanted = TN_WANTED_PAUSED;
    known[2].listed = false;
    assert_true(plans(0));
    assert_int_equal(planned_for(0), 'b');
    assert_int_equal(planned_for(1), '-');
    assert_int_equal(planned_for(2), '-');
    assert_int_equal(planned_for(3), 'b');
}

static void test_the_lingering_keep_their_jobs(void **unused)
{
    (void)unused;
    begin("bcde", 6);
    for (uint32_t j = 0; j < 6; j++)
        known[j].slot = (uint16_t)(j % 3 + 1); /* c, d, e */
    records[1].state = records[2].state = records[3].state = TN_MEMBER_LEFT;
    records[1].linger_ms = 1000;
    records[3].linger_ms = 1000;
    peers[3].present = false; /* its record is lost */
    assert_true(plans(0));
    assert_int_equal(planned_count('c'), 2);
    assert_int_equal(planned_count('b'), 4);
    /* Nobody counts: what lingers stays, the rest is nobody's. */
    records[0].draining = true;
    assert_true(plans(1));
    assert_int_equal(planned_count('c'), 2);
    assert_int_equal(planned_count('-'), 4);
}

static void test_as_fair_as_it_gets(void **unused)
{
    (void)unused;
    begin("bc", 6);
    for (uint32_t j = 0; j < 5; j++)
        known[j] =
            (struct tn_known){.weight = 1, .slot = 1, .requirements = ONLY_C, .listed = true};
    assert_true(plans(0));
    assert_int_equal(planned_count('c'), 5); /* more than its part, and nobody else is fit */
    assert_int_equal(planned_for(5), 'b');
    assert_false(out.plan.cut);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_need_is_a_difference_of_inputs),
        cmocka_unit_test(test_rank_k_waits_k_steps),
        cmocka_unit_test(test_a_cut_plan_is_a_need_when_applied),
        cmocka_unit_test(test_labels_and_pins),
        cmocka_unit_test(test_the_unfit),
        cmocka_unit_test(test_what_is_not_to_run),
        cmocka_unit_test(test_the_lingering_keep_their_jobs),
        cmocka_unit_test(test_as_fair_as_it_gets),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
