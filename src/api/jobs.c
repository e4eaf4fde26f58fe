/*
 * Requests that may block: each on a thread of its own while its connection is
 * parked, so that /livez is answered whatever the store does.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "api/jobs.h"
#include "core/timing.h"
#include "os/thread.h"
#include "os/trim.h"
#include "state/http/http.h"
#include "status/election_inner.h"

#define JOBS_MAX   16 /* at once */
#define PATIENCE_S 2  /* at the end, for most; requests for the state are waited for */

struct tn_jobs {
    pthread_mutex_t lock;
    pthread_cond_t done;
    int event_fd; /* -1: nobody listens any more */
    unsigned running, on_elections, references;
};

/* Under the lock, which it gives back. */
static void release(struct tn_jobs *j)
{
    bool last = --j->references == 0;

    pthread_mutex_unlock(&j->lock);
    if (!last)
        return;
    pthread_cond_destroy(&j->done);
    pthread_mutex_destroy(&j->lock);
    free(j);
}

struct tn_jobs *tn_jobs_new(int event_fd)
{
    struct tn_jobs *j = calloc(1, sizeof *j);
    pthread_condattr_t attr;

    if (!j)
        return NULL;
    j->event_fd = event_fd;
    j->references = 1;
    pthread_mutex_init(&j->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&j->done, &attr);
    pthread_condattr_destroy(&attr);
    return j;
}

void tn_jobs_close(struct tn_jobs *j)
{
    struct timespec until;

    if (!j)
        return;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += PATIENCE_S;
    pthread_mutex_lock(&j->lock);
    j->event_fd = -1;
    while (j->on_elections > 0)
        pthread_cond_wait(&j->done, &j->lock);
    while (j->running > 0 && pthread_cond_timedwait(&j->done, &j->lock, &until) != ETIMEDOUT)
        continue;
    release(j);
}

/* ---- One job ------------------------------------------------------------- */

static void free_job(struct tn_job *job)
{
    if (job->reply.owned)
        free(job->reply.body);
    free(job->store);
    free(job->method);
    free(job->path);
    free(job->epoch);
    free(job->body);
    free(job);
}

/* The values of its headers live in this thread: keep them. */
static void copy_headers(struct tn_job *job)
{
    for (int i = 0; i < TN_JOB_HEADERS; i++) {
        if (!job->reply.headers[i].name)
            continue;
        snprintf(job->values[i], sizeof job->values[i], "%s", job->reply.headers[i].value);
        job->reply.headers[i].value = job->values[i];
    }
}

static void *job_main(void *arg)
{
    struct tn_job *job = arg;
    struct tn_jobs *j = job->jobs;
    uint64_t one = 1;

    tn_thread_name("tenure-request");
    job->run(job);
    copy_headers(job);
    tn_trim();
    pthread_mutex_lock(&j->lock);
    j->running--;
    j->on_elections -= job->election != NULL;
    job->done = true;
    bool forgotten = job->forgotten;
    ssize_t written = j->event_fd >= 0 ? write(j->event_fd, &one, sizeof one) : 0;
    (void)written; /* if it is full, it is readable already */
    pthread_cond_broadcast(&j->done);
    if (forgotten)
        free_job(job);
    release(j);
    return NULL;
}

static struct tn_job *new_job(enum tn_request_kind kind, struct tn_election *election,
                              const struct tn_http_request *request)
{
    struct tn_job *job = calloc(1, sizeof *job);
    const char *epoch = request->header(request, "Tenure-Epoch");

    if (!job)
        return NULL;
    job->run = tn_request_fns[kind];
    job->election = kind == TN_REQUEST_STATE ? election : NULL;
    job->shared = election->shared;
    job->reply = (struct tn_http_reply){.status = 500, .type = "application/json"};
    snprintf(job->name, sizeof job->name, "%s", tn_election_name(election));
    job->store = strdup(tn_election_store(election));
    job->method = strdup(request->method);
    job->path = strdup(request->path);
    job->epoch = epoch ? strdup(epoch) : NULL;
    request->peer(request, job->peer, sizeof job->peer);
    job->len = request->body_len;
    job->body = malloc(request->body_len + 1);
    if (!job->store || !job->method || !job->path || (epoch && !job->epoch) || !job->body) {
        free_job(job);
        return NULL;
    }
    if (request->body_len)
        memcpy(job->body, request->body, request->body_len);
    job->body[job->len] = '\0';
    return job;
}

struct tn_job *tn_job_start(struct tn_jobs *j, enum tn_request_kind kind,
                            struct tn_election *election, const struct tn_http_request *request,
                            struct tn_http_reply *reply)
{
    struct tn_job *job = NULL;
    pthread_t thread;

    pthread_mutex_lock(&j->lock);
    bool room = j->running < JOBS_MAX && j->event_fd >= 0;
    if (room && (job = new_job(kind, election, request))) {
        job->jobs = j;
        j->running++;
        j->references++;
        j->on_elections += job->election != NULL;
        if (tn_thread_start(&thread, job_main, job, NULL) == TENURE_OK) {
            pthread_detach(thread);
        } else {
            j->running--;
            j->references--;
            j->on_elections -= job->election != NULL;
            free_job(job);
            job = NULL;
        }
    }
    pthread_mutex_unlock(&j->lock);
    if (!job)
        tn_http_answer_error(reply, 503, "busy", "too much is being done; try again");
    return job;
}

const struct tn_http_reply *tn_job_reply(struct tn_job *job)
{
    pthread_mutex_lock(&job->jobs->lock);
    bool done = job->done;
    pthread_mutex_unlock(&job->jobs->lock);
    return done ? &job->reply : NULL;
}

bool tn_job_collect(struct tn_job *job, struct tn_http_reply *reply)
{
    if (!tn_job_reply(job))
        return false;
    *reply = job->reply; /* its headers' values live as long as the job does */
    job->reply.owned = false;
    return true;
}

void tn_job_forget(struct tn_job *job)
{
    if (!job)
        return;
    struct tn_jobs *j = job->jobs;
    pthread_mutex_lock(&j->lock);
    job->forgotten = true;
    bool done = job->done;
    pthread_mutex_unlock(&j->lock);
    if (done)
        free_job(job);
}
