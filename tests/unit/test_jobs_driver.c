/*
 * Workers of one group on a real store, in one process: every job runs, never twice at an instant,
 * with a counter in its checkpoint that ends exactly where its runs have brought it.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "jobs/driver.h"
#include "jobs/operator.h"
#include "jobs/view.h"

#define JOBS    40u
#define WORKERS 3u
#define LIMIT_S 60

static struct tenure_error err;
static char url[64];

/* ---- The group ----------------------------------------------------------- */

static _Atomic(int) runs[JOBS];       /* how many run it at this instant */
static _Atomic(unsigned) acked[JOBS]; /* commits that were acknowledged */
static _Atomic(unsigned) overlaps, regressions;

struct worker {
    char id[8];
    tn_jobs_driver *driver;
    pthread_mutex_t lock;
    struct run {
        bool on, waits;
        uint64_t epoch;
        unsigned counter;
    } runs[JOBS];
    bool halted;
    _Atomic int64_t deadline_ns;
    unsigned fenced;
};

static struct worker workers[WORKERS];

static void end_run(struct worker *w, uint32_t number)
{
    if (!w->runs[number].on)
        return;
    w->runs[number].on = false;
    atomic_fetch_sub(&runs[number], 1);
}

static void on_deadline(void *arg, int64_t deadline_ns)
{
    atomic_store(&((struct worker *)arg)->deadline_ns, deadline_ns);
}

static void on_start(void *arg, const struct tn_job_start *s)
{
    struct worker *w = arg;
    char id[16], text[32] = "0";

    snprintf(id, sizeof id, "job-%02u", s->number);
    assert_string_equal(s->id, id);
    assert_memory_equal(s->spec, id, s->spec_len);
    assert_true(s->spec_len > 0 && s->checkpoint_len < sizeof text);
    memcpy(text, s->checkpoint_len ? s->checkpoint : "0", s->checkpoint_len + !s->checkpoint_len);
    pthread_mutex_lock(&w->lock);
    if (atomic_fetch_add(&runs[s->number], 1) != 0)
        atomic_fetch_add(&overlaps, 1);
    w->runs[s->number] =
        (struct run){.on = true, .epoch = s->epoch, .counter = (unsigned)strtoul(text, NULL, 10)};
    if (w->runs[s->number].counter < atomic_load(&acked[s->number]))
        atomic_fetch_add(&regressions, 1);
    pthread_mutex_unlock(&w->lock);
}

static void on_stop(void *arg, uint32_t number, int64_t by_ns, enum tn_jobs_cause cause)
{
    struct worker *w = arg;

    (void)by_ns;
    pthread_mutex_lock(&w->lock);
    w->fenced += cause == TN_CAUSE_FENCED;
    end_run(w, number);
    uint64_t epoch = w->runs[number].epoch;
    pthread_mutex_unlock(&w->lock);
    tn_jobs_driver_stopped(w->driver, number, epoch);
}

static void on_stop_all(void *arg, int64_t by_ns, enum tn_jobs_cause cause, const char *why)
{
    struct worker *w = arg;

    (void)by_ns, (void)cause, (void)why;
    pthread_mutex_lock(&w->lock);
    for (uint32_t i = 0; i < JOBS; i++)
        end_run(w, i);
    pthread_mutex_unlock(&w->lock);
    tn_jobs_driver_reaped(w->driver);
}

static void on_committed(void *arg, uint32_t number, uint64_t ticket, enum tenure_status status,
                         const struct tenure_error *why)
{
    struct worker *w = arg;

    (void)why;
    pthread_mutex_lock(&w->lock);
    w->runs[number].waits = false;
    if (status == TENURE_OK) {
        w->runs[number].counter = (unsigned)ticket;
        if (atomic_load(&acked[number]) < ticket)
            atomic_store(&acked[number], (unsigned)ticket);
    }
    pthread_mutex_unlock(&w->lock);
}

static void on_halted(void *arg)
{
    struct worker *w = arg;

    pthread_mutex_lock(&w->lock);
    w->halted = true;
    pthread_mutex_unlock(&w->lock);
}

/* Each job that runs advances its counter by one, and waits until that is stored. */
static void commit_all(struct worker *w)
{
    for (uint32_t i = 0; i < JOBS; i++) {
        char text[32];

        pthread_mutex_lock(&w->lock);
        struct run r = w->runs[i];
        if (r.on && !r.waits)
            w->runs[i].waits = true;
        pthread_mutex_unlock(&w->lock);
        if (!r.on || r.waits)
            continue;
        snprintf(text, sizeof text, "%u", r.counter + 1);
        assert_int_equal(
            tn_jobs_driver_commit(w->driver, i, r.epoch, text, strlen(text), r.counter + 1, &err),
            TENURE_OK);
    }
}

/* Somebody watches meanwhile, from another thread than those that change what is shown. */
static void look(struct worker *w)
{
    json_t *view = tn_jobs_view(w->driver, JOBS), *found = tn_jobs_find(w->driver, "job-0", 5);

    assert_string_equal(json_string_value(json_object_get(view, "worker")), w->id);
    assert_true(json_array_size(json_object_get(view, "own")) <= JOBS);
    assert_true(json_array_size(json_object_get(found, "jobs")) <= 5);
    assert_true(tn_jobs_fair(w->driver) <= JOBS);
    json_decref(view);
    json_decref(found);
}

static uint64_t moved_here(struct worker *w)
{
    struct tn_jobs_status status;
    uint64_t n = 0;

    tn_jobs_driver_status(w->driver, &status);
    for (unsigned i = 0; i < TN_MOVE_CAUSES; i++)
        n += status.moves[i];
    return n;
}

/* ---- Helpers ------------------------------------------------------------- */

static struct tn_jobs group(tenure_store *store)
{
    int64_t by = tenure_now() + LIMIT_S * TN_S;

    return (struct tn_jobs){store, "g", by, by};
}

static tenure_store *open_store(void)
{
    tenure_store *store = NULL;

    assert_int_equal(tenure_store_open(url, tenure_now() + 5 * TN_S, &store, &err), TENURE_OK);
    return store;
}

static void add_jobs(tenure_store *store)
{
    struct tn_new_job jobs[JOBS];
    char ids[JOBS][16];
    struct tn_jobs g = group(store);
    size_t added;

    for (unsigned i = 0; i < JOBS; i++) {
        snprintf(ids[i], sizeof ids[i], "job-%02u", i);
        jobs[i] = (struct tn_new_job){.id = ids[i],
                                      .pin = "",
                                      .must = "",
                                      .prefer = "",
                                      .weight = 1,
                                      .spec = ids[i],
                                      .spec_len = strlen(ids[i])};
    }
    assert_int_equal(tn_jobs_add(&g, jobs, JOBS, &added, &err), TENURE_OK);
    assert_int_equal(added, JOBS);
}

static void start_as(unsigned i, const char *id)
{
    struct worker *w = &workers[i];
    struct tn_jobs_options o = {.store = url,
                                .group = "g",
                                .id = w->id,
                                .ttl_ms = 20000,
                                .renew_ms = 200,
                                .labels = "a=b",
                                .observed = true};
    struct tn_jobs_hooks hooks = {.arg = w,
                                  .deadline = on_deadline,
                                  .start = on_start,
                                  .stop = on_stop,
                                  .stop_all = on_stop_all,
                                  .committed = on_committed,
                                  .halted = on_halted};

    memset(w, 0, sizeof *w);
    pthread_mutex_init(&w->lock, NULL);
    snprintf(w->id, sizeof w->id, "%s", id);
    assert_int_equal(tn_jobs_driver_start(&o, &hooks, &w->driver, &err), TENURE_OK);
}

static void start_worker(unsigned i)
{
    char id[8];

    snprintf(id, sizeof id, "w%u", i);
    start_as(i, id);
}

static void stop_worker(unsigned i)
{
    tn_jobs_driver_free(workers[i].driver);
    workers[i].driver = NULL;
    assert_true(workers[i].halted);
    pthread_mutex_destroy(&workers[i].lock);
}

static unsigned count_of(unsigned i)
{
    unsigned n = 0;

    pthread_mutex_lock(&workers[i].lock);
    for (uint32_t j = 0; j < JOBS; j++)
        n += workers[i].runs[j].on;
    pthread_mutex_unlock(&workers[i].lock);
    return n;
}

static unsigned running(void)
{
    unsigned n = 0;

    for (uint32_t j = 0; j < JOBS; j++)
        n += (unsigned)atomic_load(&runs[j]);
    return n;
}

/* Until it holds, while everybody commits. */
#define wait_for(condition)                                                                        \
    do {                                                                                           \
        int64_t wait_by = tenure_now() + LIMIT_S * TN_S;                                           \
        while (!(condition)) {                                                                     \
            for (unsigned wait_i = 0; wait_i < WORKERS; wait_i++)                                  \
                if (workers[wait_i].driver) {                                                      \
                    commit_all(&workers[wait_i]);                                                  \
                    look(&workers[wait_i]);                                                        \
                }                                                                                  \
            assert_true(tenure_now() < wait_by);                                                   \
            usleep(5000);                                                                          \
        }                                                                                          \
    } while (0)

static unsigned least_acked(void)
{
    unsigned least = UINT32_MAX;

    for (uint32_t j = 0; j < JOBS; j++)
        least = atomic_load(&acked[j]) < least ? atomic_load(&acked[j]) : least;
    return least;
}

/* The registers hold exactly what was acknowledged, or one more whose answer nobody waited for. */
static void check_counters(tenure_store *store)
{
    for (uint32_t j = 0; j < JOBS; j++) {
        struct tenure_value value = {0};
        struct tn_job job;
        const unsigned char *bytes;
        char key[32], text[32] = "";
        size_t len;

        snprintf(key, sizeof key, "g/job/job-%02u", j);
        assert_int_equal(tenure_store_read(store, key, &value, tenure_now() + 5 * TN_S, &err),
                         TENURE_OK);
        assert_int_equal(tn_job_decode(value.data, value.len, &job, &bytes, &len, &err), TENURE_OK);
        assert_true(len < sizeof text);
        memcpy(text, bytes, len);
        unsigned stored = (unsigned)strtoul(text, NULL, 10);
        assert_in_range(stored, atomic_load(&acked[j]), atomic_load(&acked[j]) + 1);
        assert_int_equal(job.seq, stored); /* each commit advanced both by one */
        tenure_value_free(&value);
    }
}

static void begin(const char *store_url)
{
    snprintf(url, sizeof url, "%s", store_url);
    for (uint32_t j = 0; j < JOBS; j++) {
        atomic_store(&runs[j], 0);
        atomic_store(&acked[j], 0);
    }
}

/* ---- The story ----------------------------------------------------------- */

static bool pause_is_confirmed(tenure_store *store)
{
    const char *ids[] = {"job-00", "job-01"};
    struct tn_jobs g = group(store);
    size_t owned = 2;

    assert_int_equal(tn_jobs_want(&g, ids, 2, TN_WANTED_PAUSED, true, &owned, &err), TENURE_OK);
    return owned == 0 && atomic_load(&runs[0]) == 0 && atomic_load(&runs[1]) == 0;
}

static void live(const char *store_url)
{
    const char *ids[] = {"job-00", "job-01"};
    struct tn_jobs_status status;
    size_t owned;

    begin(store_url);
    tenure_store *store = open_store();
    add_jobs(store);
    start_worker(0);
    wait_for(running() == JOBS);
    start_worker(1);
    start_worker(2);
    /* A join moves its quota, and no more. */
    wait_for(running() == JOBS && count_of(0) >= 13 && count_of(0) <= 14 && count_of(1) >= 13 &&
             count_of(1) <= 14);
    wait_for(least_acked() >= 3);
    assert_true(moved_here(&workers[0]) >= JOBS && moved_here(&workers[1]) >= 13);
    assert_true(pause_is_confirmed(store));
    struct tn_jobs g = group(store);
    assert_int_equal(tn_jobs_want(&g, ids, 2, TN_WANTED_RUNNING, false, &owned, &err), TENURE_OK);
    wait_for(running() == JOBS);
    /* Drained: it stays a member, without jobs. */
    g = group(store);
    assert_int_equal(tn_jobs_edit_member(&g, "w1", TN_MEMBER_DRAIN, &err), TENURE_OK);
    wait_for(running() == JOBS && count_of(1) == 0);
    tn_jobs_driver_status(workers[1].driver, &status);
    assert_int_equal(status.phase, TN_BEAT_IN);
    g = group(store);
    assert_int_equal(tn_jobs_edit_member(&g, "w1", TN_MEMBER_UNDRAIN, &err), TENURE_OK);
    wait_for(running() == JOBS && count_of(1) >= 13);
    stop_worker(2);
    wait_for(running() == JOBS);
    unsigned before = least_acked();
    wait_for(least_acked() > before);
    stop_worker(0);
    stop_worker(1);
    assert_int_equal(running(), 0);
    assert_int_equal(atomic_load(&overlaps), 0);
    assert_int_equal(atomic_load(&regressions), 0);
    check_counters(store);
    tenure_store_close(store);
}

/* Out until an operator lets it in again; nobody else takes its jobs before its lease is over. */
static void test_evicted(void **state)
{
    struct tn_jobs_status status;

    (void)state;
    begin("memory:evicted");
    tenure_store *store = open_store();
    add_jobs(store);
    start_worker(0);
    wait_for(running() == JOBS);
    start_worker(1);
    struct tn_jobs g = group(store);
    assert_int_equal(tn_jobs_edit_member(&g, "w0", TN_MEMBER_EVICT, &err), TENURE_OK);
    wait_for(count_of(0) == 0);
    wait_for((tn_jobs_driver_status(workers[0].driver, &status), status.waits[0] != '\0'));
    assert_non_null(strstr(status.waits, "evicted"));
    assert_int_equal(status.expired, 1);
    g = group(store);
    assert_int_equal(tn_jobs_edit_member(&g, "w0", TN_MEMBER_ADMIT, &err), TENURE_OK);
    wait_for(running() == JOBS && count_of(0) > 0);
    stop_worker(0);
    stop_worker(1);
    assert_int_equal(atomic_load(&overlaps), 0);
    assert_int_equal(atomic_load(&regressions), 0);
    check_counters(store);
    tenure_store_close(store);
}

/* A second process under one id waits, and says so. */
static void test_namesake(void **state)
{
    struct tn_jobs_status status;

    (void)state;
    begin("memory:namesake");
    tenure_store *store = open_store();
    add_jobs(store);
    start_worker(0);
    wait_for(running() == JOBS);
    start_as(1, "w0");
    wait_for((tn_jobs_driver_status(workers[1].driver, &status), status.waits[0] != '\0'));
    assert_int_equal(count_of(1), 0);
    stop_worker(0); /* then the other one joins at once */
    wait_for(count_of(1) == JOBS);
    stop_worker(1);
    assert_int_equal(atomic_load(&overlaps), 0);
    check_counters(store);
    tenure_store_close(store);
}

static void test_memory(void **state)
{
    (void)state;
    live("memory:jobs");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_evicted),
        cmocka_unit_test(test_namesake),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
