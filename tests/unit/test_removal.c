/* A removal, and what others do at its worst moments. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/timing.h"
#include "faultstore.h"
#include "lease/lease.h"
#include "tenure/removal.h"

#define TTL_NS (15 * TN_S) /* of the removal's own term: the default */

enum moment { NEVER, BEHIND_RELEASE, BEFORE_TOMBSTONE };

static struct {
    tn_fault *fault;
    tenure_store *plain;         /* behind the back of the faults */
    enum moment moment;          /* when somebody else comes */
    const char *holder;          /* who: "": its term has ended already */
    enum tn_fault_action action; /* for the first request that erases */
    unsigned erasing;            /* such requests */
    int64_t longest_ns;          /* that one of them may have taken */
} bed;

static int64_t soon(void)
{
    return tenure_now() + 60 * TN_S;
}

static void read_lease(struct tn_lease_seen *seen)
{
    struct tenure_value buffer = {0};

    assert_int_equal(tn_lease_read(bed.plain, "w", &buffer, seen, soon(), NULL), TENURE_OK);
    tenure_value_free(&buffer);
}

/* A term later than all before. */
static void put_term(const char *holder)
{
    struct tn_lease_seen seen = {0};
    uint8_t nonce[TENURE_NONCE_SIZE];
    struct tenure_token token;

    read_lease(&seen);
    snprintf(seen.lease.holder, sizeof seen.lease.holder, "%s", holder);
    assert_int_equal(tenure_nonce(nonce, NULL), TENURE_OK);
    memcpy(seen.lease.incarnation, nonce, TENURE_NONCE_SIZE);
    memcpy(seen.lease.grant, nonce, TENURE_NONCE_SIZE);
    seen.lease.epoch++;
    seen.lease.ttl_ms = 15000;
    assert_int_equal(
        tn_lease_swap(bed.plain, "w", &seen.token, nonce, &seen.lease, NULL, &token, soon(), NULL),
        TENURE_OK);
    tn_lease_seen_free(&seen);
}

/* The removal has had its term, and has released it. */
static bool is_released(void)
{
    struct tn_lease_seen seen = {0};

    read_lease(&seen);
    bool released = seen.present && !tn_lease_held(&seen.lease) && seen.lease.epoch > 1;
    tn_lease_seen_free(&seen);
    return released;
}

static void on_call(void *arg, const struct tn_fault_event *event, struct tn_fault_plan *plan)
{
    (void)arg;
    if (event->handle != 1) /* the first is the removal's, the next that of its elector */
        return;
    if (event->swaps && strcmp(event->key, "w/history") == 0) {
        int64_t ns = event->deadline - tenure_now();

        bed.longest_ns = ns > bed.longest_ns ? ns : bed.longest_ns;
        plan->action = bed.erasing++ ? TN_FAULT_PASS : bed.action;
    }
    bool now = event->call == TN_CALL_READ && strcmp(event->key, "w/lease") == 0
                   ? bed.moment == BEHIND_RELEASE && is_released()
                   : event->call == TN_CALL_SWAP && event->swaps[0].tombstone &&
                         bed.moment == BEFORE_TOMBSTONE && strcmp(event->key, "w/lease") == 0;
    if (now) {
        bed.moment = NEVER;
        put_term(bed.holder);
    }
}

static int setup(void **state)
{
    static unsigned number;
    char id[16], url[32];
    struct tenure_error err;
    struct tenure_swap swap = {.key = "w/history", .data = "{}", .len = 2};

    (void)state;
    memset(&bed, 0, sizeof bed);
    snprintf(id, sizeof id, "%u", ++number);
    snprintf(url, sizeof url, "memory:%s", id);
    assert_int_equal(tenure_store_open(url, soon(), &bed.plain, &err), TENURE_OK);
    assert_int_equal(tn_fault_new("w", url, &bed.fault, &err), TENURE_OK);
    tn_fault_hook(bed.fault, on_call, NULL);
    put_term("");
    assert_int_equal(tenure_nonce(swap.nonce, &err), TENURE_OK);
    assert_int_equal(tenure_store_swap(bed.plain, &swap, soon(), &err), TENURE_OK);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    tn_fault_free(bed.fault);
    tenure_store_close(bed.plain);
    return 0;
}

static enum tenure_status remove_it(struct tenure_error *err)
{
    struct tenure_removal_options o = TENURE_REMOVAL_OPTIONS;
    struct tenure_removal result = TENURE_REMOVAL;

    o.store = "fault:w";
    o.name = "w";
    return tenure_remove(&o, &result, tenure_now() + 3600 * TN_S, err);
}

static void assert_tombstone(bool expected)
{
    struct tn_lease_seen seen = {0};

    read_lease(&seen);
    assert_int_equal(seen.tombstone, expected);
    tn_lease_seen_free(&seen);
}

/* Its term has ended, but not what it kept: that was never erased. */
static void a_later_term_is_not_entombed(void **state)
{
    struct tenure_error err = {0};

    (void)state;
    bed.moment = BEHIND_RELEASE;
    bed.holder = "";
    assert_int_equal(remove_it(&err), TENURE_CONFLICT);
    assert_non_null(strstr(err.text, "w is in use again: "));
    assert_tombstone(false);
}

static void who_is_faster_than_the_tombstone_is_named(void **state)
{
    struct tenure_error err = {0};

    (void)state;
    bed.moment = BEFORE_TOMBSTONE;
    bed.holder = "b";
    assert_int_equal(remove_it(&err), TENURE_CONFLICT);
    assert_non_null(strstr(err.text, "w is in use again, by b: "));
    assert_tombstone(false);
}

/* However long this process sleeps before it is sent. */
static void a_request_ends_with_the_term(void **state)
{
    struct tenure_error err = {0};

    (void)state;
    assert_int_equal(remove_it(&err), TENURE_OK);
    assert_true(bed.erasing >= 1 && bed.longest_ns < TTL_NS);
    assert_tombstone(true);
}

static void what_may_not_be_erased_is_tried_again(void **state)
{
    struct tenure_error err = {0};

    (void)state;
    bed.action = TN_FAULT_DROP_REQUEST;
    assert_int_equal(remove_it(&err), TENURE_OK);
    assert_true(bed.erasing >= 2);
    assert_tombstone(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_later_term_is_not_entombed, setup, teardown),
        cmocka_unit_test_setup_teardown(who_is_faster_than_the_tombstone_is_named, setup, teardown),
        cmocka_unit_test_setup_teardown(a_request_ends_with_the_term, setup, teardown),
        cmocka_unit_test_setup_teardown(what_may_not_be_erased_is_tried_again, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
