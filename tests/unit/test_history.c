/* The history of terms: what is noted, what is estimated, what is forgotten. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "control/history.h"

static struct tenure_history h;

static int set_up(void **state)
{
    (void)state;
    h = (struct tenure_history)TENURE_HISTORY;
    return 0;
}

static struct tenure_term_record begin(uint64_t epoch, uint64_t from_ms)
{
    struct tenure_term_record t = {.epoch = epoch, .from_ms = from_ms, .cause = "released"};

    snprintf(t.holder, sizeof t.holder, "h%u", (unsigned)epoch);
    return t;
}

static void note(uint64_t epoch, uint64_t from_ms, uint64_t heard_ms)
{
    struct tenure_term_record t = begin(epoch, from_ms);

    tn_history_merge(&h, &t, heard_ms);
}

static void end(uint64_t epoch, uint64_t to_ms)
{
    struct tenure_term_record t = {.epoch = epoch, .to_ms = to_ms, .end = "asked to stop"};

    tn_history_merge(&h, &t, 0);
}

static void test_begin_and_end(void **state)
{
    (void)state;
    note(5, 1000, 0);
    end(5, 3000);
    note(7, 3010, 0);
    assert_int_equal(h.n, 2);
    assert_int_equal(h.terms[0].to_ms, 3000);
    assert_false(h.terms[0].estimated);
    assert_string_equal(h.terms[0].end, "asked to stop");
    assert_string_equal(h.terms[0].cause, "released");
    assert_int_equal(h.terms[0].gap_ms, -1);
    assert_int_equal(h.terms[1].gap_ms, 10);
    assert_int_equal(h.terms[1].to_ms, 0);
}

/* Who died wrote no end; who saw it end later knows better than an estimate. */
static void test_estimates(void **state)
{
    (void)state;
    note(5, 1000, 0);
    note(7, 9000, 4000);
    assert_int_equal(h.terms[0].to_ms, 4000);
    assert_true(h.terms[0].estimated);
    assert_int_equal(h.terms[1].gap_ms, 5000);
    end(5, 4500);
    assert_int_equal(h.terms[0].to_ms, 4500);
    assert_false(h.terms[0].estimated);
    assert_int_equal(h.terms[1].gap_ms, 4500);
    note(9, 9500, 9400); /* an estimate never replaces what was seen */
    assert_int_equal(h.terms[0].to_ms, 4500);
    assert_int_equal(h.terms[1].to_ms, 9400);
}

/* Who was killed is told by its successor; what nobody knows is not nothing. */
static void test_crashes(void **state)
{
    struct tenure_term_record t = begin(7, 2000);

    (void)state;
    note(3, 500, 0);
    note(5, 1000, 0);
    assert_int_equal(h.terms[1].gap_ms, -1);
    assert_string_equal(h.terms[0].end, "");
    snprintf(t.cause, sizeof t.cause, "crashed");
    tn_history_merge(&h, &t, 1980);
    assert_int_equal(h.terms[2].gap_ms, 20);
    assert_string_equal(h.terms[1].end, "crashed");
    assert_string_equal(h.terms[0].end, "");
    t = begin(9, 90000);
    snprintf(t.cause, sizeof t.cause, "expired");
    tn_history_merge(&h, &t, 75000);
    assert_string_equal(h.terms[2].end, "not renewed in time");
    end(7, 76000); /* it was not dead, and knows better */
    assert_string_equal(h.terms[2].end, "asked to stop");
}

/* The old leader's note may come after its successor's. */
static void test_late_notes_find_their_place(void **state)
{
    (void)state;
    note(7, 5000, 0);
    note(5, 1000, 0);
    end(5, 4000);
    assert_int_equal(h.n, 2);
    assert_int_equal(h.terms[0].epoch, 5);
    assert_int_equal(h.terms[1].gap_ms, 1000);
    assert_int_equal(h.terms[1].to_ms, 0);
}

static void test_bounded(void **state)
{
    (void)state;
    for (uint64_t i = 1; i <= 3 * TENURE_TERMS_MAX; i++)
        note(i, i * 1000, 0);
    assert_int_equal(h.n, TENURE_TERMS_MAX);
    assert_int_equal(h.terms[TENURE_TERMS_MAX - 1].epoch, 3 * TENURE_TERMS_MAX);
    assert_int_equal(h.terms[0].epoch, 2 * TENURE_TERMS_MAX + 1);
    note(1, 1000, 0); /* older than all that are kept */
    assert_int_equal(h.terms[0].epoch, 2 * TENURE_TERMS_MAX + 1);
}

static void test_round_trip_and_damage(void **state)
{
    static const char *const damaged[] = {"{", "[]", "{}", "{\"terms\":1}", "{\"a\":1,\"a\":2}"};
    struct tenure_history back = TENURE_HISTORY;
    struct tenure_error err;

    (void)state;
    note(5, 1000, 0);
    note(7, 9000, 4000);
    char *text = tn_history_encode(&h);
    assert_int_equal(tn_history_decode(text, strlen(text), &back, &err), TENURE_OK);
    assert_memory_equal(&back, &h, sizeof h);
    free(text);
    for (size_t i = 0; i < sizeof damaged / sizeof damaged[0]; i++)
        assert_int_equal(tn_history_decode(damaged[i], strlen(damaged[i]), &back, &err),
                         TENURE_CORRUPT);
    assert_int_equal(back.n, 2);
    assert_int_equal(tn_history_decode("", 0, &back, &err), TENURE_OK);
    assert_int_equal(back.n, 0);
}

static void test_in_a_store(void **state)
{
    struct tenure_term_record t = begin(5, 1000);
    tenure_store *store = NULL;
    struct tenure_error err;

    (void)state;
    int64_t by = tenure_now() + INT64_C(10000000000);
    assert_int_equal(tenure_store_open("memory:history", by, &store, &err), TENURE_OK);
    assert_int_equal(tenure_history_look(store, "app", &h, by, &err), TENURE_OK);
    assert_int_equal(h.n, 0);
    assert_int_equal(tenure_history_note(store, "app", &t, 0, by, &err), TENURE_OK);
    assert_int_equal(tenure_history_note(store, "app", &t, 0, by, &err), TENURE_OK);
    assert_int_equal(tenure_history_look(store, "app", &h, by, &err), TENURE_OK);
    assert_int_equal(h.n, 1);
    assert_string_equal(h.terms[0].holder, "h5");
    tenure_store_close(store);
}

/* An id of UTF-8 is shown as it is; what a terminal acts upon is not. */
static void test_ids_beyond_ascii(void **state)
{
    static const char text[] = "{\"terms\":[{\"epoch\":1,\"holder\":\"Z\u00fcrich\"},{\"epoch\":2,"
                               "\"holder\":\"a\\u001bb\"}]}";

    (void)state;
    assert_int_equal(tn_history_decode(text, strlen(text), &h, NULL), TENURE_OK);
    assert_int_equal(h.n, 2);
    assert_string_equal(h.terms[0].holder, "Z\u00fcrich");
    assert_string_equal(h.terms[1].holder, "a?b");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_begin_and_end, set_up),
        cmocka_unit_test_setup(test_ids_beyond_ascii, set_up),
        cmocka_unit_test_setup(test_estimates, set_up),
        cmocka_unit_test_setup(test_crashes, set_up),
        cmocka_unit_test_setup(test_late_notes_find_their_place, set_up),
        cmocka_unit_test_setup(test_bounded, set_up),
        cmocka_unit_test_setup(test_round_trip_and_damage, set_up),
        cmocka_unit_test_setup(test_in_a_store, set_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
