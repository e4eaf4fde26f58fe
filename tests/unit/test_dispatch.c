/* The callbacks' thread and the deadline: what happens when the driver's word is late. */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/timing.h"
#include "driver/dispatch.h"

struct heard {
    int sealed, started, stopped, quiet, expired;
    uint64_t expired_epoch;
    bool slow; /* a stop is answered later */
};

static void on_seal(void *arg, const struct tenure_grant *grant)
{
    (void)grant;
    ((struct heard *)arg)->sealed++;
}

static void on_started(void *arg, const struct tenure_grant *grant)
{
    (void)grant;
    ((struct heard *)arg)->started++;
}

static bool on_stopped(void *arg, const struct tenure_grant *grant, enum tn_stop why)
{
    struct heard *h = arg;

    (void)grant, (void)why;
    h->stopped++;
    return !h->slow;
}

static void on_quiet(void *arg)
{
    ((struct heard *)arg)->quiet++;
}

static void on_expired(void *arg, uint64_t epoch)
{
    struct heard *h = arg;

    h->expired++;
    h->expired_epoch = epoch;
}

static void on_leader(void *arg, const char *leader, uint64_t epoch)
{
    (void)arg, (void)leader, (void)epoch;
}

static void open_dispatch(struct tn_dispatch *d, struct heard *h)
{
    struct tn_dispatch_calls calls = {.arg = h,
                                      .seal = on_seal,
                                      .started = on_started,
                                      .stopped = on_stopped,
                                      .all_quiet = on_quiet,
                                      .expired = on_expired,
                                      .new_leader = on_leader};
    struct tenure_error err;

    memset(h, 0, sizeof *h);
    assert_int_equal(tn_dispatch_init(d, &calls, &err), TENURE_OK);
}

static void wait_for_word(struct tn_dispatch *d)
{
    struct pollfd fd = {.fd = d->poll_fd, .events = POLLIN};

    assert_int_equal(poll(&fd, 1, -1), 1);
}

/* I1: the thread was held up (another callback, a suspend) until D had passed. */
static void nothing_starts_after_the_deadline(void **state)
{
    struct tn_dispatch d;
    struct heard h;

    (void)state;
    open_dispatch(&d, &h);
    tn_dispatch_start(&d, &(struct tenure_grant){.epoch = 7});
    tn_dispatch_deadline(&d, tenure_now());
    assert_int_equal(tn_dispatch_run(&d, true), TN_DISPATCH_NOTHING);
    assert_int_equal(h.started, 0);
    assert_int_equal(h.stopped, 0);
    assert_int_equal(h.expired, 1);
    assert_int_equal(h.expired_epoch, 7);
    tn_dispatch_run(&d, true);
    assert_int_equal(h.started, 0);
    assert_int_equal(h.expired, 1);
    tn_dispatch_destroy(&d);
}

/* Else a driver that renews at the last instant leads on without anybody at work. */
static void a_stop_at_the_deadline_is_told_to_the_driver_once(void **state)
{
    struct tn_dispatch d;
    struct heard h;

    (void)state;
    open_dispatch(&d, &h);
    tn_dispatch_deadline(&d, tenure_now() + 3600 * TN_S);
    tn_dispatch_start(&d, &(struct tenure_grant){.epoch = 7});
    tn_dispatch_run(&d, true);
    assert_int_equal(h.started, 1);
    tn_dispatch_deadline(&d, tenure_now());
    wait_for_word(&d);
    tn_dispatch_run(&d, true);
    assert_int_equal(h.stopped, 1);
    assert_int_equal(h.expired, 1);
    assert_int_equal(h.expired_epoch, 7);
    tn_dispatch_deadline(&d, tenure_now() + 3600 * TN_S);
    tn_dispatch_run(&d, true);
    tn_dispatch_stop(&d, TN_STOP_EXPIRED);
    tn_dispatch_run(&d, true);
    assert_int_equal(h.stopped, 1);
    assert_int_equal(h.expired, 1);
    assert_int_equal(h.quiet, 1);
    tn_dispatch_destroy(&d);
}

/* I12: the timer went off, but the renewal was published before we looked. */
static void a_deadline_that_moved_on_stops_nothing(void **state)
{
    struct tn_dispatch d;
    struct heard h;

    (void)state;
    open_dispatch(&d, &h);
    tn_dispatch_deadline(&d, tenure_now() + 3600 * TN_S);
    tn_dispatch_start(&d, &(struct tenure_grant){.epoch = 7});
    tn_dispatch_run(&d, true);
    tn_dispatch_deadline(&d, tenure_now());
    wait_for_word(&d);
    tn_dispatch_deadline(&d, tenure_now() + 3600 * TN_S);
    tn_dispatch_run(&d, true);
    assert_int_equal(h.stopped, 0);
    assert_int_equal(h.expired, 0);
    tn_dispatch_stop(&d, TN_STOP_SHUTDOWN);
    tn_dispatch_run(&d, true);
    assert_int_equal(h.stopped, 1);
    assert_int_equal(h.quiet, 1);
    tn_dispatch_destroy(&d);
}

/* A loop that must not block leaves the seal to another thread, and runs all the rest. */
static void a_seal_is_left(void **state)
{
    struct tn_dispatch d;
    struct heard h;

    (void)state;
    open_dispatch(&d, &h);
    tn_dispatch_deadline(&d, tenure_now() + 3600 * TN_S);
    tn_dispatch_seal(&d, &(struct tenure_grant){.epoch = 7});
    assert_int_equal(tn_dispatch_run(&d, false), TN_DISPATCH_SEAL);
    assert_int_equal(h.sealed, 0);
    tn_dispatch_run_seal(&d);
    tn_dispatch_run_seal(&d);
    assert_int_equal(h.sealed, 1);
    tn_dispatch_start(&d, &(struct tenure_grant){.epoch = 7});
    assert_int_equal(tn_dispatch_run(&d, false), TN_DISPATCH_NOTHING);
    assert_int_equal(h.started, 1);
    tn_dispatch_seal(&d, &(struct tenure_grant){.epoch = 8});
    tn_dispatch_stop(&d, TN_STOP_SHUTDOWN); /* takes it back */
    assert_int_equal(tn_dispatch_run(&d, false), TN_DISPATCH_NOTHING);
    tn_dispatch_run_seal(&d);
    assert_int_equal(h.sealed, 1);
    assert_int_equal(h.quiet, 1);
    tn_dispatch_destroy(&d);
}

/* I8: nothing is answered, and nothing else begins, before the work has ended. */
static void a_stop_is_answered_later(void **state)
{
    struct tn_dispatch d;
    struct heard h;

    (void)state;
    open_dispatch(&d, &h);
    h.slow = true;
    tn_dispatch_deadline(&d, tenure_now() + 3600 * TN_S);
    tn_dispatch_start(&d, &(struct tenure_grant){.epoch = 7});
    tn_dispatch_run(&d, false);
    tn_dispatch_deadline(&d, tenure_now());
    tn_dispatch_run(&d, false);
    tn_dispatch_stop(&d, TN_STOP_EXPIRED);
    tn_dispatch_run(&d, false);
    tn_dispatch_run(&d, true);
    assert_int_equal(h.stopped, 1);
    assert_int_equal(h.expired + h.quiet, 0);
    tn_dispatch_stopped(&d);
    assert_int_equal(h.expired_epoch, 7);
    assert_int_equal(h.quiet, 0); /* that word was another one */
    wait_for_word(&d);
    tn_dispatch_run(&d, false);
    assert_int_equal(h.quiet, 1);
    tn_dispatch_deadline(&d, tenure_now() + 3600 * TN_S);
    tn_dispatch_start(&d, &(struct tenure_grant){.epoch = 8});
    tn_dispatch_run(&d, false);
    tn_dispatch_stop(&d, TN_STOP_SHUTDOWN);
    tn_dispatch_run(&d, false);
    assert_int_equal(h.quiet, 1);
    tn_dispatch_stopped(&d);
    assert_int_equal(h.quiet, 2);
    assert_int_equal(h.expired, 1);
    tn_dispatch_destroy(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_starts_after_the_deadline),
        cmocka_unit_test(a_stop_at_the_deadline_is_told_to_the_driver_once),
        cmocka_unit_test(a_deadline_that_moved_on_stops_nothing),
        cmocka_unit_test(a_seal_is_left),
        cmocka_unit_test(a_stop_is_answered_later),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
