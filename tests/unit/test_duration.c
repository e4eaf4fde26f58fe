#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/duration.h"

#define S INT64_C(1000000000)

static void parses(void **state)
{
    static const struct {
        const char *text;
        int64_t ns;
    } rows[] = {
        {"0", 0},
        {"0s", 0},
        {"15s", 15 * S},
        {"1500ms", 1500 * (S / 1000)},
        {"1.5s", 1500 * (S / 1000)},
        {"0.25d", 21600 * S},
        {"1h30m", 5400 * S},
        {"10us", 10000},
        {"7ns", 7},
        {"1.0000000009s", S},
        {"9223372036s", INT64_C(9223372036) * S},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int64_t ns = -1;

        assert_true(tn_duration_parse(rows[i].text, &ns));
        assert_int_equal(ns, rows[i].ns);
    }
}

static void refuses(void **state)
{
    static const char *const rows[] = {
        "",      "15",     "s",           "-1s",
        "+1s",   "1.s",    ".5s",         "1 s",
        "1sx",   "1s 2ms", "9223372037s", "1e3s",
        "1S",    "0x1s",   "106752d",     "99999999999999999999ns",
        "1h-1m", "1..5s",
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int64_t ns = 42;

        assert_false(tn_duration_parse(rows[i], &ns));
        assert_int_equal(ns, 42);
    }
}

static void formats(void **state)
{
    static const char *const rows[] = {"0s", "15s", "150s", "1500ms", "10us", "7ns", "3600s"};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[TN_DURATION_TEXT];
        int64_t ns;

        assert_true(tn_duration_parse(rows[i], &ns));
        tn_duration_format(ns, text);
        assert_string_equal(text, rows[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parses),
        cmocka_unit_test(refuses),
        cmocka_unit_test(formats),
    };

    return cmocka_run_group_tests_name("duration", tests, NULL, NULL);
}
