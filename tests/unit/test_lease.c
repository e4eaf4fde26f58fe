/* The lease record's rules: whose it is, whether it can be believed, which epoch follows (I2). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/lease.h"

static const uint8_t one[TENURE_NONCE_SIZE] = {1}, two[TENURE_NONCE_SIZE] = {2};

static void test_a_grant_is_holder_incarnation_and_grant(void **unused)
{
    struct tn_lease lease = {.holder = "a", .incarnation = {1}, .grant = {2}};

    (void)unused;
    assert_true(tn_lease_is_grant(&lease, "a", one, two));
    assert_false(tn_lease_is_grant(&lease, "b", one, two));
    assert_false(tn_lease_is_grant(&lease, "ab", one, two));
    assert_false(tn_lease_is_grant(&lease, "a", two, two));
    assert_false(tn_lease_is_grant(&lease, "a", one, one));
    lease.holder[0] = '\0';
    assert_false(tn_lease_is_grant(&lease, "", one, two)); /* released is nobody's */
}

static bool sane(uint64_t epoch, uint32_t ttl_ms)
{
    const struct tn_lease lease = {.epoch = epoch, .ttl_ms = ttl_ms};

    return tn_lease_sane(&lease);
}

static void test_bounds(void **unused)
{
    (void)unused;
    assert_true(sane(1, TN_TTL_MIN_MS));
    assert_true(sane(TN_EPOCH_MAX - 1, TN_TTL_MAX_MS));
    assert_false(sane(0, TN_TTL_MIN_MS));
    assert_false(sane(TN_EPOCH_MAX, TN_TTL_MIN_MS));
    assert_false(sane(UINT64_MAX, TN_TTL_MIN_MS));
    assert_false(sane(1, TN_TTL_MIN_MS - 1));
    assert_false(sane(1, TN_TTL_MAX_MS + 1));
    assert_false(sane(1, UINT32_MAX));
}

/* xorshift64*: the same numbers in every run. */
static uint64_t draw(void)
{
    static uint64_t state = 0x9e3779b97f4a7c15;

    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return state * 0x2545f4914f6cdd1d;
}

/* Small, about now, near the end of the range, or anything. */
static uint64_t any_epoch(void)
{
    const uint64_t places[] = {0, 1700000000000, TN_EPOCH_MAX - (TN_EPOCH_MAX >> 10),
                               TN_EPOCH_MAX - 3, 0};
    uint64_t place = draw() % 6;

    return place == 5 ? draw() : places[place] + draw() % 7;
}

static void test_the_next_epoch_is_higher_than_all(void **unused)
{
    int none = 0;

    (void)unused;
    for (int i = 0; i < 1000000; i++) {
        uint64_t previous = any_epoch(), wall = any_epoch(), floor = any_epoch();
        uint64_t next = tn_epoch_next(previous, wall, floor);

        if (next == 0) {
            assert_true(previous >= TN_EPOCH_MAX - 1 || floor >= TN_EPOCH_MAX - 1);
            none++;
            continue;
        }
        assert_true(sane(next, TN_TTL_MIN_MS));
        assert_true(next > previous && next > floor);
        /* And no higher than something asks for. */
        assert_true(next == previous + 1 || next == floor + 1 || next == wall);
        if (wall < TN_EPOCH_MAX - (TN_EPOCH_MAX >> 10))
            assert_true(next >= wall);
    }
    assert_true(none > 1000 && none < 900000);
}

static void test_a_tombstone_keeps_the_epoch(void **state)
{
    struct tn_lease last = {.holder = "a", .epoch = 7, .ttl_ms = 15000, .transitions = 3};
    struct tn_lease kept = tn_lease_tombstone(&last, 5, 1000);

    (void)state;
    assert_int_equal(kept.epoch, 7);
    assert_int_equal(kept.transitions, 3);
    assert_string_equal(kept.cause, "removed");
    assert_false(tn_lease_held(&kept));
    assert_true(tn_lease_sane(&kept));
    assert_int_equal(tn_lease_tombstone(&last, 9, 1000).epoch, 9); /* of the state */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_grant_is_holder_incarnation_and_grant),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_the_next_epoch_is_higher_than_all),
        cmocka_unit_test(test_a_tombstone_keeps_the_epoch),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
