/* When the driver reads the control register, and when it must not; a first open that takes long.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "driver/driver.h"
#include "faultstore.h"
#include "store/builtin.h"

static struct {
    _Atomic bool broken; /* the control register cannot be read, so that it stays due */
    _Atomic bool ending; /* from the end of the term until its lease was released */
    _Atomic int refused, while_ending, started, stopped, released;
} seen;

static void on_call(void *arg, const struct tn_fault_event *event, struct tn_fault_plan *plan)
{
    (void)arg;
    if (event->call != TN_CALL_READ || strcmp(event->key, "test/control") != 0)
        return;
    seen.while_ending += seen.ending;
    if (!seen.broken)
        return;
    plan->action = TN_FAULT_FAIL;
    plan->status = TENURE_UNAVAILABLE;
    seen.refused++;
}

static void on_trace(void *arg, const struct tenure_trace *t)
{
    (void)arg;
    if (t->kind == TENURE_TRACE_STOPPING)
        seen.ending = true;
    if (t->kind != TENURE_TRACE_RELEASED)
        return;
    seen.ending = false;
    seen.released++;
}

static void on_started(void *arg, const struct tenure_term *term)
{
    (void)arg;
    (void)term;
    seen.started++;
}

static void on_stopped(void *arg, const struct tenure_term *term, const char *why)
{
    (void)arg;
    (void)term;
    (void)why;
    seen.stopped++;
}

static void on_control(void *arg, const struct tenure_control *control, const char *damage,
                       bool *may_claim, int64_t *delay_ns)
{
    (void)arg;
    (void)control;
    assert_null(damage);
    *may_claim = true;
    *delay_ns = 0;
}

/* Waits as long as it takes; the harness' own limit ends what never comes. */
static void until(_Atomic int *counter, int count)
{
    while (*counter < count)
        usleep(1000);
}

/* Somebody writes it: whoever watches looks again. */
static void touch_control(void)
{
    struct tenure_swap swap = {.key = "test/control", .data = "{}", .len = 2};
    int64_t soon = tenure_now() + INT64_C(60000000000);
    tenure_store *store = NULL;

    assert_int_equal(tenure_store_open("memory:control", soon, &store, NULL), TENURE_OK);
    assert_int_equal(tenure_nonce(swap.nonce, NULL), TENURE_OK);
    assert_int_equal(tenure_store_swap(store, &swap, soon, NULL), TENURE_OK);
    tenure_store_close(store);
}

/* The guard has fired.  Until the lease is free nothing is asked that nobody needs: each such read
 * may last as long as a request may, and the guard takes who keeps silent for hung. */
static void a_term_that_ends_reads_no_control(void **state)
{
    struct tenure_elector_options o = TENURE_ELECTOR_OPTIONS;
    const struct tn_driver_hooks hooks = {.control = on_control};
    tenure_elector *e = NULL;
    tn_fault *fault = NULL;
    struct tenure_error err;

    (void)state;
    assert_int_equal(tn_fault_new("control", "memory:control", &fault, &err), TENURE_OK);
    tn_fault_hook(fault, on_call, NULL);
    o.store = "fault:control";
    o.name = "test";
    o.id = "a";
    o.ttl_ms = 60000;
    o.renew_ms = 300;
    o.started = on_started;
    o.stopped = on_stopped;
    o.trace = on_trace;
    assert_int_equal(tn_driver_prepare(&o, false, &e, &err), TENURE_OK);
    assert_int_equal(tn_driver_start(e, &hooks, &err), TENURE_OK);
    until(&seen.started, 1);
    seen.broken = true;
    touch_control();
    until(&seen.refused, 1);
    tn_driver_fired(e);
    until(&seen.released, 1);
    assert_int_equal(seen.stopped, 1);
    assert_int_equal(seen.while_ending, 0);
    seen.broken = false;
    until(&seen.started, 2); /* and goes on as before */
    tenure_elector_stop(e);
    tn_fault_free(fault);
}

/* ---- The first open ------------------------------------------------------ */

static _Atomic bool let_go;
static _Atomic int failures;

static enum tenure_status open_slowly(const char *url, int64_t deadline, void **impl,
                                      struct tenure_error *err)
{
    (void)url;
    (void)deadline;
    (void)impl;
    while (!let_go)
        usleep(1000);
    return tenure_fail(err, TENURE_CONFIG, "refused at last");
}

static void on_failed(void *arg, enum tenure_status status, const char *text)
{
    (void)arg;
    assert_int_equal(status, TENURE_CONFIG);
    assert_string_equal(text, "refused at last");
    failures++;
}

/* Whoever starts it has signals to answer meanwhile, and hears of the failure later. */
static void a_first_open_that_takes_long_keeps_nobody(void **state)
{
    static struct tenure_store_ops ops;
    struct tenure_elector_options o = TENURE_ELECTOR_OPTIONS;
    const struct tn_driver_hooks hooks = {.failed = on_failed};
    tenure_elector *e = NULL;
    struct tenure_error err;

    (void)state;
    ops = tn_store_memory;
    ops.scheme = "slow";
    ops.open = open_slowly;
    assert_int_equal(tenure_store_register(&ops, &err), TENURE_OK);
    o.store = "slow:x";
    o.name = "test";
    assert_int_equal(tn_driver_prepare(&o, INT64_MAX, &e, &err), TENURE_OK);
    assert_int_equal(tn_driver_start(e, &hooks, &err), TENURE_OK);
    assert_int_equal(failures, 0);
    let_go = true;
    until(&failures, 1);
    tenure_elector_stop(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_term_that_ends_reads_no_control),
                                       cmocka_unit_test(a_first_open_that_takes_long_keeps_nobody)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
