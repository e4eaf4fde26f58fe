/*
 * The order of a wait, over a back end that is a script: what it answers and what happens in
 * between is written down, and the calls are compared.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "store/watcher.h"

#define FAR (tenure_now() + INT64_C(600000000000))

struct backend {
    struct tn_watcher watcher;
    int cancel_fd;
    unsigned unanswered;
    char calls[400]; /* S subscribe, N next, C compare, U unsubscribe, O other server */
    enum tenure_status subscribes; /* what it answers, */
    unsigned fails;                /* so many times */
    enum tenure_status nexts;      /* what a next() that waits answers */
    unsigned ends;                 /* so many times it says that the subscription has ended */
    bool unconfirmed;              /* nothing tells of changes */
    bool changed;                  /* what a comparison finds */
    bool lost_while_comparing;     /* a request of the comparison was left unanswered */
    /* What next() tells: before the comparison, and when it waits. */
    void (*before)(struct backend *b);
    void (*then)(struct backend *b);
};

static const struct tenure_token seen = {.version = "1"}, later = {.version = "2"};

static void call(struct backend *b, char what)
{
    size_t n = strlen(b->calls);

    assert_true(n + 1 < sizeof b->calls);
    b->calls[n] = what;
}

static enum tenure_status subscribe(struct tn_watcher *w, int64_t by, struct tenure_error *err)
{
    struct backend *b = w->impl;

    (void)by;
    call(b, 'S');
    if (b->fails) {
        b->fails--;
        return tenure_fail(err, b->subscribes, "no");
    }
    for (unsigned i = 0; i < w->n_followed && !b->unconfirmed; i++) {
        if (!w->followed[i].live)
            tn_watcher_confirm(&w->followed[i]);
    }
    return TENURE_OK;
}

static enum tenure_status next(struct tn_watcher *w, int64_t until, struct tenure_error *err)
{
    struct backend *b = w->impl;
    void (*happens)(struct backend *) = until ? b->then : b->before;

    call(b, until ? 'N' : 'n');
    if (happens)
        happens(b);
    if (!until)
        return TENURE_TIMEOUT;
    if (b->ends) {
        b->ends--;
        return tenure_fail(err, TENURE_UNAVAILABLE, "ended");
    }
    return b->nexts;
}

static enum tenure_status compare(struct tn_watcher *w, const struct tenure_watch *const *watches,
                                  size_t n, int64_t by, bool *changed, struct tenure_error *err)
{
    struct backend *b = w->impl;

    (void)watches;
    (void)by;
    (void)err;
    assert_true(n > 0);
    call(b, 'C');
    *changed = b->changed;
    if (b->lost_while_comparing)
        b->unanswered++;
    b->lost_while_comparing = false;
    return TENURE_OK;
}

static void unsubscribe(struct tn_watcher *w, struct tn_followed *one)
{
    if (!one)
        call(w->impl, 'U');
}

static void next_server(struct tn_watcher *w)
{
    call(w->impl, 'O');
}

static const struct tn_watcher_ops ops = {subscribe, next, compare, unsubscribe, next_server};

static void begin(struct backend *b)
{
    memset(b, 0, sizeof *b);
    b->cancel_fd = -1;
    b->nexts = TENURE_CANCELLED;
    b->watcher = (struct tn_watcher){.ops = &ops,
                                     .impl = b,
                                     .scheme = "toy",
                                     .cancel_fd = &b->cancel_fd,
                                     .unanswered = &b->unanswered,
                                     .attempts = 2};
}

static enum tenure_status wait_until(struct backend *b, bool prefix, int64_t deadline)
{
    struct tenure_watch watch = {.key = "a", .prefix = prefix, .seen = seen, .mark = "1"};
    struct tenure_error err = {0};
    enum tenure_status status;

    memset(b->calls, 0, sizeof b->calls);
    status = tn_watcher_wait(b, &watch, 1, -1, deadline, &err);
    assert_int_equal(b->cancel_fd, -1);
    if (status)
        assert_int_equal(err.code, status);
    return status;
}

static void check(struct backend *b, enum tenure_status status, const char *calls)
{
    assert_int_equal(wait_until(b, false, FAR), status);
    assert_string_equal(b->calls, calls);
}

static void end(struct backend *b)
{
    tn_watcher_free(&b->watcher);
}

static void tell_later(struct backend *b)
{
    tn_watcher_event(&b->watcher, "a", &later);
}

static void tell_seen(struct backend *b)
{
    tn_watcher_event(&b->watcher, "a", &seen);
}

static void tell_something(struct backend *b)
{
    tn_watcher_event(&b->watcher, NULL, NULL);
}

static void tell_other(struct backend *b)
{
    tn_watcher_event(&b->watcher, "ab", NULL);
}

static void test_subscribes_before_it_compares(void **state)
{
    struct backend b;

    (void)state;
    begin(&b);
    check(&b, TENURE_CANCELLED, "SnCN");
    /* Nothing was heard since: there is nothing to ask. */
    check(&b, TENURE_CANCELLED, "SnN");
    /* The handle itself has seen something else. */
    tn_watcher_learn(&b.watcher, "a", &later);
    check(&b, TENURE_CANCELLED, "SnCN");
    tn_watcher_forget(&b.watcher, "a");
    check(&b, TENURE_CANCELLED, "SnCN");
    tn_watcher_forget(&b.watcher, "b");
    check(&b, TENURE_CANCELLED, "SnN");
    b.changed = true;
    tn_watcher_forget(&b.watcher, NULL);
    check(&b, TENURE_OK, "SnC");
    end(&b);
}

/* What came before the comparison is asked, not believed; what comes after it ends the wait. */
static void test_events(void **state)
{
    struct backend b;

    (void)state;
    begin(&b);
    b.before = tell_later;
    check(&b, TENURE_CANCELLED, "SnCN");
    b.before = tell_something;
    check(&b, TENURE_CANCELLED, "SnCN");
    b.before = NULL;
    b.then = tell_seen;
    check(&b, TENURE_CANCELLED, "SnN");
    b.then = tell_other;
    check(&b, TENURE_CANCELLED, "SnN");
    assert_int_equal(wait_until(&b, true, FAR), TENURE_OK);
    b.then = tell_later;
    check(&b, TENURE_OK, "SnN");
    b.then = tell_something;
    check(&b, TENURE_OK, "SnCN");
    end(&b);
}

static void test_what_ended_is_made_again(void **state)
{
    struct backend b;

    (void)state;
    begin(&b);
    b.ends = 1;
    check(&b, TENURE_CANCELLED, "SnCNUSnCN");
    /* A change that fell into the gap. */
    b.ends = 1;
    b.before = NULL;
    b.then = NULL;
    tn_watcher_forget(&b.watcher, NULL);
    b.changed = true;
    check(&b, TENURE_OK, "SnC");
    /* One that takes more with it ends the wait. */
    b.changed = false;
    b.watcher.session = true;
    check(&b, TENURE_UNAVAILABLE, "SnCNU");
    end(&b);
}

static void test_a_server_that_ends_everything_at_once(void **state)
{
    struct backend b;

    (void)state;
    begin(&b);
    b.ends = 1000;
    assert_int_equal(wait_until(&b, false, FAR), TENURE_UNAVAILABLE);
    assert_true(b.ends > 900);
    end(&b);
}

static void test_attempts(void **state)
{
    struct backend b;

    (void)state;
    begin(&b);
    b.subscribes = TENURE_UNAVAILABLE;
    b.fails = 1;
    check(&b, TENURE_CANCELLED, "SUOSnCN");
    b.fails = 2;
    check(&b, TENURE_UNAVAILABLE, "SUOSUO");
    b.fails = 1;
    b.subscribes = TENURE_DENIED;
    check(&b, TENURE_DENIED, "SU");
    /* What was begun goes on in the next wait. */
    b.fails = 1;
    b.subscribes = TENURE_CANCELLED;
    check(&b, TENURE_CANCELLED, "S");
    /* It was not the caller's time that was up. */
    b.fails = 2;
    b.subscribes = TENURE_TIMEOUT;
    check(&b, TENURE_UNAVAILABLE, "SUOSUO");
    end(&b);
}

static void test_a_server_that_left_a_request_unanswered(void **state)
{
    struct backend b;

    (void)state;
    begin(&b);
    check(&b, TENURE_CANCELLED, "SnCN");
    b.unanswered++;
    check(&b, TENURE_CANCELLED, "USnCN");
    tn_watcher_forget(&b.watcher, NULL);
    b.lost_while_comparing = true;
    check(&b, TENURE_CANCELLED, "SnCUSnCN");
    end(&b);
}

static void age(struct backend *b)
{
    b->watcher.followed[0].heard_ns = 0;
}

static void test_silence(void **state)
{
    struct backend b;

    (void)state;
    begin(&b);
    b.watcher.silence_ns = INT64_C(30000000000);
    check(&b, TENURE_CANCELLED, "SnCN");
    b.before = age;
    check(&b, TENURE_CANCELLED, "SnCN");
    /* It was right. */
    b.before = NULL;
    check(&b, TENURE_CANCELLED, "SnN");
    /* It was not: it should have said so. */
    b.before = age;
    b.changed = true;
    check(&b, TENURE_OK, "SnCU");
    end(&b);
}

static void test_nothing_tells_of_changes(void **state)
{
    struct backend b;

    (void)state;
    begin(&b);
    b.unconfirmed = true;
    b.watcher.poll_ns = 1;
    check(&b, TENURE_CANCELLED, "SnCN");
    tn_watcher_learn(&b.watcher, "a", &seen); /* which proves nothing later */
    check(&b, TENURE_CANCELLED, "SnCN");
    end(&b);
}

static void test_the_deadline_and_the_descriptor(void **state)
{
    struct tenure_watch watch = {.key = "a", .seen = seen};
    struct tenure_error err;
    struct backend b;
    int fds[2];

    (void)state;
    begin(&b);
    assert_int_equal(wait_until(&b, false, 1), TENURE_TIMEOUT);
    assert_string_equal(b.calls, "");
    assert_int_equal(pipe(fds), 0);
    assert_int_equal(tn_watcher_wait(&b, NULL, 0, fds[0], 1, &err), TENURE_TIMEOUT);
    assert_int_equal(write(fds[1], "x", 1), 1);
    assert_int_equal(tn_watcher_wait(&b, &watch, 1, fds[0], FAR, &err), TENURE_CANCELLED);
    assert_int_equal(tn_watcher_wait(&b, NULL, 0, fds[0], FAR, &err), TENURE_CANCELLED);
    assert_string_equal(b.calls, "");
    close(fds[0]);
    close(fds[1]);
    end(&b);
}

static void sleep_over_the_deadline(struct backend *b)
{
    b->before = tell_later;
    while (tenure_now() < b->watcher.deadline)
        usleep(1000);
}

/* A process that was stopped over the deadline looks at what came meanwhile before it says that
 * nothing changed, and reads if it can no longer know. */
static void test_stopped_over_the_deadline(void **state)
{
    struct backend b;

    (void)state;
    begin(&b);
    b.nexts = TENURE_TIMEOUT;
    b.then = sleep_over_the_deadline;
    assert_int_equal(wait_until(&b, false, tenure_now() + 2000000000), TENURE_OK);
    assert_string_equal(b.calls, "SnCNn");
    end(&b);
    begin(&b);
    b.ends = 1;
    b.then = sleep_over_the_deadline;
    assert_int_equal(wait_until(&b, false, tenure_now() + 2000000000), TENURE_OK);
    assert_string_equal(b.calls, "SnCNU");
    end(&b);
}

/* More than fit: another subscription, with what is wanted now. */
static void test_many_different_waits(void **state)
{
    struct backend b;

    (void)state;
    begin(&b);
    for (unsigned i = 0; i < 5 * TN_WATCHER_MAX; i++) {
        char key[16];
        struct tenure_watch watch = {.key = key, .seen = seen};
        struct tenure_error err;

        snprintf(key, sizeof key, "k/%u", i);
        assert_int_equal(tn_watcher_wait(&b, &watch, 1, -1, FAR, &err), TENURE_CANCELLED);
        assert_non_null(tn_watcher_find(&b.watcher, key, false));
        assert_true(b.watcher.n_followed <= TN_WATCHER_MAX && tn_watcher_live(&b.watcher));
        memset(b.calls, 0, sizeof b.calls);
    }
    end(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_subscribes_before_it_compares),
        cmocka_unit_test(test_events),
        cmocka_unit_test(test_what_ended_is_made_again),
        cmocka_unit_test(test_a_server_that_ends_everything_at_once),
        cmocka_unit_test(test_attempts),
        cmocka_unit_test(test_a_server_that_left_a_request_unanswered),
        cmocka_unit_test(test_silence),
        cmocka_unit_test(test_nothing_tells_of_changes),
        cmocka_unit_test(test_the_deadline_and_the_descriptor),
        cmocka_unit_test(test_stopped_over_the_deadline),
        cmocka_unit_test(test_many_different_waits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
