/* The library's worker on a store in memory: what a program that obeys its deadlines is told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/timing.h"
#include "jobs/operator.h"
#include "tenure/jobs.h"

#define LIMIT_S 180

static struct tenure_error err;
static _Atomic(unsigned) starts, revocations, losses;
static _Atomic(uint64_t) epoch;
static _Atomic(int64_t) deadlines[2];

#define wait_for(condition)                                                                        \
    do {                                                                                           \
        int64_t wait_by = tenure_now() + LIMIT_S * TN_S;                                           \
        while (!(condition)) {                                                                     \
            assert_true(tenure_now() < wait_by);                                                   \
            usleep(1000);                                                                          \
        }                                                                                          \
    } while (0)

static void on_assigned(void *arg, const struct tenure_job *job)
{
    (void)arg;
    atomic_store(&epoch, job->epoch);
    atomic_fetch_add(&starts, 1);
}

static void on_revoked(void *arg, const char *id, uint64_t run, int64_t deadline_ns,
                       const char *why)
{
    unsigned n = atomic_load(&revocations);

    (void)arg, (void)id, (void)run, (void)why;
    if (n < 2)
        atomic_store(&deadlines[n], deadline_ns);
    atomic_fetch_add(&revocations, 1);
}

static void on_lost(void *arg, const char *why)
{
    (void)arg, (void)why;
    atomic_fetch_add(&losses, 1);
}

/* A grace of an hour is longer than the lease: whoever was revoked and then loses the membership
 * hears how little time is left, because the next owner may begin then. */
static void test_less_time_is_told(void **state)
{
    const char *const url = "memory:library", *const id = "a";
    int64_t by = tenure_now() + LIMIT_S * TN_S;
    struct tn_new_job job = {.id = id, .pin = "", .must = "", .prefer = "", .weight = 1};
    struct tenure_worker_options o = TENURE_WORKER_OPTIONS;
    tenure_worker *worker;
    tenure_store *store;
    size_t count;

    (void)state;
    o.store = url;
    o.group = "g";
    o.id = "w";
    o.ttl_ms = 60000;
    o.renew_ms = 200;
    o.grace_ms = 3600000;
    o.assigned = on_assigned;
    o.revoked = on_revoked;
    o.lost = on_lost;
    assert_int_equal(tenure_store_open(url, by, &store, &err), TENURE_OK);
    struct tn_jobs group = {store, "g", by, by};
    assert_int_equal(tn_jobs_add(&group, &job, 1, &count, &err), TENURE_OK);
    assert_int_equal(tenure_worker_start(&o, &worker, &err), TENURE_OK);
    wait_for(atomic_load(&starts) == 1);
    assert_int_equal(tn_jobs_want(&group, &id, 1, TN_WANTED_PAUSED, false, &count, &err),
                     TENURE_OK);
    wait_for(atomic_load(&revocations) == 1);
    assert_int_equal(tn_jobs_edit_member(&group, "w", TN_MEMBER_EVICT, &err), TENURE_OK);
    wait_for(atomic_load(&revocations) == 2);
    assert_int_equal(atomic_load(&losses), 1);
    assert_true(atomic_load(&deadlines[1]) < atomic_load(&deadlines[0]));
    assert_true(atomic_load(&deadlines[1]) <= tenure_now() + 60 * TN_S);
    assert_int_equal(tenure_worker_finished(worker, id, atomic_load(&epoch), &err), TENURE_OK);
    tenure_worker_stop(worker);
    tenure_store_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_less_time_is_told)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
