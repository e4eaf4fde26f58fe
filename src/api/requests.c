/* What an operator may ask over HTTP; each runs on a thread of its own (jobs.c). */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/jobs.h"
#include "base/words.h"
#include "core/timing.h"
#include "os/log.h"
#include "state/http/http.h"
#include "tenure/lease.h"

#define REQUEST_MAX 4096 /* bytes of a body */
#define REQUEST_NS  (5 * TN_S)
#define HANDOVER_NS (60 * TN_S)
#define FOR_MS      30000
#define FOR_MAX_MS  (INT64_C(7) * 86400000)

/* ---- Beginnings ---------------------------------------------------------- */

/* What is not known would be ignored in silence: a misspelt name is refused instead.  The election
 * may be named here too, as it is in the path. */
static bool check_members(struct tn_job *job, json_t *object, const char *known)
{
    const char *name = json_string_value(json_object_get(object, "name"));
    const char *member;
    json_t *value;
    char detail[200];

    json_object_foreach(object, member, value)
    {
        if (tn_words_have(known, member))
            continue;
        snprintf(detail, sizeof detail, "unknown member '%.60s'; known: %s", member, known);
        tn_http_answer_error(&job->reply, 400, "invalid", detail);
        return false;
    }
    if (!json_object_get(object, "name") || (name && strcmp(name, job->name) == 0))
        return true;
    tn_http_answer_error(&job->reply, 400, "invalid", "'name' names another election than the URL");
    return false;
}

/* The body as an object; an empty one is an empty object.  NULL: it was answered. */
static json_t *body_of(struct tn_job *job, const char *known)
{
    json_error_t why;
    json_t *object = NULL;

    if (job->len > REQUEST_MAX) {
        tn_http_answer_error(&job->reply, 413, "too-long", "a request may have 4,096 bytes");
        return NULL;
    }
    if (job->len == 0)
        object = json_object();
    else
        object = json_loadb((const char *)job->body, job->len, JSON_REJECT_DUPLICATES, &why);
    if (!json_is_object(object)) {
        json_decref(object);
        tn_http_answer_error(&job->reply, 400, "invalid", "the body must be a JSON object");
        return NULL;
    }
    if (!check_members(job, object, known)) {
        json_decref(object);
        return NULL;
    }
    return object;
}

/* A member that may be missing.  false: it is something else than a text; answered. */
static bool text_of(struct tn_job *job, const json_t *body, const char *member, const char **out)
{
    const json_t *value = json_object_get(body, member);

    *out = json_string_value(value);
    if (!value || *out || json_is_null(value))
        return true;
    char detail[80];
    snprintf(detail, sizeof detail, "'%s' must be a string", member);
    tn_http_answer_error(&job->reply, 400, "invalid", detail);
    return false;
}

static tenure_store *open_store(struct tn_job *job)
{
    tenure_store *store = NULL;
    struct tenure_error err = {0};

    if (!job->shared) {
        tn_http_answer_error(&job->reply, 409, "conflict",
                             "this election is of this process alone: there is nobody to ask");
        return NULL;
    }
    enum tenure_status status =
        tenure_store_open(job->store, tenure_now() + REQUEST_NS, &store, &err);
    if (status)
        tn_http_answer_status(&job->reply, status, err.text);
    return store;
}

static void answer_asked(struct tn_job *job, enum tenure_status status,
                         const struct tenure_error *err)
{
    if (status)
        tn_http_answer_status(&job->reply, status, err->text);
    else
        tn_http_answer_json(&job->reply, 200, json_pack("{s:s}", "name", job->name));
}

/* ---- Requests ------------------------------------------------------------ */

static void handover(struct tn_job *job, tenure_store *store, const char *to)
{
    struct tenure_handover r = TENURE_HANDOVER;
    struct tenure_error err = {0};

    tn_log("order", "asked over HTTP to hand %s over%s%s, by %s", job->name, to ? " to " : "",
           to ? to : "", job->peer);
    enum tenure_status status =
        tenure_handover(store, job->name, to, &r, tenure_now() + HANDOVER_NS, &err);
    if (status)
        tn_http_answer_status(&job->reply, status, err.text);
    else
        tn_http_answer_json(&job->reply, 200,
                            json_pack("{s:s, s:s, s:s, s:I, s:f, s:b, s:b}", "name", job->name,
                                      "from", r.from, "to", r.to, "epoch", (json_int_t)r.epoch,
                                      "gap_ms", r.gap_ns < 0 ? -1.0 : (double)r.gap_ns / 1e6,
                                      "exact", (int)r.same_clock, "as_asked", (int)r.as_asked));
}

static void run_handover(struct tn_job *job)
{
    json_t *body = body_of(job, "name, to");
    const char *to = NULL;
    tenure_store *store = NULL;

    if (body && text_of(job, body, "to", &to) && (store = open_store(job)))
        handover(job, store, to && *to ? to : NULL);
    tenure_store_close(store);
    json_decref(body);
}

static void step_down(struct tn_job *job, tenure_store *store, int64_t for_ms, bool force)
{
    struct tenure_lease_view lease = TENURE_LEASE_VIEW;
    struct tenure_control control = TENURE_CONTROL;
    int64_t by = tenure_now() + REQUEST_NS;
    struct tenure_error err = {0};
    enum tenure_status status = tenure_lease_look(store, job->name, &lease, by, &err);

    if (!status && lease.state == TENURE_LEASE_REFUSED)
        status = tenure_fail(&err, TENURE_CORRUPT, "who leads is not known: %.200s", lease.trouble);
    if (!status && lease.state != TENURE_LEASE_HELD)
        status = tenure_fail(&err, TENURE_NOT_LEADER, "nobody leads");
    if (!status && !force)
        status = tenure_control_look(store, job->name, &control, by, &err);
    if (!status && control.paused)
        status = tenure_fail(&err, TENURE_CONFLICT,
                             "%s is paused: nobody would take over from %s; resume it first, or "
                             "ask with \"force\": true",
                             job->name, lease.holder);
    if (!status) {
        tn_log("order", "asked over HTTP that %s, which leads %s, steps down, by %s", lease.holder,
               job->name, job->peer);
        status = tenure_control_yield(store, job->name, lease.epoch, NULL, for_ms, by, &err);
    }
    answer_asked(job, status, &err);
}

static void run_step_down(struct tn_job *job)
{
    json_t *body = body_of(job, "name, for_ms, force");
    const json_t *span = json_object_get(body, "for_ms"), *force = json_object_get(body, "force");
    json_int_t for_ms = span ? json_integer_value(span) : FOR_MS;
    tenure_store *store = NULL;

    if (body && span && (!json_is_integer(span) || for_ms < 0 || for_ms > FOR_MAX_MS))
        tn_http_answer_error(&job->reply, 400, "invalid",
                             "'for_ms' must be whole milliseconds, a week at most");
    else if (body && force && !json_is_boolean(force))
        tn_http_answer_error(&job->reply, 400, "invalid", "'force' must be true or false");
    else if (body && (store = open_store(job)))
        step_down(job, store, for_ms, json_is_true(force));
    tenure_store_close(store);
    json_decref(body);
}

static void run_pause(struct tn_job *job)
{
    json_t *body = body_of(job, "name, by, reason");
    const char *by = NULL, *reason = NULL;
    tenure_store *store = NULL;
    struct tenure_error err = {0};

    if (body && text_of(job, body, "by", &by) && text_of(job, body, "reason", &reason) &&
        (store = open_store(job))) {
        tn_log("order", "asked over HTTP to pause %s, by %s", job->name, job->peer);
        answer_asked(job,
                     tenure_control_pause(store, job->name, by ? by : "HTTP", reason,
                                          tenure_now() + REQUEST_NS, &err),
                     &err);
    }
    tenure_store_close(store);
    json_decref(body);
}

static void run_resume(struct tn_job *job)
{
    json_t *body = body_of(job, "name");
    tenure_store *store = body ? open_store(job) : NULL;
    struct tenure_error err = {0};

    if (store) {
        tn_log("order", "asked over HTTP to resume %s, by %s", job->name, job->peer);
        answer_asked(job, tenure_control_resume(store, job->name, tenure_now() + REQUEST_NS, &err),
                     &err);
    }
    tenure_store_close(store);
    json_decref(body);
}

/* ---- The state ----------------------------------------------------------- */

static const char *job_header(const struct tn_http_request *request, const char *name)
{
    const struct tn_job *job = request->inner;

    return strcasecmp(name, "Tenure-Epoch") == 0 ? job->epoch : NULL;
}

static const char *no_query(const struct tn_http_request *request, const char *name)
{
    (void)request, (void)name;
    return NULL;
}

/* Changes, one line a second at most: a program may commit this way. */
static void log_change(const struct tn_job *job)
{
    static struct tn_log_gate gate;
    unsigned skipped = 0;

    if (strcmp(job->method, "GET") == 0 || strcmp(job->method, "HEAD") == 0 ||
        !tn_log_pass(&gate, tenure_now(), TN_S, &skipped))
        return;
    if (skipped)
        tn_log("order",
               "asked over HTTP to change the state of %s: %s %.200s, by %s; %u more since "
               "the last such line",
               job->name, job->method, job->path, job->peer, skipped);
    else
        tn_log("order", "asked over HTTP to change the state of %s: %s %.200s, by %s", job->name,
               job->method, job->path, job->peer);
}

static void run_state(struct tn_job *job)
{
    struct tn_http_request request = {.method = job->method,
                                      .path = job->path,
                                      .body = job->body,
                                      .body_len = job->len,
                                      .local = true, /* it was admitted */
                                      .header = job_header,
                                      .query = no_query,
                                      .inner = job};

    log_change(job);
    if (!tn_election_answer_state(job->election, &request, &job->reply))
        tn_http_answer_error(&job->reply, 404, "not-found", "there is no state: give --state URL");
}

const tn_job_fn tn_request_fns[] = {
    [TN_REQUEST_HANDOVER] = run_handover, [TN_REQUEST_STEP_DOWN] = run_step_down,
    [TN_REQUEST_PAUSE] = run_pause,       [TN_REQUEST_RESUME] = run_resume,
    [TN_REQUEST_STATE] = run_state,
};
