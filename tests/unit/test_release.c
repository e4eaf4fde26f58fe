/* The releaser's swap: frees exactly the term it was told of, whatever comes between (I8). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/hex.h"
#include "control/control.h"
#include "core/timing.h"
#include "driver/driver.h"
#include "faultstore.h"
#include "lease/lease.h"
#include "supervise/guard/releaser.h"

static const uint8_t incarnation[TENURE_NONCE_SIZE] = "incarnation of a";
static const uint8_t grant[TENURE_NONCE_SIZE] = "the grant of a..";
static const uint8_t other[TENURE_NONCE_SIZE] = "somebody else's.";

struct bed {
    tn_fault *fault;
    tenure_store *store; /* through the faults */
    tenure_store *plain; /* behind their back */
    unsigned swaps;      /* of the releaser, so far */
    unsigned renewals;   /* to slip in between read and swap, so many times */
    bool taken;          /* a successor's claim slips in instead */
    enum tn_fault_action action;
};

static int64_t soon(void)
{
    return tenure_now() + 20 * TN_S;
}

/* Write the record as its holder, or a successor, would. */
static void put(struct bed *b, const char *holder, const uint8_t *process, const uint8_t *win)
{
    struct tenure_value buffer = {0};
    struct tn_lease_seen seen = {0};
    uint8_t nonce[TENURE_NONCE_SIZE];
    struct tenure_token token;

    assert_int_equal(tenure_nonce(nonce, NULL), TENURE_OK);
    assert_int_equal(tn_lease_read(b->plain, "w", &buffer, &seen, soon(), NULL), TENURE_OK);
    snprintf(seen.lease.holder, sizeof seen.lease.holder, "%s", holder);
    memcpy(seen.lease.incarnation, process, TENURE_NONCE_SIZE);
    memcpy(seen.lease.grant, win, TENURE_NONCE_SIZE);
    seen.lease.epoch++;
    seen.lease.ttl_ms = 15000;
    assert_int_equal(
        tn_lease_swap(b->plain, "w", &seen.token, nonce, &seen.lease, NULL, &token, soon(), NULL),
        TENURE_OK);
    tn_lease_seen_free(&seen);
    tenure_value_free(&buffer);
}

static void on_call(void *arg, const struct tn_fault_event *event, struct tn_fault_plan *plan)
{
    struct bed *b = arg;

    if (event->call != TN_CALL_SWAP)
        return;
    b->swaps++;
    plan->action = b->action;
    b->action = TN_FAULT_PASS;
    if (b->renewals > 0) {
        b->renewals--;
        put(b, "a", incarnation, grant);
    } else if (b->taken) {
        b->taken = false;
        put(b, "b", other, other);
    }
}

static int set_up(void **state)
{
    static struct bed b;

    memset(&b, 0, sizeof b);
    *state = &b;
    assert_int_equal(tn_fault_new("release", "memory:release", &b.fault, NULL), TENURE_OK);
    assert_int_equal(tenure_store_open("memory:release", soon(), &b.plain, NULL), TENURE_OK);
    assert_int_equal(tenure_store_open("fault:release", soon(), &b.store, NULL), TENURE_OK);
    put(&b, "a", incarnation, grant);
    tn_fault_hook(b.fault, on_call, &b);
    return 0;
}

static int tear_down(void **state)
{
    struct bed *b = *state;

    tenure_store_close(b->store);
    tenure_store_close(b->plain);
    tn_fault_free(b->fault);
    return 0;
}

static enum tenure_status release_by(struct bed *b, const char *id, int64_t deadline)
{
    struct tenure_error err;

    return tn_driver_release_grant(b->store, "w", id, incarnation, grant, deadline, &err);
}

static enum tenure_status release(struct bed *b)
{
    return release_by(b, "a", soon());
}

static void assert_holder(struct bed *b, const char *holder)
{
    struct tenure_value buffer = {0};
    struct tn_lease_seen seen = {0};

    assert_int_equal(tn_lease_read(b->plain, "w", &buffer, &seen, soon(), NULL), TENURE_OK);
    assert_string_equal(seen.lease.holder, holder);
    tn_lease_seen_free(&seen);
    tenure_value_free(&buffer);
}

static void test_frees_its_term(void **state)
{
    struct bed *b = *state;

    assert_int_equal(release(b), TENURE_OK);
    assert_holder(b, "");
    assert_int_equal(b->swaps, 1);
}

/* One of the dead tenure's last renewals lands between read and swap. */
static void test_last_renewals_cost_a_look(void **state)
{
    struct bed *b = *state;

    b->renewals = 3;
    assert_int_equal(release(b), TENURE_OK);
    assert_holder(b, "");
    assert_int_equal(b->swaps, 4);
}

static void test_never_blanks_a_successor(void **state)
{
    struct bed *b = *state;

    b->taken = true;
    assert_int_equal(release(b), TENURE_CONFLICT);
    assert_holder(b, "b");
    assert_int_equal(b->swaps, 1);
}

/* Each of the three alone is somebody else's term. */
static void test_all_three_must_match(void **state)
{
    struct bed *b = *state;

    assert_int_equal(release_by(b, "b", soon()), TENURE_CONFLICT);
    put(b, "a", other, grant);
    assert_int_equal(release(b), TENURE_CONFLICT);
    put(b, "a", incarnation, other);
    assert_int_equal(release(b), TENURE_CONFLICT);
    assert_holder(b, "a");
    assert_int_equal(b->swaps, 0);
}

/* Done, and the answer lost: the next try finds that out, and says so. */
static void test_unknown_is_settled_by_the_next_try(void **state)
{
    struct bed *b = *state;

    b->action = TN_FAULT_DROP_ANSWER;
    assert_int_equal(release(b), TENURE_UNKNOWN);
    assert_int_equal(release(b), TENURE_OK);
    assert_holder(b, "");
    assert_int_equal(b->swaps, 1);
}

static void test_free_by_others_is_not_ours(void **state)
{
    struct bed *b = *state;

    put(b, "", other, other);
    assert_int_equal(release(b), TENURE_CONFLICT);
    assert_int_equal(b->swaps, 0);
}

/* A holder that lives and renews for ever is not fought for ever. */
static void test_ends_at_its_deadline(void **state)
{
    struct bed *b = *state;

    b->renewals = UINT32_MAX;
    assert_int_equal(release_by(b, "a", tenure_now() + 50 * TN_MS), TENURE_TIMEOUT);
    assert_holder(b, "a");
}

static bool count(void *arg, const struct tenure_candidate *candidate)
{
    (void)candidate;
    ++*(unsigned *)arg;
    return true;
}

/* The records that are left when a releaser has freed the term of a, whose record this process
 * wrote. */
static unsigned left_of(struct bed *b, const uint8_t *writer)
{
    struct tn_release_ticket ticket = {.store = "memory:release", .name = "w", .id = "a"};
    struct tenure_candidate c = TENURE_CANDIDATE, was = TENURE_CANDIDATE;
    int fd = memfd_create("ticket", MFD_CLOEXEC);
    char text[TN_RELEASE_TICKET_MAX];
    unsigned n = 0;

    memcpy(ticket.incarnation, incarnation, sizeof incarnation);
    memcpy(ticket.grant, grant, sizeof grant);
    size_t len = tn_release_ticket_write(&ticket, text, sizeof text);
    assert_int_equal(write(fd, text, len), len);
    snprintf(c.id, sizeof c.id, "a");
    tn_hex_encode(writer, TENURE_NONCE_SIZE, c.incarnation);
    assert_int_equal(tn_candidate_announce(b->plain, "w", &c, &was, soon(), NULL), TENURE_OK);
    assert_int_equal(tn_release_from(fd, NULL), TENURE_OK);
    close(fd);
    assert_holder(b, "");
    assert_int_equal(tenure_candidates(b->plain, "w", count, &n, soon(), NULL), TENURE_OK);
    return n;
}

static void test_withdraws_its_record(void **state)
{
    assert_int_equal(left_of(*state, incarnation), 0);
}

static void test_leaves_the_record_of_a_living_process_with_its_id(void **state)
{
    assert_int_equal(left_of(*state, other), 1);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(test_frees_its_term),
        CASE(test_last_renewals_cost_a_look),
        CASE(test_never_blanks_a_successor),
        CASE(test_all_three_must_match),
        CASE(test_unknown_is_settled_by_the_next_try),
        CASE(test_free_by_others_is_not_ours),
        CASE(test_ends_at_its_deadline),
        CASE(test_withdraws_its_record),
        CASE(test_leaves_the_record_of_a_living_process_with_its_id),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
