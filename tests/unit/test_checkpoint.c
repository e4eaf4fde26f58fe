/* Checkpoints: they only grow, and are committed every n or every t. */
#include "state_kit.h"

#include <unistd.h>

#include "tenure/checkpoint.h"

static tenure_checkpoint *open_with(tenure_state *s, uint64_t every, int64_t every_ns)
{
    struct tenure_checkpoint_options options = TENURE_CHECKPOINT_OPTIONS;
    struct tenure_error err = {0};
    tenure_checkpoint *c = NULL;

    options.every = every;
    options.every_ns = every_ns;
    if (tenure_checkpoint_open(s, "docs", "at", &options, soon(), &c, &err))
        fail_msg("%s", err.text);
    return c;
}

static void every_n_notes(void **state)
{
    tenure_state *a = lead("memory:cp1", 10), *b;
    tenure_checkpoint *c = open_with(a, 3, 0);

    (void)state;
    assert_int_equal(tenure_checkpoint_position(c), 0);
    for (uint64_t i = 1; i <= 7; i++) {
        assert_int_equal(tenure_checkpoint_note(c, 10 * i, soon(), NULL), TENURE_OK);
        assert_int_equal(tenure_checkpoint_durable(c), i / 3 * 30);
    }
    assert_int_equal(tenure_checkpoint_position(c), 70);
    b = lead("memory:cp1", 11); /* finds what was committed, not what was noted */
    tenure_checkpoint *next = open_with(b, 3, 0);
    assert_int_equal(tenure_checkpoint_position(next), 60);
    assert_int_equal(tenure_checkpoint_flush(next, soon(), NULL), TENURE_OK);
    assert_int_equal(tenure_checkpoint_flush(c, soon(), NULL), TENURE_FENCED);
    assert_int_equal(tenure_checkpoint_durable(c), 60);
    tenure_checkpoint_close(c);
    tenure_checkpoint_close(next);
    tenure_state_close(a);
    tenure_state_close(b);
}

static void every_so_long(void **state)
{
    tenure_state *a = lead("memory:cp2", 10);
    tenure_checkpoint *c = open_with(a, 0, INT64_C(3600000000000)), *d;

    (void)state;
    assert_int_equal(tenure_checkpoint_note(c, 1, soon(), NULL), TENURE_OK);
    assert_int_equal(tenure_checkpoint_durable(c), 0);
    assert_int_equal(tenure_checkpoint_flush(c, soon(), NULL), TENURE_OK);
    assert_int_equal(tenure_checkpoint_durable(c), 1);
    d = open_with(a, 1000, 1); /* a nanosecond has always passed */
    usleep(10);
    assert_int_equal(tenure_checkpoint_note(d, 2, soon(), NULL), TENURE_OK);
    assert_int_equal(tenure_checkpoint_durable(d), 2);
    tenure_checkpoint_close(c);
    tenure_checkpoint_close(d);
    tenure_state_close(a);
}

static void never_back(void **state)
{
    tenure_state *a = lead("memory:cp3", 10);
    tenure_checkpoint *c = open_with(a, 0, 0);
    struct tenure_error err = {0};

    (void)state;
    assert_int_equal(tenure_checkpoint_note(c, UINT64_MAX - 1, soon(), NULL), TENURE_OK);
    assert_int_equal(tenure_checkpoint_note(c, UINT64_MAX - 2, soon(), &err), TENURE_INVALID);
    assert_int_equal(tenure_checkpoint_position(c), UINT64_MAX - 1);
    assert_int_equal(tenure_checkpoint_note(c, UINT64_MAX, soon(), NULL), TENURE_OK);
    assert_int_equal(tenure_checkpoint_reload(c, soon(), NULL), TENURE_OK);
    assert_int_equal(tenure_checkpoint_position(c), UINT64_MAX);
    tenure_checkpoint_close(c);
    tenure_state_close(a);
}

/* An operator's edit is not undone; it is adopted when the program asks, also if it goes back. */
static void edits_are_adopted(void **state)
{
    tenure_state *a = lead("memory:cp4", 10), *op = lead("memory:cp4", 0);
    tenure_checkpoint *c = open_with(a, 0, 0), *none = NULL;

    (void)state;
    assert_int_equal(tenure_checkpoint_note(c, 100, soon(), NULL), TENURE_OK);
    assert_int_equal(edit(op, "at", "40\n"), TENURE_OK);
    assert_int_equal(tenure_checkpoint_note(c, 101, soon(), NULL), TENURE_CONFLICT);
    assert_int_equal(tenure_checkpoint_reload(c, soon(), NULL), TENURE_OK);
    assert_int_equal(tenure_checkpoint_position(c), 40);
    assert_int_equal(tenure_checkpoint_note(c, 41, soon(), NULL), TENURE_OK);
    const char *bad[] = {"", "x", "-1", "1 2", "18446744073709551616", "1\n\n"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(edit(op, "at", bad[i]), TENURE_OK);
        assert_int_equal(tenure_checkpoint_open(a, "docs", "at", NULL, soon(), &none, NULL),
                         TENURE_CORRUPT);
        assert_null(none);
    }
    tenure_checkpoint_close(c);
    tenure_state_close(a);
    tenure_state_close(op);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_n_notes),
        cmocka_unit_test(every_so_long),
        cmocka_unit_test(never_back),
        cmocka_unit_test(edits_are_adopted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
