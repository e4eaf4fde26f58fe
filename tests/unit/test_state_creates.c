/* Creates and seals over a store that loses and delays: nobody comes in late. */
#include "state_script.h"

static void land(void)
{
    assert_int_equal(tn_fault_flush(fault), 1);
}

/* A create whose outcome nobody knows lands between the read of the next load and the
 * tombstone with which that keeps strangers' creates out: it is not buried under it. */
static void own_late_create_is_not_buried(void **state)
{
    tenure_state *a = lead("fault:f", 10);

    (void)state;
    script = (struct script){.key = X,
                             .swaps = {{.action = TN_FAULT_LATER, .later_ns = INT64_MAX / 4},
                                       {.action = TN_FAULT_FAIL, .status = TENURE_DENIED}}};
    assert_int_equal(put(a, "x", "late"), TENURE_UNKNOWN);
    script = (struct script){.key = X, .ahead = land};
    expect(a, "x", "late");
    assert_null(script.ahead); /* it did land just there */
    assert_int_equal(put(a, "x", "2"), TENURE_OK);
    tenure_state_close(a);
}

static void late_create_of_a_stale_leader_is_kept_out(void **state)
{
    tenure_state *a, *b;

    for (int whole = 0; whole < 2; whole++) {
        a = lead("fault:f", 10 + 2 * (unsigned)whole);
        script = (struct script){.key = whole ? "app/state/docs/y" : X,
                                 .swaps = {{.action = TN_FAULT_LATER, .later_ns = INT64_MAX / 4},
                                           {.action = TN_FAULT_FAIL, .status = TENURE_DENIED}}};
        assert_int_equal(put(a, whole ? "y" : "x", "late"), TENURE_UNKNOWN);
        b = lead(*state, 11 + 2 * (unsigned)whole);
        if (whole)
            seal(b);
        expect(b, whole ? "y" : "x", NULL);
        assert_int_equal(tn_fault_flush(fault), 0);
        expect(b, whole ? "y" : "x", NULL);
        assert_int_equal(put(b, whole ? "y" : "x", "mine"), TENURE_OK);
        assert_int_equal(put(a, whole ? "y" : "x", "again"), TENURE_FENCED);
        tenure_state_close(a);
        tenure_state_close(b);
    }
}

/* An operator creates what was announced while a commit is about to block the place: the
 * committer has not seen that, and does not write over it. */
static void operators_create_beside_a_block_is_told(void **state)
{
    tenure_state *a = lead("fault:f", 10), *b = lead("fault:f", 11);

    inner_url = *state;
    script = (struct script){.key = X,
                             .swaps = {{.action = TN_FAULT_DROP_REQUEST},
                                       {.action = TN_FAULT_FAIL, .status = TENURE_DENIED}}};
    assert_int_equal(put(a, "x", "never"), TENURE_UNKNOWN);
    script = (struct script){.key = X, .ahead = edit_x};
    assert_int_equal(put(b, "x", "over it"), TENURE_CONFLICT);
    assert_null(script.ahead);
    expect(b, "x", "edited");
    assert_int_equal(put(b, "x", "2"), TENURE_OK);
    tenure_state_close(a);
    tenure_state_close(b);
}

/* The announcement itself may be lost or late; then nothing was created. */
static void unknown_announcement_creates_nothing(void **state)
{
    tenure_state *a = lead("fault:f", 10), *b;

    assert_int_equal(put(a, "first", "1"), TENURE_OK);
    script = (struct script){.key = "app/state/docs",
                             .swaps = {{.action = TN_FAULT_LATER, .later_ns = INT64_MAX / 4},
                                       {.action = TN_FAULT_FAIL, .status = TENURE_DENIED}}};
    assert_int_equal(put(a, "x", "2"), TENURE_TIMEOUT);
    assert_int_equal(tn_fault_flush(fault), 1);
    assert_int_equal(put(a, "y", "3"), TENURE_OK);
    b = lead(*state, 11);
    expect(b, "x", NULL);
    expect(b, "y", "3");
    tenure_state_close(a);
    tenure_state_close(b);
}

static tn_fault *slow; /* the operator's way to the store */

static void hold_z(void *arg, const struct tn_fault_event *event, struct tn_fault_plan *plan)
{
    (void)arg;
    if (event->call == TN_CALL_SWAP && strcmp(event->key, "app/state/docs/z") == 0)
        *plan = (struct tn_fault_plan){.action = TN_FAULT_LATER, .later_ns = INT64_MAX / 4};
}

static void create_z_slowly(void)
{
    struct tenure_document none = {0};
    tenure_state *op = lead("fault:slow", 0);

    assert_int_equal(tenure_state_edit(op, "docs", "z", &none, "op", 2, soon(), NULL),
                     TENURE_UNKNOWN);
    tenure_state_close(op);
}

/* The answer to a leader's announcement is lost, and an operator announces on top of it before it
 * is read back: the leader's next announcement keeps the operator's, whose create is still on its
 * way when the collection changes hands. */
static void announcement_of_an_operator_is_kept(void **state)
{
    tenure_state *a = lead("fault:f", 10), *b;
    struct tenure_error err;

    if (tn_fault_new("slow", *state, &slow, &err))
        fail_msg("%s", err.text);
    tn_fault_hook(slow, hold_z, NULL);
    seal(a);
    script = (struct script){.key = "app/state/docs",
                             .swaps = {{.action = TN_FAULT_DROP_ANSWER}},
                             .between = create_z_slowly};
    assert_int_equal(put(a, "y", "1"), TENURE_OK);
    assert_null(script.between); /* it was announced just there */
    script = (struct script){.key = "app/state/docs", .between = create_z_slowly};
    assert_int_equal(put(a, "w", "1"), TENURE_OK);
    assert_non_null(script.between); /* read again once, not for ever */
    script.between = NULL;
    b = lead(*state, 11);
    seal(b);
    assert_int_equal(tn_fault_flush(slow), 0);
    assert_int_equal(put(a, "z", "stale"), TENURE_FENCED);
    expect(b, "z", NULL);
    expect(b, "y", "1");
    expect(b, "w", "1");
    tenure_state_close(a);
    tenure_state_close(b);
    tn_fault_free(slow);
}

static void seal_survives_lost_answers(void **state)
{
    tenure_state *a = lead(*state, 10), *b = lead("fault:f", 11);

    assert_int_equal(put(a, "x", "1"), TENURE_OK);
    script = (struct script){.key = X,
                             .swaps = {{.action = TN_FAULT_DROP_REQUEST},
                                       {.action = TN_FAULT_LATER, .calls = 1},
                                       {.action = TN_FAULT_DROP_ANSWER}}};
    expect(b, "x", "1");
    assert_int_equal(put(a, "x", "2"), TENURE_FENCED);
    assert_int_equal(put(b, "x", "3"), TENURE_OK);
    tenure_state_close(a);
    tenure_state_close(b);
}

/* The answer to the seal of a whole collection is lost, and an operator edits what was sealed
 * before it is looked at again.  The library saw the edit and its caller did not: no commit
 * undoes it before a load has shown it. */
static void edit_over_an_unanswered_seal_is_not_undone(void **state)
{
    inner_url = *state;
    for (unsigned deleted = 0; deleted < 2; deleted++) {
        tenure_state *a = lead(*state, 10 + 2 * deleted), *b = lead("fault:f", 11 + 2 * deleted);
        struct tenure_commit gone = {.collection = "docs", .id = "x", .remove = true};

        assert_int_equal(put(a, "x", "1"), TENURE_OK);
        if (deleted)
            assert_int_equal(tenure_state_commit(a, &gone, 1, soon(), NULL), TENURE_OK);
        script = (struct script){
            .key = X, .swaps = {{.action = TN_FAULT_DROP_ANSWER}}, .between = edit_x};
        seal(b);
        assert_null(script.between); /* it was edited just there */
        assert_int_equal(put(b, "x", "over it"), TENURE_CONFLICT);
        expect(b, "x", "edited");
        assert_int_equal(put(b, "x", "2"), TENURE_OK);
        tenure_state_close(a);
        tenure_state_close(b);
    }
}

/* A batch that is cut: what is told OK is there, and sealing goes through. */
static unsigned batches;

static void cut_batches(void *arg, const struct tn_fault_event *event, struct tn_fault_plan *plan)
{
    (void)arg;
    if (event->call == TN_CALL_BATCH && batches++ % 2 == 0)
        *plan = (struct tn_fault_plan){.action = TN_FAULT_CUT, .calls = (unsigned)event->n / 2};
}

static void cut_batches_are_settled_one_by_one(void **state)
{
    enum { N = 50 };
    struct tenure_commit c[N];
    char ids[N][8];
    tenure_state *a = lead("fault:f", 10), *b = lead("fault:f", 11);

    (void)state;
    tn_fault_hook(fault, cut_batches, NULL);
    for (int i = 0; i < N; i++) {
        snprintf(ids[i], sizeof ids[i], "i%d", i);
        c[i] = (struct tenure_commit){.collection = "docs", .id = ids[i], .data = "v", .len = 1};
    }
    assert_int_equal(tenure_state_commit(a, c, N, soon(), NULL), TENURE_OK);
    batches = 0;
    seal(b);
    assert_true(batches > 0);
    for (int i = 0; i < N; i++) {
        assert_int_equal(c[i].seq, 1);
        expect(b, ids[i], "v");
    }
    assert_int_equal(tenure_state_commit(a, c, N, soon(), NULL), TENURE_FENCED);
    tenure_state_close(a);
    tenure_state_close(b);
}

/* More names than a root can announce at once. */
static void creates_beyond_what_a_root_holds(void **state)
{
    enum { N = 12000 };
    struct tenure_commit *c = calloc(N, sizeof *c);
    char(*ids)[128] = calloc(N, sizeof *ids);
    tenure_state *a = lead(*state, 10);
    struct tenure_error err = {0};

    for (int i = 0; i < N; i++) {
        snprintf(ids[i], sizeof ids[i], "%0120d", i);
        c[i] = (struct tenure_commit){.collection = "docs", .id = ids[i], .data = "v", .len = 1};
    }
    seal(a);
    if (tenure_state_commit(a, c, N, within_ms(300000), &err))
        fail_msg("%s", err.text);
    tenure_state_close(a);
    free(c);
    free(ids);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(own_late_create_is_not_buried),
        T(late_create_of_a_stale_leader_is_kept_out),
        T(unknown_announcement_creates_nothing),
        T(announcement_of_an_operator_is_kept),
        T(seal_survives_lost_answers),
        T(cut_batches_are_settled_one_by_one),
        T(creates_beyond_what_a_root_holds),
        T(edit_over_an_unanswered_seal_is_not_undone),
        T(operators_create_beside_a_block_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
