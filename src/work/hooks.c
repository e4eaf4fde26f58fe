/* What the driver's threads tell the worker's loop, and what they write to the log. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "work/inner.h"

/* ---- The inbox ----------------------------------------------------------- */

static void *copy(const void *data, size_t len)
{
    void *out = len ? malloc(len) : NULL;

    if (out)
        memcpy(out, data, len);
    return out;
}

void tn_work_message_free(struct tn_work_message *m)
{
    free(m->spec);
    free(m->checkpoint);
    free(m);
}

/* Nothing may be lost: a start that is forgotten is a job that nobody runs.  Without memory for a
 * note there is none for anything else, and the guard ends what runs. */
static struct tn_work_message *new_message(enum tn_work_message_kind kind)
{
    struct tn_work_message *m = calloc(1, sizeof *m);

    if (!m)
        abort();
    m->kind = kind;
    return m;
}

static void post(struct tn_work *w, struct tn_work_message *m)
{
    pthread_mutex_lock(&w->lock);
    *w->last = m;
    w->last = &m->next;
    pthread_mutex_unlock(&w->lock);
    tn_loop_post(&w->loop, &w->drain);
}

void tn_work_post(struct tn_work *w, enum tn_work_message_kind kind)
{
    post(w, new_message(kind));
}

void tn_work_post_stopped(void *arg, uint32_t job, uint64_t epoch)
{
    struct tn_work_message *m = new_message(TN_WORK_MSG_STOPPED);

    m->job = job;
    m->epoch = epoch;
    post(arg, m);
}

struct tn_work_message *tn_work_inbox_take(struct tn_work *w)
{
    pthread_mutex_lock(&w->lock);
    struct tn_work_message *first = w->first;
    w->first = NULL;
    w->last = &w->first;
    pthread_mutex_unlock(&w->lock);
    return first;
}

/* ---- The hooks ----------------------------------------------------------- */

static void on_deadline(void *arg, int64_t deadline_ns)
{
    struct tn_work *w = arg;
    bool began = atomic_load(&w->deadline_ns) == 0 && deadline_ns != 0;

    tn_work_publish(w, deadline_ns);
    if (began || deadline_ns == 0)
        tn_work_post(w, TN_WORK_MSG_DEADLINE);
}

static void on_start(void *arg, const struct tn_job_start *start)
{
    struct tn_work_message *m = new_message(TN_WORK_MSG_START);

    m->job = start->number;
    m->epoch = start->epoch;
    snprintf(m->text, sizeof m->text, "%s", start->id);
    m->spec = copy(start->spec, start->spec_len);
    m->spec_len = start->spec_len;
    m->checkpoint = copy(start->checkpoint, start->checkpoint_len);
    m->checkpoint_len = start->checkpoint_len;
    if ((m->spec_len && !m->spec) || (m->checkpoint_len && !m->checkpoint))
        abort();
    post(arg, m);
}

static void on_stop(void *arg, uint32_t number, int64_t by_ns, enum tn_jobs_cause cause)
{
    struct tn_work_message *m = new_message(TN_WORK_MSG_STOP);

    m->job = number;
    m->at_ns = by_ns;
    m->cause = cause;
    post(arg, m);
}

static void on_stop_all(void *arg, int64_t by_ns, enum tn_jobs_cause cause, const char *why)
{
    struct tn_work_message *m = new_message(TN_WORK_MSG_STOP_ALL);

    m->at_ns = by_ns;
    m->cause = cause;
    snprintf(m->text, sizeof m->text, "%s", why);
    post(arg, m);
}

static void on_committed(void *arg, uint32_t number, uint64_t ticket, enum tenure_status status,
                         const struct tenure_error *err)
{
    struct tn_work *w = arg;

    (void)number;
    tn_work_socket_committed(w->socket, ticket, status, status && err ? err->text : "");
}

static void on_halted(void *arg)
{
    tn_work_post(arg, TN_WORK_MSG_HALTED);
}

/* ---- The log ------------------------------------------------------------- */

static void on_trace(void *arg, const struct tn_jobs_trace *t)
{
    (void)arg;
    switch (t->kind) {
    case TN_JOBS_JOINED:
        tn_log("joined", "joined the group");
        break;
    case TN_JOBS_RENEWED:
        tn_log("renewed", "membership renewed");
        break;
    case TN_JOBS_LOST:
        tn_log("lost", "membership lost: %s; every program is ended", t->text);
        break;
    case TN_JOBS_LEFT:
        tn_log("left", "left the group; its jobs are free");
        break;
    case TN_JOBS_WAITING:
        tn_log("waiting", "cannot join yet: %s", t->text);
        break;
    case TN_JOBS_TROUBLE:
        tn_log("trouble", "%s: %s", tenure_status_word(t->status), t->text);
        break;
    case TN_JOBS_RECOVERED:
        tn_log("recovered", "the store answers again");
        break;
    case TN_JOBS_PLANNED:
        tn_log("planned", "wrote plan %" PRIu64, t->number);
        break;
    case TN_JOBS_BURIED:
        tn_log("buried", "worker %s has been silent for its ttl; its jobs are free", t->job);
        break;
    case TN_JOBS_STARTED:
        tn_log("assigned", "job %s: assigned (epoch %" PRIu64 ")%s%s", t->job, t->epoch,
               *t->text ? ", " : "", t->text);
        break;
    case TN_JOBS_STOPPING:
        tn_log("revoked", "job %s: stopping: %s", t->job, t->text);
        break;
    case TN_JOBS_RELEASED:
        tn_log("released", "job %s: released", t->job);
        break;
    case TN_JOBS_DAMAGED:
        tn_log("trouble",
               "job %s: its register is absent or cannot be read: %s; see 'tenure jobs repair'",
               t->job, t->text);
        break;
    }
}

static void on_changed(void *arg)
{
    tn_work_listen_notify(((struct tn_work *)arg)->listener);
}

void tn_work_hooks(struct tn_work *w, struct tn_jobs_hooks *hooks)
{
    *hooks = (struct tn_jobs_hooks){.arg = w,
                                    .deadline = on_deadline,
                                    .start = on_start,
                                    .stop = on_stop,
                                    .stop_all = on_stop_all,
                                    .committed = on_committed,
                                    .trace = on_trace,
                                    .changed = on_changed,
                                    .halted = on_halted};
}
