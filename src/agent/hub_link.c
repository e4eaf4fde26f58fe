/*
 * The hub's thread: it listens to the elections' processes while somebody looks,
 * and passes requests on.  It never waits for one of them in particular.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "agent/hub_inner.h"
#include "os/pass.h"
#include "os/thread.h"
#include "tenure/store.h"

#define EVENT_MAX (4u << 20) /* bytes of one */
#define AGAIN_NS  (200 * TN_MS)
#define TICK_MS   250

void tn_hub_wake(struct tn_hub *h)
{
    uint64_t one = 1;

    while (write(h->event_fd, &one, sizeof one) < 0 && errno == EINTR)
        continue;
}

/* ---- Bytes --------------------------------------------------------------- */

int tn_bytes_read(struct tn_bytes *b, int fd, size_t max)
{
    for (;;) {
        if (b->len == b->cap) {
            size_t cap = b->cap ? 2 * b->cap : 8192;
            char *grown = b->cap < max ? realloc(b->data, cap) : NULL;

            if (!grown)
                return -1;
            b->data = grown;
            b->cap = cap;
        }
        ssize_t n = read(fd, b->data + b->len, b->cap - b->len);
        if (n == 0)
            return 0;
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == EAGAIN ? 1 : -1;
        b->len += (size_t)n;
    }
}

void tn_bytes_free(struct tn_bytes *b)
{
    free(b->data);
    *b = (struct tn_bytes){0};
}

/* Taken out by hand: a process that is being started holds a copy of the descriptor until it
 * executes, and so long epoll would go on telling of it. */
void tn_end_close(struct tn_hub *h, struct tn_end *end)
{
    if (end->fd < 0)
        return;
    epoll_ctl(h->epoll_fd, EPOLL_CTL_DEL, end->fd, NULL);
    close(end->fd);
    end->fd = -1;
}

/* ---- Reaching a process -------------------------------------------------- */

int tn_hub_connect(struct tn_hub *h, struct tn_far *f)
{
    int ends[2];

    pthread_mutex_lock(&h->lock);
    bool there = f->there;
    pthread_mutex_unlock(&h->lock);
    if (!there || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
        return -1;
    bool handed = tn_pass_fd(f->pair_fd, "", 1, ends[1]);
    close(ends[1]);
    if (handed)
        return ends[0];
    close(ends[0]);
    return -1;
}

static void unlink_far(struct tn_far *f, int64_t now)
{
    tn_end_close(f->hub, &f->end);
    tn_bytes_free(&f->in);
    f->link_ns = now + AGAIN_NS;
    pthread_mutex_lock(&f->hub->lock);
    f->told = false;
    pthread_mutex_unlock(&f->hub->lock);
}

/* HTTP/1.0: the answer comes as it is, and ends with the connection. */
static void link_far(struct tn_far *f, int64_t now)
{
    static const char ask[] = "GET /v1/leadership?stream=1 HTTP/1.0\r\nHost: localhost\r\n\r\n";
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = &f->end};
    uint64_t start = atomic_load(&f->starts);

    f->link_ns = now + AGAIN_NS;
    f->end.fd = tn_hub_connect(f->hub, f);
    if (f->end.fd < 0)
        return;
    f->body = false;
    f->link_start = start;
    f->link_ns = now;
    if (write(f->end.fd, ask, sizeof ask - 1) != (ssize_t)sizeof ask - 1 ||
        epoll_ctl(f->hub->epoll_fd, EPOLL_CTL_ADD, f->end.fd, &ev) != 0)
        unlink_far(f, now);
}

static void hear(struct tn_far *f)
{
    int more = tn_bytes_read(&f->in, f->end.fd, EVENT_MAX);

    if (!tn_far_take(f) || more <= 0)
        unlink_far(f, tenure_now());
}

/* Who has been asked to tell and says nothing is told to be silent; once. */
static void watch_silence(struct tn_far *f, int64_t now)
{
    bool news = false;

    pthread_mutex_lock(&f->hub->lock);
    int64_t since = f->told && f->heard_ns > f->link_ns ? f->heard_ns : f->link_ns;
    if (f->there && !f->silent && now - since > TN_FAR_SILENT_NS) {
        f->silent = news = true;
        f->told = false;
        f->news++;
    }
    pthread_mutex_unlock(&f->hub->lock);
    if (news)
        tn_api_poke(f->hub->api);
}

/* True: there is something to watch. */
static bool tend(struct tn_far *f, int64_t now)
{
    bool wanted = now - atomic_load(&f->looked_ns) < TN_FAR_KEEP_NS;

    if (f->end.fd >= 0 && (!wanted || f->link_start != atomic_load(&f->starts)))
        unlink_far(f, now);
    if (!wanted)
        return f->end.fd >= 0;
    if (f->end.fd < 0 && now >= f->link_ns)
        link_far(f, now);
    if (f->end.fd >= 0)
        watch_silence(f, now);
    return true;
}

/* ---- The thread ---------------------------------------------------------- */

void *tn_hub_main(void *arg)
{
    struct tn_hub *h = arg;
    struct epoll_event events[32];
    bool busy = false;

    tn_thread_name("tenure-hub");
    while (!atomic_load(&h->ending)) {
        int n = epoll_wait(h->epoll_fd, events, 32, busy ? TICK_MS : -1);
        uint64_t count;

        for (int i = 0; i < n; i++) {
            struct tn_end *end = events[i].data.ptr;

            if (end == &h->wake && read(h->event_fd, &count, sizeof count) < 0)
                continue;
            if (end->link && end->fd >= 0)
                hear(end->link);
            else if (end->leg && end->fd >= 0)
                tn_hub_leg_step(end->leg);
        }
        int64_t now = tenure_now();
        busy = false;
        for (size_t i = 0, all = atomic_load(&h->n_fars); i < all; i++)
            busy |= tend(h->fars[i], now);
        tn_hub_calls_step(h, now);
        pthread_mutex_lock(&h->lock);
        busy |= h->calls != NULL;
        pthread_mutex_unlock(&h->lock);
    }
    return NULL;
}
