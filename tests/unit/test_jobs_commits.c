/*
 * What becomes of a checkpoint when its job ends, or the membership, in the same moment: what was
 * acknowledged stays, and no commit that is stored is answered as fenced.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "jobs/driver.h"
#include "jobs/operator.h"

#define LIMIT_S 60
/* Tickets: HOLD is of no run, so it is answered at once, on the work's thread. */
enum { FIRST = 1, HOLD, LAST, TICKETS };

static struct tenure_error err;
static tn_jobs_driver *driver;
static _Atomic(unsigned) starts, ends_of_all;
static _Atomic(uint64_t) epoch;
static _Atomic(int) answers[TICKETS]; /* the status, and 1; 0: none yet */
static atomic_bool held, fire;
static char checkpoint[32]; /* of the last start: read after `starts` has grown */

#define wait_for(condition)                                                                        \
    do {                                                                                           \
        int64_t wait_by = tenure_now() + LIMIT_S * TN_S;                                           \
        while (!(condition)) {                                                                     \
            assert_true(tenure_now() < wait_by);                                                   \
            usleep(1000);                                                                          \
        }                                                                                          \
    } while (0)

static void on_deadline(void *arg, int64_t deadline_ns)
{
    (void)arg, (void)deadline_ns;
}

static void on_start(void *arg, const struct tn_job_start *s)
{
    (void)arg;
    snprintf(checkpoint, sizeof checkpoint, "%.*s", (int)s->checkpoint_len,
             s->checkpoint_len ? (const char *)s->checkpoint : "");
    atomic_store(&epoch, s->epoch);
    atomic_fetch_add(&starts, 1);
}

static void on_stop(void *arg, uint32_t number, int64_t by_ns, enum tn_jobs_cause cause)
{
    (void)arg, (void)by_ns, (void)cause;
    tn_jobs_driver_stopped(driver, number, atomic_load(&epoch));
}

static void on_stop_all(void *arg, int64_t by_ns, enum tn_jobs_cause cause, const char *why)
{
    (void)arg, (void)by_ns, (void)cause, (void)why;
    atomic_fetch_add(&ends_of_all, 1);
    tn_jobs_driver_reaped(driver);
}

/* A hook that is late: meanwhile the inbox fills, or the membership ends. */
static void on_committed(void *arg, uint32_t number, uint64_t ticket, enum tenure_status status,
                         const struct tenure_error *why)
{
    (void)arg, (void)number, (void)why;
    atomic_store(&answers[ticket], (int)status + 1);
    if (ticket == HOLD)
        wait_for(!atomic_load(&held));
    if (ticket == LAST && atomic_load(&fire)) {
        tn_jobs_driver_fired(driver);
        wait_for(atomic_load(&ends_of_all) == 1);
    }
}

static void commit(uint64_t run, const char *text, uint64_t ticket)
{
    assert_int_equal(tn_jobs_driver_commit(driver, 0, run, text, strlen(text), ticket, &err),
                     TENURE_OK);
}

/* A worker of one job, which runs. */
static tenure_store *begin(const char *url)
{
    int64_t by = tenure_now() + LIMIT_S * TN_S;
    struct tn_new_job job = {.id = "a", .pin = "", .must = "", .prefer = "", .weight = 1};
    struct tn_jobs_options o = {
        .store = url, .group = "g", .id = "w", .ttl_ms = 60000, .renew_ms = 200};
    struct tn_jobs_hooks hooks = {.deadline = on_deadline,
                                  .start = on_start,
                                  .stop = on_stop,
                                  .stop_all = on_stop_all,
                                  .committed = on_committed};
    tenure_store *store;
    size_t added;

    atomic_store(&starts, 0);
    atomic_store(&ends_of_all, 0);
    atomic_store(&fire, false);
    for (unsigned i = 0; i < TICKETS; i++)
        atomic_store(&answers[i], 0);
    assert_int_equal(tenure_store_open(url, by, &store, &err), TENURE_OK);
    struct tn_jobs group = {store, "g", by, by};
    assert_int_equal(tn_jobs_add(&group, &job, 1, &added, &err), TENURE_OK);
    assert_int_equal(tn_jobs_driver_start(&o, &hooks, &driver, &err), TENURE_OK);
    wait_for(atomic_load(&starts) == 1);
    return store;
}

/* "first" is acknowledged; then "last" is committed, and the job ends before that is sent. */
static void end_after_commit(const char *url, bool and_membership)
{
    tenure_store *store = begin(url);

    atomic_store(&fire, and_membership);
    commit(atomic_load(&epoch), "first", FIRST);
    wait_for(atomic_load(&answers[FIRST]) == TENURE_OK + 1);
    atomic_store(&held, true);
    commit(1, "", HOLD);
    wait_for(atomic_load(&answers[HOLD]) == TENURE_FENCED + 1);
    commit(atomic_load(&epoch), "last", LAST);
    tn_jobs_driver_stopped(driver, 0, atomic_load(&epoch));
    atomic_store(&held, false);
    wait_for(atomic_load(&starts) == 2);
    tn_jobs_driver_free(driver);
    tenure_store_close(store);
}

/* An end that is reported twice does not end the next run, which would then run unowned (J1). */
static void test_reported_twice(void **state)
{
    tenure_store *store = begin("memory:twice");
    uint64_t first = atomic_load(&epoch);

    (void)state;
    tn_jobs_driver_stopped(driver, 0, first);
    wait_for(atomic_load(&starts) == 2);
    assert_true(atomic_load(&epoch) > first);
    tn_jobs_driver_stopped(driver, 0, first);
    commit(atomic_load(&epoch), "second", FIRST);
    wait_for(atomic_load(&answers[FIRST]) != 0);
    assert_int_equal(atomic_load(&answers[FIRST]), TENURE_OK + 1);
    commit(atomic_load(&epoch), "third", LAST); /* after the report has been read */
    wait_for(atomic_load(&answers[LAST]) != 0);
    assert_int_equal(atomic_load(&answers[LAST]), TENURE_OK + 1);
    assert_int_equal(atomic_load(&starts), 2);
    tn_jobs_driver_free(driver);
    tenure_store_close(store);
}

static void test_the_job_ends(void **state)
{
    (void)state;
    end_after_commit("memory:ends", false);
    assert_int_equal(atomic_load(&answers[LAST]), TENURE_UNKNOWN + 1);
    assert_string_equal(checkpoint, "last");
}

static void test_the_membership_ends(void **state)
{
    (void)state;
    end_after_commit("memory:lost", true);
    assert_int_equal(atomic_load(&answers[LAST]), TENURE_UNKNOWN + 1);
    assert_string_equal(checkpoint, "first");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_job_ends),
        cmocka_unit_test(test_the_membership_ends),
        cmocka_unit_test(test_reported_twice),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
