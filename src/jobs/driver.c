/* jobs/driver.c - a worker's life, and what others ask of it. */
#include "jobs/driver.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/key.h"
#include "base/name.h"
#include "base/text.h"
#include "driver/timing_text.h"
#include "jobs/driver_inner.h"
#include "os/clock.h"
#include "os/thread.h"

#define OPEN_LIMIT_NS  (5 * TN_S)
#define TTL_DEFAULT_MS 90000
#define GRACE_MS       8000
#define LINGER_MAX_MS  86400000

/* ---- Small things -------------------------------------------------------- */

const char *tn_jobs_cause_word(enum tn_jobs_cause cause)
{
    static const char *const words[TN_JOBS_CAUSES] = {"moved", "paused", "fenced", "lost",
                                                      "leaving"};

    return words[cause];
}

const char *tn_jobs_phase_word(enum tn_beat_phase phase)
{
    static const char *const words[] = {"joining", "member", "draining", "lost", "leaving", "left"};

    return words[phase];
}

void tn_jobs_wake(int fd)
{
    uint64_t one = 1;

    while (write(fd, &one, sizeof one) < 0 && errno == EINTR)
        continue;
}

void tn_jobs_drain(int fd)
{
    uint64_t count;

    if (read(fd, &count, sizeof count) < 0)
        return; /* nothing there: fine */
}

/* Without random numbers no safe step is possible. */
void tn_jobs_entropy(uint64_t entropy[2])
{
    uint8_t nonce[TENURE_NONCE_SIZE];

    if (tenure_nonce(nonce, NULL) != TENURE_OK)
        abort();
    memcpy(entropy, nonce, sizeof nonce);
}

void tn_jobs_trace(tn_jobs_driver *d, struct tn_jobs_trace trace)
{
    if (!d->hooks.trace)
        return;
    trace.at_ns = tenure_now();
    trace.job = trace.job ? trace.job : "";
    trace.text = trace.text ? trace.text : "";
    d->hooks.trace(d->hooks.arg, &trace);
}

void tn_jobs_answered(tn_jobs_driver *d, enum tenure_status *failing, const char *doing,
                      enum tenure_status status, const struct tenure_error *err)
{
    char text[sizeof d->status.trouble] = "";
    bool changed = status != *failing;

    if (!status && !*failing)
        return;
    if (status)
        snprintf(text, sizeof text, "%s: %.200s", doing,
                 err->text[0] ? err->text : tenure_status_word(status));
    tn_text_repair(text, '?');
    pthread_mutex_lock(&d->lock);
    memcpy(d->status.trouble, text, sizeof text);
    d->status.troubles += status != TENURE_OK;
    pthread_mutex_unlock(&d->lock);
    *failing = status;
    if (!changed)
        return;
    tn_jobs_trace(d, (struct tn_jobs_trace){.kind = status ? TN_JOBS_TROUBLE : TN_JOBS_RECOVERED,
                                            .status = status,
                                            .text = text});
}

/* ---- Options ------------------------------------------------------------- */

static enum tenure_status check_text(const char *what, const char *text, char *out, size_t size,
                                     struct tenure_error *err)
{
    if (!text)
        return TENURE_OK;
    if (strlen(text) >= size)
        return tenure_fail(err, TENURE_CONFIG, "%s is longer than %zu bytes", what, size - 1);
    memcpy(out, text, strlen(text) + 1);
    tn_text_repair(out, '?');
    return TENURE_OK;
}

static enum tenure_status check_options(tn_jobs_driver *d, const struct tn_jobs_options *o,
                                        struct tn_member *profile, struct tenure_error *err)
{
    const char *fault = tn_name_fault(o->group);
    enum tenure_status status;

    if (fault)
        return tenure_fail(err, TENURE_CONFIG, "'%.60s' cannot be the name of a group: %s",
                           o->group ? o->group : "", fault);
    if (!o->store)
        return tenure_fail(err, TENURE_CONFIG,
                           "no store is given: name one that all workers share");
    if (!o->id || (fault = tn_jobs_id_fault(o->id)))
        return tenure_fail(err, TENURE_CONFIG, "'%.60s' cannot be the id of a worker: %s",
                           o->id ? o->id : "", o->id ? fault : "give one");
    if (o->share > TN_PLAN_SHARE_MAX)
        return tenure_fail(err, TENURE_CONFIG, "a share of %u cannot be: give 1 to %u", o->share,
                           TN_PLAN_SHARE_MAX);
    if (o->linger_ms < 0 || o->linger_ms > LINGER_MAX_MS)
        return tenure_fail(err, TENURE_CONFIG, "a linger of %lld ms cannot be: give up to a day",
                           (long long)o->linger_ms);
    snprintf(d->group, sizeof d->group, "%s", o->group);
    snprintf(d->id, sizeof d->id, "%s", o->id);
    memcpy(d->self.id, d->id, sizeof d->self.id);
    *profile = (struct tn_member){.share = o->share ? o->share : 1,
                                  .limit = o->limit ? o->limit : UINT32_MAX,
                                  .standby = o->standby,
                                  .linger_ms = (uint32_t)o->linger_ms,
                                  .format = TN_JOBS_FORMAT};
    if ((status = check_text("host", o->host, d->self.host, sizeof d->self.host, err)) ||
        (status = check_text("build", o->build, d->self.build, sizeof d->self.build, err)))
        return status;
    status = tn_labels_sort(o->labels ? o->labels : "", profile->labels, err);
    return status == TENURE_INVALID ? TENURE_CONFIG : status;
}

/* The interval of the rounds is that of the renewals: whatever is notified, once. */
static enum tenure_status plan_times(tn_jobs_driver *d, const struct tn_jobs_options *o,
                                     struct tenure_error *err)
{
    struct tn_timing_ms wish = {.ttl_ms = o->ttl_ms ? o->ttl_ms : TTL_DEFAULT_MS,
                                .renew_ms = o->renew_ms,
                                .grace_ms = o->grace_ms,
                                .kill_ms = o->kill_ms,
                                .rho_ppm = o->rho_ppm,
                                .poll_as_renew = true};

    return tn_timing_settle(&wish, tenure_store_info(d->beat_store), &d->timing, err);
}

/* ---- Life ---------------------------------------------------------------- */

static void destroy(tn_jobs_driver *d)
{
    tn_jobs_table_free(d);
    free(d->inbox.stopped);
    tenure_value_free(&d->beat_value);
    tenure_store_close(d->beat_store);
    tenure_store_close(d->work_store);
    if (d->beat_fd >= 0)
        close(d->beat_fd);
    if (d->work_fd >= 0)
        close(d->work_fd);
    pthread_mutex_destroy(&d->lock);
    pthread_mutex_destroy(&d->hook_lock);
    pthread_mutex_destroy(&d->table_lock);
    tn_jobs_moves_free(d);
    tn_jobs_record_free(d);
    free(d);
}

static enum tenure_status prepare_machines(tn_jobs_driver *d, const struct tn_member *profile,
                                           struct tenure_error *err)
{
    struct tn_worker_config *c = &d->worker.cfg;

    memcpy(c->id, d->id, sizeof c->id);
    c->timing = d->timing;
    c->ttl_ms = profile->ttl_ms;
    c->batch_max = TN_WORK_BATCH_MAX;
    c->batch_min = TN_WORK_BATCH_MIN;
    c->drain_ns = d->drain_ns;
    c->version_size = TN_JOBS_VERSION_MIN;
    c->batch = tn_jobs_array(tn_worker_batch_size(c->batch_max), 1);
    if (!c->batch || !tn_jobs_grow(d, 1, 1, 1, 1))
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    struct tn_worker_config config = *c;
    tn_worker_init(&d->worker, &config);
    tn_heartbeat_init(&d->beat, &d->timing, profile, d->drain_ns);
    return TENURE_OK;
}

static enum tenure_status prepare(tn_jobs_driver *d, const struct tn_jobs_options *o,
                                  struct tenure_error *err)
{
    int64_t by = tenure_now() + OPEN_LIMIT_NS;
    struct tn_member profile = {0};
    enum tenure_status status = check_options(d, o, &profile, err);

    if (!status)
        status = tn_key_item(d->group, TN_KEY_MEMBER, d->id, d->beat_key, err);
    if (!status)
        status = tenure_store_open(o->store, by, &d->beat_store, err);
    if (!status)
        status = tenure_store_open(o->store, by, &d->work_store, err);
    if (!status)
        status = plan_times(d, o, err);
    if (status)
        return status;
    profile.ttl_ms = (uint32_t)(d->timing.ttl_ns / TN_MS);
    d->drain_ns = (o->grace_ms ? o->grace_ms : GRACE_MS) * TN_MS;
    d->data_max = tenure_store_info(d->work_store)->data_max;
    d->status.timing = d->timing;
    tn_key_of(d->group, TN_KEY_PLAN, d->watch_keys[0]);
    tn_key_of(d->group, TN_KEY_CATALOGUE, d->watch_keys[1]);
    tn_key_of(d->group, TN_KEY_BELL, d->watch_keys[2]);
    for (unsigned i = 0; i < 3; i++)
        d->watches[i].key = d->watch_keys[i];
    return prepare_machines(d, &profile, err);
}

static enum tenure_status spawn(tn_jobs_driver *d, struct tenure_error *err)
{
    enum tenure_status status = tn_thread_start(&d->work_thread, tn_jobs_work_main, d, err);

    d->work_runs = !status;
    if (!status)
        status = tn_thread_start(&d->beat_thread, tn_jobs_beat_main, d, err);
    d->beat_runs = !status;
    return status;
}

enum tenure_status tn_jobs_driver_start(const struct tn_jobs_options *options,
                                        const struct tn_jobs_hooks *hooks, tn_jobs_driver **driver,
                                        struct tenure_error *err)
{
    tn_jobs_driver *d = calloc(1, sizeof *d);
    enum tenure_status status;

    if (!d)
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    d->hooks = *hooks;
    d->inbox.commits_end = &d->inbox.commits;
    pthread_mutex_init(&d->lock, NULL);
    pthread_mutex_init(&d->hook_lock, NULL);
    pthread_mutex_init(&d->table_lock, NULL);
    d->observed.on = options->observed;
    d->beat_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    d->work_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    status = d->beat_fd < 0 || d->work_fd < 0
                 ? tenure_fail(err, TENURE_UNAVAILABLE, "cannot make an event descriptor: %s",
                               strerror(errno))
                 : prepare(d, options, err);
    if (!status) {
        *driver = d; /* the hooks may need it at once */
        status = spawn(d, err);
    }
    if (status) {
        *driver = NULL;
        tn_jobs_driver_free(d);
    }
    return status;
}

void tn_jobs_driver_join(tn_jobs_driver *d)
{
    if (!d)
        return;
    if (d->beat_runs) {
        tn_jobs_driver_leave(d);
        pthread_join(d->beat_thread, NULL);
    }
    pthread_mutex_lock(&d->lock);
    d->halted = true;
    tn_jobs_wake(d->work_fd);
    pthread_mutex_unlock(&d->lock);
    if (d->work_runs)
        pthread_join(d->work_thread, NULL);
    d->beat_runs = d->work_runs = false;
}

void tn_jobs_driver_free(tn_jobs_driver *d)
{
    tn_jobs_driver_join(d);
    if (d)
        destroy(d);
}

/* ---- Asking -------------------------------------------------------------- */

/* Woken under the lock: who sees the flag may end, and then the descriptor is gone. */
static void set_for_beat(tn_jobs_driver *d, bool *flag)
{
    pthread_mutex_lock(&d->lock);
    *flag = true;
    tn_jobs_wake(d->beat_fd);
    pthread_mutex_unlock(&d->lock);
}

void tn_jobs_driver_leave(tn_jobs_driver *d)
{
    set_for_beat(d, &d->leave);
}

void tn_jobs_driver_fired(tn_jobs_driver *d)
{
    set_for_beat(d, &d->fired);
}

void tn_jobs_driver_reaped(tn_jobs_driver *d)
{
    pthread_mutex_lock(&d->lock);
    d->inbox.all_stopped = true;
    tn_jobs_wake(d->work_fd);
    pthread_mutex_unlock(&d->lock);
    set_for_beat(d, &d->reaped);
}

void tn_jobs_driver_stopped(tn_jobs_driver *d, uint32_t number, uint64_t epoch)
{
    pthread_mutex_lock(&d->lock);
    tn_jobs_push_stopped(&d->inbox, number, epoch);
    tn_jobs_wake(d->work_fd);
    pthread_mutex_unlock(&d->lock);
}

void tn_jobs_driver_unfit(tn_jobs_driver *d, uint32_t number)
{
    struct tn_member *p = &d->beat.profile;
    uint32_t at = 0;

    pthread_mutex_lock(&d->lock);
    while (at < p->unfit_count && p->unfit[at] < number)
        at++;
    if ((at == p->unfit_count || p->unfit[at] != number) && p->unfit_count < TN_MEMBER_ASKS_MAX) {
        memmove(&p->unfit[at + 1], &p->unfit[at], (p->unfit_count - at) * sizeof p->unfit[0]);
        p->unfit[at] = number;
        p->unfit_count++;
    }
    pthread_mutex_unlock(&d->lock);
}

enum tenure_status tn_jobs_driver_queue_commit(tn_jobs_driver *d, uint32_t number, uint64_t epoch,
                                               const void *data, size_t len, uint64_t ticket,
                                               struct tenure_error *err)
{
    struct tn_commit *c;

    if (len + TN_JOB_HEADER_MAX > d->data_max)
        return tenure_fail(err, TENURE_INVALID,
                           "a checkpoint of %zu bytes is too large: this store holds %u", len,
                           d->data_max - TN_JOB_HEADER_MAX);
    c = malloc(sizeof *c + len);
    if (!c)
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    *c = (struct tn_commit){.ticket = ticket, .epoch = epoch, .job = number, .len = len};
    if (len)
        memcpy(c->data, data, len);
    pthread_mutex_lock(&d->lock);
    bool closed = d->closed;
    if (!closed) {
        *d->inbox.commits_end = c;
        d->inbox.commits_end = &c->next;
    }
    pthread_mutex_unlock(&d->lock);
    if (!closed)
        return TENURE_OK;
    free(c);
    return tenure_fail(err, TENURE_FENCED, "the worker has left");
}

void tn_jobs_driver_send_commits(tn_jobs_driver *d)
{
    pthread_mutex_lock(&d->lock);
    if (d->inbox.commits)
        tn_jobs_wake(d->work_fd);
    pthread_mutex_unlock(&d->lock);
}

enum tenure_status tn_jobs_driver_commit(tn_jobs_driver *d, uint32_t number, uint64_t epoch,
                                         const void *data, size_t len, uint64_t ticket,
                                         struct tenure_error *err)
{
    enum tenure_status status =
        tn_jobs_driver_queue_commit(d, number, epoch, data, len, ticket, err);

    if (!status)
        tn_jobs_driver_send_commits(d);
    return status;
}

void tn_jobs_driver_status(tn_jobs_driver *d, struct tn_jobs_status *status)
{
    pthread_mutex_lock(&d->lock);
    *status = d->status;
    pthread_mutex_unlock(&d->lock);
}
