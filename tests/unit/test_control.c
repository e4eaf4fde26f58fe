/* The control register and the candidates' own: what is written, and what hostile bytes do. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/key.h"
#include "control/control.h"
#include "core/timing.h"
#include "faultstore.h"
#include "tenure/elections.h"

struct bed {
    tn_fault *fault;
    tenure_store *store;
    unsigned races; /* edits of somebody else that slip in before a swap */
    enum tn_fault_action action;
    bool ever; /* for all swaps, not just the next */
    unsigned swaps;
    bool reads_fail; /* after the first swap */
    bool inside;
};

static int64_t soon(void)
{
    return tenure_now() + 20 * TN_S;
}

static void put(struct bed *b, const char *key, const char *text)
{
    struct tenure_value value = {0};
    struct tenure_swap swap = {.key = key, .data = text, .len = strlen(text)};

    b->inside = true;
    assert_int_equal(tenure_store_read(b->store, key, &value, soon(), NULL), TENURE_OK);
    swap.expect = value.token;
    assert_int_equal(tenure_nonce(swap.nonce, NULL), TENURE_OK);
    assert_int_equal(tenure_store_swap(b->store, &swap, soon(), NULL), TENURE_OK);
    tenure_value_free(&value);
    b->inside = false;
}

static void on_call(void *arg, const struct tn_fault_event *event, struct tn_fault_plan *plan)
{
    struct bed *b = arg;

    if (event->call == TN_CALL_READ && b->swaps && b->reads_fail)
        *plan = (struct tn_fault_plan){.action = TN_FAULT_FAIL, .status = TENURE_UNAVAILABLE};
    if (event->call != TN_CALL_SWAP || b->inside)
        return;
    b->swaps++;
    plan->action = b->action;
    if (!b->ever)
        b->action = TN_FAULT_PASS;
    if (b->races > 0) {
        b->races--;
        put(b, "w/control", "{\"theirs\":1}");
    }
}

static int set_up(void **state)
{
    static struct bed b;

    memset(&b, 0, sizeof b);
    *state = &b;
    assert_int_equal(tn_fault_new("control", "memory:control", &b.fault, NULL), TENURE_OK);
    assert_int_equal(tenure_store_open("fault:control", soon(), &b.store, NULL), TENURE_OK);
    put(&b, "w/control", "{}");
    tn_fault_hook(b.fault, on_call, &b);
    return 0;
}

static int tear_down(void **state)
{
    struct bed *b = *state;

    tenure_store_close(b->store);
    tn_fault_free(b->fault);
    return 0;
}

static struct tenure_control look(struct bed *b, enum tenure_status expected)
{
    struct tenure_control c = TENURE_CONTROL;

    assert_int_equal(tenure_control_look(b->store, "w", &c, soon(), NULL), expected);
    return c;
}

/* ---- The register -------------------------------------------------------- */

static void test_pause_and_resume(void **state)
{
    struct bed *b = *state;

    assert_false(look(b, TENURE_OK).paused);
    assert_int_equal(tenure_control_pause(b->store, "w", "me", "a reason", soon(), NULL),
                     TENURE_OK);
    struct tenure_control c = look(b, TENURE_OK);
    assert_true(c.paused);
    assert_string_equal(c.paused_by, "me");
    assert_string_equal(c.reason, "a reason");
    assert_true(c.paused_at[0]);
    assert_int_equal(tenure_control_resume(b->store, "w", soon(), NULL), TENURE_OK);
    c = look(b, TENURE_OK);
    assert_false(c.paused);
    assert_string_equal(c.reason, "");
}

static void test_an_edit_keeps_what_others_wrote(void **state)
{
    struct bed *b = *state;
    struct tenure_value value = {0};

    b->races = 2; /* two others are faster, each with a member that we do not know */
    assert_int_equal(tenure_control_pause(b->store, "w", NULL, NULL, soon(), NULL), TENURE_OK);
    assert_int_equal(b->swaps, 3);
    assert_true(look(b, TENURE_OK).paused);
    assert_int_equal(tenure_store_read(b->store, "w/control", &value, soon(), NULL), TENURE_OK);
    assert_non_null(memmem(value.data, value.len, "theirs", 6));
    tenure_value_free(&value);
}

static void test_an_unknown_edit_is_done_again(void **state)
{
    struct bed *b = *state;

    b->action = TN_FAULT_DROP_REQUEST;
    assert_int_equal(tenure_control_yield(b->store, "w", 7, "b", 500, soon(), NULL), TENURE_OK);
    struct tenure_control c = look(b, TENURE_OK);
    assert_string_equal(c.kind, "yield");
    assert_string_equal(c.to, "b");
    assert_int_equal(c.epoch, 7);
    assert_int_equal(c.for_ms, 500);
    assert_int_equal(strlen(c.request), 32);
}

static void test_edits_that_stay_unknown_are_no_storm(void **state)
{
    struct bed *b = *state;

    b->action = TN_FAULT_DROP_REQUEST;
    b->ever = true;
    assert_int_equal(
        tenure_control_pause(b->store, "w", NULL, NULL, tenure_now() + 500 * TN_MS, NULL),
        TENURE_UNKNOWN);
    assert_in_range(b->swaps, 1, 6);
}

static void test_each_request_has_a_name_of_its_own(void **state)
{
    struct bed *b = *state;

    assert_int_equal(tenure_control_yield(b->store, "w", 7, NULL, 0, soon(), NULL), TENURE_OK);
    struct tenure_control first = look(b, TENURE_OK);
    assert_int_equal(tenure_control_yield(b->store, "w", 7, NULL, 0, soon(), NULL), TENURE_OK);
    assert_string_not_equal(first.request, look(b, TENURE_OK).request);
    assert_int_equal(tn_control_roll(b->store, "w", soon(), NULL), TENURE_OK);
    assert_int_equal(look(b, TENURE_OK).roll, 1);
}

/* Who cannot read an order does not act against it. */
static void test_what_cannot_be_read_pauses(void **state)
{
    static const char *const hostile[] = {
        "[]", "1", "{", "{\"paused\":true", "\xff\xfe", "null", "{\"roll\":1,\"roll\":2}"};
    struct bed *b = *state;

    for (size_t i = 0; i < sizeof hostile / sizeof hostile[0]; i++) {
        put(b, "w/control", hostile[i]);
        assert_true(look(b, TENURE_CORRUPT).paused);
        assert_int_equal(tenure_control_resume(b->store, "w", soon(), NULL), TENURE_CORRUPT);
    }
    /* An operator's way out; what can be read is not touched by it. */
    assert_int_equal(tenure_control_reset(b->store, "w", soon(), NULL), TENURE_OK);
    assert_false(look(b, TENURE_OK).paused);
    assert_int_equal(tenure_control_pause(b->store, "w", "me", NULL, soon(), NULL), TENURE_OK);
    assert_int_equal(tenure_control_reset(b->store, "w", soon(), NULL), TENURE_OK);
    assert_true(look(b, TENURE_OK).paused);
}

static void test_hostile_members_are_cut_and_bounded(void **state)
{
    struct bed *b = *state;
    char text[4096], reason[1024];

    memset(reason, 'r', sizeof reason);
    reason[sizeof reason - 1] = '\0';
    snprintf(text, sizeof text,
             "{\"paused\":\"yes\",\"reason\":\"\\u001b[31m\\u009b31m\\u00e9%s\",\"roll\":-4,"
             "\"request\":{\"id\":5,\"kind\":\"yield\",\"to\":[],\"epoch\":-1,\"for_ms\":1e99}}",
             reason);
    put(b, "w/control", text);
    struct tenure_control c = look(b, TENURE_OK);
    assert_false(c.paused); /* only true is true */
    assert_int_equal(strlen(c.reason), sizeof c.reason - 1);
    assert_int_equal(strncmp(c.reason, "?[31m??31m\u00e9r", 13), 0);
    assert_string_equal(c.request, "");
    assert_string_equal(c.to, "");
    assert_int_equal(c.epoch, 0);
    assert_int_equal(c.for_ms, 0);
    assert_int_equal(c.roll, 0);
}

/* ---- Candidates ---------------------------------------------------------- */

struct list {
    unsigned n;
    struct tenure_candidate last;
};

static bool collect(void *arg, const struct tenure_candidate *c)
{
    struct list *l = arg;

    l->n++;
    l->last = *c;
    return true;
}

static struct list candidates(struct bed *b)
{
    struct list l = {0};

    assert_int_equal(tenure_candidates(b->store, "w", collect, &l, soon(), NULL), TENURE_OK);
    return l;
}

/* Done, the answer lost, and then nothing can be read: that is not a failure (I6). */
static void test_an_edit_that_nobody_answers(void **state)
{
    struct bed *b = *state;
    struct tenure_error err = {0};

    b->action = TN_FAULT_DROP_ANSWER;
    b->reads_fail = true;
    assert_int_equal(tenure_control_pause(b->store, "w", "ops", "", soon(), &err), TENURE_UNKNOWN);
    assert_non_null(strstr(err.text, "it may have been done"));
}

static void test_announce_and_withdraw(void **state)
{
    struct bed *b = *state;
    struct tenure_candidate c = TENURE_CANDIDATE, was = TENURE_CANDIDATE;

    snprintf(c.id, sizeof c.id, "host/with \"odd\" letters");
    snprintf(c.state, sizeof c.state, "standby");
    c.healthy = true;
    c.priority = -3;
    c.started_epoch = 99;
    snprintf(c.incarnation, sizeof c.incarnation, "0a");
    assert_int_equal(tn_candidate_announce(b->store, "w", &c, &was, soon(), NULL), TENURE_OK);
    assert_string_equal(was.id, "");
    snprintf(c.incarnation, sizeof c.incarnation, "0b");
    b->action = TN_FAULT_DROP_ANSWER; /* done, and done again: still one */
    c.priority = -4;
    assert_int_equal(tn_candidate_announce(b->store, "w", &c, &was, soon(), NULL), TENURE_OK);
    assert_string_equal(was.incarnation, "0a"); /* not our own first try */
    struct list l = candidates(b);
    assert_int_equal(l.n, 1);
    assert_string_equal(l.last.id, c.id);
    assert_true(l.last.healthy);
    assert_int_equal(l.last.priority, -4);
    assert_int_equal(l.last.started_epoch, 99);
    assert_int_equal(tn_candidate_withdraw(b->store, "w", c.id, "", soon(), NULL), TENURE_OK);
    assert_int_equal(candidates(b).n, 0);
    assert_int_equal(tn_candidate_withdraw(b->store, "w", c.id, "", soon(), NULL), TENURE_OK);
}

static void test_hostile_candidates_are_passed_over(void **state)
{
    struct bed *b = *state;

    put(b, "w/candidates/x", "{\"id\":\"\"}");
    put(b, "w/candidates/y", "[\"id\"]");
    put(b, "w/candidates/z", "{\"id\":\"z\\n\",\"priority\":99999999999,\"started_ns\":-1}");
    struct list l = candidates(b);
    assert_int_equal(l.n, 1);
    assert_string_equal(l.last.id, "z?");
    assert_int_equal(l.last.priority, 0);
    assert_int_equal(l.last.started_ns, 0);
    put(b, "w/candidates/z", "gone");
    assert_int_equal(candidates(b).n, 0);
}

/* Two ids never share a register, whatever is in them. */
/* A text that is too long ends with a whole character: with half of one it could not be told on. */
static void test_a_cut_never_halves_a_character(void **state)
{
    struct tenure_candidate c = TENURE_CANDIDATE, again = TENURE_CANDIDATE;
    struct bed *b = *state;
    char text[2048], long_text[512] = "";

    for (size_t shift = 0; shift < 4; shift++) {
        memset(long_text, 'x', shift);
        long_text[shift] = '\0';
        while (strlen(long_text) + 4 < sizeof long_text)
            strcat(long_text, shift % 2 ? "\u20ac" : "\U0001f512");
        snprintf(text, sizeof text, "{\"id\":\"%s\",\"trouble\":\"%s\"}", long_text, long_text);
        assert_int_equal(tn_candidate_decode(text, strlen(text), &c, NULL), TENURE_OK);
        assert_true(strlen(c.trouble) > sizeof c.trouble - 5);
        char *told = tn_candidate_encode(&c);
        assert_non_null(told);
        assert_int_equal(tn_candidate_decode(told, strlen(told), &again, NULL), TENURE_OK);
        assert_string_equal(c.id, again.id);
        assert_string_equal(c.trouble, again.trouble);
        free(told);
        /* What an operator says is cut as well, and everybody can read it. */
        assert_int_equal(tenure_control_pause(b->store, "w", long_text, long_text, soon(), NULL),
                         TENURE_OK);
        assert_int_equal(strncmp(look(b, TENURE_OK).reason, long_text, 156), 0);
    }
}

/* Nobody could read a register that is longer than we look at, and all would pause for good. */
static void test_what_is_written_can_be_read(void **state)
{
    static char reason[40000], theirs[16300];
    struct bed *b = *state;

    memset(reason, 'r', sizeof reason - 1);
    assert_int_equal(tenure_control_pause(b->store, "w", reason, reason, soon(), NULL), TENURE_OK);
    assert_int_equal(strlen(look(b, TENURE_OK).reason), 159);
    assert_int_equal(tenure_control_pause(b->store, "w", "\xff", "caf\xe9 \n.", soon(), NULL),
                     TENURE_OK);
    assert_string_equal(look(b, TENURE_OK).reason, "caf? ?.");
    assert_int_equal(tenure_control_resume(b->store, "w", soon(), NULL), TENURE_OK);
    snprintf(theirs, sizeof theirs, "{\"theirs\":\"%.16200s\"}", reason);
    put(b, "w/control", theirs);
    assert_int_equal(tenure_control_pause(b->store, "w", reason, reason, soon(), NULL),
                     TENURE_CORRUPT);
    assert_false(look(b, TENURE_OK).paused);
    assert_int_equal(tenure_control_reset(b->store, "w", soon(), NULL), TENURE_OK);
    assert_int_equal(tenure_control_pause(b->store, "w", "me", NULL, soon(), NULL), TENURE_OK);
    assert_true(look(b, TENURE_OK).paused);
}

/* However far somebody has counted. */
static void test_the_roll_never_overflows(void **state)
{
    struct bed *b = *state;

    put(b, "w/control", "{\"roll\":9223372036854775807}");
    assert_int_equal(tn_control_roll(b->store, "w", soon(), NULL), TENURE_OK);
    assert_int_equal(look(b, TENURE_OK).roll, 1);
    put(b, "w/control", "{\"roll\":-9}");
    assert_int_equal(tn_control_roll(b->store, "w", soon(), NULL), TENURE_OK);
    assert_int_equal(look(b, TENURE_OK).roll, 1);
    assert_int_equal(tn_control_roll(b->store, "w", soon(), NULL), TENURE_OK);
    assert_int_equal(look(b, TENURE_OK).roll, 2);
}

static void test_keys_of_candidates_differ(void **state)
{
    static const char *const ids[] = {"a",
                                      "a.",
                                      ".a",
                                      "_a",
                                      "a b",
                                      "a_b",
                                      "a/b",
                                      "",
                                      "a-name-of-forty-letters-and-not-one-more",
                                      "a-name-of-forty-letters-and-then-some-more",
                                      "a-name-of-forty-letters-and-then-some-mord"};
    enum { COUNT = sizeof ids / sizeof ids[0] };
    char keys[COUNT][TENURE_KEY_MAX + 1];
    char name[201];

    (void)state;
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    for (size_t i = 0; i < COUNT; i++) {
        tn_key_candidate(name, ids[i], keys[i]);
        assert_true(strlen(keys[i]) < TENURE_KEY_MAX);
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(keys[i], keys[j]);
    }
}

/* ---- Calls --------------------------------------------------------------- */

static void test_a_call_that_nobody_answers(void **state)
{
    struct bed *b = *state;
    struct tenure_candidate found = TENURE_CANDIDATE;

    assert_int_equal(
        tenure_control_call(b->store, "w", "nobody", &found, tenure_now() + 300 * TN_MS, NULL),
        TENURE_UNAVAILABLE);
    assert_string_equal(found.id, "");
    assert_string_equal(look(b, TENURE_OK).kind, "call");
}

/* ---- Elections ------------------------------------------------------------- */

static bool add_name(void *arg, const struct tenure_election *e)
{
    strcat(strcat(arg, e->name), " ");
    return true;
}

/* Documents are passed over, however many there are; what stands behind them is found. */
static void test_elections_among_documents(void **state)
{
    struct bed *b = *state;
    char names[256] = "", key[64];
    struct tenure_error err;

    put(b, "a/lease", "x");
    put(b, "a/state-x/lease", "x");
    put(b, "a/state/docs", "x");
    for (int i = 0; i < 40; i++) {
        snprintf(key, sizeof key, "a/state/docs/%d", i);
        put(b, key, "x");
    }
    put(b, "a/states/lease", "x");
    put(b, "b/lease", "x");
    put(b, "b/state/zzz/lease", "x");
    put(b, "c/lease", "x");
    assert_int_equal(tenure_elections(b->store, add_name, names, NULL, soon(), &err), TENURE_OK);
    assert_string_equal(names, "a a/state-x a/states b c ");
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(test_pause_and_resume),
        CASE(test_an_edit_keeps_what_others_wrote),
        CASE(test_an_unknown_edit_is_done_again),
        CASE(test_edits_that_stay_unknown_are_no_storm),
        CASE(test_each_request_has_a_name_of_its_own),
        CASE(test_what_cannot_be_read_pauses),
        CASE(test_hostile_members_are_cut_and_bounded),
        CASE(test_an_edit_that_nobody_answers),
        CASE(test_announce_and_withdraw),
        CASE(test_hostile_candidates_are_passed_over),
        CASE(test_a_cut_never_halves_a_character),
        CASE(test_what_is_written_can_be_read),
        CASE(test_the_roll_never_overflows),
        CASE(test_keys_of_candidates_differ),
        CASE(test_a_call_that_nobody_answers),
        CASE(test_elections_among_documents),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
