/*
 * The arithmetic of a lease.  The safety condition (D + K) / (1 - rho) <= W / (1 + rho) is checked
 * without rounding: in whole numbers of 128 bits, on both sides multiplied out.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/lease.h"
#include "core/timing.h"

#define PPM 1000000

__extension__ typedef __int128 wide;

/* xorshift64*: the same numbers in every run. */
static uint64_t state = 0x9e3779b97f4a7c15;

static uint64_t draw(uint64_t below)
{
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return (state * 0x2545f4914f6cdd1d >> 11) % below;
}

/* (D + K) / (1 - rho) <= W / (1 + rho), with rho in parts per million. */
static int safe(int64_t hold_ns, int64_t kill_ns, int64_t ttl_ns, uint32_t rho_ppm)
{
    wide left = ((wide)hold_ns + kill_ns) * (PPM + (int64_t)rho_ppm);
    wide right = (wide)ttl_ns * (PPM - (int64_t)rho_ppm);

    return left <= right;
}

/* ---- D ------------------------------------------------------------------- */

static void test_hold_worked_example(void **unused)
{
    (void)unused;
    /* 15 s x 0.9 / 1.1 - 1 s = 11.2727... s, rounded down to the microsecond. */
    assert_int_equal(tn_timing_hold(15 * TN_S, TN_S, TN_RHO_DEFAULT_PPM), INT64_C(11272727000));
    assert_int_equal(tn_timing_hold(11 * TN_S, TN_S, TN_RHO_DEFAULT_PPM), 8 * TN_S);
    assert_int_equal(tn_timing_hold(15 * TN_S, TN_S, 0), 14 * TN_S);
    assert_int_equal(tn_timing_hold(15 * TN_S, TN_S, 500000), 4 * TN_S);
    assert_int_equal(tn_timing_hold(TN_S, TN_S / 10, TN_RHO_DEFAULT_PPM), INT64_C(718181000));
}

static void test_hold_is_never_negative(void **unused)
{
    (void)unused;
    assert_int_equal(tn_timing_hold(15 * TN_S, 15 * TN_S, 0), 0);
    assert_int_equal(tn_timing_hold(15 * TN_S, INT64_MAX, 0), 0);
    assert_int_equal(tn_timing_hold(15 * TN_S, TN_S, PPM), 0);
    assert_int_equal(tn_timing_hold(15 * TN_S, TN_S, 3 * PPM), 0);
    assert_int_equal(tn_timing_hold(11 * TN_S, 9 * TN_S, TN_RHO_DEFAULT_PPM), 0);
    assert_int_equal(tn_timing_hold(11 * TN_S, 9 * TN_S - 1, TN_RHO_DEFAULT_PPM), 1);
}

/* Whatever W, K and rho are: safe, and at most a microsecond less than what would be. */
static void test_hold_is_safe_and_tight(void **unused)
{
    const int64_t ttl_max = (int64_t)TN_TTL_MAX_MS * TN_MS;

    (void)unused;
    for (int i = 0; i < 1000000; i++) {
        int64_t ttl = i % 2 ? (int64_t)draw((uint64_t)ttl_max + 1)
                            : (int64_t)(TN_TTL_MIN_MS + draw(TN_TTL_MAX_MS)) * TN_MS;
        int64_t kill = (int64_t)draw((uint64_t)(i % 3 ? TN_S : ttl) + 1);
        uint32_t rho = (uint32_t)draw(i % 5 ? TN_RHO_MAX_PPM + 1 : 3);
        if (ttl > ttl_max)
            ttl = ttl_max;
        int64_t hold = tn_timing_hold(ttl, kill, rho);

        assert_in_range(hold, 0, ttl);
        if (hold == 0)
            continue;
        assert_true(safe(hold, kill, ttl, rho));
        assert_false(safe(hold + 2000, kill, ttl, rho));
    }
}

/* ---- Plans --------------------------------------------------------------- */

static void test_plan_of_nothing_is_the_usual(void **unused)
{
    struct tn_timing_wish wish = {0};
    struct tn_timing t;

    (void)unused;
    assert_int_equal(tn_timing_plan(&wish, &t), TN_TIMING_OK);
    assert_int_equal(t.ttl_ns, 15 * TN_S);
    assert_int_equal(t.hold_ns, INT64_C(11272727000));
    assert_int_equal(t.kill_ns, TN_S);
    assert_int_equal(t.renew_ns, 5 * TN_S);
    assert_int_equal(t.request_ns, 2 * TN_S);
    assert_int_equal(t.retry_ns, TN_S / 2);
    assert_int_equal(t.poll_ns, 5 * TN_S);
    assert_int_equal(t.grace_ns, INT64_C(2272727000));
    assert_int_equal(t.rho_ppm, TN_RHO_DEFAULT_PPM);
    wish.notifies = true;
    assert_int_equal(tn_timing_plan(&wish, &t), TN_TIMING_OK);
    assert_int_equal(t.poll_ns, INT64_C(7500000000));
}

static void test_plan_takes_wishes(void **unused)
{
    const struct tn_timing_wish wish = {
        .ttl_ns = 30 * TN_S,
        .renew_ns = 4 * TN_S,
        .kill_ns = 500 * TN_MS,
        .grace_ns = 3 * TN_S,
        .request_ns = 5 * TN_S,
        .poll_ns = 9 * TN_S,
        .rho_ppm = 1000,
        .notifies = true,
    };
    struct tn_timing t;

    (void)unused;
    assert_int_equal(tn_timing_plan(&wish, &t), TN_TIMING_OK);
    assert_int_equal(t.ttl_ns, 30 * TN_S);
    assert_int_equal(t.kill_ns, 500 * TN_MS);
    assert_int_equal(t.hold_ns, tn_timing_hold(30 * TN_S, 500 * TN_MS, 1000));
    assert_int_equal(t.renew_ns, 4 * TN_S);
    assert_int_equal(t.request_ns, 5 * TN_S);
    assert_int_equal(t.retry_ns, TN_S); /* never longer than a second */
    assert_int_equal(t.poll_ns, 9 * TN_S);
    assert_int_equal(t.grace_ns, 3 * TN_S);
}

static void test_plan_works_at_both_ends(void **unused)
{
    struct tn_timing_wish wish = {.ttl_ns = TN_S};
    struct tn_timing t;

    (void)unused;
    assert_int_equal(tn_timing_plan(&wish, &t), TN_TIMING_OK);
    assert_int_equal(t.kill_ns, 100 * TN_MS); /* K scales with the ttl */
    assert_int_equal(t.hold_ns, INT64_C(718181000));
    wish.ttl_ns = 3600 * TN_S;
    assert_int_equal(tn_timing_plan(&wish, &t), TN_TIMING_OK);
    assert_int_equal(t.kill_ns, TN_S);
    assert_int_equal(t.grace_ns, 8 * TN_S);
    wish.rho_ppm = TN_RHO_MAX_PPM;
    wish.renew_ns = 600 * TN_S;
    assert_int_equal(tn_timing_plan(&wish, &t), TN_TIMING_OK);
}

/* ---- Faults -------------------------------------------------------------- */

static enum tn_timing_fault fault_of(struct tn_timing_wish wish)
{
    struct tn_timing t;

    return tn_timing_plan(&wish, &t);
}

#define W(...) fault_of((struct tn_timing_wish){__VA_ARGS__})

static void test_fault_ttl(void **unused)
{
    (void)unused;
    assert_int_equal(W(.ttl_ns = 999 * TN_MS), TN_TIMING_TTL);
    assert_int_equal(W(.ttl_ns = TN_S), TN_TIMING_OK);
    assert_int_equal(W(.ttl_ns = 3600 * TN_S), TN_TIMING_OK);
    assert_int_equal(W(.ttl_ns = 3600 * TN_S + TN_MS), TN_TIMING_TTL);
    assert_int_equal(W(.ttl_ns = 2 * TN_S + 1), TN_TIMING_TTL);
    assert_int_equal(W(.ttl_ns = -1), TN_TIMING_TTL);
    assert_int_equal(W(.ttl_ns = INT64_MAX), TN_TIMING_TTL);
    assert_int_equal(W(.ttl_ns = INT64_MIN), TN_TIMING_TTL);
}

static void test_fault_rho(void **unused)
{
    (void)unused;
    assert_int_equal(W(.rho_ppm = 1), TN_TIMING_OK);
    assert_int_equal(W(.rho_ppm = TN_RHO_MAX_PPM, .renew_ns = TN_S), TN_TIMING_OK);
    assert_int_equal(W(.rho_ppm = TN_RHO_MAX_PPM + 1), TN_TIMING_RHO);
    assert_int_equal(W(.rho_ppm = UINT32_MAX), TN_TIMING_RHO);
}

static void test_fault_kill(void **unused)
{
    (void)unused;
    assert_int_equal(W(.kill_ns = -1), TN_TIMING_KILL);
    assert_int_equal(W(.ttl_ns = 11 * TN_S, .kill_ns = 9 * TN_S), TN_TIMING_KILL);
    assert_int_equal(W(.kill_ns = INT64_MAX), TN_TIMING_KILL);
    assert_int_equal(W(.kill_ns = INT64_MIN), TN_TIMING_KILL);
    assert_int_equal(W(.kill_ns = 1), TN_TIMING_OK);
}

static void test_fault_renew(void **unused)
{
    (void)unused;
    assert_int_equal(W(.renew_ns = -1), TN_TIMING_RENEW);
    assert_int_equal(W(.renew_ns = 7500 * TN_MS), TN_TIMING_RENEW);
    assert_int_equal(W(.renew_ns = 7500 * TN_MS - 1, .request_ns = TN_S), TN_TIMING_OK);
    assert_int_equal(W(.renew_ns = INT64_MAX), TN_TIMING_RENEW);
    assert_int_equal(W(.renew_ns = TN_MS - 1), TN_TIMING_RENEW);
    assert_int_equal(W(.renew_ns = TN_MS), TN_TIMING_OK);
}

/* What is advised works, and a millisecond more does not: whichever of the two bounds it is. */
static void test_renew_max(void **unused)
{
    static const int64_t ttls_ms[] = {1000, 1001, 2000, 5000, 15000, 15001, 60000, 3600000};
    struct tn_timing t;

    (void)unused;
    for (size_t i = 0; i < sizeof ttls_ms / sizeof ttls_ms[0]; i++) {
        struct tn_timing_wish wish = {.ttl_ns = ttls_ms[i] * TN_MS, .renew_ns = 3600 * TN_S};

        assert_int_equal(tn_timing_plan(&wish, &t), TN_TIMING_RENEW);
        wish.renew_ns = tn_timing_renew_max(&t);
        assert_int_equal(tn_timing_plan(&wish, &t), TN_TIMING_OK);
        wish.renew_ns += TN_MS;
        assert_int_not_equal(tn_timing_plan(&wish, &t), TN_TIMING_OK);
    }
    const int64_t hopeless[] = {-1, 11 * TN_S, INT64_MAX};
    for (size_t i = 0; i < sizeof hopeless / sizeof hopeless[0]; i++) {
        struct tn_timing_wish wish = {.request_ns = hopeless[i], .renew_ns = -1};

        assert_int_equal(tn_timing_plan(&wish, &t), TN_TIMING_RENEW);
        assert_int_equal(tn_timing_renew_max(&t), 0);
    }
}

static void test_fault_request(void **unused)
{
    (void)unused;
    assert_int_equal(W(.request_ns = -1), TN_TIMING_REQUEST);
    assert_int_equal(W(.request_ns = INT64_MAX), TN_TIMING_REQUEST);
    /* 5 s + 2 x 3.1363635 s = D exactly: fits, and leaves no grace. */
    assert_int_equal(W(.request_ns = INT64_C(3136363500)), TN_TIMING_OK);
    assert_int_equal(W(.request_ns = INT64_C(3136363501)), TN_TIMING_REQUEST);
    assert_int_equal(W(.rho_ppm = TN_RHO_MAX_PPM), TN_TIMING_REQUEST);
}

static void test_fault_poll_and_grace(void **unused)
{
    (void)unused;
    assert_int_equal(W(.poll_ns = -1), TN_TIMING_POLL);
    assert_int_equal(W(.poll_ns = TN_MS - 1), TN_TIMING_POLL);
    assert_int_equal(W(.poll_ns = TN_MS), TN_TIMING_OK);
    assert_int_equal(W(.poll_ns = 3600 * TN_S), TN_TIMING_OK);
    assert_int_equal(W(.poll_ns = 3600 * TN_S + 1), TN_TIMING_POLL);
    assert_int_equal(W(.grace_ns = -1), TN_TIMING_GRACE);
    assert_int_equal(W(.grace_ns = INT64_MIN), TN_TIMING_GRACE);
    assert_int_equal(W(.grace_ns = INT64_MAX), TN_TIMING_OK);
}

/* A wish at random: mostly sensible, sometimes anything. */
static int64_t wish_about(int64_t usual)
{
    switch (draw(4)) {
    case 0:
        return 0;
    case 1:
        return (int64_t)draw(UINT64_MAX);
    default:
        return (int64_t)draw((uint64_t)usual * 2);
    }
}

/* Whatever is asked for is refused, or keeps every promise of core/timing.h. */
static void test_plan_is_refused_or_safe(void **unused)
{
    int accepted = 0;

    (void)unused;
    for (int i = 0; i < 1000000; i++) {
        int64_t ttl = (int64_t)(1000 + draw(60000)) * TN_MS;
        struct tn_timing_wish wish = {
            .ttl_ns = draw(8) ? ttl : wish_about(ttl),
            .renew_ns = wish_about(ttl / 3),
            .kill_ns = wish_about(ttl / 10),
            .grace_ns = wish_about(ttl / 2),
            .request_ns = wish_about(ttl / 10),
            .poll_ns = wish_about(ttl / 2),
            .rho_ppm = draw(8) ? (uint32_t)draw(200000) : (uint32_t)draw(UINT32_MAX),
            .notifies = draw(2),
        };
        struct tn_timing t;

        if (tn_timing_plan(&wish, &t) != TN_TIMING_OK)
            continue;
        accepted++;
        assert_true(safe(t.hold_ns, t.kill_ns, t.ttl_ns, t.rho_ppm));
        assert_true(t.hold_ns > 0 && t.kill_ns > 0 && t.renew_ns > 0 && t.request_ns > 0);
        assert_true(t.grace_ns >= 0 && t.poll_ns >= TN_MS && t.retry_ns >= TN_MS);
        /* TERM never falls before the renewal and its retry are due. */
        assert_true(t.renew_ns + 2 * t.request_ns <= t.hold_ns - t.grace_ns);
        assert_true(t.ttl_ns % TN_MS == 0 && t.retry_ns <= TN_S);
        /* A claim that took as long as it may is renewed like any other. */
        assert_true(tn_timing_contend(&t) >= t.request_ns);
        assert_true(tn_timing_contend(&t) <= t.request_ns || tn_timing_contend(&t) <= t.renew_ns);
        /* Between two renewals, or two polls, there is time for a request beside them. */
        assert_true(2 * tn_timing_beside(&t) <= t.renew_ns &&
                    2 * tn_timing_beside(&t) <= t.poll_ns);
    }
    assert_true(accepted > 10000);
}

static void test_times_beside_a_renewal(void **unused)
{
    struct tn_timing t = {.request_ns = 2 * TN_S, .renew_ns = 5 * TN_S, .poll_ns = 7 * TN_S};

    (void)unused;
    assert_int_equal(tn_timing_beside(&t), 2 * TN_S); /* a whole request */
    assert_int_equal(tn_timing_contend(&t), 2 * TN_S);
    t.request_ns = TN_S / 2;
    t.renew_ns = 3 * TN_S / 2;
    assert_int_equal(tn_timing_beside(&t), TN_S / 2);
    assert_int_equal(tn_timing_contend(&t), 3 * TN_S / 2);
    t.renew_ns = 300 * TN_MS; /* renewed more often than a request may last */
    assert_int_equal(tn_timing_beside(&t), 150 * TN_MS);
    assert_int_equal(tn_timing_contend(&t), TN_S / 2);
    t.poll_ns = 10 * TN_MS;
    assert_int_equal(tn_timing_beside(&t), 5 * TN_MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hold_worked_example),
        cmocka_unit_test(test_hold_is_never_negative),
        cmocka_unit_test(test_hold_is_safe_and_tight),
        cmocka_unit_test(test_plan_of_nothing_is_the_usual),
        cmocka_unit_test(test_plan_takes_wishes),
        cmocka_unit_test(test_plan_works_at_both_ends),
        cmocka_unit_test(test_fault_ttl),
        cmocka_unit_test(test_fault_rho),
        cmocka_unit_test(test_fault_kill),
        cmocka_unit_test(test_fault_renew),
        cmocka_unit_test(test_renew_max),
        cmocka_unit_test(test_fault_request),
        cmocka_unit_test(test_fault_poll_and_grace),
        cmocka_unit_test(test_plan_is_refused_or_safe),
        cmocka_unit_test(test_times_beside_a_renewal),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
