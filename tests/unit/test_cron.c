/* When a job is due: fields, month ends, clocks that are set forward and back; and what is run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "cron/plan.h"

static int64_t utc(void *arg, int64_t at)
{
    (void)arg;
    (void)at;
    return 0;
}

/* 2026: forward on 29 March, back on 25 October, at 01:00 UTC. */
static int64_t berlin(void *arg, int64_t at)
{
    (void)arg;
    return at >= 1774746000 && at < 1792890000 ? 7200 : 3600;
}

static const struct tn_zone in_utc = {.offset = utc}, in_berlin = {.offset = berlin};

static int64_t seconds(const char *text)
{
    struct tm tm = {0};
    int n = sscanf(text, "%d-%d-%d %d:%d:%d", &tm.tm_year, &tm.tm_mon, &tm.tm_mday, &tm.tm_hour,
                   &tm.tm_min, &tm.tm_sec);

    assert_true(n >= 5);
    tm.tm_year -= 1900;
    tm.tm_mon--;
    return timegm(&tm);
}

static struct tn_schedule parsed(const char *text)
{
    struct tn_schedule s;
    struct tenure_error err = {0};

    if (tn_schedule_parse(text, &s, &err))
        fail_msg("%s: %s", text, err.text);
    return s;
}

static void expect(const char *text, const struct tn_zone *zone, const char *at, const char *last,
                   const char *next)
{
    struct tn_schedule s = parsed(text);
    char found[TN_PERIOD_MAX + 1], wanted[TN_PERIOD_MAX + 1];

    tn_period_name(tn_schedule_last(&s, zone, seconds(at)), found);
    tn_period_name(seconds(last), wanted);
    assert_string_equal(found, wanted);
    tn_period_name(tn_schedule_next(&s, zone, seconds(at)), found);
    tn_period_name(seconds(next), wanted);
    assert_string_equal(found, wanted);
}

static void test_fields(void **state)
{
    (void)state;
    expect("0 3 * * *", &in_utc, "2026-11-17 03:00:00", "2026-11-17 03:00", "2026-11-18 03:00");
    expect("0 3 * * *", &in_utc, "2026-11-17 02:59:59", "2026-11-16 03:00", "2026-11-17 03:00");
    expect("*/15 9-17 * * mon-fri", &in_utc, "2026-11-20 17:50", "2026-11-20 17:45",
           "2026-11-23 09:00");
    expect("5,35 * * * *", &in_utc, "2026-11-17 00:00", "2026-11-16 23:35", "2026-11-17 00:05");
    expect("0 0 * JAN,jul Sun", &in_utc, "2026-08-01 00:00", "2026-07-26 00:00",
           "2027-01-03 00:00");
    expect("0 0 * * 7", &in_utc, "2026-11-17 00:00", "2026-11-15 00:00", "2026-11-22 00:00");
    expect("0 0 * * fri-sun", &in_utc, "2026-11-17 00:00", "2026-11-15 00:00", "2026-11-20 00:00");
    expect("10-30/10 0 * * *", &in_utc, "2026-11-17 00:25", "2026-11-17 00:20", "2026-11-17 00:30");
    /* Two days that are restricted: either; a star leaves it to the other. */
    expect("0 0 13 * 5", &in_utc, "2026-11-10 00:00", "2026-11-06 00:00", "2026-11-13 00:00");
    expect("0 0 13 * 5", &in_utc, "2026-12-12 00:00", "2026-12-11 00:00", "2026-12-13 00:00");
    expect("0 0 */2 * 1", &in_utc, "2026-11-01 00:00", "2026-10-19 00:00", "2026-11-09 00:00");
    expect("@weekly", &in_utc, "2026-11-17 00:00", "2026-11-15 00:00", "2026-11-22 00:00");
    expect("@yearly", &in_utc, "2026-11-17 00:00", "2026-01-01 00:00", "2027-01-01 00:00");
}

static void test_month_ends(void **state)
{
    (void)state;
    expect("0 0 31 * *", &in_utc, "2026-05-15 00:00", "2026-03-31 00:00", "2026-05-31 00:00");
    expect("0 0 30 2,4 *", &in_utc, "2026-03-01 00:00", "2025-04-30 00:00", "2026-04-30 00:00");
    expect("59 23 29 2 *", &in_utc, "2026-03-01 00:00", "2024-02-29 23:59", "2028-02-29 23:59");
    expect("0 0 29 2 *", &in_utc, "2098-01-01 00:00", "2096-02-29 00:00", "2104-02-29 00:00");
    expect("0 0 1 1 *", &in_utc, "1969-06-01 00:00", "1969-01-01 00:00", "1970-01-01 00:00");
}

static void test_clocks_set_forward(void **state)
{
    (void)state;
    /* 02:30 is not there on the 29th: it counts as 03:30 of the new time. */
    expect("30 2 * * *", &in_berlin, "2026-03-29 01:29", "2026-03-28 01:30", "2026-03-29 01:30");
    expect("30 2 * * *", &in_berlin, "2026-03-29 01:30", "2026-03-29 01:30", "2026-03-30 00:30");
    expect("0 3 * * *", &in_berlin, "2026-03-29 01:00", "2026-03-29 01:00", "2026-03-30 01:00");
    /* Every real hour, once. */
    expect("0 * * * *", &in_berlin, "2026-03-29 00:30", "2026-03-29 00:00", "2026-03-29 01:00");
    expect("30 * * * *", &in_berlin, "2026-03-29 01:15", "2026-03-29 00:30", "2026-03-29 01:30");
}

static void test_clocks_set_back(void **state)
{
    (void)state;
    /* 02:30 comes at 00:30 and at 01:30 UTC: the first counts. */
    expect("30 2 * * *", &in_berlin, "2026-10-25 02:00", "2026-10-25 00:30", "2026-10-26 01:30");
    expect("30 2 * * *", &in_berlin, "2026-10-25 00:29", "2026-10-24 00:30", "2026-10-25 00:30");
    /* Every real hour. */
    expect("30 * * * *", &in_berlin, "2026-10-25 01:00", "2026-10-25 00:30", "2026-10-25 01:30");
    expect("*/20 * * * *", &in_berlin, "2026-10-25 00:59", "2026-10-25 00:40", "2026-10-25 01:00");
}

/* Each time is the next of the one before, and the last of every time between them. */
static void test_last_and_next_agree(void **state)
{
    static const char *const texts[] = {"*/7 * * * *", "30 2 * * *", "0 3 31 * *",
                                        "15 1-3 * * sun"};

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct tn_schedule s = parsed(texts[i]);
        int64_t at = seconds("2026-03-28 00:00"), from = at;

        for (int n = 0; n < 300; n++) {
            int64_t next = tn_schedule_next(&s, &in_berlin, at);

            assert_true(next > at);
            assert_int_equal(tn_schedule_last(&s, &in_berlin, next), next);
            if (at != from)
                assert_int_equal(tn_schedule_last(&s, &in_berlin, next - 1), at);
            at = next;
        }
    }
}

static void test_every(void **state)
{
    struct tn_schedule s;

    (void)state;
    tn_schedule_every(&s, 3600);
    assert_int_equal(tn_schedule_last(&s, &in_utc, 7199), 3600);
    assert_int_equal(tn_schedule_next(&s, &in_utc, 7200), 10800);
    assert_int_equal(tn_schedule_last(&s, &in_utc, -1), -3600);
}

static void test_refused(void **state)
{
    static const char *const texts[] = {"",
                                        "0 3 * *",
                                        "0 3 * * * *",
                                        "60 * * * *",
                                        "* 24 * * *",
                                        "* * 0 * *",
                                        "* * 32 * *",
                                        "* * * 13 *",
                                        "* * * * 8",
                                        "5/2 * * * *",
                                        "*/0 * * * *",
                                        "30-10 * * * *",
                                        "1,,2 * * * *",
                                        "a * * * *",
                                        "* * * janu *",
                                        "0 0 31 2 *",
                                        "0 0 30 feb *",
                                        "@never",
                                        "-1 * * * *",
                                        "1- * * * *",
                                        "99999999999 * * * *"};
    struct tn_schedule s;
    struct tenure_error err;

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (tn_schedule_parse(texts[i], &s, &err) != TENURE_INVALID)
            fail_msg("'%s' was taken", texts[i]);
    }
}

/* ---- What is run --------------------------------------------------------- */

static struct tn_plan plan(enum tn_catch_up catch_up, enum tn_retry retry,
                           enum tn_period_state state, const char *last, const char *now)
{
    struct tn_cron_rules r = {.schedule = parsed("0 3 * * *"),
                              .zone = in_utc,
                              .catch_up = catch_up,
                              .retry = retry,
                              .window_s = 300};
    struct tn_period_record record = {.state = state, .at_s = last ? seconds(last) : 0};

    return tn_plan_cron(&r, &record, seconds(now));
}

static void assert_plan(struct tn_plan p, enum tn_plan_kind kind, const char *at)
{
    assert_int_equal(p.kind, kind);
    assert_int_equal(p.at_s, seconds(at));
}

#define T17 "2026-11-17 03:00"
#define T16 "2026-11-16 03:00"
#define T14 "2026-11-14 03:00"

static void test_once_a_period(void **state)
{
    (void)state;
    assert_plan(plan(0, 0, TN_PERIOD_DONE, T16, "2026-11-17 03:00:01"), TN_PLAN_RUN, T17);
    assert_plan(plan(0, 0, TN_PERIOD_DONE, T17, "2026-11-17 03:00:02"), TN_PLAN_NOTHING, T17);
    assert_plan(plan(0, 0, TN_PERIOD_DONE, T16, "2026-11-17 02:59:59"), TN_PLAN_NOTHING, T16);
    /* Another machine's clock is ahead. */
    assert_plan(plan(0, 0, TN_PERIOD_DONE, T17, "2026-11-17 02:59"), TN_PLAN_NOTHING, T17);
}

static void test_catch_up(void **state)
{
    struct tn_plan p;

    (void)state;
    /* At nine, after three missed nights. */
    assert_plan(plan(TN_CATCH_UP_ONCE, 0, TN_PERIOD_DONE, T14, "2026-11-17 09:00"), TN_PLAN_RUN,
                T17);
    p = plan(TN_CATCH_UP_SKIP, 0, TN_PERIOD_DONE, T14, "2026-11-17 09:00");
    assert_plan(p, TN_PLAN_NOTE, T17);
    assert_int_equal(p.state, TN_PERIOD_SKIPPED);
    assert_plan(plan(TN_CATCH_UP_SKIP, 0, TN_PERIOD_DONE, T14, "2026-11-17 03:04"), TN_PLAN_RUN,
                T17);
    assert_plan(plan(TN_CATCH_UP_ALL, 0, TN_PERIOD_DONE, T14, "2026-11-17 09:00"), TN_PLAN_RUN,
                "2026-11-15 03:00");
    assert_plan(plan(TN_CATCH_UP_ALL, 0, TN_PERIOD_DONE, T16, "2026-11-17 09:00"), TN_PLAN_RUN,
                T17);
    /* A year of them: the last hundred. */
    assert_plan(plan(TN_CATCH_UP_ALL, 0, TN_PERIOD_DONE, "2025-11-17 03:00", "2026-11-17 09:00"),
                TN_PLAN_RUN, "2026-08-10 03:00");
    /* What was skipped stays so. */
    assert_plan(plan(TN_CATCH_UP_ONCE, 0, TN_PERIOD_SKIPPED, T17, "2026-11-17 09:00"),
                TN_PLAN_NOTHING, T17);
}

static void test_first_time(void **state)
{
    (void)state;
    assert_plan(plan(0, 0, TN_PERIOD_NONE, NULL, "2026-11-17 03:00:30"), TN_PLAN_RUN, T17);
    struct tn_plan p = plan(0, 0, TN_PERIOD_NONE, NULL, "2026-11-17 14:00");
    assert_plan(p, TN_PLAN_NOTE, T17);
    assert_int_equal(p.state, TN_PERIOD_FIRST);
}

static void test_retry(void **state)
{
    static const struct {
        enum tn_retry retry;
        enum tn_period_state state;
        enum tn_plan_kind kind;
    } rows[] = {{TN_RETRY_NEVER, TN_PERIOD_RUNNING, TN_PLAN_NOTHING},
                {TN_RETRY_NEVER, TN_PERIOD_INTERRUPTED, TN_PLAN_NOTHING},
                {TN_RETRY_NEVER, TN_PERIOD_FAILED, TN_PLAN_NOTHING},
                {TN_RETRY_LOST, TN_PERIOD_RUNNING, TN_PLAN_RUN},
                {TN_RETRY_LOST, TN_PERIOD_INTERRUPTED, TN_PLAN_RUN},
                {TN_RETRY_LOST, TN_PERIOD_FAILED, TN_PLAN_NOTHING},
                {TN_RETRY_FAILED, TN_PERIOD_FAILED, TN_PLAN_RUN},
                {TN_RETRY_FAILED, TN_PERIOD_DONE, TN_PLAN_NOTHING}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct tn_period_record record = {.state = rows[i].state};

        assert_plan(plan(TN_CATCH_UP_SKIP, rows[i].retry, rows[i].state, T17, "2026-11-17 09:00"),
                    rows[i].kind, T17);
        assert_int_equal(tn_plan_once(rows[i].retry, &record), rows[i].kind == TN_PLAN_RUN);
    }
    /* The next period has begun: it stands for the one that was lost, unless all are wanted. */
    assert_plan(plan(TN_CATCH_UP_ONCE, TN_RETRY_LOST, TN_PERIOD_RUNNING, T16, "2026-11-17 09:00"),
                TN_PLAN_RUN, T17);
    assert_plan(plan(TN_CATCH_UP_ALL, TN_RETRY_LOST, TN_PERIOD_RUNNING, T16, "2026-11-17 09:00"),
                TN_PLAN_RUN, T16);
}

static void test_record(void **state)
{
    struct tn_period_record r = {.state = TN_PERIOD_FAILED,
                                 .period = "2026-11-17",
                                 .at_s = 5,
                                 .code = 3,
                                 .tries = 2,
                                 .epoch = 7,
                                 .started_ms = 8,
                                 .ended_ms = 9,
                                 .by = "a",
                                 .schedule = "0 3 * * *"},
                            back = {0};
    size_t len;
    char *text = tn_period_record_encode(&r, &len);

    (void)state;
    assert_non_null(text);
    assert_int_equal(tn_period_record_decode(text, len, &back, NULL), TENURE_OK);
    assert_memory_equal(&r, &back, sizeof r);
    for (size_t i = 0; i < len; i++)
        assert_int_equal(tn_period_record_decode(text, i, &back, NULL), TENURE_CORRUPT);
    free(text);
    assert_int_equal(tn_period_record_decode("[]", 2, &back, NULL), TENURE_CORRUPT);
    assert_int_equal(
        tn_period_record_decode("{\"state\":\"no\",\"period\":\"p\"}", 27, &back, NULL),
        TENURE_CORRUPT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fields),
        cmocka_unit_test(test_month_ends),
        cmocka_unit_test(test_clocks_set_forward),
        cmocka_unit_test(test_clocks_set_back),
        cmocka_unit_test(test_last_and_next_agree),
        cmocka_unit_test(test_every),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_once_a_period),
        cmocka_unit_test(test_catch_up),
        cmocka_unit_test(test_first_time),
        cmocka_unit_test(test_retry),
        cmocka_unit_test(test_record),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
