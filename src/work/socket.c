#include "work/socket.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/decimal.h"
#include "state/http/http.h"
#include "state/http/query.h"
#include "work/socket_inner.h"

#define JOBS       "/v1/jobs"
#define CHECKPOINT "/checkpoint"
#define STOPPED    "/stopped"

/* 10,000 commits of 1,600 bytes each, or some of the longest checkpoints. */
#define BODY_MAX   (16u << 20)
/* While a body arrives twice its length is kept: room for two of the longest. */
#define BODIES_MAX (4 * (BODY_MAX + 1))

static const char *socket_path(const struct tn_work_socket *s)
{
    return s->variable + sizeof TN_WORK_VARIABLE - 1;
}

const char *tn_work_socket_variable(const struct tn_work_socket *s)
{
    return s->variable;
}

const char *tn_work_socket_dir(const struct tn_work_socket *s)
{
    return s->dir;
}

void tn_work_socket_wake(struct tn_work_socket *s)
{
    pthread_mutex_lock(&s->waking);
    if (s->server)
        s->http->wake(s->server);
    pthread_mutex_unlock(&s->waking);
}

/* ---- The jobs ------------------------------------------------------------ */

static void open_stream(struct tn_work_socket *s, struct tn_http_reply *reply)
{
    reply->body = tn_work_runs_event(s, &reply->len);
    reply->owned = reply->stream = reply->body != NULL;
    reply->status = reply->body ? 200 : 503;
    reply->type = "text/event-stream";
    reply->each = true;
    reply->from = s->published;
    reply->headers[0].name = "Cache-Control";
    reply->headers[0].value = "no-store";
}

static void answer_jobs(struct tn_work_socket *s, const struct tn_http_request *request,
                        struct tn_http_reply *reply)
{
    struct tn_leadership_query query;

    if (!tn_leadership_read(request, &query, reply))
        return;
    pthread_mutex_lock(&s->lock);
    tn_work_runs_publish(s);
    if (query.stream)
        open_stream(s, reply);
    else
        tn_http_answer_json(reply, 200, tn_work_runs_json(s));
    pthread_mutex_unlock(&s->lock);
}

static void handle_jobs(struct tn_work_socket *s, const struct tn_http_request *request,
                        struct tn_http_reply *reply)
{
    if (request->memo->job)
        tn_work_commits_answer(s, request->memo->job, reply);
    else if (strcmp(request->method, "GET") == 0)
        answer_jobs(s, request, reply);
    else if (strcmp(request->method, "POST") != 0)
        tn_http_answer_error(reply, 405, "invalid", "the jobs take GET, and POST of checkpoints");
    else if (request->full)
        reply->park = true; /* answered 503 by the server */
    else
        tn_work_commit_many(s, request, reply);
}

/* ---- One job ------------------------------------------------------------- */

/* "/v1/jobs/ID" and then that.  false: it is another path. */
static bool job_of(const char *path, const char *end, char id[128])
{
    size_t prefix = sizeof JOBS - 1, suffix = strlen(end), n = strlen(path);

    if (n <= prefix + 1 + suffix || strncmp(path, JOBS "/", prefix + 1) != 0 ||
        strcmp(path + n - suffix, end) != 0 || n - prefix - 1 - suffix >= 128)
        return false;
    memcpy(id, path + prefix + 1, n - prefix - 1 - suffix);
    id[n - prefix - 1 - suffix] = '\0';
    return true;
}

/* The run that the request is of.  NULL: answered.  Under the lock. */
static struct tn_assigned *admit_run(struct tn_work_socket *s,
                                     const struct tn_http_request *request, const char *id,
                                     bool required, struct tn_http_reply *reply)
{
    const char *text = request->header(request, "Tenure-Epoch");
    struct tn_assigned *job = tn_work_run_find(s, id);
    const char *end = text;
    int64_t epoch = 0;
    char detail[256];

    if ((!text && required) || (text && (!tn_take_number(&end, &epoch) || *end))) {
        tn_http_answer_error(reply, 400, "invalid",
                             "give the header Tenure-Epoch: the epoch of the run");
        return NULL;
    }
    if (job && (!text || job->epoch == (uint64_t)epoch))
        return job;
    if (job)
        snprintf(detail, sizeof detail,
                 "epoch %" PRId64 " of job %.100s is over; it is at epoch %" PRIu64 " here", epoch,
                 id, job->epoch);
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
    const struct tn_assigned *job = admit_run(s, request, id, false, reply);
    const struct tn_work_run *r = job ? job->own : NULL;
    if (r && r->checkpoint_len == 0) {
        tn_http_answer_error(reply, 404, "not-found", "nothing has been stored for this job yet");
    } else if (r) {
        void *body = tn_work_copy(r->checkpoint, r->checkpoint_len);

        snprintf(epoch, sizeof epoch, "%" PRIu64, job->epoch);
        *reply = (struct tn_http_reply){.status = body ? 200 : 503,
                                        .type = "application/octet-stream",
                                        .body = body,
                                        .len = body ? r->checkpoint_len : 0,
                                        .owned = body != NULL};
        reply->headers[0].name = "Tenure-Epoch";
        reply->headers[0].value = epoch;
    }
    pthread_mutex_unlock(&s->lock);
}

static void begin_commit(struct tn_work_socket *s, const struct tn_http_request *request,
                         const char *id, struct tn_http_reply *reply)
{
    pthread_mutex_lock(&s->lock);
    const struct tn_assigned *job = admit_run(s, request, id, true, reply);
    uint32_t number = job ? job->number : 0;
    uint64_t epoch = job ? job->epoch : 0;
    pthread_mutex_unlock(&s->lock);
    if (job)
        tn_work_commit_one(s, request, number, epoch, reply);
}

static void handle_checkpoint(struct tn_work_socket *s, const struct tn_http_request *request,
                              const char *id, struct tn_http_reply *reply)
{
    if (request->memo->job)
        tn_work_commits_answer(s, request->memo->job, reply);
    else if (strcmp(request->method, "GET") == 0)
        answer_checkpoint(s, request, id, reply);
    else if (strcmp(request->method, "PUT") != 0)
        tn_http_answer_error(reply, 405, "invalid", "a checkpoint takes GET and PUT");
    else if (request->full)
        reply->park = true; /* answered 503 by the server */
    else
        begin_commit(s, request, id, reply);
}

/* The run is over from here on: a second one is of none, whatever the job does meanwhile. */
static void handle_stopped(struct tn_work_socket *s, const struct tn_http_request *request,
                           const char *id, struct tn_http_reply *reply)
{
    if (!s->options.stopped) {
        tn_http_answer_error(reply, 405, "invalid",
                             "the end of a program is the end of its job here: this is for "
                             "'tenure work --one-program'");
        return;
    }
    if (strcmp(request->method, "POST") != 0) {
        tn_http_answer_error(reply, 405, "invalid", "the end of a job takes POST");
        return;
    }
    pthread_mutex_lock(&s->lock);
    struct tn_assigned *job = admit_run(s, request, id, true, reply);
    if (job) {
        uint32_t number = job->number;
        uint64_t epoch = job->epoch;

        tn_work_run_drop(s, job);
        s->options.stopped(s->options.arg, number, epoch);
        tn_http_answer_json(reply, 200,
                            json_pack("{s:b, s:I}", "stopped", 1, "epoch", (json_int_t)epoch));
    }
    pthread_mutex_unlock(&s->lock);
}

/* ---- The server ---------------------------------------------------------- */

static void handle_request(void *arg, const struct tn_http_request *request,
                           struct tn_http_reply *reply)
{
    struct tn_work_socket *s = arg;
    char id[128];

    if (!request->local)
        tn_state_http_denied(reply);
    else if (job_of(request->path, CHECKPOINT, id))
        handle_checkpoint(s, request, id, reply);
    else if (job_of(request->path, STOPPED, id))
        handle_stopped(s, request, id, reply);
    else if (strcmp(request->path, JOBS) == 0)
        handle_jobs(s, request, reply);
    else
        tn_http_answer_error(reply, 404, "not-found",
                             "see GET and POST /v1/jobs, GET and PUT /v1/jobs/ID/checkpoint, POST "
                             "/v1/jobs/ID/stopped");
}

/* The server says that a request is over. */
static void end_request(void *arg, struct tn_http_memo *memo)
{
    if (memo->job)
        tn_work_commits_forget(arg, memo->job);
    memo->job = NULL;
}

/* Before a body is kept: strangers have nothing to send. */
static bool admit_request(void *arg, const struct tn_http_request *request,
                          struct tn_http_reply *reply)
{
    bool jobs = strcmp(request->path, JOBS) == 0 && strcmp(request->method, "GET") == 0;

    (void)arg;
    if (!request->local) {
        tn_state_http_denied(reply);
        return false;
    }
    return tn_query_check(request, jobs ? "stream" : "", NULL, reply);
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
                                       .body_max = BODY_MAX,
                                       .bodies_max = BODIES_MAX,
                                       .user = options->user};

        snprintf(s->variable, sizeof s->variable, "%s%s/socket", TN_WORK_VARIABLE, s->dir);
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
    struct tn_assigned *job;
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
    for (size_t i = 0; (job = tn_assigned_next(&s->jobs, &i, NULL)); i = 0)
        tn_work_run_drop(s, job);
    tn_assigned_free(&s->jobs);
    tn_work_commits_free(s);
    free(s->events);
    pthread_mutex_destroy(&s->lock);
    pthread_mutex_destroy(&s->waking);
    free(s);
}
