/*
 * The proxy's thread: it pings the elections' processes while somebody looks,
 * and passes requests on.  It never waits for one of them in particular.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "agent/proxy_inner.h"
#include "os/thread.h"
#include "tenure/store.h"

/* Somebody looks: so often at least, and so soon after a change that was pushed. */
#define BEAT_NS         (2 * TN_S)
#define SPACE_NS        (50 * TN_MS)
/* It is pinged so long after the last look. */
#define WATCH_NS        (30 * TN_S)
/* A process that has not answered a ping for so long is reported as unresponsive. */
#define UNRESPONSIVE_NS (6 * TN_S)
#define TICK_MS         250
#define MESSAGES        8 /* of one process at a turn */

void tn_proxy_wake(struct tn_proxy *p)
{
    uint64_t one = 1;

    while (write(p->event_fd, &one, sizeof one) < 0 && errno == EINTR)
        continue;
}

/* ---- One process --------------------------------------------------------- */

/* Taken out by hand: a process that is being started holds a copy of the descriptor until it
 * executes, and so long epoll would go on reporting it. */
static void hang_up(struct tn_upstream *u)
{
    if (u->socket < 0)
        return;
    epoll_ctl(u->proxy->epoll_fd, EPOLL_CTL_DEL, u->socket, NULL);
    close(u->socket);
    u->socket = -1;
}

/* Its process was started: speak to that one. */
static void connect_new(struct tn_upstream *u, int64_t now)
{
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = u};

    pthread_mutex_lock(&u->proxy->lock);
    int fd = u->new_socket;
    u->new_socket = -1;
    pthread_mutex_unlock(&u->proxy->lock);
    if (fd < 0)
        return;
    hang_up(u);
    u->socket = fd;
    u->ping_at_ns = now;
    u->waits_ns = 0;
    u->pinged = 0;
    u->ping_lost = false;
    if (epoll_ctl(u->proxy->epoll_fd, EPOLL_CTL_ADD, fd, &ev) != 0)
        hang_up(u);
}

static bool handle(struct tn_upstream *u, size_t len, int body)
{
    const struct tn_proxy *p = u->proxy;
    const void *rest = p->in.bytes + sizeof p->in.head;
    bool pushed = p->in.head.number != u->pinged || u->waits_ns == 0;

    if (p->in.head.kind == TN_WIRE_ANSWER)
        return tn_proxy_answered(u, p->in.head.number, rest, len, body);
    if (body >= 0)
        close(body);
    if (p->in.head.kind != TN_WIRE_SNAPSHOT || !tn_remote_snapshot(u, p->in.head.number, rest, len))
        return false;
    if (p->in.head.number == u->pinged)
        u->waits_ns = 0;
    if (pushed) /* it may push no more before it is pinged */
        u->ping_at_ns = tenure_now() + SPACE_NS;
    return true;
}

static void receive(struct tn_upstream *u)
{
    for (int i = 0; i < MESSAGES && u->socket >= 0; i++) {
        size_t len;
        int body, got = tn_wire_receive(u->socket, &u->proxy->in, &len, &body);

        if (got == 0)
            return;
        if (got < 0 || !handle(u, len, body))
            hang_up(u); /* what it may say after that is not believed either */
    }
}

static void ping(struct tn_upstream *u, uint64_t number, int64_t now)
{
    static const struct tn_wire_part none;

    u->pinged = number;
    u->ping_at_ns = now + BEAT_NS;
    if (u->waits_ns == 0)
        u->waits_ns = now;
    u->ping_lost = !tn_wire_send(u->socket, TN_WIRE_PING, number, none, none, none);
}

/* Without an answer for too long; reported once.  One that we hung up on will never answer. */
static void watch_silence(struct tn_upstream *u, int64_t now)
{
    bool news = false;

    pthread_mutex_lock(&u->proxy->lock);
    if (u->there && !u->unresponsive && u->waits_ns && now - u->waits_ns > UNRESPONSIVE_NS) {
        u->unresponsive = news = true;
        u->answered = false;
        u->news++;
    }
    pthread_mutex_unlock(&u->proxy->lock);
    if (news)
        tn_api_notify(u->proxy->api);
}

/* Somebody looks, or nobody does any more: what it said before is old. */
static void set_watched(struct tn_upstream *u, bool watched)
{
    if (u->watched == watched)
        return;
    u->watched = watched;
    u->waits_ns = 0;
    u->ping_at_ns = 0;
    pthread_mutex_lock(&u->proxy->lock);
    u->answered = u->unresponsive = false;
    pthread_mutex_unlock(&u->proxy->lock);
}

/* When there is something to do; INT64_MAX: not before somebody looks. */
static int64_t tend(struct tn_upstream *u, int64_t now)
{
    bool watched = now - atomic_load(&u->looked_ns) < WATCH_NS;
    uint64_t wanted = atomic_load(&u->wanted);

    connect_new(u, now);
    set_watched(u, watched);
    if (!watched)
        return INT64_MAX;
    if (u->socket < 0 && u->waits_ns == 0)
        u->waits_ns = now;
    /* One at a time, so that nothing queues up in a process that hangs. */
    bool due = u->waits_ns == 0 && (wanted > u->pinged || now >= u->ping_at_ns);
    if (u->socket >= 0 && (due || u->ping_lost))
        ping(u, wanted > u->pinged ? wanted : atomic_fetch_add(&u->proxy->pings, 1) + 1, now);
    watch_silence(u, now);
    return u->waits_ns ? now + TICK_MS * TN_MS : u->ping_at_ns;
}

/* ---- The thread ---------------------------------------------------------- */

static int wait_ms(int64_t until, int64_t now)
{
    if (until == INT64_MAX)
        return -1;
    return until <= now ? 0 : (int)((until - now + TN_MS - 1) / TN_MS);
}

void *tn_proxy_main(void *arg)
{
    struct tn_proxy *p = arg;
    struct epoll_event events[64];
    int64_t next = INT64_MAX;

    tn_thread_name("tenure-proxy");
    while (!atomic_load(&p->ending)) {
        int n = epoll_wait(p->epoll_fd, events, 64, wait_ms(next, tenure_now()));
        uint64_t count;

        for (int i = 0; i < n; i++) {
            struct tn_upstream *u = events[i].data.ptr;

            if (u)
                receive(u);
            else if (read(p->event_fd, &count, sizeof count) < 0)
                continue;
        }
        int64_t now = tenure_now();
        next = INT64_MAX;
        for (struct tn_upstream *u = atomic_load(&p->upstreams); u; u = u->next) {
            int64_t due = tend(u, now);

            next = due < next ? due : next;
        }
        tn_proxy_calls_step(p, now);
        pthread_mutex_lock(&p->lock);
        if (p->calls && now + TICK_MS * TN_MS < next)
            next = now + TICK_MS * TN_MS;
        pthread_mutex_unlock(&p->lock);
    }
    return NULL;
}
