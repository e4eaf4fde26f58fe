/* What a worker makes of plan, members and catalogue as read; whom it buries, and when. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/jobs/worker_inner.h"

#define MEMBERS 4
#define JOBS    5
#define W       (90 * TN_S)

static struct tn_worker w;
static struct tn_peer peers[MEMBERS];
static struct tn_member records[MEMBERS];
static struct tn_known known[JOBS];
static uint64_t batch[1024];
static struct tn_work_actions out;

static void begin(void)
{
    struct tn_worker_config cfg = {.id = "b",
                                   .ttl_ms = 90000,
                                   .timing = {.request_ns = 10 * TN_S},
                                   .members_max = MEMBERS,
                                   .jobs_max = JOBS,
                                   .peers = peers,
                                   .records = records,
                                   .known = known,
                                   .batch_max = 8,
                                   .batch_min = 8,
                                   .batch = batch};

    assert_true(tn_worker_batch_size(8) <= sizeof batch);
    tn_worker_init(&w, &cfg);
    memset(&out, 0, sizeof out);
}

static struct tenure_token token(uint8_t n)
{
    return (struct tenure_token){.version = {(char)('0' + n)}, .nonce = {n}};
}

static struct tn_member alive(uint64_t number)
{
    return (struct tn_member){.identity = {.number = number}, .ttl_ms = 90000};
}

/* The members named by the letters of `ids`, each alive, under this token. */
static void list(int64_t at_ns, const char *ids, uint8_t version)
{
    struct tn_member record = alive(7);
    struct tn_listed listed[8];
    char names[8][2];
    unsigned n = 0;

    for (; ids[n] != '\0'; n++) {
        names[n][0] = ids[n];
        names[n][1] = '\0';
        listed[n] = (struct tn_listed){.id = names[n], .token = token(version), .record = &record};
    }
    w.now_ns = at_ns;
    tn_view_members(&w, &(struct tn_work_event){.n = n, .listed = listed});
}

static void read_plan(const struct tn_plan_record *plan, uint8_t version)
{
    struct tn_work_event ev = {.plan = plan};

    if (version)
        ev.token = token(version);
    tn_view_plan(&w, &ev);
}

static bool buries(int64_t at_ns)
{
    w.now_ns = at_ns;
    return tn_view_bury(&w, &(struct tn_work_event){.entropy = {1, 2}}, &out);
}

/* ---- Members ------------------------------------------------------------- */

static void test_the_table_is_sorted(void **unused)
{
    (void)unused;
    begin();
    list(0, "bd", 1);
    known[0].slot = 0; /* b */
    known[1].slot = 1; /* d */
    list(0, "abcd", 1);
    assert_int_equal(w.peer_count, 4);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(peers[i].id[0], 'a' + i);
    assert_int_equal(known[0].slot, 1);
    assert_int_equal(known[1].slot, 3);
    assert_int_equal(known[2].slot, TN_SLOT_NONE);
    assert_int_equal(tn_worker_peer(&w, "c"), 2);
    assert_int_equal(tn_worker_peer(&w, "aa"), 4);
    list(0, "abcde", 1); /* there is no room for e */
    assert_int_equal(w.peer_count, 4);
}

static void test_who_is_not_listed_is_absent(void **unused)
{
    struct tn_listed damaged = {.id = "c", .token = token(9)};

    (void)unused;
    begin();
    list(0, "abd", 1);
    list(1, "ad", 1);
    assert_true(peers[0].present && !peers[1].present && peers[2].present);
    assert_int_equal(records[1].state, TN_MEMBER_DEAD);
    list(2, "a", 1);
    assert_false(peers[2].present);
    /* A record that cannot be decoded is neither taken nor an absence. */
    list(3, "c", 1);
    tn_view_members(&w, &(struct tn_work_event){.n = 1, .listed = &damaged});
    assert_true(peers[2].present);
    assert_int_equal(records[2].state, TN_MEMBER_ALIVE);
    assert_int_equal(peers[2].seen_ns, 3);
}

/* One record that cannot be decoded: nobody buries it, frees its jobs, or counts on it; whoever
 * knew it before and whoever did not see the same. */
static void test_a_record_that_cannot_be_decoded(void **unused)
{
    struct tn_listed listed[2] = {{.id = "a", .token = token(9)}, {.id = "c", .token = token(9)}};
    struct tn_identity owner = {.number = 7};

    (void)unused;
    begin();
    list(1, "c", 1);
    w.now_ns = 2;
    tn_view_members(&w, &(struct tn_work_event){.n = 2, .listed = listed});
    assert_int_equal(w.peer_count, 2);
    for (unsigned i = 0; i < 2; i++) {
        assert_true(peers[i].present && peers[i].damaged);
        assert_true(tenure_token_equal(&peers[i].token, &listed[i].token));
        assert_int_equal(peers[i].seen_ns, 2);
        assert_int_equal(tn_owner_fate(&owner, &records[i]), TN_OWNER_ALIVE);
    }
    assert_memory_equal(&records[0], &records[1], sizeof records[0]);
    assert_false(buries(10 * W));
    assert_int_equal(tn_view_silent_at(&w), INT64_MAX);
    list(10 * W, "ac", 2); /* written anew */
    assert_false(peers[0].damaged || peers[1].damaged);
    assert_true(buries(11 * W));
}

/* ---- Plan and catalogue -------------------------------------------------- */

static void test_the_plan(void **unused)
{
    static const char ids[3][TN_MEMBER_ID_MAX + 1] = {"c", "a", "z"};
    static const uint16_t slots[4] = {0, 1, TN_SLOT_NONE, 3};
    struct tn_plan_record plan = {.seq = 5,
                                  .catalogue = 6,
                                  .digest = 7,
                                  .cut = true,
                                  .member_count = 2,
                                  .job_count = 4,
                                  .members = ids,
                                  .slots = slots};

    (void)unused;
    begin();
    read_plan(NULL, 0); /* there is none */
    assert_true(w.planned);
    assert_int_equal(w.plan_seq, 0);
    read_plan(&plan, 1);
    assert_int_equal(w.plan_seq, 5);
    assert_true(w.plan_cut);
    assert_string_equal(peers[known[0].slot].id, "c");
    assert_string_equal(peers[known[1].slot].id, "a");
    for (uint32_t j = 2; j < JOBS; j++)
        assert_int_equal(known[j].slot, TN_SLOT_NONE); /* nobody's, or beyond its members */
    plan.seq = 99;
    read_plan(&plan, 1); /* the same token: the same plan */
    assert_int_equal(w.plan_seq, 5);
    /* One that cannot be read changes nothing, and nothing is claimed under it. */
    read_plan(NULL, 2);
    assert_false(w.planned);
    assert_int_equal(w.plan_seq, 5);
    assert_string_equal(peers[known[0].slot].id, "c");
    /* A member that the table has no room for. */
    list(0, "ab", 1);
    list(0, "abcd", 1);
    plan.member_count = 3;
    plan.job_count = 1;
    plan.cut = false;
    plan.slots = (const uint16_t[]){2};
    read_plan(&plan, 3);
    assert_true(w.planned && !w.plan_cut);
    assert_int_equal(known[0].slot, TN_SLOT_NONE);
}

static void test_the_catalogue(void **unused)
{
    const struct tn_entry entries[] = {{.number = 1, .weight = 3, .wanted = TN_WANTED_PAUSED},
                                       {.number = 2}};
    struct tn_work_event ev = {
        .revision = 8, .active = 2, .job_count = 2, .n = 2, .entries = entries};

    (void)unused;
    begin();
    tn_view_catalogue(&w, &ev);
    assert_int_equal(w.catalogue, 8);
    assert_int_equal(w.job_count, 2);
    assert_true(known[1].listed && known[1].weight == 3 && known[1].wanted == TN_WANTED_PAUSED);
    assert_false(known[2].listed); /* beyond the jobs */
    ev.job_count = 100;
    tn_view_catalogue(&w, &ev);
    assert_int_equal(w.job_count, JOBS);
}

/* ---- Burials ------------------------------------------------------------- */

static void test_the_silent_are_buried(void **unused)
{
    (void)unused;
    begin();
    list(TN_S, "ab", 1);
    assert_int_equal(tn_view_silent_at(&w), TN_S + W);
    list(2 * TN_S, "ab", 1); /* unchanged since the first read of it */
    assert_false(buries(TN_S + W - 1));
    assert_true(buries(TN_S + W));
    assert_string_equal(out.member_id, "a"); /* not b, which is this worker */
    assert_int_equal(out.member.state, TN_MEMBER_DEAD);
    assert_int_equal(out.member.identity.number, 7);
    assert_true(tenure_token_equal(&out.expect, &peers[0].token));
    assert_int_equal(out.request_by_ns, TN_S + W + 10 * TN_S);
    assert_int_equal(tn_view_silent_at(&w), INT64_MAX);
    list(TN_S + W, "ab", 2); /* it was alive */
    assert_false(buries(2 * W));
    list(2 * W, "abc", 3);
    list(2 * W + TN_S, "abc", 3);
    records[0].state = TN_MEMBER_DEAD;
    assert_int_equal(tn_view_silent_at(&w), 3 * W); /* c */
    list(2 * W + TN_S, "b", 3);
    assert_int_equal(tn_view_silent_at(&w), INT64_MAX);
    assert_false(buries(9 * W)); /* the absent are not buried */
    begin();
    list(0, "ab", 1);
    list(TN_S, "abc", 1);
    w.now_ns = TN_S;
    assert_int_equal(tn_view_silent_at(&w), W); /* the first of two */
}

static void test_a_ttl_that_none_can_have(void **unused)
{
    (void)unused;
    begin();
    list(0, "a", 1);
    records[0].ttl_ms = TN_TTL_MIN_MS - 1;
    assert_false(buries(9 * W));
    records[0].ttl_ms = TN_TTL_MAX_MS + 1;
    assert_false(buries(TN_TTL_MAX_MS * TN_MS * 2));
}

static void test_what_lingers_ends(void **unused)
{
    (void)unused;
    begin();
    list(0, "a", 1);
    records[0].state = TN_MEMBER_LEFT;
    assert_false(buries(9 * W)); /* it has left: that is all */
    begin();
    list(0, "a", 1);
    records[0].state = TN_MEMBER_LEFT;
    records[0].linger_ms = 5000;
    assert_false(buries(5 * TN_S - 1));
    assert_true(buries(5 * TN_S));
    assert_int_equal(out.member.state, TN_MEMBER_DEAD);
}

/* ---- Placeholders -------------------------------------------------------- */

static void orphan(const char *id, uint64_t number, uint32_t ttl_ms)
{
    memset(&w.orphan, 0, sizeof w.orphan);
    strcpy(w.orphan.id, id);
    w.orphan.identity.number = number;
    w.orphan_ttl_ms = ttl_ms;
    w.orphaned = true;
}

static void test_a_lost_record_gets_a_placeholder(void **unused)
{
    (void)unused;
    begin();
    list(0, "ab", 1);
    orphan("c", 40, 30000);
    assert_true(buries(0));
    assert_string_equal(out.member_id, "c");
    assert_true(tenure_token_absent(&out.expect));
    assert_int_equal(out.member.state, TN_MEMBER_ALIVE);
    assert_int_equal(out.member.mark, TN_MARK_PLACEHOLDER);
    assert_int_equal(out.member.identity.number, 41);
    assert_int_equal(out.member.ttl_ms, 90000); /* ours is longer */
    assert_false(buries(0));                    /* once */
    list(0, "b", 1);
    orphan("a", 40, 120000); /* known, and absent */
    assert_true(buries(0));
    assert_true(tenure_token_absent(&out.expect));
    assert_int_equal(out.member.ttl_ms, 120000);
    list(0, "ab", 2);
    orphan("a", 40, 0); /* older than its job */
    assert_true(buries(0));
    assert_true(tenure_token_equal(&out.expect, &peers[0].token));
    assert_int_equal(out.member.identity.number, 41);
    orphan("a", TN_MEMBER_NUMBER_MAX, 0); /* there is no number above it */
    assert_false(buries(0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_table_is_sorted),
        cmocka_unit_test(test_who_is_not_listed_is_absent),
        cmocka_unit_test(test_a_record_that_cannot_be_decoded),
        cmocka_unit_test(test_the_plan),
        cmocka_unit_test(test_the_catalogue),
        cmocka_unit_test(test_the_silent_are_buried),
        cmocka_unit_test(test_a_ttl_that_none_can_have),
        cmocka_unit_test(test_what_lingers_ends),
        cmocka_unit_test(test_a_lost_record_gets_a_placeholder),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
