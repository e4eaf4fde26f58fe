/* The store that misbehaves on command does so, and otherwise is as its inner store. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "faultstore.h"

#define LONG_NS  INT64_C(10000000000)
#define SHORT_NS INT64_C(100000000)

static int64_t later(int64_t ns)
{
    return tenure_now() + ns;
}

/* ---- A fault per call, from a list ----------------------------------------- */

struct world {
    tn_fault *fault;
    tenure_store *a, *b;
    struct tn_fault_plan plans[8];
    unsigned n, next;
    enum tn_fault_call only; /* faults befall this kind of call */
    char trace[2000];
};

static void hook(void *arg, const struct tn_fault_event *event, struct tn_fault_plan *plan)
{
    struct world *w = arg;

    if (event->call == w->only && w->next < w->n)
        *plan = w->plans[w->next++];
}

static void trace(void *arg, const char *line)
{
    struct world *w = arg;
    size_t used = strlen(w->trace);

    snprintf(w->trace + used, sizeof w->trace - used, "%s\n", line);
}

static int setup(void **state)
{
    static struct world world;
    struct world *w = &world;

    memset(w, 0, sizeof *w);
    assert_int_equal(tn_fault_new("x", "memory:faultstore", &w->fault, NULL), TENURE_OK);
    tn_fault_hook(w->fault, hook, w);
    assert_int_equal(tenure_store_open("fault:x", later(LONG_NS), &w->a, NULL), TENURE_OK);
    assert_int_equal(tenure_store_open("fault:x", later(LONG_NS), &w->b, NULL), TENURE_OK);
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;

    tenure_store_close(w->a);
    tenure_store_close(w->b);
    tn_fault_free(w->fault);
    return 0;
}

static void plan(struct world *w, enum tn_fault_call call, struct tn_fault_plan p)
{
    w->only = call;
    w->plans[w->n++] = p;
}

static enum tenure_status put(tenure_store *store, const char *key,
                              const struct tenure_token *expect, struct tenure_token *token)
{
    struct tenure_swap swap = {.key = key, .data = "data", .len = 4};

    if (expect)
        swap.expect = *expect;
    assert_int_equal(tenure_nonce(swap.nonce, NULL), TENURE_OK);
    enum tenure_status status = tenure_store_swap(store, &swap, later(LONG_NS), NULL);
    assert_int_equal(status, swap.status);
    if (token)
        *token = swap.token;
    return status;
}

/* The register's token as the inner store has it. */
static struct tenure_token peek(const char *key)
{
    tenure_store *inner = NULL;
    struct tenure_value value = {0};
    struct tenure_token token;

    assert_int_equal(tenure_store_open("memory:faultstore", later(LONG_NS), &inner, NULL),
                     TENURE_OK);
    assert_int_equal(tenure_store_read(inner, key, &value, later(LONG_NS), NULL), TENURE_OK);
    token = value.token;
    tenure_value_free(&value);
    tenure_store_close(inner);
    return token;
}

static bool absent(const char *key)
{
    struct tenure_token token = peek(key);

    return tenure_token_absent(&token);
}

/* ---- Swaps ----------------------------------------------------------------- */

static void drop_request(void **state)
{
    struct world *w = *state;

    plan(w, TN_CALL_SWAP, (struct tn_fault_plan){.action = TN_FAULT_DROP_REQUEST});
    assert_int_equal(put(w->a, "k", NULL, NULL), TENURE_UNKNOWN);
    assert_true(absent("k"));
    assert_int_equal(put(w->a, "k", NULL, NULL), TENURE_OK);
}

static void drop_answer(void **state)
{
    struct world *w = *state;
    struct tenure_token token;

    plan(w, TN_CALL_SWAP, (struct tn_fault_plan){.action = TN_FAULT_DROP_ANSWER});
    assert_int_equal(put(w->a, "k", NULL, &token), TENURE_UNKNOWN);
    assert_true(tenure_token_absent(&token));
    assert_false(absent("k"));
    assert_int_equal(put(w->a, "k", NULL, NULL), TENURE_CONFLICT);
}

static void applied_after_calls(void **state)
{
    struct world *w = *state;
    struct tenure_value value = {0};

    plan(w, TN_CALL_SWAP, (struct tn_fault_plan){.action = TN_FAULT_LATER, .calls = 2});
    assert_int_equal(put(w->a, "k", NULL, NULL), TENURE_UNKNOWN);
    assert_int_equal(tn_fault_pending(w->fault), 1);
    assert_int_equal(tenure_store_read(w->b, "k", &value, later(LONG_NS), NULL), TENURE_OK);
    assert_true(tenure_token_absent(&value.token));
    assert_int_equal(tenure_store_read(w->b, "k", &value, later(LONG_NS), NULL), TENURE_OK);
    assert_false(tenure_token_absent(&value.token));
    assert_memory_equal(value.data, "data", 4);
    assert_int_equal(tn_fault_pending(w->fault), 0);
    tenure_value_free(&value);
}

/* The waiter itself gets up to send what is due. */
static void applied_after_time(void **state)
{
    struct world *w = *state;
    struct tenure_watch watch = {.key = "k"};

    plan(w, TN_CALL_SWAP, (struct tn_fault_plan){.action = TN_FAULT_LATER, .later_ns = SHORT_NS});
    assert_int_equal(put(w->a, "k", NULL, NULL), TENURE_UNKNOWN);
    assert_int_equal(tenure_store_wait(w->b, &watch, 1, -1, later(LONG_NS), NULL), TENURE_OK);
    assert_false(absent("k"));
}

/* A late request that has lost its chance does nothing, as on a real network. */
static void late_and_stale(void **state)
{
    struct world *w = *state;
    struct tenure_token one, two, now;

    assert_int_equal(put(w->a, "k", NULL, &one), TENURE_OK);
    plan(w, TN_CALL_SWAP, (struct tn_fault_plan){.action = TN_FAULT_LATER, .calls = 100});
    assert_int_equal(put(w->a, "k", &one, NULL), TENURE_UNKNOWN);
    assert_int_equal(put(w->b, "k", &one, &two), TENURE_OK);
    assert_int_equal(tn_fault_flush(w->fault), 0);
    now = peek("k");
    assert_true(tenure_token_equal(&now, &two));
}

static void flush(void **state)
{
    struct world *w = *state;

    plan(w, TN_CALL_SWAP, (struct tn_fault_plan){.action = TN_FAULT_LATER, .calls = 100});
    assert_int_equal(put(w->a, "k", NULL, NULL), TENURE_UNKNOWN);
    assert_int_equal(tn_fault_flush(w->fault), 1);
    assert_int_equal(tn_fault_pending(w->fault), 0);
    assert_false(absent("k"));
}

static void fails(void **state)
{
    struct world *w = *state;
    static const enum tenure_status all[] = {TENURE_UNAVAILABLE, TENURE_DENIED, TENURE_CORRUPT};
    struct tenure_error err;
    struct tenure_value value = {.len = 77};

    for (unsigned i = 0; i < 3; i++) {
        w->n = w->next = 0;
        plan(w, TN_CALL_SWAP, (struct tn_fault_plan){.action = TN_FAULT_FAIL, .status = all[i]});
        assert_int_equal(put(w->a, "k", NULL, NULL), all[i]);
        assert_true(absent("k"));
    }
    w->n = w->next = 0;
    plan(w, TN_CALL_READ,
         (struct tn_fault_plan){.action = TN_FAULT_FAIL, .status = TENURE_UNAVAILABLE});
    assert_int_equal(tenure_store_read(w->a, "k", &value, later(LONG_NS), &err),
                     TENURE_UNAVAILABLE);
    assert_string_equal(err.text, "fault: read of k: fail");
    assert_int_equal(value.len, 77); /* untouched */
}

static void slow_request_is_not_sent(void **state)
{
    struct world *w = *state;
    struct tenure_swap swap = {.key = "k", .nonce = {1}};

    plan(w, TN_CALL_SWAP, (struct tn_fault_plan){.before_ns = LONG_NS});
    assert_int_equal(tenure_store_swap(w->a, &swap, later(SHORT_NS), NULL), TENURE_TIMEOUT);
    assert_true(absent("k"));
}

static void slow_answer_is_unknown(void **state)
{
    struct world *w = *state;
    struct tenure_swap swap = {.key = "k", .nonce = {1}};
    struct tenure_value value = {0};

    plan(w, TN_CALL_SWAP, (struct tn_fault_plan){.after_ns = LONG_NS});
    assert_int_equal(tenure_store_swap(w->a, &swap, later(SHORT_NS), NULL), TENURE_UNKNOWN);
    assert_false(absent("k"));
    plan(w, TN_CALL_READ, (struct tn_fault_plan){.after_ns = LONG_NS});
    assert_int_equal(tenure_store_read(w->a, "k", &value, later(SHORT_NS), NULL), TENURE_TIMEOUT);
    assert_true(tenure_token_absent(&value.token));
    tenure_value_free(&value);
}

static void delay_in_time(void **state)
{
    struct world *w = *state;
    int64_t start = tenure_now();

    plan(w, TN_CALL_SWAP, (struct tn_fault_plan){.before_ns = SHORT_NS, .after_ns = SHORT_NS});
    assert_int_equal(put(w->a, "k", NULL, NULL), TENURE_OK);
    assert_true(tenure_now() >= start + 2 * SHORT_NS);
}

/* ---- Batches --------------------------------------------------------------- */

static enum tenure_status batch(tenure_store *store, struct tenure_swap swaps[3])
{
    static const char *const keys[] = {"a", "b", "c"};

    for (uint8_t i = 0; i < 3; i++)
        swaps[i] = (struct tenure_swap){.key = keys[i], .nonce = {1, i}};
    return tenure_store_swap_many(store, swaps, 3, later(LONG_NS), NULL);
}

static void batch_cut(void **state)
{
    struct world *w = *state;
    struct tenure_swap swaps[3];

    plan(w, TN_CALL_BATCH, (struct tn_fault_plan){.action = TN_FAULT_CUT, .calls = 2});
    assert_int_equal(batch(w->a, swaps), TENURE_UNKNOWN);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(swaps[i].status, TENURE_UNKNOWN);
    assert_false(absent("a") || absent("b"));
    assert_true(absent("c"));
}

static void batch_dropped(void **state)
{
    struct world *w = *state;
    struct tenure_swap swaps[3];

    plan(w, TN_CALL_BATCH, (struct tn_fault_plan){.action = TN_FAULT_DROP_REQUEST});
    plan(w, TN_CALL_BATCH, (struct tn_fault_plan){.action = TN_FAULT_DROP_ANSWER});
    assert_int_equal(batch(w->a, swaps), TENURE_UNKNOWN);
    assert_int_equal(swaps[2].status, TENURE_UNKNOWN);
    assert_true(absent("a") && absent("c"));
    assert_int_equal(batch(w->a, swaps), TENURE_UNKNOWN);
    assert_int_equal(swaps[0].status, TENURE_UNKNOWN);
    assert_false(absent("a") || absent("c"));
    assert_int_equal(batch(w->a, swaps), TENURE_OK);
    assert_int_equal(swaps[0].status, TENURE_CONFLICT);
}

static void batch_later(void **state)
{
    struct world *w = *state;
    struct tenure_swap swaps[3];

    plan(w, TN_CALL_BATCH, (struct tn_fault_plan){.action = TN_FAULT_LATER, .calls = 9});
    assert_int_equal(batch(w->a, swaps), TENURE_UNKNOWN);
    assert_int_equal(tn_fault_pending(w->fault), 3);
    assert_int_equal(tn_fault_flush(w->fault), 3);
}

/* ---- Waits ----------------------------------------------------------------- */

static void deaf(void **state)
{
    struct world *w = *state;
    struct tenure_watch watch = {.key = "k"};

    assert_int_equal(put(w->b, "k", NULL, NULL), TENURE_OK);
    plan(w, TN_CALL_WAIT, (struct tn_fault_plan){.action = TN_FAULT_DEAF});
    assert_int_equal(tenure_store_wait(w->a, &watch, 1, -1, later(SHORT_NS), NULL), TENURE_TIMEOUT);
    assert_int_equal(tenure_store_wait(w->a, &watch, 1, -1, later(LONG_NS), NULL), TENURE_OK);
}

static void deaf_but_woken(void **state)
{
    struct world *w = *state;
    struct tenure_watch watch = {.key = "k"};
    int fds[2];

    assert_int_equal(pipe(fds), 0);
    assert_int_equal(write(fds[1], "x", 1), 1);
    plan(w, TN_CALL_WAIT, (struct tn_fault_plan){.action = TN_FAULT_DEAF});
    assert_int_equal(tenure_store_wait(w->a, &watch, 1, fds[0], later(LONG_NS), NULL),
                     TENURE_CANCELLED);
    close(fds[0]);
    close(fds[1]);
}

static void spurious(void **state)
{
    struct world *w = *state;
    struct tenure_watch watch = {.key = "k"};

    plan(w, TN_CALL_WAIT, (struct tn_fault_plan){.action = TN_FAULT_SPURIOUS});
    assert_int_equal(tenure_store_wait(w->a, &watch, 1, -1, later(LONG_NS), NULL), TENURE_OK);
    assert_int_equal(tenure_store_wait(w->a, &watch, 1, -1, later(SHORT_NS), NULL), TENURE_TIMEOUT);
}

/* ---- The rest -------------------------------------------------------------- */

static void traced(void **state)
{
    struct world *w = *state;
    struct tenure_token token;
    struct tenure_value value = {0};

    tn_fault_trace(w->fault, trace, w);
    assert_int_equal(put(w->a, "k", NULL, &token), TENURE_OK);
    plan(w, TN_CALL_SWAP, (struct tn_fault_plan){.action = TN_FAULT_DROP_ANSWER});
    assert_int_equal(put(w->b, "k", &token, NULL), TENURE_UNKNOWN);
    assert_int_equal(tenure_store_read(w->b, "k", &value, later(LONG_NS), NULL), TENURE_OK);
    tenure_value_free(&value);
    assert_string_equal(w->trace, "#3 h1 swap k absent -> ok 1\n"
                                  "#4 h2 swap k 1 -> unknown (drop answer)\n"
                                  "#5 h2 read k -> ok\n");
}

static void opening(void **state)
{
    struct world *w = *state;
    tenure_store *store = NULL;
    tn_fault *second = NULL;

    assert_int_equal(tn_fault_new("x", "memory:", &second, NULL), TENURE_INVALID);
    assert_int_equal(tenure_store_open("fault:nobody", later(LONG_NS), &store, NULL),
                     TENURE_CONFIG);
    plan(w, TN_CALL_OPEN, (struct tn_fault_plan){.action = TN_FAULT_FAIL, .status = TENURE_DENIED});
    assert_int_equal(tenure_store_open("fault:x", later(LONG_NS), &store, NULL), TENURE_DENIED);
    plan(w, TN_CALL_OPEN, (struct tn_fault_plan){.action = TN_FAULT_DROP_ANSWER});
    assert_int_equal(tenure_store_open("fault:x", later(LONG_NS), &store, NULL), TENURE_TIMEOUT);
    assert_null(store);
}

/* The same seed makes the same faults; every kind comes up. */
static void random_faults(void **state)
{
    struct tn_fault_event swap = {.call = TN_CALL_SWAP}, wait = {.call = TN_CALL_WAIT};
    unsigned seen[8] = {0};

    (void)state;
    for (unsigned i = 0; i < 1000; i++) {
        struct tn_fault_odds one = {.seed = i,
                                    .drop_request = 10,
                                    .drop_answer = 10,
                                    .later = 10,
                                    .fail = 10,
                                    .deaf = 10,
                                    .spurious = 10,
                                    .later_calls = 5,
                                    .status = TENURE_DENIED};
        struct tn_fault_odds two = one;
        struct tn_fault_plan a = {0}, b = {0};

        tn_fault_random(&one, i % 2 ? &swap : &wait, &a);
        tn_fault_random(&two, i % 2 ? &swap : &wait, &b);
        assert_memory_equal(&a, &b, sizeof a);
        assert_true(a.calls <= 5);
        assert_false(i % 2 && (a.action == TN_FAULT_DEAF || a.action == TN_FAULT_SPURIOUS));
        seen[a.action]++;
    }
    for (unsigned i = 0; i < 8; i++)
        assert_true(i == TN_FAULT_CUT || seen[i] > 20);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(drop_request),
        TEST(drop_answer),
        TEST(applied_after_calls),
        TEST(applied_after_time),
        TEST(late_and_stale),
        TEST(flush),
        TEST(fails),
        TEST(slow_request_is_not_sent),
        TEST(slow_answer_is_unknown),
        TEST(delay_in_time),
        TEST(batch_cut),
        TEST(batch_dropped),
        TEST(batch_later),
        TEST(deaf),
        TEST(deaf_but_woken),
        TEST(spurious),
        TEST(traced),
        TEST(opening),
        TEST(random_faults),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
