/* The members of a group: who may join, who is buried, whose jobs are free, who counts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/jobs/member.h"
#include "core/timing.h"

#define TTL_MS 90000u

static struct tn_identity identity(uint64_t number, char incarnation)
{
    struct tn_identity made = {.number = number};

    memset(made.incarnation, incarnation, sizeof made.incarnation);
    return made;
}

static struct tn_member member(uint64_t number, char incarnation, enum tn_member_state state,
                               enum tn_member_mark mark)
{
    return (struct tn_member){.identity = identity(number, incarnation),
                              .state = state,
                              .mark = mark,
                              .ttl_ms = TTL_MS,
                              .renewals = 1};
}

static void test_numbers(void **unused)
{
    (void)unused;
    assert_int_equal(tn_member_number(7, 3, 5), 8);
    assert_int_equal(tn_member_number(3, 7, 5), 8);
    assert_int_equal(tn_member_number(3, 7, 1000), 1000);
    assert_int_equal(tn_member_number(TN_EPOCH_MAX - 1, 0, 1000), 0);
}

static void test_joins(void **unused)
{
    struct tn_identity own = identity(5, 'a');
    struct tn_member m;

    (void)unused;
    assert_int_equal(tn_member_may_join(NULL, NULL, true, false), TN_JOIN_NOW);
    assert_int_equal(tn_member_may_join(NULL, NULL, false, false), TN_JOIN_WAIT);
    m = member(5, 'a', TN_MEMBER_DEAD, TN_MARK_NONE);
    assert_int_equal(tn_member_may_join(&m, NULL, true, false), TN_JOIN_NOW);
    m.state = TN_MEMBER_LEFT;
    assert_int_equal(tn_member_may_join(&m, NULL, true, false), TN_JOIN_NOW);
    /* A living namesake is waited for, until it has been silent for W. */
    m.state = TN_MEMBER_ALIVE;
    assert_int_equal(tn_member_may_join(&m, NULL, true, false), TN_JOIN_WAIT);
    assert_int_equal(tn_member_may_join(&m, NULL, true, true), TN_JOIN_NOW);
    /* One's own, reaped, is replaced at once; another's number or incarnation is not. */
    assert_int_equal(tn_member_may_join(&m, &own, true, false), TN_JOIN_NOW);
    assert_int_equal(tn_member_may_join(&m, &own, false, true), TN_JOIN_WAIT);
    own = identity(5, 'b');
    assert_int_equal(tn_member_may_join(&m, &own, true, false), TN_JOIN_WAIT);
    own = identity(4, 'a');
    assert_int_equal(tn_member_may_join(&m, &own, true, false), TN_JOIN_WAIT);
    /* A placeholder lasts its W, also if it has one's own identity. */
    own = identity(5, 'a');
    m.mark = TN_MARK_PLACEHOLDER;
    assert_int_equal(tn_member_may_join(&m, &own, true, false), TN_JOIN_WAIT);
    /* The evicted stays out, also when it has been buried. */
    m.mark = TN_MARK_EVICTED;
    assert_int_equal(tn_member_may_join(&m, &own, true, true), TN_JOIN_EVICTED);
    m.state = TN_MEMBER_DEAD;
    assert_int_equal(tn_member_may_join(&m, &own, true, true), TN_JOIN_EVICTED);
}

static void test_silence(void **unused)
{
    struct tn_member m = member(5, 'a', TN_MEMBER_ALIVE, TN_MARK_NONE);

    (void)unused;
    assert_false(tn_member_silent(&m, 10, 10 + TTL_MS * TN_MS - 1));
    assert_true(tn_member_silent(&m, 10, 10 + TTL_MS * TN_MS));
    m.state = TN_MEMBER_DEAD;
    assert_false(tn_member_silent(&m, 10, 10 + 2 * TTL_MS * TN_MS));
    /* A ttl that cannot be: nothing is concluded from any silence. */
    m.state = TN_MEMBER_ALIVE;
    m.ttl_ms = 0;
    assert_false(tn_member_silent(&m, 10, INT64_MAX));
    m.ttl_ms = TN_TTL_MAX_MS + 1;
    assert_false(tn_member_silent(&m, 10, INT64_MAX));
}

static void test_what_frees_a_job(void **unused)
{
    static const enum tn_member_state states[] = {TN_MEMBER_ALIVE, TN_MEMBER_DEAD, TN_MEMBER_LEFT};
    static const enum tn_member_mark marks[] = {TN_MARK_NONE, TN_MARK_EVICTED, TN_MARK_PLACEHOLDER};
    struct tn_identity owner = identity(5, 'a');

    (void)unused;
    assert_int_equal(tn_owner_fate(&owner, NULL), TN_OWNER_MISSING);
    for (unsigned s = 0; s < 3; s++) {
        for (unsigned k = 0; k < 3; k++) {
            struct tn_member same = member(5, 'a', states[s], marks[k]);
            struct tn_member other = member(5, 'b', states[s], marks[k]);
            struct tn_member later = member(6, 'b', states[s], marks[k]);
            struct tn_member older = member(4, 'a', states[s], marks[k]);
            bool alive = states[s] == TN_MEMBER_ALIVE, marked = marks[k] != TN_MARK_NONE;

            assert_int_equal(tn_owner_fate(&owner, &same), alive ? TN_OWNER_ALIVE : TN_OWNER_GONE);
            assert_int_equal(tn_owner_fate(&owner, &later),
                             alive && marked ? TN_OWNER_ALIVE : TN_OWNER_GONE);
            assert_int_equal(tn_owner_fate(&owner, &other), TN_OWNER_MISSING);
            assert_int_equal(tn_owner_fate(&owner, &older), TN_OWNER_MISSING);
        }
    }
}

/* A placeholder frees nothing while it is alive, and everything once it is buried. */
static void test_placeholders(void **unused)
{
    uint8_t fresh[TENURE_NONCE_SIZE] = "a fresh one";
    struct tn_identity owner = identity(5, 'a');
    struct tn_member older = member(4, 'a', TN_MEMBER_ALIVE, TN_MARK_NONE);
    struct tn_member newer = member(9, 'b', TN_MEMBER_ALIVE, TN_MARK_NONE);
    struct tn_member made = tn_member_placeholder(NULL, &owner, fresh, 1000);

    (void)unused;
    assert_int_equal(made.identity.number, 6);
    assert_int_equal(made.ttl_ms, 1000);
    assert_memory_equal(made.identity.incarnation, fresh, sizeof fresh);
    assert_int_equal(tn_owner_fate(&owner, &made), TN_OWNER_ALIVE);
    made.state = TN_MEMBER_DEAD;
    assert_int_equal(tn_owner_fate(&owner, &made), TN_OWNER_GONE);
    older.flaps = 3;
    made = tn_member_placeholder(&older, &owner, fresh, 1000);
    assert_int_equal(made.identity.number, 6);
    assert_int_equal(made.ttl_ms, TTL_MS);
    assert_int_equal(made.flaps, 3);
    made = tn_member_placeholder(&newer, &owner, fresh, 2 * TTL_MS);
    assert_int_equal(made.identity.number, 10);
    assert_int_equal(made.ttl_ms, 2 * TTL_MS);
}

static void test_damping(void **unused)
{
    struct tn_member m = member(5, 'a', TN_MEMBER_ALIVE, TN_MARK_NONE);

    (void)unused;
    m.renewals = 0;
    assert_false(tn_member_settled(&m));
    m.renewals = 1;
    assert_true(tn_member_settled(&m));
    m.flaps = 3;
    m.renewals = 7;
    assert_false(tn_member_settled(&m));
    m.renewals = 8;
    assert_true(tn_member_settled(&m));
    m.flaps = 31;
    m.renewals = 63;
    assert_false(tn_member_settled(&m));
    m.renewals = 64;
    assert_true(tn_member_settled(&m));
    assert_int_equal(tn_member_flaps_joined(NULL), 0);
    assert_int_equal(tn_member_flaps_joined(&m), 31);
    m.flaps = 2;
    assert_int_equal(tn_member_flaps_joined(&m), 3);
    assert_int_equal(tn_member_flaps_renewed(6, 99), 6);
    assert_int_equal(tn_member_flaps_renewed(6, 100), 3);
}

static void test_who_counts(void **unused)
{
    struct tn_member m[6];
    bool counts[6];

    (void)unused;
    for (unsigned i = 0; i < 6; i++)
        m[i] = member(5, 'a', TN_MEMBER_ALIVE, TN_MARK_NONE);
    m[1].state = TN_MEMBER_DEAD;
    m[2].mark = TN_MARK_EVICTED;
    m[3].draining = true;
    m[4].standby = m[5].standby = true;
    assert_int_equal(tn_members_count(m, 6, 1, counts), 1);
    assert_true(counts[0]);
    assert_int_equal(tn_members_count(m, 6, 2, counts), 2);
    assert_true(counts[4]);
    /* Nobody has said how many are to be active: one. */
    assert_int_equal(tn_members_count(m, 6, 0, counts), 1);
    assert_int_equal(tn_members_count(m + 4, 2, 0, counts), 1);
    m[4].renewals = 0;
    assert_int_equal(tn_members_count(m, 6, 2, counts), 2);
    assert_true(counts[5]);
    /* Those who have not settled count at once if nobody else does. */
    m[5].draining = true;
    m[0].renewals = 0;
    assert_int_equal(tn_members_count(m, 6, 2, counts), 2);
    assert_true(counts[0] && counts[4]);
    assert_false(counts[1] || counts[2] || counts[3] || counts[5]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),      cmocka_unit_test(test_joins),
        cmocka_unit_test(test_silence),      cmocka_unit_test(test_what_frees_a_job),
        cmocka_unit_test(test_placeholders), cmocka_unit_test(test_damping),
        cmocka_unit_test(test_who_counts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
