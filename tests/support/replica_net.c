/* support/replica_net.c - see replica_net.h. */
#include "tests/support/replica_net.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "replica/transport.h"

#define NODES  8
#define CUTS   8
#define TRY_MS 5

struct tn_transport {
    bool used;
    char listen[64], node[64];
    char *targets[NODES];
    size_t n_targets;
    struct tn_transport_events events;
    void *ctx;
    unsigned peers; /* that closed() was not called for */
};

struct tn_peer {
    struct tn_transport *owner;
    struct tn_peer *other, *next; /* other: NULL once one of them has closed */
    struct tn_peer_identity who;
    char from[64], to[64]; /* who connected to whom */
    bool closing;
};

enum kind { OPENED, RECEIVED, CLOSED };

struct news {
    struct news *next;
    enum kind kind;
    struct tn_peer *peer;
    size_t size;
    uint8_t bytes[];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct tn_transport transports[NODES];
static struct tn_peer *peers;
static struct news *queue, **tail = &queue;
static char cuts[CUTS][2][64];
static bool running;

static void post(enum kind kind, struct tn_peer *peer, const void *bytes, size_t size)
{
    struct news *news = calloc(1, sizeof *news + size);

    assert(news);
    news->kind = kind;
    news->peer = peer;
    news->size = size;
    if (size > 0)
        memcpy(news->bytes, bytes, size);
    *tail = news;
    tail = &news->next;
    pthread_cond_broadcast(&changed);
}

static void close_locked(struct tn_peer *peer)
{
    struct tn_peer *other = peer->other;

    if (peer->closing)
        return;
    peer->closing = true;
    post(CLOSED, peer, NULL, 0);
    peer->other = NULL;
    if (other) {
        other->other = NULL;
        close_locked(other);
    }
}

static bool is_cut(const char *a, const char *b)
{
    for (unsigned i = 0; i < CUTS; i++)
        if ((!strcmp(cuts[i][0], a) && !strcmp(cuts[i][1], b)) ||
            (!strcmp(cuts[i][0], b) && !strcmp(cuts[i][1], a)))
            return true;
    return false;
}

static struct tn_peer *make_peer(struct tn_transport *owner, const struct tn_transport *other,
                                 bool outbound)
{
    struct tn_peer *p = calloc(1, sizeof *p);

    assert(p);
    p->owner = owner;
    strcpy(p->who.node, other->node);
    strcpy(p->who.address, other->listen);
    p->who.outbound = outbound;
    strcpy(p->from, outbound ? owner->listen : other->listen);
    strcpy(p->to, outbound ? other->listen : owner->listen);
    p->next = peers;
    peers = p;
    owner->peers++;
    return p;
}

static void connect_one(struct tn_transport *t, const char *target)
{
    struct tn_transport *other = NULL;
    struct tn_peer *near, *far;

    for (unsigned i = 0; i < NODES; i++)
        if (transports[i].used && !strcmp(transports[i].listen, target))
            other = &transports[i];
    for (struct tn_peer *p = peers; p; p = p->next)
        if (!p->closing && !strcmp(p->from, t->listen) && !strcmp(p->to, target))
            return;
    if (!other || other == t || is_cut(t->listen, target))
        return;
    near = make_peer(t, other, true);
    far = make_peer(other, t, false);
    near->other = far;
    far->other = near;
    post(OPENED, near, NULL, 0);
    post(OPENED, far, NULL, 0);
}

static void forget(struct tn_peer *peer)
{
    struct tn_peer **at = &peers;

    while (*at != peer)
        at = &(*at)->next;
    *at = peer->next;
    peer->owner->peers--;
    free(peer);
    pthread_cond_broadcast(&changed);
}

static void deliver(struct news *news)
{
    struct tn_peer *peer = news->peer;
    const struct tn_transport *t = peer->owner;

    pthread_mutex_unlock(&lock);
    if (news->kind == OPENED)
        t->events.opened(t->ctx, peer, &peer->who);
    else if (news->kind == RECEIVED)
        t->events.received(t->ctx, peer, news->bytes, news->size);
    else
        t->events.closed(t->ctx, peer, "cut");
    pthread_mutex_lock(&lock);
    if (news->kind == CLOSED)
        forget(peer);
    free(news);
}

static void *carry(void *arg)
{
    struct timespec until;

    (void)arg;
    pthread_mutex_lock(&lock);
    for (;;) {
        for (unsigned i = 0; i < NODES; i++)
            for (size_t j = 0; transports[i].used && j < transports[i].n_targets; j++)
                connect_one(&transports[i], transports[i].targets[j]);
        while (queue) {
            struct news *news = queue;

            queue = news->next;
            if (!queue)
                tail = &queue;
            deliver(news);
        }
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += TRY_MS * 1000000;
        if (until.tv_nsec >= 1000000000) {
            until.tv_nsec -= 1000000000;
            until.tv_sec++;
        }
        pthread_cond_timedwait(&changed, &lock, &until);
    }
    return NULL;
}

enum tenure_status tn_peer_send(struct tn_peer *peer, const void *bytes, size_t size)
{
    pthread_mutex_lock(&lock);
    if (peer->other)
        post(RECEIVED, peer->other, bytes, size);
    pthread_mutex_unlock(&lock);
    return TENURE_OK;
}

void tn_peer_close(struct tn_peer *peer, const char *why)
{
    (void)why;
    pthread_mutex_lock(&lock);
    close_locked(peer);
    pthread_mutex_unlock(&lock);
}

enum tenure_status tn_transport_open(struct tn_transport **transport,
                                     const struct tn_transport_conf *conf,
                                     const struct tn_transport_events *events, void *ctx,
                                     struct tenure_error *err)
{
    struct tn_transport *t = transports;
    pthread_t thread;

    (void)err;
    pthread_mutex_lock(&lock);
    while (t->used)
        t++;
    memset(t, 0, sizeof *t);
    t->used = true;
    strcpy(t->listen, conf->listen);
    strcpy(t->node, conf->node);
    for (size_t i = 0; i < conf->target_count; i++)
        t->targets[t->n_targets++] = strdup(conf->targets[i]);
    t->events = *events;
    t->ctx = ctx;
    if (!running) {
        assert(pthread_create(&thread, NULL, carry, NULL) == 0);
        pthread_detach(thread);
    }
    running = true;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    *transport = t;
    return TENURE_OK;
}

void tn_transport_close(struct tn_transport *t)
{
    if (!t)
        return;
    pthread_mutex_lock(&lock);
    t->used = false;
    for (struct tn_peer *p = peers; p; p = p->next)
        if (p->owner == t)
            close_locked(p);
    while (t->peers > 0)
        pthread_cond_wait(&changed, &lock);
    for (size_t i = 0; i < t->n_targets; i++)
        free(t->targets[i]);
    pthread_mutex_unlock(&lock);
}

void replica_net_cut(const char *a, const char *b)
{
    unsigned i = 0;

    pthread_mutex_lock(&lock);
    while (cuts[i][0][0])
        i++;
    strcpy(cuts[i][0], a);
    strcpy(cuts[i][1], b);
    for (struct tn_peer *p = peers; p; p = p->next)
        if (is_cut(p->from, p->to))
            close_locked(p);
    pthread_mutex_unlock(&lock);
}

void replica_net_heal(const char *a, const char *b)
{
    pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < CUTS; i++)
        if (!strcmp(cuts[i][0], a) && !strcmp(cuts[i][1], b))
            cuts[i][0][0] = cuts[i][1][0] = '\0';
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}
