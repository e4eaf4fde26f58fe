#include "state/http/socket.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/timing.h"
#include "os/socket_dir.h"
#include "state/calls.h"
#include "state/http/leadership.h"
#include "state/http/query.h"
#include "state/http/queue.h"

#define VARIABLE   "TENURE_SOCKET="
#define LEADERSHIP "/v1/leadership"
/* One try of the seal; the driver repeats it while the grant lasts, and notices a loss in between.
 * What was done in one is not done again in the next. */
#define SEAL_NS    (2 * TN_S)
/* Commits of a batch have the deadline of the oldest: so they have come at about the same time. */
#define SPAN_NS    (1 * TN_S)

/* How far the seal of a grant has come. */
struct sealing {
    struct tn_collections *walk; /* NULL: not begun */
    bool listed;                 /* these are all the collections there are */
    char **name;
    size_t n, roots; /* of so many the root is sealed */
    size_t whole;    /* of options.seal */
    bool lost;       /* a name could not be noted */
    int64_t try_ns;  /* how long a try may last */
};

struct tn_state_socket {
    struct tn_state_socket_options options;
    const struct tn_http_ops *http;
    struct tn_state_queue *queue;
    struct tn_leadership *leadership;
    pthread_mutex_t waking; /* of server, for the queue */
    struct tn_http_server *server;
    char dir[TN_SOCKET_DIR_MAX];
    char variable[sizeof VARIABLE + 96];

    pthread_rwlock_t lock; /* of the term: shared by requests, alone while it is replaced */
    tenure_state *state;
    struct tenure_grant grant;
    struct sealing sealing;
    _Atomic uint64_t turn;    /* rises with every grant, under the lock */
    _Atomic uint64_t program; /* rises with every end and start of one */
};

static void restart_sealing(struct sealing *c)
{
    for (size_t i = 0; i < c->n; i++)
        free(c->name[i]);
    free(c->name);
    tn_collections_free(c->walk);
    *c = (struct sealing){.try_ns = SEAL_NS};
}

static const char *socket_path(const struct tn_state_socket *s)
{
    return s->variable + sizeof VARIABLE - 1;
}

static void answer_requests(void *arg, struct tn_state_request *const *requests, size_t n)
{
    struct tn_state_socket *s = arg;
    uint64_t floor = 0;

    pthread_rwlock_rdlock(&s->lock);
    struct tn_state_term term = {.state = s->state,
                                 .name = s->options.name,
                                 .epoch = s->grant.epoch,
                                 .turn = s->turn,
                                 .program = s->program,
                                 .left_ns = s->options.time_left(s->options.arg),
                                 .committed = s->options.committed,
                                 .arg = s->options.arg};
    bool over = tn_state_http(&term, requests, n);
    if (over)
        floor = tenure_state_floor(s->state);
    pthread_rwlock_unlock(&s->lock);
    if (over)
        s->options.fenced(s->options.arg, floor);
}

void tn_state_socket_answer(struct tn_state_socket *s, const struct tn_http_request *request,
                            struct tn_http_reply *reply)
{
    static _Thread_local char values[3][24]; /* copied by whoever asked */
    struct tn_state_request asked = {.method = request->method,
                                     .path = request->path,
                                     .epoch = request->header(request, "Tenure-Epoch"),
                                     .turn = s->turn, /* before the lock is waited for */
                                     .came_ns = tenure_now(),
                                     .body = request->body,
                                     .len = request->body_len};
    struct tn_state_request *one = &asked;

    answer_requests(s, &one, 1);
    *reply = asked.reply;
    memcpy(values, asked.values, sizeof values);
    for (int i = 0; i < 3; i++)
        reply->headers[i].value = reply->headers[i].name ? values[i] : NULL;
}

/* ---- The server ---------------------------------------------------------- */

static void view_leadership(void *arg, struct tn_leadership_view *view)
{
    struct tn_state_socket *s = arg;

    pthread_rwlock_rdlock(&s->lock);
    *view = (struct tn_leadership_view){.name = s->options.name,
                                        .epoch = s->grant.epoch,
                                        .turn = s->turn,
                                        .left_ns = s->options.time_left(s->options.arg)};
    /* A grant that is not sealed yet leads nobody (I4), least of all in the epoch before it. */
    uint64_t term = s->options.term(s->options.arg, &view->draining);
    view->leading = s->state && view->left_ns > 0 && term == s->grant.epoch;
    view->draining = view->draining && view->leading;
    pthread_rwlock_unlock(&s->lock);
}

/* What needs no store is answered at once; the rest is queued. */
static void handle_request(void *arg, const struct tn_http_request *request,
                           struct tn_http_reply *reply)
{
    struct tn_state_socket *s = arg;

    if (!request->local)
        tn_state_http_denied(reply);
    else if (strcmp(request->path, LEADERSHIP) == 0)
        tn_leadership_answer(s->leadership, request, reply);
    else if (strncmp(request->path, "/v1/state", 9) == 0)
        tn_state_queue_handle(s->queue, request, reply);
    else
        tn_http_answer_error(reply, 404, "not-found",
                             "see /v1/leadership, /v1/state and /v1/state/COLLECTION/ID");
}

static void end_request(void *arg, struct tn_http_memo *memo)
{
    tn_state_queue_done(((struct tn_state_socket *)arg)->queue, memo);
}

static void wake_server(void *arg)
{
    struct tn_state_socket *s = arg;

    pthread_mutex_lock(&s->waking);
    if (s->server)
        s->http->wake(s->server);
    pthread_mutex_unlock(&s->waking);
}

static void count_server(void *arg, struct tn_http_counts *counts)
{
    struct tn_state_socket *s = arg;

    pthread_mutex_lock(&s->waking);
    if (s->server)
        s->http->count(s->server, counts);
    pthread_mutex_unlock(&s->waking);
}

static void publish_event(void *arg, const char *text, size_t len)
{
    struct tn_state_socket *s = arg;

    pthread_mutex_lock(&s->waking);
    if (s->server)
        s->http->publish(s->server, 0, text, len);
    pthread_mutex_unlock(&s->waking);
}

void tn_state_socket_notify(void *arg)
{
    tn_leadership_notify(((struct tn_state_socket *)arg)->leadership);
}

static uint64_t current_turn(void *arg)
{
    return ((struct tn_state_socket *)arg)->turn;
}

static uint64_t current_program(void *arg)
{
    return ((struct tn_state_socket *)arg)->program;
}

/* Before a body is kept: strangers have nothing to send. */
static bool admit_request(void *arg, const struct tn_http_request *request,
                          struct tn_http_reply *reply)
{
    const struct tn_state_socket *s = arg;
    bool leadership = strcmp(request->path, LEADERSHIP) == 0;

    if (!request->local) {
        tn_state_http_denied(reply);
        return false;
    }
    return tn_query_check(request, leadership ? "name, wait, since, stream" : "name",
                          s->options.name, reply);
}

/* ---- Life ---------------------------------------------------------------- */

/* A new term does not wait behind requests that go on coming. */
static void init_locks(struct tn_state_socket *s)
{
    pthread_rwlockattr_t attr;

    pthread_rwlockattr_init(&attr);
    pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    pthread_rwlock_init(&s->lock, &attr);
    pthread_rwlockattr_destroy(&attr);
    pthread_mutex_init(&s->waking, NULL);
}

enum tenure_status tn_state_socket_open(const struct tn_state_socket_options *options,
                                        struct tn_state_socket **socket, struct tenure_error *err)
{
    struct tn_state_socket *s = calloc(1, sizeof *s);
    char listen[sizeof s->variable + 8];
    enum tenure_status status;

    if (!s)
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    s->options = *options;
    s->program = 1;
    init_locks(s);
    status = tn_http_load(&s->http, err);
    if (!status)
        status = tn_state_queue_open(&(struct tn_state_queue_options){.answer = answer_requests,
                                                                      .wake = wake_server,
                                                                      .turn = current_turn,
                                                                      .span_ns = SPAN_NS,
                                                                      .arg = s},
                                     &s->queue, err);
    if (!status)
        status = tn_leadership_open(&(struct tn_leadership_options){.view = view_leadership,
                                                                    .count = count_server,
                                                                    .wake = wake_server,
                                                                    .publish = publish_event,
                                                                    .arg = s},
                                    &s->leadership, err);
    if (!status)
        status = tn_socket_dir_make(s->dir, err);
    if (!status) {
        struct tn_http_options http = {.listen = listen,
                                       .admit = admit_request,
                                       .handler = handle_request,
                                       .done = end_request,
                                       .enter = current_program,
                                       .arg = s,
                                       .share = TN_HTTP_STATE_SHARE,
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
        tn_state_socket_close(s);
        return status;
    }
    *socket = s;
    return TENURE_OK;
}

void tn_state_socket_mute(struct tn_state_socket *s)
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
    tn_leadership_end(s->leadership);
}

void tn_state_socket_remove(const struct tn_state_socket *s)
{
    if (!s || !s->dir[0])
        return;
    unlink(socket_path(s));
    rmdir(s->dir);
}

void tn_state_socket_close(struct tn_state_socket *s)
{
    if (!s)
        return;
    tn_state_socket_mute(s);
    tn_state_queue_close(s->queue);
    tn_leadership_close(s->leadership);
    if (s->dir[0])
        rmdir(s->dir);
    tenure_state_close(s->state);
    restart_sealing(&s->sealing);
    pthread_rwlock_destroy(&s->lock);
    pthread_mutex_destroy(&s->waking);
    free(s);
}

void tn_state_socket_next_program(struct tn_state_socket *s)
{
    if (s)
        s->program++;
}

const char *tn_state_socket_variable(const struct tn_state_socket *s)
{
    return s->variable;
}

/* ---- Seal ---------------------------------------------------------------- */

static bool add_name(void *arg, const char *name)
{
    struct sealing *c = arg;
    char **grown = realloc(c->name, (c->n + 1) * sizeof *grown);

    if (grown)
        c->name = grown;
    c->lost = !grown || !(grown[c->n] = strdup(name));
    c->n += !c->lost;
    return !c->lost;
}

/* The root of every collection there is: nothing older begins to create anything in
 * it, and a higher epoch anywhere is met before the program starts. */
static enum tenure_status seal_roots(tenure_state *state, struct sealing *c, int64_t deadline,
                                     struct tenure_error *err)
{
    enum tenure_status status = TENURE_OK;

    if (!c->walk && !(c->walk = tn_collections_new()))
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    if (!c->listed)
        status = tn_state_collections(state, c->walk, add_name, c, deadline, err);
    if (c->lost) { /* what is not noted is not sealed */
        restart_sealing(c);
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    }
    c->listed |= !status;
    while (!status && c->roots < c->n) {
        struct tn_root *root;

        if ((status = tn_state_begin(state, c->name[c->roots], deadline, err)))
            break;
        status = tn_state_root(state, c->name[c->roots], &root, deadline, err);
        tn_state_end(state);
        c->roots += !status;
    }
    return status;
}

/* A try came to nothing: a store may list everything or nothing.  The next may last longer, but
 * not more than half of what is left of the term, so that a loss is not noticed late; nor than
 * three quarters of the grace, so that an order to stop is not: the guard would take us for hung,
 * end us, and nobody would release (I8). */
static void extend_try(struct tn_state_socket *s)
{
    int64_t term = s->options.time_left(s->options.arg) / 2;
    int64_t stop = s->options.grace(s->options.arg) / 4 * 3;
    int64_t most = term < stop ? term : stop, twice = 2 * s->sealing.try_ns;

    s->sealing.try_ns = twice < most ? twice : most > SEAL_NS ? most : SEAL_NS;
}

static enum tenure_status seal_all(struct tn_state_socket *s, bool *gained,
                                   struct tenure_error *err)
{
    struct sealing *c = &s->sealing;
    int64_t try_ns = c->try_ns, deadline = tenure_now() + try_ns;
    const char *const *whole = s->options.seal;
    enum tenure_status status = TENURE_OK;

    if (!s->state)
        status = tenure_state_open(s->options.store, s->options.name, &s->grant, deadline,
                                   &s->state, err);
    if (status)
        return status;
    if (s->state->terms) /* the first change of the term has sealed everything (R15) */
        return s->state->fenced ? tn_state_set_fenced(s->state, s->options.name, err) : TENURE_OK;
    uint64_t before = s->state->progress;
    status = seal_roots(s->state, c, deadline, err);
    while (!status && whole && whole[c->whole]) {
        status = tenure_state_seal(s->state, whole[c->whole], deadline, err);
        c->whole += !status;
    }
    if (status == TENURE_TIMEOUT && s->state->progress == before)
        extend_try(s);
    *gained = s->state->progress != before || c->try_ns > try_ns;
    return status;
}

enum tenure_status tn_state_socket_seal(struct tn_state_socket *s, uint64_t epoch,
                                        const uint8_t grant[TENURE_NONCE_SIZE], uint64_t *floor,
                                        bool *gained, struct tenure_error *err)
{
    enum tenure_status status;

    pthread_rwlock_wrlock(&s->lock);
    if (s->grant.epoch != epoch || memcmp(s->grant.id, grant, TENURE_NONCE_SIZE) != 0) {
        tenure_state_close(s->state);
        s->state = NULL;
        restart_sealing(&s->sealing);
        s->turn++; /* what came before, and waits, is not of this term */
        s->grant.epoch = epoch;
        memcpy(s->grant.id, grant, TENURE_NONCE_SIZE);
    }
    status = seal_all(s, gained, err);
    if (status == TENURE_FENCED)
        *floor = tenure_state_floor(s->state);
    pthread_rwlock_unlock(&s->lock);
    return status;
}
