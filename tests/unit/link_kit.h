/* tests/unit/link_kit.h - nodes with a real transport, and clients that misbehave. */
#ifndef TN_TESTS_LINK_KIT_H
#define TN_TESTS_LINK_KIT_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "os/module.h"
#include "replica/transport.h"
#include "tenure/store.h"

#define PATIENCE_S 100 /* what takes longer does not happen */

/* What its events told. */
struct node {
    struct tn_transport *transport;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct tn_peer *peer; /* the last one that opened; NULL: it has closed */
    struct tn_peer_identity who;
    unsigned opened, closed, failed, drained;
    uint64_t received, bytes, sum; /* messages; their bytes; of all of them */
    bool echo;
    char why[512], fault[512];           /* closed, failed */
    char seen_why[512], seen_fault[512]; /* the same when UNTIL() had its way */
};

static inline void on_opened(void *ctx, struct tn_peer *peer, const struct tn_peer_identity *who)
{
    struct node *n = ctx;

    pthread_mutex_lock(&n->lock);
    n->peer = peer;
    n->who = *who;
    n->opened++;
    pthread_cond_broadcast(&n->changed);
    pthread_mutex_unlock(&n->lock);
}

static inline void on_received(void *ctx, struct tn_peer *peer, const uint8_t *bytes, size_t size)
{
    struct node *n = ctx;

    pthread_mutex_lock(&n->lock);
    n->received++;
    n->bytes += size;
    n->sum = n->sum * 31 + bytes[0] + bytes[size - 1];
    bool echo = n->echo;
    pthread_cond_broadcast(&n->changed);
    pthread_mutex_unlock(&n->lock);
    if (echo)
        assert_int_equal(tn_peer_send(peer, bytes, size), TENURE_OK);
}

static inline void on_drained(void *ctx, struct tn_peer *peer)
{
    struct node *n = ctx;

    (void)peer;
    pthread_mutex_lock(&n->lock);
    n->drained++;
    pthread_cond_broadcast(&n->changed);
    pthread_mutex_unlock(&n->lock);
}

static inline void on_closed(void *ctx, struct tn_peer *peer, const char *why)
{
    struct node *n = ctx;

    pthread_mutex_lock(&n->lock);
    n->closed++;
    if (n->peer == peer)
        n->peer = NULL;
    snprintf(n->why, sizeof n->why, "%s", why);
    pthread_cond_broadcast(&n->changed);
    pthread_mutex_unlock(&n->lock);
}

static inline void on_failed(void *ctx, const char *address, const char *why)
{
    struct node *n = ctx;

    pthread_mutex_lock(&n->lock);
    n->failed++;
    snprintf(n->fault, sizeof n->fault, "%s: %s", address, why);
    pthread_cond_broadcast(&n->changed);
    pthread_mutex_unlock(&n->lock);
}

static const struct tn_transport_events node_events = {.opened = on_opened,
                                                       .received = on_received,
                                                       .drained = on_drained,
                                                       .closed = on_closed,
                                                       .failed = on_failed};

/* Holds n->lock when it returns true; false: it did not happen in time. */
static inline bool wait_more(struct node *n, int64_t *deadline)
{
    struct timespec at;

    if (*deadline == 0) {
        clock_gettime(CLOCK_REALTIME, &at);
        *deadline = at.tv_sec + PATIENCE_S;
    }
    at = (struct timespec){.tv_sec = *deadline};
    return pthread_cond_timedwait(&n->changed, &n->lock, &at) == 0;
}

/* Until the condition on n holds. */
#define UNTIL(n, condition)                                                                        \
    do {                                                                                           \
        int64_t deadline_ = 0;                                                                     \
        bool timely_ = true;                                                                       \
        pthread_mutex_lock(&(n)->lock);                                                            \
        while (!(condition) && timely_)                                                            \
            timely_ = wait_more(n, &deadline_);                                                    \
        bool holds_ = (condition);                                                                 \
        memcpy((n)->seen_why, (n)->why, sizeof(n)->why);                                           \
        memcpy((n)->seen_fault, (n)->fault, sizeof(n)->fault);                                     \
        pthread_mutex_unlock(&(n)->lock);                                                          \
        if (!holds_)                                                                               \
            fail_msg("not in time: %s (closed: '%s', failed: '%s')", #condition, (n)->seen_why,    \
                     (n)->seen_fault);                                                             \
    } while (0)

static inline void init_node(struct node *n)
{
    memset(n, 0, sizeof *n);
    pthread_mutex_init(&n->lock, NULL);
    pthread_cond_init(&n->changed, NULL);
}

static inline void set_echo(struct node *n, bool echo)
{
    pthread_mutex_lock(&n->lock);
    n->echo = echo;
    pthread_mutex_unlock(&n->lock);
}

static inline struct tn_transport_conf conf_of(const char *name)
{
    return (struct tn_transport_conf){
        .election = "team/web", .node = name, .silence_ns = INT64_C(60000000000)};
}

static inline void open_node(struct node *n, const struct tn_transport_conf *conf)
{
    struct tenure_error err = {0};

    init_node(n);
    if (tn_transport_open(&n->transport, conf, &node_events, n, &err) != TENURE_OK)
        fail_msg("%s", err.text);
}

/* On a port of its own. */
static inline void open_listener(struct node *n, struct tn_transport_conf conf)
{
    conf.listen = "127.0.0.1:0";
    open_node(n, &conf);
}

/* To that listener, under the name `host`. */
static inline void open_client(struct node *n, struct tn_transport_conf conf,
                               const struct node *listener, const char *host)
{
    static char target[64];
    const char *targets[] = {target};

    snprintf(target, sizeof target, "%s:%u", host, tn_transport_port(listener->transport));
    conf.targets = targets;
    conf.target_count = 1;
    open_node(n, &conf);
}

static inline void close_node(struct node *n)
{
    tn_transport_close(n->transport);
    assert_int_equal(n->opened, n->closed);
    pthread_mutex_destroy(&n->lock);
    pthread_cond_destroy(&n->changed);
}

/* ---- Somebody who is no tenure ---------------------------------------------- */

static inline int dial(uint16_t port)
{
    struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct timeval patience = {.tv_sec = PATIENCE_S};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    return fd;
}

static inline void say(int fd, const void *bytes, size_t n)
{
    /* Who is refused early may have been hung up on. */
    for (size_t at = 0; at < n;) {
        ssize_t sent = send(fd, (const char *)bytes + at, n - at, MSG_NOSIGNAL);

        if (sent <= 0)
            return;
        at += (size_t)sent;
    }
}

/* All that comes until the other end hangs up. */
static inline size_t hear_all(int fd, char *out, size_t size)
{
    size_t n = 0;
    ssize_t got;

    while (n + 1 < size && (got = recv(fd, out + n, size - 1 - n, 0)) > 0)
        n += (size_t)got;
    out[n] = '\0';
    return n;
}

#define REQUEST_HEAD                                                                               \
    "GET /v1/replicate/team/web HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\n"                     \
    "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"                                         \
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
#define REQUEST_NODE  "Tenure-Node: stranger\r\n"
#define REQUEST_PROTO "Sec-WebSocket-Protocol: tenure.1\r\n"
#define REQUEST       REQUEST_HEAD REQUEST_NODE REQUEST_PROTO "\r\n"

/* A whole handshake by hand: what follows are frames. */
static inline int dial_in(uint16_t port)
{
    int fd = dial(port);
    char head[1024] = "";
    size_t n = 0;

    say(fd, REQUEST, strlen(REQUEST));
    while (!strstr(head, "\r\n\r\n")) {
        assert_true(n + 1 < sizeof head && recv(fd, head + n, 1, 0) == 1);
        head[++n] = '\0';
    }
    assert_non_null(strstr(head, "HTTP/1.1 101 "));
    assert_non_null(strstr(head, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")); /* the example of RFC 6455 */
    return fd;
}

#endif
