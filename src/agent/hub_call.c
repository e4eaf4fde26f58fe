/*
 * Requests that an election's process must answer itself: orders, the state,
 * metrics.  The visitor's connection is parked meanwhile.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "agent/hub_inner.h"
#include "state/http/http.h"
#include "tenure/store.h"

#define ANSWER_MAX  (4u << 20)
#define GATHER_NS   (3 * TN_S)
#define ORDER_NS    (6 * TN_S)  /* their own limit is five seconds */
#define HANDOVER_NS (75 * TN_S) /* its own limit is a minute */

/* ---- A request as text --------------------------------------------------- */

static void put_path(FILE *out, const char *path)
{
    for (; *path; path++) {
        unsigned char c = (unsigned char)*path;

        if (isalnum(c) || strchr("/-._~", c))
            fputc(c, out);
        else
            fprintf(out, "%%%02X", c);
    }
}

/* The visitor was admitted here; over there it is us who ask. */
static char *request_text(const struct tn_http_request *r, const char *path, bool open, size_t *len)
{
    const char *epoch = r->header(r, "Tenure-Epoch"), *type = r->header(r, "Content-Type");
    char *text = NULL;
    FILE *out = open_memstream(&text, len);

    if (!out)
        return NULL;
    fprintf(out, "%s ", strcmp(r->method, "HEAD") == 0 ? "GET" : r->method);
    put_path(out, path);
    fprintf(out, " HTTP/1.0\r\nHost: localhost\r\nConnection: close\r\n");
    if (open)
        fprintf(out, "Accept: application/openmetrics-text\r\n");
    /* A header's value holds no line feed: the library has taken it apart at those. */
    if (epoch)
        fprintf(out, "Tenure-Epoch: %.64s\r\n", epoch);
    if (type)
        fprintf(out, "Content-Type: %.128s\r\n", type);
    if (r->body_len > 0 || strcmp(r->method, "PUT") == 0 || strcmp(r->method, "POST") == 0)
        fprintf(out, "Content-Length: %zu\r\n", r->body_len);
    fputs("\r\n", out);
    if (r->body_len)
        fwrite(r->body, 1, r->body_len, out);
    bool failed = ferror(out) != 0;
    failed |= fclose(out) != 0;
    if (failed) {
        free(text);
        text = NULL;
    }
    return text;
}

/* ---- One leg: of the thread ---------------------------------------------- */

static void leg_over(struct tn_leg *leg, bool whole)
{
    tn_end_close(leg->call->hub, &leg->end);
    leg->over = true;
    leg->whole = whole;
}

void tn_hub_leg_step(struct tn_leg *leg)
{
    const struct tn_call *c = leg->call;

    while (leg->sent < c->out_len) {
        ssize_t n = send(leg->end.fd, c->out + leg->sent, c->out_len - leg->sent, MSG_NOSIGNAL);

        if (n <= 0)
            break; /* full, or closed: then there may still be an answer to read */
        leg->sent += (size_t)n;
    }
    if (leg->sent == c->out_len) {
        struct epoll_event ev = {.events = EPOLLIN, .data.ptr = &leg->end};

        epoll_ctl(c->hub->epoll_fd, EPOLL_CTL_MOD, leg->end.fd, &ev);
    }
    int more = tn_bytes_read(&leg->in, leg->end.fd, ANSWER_MAX);
    if (more <= 0)
        leg_over(leg, more == 0 && leg->in.len > 0);
}

static void leg_begin(struct tn_leg *leg)
{
    struct epoll_event ev = {.events = EPOLLIN | EPOLLOUT, .data.ptr = &leg->end};

    leg->end.fd = tn_hub_connect(leg->call->hub, leg->far);
    if (leg->end.fd < 0 ||
        epoll_ctl(leg->call->hub->epoll_fd, EPOLL_CTL_ADD, leg->end.fd, &ev) != 0)
        leg_over(leg, false);
}

/* ---- Calls: of the thread, but for the list ------------------------------ */

static void free_call(struct tn_call *c)
{
    for (size_t i = 0; i < c->n; i++)
        tn_bytes_free(&c->legs[i].in);
    free(c->out);
    free(c);
}

/* Under the lock. */
static void strike_out(struct tn_hub *h, struct tn_call *c)
{
    struct tn_call **at = &h->calls;

    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    h->n_calls--;
    if (c->kind == TN_CALL_ORDER)
        c->legs[0].far->orders--;
    c->done = true;
}

/* True: it is over.  A process that hangs holds up nobody for longer than that. */
static bool step(struct tn_call *c, int64_t now)
{
    size_t over = 0;

    for (size_t i = 0; i < c->n; i++) {
        struct tn_leg *leg = &c->legs[i];

        if (!c->begun)
            leg_begin(leg);
        if (!leg->over && now >= c->by_ns)
            leg_over(leg, false);
        over += leg->over;
    }
    c->begun = true;
    return over == c->n;
}

void tn_hub_calls_step(struct tn_hub *h, int64_t now)
{
    struct tn_call *next;
    bool any = false;

    pthread_mutex_lock(&h->lock);
    struct tn_call *c = h->calls;
    pthread_mutex_unlock(&h->lock);
    /* New ones are put in front, and only we take any away. */
    for (; c; c = next) {
        next = c->next;
        if (!step(c, now))
            continue;
        pthread_mutex_lock(&h->lock);
        strike_out(h, c);
        bool forgotten = c->forgotten;
        pthread_mutex_unlock(&h->lock);
        any = true;
        if (forgotten)
            free_call(c);
    }
    if (any)
        tn_api_wake(h->api);
}

void tn_hub_calls_end(struct tn_hub *h)
{
    while (h->calls) {
        struct tn_call *c = h->calls;

        for (size_t i = 0; i < c->n; i++)
            leg_over(&c->legs[i], false);
        pthread_mutex_lock(&h->lock);
        strike_out(h, c);
        bool forgotten = c->forgotten;
        pthread_mutex_unlock(&h->lock);
        if (forgotten)
            free_call(c);
    }
}

/* ---- What the listener asks ---------------------------------------------- */

static bool enter(struct tn_hub *h, struct tn_call *c)
{
    struct tn_far *f = c->kind == TN_CALL_ORDER ? c->legs[0].far : NULL;

    pthread_mutex_lock(&h->lock);
    bool room =
        h->n_calls < TN_HUB_CALLS && (!f || f->orders < TN_HUB_ORDERS) && !atomic_load(&h->ending);
    if (room) {
        c->next = h->calls;
        h->calls = c;
        h->n_calls++;
        if (f)
            f->orders++;
    }
    pthread_mutex_unlock(&h->lock);
    return room;
}

static void *call(struct tn_hub *h, enum tn_call_kind kind, struct tn_election *const *elections,
                  size_t n, const struct tn_http_request *request, const char *path, bool open,
                  struct tn_http_reply *reply)
{
    struct tn_call *c = calloc(1, sizeof *c + n * sizeof c->legs[0]);
    int64_t limit = kind != TN_CALL_ORDER               ? GATHER_NS
                    : strcmp(path, "/v1/handover") == 0 ? HANDOVER_NS
                                                        : ORDER_NS;

    if (c && (c->out = request_text(request, path, open, &c->out_len))) {
        c->hub = h;
        c->kind = kind;
        c->open = open;
        c->by_ns = tenure_now() + limit;
        c->n = n;
        for (size_t i = 0; i < n; i++)
            c->legs[i] = (struct tn_leg){.end = {.fd = -1, .leg = &c->legs[i]},
                                         .call = c,
                                         .far = tn_election_far(elections[i])};
        if (enter(h, c)) {
            tn_hub_wake(h);
            return c;
        }
    }
    if (c)
        free_call(c);
    tn_http_answer_error(reply, 503, "busy", "too much is being done; try again");
    return NULL;
}

static void *order(void *arg, struct tn_election *election, const struct tn_http_request *request,
                   const char *path, struct tn_http_reply *reply)
{
    return call(arg, TN_CALL_ORDER, &election, 1, request, path, false, reply);
}

static void *gather(void *arg, struct tn_election *const *elections, size_t n,
                    const struct tn_http_request *request, const char *path, bool open,
                    struct tn_http_reply *reply)
{
    return call(arg, strcmp(path, "/metrics") == 0 ? TN_CALL_METRICS : TN_CALL_HEALTH, elections, n,
                request, path, open, reply);
}

static void forget(void *arg)
{
    struct tn_call *c = arg;

    if (!c)
        return;
    struct tn_hub *h = c->hub;
    pthread_mutex_lock(&h->lock);
    c->forgotten = true;
    bool done = c->done;
    pthread_mutex_unlock(&h->lock);
    if (done)
        free_call(c);
}

static bool collect(void *arg, struct tn_http_reply *reply)
{
    struct tn_call *c = arg;

    pthread_mutex_lock(&c->hub->lock);
    bool done = c->done;
    pthread_mutex_unlock(&c->hub->lock);
    if (!done)
        return false;
    tn_call_answer(c, reply);
    return true;
}

const struct tn_api_elsewhere tn_hub_elsewhere = {
    .order = order, .gather = gather, .collect = collect, .forget = forget};
