/* The runs of jobs as programs see them: a list, and events for those who listen. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "core/timing.h"
#include "work/socket_inner.h"

void *tn_work_copy(const void *data, size_t len)
{
    void *out = malloc(len ? len : 1);

    if (out && len)
        memcpy(out, data, len);
    return out;
}

static struct tn_work_run *run_of(const struct tn_assigned *job)
{
    return job->own;
}

struct tn_assigned *tn_work_run_find(const struct tn_work_socket *s, const char *id)
{
    struct tn_assigned *job = tn_assigned_find(&s->jobs, id);

    return job && run_of(job)->given ? job : NULL;
}

static void free_run(struct tn_work_run *r)
{
    free(r->checkpoint);
    free(r->spec);
    free(r);
}

void tn_work_run_drop(struct tn_work_socket *s, struct tn_assigned *job)
{
    free_run(job->own);
    tn_assigned_drop(&s->jobs, job);
}

/* ---- As JSON ------------------------------------------------------------- */

/* How long until then, and when: CLOCK_BOOTTIME. */
static void set_deadline(json_t *o, int64_t by_ns)
{
    int64_t left = by_ns - tenure_now();

    json_object_set_new(o, "left_ms", json_integer(left > 0 ? left / TN_MS : 0));
    json_object_set_new(o, "deadline_ns", json_integer(by_ns));
}

/* Text if it is, else base64. */
static void set_spec(json_t *o, const struct tn_work_run *r)
{
    json_t *text = r->spec ? json_stringn(r->spec, r->spec_len) : NULL;
    char *encoded = NULL;

    if (text) {
        json_object_set_new(o, "spec", text);
    } else if (r->spec && (encoded = malloc(TN_BASE64_LEN(r->spec_len) + 1))) {
        tn_base64_encode(r->spec, r->spec_len, encoded);
        json_object_set_new(o, "spec_base64", json_string(encoded));
    }
    free(encoded);
}

static json_t *run_json(const struct tn_assigned *job)
{
    const struct tn_work_run *r = run_of(job);
    json_t *o = json_pack("{s:s, s:I, s:s, s:I}", "id", job->id, "epoch", (json_int_t)job->epoch,
                          "state", r->why ? "revoked" : "assigned", "checkpoint_bytes",
                          (json_int_t)r->checkpoint_len);

    if (o)
        set_spec(o, r);
    if (o && r->why) {
        json_object_set_new(o, "cause", json_string(r->why));
        set_deadline(o, r->by_ns);
    }
    return o;
}

json_t *tn_work_runs_json(const struct tn_work_socket *s)
{
    json_t *jobs = json_array();
    struct tn_assigned *job = NULL;

    for (size_t i = 0; jobs && (job = tn_assigned_next(&s->jobs, &i, job));) {
        if (run_of(job)->given && json_array_append_new(jobs, run_json(job)) != 0) {
            json_decref(jobs); /* a list that lacks some would be worse than none */
            jobs = NULL;
        }
    }
    return jobs ? json_pack("{s:s, s:s, s:o}", "group", s->options.group, "worker", s->options.id,
                            "jobs", jobs)
                : NULL;
}

/* ---- As events ----------------------------------------------------------- */

/* Takes data over. */
static char *event_text(const char *name, uint64_t id, json_t *data, size_t *len)
{
    char *json = data ? json_dumps(data, JSON_COMPACT) : NULL, *text = NULL;
    int n = json ? asprintf(&text, "event: %s\nid: %" PRIu64 "\ndata: %s\n\n", name, id, json) : -1;

    json_decref(data);
    free(json);
    *len = n > 0 ? (size_t)n : 0;
    return n > 0 ? text : NULL;
}

char *tn_work_runs_event(const struct tn_work_socket *s, size_t *len)
{
    return event_text("jobs", s->event_id, tn_work_runs_json(s), len);
}

/* A program that is not told would keep a job beyond its time: without memory nothing goes on, and
 * the guard ends what runs. */
static void add_event(struct tn_work_socket *s, const char *name, json_t *data)
{
    size_t len;
    char *text = event_text(name, ++s->event_id, data, &len);
    char *grown = text ? realloc(s->events, s->events_len + len) : NULL;

    if (!grown)
        abort();
    memcpy(grown + s->events_len, text, len);
    s->events = grown;
    s->events_len += len;
    free(text);
}

void tn_work_runs_publish(struct tn_work_socket *s)
{
    if (!s->events_len)
        return;
    pthread_mutex_lock(&s->waking);
    if (s->server) {
        s->http->publish(s->server, 0, s->events, s->events_len);
        s->published++;
    }
    pthread_mutex_unlock(&s->waking);
    s->events_len = 0;
}

void tn_work_socket_publish(struct tn_work_socket *s)
{
    pthread_mutex_lock(&s->lock);
    tn_work_runs_publish(s);
    pthread_mutex_unlock(&s->lock);
}

/* ---- What the loop tells ------------------------------------------------- */

bool tn_work_socket_begin(struct tn_work_socket *s, uint32_t job, const char *id, uint64_t epoch,
                          const void *checkpoint, size_t len)
{
    struct tn_work_run *r = calloc(1, sizeof *r);
    struct tn_assigned *added = NULL;

    if (r && (!len || (r->checkpoint = tn_work_copy(checkpoint, len)))) {
        r->checkpoint_len = len;
        pthread_mutex_lock(&s->lock);
        assert(!tn_assigned_of_number(&s->jobs, job)); /* a job has one run at a time (J1) */
        added = tn_assigned_add(&s->jobs, id, job, epoch);
        if (added)
            added->own = r;
        pthread_mutex_unlock(&s->lock);
    }
    if (!added && r)
        free_run(r);
    return added != NULL;
}

bool tn_work_socket_give(struct tn_work_socket *s, uint32_t job, const void *spec, size_t len)
{
    void *copy = spec ? tn_work_copy(spec, len) : NULL;

    if (spec && !copy)
        return false;
    pthread_mutex_lock(&s->lock);
    struct tn_assigned *found = tn_assigned_of_number(&s->jobs, job);
    if (found) {
        struct tn_work_run *r = run_of(found);

        r->spec = copy;
        r->spec_len = len;
        r->given = true;
        copy = NULL;
        add_event(s, "assigned", run_json(found));
    }
    pthread_mutex_unlock(&s->lock);
    free(copy);
    return true;
}

void tn_work_socket_revoke(struct tn_work_socket *s, uint32_t job, int64_t by_ns, const char *why)
{
    pthread_mutex_lock(&s->lock);
    struct tn_assigned *found = tn_assigned_of_number(&s->jobs, job);
    if (found) { /* else it has been confirmed meanwhile */
        run_of(found)->by_ns = by_ns;
        run_of(found)->why = why;
        add_event(s, "revoked", run_json(found));
    }
    pthread_mutex_unlock(&s->lock);
}

void tn_work_socket_ending(struct tn_work_socket *s, bool lost, int64_t by_ns, const char *why)
{
    json_t *data = json_pack("{s:s}", "why", why);

    if (data)
        set_deadline(data, by_ns);
    pthread_mutex_lock(&s->lock);
    add_event(s, lost ? "lost" : "draining", data);
    pthread_mutex_unlock(&s->lock);
}

void tn_work_socket_end(struct tn_work_socket *s, uint32_t job)
{
    pthread_mutex_lock(&s->lock);
    struct tn_assigned *found = tn_assigned_of_number(&s->jobs, job);
    if (found)
        tn_work_run_drop(s, found);
    pthread_mutex_unlock(&s->lock);
}
