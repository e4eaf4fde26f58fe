/* The public elector on memory: stores: callbacks, threads, loops, and a store that hangs. */
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/timing.h"
#include "driver/driver.h"
#include "tenure/elector.h"
#include "tenure/lease.h"

struct seat {
    _Atomic int started;
    _Atomic int stopped;
    _Atomic int renewed;
    _Atomic int unentitled; /* deadlines beyond what the renewals told of so far entitle to (I6) */
    int64_t entitled_ns;
    _Atomic int block; /* started() waits while this is set */
    _Atomic uint64_t epoch;
    char leader[128];
    pthread_mutex_t lock;
    char why[128];
};

static void on_started(void *arg, const struct tenure_term *term)
{
    struct seat *s = arg;

    s->epoch = term->epoch;
    s->started++;
    while (s->block)
        usleep(1000);
}

static void on_stopped(void *arg, const struct tenure_term *term, const char *why)
{
    struct seat *s = arg;

    (void)term;
    pthread_mutex_lock(&s->lock);
    snprintf(s->why, sizeof s->why, "%s", why);
    pthread_mutex_unlock(&s->lock);
    s->stopped++;
}

static void on_leader(void *arg, const char *leader, uint64_t epoch)
{
    struct seat *s = arg;

    (void)epoch;
    pthread_mutex_lock(&s->lock);
    snprintf(s->leader, sizeof s->leader, "%s", leader);
    pthread_mutex_unlock(&s->lock);
}

static bool sees_leader(struct seat *s, const char *who)
{
    pthread_mutex_lock(&s->lock);
    bool same = strcmp(s->leader, who) == 0;
    pthread_mutex_unlock(&s->lock);
    return same;
}

static void on_trace(void *arg, const struct tenure_trace *t)
{
    struct seat *s = arg;

    if (t->kind != TENURE_TRACE_RENEWED)
        return;
    /* What a renewal shows is the deadline before it. */
    s->unentitled += s->entitled_ns && t->deadline_ns > s->entitled_ns;
    s->entitled_ns = t->at_ns - t->took_ns + tn_timing_hold(60 * TN_S, TN_S, 100000);
    s->renewed++;
}

static tenure_elector *take_seat_for(struct seat *s, const char *store, const char *id, bool manual,
                                     int64_t ttl_ms, int64_t renew_ms)
{
    struct tenure_elector_options o = TENURE_ELECTOR_OPTIONS;
    struct tenure_error err;
    tenure_elector *e = NULL;

    memset(s, 0, sizeof *s);
    pthread_mutex_init(&s->lock, NULL);
    o.store = store;
    o.name = "test";
    o.id = id;
    o.ttl_ms = ttl_ms;
    o.renew_ms = renew_ms;
    o.grace_ms = 500; /* or it would stop so much earlier when renewals fail */
    o.arg = s;
    o.started = on_started;
    o.stopped = on_stopped;
    o.new_leader = on_leader;
    o.trace = on_trace;
    o.manual_dispatch = manual;
    if (tenure_elector_start(&o, &e, &err) != TENURE_OK)
        fail_msg("%s", err.text);
    return e;
}

/* For so long that a machine that stands still for a while costs nobody the lease. */
static tenure_elector *take_seat(struct seat *s, const char *store, const char *id, bool manual)
{
    return take_seat_for(s, store, id, manual, 60000, 300);
}

/* Waits as long as it takes; the harness' own limit ends what never comes. */
#define until(condition)                                                                           \
    do {                                                                                           \
        while (!(condition))                                                                       \
            usleep(1000);                                                                          \
    } while (0)

static void noop_leads_at_once(void **state)
{
    struct seat s;
    tenure_elector *e = take_seat(&s, "noop:", NULL, false);

    (void)state;
    until(s.started == 1);
    uint64_t epoch = 0;
    assert_true(tenure_elector_leads(e, &epoch));
    assert_true(epoch == s.epoch && s.epoch > 0);
    assert_true(tenure_elector_time_left(e) > 0);
    assert_int_equal(tenure_elector_fd(e), -1);
    until(s.renewed >= 2);
    tenure_elector_stop(e);
    assert_int_equal(s.stopped, 1);
    assert_string_equal(s.why, "asked to stop");
    tenure_elector_stop(NULL);
}

static void one_of_two_leads_and_hands_over(void **state)
{
    struct seat a, b;
    tenure_elector *ea = take_seat(&a, "memory:two", "a", false), *eb;

    (void)state;
    until(a.started == 1);
    eb = take_seat(&b, "memory:two", "b", false);
    until(sees_leader(&b, "a"));
    uint64_t epoch = 1;
    assert_false(tenure_elector_leads(eb, &epoch));
    assert_int_equal(epoch, 0);
    tenure_elector_stop(ea);
    until(b.started == 1);
    assert_int_equal(a.stopped, 1);
    assert_true(b.epoch > a.epoch);
    tenure_elector_stop(eb);
}

static void yield_passes_leadership_on(void **state)
{
    struct seat a, b;
    tenure_elector *ea = take_seat(&a, "memory:yield", "a", false), *eb;

    (void)state;
    until(a.started == 1);
    eb = take_seat(&b, "memory:yield", "b", false);
    tenure_elector_yield(ea, 60000);
    until(b.started == 1);
    assert_string_equal(a.why, "asked to step down");
    /* and it keeps contending: nothing is one-shot (I11) */
    tenure_elector_yield(ea, 0);
    tenure_elector_stop(eb);
    until(a.started == 2);
    assert_true(a.epoch > b.epoch);
    tenure_elector_stop(ea);
}

/* A callback that blocks for longer than the ttl costs no renewal. */
static void slow_callback_does_not_delay_renewals(void **state)
{
    struct seat s;
    tenure_elector *e = take_seat_for(&s, "memory:slow", "a", false, 5000, 200);

    (void)state;
    s.block = 1;
    until(s.started == 1);
    int64_t begun = tenure_now();
    until(s.renewed >= 10 && tenure_now() > begun + 5 * TN_S); /* longer than a ttl */
    assert_true(tenure_elector_leads(e, NULL));
    assert_int_equal(s.stopped, 0);
    s.block = 0;
    tenure_elector_stop(e);
    assert_int_equal(s.stopped, 1);
}

/* Once the lease is free again. */
static uint64_t transitions_of(tenure_store *store)
{
    struct tenure_lease_view view = TENURE_LEASE_VIEW;
    struct tenure_error err;

    do {
        int64_t limit = tenure_now() + 60000000000;

        assert_int_equal(tenure_lease_look(store, "test", &view, limit, &err), TENURE_OK);
    } while (view.state != TENURE_LEASE_FREE);
    return view.transitions;
}

/* The program has ended, and that is the end, or somebody else's turn. */
static void an_end_is_one_release_and_no_new_claim(void **state)
{
    struct seat s;
    tenure_store *store = NULL; /* while it is open the lease outlives the elector */
    tenure_elector *e = take_seat(&s, "memory:end", "a", false);

    (void)state;
    assert_int_equal(tenure_store_open("memory:end", tenure_now(), &store, NULL), TENURE_OK);
    until(s.started == 1);
    tenure_elector_yield(e, 3600000);
    tn_driver_ended(e, s.epoch);
    assert_int_equal(transitions_of(store), 1);
    tenure_elector_stop(e);
    assert_int_equal(transitions_of(store), 1);

    e = take_seat(&s, "memory:end", "a", false);
    until(s.started == 1);
    tn_driver_shutdown(e);
    tn_driver_ended(e, s.epoch);
    tenure_elector_stop(e);
    assert_int_equal(transitions_of(store), 2);
    tenure_store_close(store);
}

static void late_news_of_an_earlier_term_ends_nothing(void **state)
{
    struct seat s;
    tenure_elector *e = take_seat(&s, "memory:late-news", "a", false);

    (void)state;
    until(s.started == 1);
    tenure_elector_fenced(e, s.epoch - 1);
    int renewed = s.renewed;
    until(s.renewed >= renewed + 2); /* the second was asked for after the news was taken */
    assert_int_equal(s.stopped, 0);
    assert_true(tenure_elector_leads(e, NULL));
    tenure_elector_stop(e);
}

static void a_fenced_term_ends_and_the_next_is_above_the_floor(void **state)
{
    struct seat s;
    tenure_elector *e = take_seat(&s, "memory:fenced", "a", false);
    uint64_t first;

    (void)state;
    until(s.started == 1);
    first = s.epoch;
    tenure_elector_fenced(e, first + 1000000000);
    until(s.started == 2);
    assert_int_equal(s.stopped, 1);
    assert_true(s.epoch > first + 1000000000);
    tenure_elector_stop(e);
}

static void foreign_loop_runs_the_callbacks(void **state)
{
    struct seat s;
    tenure_elector *e = take_seat(&s, "memory:loop", "a", true);
    struct pollfd fd = {.fd = tenure_elector_fd(e), .events = POLLIN};

    (void)state;
    assert_true(fd.fd >= 0);
    while (s.started == 0) {
        poll(&fd, 1, -1);
        assert_int_equal(s.started, 0); /* not before dispatch() */
        tenure_elector_dispatch(e);
    }
    assert_true(tenure_elector_leads(e, NULL));
    tenure_elector_stop(e);
    assert_int_equal(s.stopped, 1);
}

/* ---- A store whose every call can be made to hang beyond its deadline ------ */

static _Atomic int hanging;
static tenure_store *inner;

static _Atomic int losing; /* answers of swaps that were done */

static void hang(void)
{
    while (hanging)
        usleep(1000);
}

static enum tenure_status h_open(const char *url, int64_t deadline, void **impl,
                                 struct tenure_error *err)
{
    (void)url;
    *impl = NULL;
    return tenure_store_open("memory:hang", deadline, &inner, err);
}

static void h_close(void *impl)
{
    (void)impl;
    tenure_store_close(inner);
}

static void h_info(void *impl, struct tenure_store_info *info)
{
    (void)impl;
    *info = *tenure_store_info(inner);
    info->scheme = "hang";
}

static enum tenure_status h_read(void *impl, const char *key, struct tenure_value *value,
                                 int64_t deadline, struct tenure_error *err)
{
    (void)impl;
    hang();
    return tenure_store_read(inner, key, value, deadline, err);
}

static enum tenure_status h_swap(void *impl, struct tenure_swap *swap, int64_t deadline,
                                 struct tenure_error *err)
{
    (void)impl;
    hang();
    enum tenure_status status = tenure_store_swap(inner, swap, deadline, err);

    if (status == TENURE_OK && losing) {
        losing--;
        status = tenure_fail(err, TENURE_UNKNOWN, "the answer was lost");
    }
    return status;
}

static enum tenure_status h_wait(void *impl, const struct tenure_watch *w, size_t n, int wake,
                                 int64_t deadline, struct tenure_error *err)
{
    (void)impl;
    return tenure_store_wait(inner, w, n, wake, deadline, err);
}

static enum tenure_status h_list(void *impl, const char *prefix, const char *after,
                                 tenure_visit_fn visit, void *arg,
                                 char mark[TENURE_VERSION_MAX + 1], int64_t deadline,
                                 struct tenure_error *err)
{
    (void)impl;
    return tenure_store_list(inner, prefix, after, visit, arg, mark, deadline, err);
}

static const struct tenure_store_ops hang_ops = {.abi = TENURE_STORE_ABI,
                                                 .scheme = "hang",
                                                 .open = h_open,
                                                 .close = h_close,
                                                 .info = h_info,
                                                 .read = h_read,
                                                 .swap = h_swap,
                                                 .wait = h_wait,
                                                 .list = h_list};

/* "Is leader" must not stay true with the store gone, and the stop must be
 * delivered, even if the store's client never returns. */
static void a_hung_store_ends_leadership_by_time(void **state)
{
    struct seat s;
    struct tenure_error err;
    tenure_elector *e;

    (void)state;
    assert_int_equal(tenure_store_register(&hang_ops, &err), TENURE_OK);
    assert_int_equal(tenure_store_register(&hang_ops, &err), TENURE_INVALID);
    e = take_seat_for(&s, "hang:", "a", false, 3000, 500);
    until(s.started == 1);
    hanging = 1;
    until(s.stopped == 1); /* by the deadline's own timer */
    uint64_t epoch = 1;
    assert_false(tenure_elector_leads(e, &epoch));
    assert_int_equal(epoch, 0);
    hanging = 0;
    until(s.started == 2); /* and it contends again (I11) */
    tenure_elector_stop(e);
}

/* A renewal that was done and not answered is found, and told of when it is. */
static void a_renewal_that_is_found_is_told(void **state)
{
    struct seat s;
    tenure_elector *e = take_seat(&s, "hang:", "f", false);

    (void)state;
    for (int i = 0; i < 3; i++) {
        int before = s.renewed;

        until(s.renewed > before);
        losing = 1;
        until(losing == 0);
        before = s.renewed;
        until(s.renewed > before + 1);
    }
    assert_int_equal(s.unentitled, 0);
    assert_int_equal(s.started, 1);
    tenure_elector_stop(e);
}

static void bad_options_are_refused(void **state)
{
    struct tenure_elector_options good = TENURE_ELECTOR_OPTIONS, o;
    struct tenure_error err;
    tenure_elector *e = NULL;

    (void)state;
    good.name = "x";
    good.store = "noop:";
#define refused(change, words)                                                                     \
    do {                                                                                           \
        o = good;                                                                                  \
        change;                                                                                    \
        assert_int_equal(tenure_elector_start(&o, &e, &err), TENURE_CONFIG);                       \
        assert_non_null(strstr(err.text, words));                                                  \
        assert_null(e);                                                                            \
    } while (0)
    refused(o.name = NULL, "cannot be the name");
    refused(o.name = "a b", "cannot be the name");
    refused(o.name = "web/state/jobs", "may be 'state' or 'candidates'");
    refused(o.id = "tab\there", "printable");
    refused(o.store = NULL, "no store is given");
    refused(o.store = "nosuch:", "known are");
    refused(o.store = "no scheme", "no scheme");
    refused(o.ttl_ms = 500, "1s to 1h");
    refused(o.ttl_ms = -5, "out of range");
    refused((o.ttl_ms = 15000, o.renew_ms = 8000), "less than ttl / 2 = 7500ms");
    refused((o.ttl_ms = 15000, o.renew_ms = 7400), "do not fit into D = 11272ms");
    refused((o.ttl_ms = 2000, o.kill_ms = 5000), "leaves no time");
    refused(o.rho_ppm = 900000, "drift");
}

/* A record that cannot be read is reported and never claimed; a repaired one is. */
static void corrupt_record_is_not_claimed(void **state)
{
    struct tenure_lease_view view = TENURE_LEASE_VIEW;
    struct tenure_swap swap = {.key = "test/lease", .data = "{\"epoch\":", .len = 9};
    struct tenure_error err;
    tenure_store *store = NULL;
    struct seat s;
    tenure_elector *e;
    uint64_t epoch = 0;
    int64_t soon = tenure_now() + 60 * TN_S;

    (void)state;
    assert_int_equal(tenure_store_open("memory:corrupt", soon, &store, &err), TENURE_OK);
    assert_int_equal(tenure_nonce(swap.nonce, &err), TENURE_OK);
    assert_int_equal(tenure_store_swap(store, &swap, soon, &err), TENURE_OK);
    e = take_seat(&s, "memory:corrupt", "a", false);
    usleep(300 * 1000);
    assert_int_equal(s.started, 0);
    assert_int_equal(tenure_lease_look(store, "test", &view, soon, &err), TENURE_OK);
    assert_int_equal(view.state, TENURE_LEASE_REFUSED);
    assert_int_equal(tenure_lease_reset(store, "test", &view, 77, &epoch, soon, &err), TENURE_OK);
    until(s.started == 1);
    assert_true(s.epoch > epoch && epoch > 77);
    tenure_elector_stop(e);
    tenure_store_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(noop_leads_at_once),
        cmocka_unit_test(one_of_two_leads_and_hands_over),
        cmocka_unit_test(yield_passes_leadership_on),
        cmocka_unit_test(slow_callback_does_not_delay_renewals),
        cmocka_unit_test(an_end_is_one_release_and_no_new_claim),
        cmocka_unit_test(late_news_of_an_earlier_term_ends_nothing),
        cmocka_unit_test(a_fenced_term_ends_and_the_next_is_above_the_floor),
        cmocka_unit_test(foreign_loop_runs_the_callbacks),
        cmocka_unit_test(a_hung_store_ends_leadership_by_time),
        cmocka_unit_test(a_renewal_that_is_found_is_told),
        cmocka_unit_test(bad_options_are_refused),
        cmocka_unit_test(corrupt_record_is_not_claimed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
