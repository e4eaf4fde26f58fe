/* Checkpoints on their way: one request may bring those of many jobs, and waits for all of them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "state/http/http.h"
#include "work/socket_inner.h"

#define COMMITS_MAX 10000
#define COMMIT      "id, epoch, data, base64"

struct commit {
    uint32_t job;
    uint64_t epoch;
    const void *data; /* what it is, to be read back */
    size_t len;
    bool done;
    enum tenure_status status;
};

struct tn_work_commits {
    struct tn_work_commits *next;
    uint64_t first; /* ticket; the others follow */
    size_t n, left;
    bool many;      /* the answer is a list */
    bool forgotten; /* nobody waits for it any more */
    char detail[256];
    void *bytes; /* what the data points to, beside the JSON */
    json_t *json;
    struct commit list[];
};

static struct tn_work_commits *new_commits(size_t n)
{
    struct tn_work_commits *c = calloc(1, sizeof *c + n * sizeof c->list[0]);

    if (c)
        c->n = c->left = n;
    return c;
}

static void free_commits(struct tn_work_commits *c)
{
    json_decref(c->json);
    free(c->bytes);
    free(c);
}

/* Under the lock. */
static void unlink_commits(struct tn_work_socket *s, struct tn_work_commits *c)
{
    struct tn_work_commits **at = &s->pending;

    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
}

void tn_work_commits_free(struct tn_work_socket *s)
{
    while (s->pending) {
        struct tn_work_commits *c = s->pending;

        s->pending = c->next;
        free_commits(c);
    }
}

/* ---- What came of them --------------------------------------------------- */

/* It is stored: whoever reads it back gets it. */
static void adopt(struct tn_work_socket *s, const struct commit *c)
{
    const struct tn_assigned *job = tn_assigned_of_number(&s->jobs, c->job);
    struct tn_work_run *r = job && job->epoch == c->epoch ? job->own : NULL;
    void *copy = r ? tn_work_copy(c->data, c->len) : NULL;

    if (r && !copy)
        abort(); /* an older one must not be read back */
    if (!r)
        return;
    free(r->checkpoint);
    r->checkpoint = copy;
    r->checkpoint_len = c->len;
}

/* Under the lock.  true: the last of its request. */
static bool settle_commit(struct tn_work_socket *s, struct tn_work_commits *c, size_t i,
                          enum tenure_status status, const char *detail)
{
    if (c->list[i].done)
        return false;
    c->list[i].done = true;
    c->list[i].status = status;
    if (status == TENURE_OK)
        adopt(s, &c->list[i]);
    else if (!c->detail[0])
        snprintf(c->detail, sizeof c->detail, "%s", detail);
    return --c->left == 0;
}

void tn_work_socket_committed(struct tn_work_socket *s, uint64_t ticket, enum tenure_status status,
                              const char *detail)
{
    struct tn_work_commits *c;
    bool last;

    pthread_mutex_lock(&s->lock);
    for (c = s->pending; c && ticket - c->first >= c->n;)
        c = c->next;
    last = c && settle_commit(s, c, (size_t)(ticket - c->first), status, detail);
    if (last && c->forgotten) {
        unlink_commits(s, c);
        free_commits(c);
    }
    pthread_mutex_unlock(&s->lock);
    if (last)
        tn_work_socket_wake(s);
}

void tn_work_commits_forget(struct tn_work_socket *s, struct tn_work_commits *c)
{
    pthread_mutex_lock(&s->lock);
    c->forgotten = true;
    if (c->left == 0) {
        unlink_commits(s, c);
        free_commits(c);
    }
    pthread_mutex_unlock(&s->lock);
}

/* ---- Answers ------------------------------------------------------------- */

static json_t *results_json(const struct tn_work_commits *c)
{
    json_t *results = json_array();

    for (size_t i = 0; results && i < c->n; i++) {
        if (json_array_append_new(
                results, json_pack("{s:s}", "status", tenure_status_word(c->list[i].status)))) {
            json_decref(results); /* a result in another's place would be worse than none */
            results = NULL;
        }
    }
    return results;
}

/* As the first that failed is answered alone, and what became of each. */
static void answer_many(const struct tn_work_commits *c, enum tenure_status first,
                        struct tn_http_reply *reply)
{
    if (!first) {
        tn_http_answer_json(reply, 200, json_pack("{s:o}", "results", results_json(c)));
        return;
    }
    tn_http_answer_status(reply, first, c->detail);
    if (reply->owned)
        free(reply->body);
    tn_http_answer_json(reply, reply->status,
                        json_pack("{s:s, s:s, s:o}", "error", tenure_status_word(first), "detail",
                                  c->detail, "results", results_json(c)));
}

void tn_work_commits_answer(struct tn_work_socket *s, struct tn_work_commits *c,
                            struct tn_http_reply *reply)
{
    enum tenure_status first = TENURE_OK;

    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < c->n && !first; i++)
        first = c->list[i].status;
    if (c->left > 0)
        reply->park = true;
    else if (c->many)
        answer_many(c, first, reply);
    else if (first)
        tn_http_answer_status(reply, first, c->detail);
    else
        tn_http_answer_json(
            reply, 200,
            json_pack("{s:b, s:I}", "stored", 1, "epoch", (json_int_t)c->list[0].epoch));
    pthread_mutex_unlock(&s->lock);
}

/* ---- Requests ------------------------------------------------------------ */

static void out_of_memory(struct tn_http_reply *reply)
{
    tn_http_answer_error(reply, 503, "nomem", "out of memory");
}

/* The driver may answer before it returns: the request is pending before. */
static void send_commits(struct tn_work_socket *s, const struct tn_http_request *request,
                         struct tn_work_commits *c, struct tn_http_reply *reply)
{
    struct tenure_error err;

    pthread_mutex_lock(&s->lock);
    c->first = s->tickets + 1;
    s->tickets += c->n;
    c->next = s->pending;
    s->pending = c;
    pthread_mutex_unlock(&s->lock);
    for (size_t i = 0; i < c->n; i++) {
        const struct commit *one = &c->list[i];
        enum tenure_status status = one->status;

        if (!status)
            status = s->options.commit(s->options.arg, one->job, one->epoch, one->data, one->len,
                                       c->first + i, &err);
        else
            tenure_fail(&err, status, "%s", "the job does not run on this worker in that epoch");
        if (status) {
            pthread_mutex_lock(&s->lock);
            settle_commit(s, c, i, status, err.text);
            pthread_mutex_unlock(&s->lock);
        }
    }
    request->memo->job = c;
    tn_work_commits_answer(s, c, reply);
}

void tn_work_commit_one(struct tn_work_socket *s, const struct tn_http_request *request,
                        uint32_t job, uint64_t epoch, struct tn_http_reply *reply)
{
    struct tn_work_commits *c = new_commits(1);

    if (c)
        c->bytes = tn_work_copy(request->body, request->body_len);
    if (!c || !c->bytes) {
        free(c);
        out_of_memory(reply);
        return;
    }
    c->list[0] =
        (struct commit){.job = job, .epoch = epoch, .data = c->bytes, .len = request->body_len};
    send_commits(s, request, c, reply);
}

static enum tenure_status parse_commit(struct tn_work_socket *s, struct tn_work_commits *c,
                                       size_t i, json_t *o, size_t *used, struct tenure_error *err)
{
    struct commit *one = &c->list[i];
    const char *id = tn_batch_text(o, "id"), *unknown = tn_batch_unknown(o, COMMIT);
    const json_t *epoch = json_object_get(o, "epoch");

    if (unknown)
        return tenure_fail(err, TENURE_INVALID,
                           "commit %zu: unknown member '%.60s'; known: " COMMIT, i, unknown);
    if (!id || !json_is_integer(epoch) || json_integer_value(epoch) < 0 ||
        !tn_batch_data(o, &one->data, &one->len, c->bytes, used))
        return tenure_fail(err, TENURE_INVALID,
                           "commit %zu: give id, epoch, and one of data and base64", i);
    one->epoch = (uint64_t)json_integer_value(epoch);
    pthread_mutex_lock(&s->lock);
    const struct tn_assigned *job = tn_work_run_find(s, id);
    if (job && job->epoch == one->epoch)
        one->job = job->number;
    else
        one->status = TENURE_FENCED; /* this one alone */
    pthread_mutex_unlock(&s->lock);
    return TENURE_OK;
}

/* *commits: NULL if it cannot be read. */
static enum tenure_status parse_commits(struct tn_work_socket *s,
                                        const struct tn_http_request *request,
                                        struct tn_work_commits **commits, struct tenure_error *err)
{
    json_error_t wrong;
    json_t *json =
        json_loadb((const char *)request->body, request->body_len, JSON_ALLOW_NUL, &wrong);
    const json_t *list = json_object_get(json, "commits");
    const char *unknown = tn_batch_unknown(json, "commits");
    size_t n = json_array_size(list), used = 0;
    enum tenure_status status = TENURE_OK;

    *commits = NULL;
    if (!json)
        status = tenure_fail(err, TENURE_INVALID, "not JSON: line %d: %s", wrong.line, wrong.text);
    else if (unknown)
        status =
            tenure_fail(err, TENURE_INVALID, "unknown member '%.60s'; known: commits", unknown);
    else if (n == 0 || n > COMMITS_MAX)
        status = tenure_fail(err, TENURE_INVALID, "give {\"commits\": [...]}, 1 to %d of them",
                             COMMITS_MAX);
    struct tn_work_commits *c = status ? NULL : new_commits(n);
    if (!c) {
        json_decref(json);
        return status ? status : tenure_fail(err, TENURE_NOMEM, "out of memory");
    }
    c->many = true;
    c->json = json;
    c->bytes = malloc(request->body_len + 1); /* base64 is longer than what it says */
    status = c->bytes ? TENURE_OK : tenure_fail(err, TENURE_NOMEM, "out of memory");
    for (size_t i = 0; i < n && !status; i++)
        status = parse_commit(s, c, i, json_array_get(list, i), &used, err);
    if (status)
        free_commits(c);
    else
        *commits = c;
    return status;
}

void tn_work_commit_many(struct tn_work_socket *s, const struct tn_http_request *request,
                         struct tn_http_reply *reply)
{
    struct tn_work_commits *c;
    struct tenure_error err;
    enum tenure_status status = parse_commits(s, request, &c, &err);

    if (status)
        tn_http_answer_status(reply, status, err.text);
    else
        send_commits(s, request, c, reply);
}
