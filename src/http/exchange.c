/* One request: admitted by its headers, its body kept within bounds, answered or parked. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "http/server.h"

/* ---- Asking the handler -------------------------------------------------- */

static const char *header(const struct tn_http_request *r, const char *name)
{
    return MHD_lookup_connection_value(r->inner, MHD_HEADER_KIND, name);
}

static const char *query(const struct tn_http_request *r, const char *name)
{
    return MHD_lookup_connection_value(r->inner, MHD_GET_ARGUMENT_KIND, name);
}

struct walk {
    bool (*each)(void *arg, const char *name, const char *value);
    void *arg;
};

static enum MHD_Result visit_query(void *arg, enum MHD_ValueKind kind, const char *name,
                                   const char *value)
{
    struct walk *walk = arg;

    (void)kind;
    return walk->each(walk->arg, name ? name : "", value) ? MHD_YES : MHD_NO;
}

static void queries(const struct tn_http_request *r,
                    bool (*each)(void *arg, const char *name, const char *value), void *arg)
{
    struct walk walk = {each, arg};

    MHD_get_connection_values(r->inner, MHD_GET_ARGUMENT_KIND, visit_query, &walk);
}

static void peer(const struct tn_http_request *r, char *out, size_t size)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(r->inner, MHD_CONNECTION_INFO_CONNECTION_FD);

    tn_listen_peer(info ? info->connect_fd : -1, out, size);
}

static bool from_ours(const struct tn_http_server *s, struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);

    return s->listener.local && info && tn_listen_peer_is_ours(info->connect_fd, s->options.user);
}

static struct tn_http_request request_of(struct tn_http_server *s, struct tn_exchange *x,
                                         const char *url, const char *method)
{
    return (struct tn_http_request){.method = method,
                                    .path = url,
                                    .body = x->body,
                                    .body_len = x->len,
                                    .local = from_ours(s, x->connection),
                                    .socket = s->listener.local,
                                    .connection_id = tn_connection_number(x->connection),
                                    .memo = &x->memo,
                                    .header = header,
                                    .query = query,
                                    .queries = queries,
                                    .peer = peer,
                                    .inner = x->connection};
}

/* ---- Answers ------------------------------------------------------------- */

static void fixed(struct tn_http_reply *reply, unsigned status, const char *text)
{
    reply->status = status;
    reply->type = "application/json";
    memcpy(&reply->body, &text, sizeof reply->body); /* a literal, and not owned */
    reply->len = strlen(text);
}

static bool room_for_one(struct tn_http_server *s)
{
    unsigned open = 0;

    pthread_mutex_lock(&s->lock);
    open = s->n_parked;
    for (int i = 0; i < TN_HTTP_CHANNELS; i++)
        open += s->channels[i].n_streams;
    pthread_mutex_unlock(&s->lock);
    return open < s->open_max;
}

static void drop_body(struct tn_http_reply *reply)
{
    if (reply->owned)
        free(reply->body);
    reply->owned = false;
    reply->body = NULL;
    reply->len = 0;
}

static struct MHD_Response *open_stream(struct tn_http_server *s, struct MHD_Connection *connection,
                                        struct tn_http_reply *reply)
{
    struct MHD_Response *response = NULL;
    char *head = malloc(reply->len + 1);

    if (head) {
        memcpy(head, reply->body, reply->len);
        response = tn_stream_response(&s->channels[reply->channel], connection, head, reply->len,
                                      reply->each ? &reply->from : NULL);
    }
    if (!response)
        free(head);
    drop_body(reply);
    return response;
}

/* The answer as the library wants it.  Takes reply->body over if it is owned. */
static struct MHD_Response *response_of(struct tn_http_server *s, struct MHD_Connection *connection,
                                        struct tn_http_reply *reply)
{
    struct MHD_Response *response;

    if (reply->stream && !room_for_one(s)) {
        drop_body(reply);
        reply->stream = false;
        fixed(reply, 503, "{\"error\":\"busy\",\"detail\":\"too many open streams\"}\n");
    }
    if (reply->stream && reply->channel < TN_HTTP_CHANNELS) {
        response = open_stream(s, connection, reply);
    } else {
        response = MHD_create_response_from_buffer(
            reply->len, reply->body, reply->owned ? MHD_RESPMEM_MUST_FREE : MHD_RESPMEM_PERSISTENT);
        if (!response)
            drop_body(reply);
    }
    if (!response)
        return NULL;
    if (reply->type)
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, reply->type);
    for (size_t i = 0; i < sizeof reply->headers / sizeof reply->headers[0]; i++) {
        if (reply->headers[i].name)
            MHD_add_response_header(response, reply->headers[i].name, reply->headers[i].value);
    }
    return response;
}

static enum MHD_Result send_reply(struct tn_http_server *s, struct tn_exchange *x,
                                  struct tn_http_reply *reply)
{
    struct MHD_Response *response = response_of(s, x->connection, reply);

    if (!response)
        return MHD_NO;
    enum MHD_Result result = MHD_queue_response(x->connection, reply->status, response);
    MHD_destroy_response(response);
    return result;
}

/* ---- Parking ------------------------------------------------------------- */

/* false: somebody called since the handler was asked; ask it again. */
static bool park(struct tn_http_server *s, struct tn_exchange *x, uint64_t wakes)
{
    bool done = false;

    pthread_mutex_lock(&s->lock);
    if (wakes == atomic_load(&s->wakes)) {
        x->next = s->parked;
        x->prev = NULL;
        if (x->next)
            x->next->prev = x;
        s->parked = x;
        s->n_parked++;
        x->parked = x->kept = done = true;
        MHD_suspend_connection(x->connection);
    }
    pthread_mutex_unlock(&s->lock);
    return done;
}

static void unlink_parked(struct tn_http_server *s, struct tn_exchange *x)
{
    if (x->prev)
        x->prev->next = x->next;
    else
        s->parked = x->next;
    if (x->next)
        x->next->prev = x->prev;
    x->prev = x->next = NULL;
    x->parked = false;
    s->n_parked--;
}

void tn_exchange_wake(struct tn_http_server *s, bool closing)
{
    pthread_mutex_lock(&s->lock);
    if (closing)
        atomic_store(&s->closing, true);
    atomic_fetch_add(&s->wakes, 1);
    while (s->parked) {
        struct tn_exchange *x = s->parked;

        unlink_parked(s, x);
        MHD_resume_connection(x->connection);
    }
    pthread_mutex_unlock(&s->lock);
}

static enum MHD_Result answer(struct tn_http_server *s, struct tn_exchange *x, const char *url,
                              const char *method)
{
    struct tn_http_request request = request_of(s, x, url, method);
    struct tn_http_reply reply;

    for (;;) {
        reply = (struct tn_http_reply){.status = 500, .type = "application/json"};
        uint64_t wakes = atomic_load(&s->wakes);
        request.full = !x->kept && !room_for_one(s);
        if (atomic_load(&s->closing))
            return MHD_NO;
        if (x->too_long)
            fixed(&reply, 413, "{\"error\":\"too-long\",\"detail\":\"the body is too long\"}\n");
        else if (x->too_many)
            fixed(&reply, 503, "{\"error\":\"busy\",\"detail\":\"too much is being sent\"}\n");
        else
            s->options.handler(s->options.arg, &request, &reply);
        if (reply.park && request.full) {
            reply.park = false;
            fixed(&reply, 503, "{\"error\":\"busy\",\"detail\":\"too many requests wait\"}\n");
        }
        if (!reply.park)
            return send_reply(s, x, &reply);
        if (park(s, x, wakes))
            return MHD_YES;
    }
}

/* ---- Bodies -------------------------------------------------------------- */

static void grow(struct tn_http_server *s, struct tn_exchange *x, const char *data, size_t n)
{
    if (x->too_long || x->too_many || n > s->options.body_max - x->len) {
        x->too_long = !x->too_many;
        return;
    }
    if (x->len + n + 1 > x->cap) {
        size_t cap = 2 * (x->len + n + 1);
        unsigned char *grown =
            s->bodies + cap - x->cap > s->options.bodies_max ? NULL : realloc(x->body, cap);

        if (!grown) {
            x->too_many = true;
            return;
        }
        s->bodies += cap - x->cap;
        x->body = grown;
        x->cap = cap;
    }
    memcpy(x->body + x->len, data, n);
    x->len += n;
    x->body[x->len] = '\0';
}

/* By its own word; who does not say how long it is finds out while sending. */
static bool says_too_long(const struct tn_http_server *s, struct MHD_Connection *connection)
{
    const char *text =
        MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH);

    return text && strtoull(text, NULL, 10) > s->options.body_max;
}

/* ---- What the library calls ---------------------------------------------- */

/* The headers are there.  A refusal is answered before any body. */
static enum MHD_Result begin(struct tn_http_server *s, struct tn_exchange *x, const char *url,
                             const char *method, const char *version)
{
    struct tn_http_request request = request_of(s, x, url, method);
    struct tn_http_reply reply = {.status = 500, .type = "application/json"};

    atomic_fetch_add_explicit(&s->requests, 1, memory_order_relaxed);
    if (!tn_framing_is_clear(x->connection, method, version)) {
        fixed(&reply, 400,
              "{\"error\":\"invalid\",\"detail\":\"ambiguous message length (Content-Length and "
              "Transfer-Encoding)\"}\n");
        return send_reply(s, x, &reply);
    }
    if (s->options.tls_client_ca && !tn_connection_certified(s, x->connection)) {
        fixed(&reply, 403, "{\"error\":\"certificate\",\"detail\":\"show a certificate\"}\n");
        return send_reply(s, x, &reply);
    }
    if (s->options.admit && !s->options.admit(s->options.arg, &request, &reply))
        return send_reply(s, x, &reply);
    x->admitted = true;
    /* Read, not kept, and told at the end: who is still sending would not hear it. */
    x->too_long = says_too_long(s, x->connection);
    return MHD_YES;
}

enum MHD_Result tn_exchange_step(void *server, struct MHD_Connection *connection, const char *url,
                                 const char *method, const char *version, const char *data,
                                 size_t *size, void **context)
{
    struct tn_http_server *s = server;
    struct tn_exchange *x = *context;

    if (!x) {
        *context = x = calloc(1, sizeof *x);
        if (!x)
            return MHD_NO;
        x->connection = connection;
        return begin(s, x, url, method, version);
    }
    if (*size) {
        grow(s, x, data, *size);
        *size = 0;
        return MHD_YES;
    }
    tn_connection_sent(connection);
    return answer(s, x, url, method);
}

void tn_exchange_end(void *server, struct MHD_Connection *connection, void **context,
                     enum MHD_RequestTerminationCode code)
{
    struct tn_http_server *s = server;
    struct tn_exchange *x = *context;

    (void)code;
    *context = NULL;
    tn_connection_waits(connection);
    if (!x)
        return;
    assert(!x->parked); /* what is suspended does not end */
    if (x->admitted && s->options.done)
        s->options.done(s->options.arg, &x->memo);
    s->bodies -= x->cap;
    free(x->body);
    free(x);
}
