/* http/server.h - the server's state; server.c, exchange.c and connection.c share it. */
#ifndef TN_HTTP_SERVER_H
#define TN_HTTP_SERVER_H

#include <gnutls/x509.h>
#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>

#include "http/listen.h"
#include "http/module.h"
#include "http/stream.h"

/* One request, from its headers to its end.  Of the server's thread, but for
 * the list of those that are parked. */
struct tn_exchange {
    struct tn_exchange *prev, *next;
    struct MHD_Connection *connection;
    struct tn_http_memo memo;
    unsigned char *body;
    size_t len, cap;
    bool admitted, too_long, too_many;
    bool parked, kept; /* kept: it was parked before, and has its place */
};

/* One connection. */
struct tn_connection {
    struct tn_connection *prev, *next;
    int fd;
    uint64_t id;                    /* the handler's number */
    _Atomic int64_t waits_since_ns; /* for a whole request of its; 0: it is our turn */
};

struct tn_http_server {
    struct tn_http_options options;
    struct tn_listener listener;
    struct MHD_Daemon *daemon;
    char *authority; /* PEM: clients must show a certificate of it; NULL: need not */
    gnutls_x509_trust_list_t trusted; /* the same */
    char *cert, *key;                 /* PEM, in force: certificate.c; of the server's thread */
    unsigned open_max;                /* streams and parked requests */
    size_t bodies;                    /* bytes kept; of the server's thread */
    _Atomic uint64_t requests;
    _Atomic uint64_t wakes; /* rises under the lock */
    _Atomic bool closing;

    pthread_mutex_t lock; /* of everything below */
    struct tn_channel channels[TN_HTTP_CHANNELS];
    struct tn_exchange *parked;
    unsigned n_parked;
    struct tn_connection *connections;
    unsigned n_connections;
};

/* exchange.c: what the library calls. */
enum MHD_Result tn_exchange_step(void *server, struct MHD_Connection *connection, const char *url,
                                 const char *method, const char *version, const char *data,
                                 size_t *size, void **context);
void tn_exchange_end(void *server, struct MHD_Connection *connection, void **context,
                     enum MHD_RequestTerminationCode code);
/* Resume what is parked. */
void tn_exchange_wake(struct tn_http_server *s, bool closing);

/* framing.c: can its head be read in one way only?  With what the library handed over. */
bool tn_framing_is_clear(struct MHD_Connection *connection, const char *method,
                         const char *version);

/* connection.c */
void tn_connection_notify(void *server, struct MHD_Connection *connection, void **context,
                          enum MHD_ConnectionNotificationCode code);
/* Its request is here; it is to send the next one. */
void tn_connection_sent(struct MHD_Connection *connection);
void tn_connection_waits(struct MHD_Connection *connection);
uint64_t tn_connection_number(struct MHD_Connection *connection);
void tn_connection_sweep(struct tn_http_server *s, int64_t longer_than_ns);
/* Has its peer shown a certificate that our CA signed? */
bool tn_connection_certified(const struct tn_http_server *s, struct MHD_Connection *connection);

#endif
