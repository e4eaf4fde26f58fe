/* Times as people read them: the calendar is ours, and the C library's is the judge. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <time.h>

#include "base/rfc3339.h"

#define DAY_MS UINT64_C(86400000)
#define DAYS   2932897 /* from 1970 through 9999 */

static void as_gmtime(uint64_t unix_ms, char out[TN_RFC3339_SIZE])
{
    time_t seconds = (time_t)(unix_ms / 1000);
    struct tm tm;

    gmtime_r(&seconds, &tm);
    size_t n = strftime(out, TN_RFC3339_SIZE, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(out + n, TN_RFC3339_SIZE - n, ".%03uZ", (unsigned)(unix_ms % 1000));
}

static void every_day(void **state)
{
    char ours[TN_RFC3339_SIZE], theirs[TN_RFC3339_SIZE];
    uint64_t again;

    (void)state;
    for (uint64_t day = 0; day < DAYS; day++) {
        uint64_t at = day * DAY_MS + day * 7919 % DAY_MS;

        tn_rfc3339_format(at, ours);
        as_gmtime(at, theirs);
        assert_string_equal(ours, theirs);
        if (day % 64 == 0) {
            assert_true(tn_rfc3339_parse(ours, &again));
            assert_int_equal(again, at);
        }
    }
}

static void the_ends(void **state)
{
    char text[TN_RFC3339_SIZE];

    (void)state;
    tn_rfc3339_format(0, text);
    assert_string_equal(text, "1970-01-01T00:00:00.000Z");
    tn_rfc3339_format(DAYS * DAY_MS - 1, text);
    assert_string_equal(text, "9999-12-31T23:59:59.999Z");
    tn_rfc3339_format(DAYS * DAY_MS, text); /* which would not parse again */
    assert_string_equal(text, "");
    tn_rfc3339_format(UINT64_MAX, text);
    assert_string_equal(text, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_day),
        cmocka_unit_test(the_ends),
    };

    return cmocka_run_group_tests_name("rfc3339", tests, NULL, NULL);
}
