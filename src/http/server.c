/*
 * The HTTP server as a module over libmicrohttpd: one epoll thread, bounded
 * bodies, bounded connections, no knowledge of leases.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "http/certificate.h"
#include "http/server.h"

/* A connection's buffers; 1,000 open streams must stay small. */
#define CONNECTION_MEMORY (12 * 1024)

/* Who neither sends nor reads for so long is hung up on.  Streams that wait for
 * their next message are suspended, and their time stands still. */
#define IDLE_S         30u
#define BODIES_MAX     (8u << 20)
#define CONNECTIONS    2048u
#define RESERVED_FILES 96u

/* ---- Life ---------------------------------------------------------------- */

/* The store needs descriptors too, and so do the other servers of this process: or connections
 * could cost leadership. */
static unsigned connection_limit(unsigned wish, unsigned percent)
{
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur == RLIM_INFINITY)
        return wish;
    rlim_t most = files.rlim_cur - files.rlim_cur / 8;
    most = most > RESERVED_FILES + RESERVED_FILES / 8 ? most - RESERVED_FILES : most / 8;
    most = most * (percent ? percent : 100) / 100;
    most = most > 1 ? most : 1;
    return most < wish ? (unsigned)most : wish;
}

static void stop(struct tn_http_server *s)
{
    if (!s)
        return;
    tn_exchange_wake(s, true);
    for (int i = 0; i < TN_HTTP_CHANNELS; i++)
        tn_channel_close(&s->channels[i]);
    if (s->daemon)
        MHD_stop_daemon(s->daemon); /* closes the listening socket */
    for (int i = 0; i < TN_HTTP_CHANNELS; i++)
        tn_channel_free(&s->channels[i]);
    tn_listen_remove(&s->listener);
    tn_certificate_free(s);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

/* The library takes texts that it does not change as void *. */
static void *pem(const char *text)
{
    void *p;

    memcpy(&p, &text, sizeof p);
    return p;
}

/* And functions too. */
static void *retrieve(void)
{
    gnutls_certificate_retrieve_function3 *function = tn_certificate_retrieve;
    void *p;

    memcpy(&p, &function, sizeof p);
    return p;
}

/* "%00" would end a path early, and name something else: such a path names nothing. */
static size_t unescape(void *arg, struct MHD_Connection *connection, char *text)
{
    (void)arg;
    (void)connection;
    if (strstr(text, "%00"))
        text[0] = '\0';
    return MHD_http_unescape(text);
}

/* TLS 1.2 and 1.3; the library's choice of ciphers within them. */
#define TLS_PRIORITIES "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2:%SERVER_PRECEDENCE"

static struct MHD_Daemon *start_daemon(struct tn_http_server *s, unsigned connections)
{
    const struct tn_http_options *o = &s->options;
    unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ITC;
    struct MHD_OptionItem more[8];
    int n = 0;

    more[n++] = (struct MHD_OptionItem){MHD_OPTION_LISTEN_SOCKET, s->listener.fd, NULL};
    if (o->tls_cert) {
        flags |= MHD_USE_TLS;
        more[n++] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_CERT_CALLBACK2, 0, retrieve()};
        more[n++] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_PRIORITIES, 0, pem(TLS_PRIORITIES)};
        if (o->tls_client_ca)
            more[n++] =
                (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_TRUST, 0, pem(o->tls_client_ca)};
    }
    more[n] = (struct MHD_OptionItem){MHD_OPTION_END, 0, NULL};
    return MHD_start_daemon(flags, 0, NULL, NULL, tn_exchange_step, s, MHD_OPTION_NOTIFY_COMPLETED,
                            tn_exchange_end, s, MHD_OPTION_NOTIFY_CONNECTION, tn_connection_notify,
                            s, MHD_OPTION_CONNECTION_LIMIT, connections,
                            MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_MEMORY,
                            MHD_OPTION_CONNECTION_TIMEOUT, IDLE_S, MHD_OPTION_UNESCAPE_CALLBACK,
                            unescape, NULL, MHD_OPTION_ARRAY, more, MHD_OPTION_END);
}

static enum tenure_status start(const struct tn_http_options *options,
                                struct tn_http_server **server, struct tenure_error *err)
{
    struct tn_http_server *s = calloc(1, sizeof *s);
    unsigned connections = connection_limit(
        options->connections_max ? options->connections_max : CONNECTIONS, options->share);
    sigset_t all, before;
    enum tenure_status status;

    if (!s)
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    s->options = *options;
    if (!s->options.body_max)
        s->options.body_max = (1u << 20) + 4096;
    if (!s->options.bodies_max)
        s->options.bodies_max = BODIES_MAX;
    s->open_max = connections - connections / 4;
    status = TENURE_OK;
    if (options->tls_cert && MHD_is_feature_supported(MHD_FEATURE_HTTPS_CERT_CALLBACK2) != MHD_YES)
        status = tenure_fail(err, TENURE_UNSUPPORTED, "this libmicrohttpd was built without TLS");
    else if (options->tls_cert)
        status = tn_certificate_set(s, options->tls_cert, options->tls_key, err);
    if (!status && options->tls_client_ca)
        status = tn_certificate_trust(s, options->tls_client_ca, err);
    if (!status)
        status = tn_listen(options->listen, &s->listener, err);
    if (status) {
        tn_certificate_free(s);
        free(s);
        return status;
    }
    pthread_mutex_init(&s->lock, NULL);
    for (int i = 0; i < TN_HTTP_CHANNELS; i++)
        s->channels[i].lock = &s->lock;
    /* Its thread inherits the mask: signals are the program's. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    s->daemon = start_daemon(s, connections);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!s->daemon) {
        close(s->listener.fd);
        stop(s);
        return tenure_fail(err, options->tls_client_ca ? TENURE_CONFIG : TENURE_UNAVAILABLE,
                           "cannot start the HTTP server on %s%s", options->listen,
                           options->tls_client_ca ? ": is the clients' authority in PEM?" : "");
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

static void wake(struct tn_http_server *s)
{
    tn_exchange_wake(s, false);
}

static void count(struct tn_http_server *s, struct tn_http_counts *l)
{
    *l = (struct tn_http_counts){.requests = atomic_load(&s->requests)};
    pthread_mutex_lock(&s->lock);
    l->connections = s->n_connections;
    l->parked = s->n_parked;
    for (int i = 0; i < TN_HTTP_CHANNELS; i++)
        l->streams += s->channels[i].n_streams;
    pthread_mutex_unlock(&s->lock);
}

__attribute__((visibility("default"))) extern const struct tn_http_ops tenure_http_module;

const struct tn_http_ops tenure_http_module = {
    .abi = TN_HTTP_ABI,
    .start = start,
    .stop = stop,
    .port = port,
    .publish = publish,
    .wake = wake,
    .sweep = tn_connection_sweep,
    .count = count,
    .certificate = tn_certificate_set,
    .trust = tn_certificate_trust,
};
