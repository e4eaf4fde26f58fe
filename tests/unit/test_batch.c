/* How a batch is cut: by number, by bytes, by the time that pieces take; and what the rest is told.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "store/batch.h"

#define SWAPS 25

struct sink {
    size_t pieces[SWAPS];
    unsigned n;
    unsigned fails_at; /* the piece that fails; none if it is more than there are */
};

static enum tenure_status send(void *impl, struct tenure_swap *swaps, size_t n, int64_t deadline,
                               struct tenure_error *err)
{
    struct sink *sink = impl;
    bool fails = sink->n == sink->fails_at;

    (void)deadline;
    for (size_t i = 0; i < n; i++)
        swaps[i].status = fails ? TENURE_UNKNOWN : TENURE_OK;
    sink->pieces[sink->n++] = n;
    return fails ? tenure_fail(err, TENURE_TIMEOUT, "no answer") : TENURE_OK;
}

static void test_by_number(void **state)
{
    const struct tenure_store_info info = {.batch_max = 10};
    struct tn_batch_pace pace = {0};
    struct tenure_swap swaps[SWAPS] = {0};
    struct sink sink = {.fails_at = SWAPS};
    struct tenure_error err;

    (void)state;
    assert_int_equal(tn_batch_run(&info, &pace, send, &sink, swaps, SWAPS, INT64_MAX / 2, &err),
                     TENURE_OK);
    assert_int_equal(sink.n, 3);
    assert_int_equal(sink.pieces[0], 10);
    assert_int_equal(sink.pieces[2], 5);
    for (unsigned i = 0; i < SWAPS; i++)
        assert_int_equal(swaps[i].status, TENURE_OK);
}

static void test_by_bytes(void **state)
{
    const struct tenure_store_info info = {.batch_max = 10, .batch_bytes = 100};
    const struct tn_batch_pace pace = {0};
    struct tenure_swap swaps[4] = {{.len = 60}, {.len = 40}, {.len = 1}, {.len = 500}};

    (void)state;
    assert_int_equal(tn_batch_cut(&info, &pace, swaps, 4), 2);
    assert_int_equal(tn_batch_cut(&info, &pace, swaps + 2, 2), 1);
    assert_int_equal(tn_batch_cut(&info, &pace, swaps + 3, 1), 1); /* one is always sent */
}

static void test_atomic_is_not_cut(void **state)
{
    const struct tenure_store_info info = {.batch_max = 2, .batch_bytes = 1, .atomic_batch = true};
    const struct tn_batch_pace pace = {.swaps = 1};
    struct tenure_swap swaps[4] = {{.len = 60}};

    (void)state;
    assert_int_equal(tn_batch_cut(&info, &pace, swaps, 4), 4);
}

/* A piece that lasted four tenths makes the next one a quarter as large; then it grows again. */
static void test_by_time(void **state)
{
    const struct tenure_store_info info = {.batch_max = 1000};
    struct tn_batch_pace pace = {0};
    struct tenure_swap swaps[1000] = {0};

    (void)state;
    tn_batch_measure(&info, &pace, 1000, 400, 100);
    assert_int_equal(tn_batch_cut(&info, &pace, swaps, 1000), 250);
    tn_batch_measure(&info, &pace, 250, 100, 100);
    assert_int_equal(tn_batch_cut(&info, &pace, swaps, 1000), 500);
    tn_batch_measure(&info, &pace, 3, 1, 100); /* too few to tell */
    assert_int_equal(tn_batch_cut(&info, &pace, swaps, 1000), 500);
    tn_batch_measure(&info, &pace, 500, 100, 100);
    assert_int_equal(tn_batch_cut(&info, &pace, swaps, 1000), 1000);
    tn_batch_measure(&info, &pace, 1000, 1000000, 1);
    assert_int_equal(tn_batch_cut(&info, &pace, swaps, 1000), 1);
    tn_batch_measure(&info, &pace, 1, 5, 0); /* no time at all: still one */
    assert_int_equal(tn_batch_cut(&info, &pace, swaps, 1000), 1);
}

static void test_the_rest_after_a_failure(void **state)
{
    const struct tenure_store_info info = {.batch_max = 10};
    const int64_t deadlines[] = {INT64_MAX / 2, 1};
    const enum tenure_status rests[] = {TENURE_UNAVAILABLE, TENURE_TIMEOUT};

    (void)state;
    for (unsigned round = 0; round < 2; round++) {
        struct tn_batch_pace pace = {0};
        struct tenure_swap swaps[SWAPS] = {0};
        struct sink sink = {.fails_at = 0};
        struct tenure_error err;

        assert_int_equal(
            tn_batch_run(&info, &pace, send, &sink, swaps, SWAPS, deadlines[round], &err),
            TENURE_TIMEOUT);
        assert_int_equal(sink.n, 1); /* nothing is sent behind it */
        assert_int_equal(swaps[9].status, TENURE_UNKNOWN);
        assert_int_equal(swaps[10].status, rests[round]);
        assert_int_equal(swaps[SWAPS - 1].status, rests[round]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_number),
        cmocka_unit_test(test_by_bytes),
        cmocka_unit_test(test_atomic_is_not_cut),
        cmocka_unit_test(test_by_time),
        cmocka_unit_test(test_the_rest_after_a_failure),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
