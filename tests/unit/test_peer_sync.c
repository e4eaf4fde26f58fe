/* Which of two processes with the same id does not contend. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "supervise/peer_sync.h"

#define FIRST  "2026-01-01T00:00:00.000Z"
#define SECOND "2026-01-01T00:00:01.000Z"

static struct tenure_candidate record(const char *state, const char *since, const char *incarnation)
{
    struct tenure_candidate c = TENURE_CANDIDATE;

    snprintf(c.id, sizeof c.id, "same");
    snprintf(c.state, sizeof c.state, "%s", state);
    snprintf(c.since, sizeof c.since, "%s", since);
    snprintf(c.incarnation, sizeof c.incarnation, "%s", incarnation);
    c.healthy = true;
    return c;
}

static void test_table(void **state)
{
    static const struct {
        const char *first, *second;
        bool first_holds_back, second_holds_back;
    } rows[] = {
        {"standby", "standby", false, true},
        {"leading", "standby", false, true},
        {"standby", "leading", true, false},
        /* Each has read an old record of the other. */
        {"leading", "leading", false, false},
        /* Who does not contend keeps nobody from it. */
        {"unhealthy", "standby", true, false},
        {"sealing", "standby", true, false},
        {"stopping", "standby", true, false},
        {"held-back", "standby", true, false},
        {"standby", "unhealthy", false, true},
        {"standby", "sealing", false, true},
        {"standby", "stopping", false, true},
        {"standby", "held-back", false, true},
        {"leading", "unhealthy", false, true},
        {"unhealthy", "leading", true, false},
        {"unhealthy", "unhealthy", false, false},
        {"held-back", "held-back", false, false},
        {"held-back", "unhealthy", false, false},
        {"what a later version says", "standby", true, false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct tenure_candidate first = record(rows[i].first, FIRST, "0b");
        struct tenure_candidate second = record(rows[i].second, SECOND, "0a");

        assert_int_equal(tn_peer_holds_back(&first, &second), rows[i].first_holds_back);
        assert_int_equal(tn_peer_holds_back(&second, &first), rows[i].second_holds_back);
        assert_false(rows[i].first_holds_back && rows[i].second_holds_back);
    }
}

static void test_a_standby_that_is_not_healthy(void **state)
{
    struct tenure_candidate first = record("standby", FIRST, "0a");
    struct tenure_candidate second = record("standby", SECOND, "0b");

    (void)state;
    first.healthy = false;
    assert_true(tn_peer_holds_back(&first, &second));
    assert_false(tn_peer_holds_back(&second, &first));
}

static void test_both_at_the_same_time(void **state)
{
    struct tenure_candidate first = record("standby", FIRST, "0a");
    struct tenure_candidate second = record("standby", FIRST, "0b");

    (void)state;
    assert_false(tn_peer_holds_back(&first, &second));
    assert_true(tn_peer_holds_back(&second, &first));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_a_standby_that_is_not_healthy),
        cmocka_unit_test(test_both_at_the_same_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
