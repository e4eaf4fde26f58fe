/* Connections: since when each has kept us waiting, and what its TLS peer has shown. */
#include <gnutls/gnutls.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "http/certificate.h"
#include "http/server.h"
#include "tenure/store.h"

static struct tn_visitor *visitor_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

    return info ? info->socket_context : NULL;
}

static void enter(struct tn_http_server *s, struct MHD_Connection *connection, void **context)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct tn_visitor *v = calloc(1, sizeof *v);

    if (!v)
        return; /* then the library's own limit of idle time is the only one for him */
    v->fd = info ? info->connect_fd : -1;
    v->visit = s->options.enter ? s->options.enter(s->options.arg) : 0;
    v->waits_since_ns = tenure_now();
    pthread_mutex_lock(&s->lock);
    v->next = s->visitors;
    if (v->next)
        v->next->prev = v;
    s->visitors = v;
    s->n_visitors++;
    pthread_mutex_unlock(&s->lock);
    *context = v;
}

/* Before the descriptor is closed, and may become somebody else's. */
static void leave(struct tn_http_server *s, void **context)
{
    struct tn_visitor *v = *context;

    if (!v)
        return;
    pthread_mutex_lock(&s->lock);
    if (v->prev)
        v->prev->next = v->next;
    else
        s->visitors = v->next;
    if (v->next)
        v->next->prev = v->prev;
    s->n_visitors--;
    pthread_mutex_unlock(&s->lock);
    free(v);
    *context = NULL;
}

void tn_visitor_notify(void *server, struct MHD_Connection *connection, void **context,
                       enum MHD_ConnectionNotificationCode code)
{
    tn_certificate_here(server);
    if (code == MHD_CONNECTION_NOTIFY_STARTED)
        enter(server, connection, context);
    else
        leave(server, context);
}

void tn_visitor_sent(struct MHD_Connection *connection)
{
    struct tn_visitor *v = visitor_of(connection);

    if (v)
        atomic_store_explicit(&v->waits_since_ns, 0, memory_order_relaxed);
}

void tn_visitor_waits(struct MHD_Connection *connection)
{
    struct tn_visitor *v = visitor_of(connection);

    if (v)
        atomic_store_explicit(&v->waits_since_ns, tenure_now(), memory_order_relaxed);
}

uint64_t tn_visitor_number(struct MHD_Connection *connection)
{
    const struct tn_visitor *v = visitor_of(connection);

    return v ? v->visit : 0;
}

/* A byte now and then keeps the library's limit of idle time away for ever; this
 * one counts from the beginning.  The library sees a closed socket, and ends it. */
void tn_visitor_sweep(struct tn_http_server *s, int64_t longer_than_ns)
{
    int64_t before = tenure_now() - longer_than_ns;

    pthread_mutex_lock(&s->lock);
    for (struct tn_visitor *v = s->visitors; v; v = v->next) {
        int64_t since = atomic_load_explicit(&v->waits_since_ns, memory_order_relaxed);

        if (since != 0 && since < before && v->fd >= 0)
            shutdown(v->fd, SHUT_RDWR);
    }
    pthread_mutex_unlock(&s->lock);
}

bool tn_visitor_certified(const struct tn_http_server *s, struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);

    return info && info->tls_session && tn_certificate_trusts(s, info->tls_session);
}
