/* A store that fails is told of by reasons, not by tries. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/timing.h"
#include "status/outage.h"

static void each_reason_once(void **state)
{
    struct tn_outage o = {0};

    (void)state;
    assert_true(tn_outage_news(&o, "watching the lease: etcd: refused", 1));
    for (int64_t now = 2; now < 1000; now++) {
        assert_false(tn_outage_news(&o, "reading the lease: etcd: refused", now));
        assert_false(tn_outage_news(&o, "watching the lease: etcd: refused", now));
    }
    assert_true(tn_outage_news(&o, "reading the lease: etcd: timed out", 1000));
    assert_false(tn_outage_news(&o, "watching the lease: etcd: refused", 1001));
    assert_false(tn_outage_news(&o, "renewing the lease: etcd: timed out", 1002));
}

static void its_end_once(void **state)
{
    struct tn_outage o = {0};

    (void)state;
    assert_false(tn_outage_over(&o)); /* nothing was wrong */
    assert_true(tn_outage_news(&o, "reading the lease: gone", 1));
    assert_true(tn_outage_over(&o));
    assert_false(tn_outage_over(&o));
    assert_true(tn_outage_news(&o, "reading the lease: gone", 2)); /* another outage */
}

/* A text that is never the same, and longer than what is kept. */
static void reasons_without_end(void **state)
{
    struct tn_outage o = {0};
    char text[2 * TN_OUTAGE_TEXT], same[2 * TN_OUTAGE_TEXT] = "reading the lease: ";
    int told = 0;

    (void)state;
    memset(same + strlen(same), 'x', TN_OUTAGE_TEXT + 10);
    assert_true(tn_outage_news(&o, same, 1));
    assert_false(tn_outage_news(&o, same, 2));
    for (int i = 0; i < 6000; i++) { /* ten minutes, ten times a second */
        snprintf(text, sizeof text, "reading the lease: after %d tries", i);
        told += tn_outage_news(&o, text, i * 100 * TN_MS);
    }
    assert_in_range(told, TN_OUTAGE_REASONS - 1 + 8, TN_OUTAGE_REASONS - 1 + 10);
    assert_string_equal(tn_outage_reason("no colon"), "no colon");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_reason_once),
        cmocka_unit_test(its_end_once),
        cmocka_unit_test(reasons_without_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
