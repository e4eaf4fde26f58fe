#include "api/link.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "api/inner.h"
#include "state/http/http.h"

/* A request without an answer; neither job nor status: free. */
struct pending {
    uint64_t number;
    struct tn_job *job;
    struct tn_http_reply refusal; /* without a job */
};

struct tn_link {
    int socket; /* -1: the agent is gone, or speaks another language */
    int event_fd;
    struct tn_watch socket_watch, event_watch;
    struct tn_election *election;
    struct tn_jobs *jobs;
    struct pending pending[TN_WIRE_OPEN_MAX];
    uint64_t ping; /* the last one */
    bool asked;    /* it has not been answered */
    bool credit;   /* one more may be pushed */
    bool blocked;  /* something waits until the agent takes more */
    union tn_wire_buffer in;
};

static void notify(void *arg)
{
    uint64_t one = 1;

    while (write(((struct tn_link *)arg)->event_fd, &one, sizeof one) < 0 && errno == EINTR)
        continue;
}

/* ---- Snapshots ----------------------------------------------------------- */

/* What cannot be sent now is sent when the agent takes more, or something happens: it does not ask
 * again before it is answered. */
static void push(struct tn_link *l)
{
    struct tn_election_snapshot *s = tn_election_snapshot(l->election, true, 0);
    struct tn_wire_part none = {0};

    if (s && tn_wire_send(l->socket, TN_WIRE_SNAPSHOT, l->ping,
                          (struct tn_wire_part){s, tn_snapshot_size(s->n_listed, s->n_terms)}, none,
                          none)) {
        l->credit = l->asked;
        l->asked = false;
    } else {
        l->blocked |= s && errno == EAGAIN;
    }
    free(s);
}

/* ---- Requests ------------------------------------------------------------ */

/* Without its body, where there is no memory or descriptor for that: somebody waits for it.
 * false: it must be tried again. */
static bool answer(struct tn_link *l, uint64_t number, const struct tn_http_reply *reply)
{
    struct tn_wire_answer a = {.status = reply->status, .body_len = (uint32_t)reply->len};
    struct tn_wire_part none = {0};

    snprintf(a.type, sizeof a.type, "%s", reply->type ? reply->type : "");
    for (int i = 0; i < TN_WIRE_HEADERS; i++) {
        for (size_t k = 0; k < sizeof reply->headers / sizeof reply->headers[0]; k++) {
            if (reply->headers[k].name &&
                strcasecmp(reply->headers[k].name, tn_wire_headers[i]) == 0)
                snprintf(a.headers[i], sizeof a.headers[i], "%s", reply->headers[k].value);
        }
    }
    bool sent = tn_wire_send(l->socket, TN_WIRE_ANSWER, number, (struct tn_wire_part){&a, sizeof a},
                             none, (struct tn_wire_part){reply->body, a.body_len});
    if (!sent && errno != EAGAIN && a.body_len > 0) {
        a = (struct tn_wire_answer){.status = 503};
        sent = tn_wire_send(l->socket, TN_WIRE_ANSWER, number, (struct tn_wire_part){&a, sizeof a},
                            none, none);
    }
    l->blocked |= !sent && errno == EAGAIN;
    return sent;
}

static const char *header(const struct tn_http_request *request, const char *name)
{
    const struct tn_wire_request *r = request->inner;

    return strcasecmp(name, "Tenure-Epoch") == 0 && r->epoch[0] ? r->epoch : NULL;
}

static void peer(const struct tn_http_request *request, char *out, size_t size)
{
    const struct tn_wire_request *r = request->inner;

    snprintf(out, size, "%s", r->peer);
}

static struct pending *free_place(struct tn_link *l)
{
    for (int i = 0; i < TN_WIRE_OPEN_MAX; i++) {
        if (!l->pending[i].job && !l->pending[i].refusal.status)
            return &l->pending[i];
    }
    return NULL;
}

static void free_pending(struct pending *p)
{
    tn_job_forget(p->job);
    if (p->refusal.owned)
        free(p->refusal.body);
    *p = (struct pending){0};
}

/* Every request gets its answer: the agent counts those that have none.  finish() sends it. */
static void begin(struct tn_link *l, size_t len, int body_fd)
{
    struct tn_wire_request r;
    struct pending one_too_many = {0}, *place = free_place(l);
    struct pending *p = place ? place : &one_too_many;
    char *path = NULL;
    unsigned char *body = NULL;
    bool ok = tn_wire_read_request(l->in.bytes + sizeof l->in.head, len, &r, &path);
    int reason = errno;

    if (ok) {
        body = tn_wire_read_body(body_fd, r.body_len);
        reason = errno;
    } else if (body_fd >= 0) {
        close(body_fd);
    }
    p->number = l->in.head.number;
    if (!body && reason == EPROTO) {
        tn_http_answer_error(&p->refusal, 400, "invalid", "the request is malformed");
    } else if (!body || !place) {
        tn_http_answer_error(&p->refusal, 503, "busy", "too much is being done; try again");
    } else {
        struct tn_http_request request = {.method = r.method,
                                          .path = path,
                                          .body = body,
                                          .body_len = r.body_len,
                                          .local = true, /* it was admitted there */
                                          .header = header,
                                          .peer = peer,
                                          .inner = &r};
        p->job =
            tn_job_start(l->jobs, (enum tn_request_kind)r.kind, l->election, &request, &p->refusal);
    }
    if (!place) {
        answer(l, p->number, &p->refusal);
        free_pending(p);
    }
    free(body);
    free(path);
}

/* What the agent does not take now is kept until it does. */
static void finish(struct tn_link *l)
{
    for (int i = 0; i < TN_WIRE_OPEN_MAX; i++) {
        struct pending *p = &l->pending[i];
        const struct tn_http_reply *reply = p->job ? tn_job_reply(p->job) : &p->refusal;

        if (!reply || !reply->status)
            continue;
        if (reply->len > TN_WIRE_BODY_MAX) {
            tn_job_forget(p->job);
            p->job = NULL;
            reply = &p->refusal;
            tn_http_answer_error(&p->refusal, 503, "too-long", "the answer has more than 4 MiB");
        }
        if (answer(l, p->number, reply))
            free_pending(p);
    }
}

/* ---- The loop's ---------------------------------------------------------- */

static void receive(struct tn_link *l)
{
    size_t len;
    int body, got = 1;

    /* No more than an agent may have under way at once. */
    for (int i = 0; i <= TN_WIRE_OPEN_MAX && got > 0; i++) {
        got = tn_wire_receive(l->socket, &l->in, &len, &body);
        if (got > 0 && l->in.head.kind == TN_WIRE_REQUEST) {
            begin(l, len, body);
            continue;
        }
        if (got > 0 && l->in.head.kind == TN_WIRE_PING) {
            l->ping = l->in.head.number;
            l->asked = true;
        }
        if (got > 0 && body >= 0)
            close(body);
    }
    if (got < 0) {
        l->socket = -1;
        tn_watch_set(&l->socket_watch, -1, 0);
    }
}

static void step(void *arg, short events)
{
    struct tn_link *l = arg;
    uint64_t count;

    (void)events;
    bool changed = read(l->event_fd, &count, sizeof count) > 0;
    if (changed && tn_election_wants_refresh(l->election))
        tn_election_refresh(l->election);
    if (l->socket >= 0)
        receive(l);
    if (l->socket < 0)
        return;
    l->blocked = false;
    finish(l);
    if (l->asked || (changed && l->credit))
        push(l);
    tn_watch_set(&l->socket_watch, l->socket, l->blocked ? POLLIN | POLLOUT : POLLIN);
}

enum tenure_status tn_link_open(struct tn_loop *loop, int socket, struct tn_election *e,
                                struct tn_link **link, struct tenure_error *err)
{
    struct tn_link *l = calloc(1, sizeof *l);

    if (!l)
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    l->socket = socket;
    l->election = e;
    l->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    l->jobs = l->event_fd >= 0 ? tn_jobs_new(l->event_fd) : NULL;
    if (!l->jobs) {
        tn_link_close(l);
        return tenure_fail(err, TENURE_UNAVAILABLE, "cannot make an event descriptor");
    }
    tn_loop_watch(loop, &l->socket_watch, socket, step, l);
    tn_loop_watch(loop, &l->event_watch, l->event_fd, step, l);
    tn_election_on_change(e, TN_WATCHER_LINK, notify, l);
    tn_election_refresh(e);
    *link = l;
    return TENURE_OK;
}

void tn_link_close(struct tn_link *l)
{
    if (!l)
        return;
    tn_election_on_change(l->election, TN_WATCHER_LINK, NULL, NULL);
    for (int i = 0; i < TN_WIRE_OPEN_MAX; i++)
        free_pending(&l->pending[i]);
    tn_jobs_close(l->jobs);
    if (l->event_fd >= 0)
        close(l->event_fd);
    free(l);
}
