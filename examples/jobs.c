/*
 * jobs - a worker that shares jobs with others; each of its jobs counts, and keeps its count.
 *
 *     cc jobs.c $(pkg-config --cflags --libs tenure) -o jobs
 *     tenure jobs add --store sqlite:/tmp/jobs.db --group demo a b c d
 *     ./jobs sqlite:/tmp/jobs.db one &  ./jobs sqlite:/tmp/jobs.db two
 *
 * End one of them with Ctrl-C: the other goes on with its jobs, from where they were.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenure/tenure.h>
#include <unistd.h>

#define JOBS_MAX 64

/* What this worker works on.  Callbacks run in the loop below: no lock is needed. */
static struct {
    char id[64];
    uint64_t epoch; /* 0: a place that is free */
    unsigned long count;
} jobs[JOBS_MAX];

static volatile sig_atomic_t asked_to_stop;

static void on_signal(int signo)
{
    (void)signo;
    asked_to_stop = 1;
}

static void assigned(void *arg, const struct tenure_job *job)
{
    char text[32] = "0";

    (void)arg;
    if (job->checkpoint_len > 0 && job->checkpoint_len < sizeof text)
        memcpy(text, job->checkpoint, job->checkpoint_len);
    for (int i = 0; i < JOBS_MAX; i++) {
        if (jobs[i].epoch != 0)
            continue;
        snprintf(jobs[i].id, sizeof jobs[i].id, "%s", job->id);
        jobs[i].epoch = job->epoch;
        jobs[i].count = strtoul(text, NULL, 10);
        printf("%s begins at %lu\n", job->id, jobs[i].count);
        return;
    }
}

/* The work is done in this thread: it has ended when this is called. */
static void revoked(void *arg, const char *id, uint64_t epoch, int64_t deadline_ns, const char *why)
{
    tenure_worker *worker = *(tenure_worker **)arg;

    (void)deadline_ns;
    for (int i = 0; i < JOBS_MAX; i++) {
        if (jobs[i].epoch == epoch && strcmp(jobs[i].id, id) == 0) {
            printf("%s ends at %lu (%s)\n", id, jobs[i].count, why);
            jobs[i].epoch = 0;
        }
    }
    tenure_worker_finished(worker, id, epoch, NULL);
}

/* A piece of work on one job, and how far it has come. */
static void work(tenure_worker *worker, int i)
{
    char text[32];
    int len = snprintf(text, sizeof text, "%lu", jobs[i].count + 1);

    if (!tenure_worker_holds(worker, jobs[i].id, NULL))
        return;
    if (tenure_worker_commit(worker, jobs[i].id, jobs[i].epoch, text, (size_t)len, NULL) ==
        TENURE_OK)
        jobs[i].count++;
}

int main(int argc, char **argv)
{
    struct tenure_worker_options options = TENURE_WORKER_OPTIONS;
    struct tenure_error error;
    tenure_worker *worker;

    if (argc != 3)
        return fprintf(stderr, "usage: jobs STORE ID\n"), 2;
    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);
    setvbuf(stdout, NULL, _IOLBF, 0);

    options.store = argv[1];
    options.group = "demo";
    options.id = argv[2];
    options.arg = &worker;
    options.assigned = assigned;
    options.revoked = revoked;
    options.manual_dispatch = true;
    if (tenure_worker_start(&options, &worker, &error) != TENURE_OK) {
        fprintf(stderr, "jobs: %s\n", error.text);
        return 1;
    }
    while (!asked_to_stop) {
        tenure_worker_dispatch(worker);
        for (int i = 0; i < JOBS_MAX; i++) {
            if (jobs[i].epoch != 0)
                work(worker, i);
        }
        usleep(100 * 1000);
    }
    tenure_worker_stop(worker); /* calls revoked() for each job, then leaves */
    return 0;
}
