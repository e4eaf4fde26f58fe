/* The timelines of supervise/guard/watch.h, and what must hold for every other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "core/timing.h"
#include "supervise/guard/watch.h"

#define MARGIN (50 * TN_MS)

static void test_a_deadline_that_comes(void **state)
{
    (void)state;
    assert_int_equal(tn_guard_late_at(21270 * TN_MS, 10000 * TN_MS, MARGIN), 21245 * TN_MS);
}

static void test_a_definite_loss(void **state)
{
    (void)state;
    assert_int_equal(tn_guard_late_at(10000 * TN_MS, 10000 * TN_MS, MARGIN), 10025 * TN_MS);
    /* Found late, by a tenure that did not run: counted from when the guard could know. */
    assert_int_equal(tn_guard_late_at(9000 * TN_MS, 10000 * TN_MS, MARGIN), 10025 * TN_MS);
}

static void test_no_grant(void **state)
{
    (void)state;
    assert_int_equal(tn_guard_late_at(0, 10000 * TN_MS, MARGIN), 0);
}

/* Whatever the deadline: half a margin of its own for the guard, from when it knew and had to act;
 * and for every deadline that it knew of in time, late before the deadline has come. */
static void test_fair_and_in_time(void **state)
{
    int64_t told = 100 * TN_S;

    (void)state;
    for (int64_t margin = TN_MS; margin <= MARGIN; margin += TN_MS) {
        for (int64_t ahead = -200; ahead <= 200; ahead++) {
            int64_t deadline = told + ahead * TN_MS;
            int64_t late = tn_guard_late_at(deadline, told, margin);
            int64_t act = deadline - margin > told ? deadline - margin : told;

            assert_true(late >= act + margin / 2);
            assert_true(late <= act + margin / 2 + 1);
            if (ahead * TN_MS >= margin)
                assert_true(late < deadline);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_deadline_that_comes),
        cmocka_unit_test(test_a_definite_loss),
        cmocka_unit_test(test_no_grant),
        cmocka_unit_test(test_fair_and_in_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
