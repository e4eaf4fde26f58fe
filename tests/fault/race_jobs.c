/*
 * race_jobs - real processes share the jobs of a group, and are killed, stopped and asked to leave.
 *
 *     race_jobs URL [--jobs 200] [--stop] [--dir MODULES]
 *
 * --stop: one is stopped for longer than its lease, not killed.  For stores in which a client that
 * is stopped in the middle of a request holds no lock that everybody needs.
 *
 * Every process is a worker through the public library.  The judge is independent of the product:
 * a table in shared memory says who runs a job at this instant, so a second one is seen.  Each run
 * advances the counter in the checkpoint of its job, one a commit: what a run begins with is never
 * less than what was acknowledged, and at the end the counter is the number of commits.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jobs/operator.h"
#include "tenure/jobs.h"

#define JOBS_MAX 20000
#define WORKERS  3
#define TTL_MS   6000
#define RENEW_MS 300
#define LIMIT_S  120
#define SECOND   INT64_C(1000000000)

struct board {
    _Atomic pid_t owner[JOBS_MAX]; /* who runs it at this instant; 0: nobody */
    _Atomic unsigned acked[JOBS_MAX];
    _Atomic unsigned overlaps, regressions, commits, left;
};

static struct board *board;
static unsigned jobs = 200;
static bool stops;
static const char *url;
static pid_t pids[WORKERS];

/* ---- A worker ------------------------------------------------------------ */

static struct own {
    bool on;
    uint64_t epoch;
    unsigned counter;
} own[JOBS_MAX];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static tenure_worker *worker;
static volatile sig_atomic_t asked_to_leave;

static void on_term(int signo)
{
    (void)signo;
    asked_to_leave = 1;
}

static unsigned index_of(const char *id)
{
    return (unsigned)strtoul(id + 1, NULL, 10);
}

static void assigned(void *arg, const struct tenure_job *job)
{
    unsigned i = index_of(job->id);
    char text[32] = "0";

    (void)arg;
    if (job->checkpoint_len)
        snprintf(text, sizeof text, "%.*s", (int)job->checkpoint_len,
                 (const char *)job->checkpoint);
    if (atomic_exchange(&board->owner[i], getpid()) != 0)
        atomic_fetch_add(&board->overlaps, 1);
    pthread_mutex_lock(&lock);
    own[i] = (struct own){true, job->epoch, (unsigned)strtoul(text, NULL, 10)};
    if (own[i].counter < atomic_load(&board->acked[i]))
        atomic_fetch_add(&board->regressions, 1);
    pthread_mutex_unlock(&lock);
}

static void end_job(const char *id, uint64_t epoch)
{
    unsigned i = index_of(id);
    pid_t self = getpid();

    pthread_mutex_lock(&lock);
    if (own[i].epoch == epoch)
        own[i].on = false;
    pthread_mutex_unlock(&lock);
    atomic_compare_exchange_strong(&board->owner[i], &self, 0);
    tenure_worker_finished(worker, id, epoch, NULL);
    if (tenure_worker_finished(worker, id, epoch, NULL) != TENURE_FENCED)
        atomic_fetch_add(&board->overlaps, 1); /* the second could end a later run */
}

static void revoked(void *arg, const char *id, uint64_t epoch, int64_t deadline_ns, const char *why)
{
    (void)arg, (void)deadline_ns, (void)why;
    end_job(id, epoch);
}

static void take_answer(const struct tenure_job_commit *c)
{
    unsigned i = index_of(c->id);
    unsigned value = (unsigned)strtoul(c->data, NULL, 10);

    if (c->status == TENURE_FENCED)
        end_job(c->id, c->epoch);
    if (c->status != TENURE_OK)
        return;
    atomic_fetch_add(&board->commits, 1);
    pthread_mutex_lock(&lock);
    if (own[i].epoch == c->epoch)
        own[i].counter = value;
    pthread_mutex_unlock(&lock);
    unsigned before = atomic_load(&board->acked[i]);
    while (before < value && !atomic_compare_exchange_weak(&board->acked[i], &before, value))
        continue;
}

/* Each job that is held advances by one, in one batch. */
static void commit_all(void)
{
    static struct tenure_job_commit commits[JOBS_MAX];
    static char ids[JOBS_MAX][8], texts[JOBS_MAX][16];
    unsigned n = 0;

    for (unsigned i = 0; i < jobs; i++) {
        char id[8];

        snprintf(id, sizeof id, "j%u", i);
        pthread_mutex_lock(&lock);
        struct own o = own[i];
        pthread_mutex_unlock(&lock);
        if (!o.on || !tenure_worker_holds(worker, id, NULL))
            continue;
        memcpy(ids[n], id, sizeof id);
        int len = snprintf(texts[n], sizeof texts[n], "%u", o.counter + 1);
        commits[n] = (struct tenure_job_commit){ids[n], o.epoch, texts[n], (size_t)len, TENURE_OK};
        n++;
    }
    if (n && tenure_worker_commit_many(worker, commits, n, NULL) == TENURE_INVALID)
        exit(3);
    for (unsigned k = 0; k < n; k++)
        take_answer(&commits[k]);
}

static void traced(void *arg, const struct tenure_worker_trace *t)
{
    fprintf(stderr, "%.3f %s: %d %s %llu %s\n", (double)t->at_ns / 1e9, (const char *)arg,
            (int)t->event, t->subject, (unsigned long long)t->epoch, t->text);
}

static int work(unsigned seat)
{
    struct tenure_worker_options o = TENURE_WORKER_OPTIONS;
    struct tenure_error err = {0};
    char id[8];

    signal(SIGTERM, on_term);
    snprintf(id, sizeof id, "w%u", seat);
    o.store = url;
    o.group = "race";
    o.id = id;
    o.ttl_ms = TTL_MS;
    o.renew_ms = RENEW_MS;
    o.assigned = assigned;
    o.revoked = revoked;
    o.arg = id;
    o.trace = getenv("RACE_VERBOSE") ? traced : NULL;
    if (tenure_worker_start(&o, &worker, &err) != TENURE_OK) {
        fprintf(stderr, "worker %s: %s\n", id, err.text);
        return 2;
    }
    while (!asked_to_leave) {
        commit_all();
        usleep(20000 * (1 + jobs / 1000)); /* many jobs: the others want to write as well */
    }
    tenure_worker_stop(worker);
    atomic_fetch_add(&board->left, 1);
    return 0;
}

/* ---- The story ----------------------------------------------------------- */

static void start_worker(unsigned seat)
{
    pids[seat] = fork();
    if (pids[seat] == 0)
        _exit(work(seat));
}

static void end_all(void)
{
    for (unsigned i = 0; i < WORKERS; i++) {
        if (pids[i] > 0) {
            kill(pids[i], SIGKILL);
            waitpid(pids[i], NULL, 0);
        }
    }
}

static void fail(const char *what)
{
    fprintf(stderr, "race_jobs: %s\n", what);
    end_all();
    exit(1);
}

static unsigned count_of(unsigned seat)
{
    unsigned n = 0;

    for (unsigned i = 0; i < jobs; i++)
        n += atomic_load(&board->owner[i]) == pids[seat];
    return n;
}

static unsigned running(void)
{
    unsigned n = 0;

    for (unsigned i = 0; i < jobs; i++)
        n += atomic_load(&board->owner[i]) != 0;
    return n;
}

#define wait_for(condition)                                                                        \
    do {                                                                                           \
        int64_t wait_by = tenure_now() + LIMIT_S * SECOND;                                         \
        while (!(condition)) {                                                                     \
            if (tenure_now() > wait_by)                                                            \
                fail("not in time: " #condition);                                                  \
            usleep(20000);                                                                         \
        }                                                                                          \
    } while (0)

/* It does nothing any more: dead, or stopped. */
static void clear_owner(pid_t pid)
{
    for (unsigned i = 0; i < jobs; i++) {
        pid_t of = pid;

        atomic_compare_exchange_strong(&board->owner[i], &of, 0);
    }
}

static bool all_committed(void)
{
    for (unsigned i = 0; i < jobs; i++)
        if (atomic_load(&board->acked[i]) == 0)
            return false;
    return true;
}

static unsigned fair(void)
{
    return jobs / WORKERS;
}

static bool all_fair(void)
{
    for (unsigned i = 0; i < WORKERS; i++) {
        unsigned n = count_of(i);

        if (n < fair() || n > fair() + 1)
            return false;
    }
    return running() == jobs;
}

static void add_jobs(tenure_store *store)
{
    static struct tn_new_job list[JOBS_MAX];
    static char ids[JOBS_MAX][8];
    struct tn_jobs g = {.store = store, .name = "race"};
    struct tenure_error err = {0};
    size_t added;

    g.deadline = g.wait_until = tenure_now() + LIMIT_S * SECOND;
    for (unsigned i = 0; i < jobs; i++) {
        snprintf(ids[i], sizeof ids[i], "j%u", i);
        list[i] =
            (struct tn_new_job){.id = ids[i], .pin = "", .must = "", .prefer = "", .weight = 1};
    }
    if (tn_jobs_add(&g, list, jobs, &added, &err) != TENURE_OK)
        fail(err.text);
}

/* The counter is what was acknowledged, or more where a worker died before it knew. */
static void check_registers(tenure_store *store)
{
    for (unsigned i = 0; i < jobs; i++) {
        struct tenure_value value = {0};
        struct tenure_error err = {0};
        const unsigned char *bytes;
        char key[32], text[32] = "0";
        struct tn_job job;
        size_t len = 0;

        snprintf(key, sizeof key, "race/job/j%u", i);
        if (tenure_store_read(store, key, &value, tenure_now() + LIMIT_S * SECOND, &err) ||
            tn_job_decode(value.data, value.len, &job, &bytes, &len, &err))
            fail(err.text);
        if (len)
            snprintf(text, sizeof text, "%.*s", (int)len, (const char *)bytes);
        uint64_t counter = strtoull(text, NULL, 10);
        if (counter != job.seq || counter < atomic_load(&board->acked[i]) || counter == 0)
            fail("a counter has a gap, or lost what was acknowledged");
        tenure_value_free(&value);
    }
}

static void leave(unsigned seat)
{
    int status;

    kill(pids[seat], SIGTERM);
    if (waitpid(pids[seat], &status, 0) != pids[seat] || status != 0)
        fail("a worker did not leave cleanly");
    if (count_of(seat) != 0)
        fail("a worker that has left still runs jobs");
    pids[seat] = 0;
}

static void kill_worker(unsigned seat)
{
    kill(pids[seat], SIGKILL);
    waitpid(pids[seat], NULL, 0);
    clear_owner(pids[seat]);
    pids[seat] = 0;
}

static void stop_worker(unsigned seat)
{
    int status;

    kill(pids[seat], SIGSTOP);
    waitpid(pids[seat], &status, WUNTRACED);
    clear_owner(pids[seat]);
}

static void live(void)
{
    for (unsigned i = 0; i < WORKERS; i++)
        start_worker(i);
    wait_for(all_fair());
    leave(2); /* its jobs are free at once */
    wait_for(running() == jobs);
    start_worker(2);
    wait_for(all_fair());
    /* One is killed, one is killed or stopped for longer than its lease: the third gets all. */
    kill_worker(0);
    if (stops)
        stop_worker(1);
    else
        kill_worker(1);
    wait_for(count_of(2) == jobs);
    if (stops)
        kill(pids[1], SIGCONT);
    else
        start_worker(1);
    start_worker(0);
    wait_for(all_fair());
    unsigned before = atomic_load(&board->commits);
    wait_for(atomic_load(&board->commits) > before + 2 * jobs);
    wait_for(all_committed());
    for (unsigned i = 0; i < WORKERS; i++)
        leave(i);
}

int main(int argc, char **argv)
{
    struct tenure_error err = {0};
    tenure_store *store;

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--jobs") == 0 && i + 1 < argc)
            jobs = (unsigned)strtoul(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--stop") == 0)
            stops = true;
        else if (strcmp(argv[i], "--dir") == 0 && i + 1 < argc)
            tenure_store_module_dir(argv[++i], NULL);
        else
            url = argv[i];
    }
    if (!url || jobs < WORKERS || jobs > JOBS_MAX)
        return fprintf(stderr, "usage: race_jobs URL [--jobs N] [--stop] [--dir MODULES]\n"), 2;
    board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (board == MAP_FAILED)
        return 2;
    /* Closed before a fork: a connection is one process's. */
    if (tenure_store_open(url, tenure_now() + 5 * SECOND, &store, &err) != TENURE_OK)
        return fprintf(stderr, "race_jobs: %s\n", err.text), 2;
    add_jobs(store);
    tenure_store_close(store);
    live();
    if (tenure_store_open(url, tenure_now() + 5 * SECOND, &store, &err) != TENURE_OK)
        fail(err.text);
    check_registers(store);
    tenure_store_close(store);
    printf("%u jobs, %u commits, %u overlaps, %u regressions\n", jobs, board->commits,
           board->overlaps, board->regressions);
    return board->overlaps || board->regressions;
}
