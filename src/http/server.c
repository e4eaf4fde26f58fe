/*
 * The HTTP server as a module over libmicrohttpd: one epoll thread, bounded
 * bodies, bounded connections, no knowledge of leases.
 */
#include <microhttpd.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "agent/http.h"
#include "http/listen.h"
#include "http/stream.h"

/* A connection's buffers; 1,000 open streams must stay small. */
#define CONNECTION_MEMORY (12 * 1024)

/* Who neither sends nor reads for so long is hung up on.  Streams that wait for
 * their next message are suspended, and their time stands still. */
#define IDLE_S         30u
#define RESERVED_FILES 32u

struct tn_http_server {
    struct tn_http_options options;
    struct tn_listener listener;
    struct MHD_Daemon *daemon;
    pthread_mutex_t lock; /* of the channels */
    struct tn_channel channels[TN_HTTP_CHANNELS];
};

/* One request while its body arrives. */
struct upload {
    unsigned char *body;
    size_t len, cap;
    bool too_long;
};

/* ---- Asking the handler -------------------------------------------------- */

static const char *header(const struct tn_http_request *r, const char *name)
{
    return MHD_lookup_connection_value(r->inner, MHD_HEADER_KIND, name);
}

static const char *query(const struct tn_http_request *r, const char *name)
{
    return MHD_lookup_connection_value(r->inner, MHD_GET_ARGUMENT_KIND, name);
}

static bool from_ours(const struct tn_http_server *s, struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);

    return s->listener.local && info && tn_listen_peer_is_ours(info->connect_fd, s->options.user);
}

/* The answer as the library wants it.  Takes reply->body over if it is owned. */
static struct MHD_Response *response_of(struct tn_http_server *s, struct MHD_Connection *connection,
                                        struct tn_http_reply *reply)
{
    struct MHD_Response *response;

    if (reply->stream && reply->channel < TN_HTTP_CHANNELS) {
        char *head = malloc(reply->len + 1);

        if (head)
            memcpy(head, reply->body, reply->len);
        response =
            head ? tn_stream_response(&s->channels[reply->channel], connection, head, reply->len)
                 : NULL;
        if (!response)
            free(head);
        if (reply->owned)
            free(reply->body);
    } else {
        response = MHD_create_response_from_buffer(
            reply->len, reply->body, reply->owned ? MHD_RESPMEM_MUST_FREE : MHD_RESPMEM_PERSISTENT);
        if (!response && reply->owned)
            free(reply->body);
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

static enum MHD_Result answer(struct tn_http_server *s, struct MHD_Connection *connection,
                              const char *url, const char *method, const struct upload *upload)
{
    static char too_long[] = "{\"error\":\"the body is too long\"}\n";
    struct tn_http_request request = {.method = method,
                                      .path = url,
                                      .body = upload ? upload->body : NULL,
                                      .body_len = upload ? upload->len : 0,
                                      .local = from_ours(s, connection),
                                      .header = header,
                                      .query = query,
                                      .inner = connection};
    struct tn_http_reply reply = {.status = 500, .type = "application/json"};

    if (upload && upload->too_long) {
        reply.status = MHD_HTTP_CONTENT_TOO_LARGE;
        reply.body = too_long;
        reply.len = sizeof too_long - 1;
    } else {
        s->options.handler(s->options.arg, &request, &reply);
    }
    struct MHD_Response *response = response_of(s, connection, &reply);
    if (!response)
        return MHD_NO;
    enum MHD_Result result = MHD_queue_response(connection, reply.status, response);
    MHD_destroy_response(response);
    return result;
}

/* ---- What the library calls ---------------------------------------------- */

static void grow(struct upload *u, const char *data, size_t n, size_t most)
{
    if (u->too_long || n > most - u->len) {
        u->too_long = true;
        return;
    }
    if (u->len + n + 1 > u->cap) {
        size_t cap = 2 * (u->len + n + 1);
        unsigned char *grown = realloc(u->body, cap);

        if (!grown) {
            u->too_long = true;
            return;
        }
        u->body = grown;
        u->cap = cap;
    }
    memcpy(u->body + u->len, data, n);
    u->len += n;
    u->body[u->len] = '\0';
}

static enum MHD_Result on_request(void *cls, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *data,
                                  size_t *size, void **context)
{
    struct tn_http_server *s = cls;
    struct upload *u = *context;

    (void)version;
    if (!u) {
        *context = calloc(1, sizeof *u);
        return *context ? MHD_YES : MHD_NO;
    }
    if (*size) {
        grow(u, data, *size, s->options.body_max);
        *size = 0;
        return MHD_YES;
    }
    return answer(s, connection, url, method, u);
}

static void on_end(void *cls, struct MHD_Connection *connection, void **context,
                   enum MHD_RequestTerminationCode code)
{
    struct upload *u = *context;

    (void)cls;
    (void)connection;
    (void)code;
    if (u)
        free(u->body);
    free(u);
    *context = NULL;
}

/* ---- Life ---------------------------------------------------------------- */

/* The store needs descriptors too, or visitors could cost leadership. */
static unsigned connection_limit(unsigned wish)
{
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur == RLIM_INFINITY)
        return wish;
    rlim_t most = files.rlim_cur - files.rlim_cur / 8;
    most = most > 2 * RESERVED_FILES ? most - RESERVED_FILES : most / 2;
    return most < wish ? (unsigned)most : wish;
}

static void stop(struct tn_http_server *s)
{
    if (!s)
        return;
    for (int i = 0; i < TN_HTTP_CHANNELS; i++)
        tn_channel_close(&s->channels[i]);
    if (s->daemon)
        MHD_stop_daemon(s->daemon); /* closes the listening socket */
    for (int i = 0; i < TN_HTTP_CHANNELS; i++)
        tn_channel_free(&s->channels[i]);
    if (s->listener.local)
        unlink(s->listener.path);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

static enum tenure_status start(const struct tn_http_options *options,
                                struct tn_http_server **server, struct tenure_error *err)
{
    struct tn_http_server *s = calloc(1, sizeof *s);
    sigset_t all, before;
    enum tenure_status status;

    if (!s)
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    s->options = *options;
    if (!s->options.body_max)
        s->options.body_max = (1u << 20) + 4096;
    status = tn_listen(options->listen, &s->listener, err);
    if (status) {
        free(s);
        return status;
    }
    pthread_mutex_init(&s->lock, NULL);
    for (int i = 0; i < TN_HTTP_CHANNELS; i++)
        s->channels[i].lock = &s->lock;
    /* Its thread inherits the mask: signals are the program's. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    s->daemon = MHD_start_daemon(
        MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ITC, 0, NULL, NULL,
        on_request, s, MHD_OPTION_LISTEN_SOCKET, (MHD_socket)s->listener.fd,
        MHD_OPTION_NOTIFY_COMPLETED, on_end, NULL, MHD_OPTION_CONNECTION_LIMIT,
        connection_limit(options->connections_max ? options->connections_max : 2048u),
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_MEMORY,
        MHD_OPTION_CONNECTION_TIMEOUT, IDLE_S, MHD_OPTION_END);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!s->daemon) {
        close(s->listener.fd);
        stop(s);
        return tenure_fail(err, TENURE_UNAVAILABLE, "cannot start the HTTP server on %s",
                           options->listen);
    }
    *server = s;
    return TENURE_OK;
}

static uint16_t port(const struct tn_http_server *s)
{
    return s->listener.port;
}

static void publish(struct tn_http_server *s, unsigned channel, const char *text, size_t len)
{
    if (channel < TN_HTTP_CHANNELS)
        tn_channel_publish(&s->channels[channel], text, len);
}

static unsigned streams(struct tn_http_server *s, unsigned channel)
{
    unsigned n = 0;

    pthread_mutex_lock(&s->lock);
    if (channel < TN_HTTP_CHANNELS)
        n = s->channels[channel].n_streams;
    pthread_mutex_unlock(&s->lock);
    return n;
}

__attribute__((visibility("default"))) extern const struct tn_http_ops tenure_http_module;

const struct tn_http_ops tenure_http_module = {
    .abi = TN_HTTP_ABI,
    .start = start,
    .stop = stop,
    .port = port,
    .publish = publish,
    .streams = streams,
};
