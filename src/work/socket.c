#include "work/socket.h"

#include <assert.h>
#include <inttypes.h>
#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/decimal.h"
#include "http/module.h"
#include "os/socket_dir.h"
#include "state/http/http.h"
#include "state/http/query.h"

#define VARIABLE   "TENURE_SOCKET="
#define JOBS       "/v1/jobs"
#define CHECKPOINT "/checkpoint"

/* A job that runs here. */
struct run {
    struct run *next;
    uint32_t job;
    char id[128];
    uint64_t epoch;
    void *checkpoint;
    size_t len;
};

/* A checkpoint on its way to the store. */
struct pending {
    struct pending *next;
    uint64_t ticket;
    uint32_t job;
    uint64_t epoch;
    void *data; /* what it is, to be read back */
    size_t len;
    bool done;
    bool forgotten; /* nobody waits for the answer any more */
    enum tenure_status status;
    char detail[256];
};

struct tn_work_socket {
    struct tn_work_socket_options options;
    const struct tn_http_ops *http;
    struct tn_http_server *server;
    char dir[TN_SOCKET_DIR_MAX];
    char variable[sizeof VARIABLE + 96];
    pthread_mutex_t waking; /* of server */

    pthread_mutex_t lock; /* of everything below */
    struct run *runs;
    struct pending *pending;
    uint64_t tickets;
};

static const char *socket_path(const struct tn_work_socket *s)
{
    return s->variable + sizeof VARIABLE - 1;
}

const char *tn_work_socket_variable(const struct tn_work_socket *s)
{
    return s->variable;
}

const char *tn_work_socket_dir(const struct tn_work_socket *s)
{
    return s->dir;
}

/* ---- The runs ------------------------------------------------------------ */

static void free_run(struct run *r)
{
    if (r)
        free(r->checkpoint);
    free(r);
}

static struct run **place_of(struct tn_work_socket *s, uint32_t job)
{
    struct run **at = &s->runs;

    while (*at && (*at)->job != job)
        at = &(*at)->next;
    return at;
}

static struct run *find_run(const struct tn_work_socket *s, const char *id)
{
    struct run *r = s->runs;

    while (r && strcmp(r->id, id) != 0)
        r = r->next;
    return r;
}

static void *copy(const void *data, size_t len)
{
    void *out = malloc(len ? len : 1);

    if (out && len)
        memcpy(out, data, len);
    return out;
}

bool tn_work_socket_begin(struct tn_work_socket *s, uint32_t job, const char *id, uint64_t epoch,
                          const void *checkpoint, size_t len)
{
    struct run *r = calloc(1, sizeof *r);

    if (r && len && !(r->checkpoint = copy(checkpoint, len))) {
        free(r);
        r = NULL;
    }
    if (!r)
        return false;
    r->job = job;
    r->epoch = epoch;
    r->len = len;
    snprintf(r->id, sizeof r->id, "%s", id);
    pthread_mutex_lock(&s->lock);
    assert(!*place_of(s, job)); /* a job has one run at a time (J1) */
    r->next = s->runs;
    s->runs = r;
    pthread_mutex_unlock(&s->lock);
    return true;
}

void tn_work_socket_end(struct tn_work_socket *s, uint32_t job)
{
    pthread_mutex_lock(&s->lock);
    struct run **at = place_of(s, job), *r = *at;
    if (r)
        *at = r->next;
    pthread_mutex_unlock(&s->lock);
    free_run(r);
}

/* ---- Commits ------------------------------------------------------------- */

static void free_pending(struct pending *p)
{
    free(p->data);
    free(p);
}

/* Under the lock. */
static void unlink_pending(struct tn_work_socket *s, struct pending *p)
{
    struct pending **at = &s->pending;

    while (*at != p)
        at = &(*at)->next;
    *at = p->next;
}

static void wake_server(struct tn_work_socket *s)
{
    pthread_mutex_lock(&s->waking);
    if (s->server)
        s->http->wake(s->server);
    pthread_mutex_unlock(&s->waking);
}

/* It is stored: who reads it back gets it. */
static void adopt(struct tn_work_socket *s, struct pending *p)
{
    struct run *r = *place_of(s, p->job);

    if (!r || r->epoch != p->epoch)
        return;
    free(r->checkpoint);
    r->checkpoint = p->data;
    r->len = p->len;
    p->data = NULL;
}

void tn_work_socket_committed(struct tn_work_socket *s, uint64_t ticket, enum tenure_status status,
                              const char *detail)
{
    struct pending *p;

    pthread_mutex_lock(&s->lock);
    for (p = s->pending; p && p->ticket != ticket;)
        p = p->next;
    if (p) {
        p->done = true;
        p->status = status;
        snprintf(p->detail, sizeof p->detail, "%s", detail);
        if (status == TENURE_OK)
            adopt(s, p);
    }
    if (p && p->forgotten) {
        unlink_pending(s, p);
        free_pending(p);
    }
    pthread_mutex_unlock(&s->lock);
    wake_server(s);
}

/* The server says that a request is over. */
static void end_request(void *arg, struct tn_http_memo *memo)
{
    struct tn_work_socket *s = arg;
    struct pending *p = memo->job;

    if (!p)
        return;
    memo->job = NULL;
    pthread_mutex_lock(&s->lock);
    p->forgotten = true;
    if (p->done) {
        unlink_pending(s, p);
        free_pending(p);
    }
    pthread_mutex_unlock(&s->lock);
}

/* ---- Requests ------------------------------------------------------------ */

static void answer_list(struct tn_work_socket *s, struct tn_http_reply *reply)
{
    json_t *jobs = json_array();

    pthread_mutex_lock(&s->lock);
    for (const struct run *r = s->runs; r; r = r->next)
        json_array_append_new(jobs, json_pack("{s:s, s:I, s:I}", "id", r->id, "epoch",
                                              (json_int_t)r->epoch, "checkpoint_bytes",
                                              (json_int_t)r->len));
    pthread_mutex_unlock(&s->lock);
    tn_http_answer_json(reply, 200,
                        json_pack("{s:s, s:s, s:o}", "group", s->options.group, "worker",
                                  s->options.id, "jobs", jobs));
}

/* "/v1/jobs/ID/checkpoint".  false: it is another path. */
static bool job_of(const char *path, char id[128])
{
    size_t prefix = sizeof JOBS - 1, suffix = sizeof CHECKPOINT - 1, n = strlen(path);

    if (n <= prefix + 1 + suffix || strncmp(path, JOBS "/", prefix + 1) != 0 ||
        strcmp(path + n - suffix, CHECKPOINT) != 0 || n - prefix - 1 - suffix >= 128)
        return false;
    memcpy(id, path + prefix + 1, n - prefix - 1 - suffix);
    id[n - prefix - 1 - suffix] = '\0';
    return true;
}

/* The run that the request is of.  NULL: answered.  Under the lock. */
static struct run *admit_run(struct tn_work_socket *s, const struct tn_http_request *request,
                             const char *id, bool required, struct tn_http_reply *reply)
{
    const char *text = request->header(request, "Tenure-Epoch");
    struct run *r = find_run(s, id);
    const char *end = text;
    int64_t epoch = 0;
    char detail[256];

    if ((!text && required) || (text && (!tn_take_number(&end, &epoch) || *end))) {
        tn_http_answer_error(reply, 400, "invalid",
                             "give the header Tenure-Epoch: the value of TENURE_EPOCH");
        return NULL;
    }
    if (r && (!text || r->epoch == (uint64_t)epoch))
        return r;
    if (r)
        snprintf(detail, sizeof detail,
                 "epoch %" PRId64 " of job %.100s is over; it is at epoch %" PRIu64 " here", epoch,
                 id, r->epoch);
    else
        snprintf(detail, sizeof detail, "job %.100s does not run on this worker", id);
    if (text)
        tn_http_answer_error(reply, 409, "fenced", detail);
    else
        tn_http_answer_error(reply, 404, "not-found", detail);
    return NULL;
}

static void answer_checkpoint(struct tn_work_socket *s, const struct tn_http_request *request,
                              const char *id, struct tn_http_reply *reply)
{
    static _Thread_local char epoch[24]; /* copied by the server */

    pthread_mutex_lock(&s->lock);
    const struct run *r = admit_run(s, request, id, false, reply);
    if (r && r->len == 0) {
        tn_http_answer_error(reply, 404, "not-found", "nothing has been stored for this job yet");
    } else if (r) {
        void *body = copy(r->checkpoint, r->len);

        snprintf(epoch, sizeof epoch, "%" PRIu64, r->epoch);
        *reply = (struct tn_http_reply){.status = body ? 200 : 503,
                                        .type = "application/octet-stream",
                                        .body = body,
                                        .len = body ? r->len : 0,
                                        .owned = body != NULL};
        reply->headers[0].name = "Tenure-Epoch";
        reply->headers[0].value = epoch;
    }
    pthread_mutex_unlock(&s->lock);
}

static void answer_pending(struct tn_work_socket *s, struct pending *p, struct tn_http_reply *reply)
{
    pthread_mutex_lock(&s->lock);
    if (!p->done)
        reply->park = true;
    else if (p->status == TENURE_OK)
        tn_http_answer_json(reply, 200,
                            json_pack("{s:b, s:I}", "stored", 1, "epoch", (json_int_t)p->epoch));
    else
        tn_http_answer_status(reply, p->status, p->detail);
    pthread_mutex_unlock(&s->lock);
}

/* The driver may answer before it returns: the request is pending before. */
static void begin_commit(struct tn_work_socket *s, const struct tn_http_request *request,
                         const char *id, struct tn_http_reply *reply)
{
    struct pending *p = calloc(1, sizeof *p);
    struct tenure_error err;
    bool admitted = false;

    if (p && (p->data = copy(request->body, request->body_len)))
        p->len = request->body_len;
    if (!p || !p->data) {
        free(p);
        tn_http_answer_error(reply, 503, "nomem", "out of memory");
        return;
    }
    pthread_mutex_lock(&s->lock);
    const struct run *r = admit_run(s, request, id, true, reply);
    if (r) {
        p->ticket = ++s->tickets;
        p->job = r->job;
        p->epoch = r->epoch;
        p->next = s->pending;
        s->pending = p;
        admitted = true;
    }
    pthread_mutex_unlock(&s->lock);
    if (!admitted) {
        free_pending(p);
        return;
    }
    enum tenure_status status = s->options.commit(s->options.arg, p->job, p->epoch, request->body,
                                                  request->body_len, p->ticket, &err);
    if (status) {
        pthread_mutex_lock(&s->lock);
        unlink_pending(s, p);
        pthread_mutex_unlock(&s->lock);
        free_pending(p);
        tn_http_answer_status(reply, status, err.text);
        return;
    }
    request->memo->job = p;
    reply->park = true;
}

static void handle_checkpoint(struct tn_work_socket *s, const struct tn_http_request *request,
                              const char *id, struct tn_http_reply *reply)
{
    if (request->memo->job)
        answer_pending(s, request->memo->job, reply);
    else if (strcmp(request->method, "GET") == 0)
        answer_checkpoint(s, request, id, reply);
    else if (strcmp(request->method, "PUT") != 0)
        tn_http_answer_error(reply, 405, "invalid", "a checkpoint takes GET and PUT");
    else if (request->full)
        reply->park = true; /* answered 503 by the server */
    else
        begin_commit(s, request, id, reply);
}

static void handle_request(void *arg, const struct tn_http_request *request,
                           struct tn_http_reply *reply)
{
    struct tn_work_socket *s = arg;
    char id[128];

    if (!request->local)
        tn_state_http_denied(reply);
    else if (job_of(request->path, id))
        handle_checkpoint(s, request, id, reply);
    else if (strcmp(request->path, JOBS) == 0 && strcmp(request->method, "GET") == 0)
        answer_list(s, reply);
    else
        tn_http_answer_error(reply, 404, "not-found",
                             "see GET /v1/jobs, GET and PUT /v1/jobs/ID/checkpoint");
}

/* Before a body is kept: strangers have nothing to send. */
static bool admit_request(void *arg, const struct tn_http_request *request,
                          struct tn_http_reply *reply)
{
    (void)arg;
    if (!request->local) {
        tn_state_http_denied(reply);
        return false;
    }
    return tn_query_check(request, "", NULL, reply);
}

/* ---- Life ---------------------------------------------------------------- */

enum tenure_status tn_work_socket_open(const struct tn_work_socket_options *options,
                                       struct tn_work_socket **socket, struct tenure_error *err)
{
    struct tn_work_socket *s = calloc(1, sizeof *s);
    char listen[sizeof s->variable + 8];

    if (!s)
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    s->options = *options;
    pthread_mutex_init(&s->waking, NULL);
    pthread_mutex_init(&s->lock, NULL);
    enum tenure_status status = tn_http_load(&s->http, err);
    if (!status)
        status = tn_socket_dir_make(s->dir, err);
    if (!status) {
        struct tn_http_options http = {.listen = listen,
                                       .admit = admit_request,
                                       .handler = handle_request,
                                       .done = end_request,
                                       .arg = s,
                                       .user = options->user};

        snprintf(s->variable, sizeof s->variable, "%s%s/socket", VARIABLE, s->dir);
        snprintf(listen, sizeof listen, "unix:%s", socket_path(s));
        pthread_mutex_lock(&s->waking); /* it may be asked, and answer, before it has returned */
        status = s->http->start(&http, &s->server, err);
        pthread_mutex_unlock(&s->waking);
    }
    if (!status)
        status = tn_socket_dir_give(s->dir, socket_path(s), options->user, err);
    if (status) {
        tn_work_socket_close(s);
        return status;
    }
    *socket = s;
    return TENURE_OK;
}

void tn_work_socket_close(struct tn_work_socket *s)
{
    struct tn_http_server *server;

    if (!s)
        return;
    pthread_mutex_lock(&s->waking);
    server = s->server;
    s->server = NULL;
    pthread_mutex_unlock(&s->waking);
    if (server)
        s->http->stop(server); /* removes the socket */
    if (s->dir[0])
        rmdir(s->dir);
    while (s->runs) {
        struct run *r = s->runs;

        s->runs = r->next;
        free_run(r);
    }
    while (s->pending) {
        struct pending *p = s->pending;

        s->pending = p->next;
        free_pending(p);
    }
    pthread_mutex_destroy(&s->lock);
    pthread_mutex_destroy(&s->waking);
    free(s);
}
