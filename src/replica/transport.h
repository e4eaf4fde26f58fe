/*
 * replica/transport.h - the links between the nodes of a replicated state.
 *
 * A transport listens (if configured to), connects to each target, and connects again, with
 * back-off, for as long as it is open.  What it carries is messages of bytes, whole and in order;
 * what they mean is replica/message.h.  A peer is ONE connection: when that ends, closed() says so,
 * and whatever comes afterwards is another peer.
 *
 * Messages are at most TN_MESSAGE_MAX bytes.  Both ends may send at any time.  Nothing is promised
 * about delivery: a message that was sent may be lost with its connection.
 *
 * Threads: the events of one transport are called by its own thread, one at a time, and must not
 * block.  tn_peer_send() and tn_peer_close() may be called by any thread, also from an event, and
 * for a peer whose closed() has not returned yet.
 */
#ifndef TN_REPLICA_TRANSPORT_H
#define TN_REPLICA_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tenure/status.h"

#define TN_MESSAGE_MAX       ((1u << 20) + (64u << 10)) /* one document, and the head */
#define TN_PEER_QUEUE_MAX    (4u << 20)                 /* bytes that wait to be sent to one peer */
#define TN_PEER_NODE_SIZE    256 /* as the ids of nodes: 255 bytes and a NUL */
#define TN_PEER_ADDRESS_SIZE 300 /* HOST:PORT, for people */

struct tn_peer;

/* What the handshake told of the other end. */
struct tn_peer_identity {
    char node[TN_PEER_NODE_SIZE];
    char address[TN_PEER_ADDRESS_SIZE];
    bool outbound; /* this end connected */
};

struct tn_transport_events {
    /* The connection is authenticated, and of the same election. */
    void (*opened)(void *ctx, struct tn_peer *peer, const struct tn_peer_identity *who);
    /* One whole message; the bytes are the transport's, until this returns. */
    void (*received)(void *ctx, struct tn_peer *peer, const uint8_t *bytes, size_t size);
    /* There is room again, after tn_peer_send() was UNAVAILABLE. */
    void (*drained)(void *ctx, struct tn_peer *peer);
    /* The last call with this peer, which is freed when it returns.  why: for people. */
    void (*closed)(void *ctx, struct tn_peer *peer, const char *why);
    /* OPTIONAL: a connection did not come about; why names what to do.  Told once for each target
     * and reason, and at most once a second of connections that came from outside. */
    void (*failed)(void *ctx, const char *address, const char *why);
};

/*
 * Copies the bytes and returns at once.  UNAVAILABLE: more than TN_PEER_QUEUE_MAX would wait (a
 * message is always taken if nothing waits), drained() will tell; nothing was queued.  INVALID:
 * longer than TN_MESSAGE_MAX.  CANCELLED: the connection has ended.  NOMEM.
 */
enum tenure_status tn_peer_send(struct tn_peer *peer, const void *bytes, size_t size);
/* End the connection; the other end gets the reason if it can still be sent.  closed() follows. */
void tn_peer_close(struct tn_peer *peer, const char *why);

struct tn_transport_conf {
    const char *listen;         /* HOST:PORT, [V6]:PORT, :PORT; NULL: it only connects */
    const char *const *targets; /* HOST:PORT each */
    size_t target_count;
    const char *election; /* connections of another one are refused */
    const char *node;     /* what this end is called */
    int64_t silence_ns;   /* a peer that says nothing for so long is closed; pings come before */

    /*
     * Paths of PEM files, read again when they change; NULL: without.  With tls_cert the listener
     * speaks TLS; with tls_ca beside it a peer must show a certificate of that authority.  Targets
     * are connected to by TLS if there is tls_cert or tls_ca, and must show one for their name, of
     * tls_ca (NULL: of an authority of this system).
     */
    const char *tls_cert, *tls_key, *tls_ca;
    /* What both ends know: a bearer token; or a user with a password.  By reference: a file, which
     * is read at each use, or a variable.  NULL: without. */
    const char *token_file, *token_env;
    const char *user, *password_file, *password_env;
    /* Without TLS: only on this machine, unless this says so; and elsewhere never without token or
     * password. */
    bool plain;
};

struct tn_transport;

/*
 * Binds before it returns; connects later.  The strings of conf are copied, the events kept.
 * CONFIG, DENIED, UNAVAILABLE, NOMEM: *transport is untouched, and no event was called.
 */
enum tenure_status tn_transport_open(struct tn_transport **transport,
                                     const struct tn_transport_conf *conf,
                                     const struct tn_transport_events *events, void *ctx,
                                     struct tenure_error *err);
/* The TCP port that it listens on; 0: it does not. */
uint16_t tn_transport_port(const struct tn_transport *transport);
/* Ends every connection; closed() was called for each when it returns.  Not from an event.
 * Accepts NULL. */
void tn_transport_close(struct tn_transport *transport);

#endif
