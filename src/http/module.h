/*
 * http/module.h - an HTTP server, loaded only when somebody listens.
 *
 * The server (src/http/, a module over libmicrohttpd) knows nothing of leases:
 * it takes requests apart, asks one handler, and sends what it says.  Handlers
 * run on the server's thread and must not block for long.
 */
#ifndef TN_HTTP_MODULE_H
#define TN_HTTP_MODULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tenure/status.h"

#define TN_HTTP_ABI      12
#define TN_HTTP_CHANNELS 8
#define TN_PEER_MAX      96 /* bytes of what peer() says, with its NUL */

/* Per cent of the descriptors for connections that the program's own socket has. */
#define TN_HTTP_STATE_SHARE 25

/* The handler's own, a request long: zero at first, kept while it is parked. */
struct tn_http_memo {
    const void *route;
    void *subject;
    void *job;
    int64_t until_ns;
    int64_t fresh_by_ns; /* it is answered by then, with what there is */
    uint64_t ping;       /* what was asked for it; 0: nothing */
    bool parked;         /* at least once */
};

struct tn_http_request {
    const char *method; /* "GET" */
    const char *path;   /* decoded, without the query; starts with '/' */
    const unsigned char *body;
    size_t body_len;
    bool local;             /* came over the Unix socket, from our own user or root */
    bool socket;            /* came over the Unix socket, from whomever */
    bool full;              /* parked, it is answered 503: nothing must be begun for it */
    uint64_t connection_id; /* what enter() said of its connection; 0: unknown */
    struct tn_http_memo *memo;
    /* Look up a header or a query parameter; NULL if it is not there. */
    const char *(*header)(const struct tn_http_request *request, const char *name);
    const char *(*query)(const struct tn_http_request *request, const char *name);
    /* Every query parameter, until each() says false. */
    void (*queries)(const struct tn_http_request *request,
                    bool (*each)(void *arg, const char *name, const char *value), void *arg);
    /* Who asks, for people: "192.0.2.7:50412", "uid 1000, pid 4711". */
    void (*peer)(const struct tn_http_request *request, char *out, size_t size);
    void *inner; /* the server's */
};

struct tn_http_reply {
    unsigned status;  /* 200 ... */
    const char *type; /* content type; a string that lives on */
    void *body;       /* sent as it is */
    size_t len;
    bool owned; /* body is malloc'ed and the server frees it; else it lives on */
    struct {
        const char *name, *value; /* value is copied */
    } headers[8];
    bool stream;      /* keep the answer open: publish() on this channel goes there */
    unsigned channel; /* below TN_HTTP_CHANNELS */
    /* The messages are steps, not states: the stream gets each one from number `from` on (so many
     * had been published when the body was made), and is ended if it falls too far behind. */
    bool each;
    uint64_t from;
    bool park; /* no answer yet: ask the handler again after the next wake() */
};

typedef void (*tn_http_handler)(void *arg, const struct tn_http_request *request,
                                struct tn_http_reply *reply);

struct tn_http_server;

struct tn_http_options {
    const char *listen; /* "127.0.0.1:8080", "[::1]:0", "unix:/path" */
    tn_http_handler handler;
    /* OPTIONAL: asked when the headers are there, before a byte of a body is kept.
     * false: what it put into reply is the answer. */
    bool (*admit)(void *arg, const struct tn_http_request *request, struct tn_http_reply *reply);
    /* OPTIONAL: a request that was admitted is over, answered or not. */
    void (*done)(void *arg, struct tn_http_memo *memo);
    /* OPTIONAL: a connection was accepted; its requests carry this number.  Not 0.  On the server's
     * thread. */
    uint64_t (*enter)(void *arg);
    void *arg;
    size_t body_max;          /* longer bodies are answered 413; 0: 1 MiB + 4 KiB */
    size_t bodies_max;        /* of all requests together; 0: 8 MiB */
    unsigned connections_max; /* 0: 2048; streams and parked requests take three quarters */
    unsigned share; /* of the descriptors that connections may take, in per cent; 0: all of them */
    uint32_t user;  /* Unix: also counts as our own; 0: nobody else does */
    const char *tls_cert, *tls_key; /* PEM texts; NULL: no TLS */
    const char *tls_client_ca;      /* PEM text: who shows no certificate of it is refused */
    /* OPTIONAL: a client is about to be shown the certificate; replace it now, or never mind.  On
     * the server's thread. */
    void (*tls_due)(void *arg, struct tn_http_server *server);
};

struct tn_http_counts {
    unsigned connections, streams, parked;
    uint64_t requests; /* so far */
};

/* What the module exports as tenure_http_module. */
struct tn_http_ops {
    uint32_t abi;
    /* CONFIG for an address that cannot be read, UNAVAILABLE if it is taken. */
    enum tenure_status (*start)(const struct tn_http_options *options,
                                struct tn_http_server **server, struct tenure_error *err);
    void (*stop)(struct tn_http_server *server); /* accepts NULL */
    /* The TCP port in use; 0 for a Unix socket. */
    uint16_t (*port)(const struct tn_http_server *server);
    /* Send text to every open stream of a channel.  Never blocks; a stream that
     * falls behind by more than the last few hundred messages skips them. */
    void (*publish)(struct tn_http_server *server, unsigned channel, const char *text, size_t len);
    /* Ask the handler again about every parked request.  Never blocks. */
    void (*wake)(struct tn_http_server *server);
    /* Hang up on who has been sending a request, or nothing, for longer than that. */
    void (*sweep)(struct tn_http_server *server, int64_t longer_than_ns);
    void (*count)(struct tn_http_server *server, struct tn_http_counts *counts);
    /* Show that one from the next handshake on; PEM texts, copied.  From tls_due() only.  CONFIG if
     * they are no pair; then the former one stays. */
    enum tenure_status (*certificate)(struct tn_http_server *server, const char *cert,
                                      const char *key, struct tenure_error *err);
    /* Trust clients of that authority, and no other, from the next request on.  Likewise. */
    enum tenure_status (*trust)(struct tn_http_server *server, const char *authority,
                                struct tenure_error *err);
};

/* Load the module.  UNSUPPORTED with what to install if it is not there. */
enum tenure_status tn_http_load(const struct tn_http_ops **ops, struct tenure_error *err);

#endif
