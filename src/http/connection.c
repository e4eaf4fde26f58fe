/* Connections: since when each has kept us waiting, and what its TLS peer has shown. */
#include <gnutls/gnutls.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "http/certificate.h"
#include "http/server.h"
#include "tenure/store.h"

static struct tn_connection *connection_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

    return info ? info->socket_context : NULL;
}

static void enter(struct tn_http_server *s, struct MHD_Connection *connection, void **context)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct tn_connection *c = calloc(1, sizeof *c);

    if (!c)
        return; /* then the library's own limit of idle time is the only one for it */
    c->fd = info ? info->connect_fd : -1;
    c->id = s->options.enter ? s->options.enter(s->options.arg) : 0;
    c->waits_since_ns = tenure_now();
    pthread_mutex_lock(&s->lock);
    c->next = s->connections;
    if (c->next)
        c->next->prev = c;
    s->connections = c;
    s->n_connections++;
    pthread_mutex_unlock(&s->lock);
    *context = c;
}

/* Before the descriptor is closed, and may become somebody else's. */
static void leave(struct tn_http_server *s, void **context)
{
    struct tn_connection *c = *context;

    if (!c)
        return;
    pthread_mutex_lock(&s->lock);
    if (c->prev)
        c->prev->next = c->next;
    else
        s->connections = c->next;
    if (c->next)
        c->next->prev = c->prev;
    s->n_connections--;
    pthread_mutex_unlock(&s->lock);
    free(c);
    *context = NULL;
}

void tn_connection_notify(void *server, struct MHD_Connection *connection, void **context,
                          enum MHD_ConnectionNotificationCode code)
{
    tn_certificate_here(server);
    if (code == MHD_CONNECTION_NOTIFY_STARTED)
        enter(server, connection, context);
    else
        leave(server, context);
}

void tn_connection_sent(struct MHD_Connection *connection)
{
    struct tn_connection *c = connection_of(connection);

    if (c)
        atomic_store_explicit(&c->waits_since_ns, 0, memory_order_relaxed);
}

void tn_connection_waits(struct MHD_Connection *connection)
{
    struct tn_connection *c = connection_of(connection);

    if (c)
        atomic_store_explicit(&c->waits_since_ns, tenure_now(), memory_order_relaxed);
}

uint64_t tn_connection_number(struct MHD_Connection *connection)
{
    const struct tn_connection *c = connection_of(connection);

    return c ? c->id : 0;
}

/* A byte now and then keeps the library's limit of idle time away for ever; this
 * one counts from the beginning.  The library sees a closed socket, and ends it. */
void tn_connection_sweep(struct tn_http_server *s, int64_t longer_than_ns)
{
    int64_t before = tenure_now() - longer_than_ns;

    pthread_mutex_lock(&s->lock);
    for (struct tn_connection *c = s->connections; c; c = c->next) {
        int64_t since = atomic_load_explicit(&c->waits_since_ns, memory_order_relaxed);

        if (since != 0 && since < before && c->fd >= 0)
            shutdown(c->fd, SHUT_RDWR);
    }
    pthread_mutex_unlock(&s->lock);
}

bool tn_connection_certified(const struct tn_http_server *s, struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);

    return info && info->tls_session && tn_certificate_trusts(s, info->tls_session);
}
