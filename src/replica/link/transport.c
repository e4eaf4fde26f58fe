/* The thread: the listener, and what is due. */
#include <errno.h>
#include <gnutls/crypto.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "os/thread.h"
#include "replica/link/inner.h"

#define TELL_NS INT64_C(1000000000)

/* ---- What did not come about ------------------------------------------------ */

void tn_transport_failed(struct tn_transport *t, struct tn_target *target, const char *address,
                         const char *why)
{
    char text[2 * TN_LINK_WHY_MAX];
    int64_t now = tenure_now();

    if (!t->events->failed)
        return;
    if (target) {
        if (strcmp(target->told, why) == 0)
            return;
        snprintf(target->told, sizeof target->told, "%s", why);
        t->events->failed(t->ctx, target->address, why);
        return;
    }
    if (now - t->told_ns < TELL_NS) {
        t->untold++;
        return;
    }
    if (t->untold)
        snprintf(text, sizeof text, "%s (and %u more connections since)", why, t->untold);
    else
        snprintf(text, sizeof text, "%s", why);
    t->untold = 0;
    t->told_ns = now;
    t->events->failed(t->ctx, address, text);
}

/* ---- From outside ----------------------------------------------------------- */

/* Room for one more that says nothing yet: the one that has said nothing for longest goes. */
static void make_room(struct tn_transport *t)
{
    struct tn_peer *oldest = NULL;
    unsigned strangers = 0;

    for (struct tn_peer *p = t->peers; p; p = p->next) {
        if (p->target || p->opened_ns || p->state == TN_PEER_DEAD)
            continue;
        strangers++;
        oldest = p;
    }
    if (strangers >= TN_LINK_STRANGERS_MAX)
        tn_peer_end(oldest, "it did not say who it is while others waited to");
}

static bool is_full(const struct tn_transport *t)
{
    unsigned open = 0;

    for (const struct tn_peer *p = t->peers; p; p = p->next)
        open += !p->target && p->opened_ns && p->state != TN_PEER_DEAD;
    return open >= TN_LINK_OPEN_MAX;
}

static void accept_one(struct tn_transport *t)
{
    char address[96] = "?";
    int fd = accept4(t->listener.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

    if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)) {
        tn_transport_failed(t, NULL, "listener", strerror(errno));
        t->listen_ns = tenure_now() + TELL_NS;
        epoll_ctl(t->poll_fd, EPOLL_CTL_DEL, t->listener.fd, NULL);
    }
    if (fd < 0)
        return;
    tn_listen_peer(fd, address, sizeof address);
    if (is_full(t)) {
        tn_transport_failed(t, NULL, address, "too many connections are open");
        close(fd);
        return;
    }
    make_room(t);
    tn_peer_new(t, fd, NULL, address);
}

void tn_transport_listen_again(struct tn_transport *t)
{
    struct epoll_event event = {.events = EPOLLIN};

    if (t->listener.fd >= 0)
        epoll_ctl(t->poll_fd, EPOLL_CTL_ADD, t->listener.fd, &event);
    t->listen_ns = TN_NEVER;
}

/* ---- The thread ------------------------------------------------------------- */

void tn_transport_ready(void *arg, short events)
{
    struct tn_transport *t = arg;
    struct epoll_event ready[64];
    int n = epoll_wait(t->poll_fd, ready, 64, 0);

    (void)events;
    for (int i = 0; i < n; i++) {
        if (ready[i].data.ptr)
            tn_peer_ready(ready[i].data.ptr, ready[i].events);
        else
            accept_one(t);
    }
}

void tn_transport_woken(struct tn_call *call)
{
    struct tn_transport *t =
        (struct tn_transport *)((char *)call - offsetof(struct tn_transport, wake));

    t->woken = true;
}

void tn_transport_wake(struct tn_transport *t)
{
    tn_loop_post(&t->loop, &t->wake);
}

void tn_transport_sweep(struct tn_transport *t)
{
    for (struct tn_peer **at = &t->peers; *at;) {
        struct tn_peer *p = *at;

        if (p->state != TN_PEER_DEAD) {
            at = &p->next;
            continue;
        }
        *at = p->next;
        if (p->target && p->target->peer == p)
            tn_target_lost(p->target, p);
        tn_peer_free(p);
    }
}

/* What is due, and when the next thing is. */
static int64_t run_due(struct tn_transport *t)
{
    int64_t now = tenure_now(), next = t->listen_ns;
    bool all = t->woken;

    t->woken = false;
    if (now >= t->listen_ns)
        tn_transport_listen_again(t);
    for (struct tn_peer *p = t->peers; p; p = p->next) {
        if (all || tn_peer_next(p) <= now)
            tn_peer_turn(p, now);
    }
    tn_transport_sweep(t);
    for (size_t i = 0; i < t->target_count; i++) {
        struct tn_target *target = &t->targets[i];

        if (now >= target->at_ns)
            tn_target_begin(target);
        next = target->at_ns < next ? target->at_ns : next;
    }
    for (const struct tn_peer *p = t->peers; p; p = p->next) {
        int64_t at = tn_peer_next(p);

        next = at < next ? at : next;
    }
    return next;
}

static bool is_stopped(struct tn_transport *t)
{
    pthread_mutex_lock(&t->lock);
    bool stop = t->stop;
    pthread_mutex_unlock(&t->lock);
    return stop;
}

static void end_all(struct tn_transport *t)
{
    for (struct tn_peer *p = t->peers; p; p = p->next) {
        if (p->state == TN_PEER_OPEN) {
            static const char why[] = "the node is stopping";

            wslay_event_queue_close(p->frames, WSLAY_CODE_GOING_AWAY, (const uint8_t *)why,
                                    sizeof why - 1);
            wslay_event_send(p->frames);
            tn_peer_flush(p);
        }
        if (p->opened_ns)
            tn_peer_end(p, "this node is stopping");
        else if (p->state != TN_PEER_DEAD)
            close(p->fd);
        p->state = TN_PEER_DEAD;
    }
}

void *tn_transport_run(void *arg)
{
    struct tn_transport *t = arg;

    tn_thread_name("tenure-link");
    while (!is_stopped(t)) {
        t->timer.at_ns = run_due(t);
        tn_loop_turn(&t->loop);
    }
    end_all(t);
    return NULL;
}
