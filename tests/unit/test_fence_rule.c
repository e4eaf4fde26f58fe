/* The rule of I3: who may still write. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/fence.h"

static const struct tn_fence nobody = {0};
static const struct tn_fence seven = {.epoch = 7, .grant = "the grant"};

static enum tn_verdict judge(const struct tn_fence *accepted, uint64_t epoch, const char *grant)
{
    struct tn_fence writer = {.epoch = epoch};

    for (size_t i = 0; grant[i]; i++)
        writer.grant[i] = (uint8_t)grant[i];
    return tn_fence_judge(accepted, &writer);
}

static void test_higher_epochs_are_accepted(void **unused)
{
    (void)unused;
    assert_int_equal(judge(&nobody, 1, "x"), TN_VERDICT_RAISE);
    assert_int_equal(judge(&nobody, TN_EPOCH_MAX, "x"), TN_VERDICT_RAISE);
    assert_int_equal(judge(&seven, 8, "x"), TN_VERDICT_RAISE);
    assert_int_equal(judge(&seven, 8, "the grant"), TN_VERDICT_RAISE);
}

static void test_the_writer_itself_goes_on(void **unused)
{
    (void)unused;
    assert_int_equal(judge(&seven, 7, "the grant"), TN_VERDICT_SAME);
}

static void test_an_equal_epoch_is_not_enough(void **unused)
{
    (void)unused;
    assert_int_equal(judge(&seven, 7, "the grand"), TN_VERDICT_STALE);
    assert_int_equal(judge(&seven, 7, ""), TN_VERDICT_STALE);
}

static void test_lower_epochs_are_stale(void **unused)
{
    (void)unused;
    assert_int_equal(judge(&seven, 6, "the grant"), TN_VERDICT_STALE);
    assert_int_equal(judge(&seven, 1, "x"), TN_VERDICT_STALE);
}

static void test_no_bypass(void **unused)
{
    (void)unused;
    assert_int_equal(judge(&nobody, 0, ""), TN_VERDICT_INVALID);
    assert_int_equal(judge(&seven, 0, "the grant"), TN_VERDICT_INVALID);
    assert_int_equal(judge(&seven, TN_EPOCH_MAX + 1, "x"), TN_VERDICT_INVALID);
    assert_int_equal(judge(&nobody, UINT64_MAX, "x"), TN_VERDICT_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_higher_epochs_are_accepted),
        cmocka_unit_test(test_the_writer_itself_goes_on),
        cmocka_unit_test(test_an_equal_epoch_is_not_enough),
        cmocka_unit_test(test_lower_epochs_are_stale),
        cmocka_unit_test(test_no_bypass),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
