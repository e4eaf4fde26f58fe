/* The public calls fit together: a term's grant opens its state, sizes bound what is written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/timing.h"
#include "driver/driver.h"
#include "faultstore.h"
#include "tenure/tenure.h"
#include "tn_version.h"

static int64_t soon(void)
{
    return tenure_now() + 60 * TN_S;
}

static tenure_elector *candidate(const char *store, const char *id)
{
    struct tenure_elector_options o = TENURE_ELECTOR_OPTIONS;
    struct tenure_error err;
    tenure_elector *e = NULL;

    o.store = store;
    o.name = "w";
    o.id = id;
    o.ttl_ms = 60000;
    o.renew_ms = 300;
    assert_int_equal(tenure_elector_start(&o, &e, &err), TENURE_OK);
    return e;
}

static struct tenure_lease_view lease_of(tenure_store *store)
{
    struct tenure_lease_view view = TENURE_LEASE_VIEW;

    assert_int_equal(tenure_lease_look(store, "w", &view, soon(), NULL), TENURE_OK);
    return view;
}

static void headers_and_library_have_one_version(void **state)
{
    char numbers[32];

    (void)state;
    snprintf(numbers, sizeof numbers, "%d.%d.%d", TENURE_VERSION_MAJOR, TENURE_VERSION_MINOR,
             TENURE_VERSION_PATCH);
    assert_string_equal(numbers, TN_VERSION);
    assert_string_equal(TENURE_VERSION, TN_VERSION);
    assert_string_equal(tenure_version(), TN_VERSION);
    assert_int_equal(tenure_version_number(), TENURE_VERSION_NUMBER);
}

/* A struct as an older header had it: so many bytes, and then somebody else's. */
#define CANARY 0x5a
#define OLDER(type, last, make, call)                                                              \
    do {                                                                                           \
        static const type whole = make;                                                            \
        size_t size = offsetof(type, last);                                                        \
        type *older = malloc(sizeof *older);                                                       \
        unsigned char *bytes = (unsigned char *)older;                                             \
                                                                                                   \
        memset(older, CANARY, sizeof *older);                                                      \
        memset(older, 0, size);                                                                    \
        assert_int_equal(whole.size, sizeof whole);                                                \
        older->size = (uint32_t)size;                                                              \
        call;                                                                                      \
        assert_int_equal(older->size, size);                                                       \
        for (size_t i = size; i < sizeof *older; i++)                                              \
            assert_int_equal(bytes[i], CANARY);                                                    \
        free(older);                                                                               \
    } while (0)

static void nothing_is_written_beyond_the_callers_size(void **state)
{
    struct tenure_term_record term = {.epoch = 7, .holder = "a", .from_ms = 1, .to_ms = 2};
    tenure_store *store = NULL;
    tenure_elector *e;

    (void)state;
    assert_int_equal(tenure_store_open("memory:sizes", soon(), &store, NULL), TENURE_OK);
    assert_int_equal(tenure_control_pause(store, "w", "me", "why", soon(), NULL), TENURE_OK);
    OLDER(struct tenure_control, paused_at, TENURE_CONTROL, {
        assert_int_equal(tenure_control_look(store, "w", older, soon(), NULL), TENURE_OK);
        assert_true(older->paused);
        assert_string_equal(older->paused_by, "me");
    });
    assert_int_equal(tenure_control_resume(store, "w", soon(), NULL), TENURE_OK);
    e = candidate("memory:sizes", "a");
    assert_int_equal(tenure_elector_wait(e, soon(), NULL, NULL), TENURE_OK);
    OLDER(struct tenure_lease_view, ttl_ms, TENURE_LEASE_VIEW, {
        assert_int_equal(tenure_lease_look(store, "w", older, soon(), NULL), TENURE_OK);
        assert_string_equal(older->holder, "a");
        assert_int_equal(tenure_lease_wait(store, "w", older, -1, soon(), NULL), TENURE_INVALID);
    });
    OLDER(struct tenure_elector_status, leader, TENURE_ELECTOR_STATUS, {
        tenure_elector_status(e, older);
        assert_string_equal(older->phase, "leading");
    });
    tenure_elector_stop(e);
    for (term.epoch = 7; term.epoch < 10; term.epoch++)
        assert_int_equal(tenure_history_note(store, "w", &term, 0, soon(), NULL), TENURE_OK);
    OLDER(struct tenure_history, terms[2], TENURE_HISTORY, {
        assert_int_equal(tenure_history_look(store, "w", older, soon(), NULL), TENURE_OK);
        assert_int_equal(older->n, 2);
        assert_int_equal(older->terms[1].epoch, 9);
    });
    tenure_store_close(store);
}

static void a_struct_without_a_size_is_refused(void **state)
{
    struct tenure_control control = {0};
    struct tenure_lease_view view = {0};
    struct tenure_history history = {0};
    struct tenure_candidate found = {0};
    struct tenure_handover result = {0};
    struct tenure_error err = {0};
    tenure_store *store = NULL;

    (void)state;
    assert_int_equal(tenure_store_open("memory:sizeless", soon(), &store, NULL), TENURE_OK);
    assert_int_equal(tenure_control_look(store, "w", &control, soon(), &err), TENURE_INVALID);
    assert_non_null(strstr(err.text, "TENURE_CONTROL"));
    assert_int_equal(tenure_lease_look(store, "w", &view, soon(), &err), TENURE_INVALID);
    assert_int_equal(tenure_history_look(store, "w", &history, soon(), &err), TENURE_INVALID);
    assert_int_equal(tenure_control_call(store, "w", NULL, &found, soon(), &err), TENURE_INVALID);
    assert_int_equal(tenure_handover(store, "w", NULL, &result, soon(), &err), TENURE_INVALID);
    tenure_store_close(store);
}

static void the_grant_of_a_term_opens_its_state(void **state)
{
    struct tenure_commit commit = {.collection = "docs", .id = "a", .data = "1", .len = 1};
    struct tenure_grant grant = {0}, again = {0};
    tenure_elector *e = candidate("memory:grant", "a");
    tenure_state *s = NULL;
    uint64_t epoch = 0;

    (void)state;
    assert_int_equal(tenure_elector_wait(e, soon(), &grant, NULL), TENURE_OK);
    assert_true(tenure_elector_leads(e, &epoch));
    assert_true(epoch == grant.epoch && epoch > 0);
    assert_int_equal(tenure_state_open("memory:grant", "w", &grant, soon(), &s, NULL), TENURE_OK);
    assert_int_equal(tenure_state_commit(s, &commit, 1, soon(), NULL), TENURE_OK);
    tenure_state_close(s);
    /* The same term opens it again; one that invents its id does not. */
    assert_int_equal(tenure_elector_wait(e, soon(), &again, NULL), TENURE_OK);
    assert_memory_equal(&again, &grant, sizeof grant);
    grant.id[0] ^= 1;
    assert_int_equal(tenure_state_open("memory:grant", "w", &grant, soon(), &s, NULL), TENURE_OK);
    assert_int_equal(tenure_state_commit(s, &commit, 1, soon(), NULL), TENURE_FENCED);
    tenure_state_close(s);
    tenure_elector_stop(e);
}

static void waiting_ends_with_leadership_time_or_the_elector(void **state)
{
    tenure_elector *a = candidate("memory:wait", "a"), *b;

    (void)state;
    assert_int_equal(tenure_elector_wait(a, soon(), NULL, NULL), TENURE_OK);
    b = candidate("memory:wait", "b");
    assert_int_equal(tenure_elector_wait(b, tenure_now() + TN_MS, NULL, NULL), TENURE_TIMEOUT);
    tenure_elector_stop(a);
    assert_int_equal(tenure_elector_wait(b, soon(), NULL, NULL), TENURE_OK);
    tn_driver_shutdown(b);
    while (tenure_elector_leads(b, NULL))
        usleep(1000);
    assert_int_equal(tenure_elector_wait(b, soon(), NULL, NULL), TENURE_CANCELLED);
    tenure_elector_stop(b);
}

static void an_unhealthy_leader_steps_down_and_comes_back(void **state)
{
    tenure_elector *a = candidate("memory:health", "a"), *b;
    uint64_t epoch = 0;

    (void)state;
    assert_int_equal(tenure_elector_wait(a, soon(), NULL, NULL), TENURE_OK);
    b = candidate("memory:health", "b");
    tenure_elector_set_healthy(a, false);
    assert_int_equal(tenure_elector_wait(b, soon(), NULL, NULL), TENURE_OK);
    assert_false(tenure_elector_leads(a, &epoch));
    /* It claims nothing, although nobody else is there. */
    tenure_elector_stop(b);
    assert_int_equal(tenure_elector_wait(a, tenure_now() + 200 * TN_MS, NULL, NULL),
                     TENURE_TIMEOUT);
    tenure_elector_set_healthy(a, true);
    assert_int_equal(tenure_elector_wait(a, soon(), NULL, NULL), TENURE_OK);
    tenure_elector_stop(a);
}

/* The first claim takes effect, its answer is lost, and meanwhile the candidate becomes unhealthy.
 */
static tenure_elector *_Atomic late;

static void lose_the_first_claim(void *arg, const struct tn_fault_event *event,
                                 struct tn_fault_plan *plan)
{
    _Atomic bool *lost = arg;

    if (event->call != TN_CALL_SWAP || *lost || strcmp(event->key, "w/lease") != 0)
        return;
    while (!late)
        usleep(1000); /* until tenure_elector_start() has returned */
    tenure_elector_set_healthy(late, false);
    plan->action = TN_FAULT_DROP_ANSWER;
    *lost = true;
}

static void an_unhealthy_candidate_gives_up_a_claim_that_was_won_late(void **state)
{
    struct tenure_error err = {0};
    tenure_store *store = NULL;
    tn_fault *fault = NULL;
    _Atomic bool lost = false;

    (void)state;
    assert_int_equal(tn_fault_new("late", "memory:late", &fault, &err), TENURE_OK);
    tn_fault_hook(fault, lose_the_first_claim, &lost);
    assert_int_equal(tenure_store_open("memory:late", soon(), &store, NULL), TENURE_OK);
    late = candidate("fault:late", "a");
    while (lease_of(store).state != TENURE_LEASE_FREE)
        usleep(1000);
    assert_true(lost);
    assert_false(tenure_elector_leads(late, NULL));
    tenure_elector_stop(late);
    tenure_store_close(store);
    tn_fault_free(fault);
}

static void priority_and_ttl_change_while_it_leads(void **state)
{
    tenure_elector *e = candidate("memory:settings", "a");
    struct tenure_error err = {0};
    tenure_store *store = NULL;
    uint64_t before = 0, after = 0;

    (void)state;
    assert_int_equal(tenure_store_open("memory:settings", soon(), &store, NULL), TENURE_OK);
    assert_int_equal(tenure_elector_wait(e, soon(), NULL, NULL), TENURE_OK);
    assert_true(tenure_elector_leads(e, &before));
    assert_int_equal(tenure_elector_set_ttl(e, 100, 0, &err), TENURE_CONFIG);
    assert_int_equal(lease_of(store).ttl_ms, 60000);
    tenure_elector_set_priority(e, 7);
    assert_int_equal(tenure_elector_set_ttl(e, 90000, 200, &err), TENURE_OK);
    while (lease_of(store).ttl_ms != 90000 || lease_of(store).priority != 7)
        usleep(1000);
    assert_true(tenure_elector_leads(e, &after));
    assert_true(before == after);
    tenure_elector_stop(e);
    tenure_store_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(headers_and_library_have_one_version),
        cmocka_unit_test(nothing_is_written_beyond_the_callers_size),
        cmocka_unit_test(a_struct_without_a_size_is_refused),
        cmocka_unit_test(the_grant_of_a_term_opens_its_state),
        cmocka_unit_test(waiting_ends_with_leadership_time_or_the_elector),
        cmocka_unit_test(an_unhealthy_leader_steps_down_and_comes_back),
        cmocka_unit_test(an_unhealthy_candidate_gives_up_a_claim_that_was_won_late),
        cmocka_unit_test(priority_and_ttl_change_while_it_leads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
