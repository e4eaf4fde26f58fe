/*
 * Requests that an election's process must answer itself: a hand-over, a pause, the
 * state.  The client's connection is parked meanwhile.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/proxy_inner.h"
#include "state/http/http.h"
#include "tenure/store.h"

#define REQUEST_NS  (6 * TN_S)  /* their own limit is five seconds */
#define HANDOVER_NS (75 * TN_S) /* its own limit is a minute */

/* ---- Calls: of the thread, but for the list ------------------------------ */

static void free_call(struct tn_forward *c)
{
    if (!c)
        return;
    free(c->path);
    free(c->body);
    free(c->answer_body);
    free(c);
}

/* It is over, with an answer or without. */
static void finish(struct tn_forward *c)
{
    struct tn_proxy *p = c->proxy;

    pthread_mutex_lock(&p->lock);
    struct tn_forward **at = &p->calls;
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    p->n_calls--;
    c->done = true;
    bool forgotten = c->forgotten;
    pthread_mutex_unlock(&p->lock);
    if (forgotten)
        free_call(c);
}

/* true: it is under way. */
static bool send_call(struct tn_forward *c)
{
    const struct tn_upstream *u = c->upstream;

    if (c->sent)
        return true;
    c->sent = true;
    return u->socket >= 0 && tn_wire_send(u->socket, TN_WIRE_REQUEST, c->number,
                                          (struct tn_wire_part){&c->request, sizeof c->request},
                                          (struct tn_wire_part){c->path, strlen(c->path)},
                                          (struct tn_wire_part){c->body, c->request.body_len});
}

/* A request that was not sent, or whose process is gone, will not be answered. */
void tn_proxy_calls_step(struct tn_proxy *p, int64_t now)
{
    struct tn_forward *next;
    bool any = false;

    pthread_mutex_lock(&p->lock);
    struct tn_forward *c = p->calls;
    pthread_mutex_unlock(&p->lock);
    /* New ones are put in front, and only this thread takes any away. */
    for (; c; c = next) {
        next = c->next;
        bool sent = c->sent, under_way = send_call(c);
        if (!sent && !under_way) {
            pthread_mutex_lock(&p->lock);
            c->upstream->open -= c->upstream->open > 0;
            pthread_mutex_unlock(&p->lock);
        }
        if (under_way && now < c->by_ns && c->upstream->socket >= 0)
            continue;
        finish(c);
        any = true;
    }
    if (any)
        tn_api_wake(p->api);
}

bool tn_proxy_answered(struct tn_upstream *u, uint64_t number, const void *bytes, size_t len,
                       int body)
{
    struct tn_proxy *p = u->proxy;
    struct tn_wire_answer answer;
    bool ok = tn_wire_read_answer(bytes, len, &answer);
    unsigned char *text = tn_wire_read_body(body, ok ? answer.body_len : 0);

    if (!ok || (!text && errno != ENOMEM)) {
        free(text);
        return false;
    }
    pthread_mutex_lock(&p->lock);
    struct tn_forward *c = p->calls;
    while (c && (c->upstream != u || c->number != number))
        c = c->next;
    u->open -= u->open > 0; /* its client may have given up waiting */
    pthread_mutex_unlock(&p->lock);
    if (!c) {
        free(text);
        return true;
    }
    if (text) /* else it was lost, as if none had come */
        c->answer = answer;
    c->answer_body = text;
    finish(c);
    tn_api_wake(p->api);
    return true;
}

void tn_proxy_calls_end(struct tn_proxy *p)
{
    while (p->calls)
        finish(p->calls);
}

/* ---- What the listener asks ---------------------------------------------- */

static bool enter(struct tn_proxy *p, struct tn_forward *c)
{
    pthread_mutex_lock(&p->lock);
    bool room = p->n_calls < TN_PROXY_CALLS && c->upstream->open < TN_WIRE_OPEN_MAX &&
                !atomic_load(&p->ending);
    if (room) {
        c->next = p->calls;
        p->calls = c;
        p->n_calls++;
        c->upstream->open++;
    }
    pthread_mutex_unlock(&p->lock);
    return room;
}

static struct tn_forward *new_call(struct tn_proxy *p, struct tn_upstream *u,
                                   enum tn_request_kind kind, const struct tn_http_request *r)
{
    struct tn_forward *c = calloc(1, sizeof *c);
    const char *epoch = r->header(r, "Tenure-Epoch");

    if (!c || !(c->path = strdup(r->path)) || !(c->body = malloc(r->body_len + 1))) {
        free_call(c);
        return NULL;
    }
    c->proxy = p;
    c->upstream = u;
    c->number = atomic_fetch_add(&p->numbers, 1) + 1;
    c->by_ns = tenure_now() + (kind == TN_REQUEST_HANDOVER ? HANDOVER_NS : REQUEST_NS);
    c->request.kind = kind;
    c->request.body_len = (uint32_t)r->body_len;
    if (r->body_len)
        memcpy(c->body, r->body, r->body_len);
    snprintf(c->request.method, sizeof c->request.method, "%s",
             strcmp(r->method, "HEAD") == 0 ? "GET" : r->method);
    snprintf(c->request.epoch, sizeof c->request.epoch, "%s", epoch ? epoch : "");
    r->peer(r, c->request.peer, sizeof c->request.peer);
    return c;
}

/* The client was admitted here; over there it is the agent that asks. */
static void *send_request(void *arg, struct tn_election *election, enum tn_request_kind kind,
                          const struct tn_http_request *request, struct tn_http_reply *reply)
{
    struct tn_proxy *p = arg;
    const char *epoch = request->header(request, "Tenure-Epoch");

    if (epoch && !tn_wire_is_header(epoch, TN_WIRE_EPOCH)) {
        tn_http_answer_error(reply, 400, "invalid", "Tenure-Epoch is not a number");
        return NULL;
    }
    struct tn_forward *c = new_call(p, tn_election_remote(election), kind, request);

    if (c && enter(p, c)) {
        tn_proxy_wake(p);
        return c;
    }
    free_call(c);
    tn_http_answer_error(reply, 503, "busy", "too much is being done; try again");
    return NULL;
}

static void forget(void *arg)
{
    struct tn_forward *c = arg;

    if (!c)
        return;
    struct tn_proxy *p = c->proxy;
    pthread_mutex_lock(&p->lock);
    c->forgotten = true;
    bool done = c->done;
    pthread_mutex_unlock(&p->lock);
    if (done)
        free_call(c);
}

static void answer_none(const struct tn_upstream *u, struct tn_http_reply *reply)
{
    char detail[400];

    pthread_mutex_lock(&u->proxy->lock);
    if (!u->there)
        snprintf(detail, sizeof detail, "%.100s: %s", u->name, u->fate);
    else
        snprintf(detail, sizeof detail,
                 "%.100s: its process has not answered; if this was a change it may still be "
                 "made: look before you try again",
                 u->name);
    pthread_mutex_unlock(&u->proxy->lock);
    tn_http_answer_error(reply, 503, "unavailable", detail);
}

static bool collect(void *arg, struct tn_http_reply *reply)
{
    struct tn_forward *c = arg;
    size_t n = 0;

    pthread_mutex_lock(&c->proxy->lock);
    bool done = c->done;
    pthread_mutex_unlock(&c->proxy->lock);
    if (!done)
        return false;
    if (!c->answer.status) {
        answer_none(c->upstream, reply);
        return true;
    }
    *reply = (struct tn_http_reply){.status = c->answer.status,
                                    .type = c->answer.type[0] ? c->answer.type : NULL,
                                    .body = c->answer_body,
                                    .len = c->answer.body_len,
                                    .owned = true};
    c->answer_body = NULL;
    for (int i = 0; i < TN_WIRE_HEADERS; i++) {
        if (!c->answer.headers[i][0])
            continue;
        reply->headers[n].name = tn_wire_headers[i];
        reply->headers[n++].value = c->answer.headers[i];
    }
    return true;
}

const struct tn_api_upstream tn_proxy_requests = {
    .send = send_request, .collect = collect, .forget = forget};
