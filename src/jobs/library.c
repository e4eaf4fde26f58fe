/* jobs/library.c - the public worker: callbacks in their order, commits that are waited for. */
#include "tenure/jobs.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/sized.h"
#include "jobs/assigned.h"
#include "jobs/driver.h"
#include "os/thread.h"

_Static_assert((int)TENURE_WORKER_DAMAGED == (int)TN_JOBS_DAMAGED, "one list of events");

enum event_kind { ASSIGNED, REVOKED, LOST };

/* A callback that is due. */
struct event {
    struct event *next;
    enum event_kind kind;
    struct tenure_grant grant;
    int64_t deadline_ns;
    size_t checkpoint_len, spec_len;
    char text[]; /* the id, then the checkpoint and the specification, or why */
};

struct tenure_worker {
    struct tenure_worker_options options; /* its strings are not ours */
    tn_jobs_driver *driver;
    int word_fd, timer_fd, poll_fd; /* something is due; the deadline; both */
    pthread_t thread;
    bool threaded;
    _Atomic int64_t deadline_ns;
    _Atomic bool halted, end;

    pthread_mutex_t lock;
    struct tn_assigned_table jobs;
    struct event *events, **events_end;
    bool stopping_all; /* the heartbeat waits until no job is left */

    pthread_mutex_t commit_lock;
    pthread_cond_t committed;
};

/* ---- What is due --------------------------------------------------------- */

static void leave_word(tenure_worker *w)
{
    uint64_t one = 1;

    while (write(w->word_fd, &one, sizeof one) < 0 && errno == EINTR)
        continue;
}

/* Under the lock.  Without memory for it a job could never be ended: the process cannot go on.
 * Whoever takes the first takes all: only that one needs a word. */
static struct event *post(tenure_worker *w, enum event_kind kind, const char *id, size_t extra)
{
    size_t len = strlen(id) + 1;
    struct event *e = calloc(1, sizeof *e + len + extra);

    if (!e)
        abort();
    e->kind = kind;
    memcpy(e->text, id, len);
    if (!w->events)
        leave_word(w);
    *w->events_end = e;
    w->events_end = &e->next;
    return e;
}

static char *behind_id(struct event *e)
{
    return e->text + strlen(e->text) + 1;
}

/* Under the lock. */
static struct event *post_why(tenure_worker *w, enum event_kind kind, const char *id,
                              const char *why)
{
    struct event *e = post(w, kind, id, strlen(why) + 1);

    strcpy(behind_id(e), why);
    return e;
}

/* Under the lock.  A job that was not told yet is not begun at all; one that was revoked before is
 * revoked again if it has less time now. */
static void revoke_job(tenure_worker *w, struct tn_assigned *job, int64_t by_ns, const char *why)
{
    struct event *e;

    if (job->revoked_by_ns && job->revoked_by_ns <= by_ns)
        return;
    if (!job->told) {
        uint32_t number = job->number;
        uint64_t epoch = job->epoch;

        tn_assigned_drop(&w->jobs, job);
        if (!w->stopping_all)
            tn_jobs_driver_stopped(w->driver, number, epoch);
        return;
    }
    job->revoked_by_ns = by_ns;
    e = post_why(w, REVOKED, job->id, why);
    e->grant.epoch = job->epoch;
    e->deadline_ns = by_ns;
}

/* Under the lock. */
static void revoke_all(tenure_worker *w, int64_t by_ns, const char *why, bool lost)
{
    struct tn_assigned *job = NULL;
    size_t bucket = 0;

    for (job = tn_assigned_next(&w->jobs, &bucket, NULL); job;) {
        struct tn_assigned *next = tn_assigned_next(&w->jobs, &bucket, job);

        job->lost |= lost;
        revoke_job(w, job, by_ns, why);
        job = next;
    }
}

/* Under the lock: the last one of all that were to end has ended. */
static void check_reaped(tenure_worker *w)
{
    if (!w->stopping_all || w->jobs.count > 0)
        return;
    w->stopping_all = false;
    tn_jobs_driver_reaped(w->driver);
}

/* ---- The driver's hooks -------------------------------------------------- */

static void on_deadline(void *arg, int64_t deadline_ns)
{
    tenure_worker *w = arg;
    struct itimerspec at = {.it_value = {deadline_ns / TN_S, deadline_ns % TN_S}};

    if (atomic_exchange(&w->deadline_ns, deadline_ns) != deadline_ns)
        timerfd_settime(w->timer_fd, TFD_TIMER_ABSTIME, &at, NULL);
}

static void on_start(void *arg, const struct tn_job_start *s)
{
    tenure_worker *w = arg;
    struct tn_assigned *job;
    struct event *e;
    char *to;

    pthread_mutex_lock(&w->lock);
    job = tn_assigned_add(&w->jobs, s->id, s->number, s->epoch);
    if (!job)
        abort();
    e = post(w, ASSIGNED, s->id, s->checkpoint_len + s->spec_len);
    e->grant.epoch = s->epoch;
    memcpy(e->grant.id, s->grant, sizeof e->grant.id);
    e->checkpoint_len = s->checkpoint_len;
    e->spec_len = s->spec_len;
    to = behind_id(e);
    if (s->checkpoint_len)
        memcpy(to, s->checkpoint, s->checkpoint_len);
    if (s->spec_len)
        memcpy(to + s->checkpoint_len, s->spec, s->spec_len);
    pthread_mutex_unlock(&w->lock);
}

static void on_stop(void *arg, uint32_t number, int64_t by_ns, enum tn_jobs_cause cause)
{
    tenure_worker *w = arg;

    pthread_mutex_lock(&w->lock);
    struct tn_assigned *job = tn_assigned_of_number(&w->jobs, number);
    if (job) {
        job->lost |= cause == TN_CAUSE_FENCED;
        revoke_job(w, job, by_ns, tn_jobs_cause_word(cause));
    }
    pthread_mutex_unlock(&w->lock);
}

static void on_stop_all(void *arg, int64_t by_ns, enum tn_jobs_cause cause, const char *why)
{
    tenure_worker *w = arg;

    pthread_mutex_lock(&w->lock);
    w->stopping_all = true;
    if (cause == TN_CAUSE_LOST)
        post_why(w, LOST, "", why);
    revoke_all(w, by_ns, why, cause == TN_CAUSE_LOST);
    check_reaped(w);
    pthread_mutex_unlock(&w->lock);
}

static void on_trace(void *arg, const struct tn_jobs_trace *t)
{
    tenure_worker *w = arg;
    struct tenure_worker_trace trace = {.event = (enum tenure_worker_event)t->kind,
                                        .at_ns = t->at_ns,
                                        .subject = t->job,
                                        .epoch = t->epoch,
                                        .status = t->status,
                                        .text = t->text};

    w->options.trace(w->options.arg, &trace);
}

static void on_halted(void *arg)
{
    tenure_worker *w = arg;

    atomic_store(&w->halted, true);
    leave_word(w);
}

/* ---- Callbacks ----------------------------------------------------------- */

static void drain(int fd)
{
    uint64_t count;

    if (read(fd, &count, sizeof count) < 0)
        return; /* nothing there: fine */
}

/* Whatever the store's threads do, nothing runs on beyond the deadline. */
static void check_deadline(tenure_worker *w)
{
    int64_t deadline = atomic_load(&w->deadline_ns);

    if (deadline == 0 || tenure_now() < deadline)
        return;
    pthread_mutex_lock(&w->lock);
    bool fires = w->jobs.count > 0 && !w->stopping_all;
    if (fires)
        revoke_all(w, deadline, "the deadline has passed", true);
    pthread_mutex_unlock(&w->lock);
    if (fires)
        tn_jobs_driver_fired(w->driver);
}

/* The next event, if it still has a meaning: *call.  NULL: there is none. */
static struct event *take_event(tenure_worker *w, bool *call)
{
    pthread_mutex_lock(&w->lock);
    struct event *e = w->events;
    if (e) {
        struct tn_assigned *job = tn_assigned_find(&w->jobs, e->text);
        bool ours = job && job->epoch == e->grant.epoch;

        w->events = e->next;
        if (!w->events)
            w->events_end = &w->events;
        if (e->kind == ASSIGNED && ours)
            job->told = true;
        *call = e->kind == LOST || ours;
    }
    pthread_mutex_unlock(&w->lock);
    return e;
}

static void call_assigned(tenure_worker *w, struct event *e)
{
    const char *checkpoint = behind_id(e);
    struct tenure_job job = {.id = e->text,
                             .epoch = e->grant.epoch,
                             .grant = e->grant,
                             .checkpoint = checkpoint,
                             .checkpoint_len = e->checkpoint_len,
                             .spec = checkpoint + e->checkpoint_len,
                             .spec_len = e->spec_len};

    if (w->options.assigned)
        w->options.assigned(w->options.arg, &job);
}

static void call_event(tenure_worker *w, struct event *e)
{
    const struct tenure_worker_options *o = &w->options;

    if (e->kind == ASSIGNED)
        call_assigned(w, e);
    else if (e->kind == LOST && o->lost)
        o->lost(o->arg, behind_id(e));
    else if (e->kind == REVOKED && o->revoked)
        o->revoked(o->arg, e->text, e->grant.epoch, e->deadline_ns, behind_id(e));
    else if (e->kind == REVOKED)
        tenure_worker_finished(w, e->text, e->grant.epoch, NULL);
}

static void run_callbacks(tenure_worker *w)
{
    struct event *e;
    bool call = false;

    drain(w->word_fd);
    drain(w->timer_fd);
    check_deadline(w);
    while ((e = take_event(w, &call))) {
        if (call)
            call_event(w, e);
        free(e);
        check_deadline(w);
    }
}

static void *callback_main(void *arg)
{
    tenure_worker *w = arg;
    struct epoll_event ready;

    tn_thread_name("jobs-callbacks");
    while (!atomic_load(&w->end)) {
        run_callbacks(w);
        epoll_wait(w->poll_fd, &ready, 1, -1);
    }
    return NULL;
}

int tenure_worker_fd(const tenure_worker *w)
{
    return w->options.manual_dispatch ? w->poll_fd : -1;
}

void tenure_worker_dispatch(tenure_worker *w)
{
    if (w->options.manual_dispatch)
        run_callbacks(w);
}

/* ---- Commits ------------------------------------------------------------- */

/* One call of commit_many(), and each of its commits: the ticket is where that one is. */
struct waiting {
    size_t left;
    enum tenure_status first;
    struct tenure_error *err;
};
struct ticket {
    struct waiting *call;
    enum tenure_status *status;
};

static void on_committed(void *arg, uint32_t number, uint64_t ticket, enum tenure_status status,
                         const struct tenure_error *err)
{
    tenure_worker *w = arg;
    struct ticket *t = (struct ticket *)(uintptr_t)ticket;

    (void)number;
    pthread_mutex_lock(&w->commit_lock);
    *t->status = status;
    if (status && !t->call->first) {
        t->call->first = status;
        if (t->call->err)
            *t->call->err = *err;
    }
    if (--t->call->left == 0)
        pthread_cond_broadcast(&w->committed);
    pthread_mutex_unlock(&w->commit_lock);
}

static enum tenure_status send_commit(tenure_worker *w, const struct tenure_job_commit *c,
                                      struct ticket *ticket, struct tenure_error *err)
{
    pthread_mutex_lock(&w->lock);
    const struct tn_assigned *job = tn_assigned_find(&w->jobs, c->id);
    bool ours = job && job->epoch == c->epoch && !job->lost;
    uint32_t number = ours ? job->number : 0;
    pthread_mutex_unlock(&w->lock);
    if (!ours)
        return tenure_fail(err, TENURE_FENCED, "'%.100s' is not this worker's in epoch %llu", c->id,
                           (unsigned long long)c->epoch);
    return tn_jobs_driver_queue_commit(w->driver, number, c->epoch, c->data, c->len,
                                       (uint64_t)(uintptr_t)ticket, err);
}

enum tenure_status tenure_worker_commit_many(tenure_worker *w, struct tenure_job_commit *commits,
                                             size_t n, struct tenure_error *err)
{
    struct tenure_error scratch;
    struct waiting call = {.left = n, .err = err};
    struct ticket *tickets = calloc(n + 1, sizeof *tickets);

    if (!tickets)
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    for (size_t i = 0; i < n; i++) {
        tickets[i] = (struct ticket){&call, &commits[i].status};
        enum tenure_status status = send_commit(w, &commits[i], &tickets[i], &scratch);
        if (status)
            on_committed(w, 0, (uint64_t)(uintptr_t)&tickets[i], status, &scratch);
    }
    tn_jobs_driver_send_commits(w->driver);
    pthread_mutex_lock(&w->commit_lock);
    while (call.left > 0)
        pthread_cond_wait(&w->committed, &w->commit_lock);
    pthread_mutex_unlock(&w->commit_lock);
    free(tickets);
    return call.first;
}

enum tenure_status tenure_worker_commit(tenure_worker *w, const char *id, uint64_t epoch,
                                        const void *data, size_t len, struct tenure_error *err)
{
    struct tenure_job_commit commit = {.id = id, .epoch = epoch, .data = data, .len = len};

    return tenure_worker_commit_many(w, &commit, 1, err);
}

/* ---- Asking -------------------------------------------------------------- */

/* Under the lock. */
static enum tenure_status finish_job(tenure_worker *w, const char *id, uint64_t epoch,
                                     struct tenure_error *err)
{
    struct tn_assigned *job = tn_assigned_find(&w->jobs, id);

    if (!job)
        return tenure_fail(err, TENURE_FENCED, "job '%.100s' does not run on this worker", id);
    if (job->epoch != epoch)
        return tenure_fail(err, TENURE_FENCED,
                           "epoch %" PRIu64 " of job '%.100s' is over; it is at epoch %" PRIu64,
                           epoch, id, job->epoch);
    uint32_t number = job->number;
    tn_assigned_drop(&w->jobs, job);
    if (!w->stopping_all)
        tn_jobs_driver_stopped(w->driver, number, epoch);
    check_reaped(w);
    return TENURE_OK;
}

enum tenure_status tenure_worker_finished(tenure_worker *w, const char *id, uint64_t epoch,
                                          struct tenure_error *err)
{
    pthread_mutex_lock(&w->lock);
    enum tenure_status status = finish_job(w, id, epoch, err);
    pthread_mutex_unlock(&w->lock);
    return status;
}

bool tenure_worker_holds(tenure_worker *w, const char *id, uint64_t *epoch)
{
    pthread_mutex_lock(&w->lock);
    const struct tn_assigned *job = tn_assigned_find(&w->jobs, id);
    uint64_t of = job && !job->lost ? job->epoch : 0;
    pthread_mutex_unlock(&w->lock);
    /* The time is read after the bound: an older reading could only be kinder. */
    int64_t until = atomic_load(&w->deadline_ns);
    bool holds = of != 0 && tenure_now() < until;
    if (epoch)
        *epoch = holds ? of : 0;
    return holds;
}

int64_t tenure_worker_time_left(const tenure_worker *w)
{
    int64_t left = atomic_load(&w->deadline_ns) - tenure_now();

    return left > 0 ? left : 0;
}

void tenure_worker_status(tenure_worker *w, struct tenure_worker_status *status)
{
    struct tn_jobs_status s;

    tn_jobs_driver_status(w->driver, &s);
    struct tenure_worker_status whole = {.members = s.members,
                                         .jobs = s.jobs,
                                         .unplaced = s.unplaced,
                                         .planned = s.planned,
                                         .running = s.running,
                                         .renewals = s.renewals,
                                         .expired = s.expired,
                                         .commits = s.commits,
                                         .troubles = s.troubles,
                                         .lists = s.lists,
                                         .deadline_ns = s.deadline_ns};
    snprintf(whole.phase, sizeof whole.phase, "%s", tn_jobs_phase_word(s.phase));
    memcpy(whole.trouble, s.trouble, sizeof whole.trouble);
    memcpy(whole.waits, s.waits, sizeof whole.waits);
    tn_sized_copy(status, &whole, sizeof whole);
}

/* ---- Life ---------------------------------------------------------------- */

static void destroy(tenure_worker *w)
{
    while (w->events) {
        struct event *next = w->events->next;

        free(w->events);
        w->events = next;
    }
    tn_assigned_free(&w->jobs);
    if (w->word_fd >= 0)
        close(w->word_fd);
    if (w->timer_fd >= 0)
        close(w->timer_fd);
    if (w->poll_fd >= 0)
        close(w->poll_fd);
    pthread_mutex_destroy(&w->lock);
    pthread_mutex_destroy(&w->commit_lock);
    pthread_cond_destroy(&w->committed);
    free(w);
}

static enum tenure_status open_descriptors(tenure_worker *w, struct tenure_error *err)
{
    struct epoll_event on = {.events = EPOLLIN};

    w->word_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    w->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    w->poll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (w->word_fd < 0 || w->timer_fd < 0 || w->poll_fd < 0 ||
        epoll_ctl(w->poll_fd, EPOLL_CTL_ADD, w->word_fd, &on) != 0 ||
        epoll_ctl(w->poll_fd, EPOLL_CTL_ADD, w->timer_fd, &on) != 0)
        return tenure_fail(err, TENURE_UNAVAILABLE, "cannot make an event descriptor: %s",
                           strerror(errno));
    return TENURE_OK;
}

static enum tenure_status start_driver(tenure_worker *w, struct tenure_error *err)
{
    const struct tenure_worker_options *o = &w->options;
    char host[128] = "";
    struct tn_jobs_hooks hooks = {.arg = w,
                                  .deadline = on_deadline,
                                  .start = on_start,
                                  .stop = on_stop,
                                  .stop_all = on_stop_all,
                                  .committed = on_committed,
                                  .trace = o->trace ? on_trace : NULL,
                                  .halted = on_halted};

    if (gethostname(host, sizeof host - 1) != 0)
        host[0] = '\0';
    return tn_jobs_driver_start(&(struct tn_jobs_options){.store = o->store,
                                                          .group = o->group,
                                                          .id = o->id ? o->id : host,
                                                          .host = host,
                                                          .build = o->build,
                                                          .labels = o->labels,
                                                          .share = o->share,
                                                          .limit = o->limit,
                                                          .standby = o->standby,
                                                          .linger_ms = o->linger_ms,
                                                          .ttl_ms = o->ttl_ms,
                                                          .renew_ms = o->renew_ms,
                                                          .grace_ms = o->grace_ms,
                                                          .kill_ms = o->kill_ms,
                                                          .rho_ppm = o->rho_ppm},
                                &hooks, &w->driver, err);
}

enum tenure_status tenure_worker_start(const struct tenure_worker_options *options,
                                       tenure_worker **worker, struct tenure_error *err)
{
    struct tenure_error scratch;
    tenure_worker *w;
    enum tenure_status status = tn_sized_check(options->size, "TENURE_WORKER_OPTIONS", err);

    if (status)
        return status;
    err = err ? err : &scratch;
    w = calloc(1, sizeof *w);
    if (!w)
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    /* An older caller knows fewer members; the rest stay zero, the default. */
    memcpy(&w->options, options,
           options->size < sizeof w->options ? options->size : sizeof w->options);
    pthread_mutex_init(&w->lock, NULL);
    pthread_mutex_init(&w->commit_lock, NULL);
    pthread_cond_init(&w->committed, NULL);
    w->events_end = &w->events;
    status = open_descriptors(w, err);
    if (!status && !w->options.manual_dispatch) {
        status = tn_thread_start(&w->thread, callback_main, w, err);
        w->threaded = !status;
    }
    if (!status)
        status = start_driver(w, err);
    if (status)
        tenure_worker_stop(w);
    else
        *worker = w;
    return status;
}

void tenure_worker_stop(tenure_worker *w)
{
    if (!w)
        return;
    if (w->driver) {
        tn_jobs_driver_leave(w->driver);
        while (w->options.manual_dispatch && !atomic_load(&w->halted)) {
            struct epoll_event ready;

            run_callbacks(w);
            epoll_wait(w->poll_fd, &ready, 1, 100);
        }
        tn_jobs_driver_free(w->driver);
    }
    atomic_store(&w->end, true);
    leave_word(w);
    if (w->threaded)
        pthread_join(w->thread, NULL);
    destroy(w);
}
