#include "os/loop.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "os/poll.h"
#include "tenure/store.h"

static void drain_wakeups(void *arg, short events)
{
    const struct tn_loop *l = arg;
    uint64_t count;

    (void)events;
    if (read(l->wake.fd, &count, sizeof count) < 0)
        return; /* somebody else's write is what woke us up; the calls are taken in any case */
}

enum tenure_status tn_loop_open(struct tn_loop *l, struct tenure_error *err)
{
    *l = (struct tn_loop){.lock = PTHREAD_MUTEX_INITIALIZER};
    l->timer_fd = tn_poll_timer(); /* it does without */
    tn_loop_watch(l, &l->wake, eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), drain_wakeups, l);
    if (l->wake.fd < 0)
        return tenure_fail(err, TENURE_UNAVAILABLE, "cannot make descriptors: %s", strerror(errno));
    return TENURE_OK;
}

void tn_loop_close(struct tn_loop *l)
{
    if (l->timer_fd >= 0)
        close(l->timer_fd);
    if (l->wake.fd >= 0)
        close(l->wake.fd);
    pthread_mutex_destroy(&l->lock);
}

void tn_loop_watch(struct tn_loop *l, struct tn_watch *w, int fd,
                   void (*ready)(void *arg, short events), void *arg)
{
    struct tn_watch **end = &l->watches;

    while (*end)
        end = &(*end)->next;
    *w = (struct tn_watch){.ready = ready, .arg = arg, .fd = fd, .events = POLLIN};
    *end = w;
}

void tn_watch_set(struct tn_watch *w, int fd, short events)
{
    w->fd = fd;
    w->events = events;
    w->ready_events = 0;
}

void tn_loop_timer(struct tn_loop *l, struct tn_timer *t,
                   void (*expired)(void *arg, int64_t now_ns), void *arg)
{
    struct tn_timer **end = &l->timers;

    while (*end)
        end = &(*end)->next;
    *t = (struct tn_timer){.at_ns = TN_NEVER, .expired = expired, .arg = arg};
    *end = t;
}

void tn_loop_post(struct tn_loop *l, struct tn_call *call)
{
    struct tn_call **end = &l->calls;
    uint64_t one = 1;

    pthread_mutex_lock(&l->lock);
    bool posted = call->posted;
    if (!posted) {
        while (*end)
            end = &(*end)->next;
        call->posted = true;
        call->next = NULL;
        *end = call;
    }
    pthread_mutex_unlock(&l->lock);
    while (!posted && write(l->wake.fd, &one, sizeof one) < 0 && errno == EINTR)
        continue;
}

void tn_loop_cancel(struct tn_loop *l, struct tn_call *call)
{
    struct tn_call **at = &l->calls;

    pthread_mutex_lock(&l->lock);
    while (*at && *at != call)
        at = &(*at)->next;
    if (*at)
        *at = call->next;
    call->posted = false;
    pthread_mutex_unlock(&l->lock);
}

static struct tn_call *take_call(struct tn_loop *l)
{
    pthread_mutex_lock(&l->lock);
    struct tn_call *call = l->calls;
    if (call) {
        l->calls = call->next;
        call->posted = false;
    }
    pthread_mutex_unlock(&l->lock);
    return call;
}

/* What is ready is written into the watches.  false: nothing is known about them. */
static bool wait_ready(struct tn_loop *l)
{
    struct tn_watch *of[TN_POLL_MAX];
    struct pollfd fds[TN_POLL_MAX];
    int64_t next = TN_NEVER;
    unsigned n = 0;

    for (const struct tn_timer *t = l->timers; t; t = t->next)
        next = t->at_ns < next ? t->at_ns : next;
    for (struct tn_watch *w = l->watches; w; w = w->next) {
        w->ready_events = 0;
        if (w->fd < 0)
            continue;
        assert(n < TN_POLL_MAX);
        of[n] = w;
        fds[n++] = (struct pollfd){.fd = w->fd, .events = w->events};
    }
    if (tn_poll_with(l->timer_fd, fds, n, next) < 0)
        return false;
    while (n-- > 0)
        of[n]->ready_events = fds[n].revents;
    return true;
}

void tn_loop_turn(struct tn_loop *l)
{
    struct tn_call *call;

    if (!wait_ready(l))
        return;
    for (struct tn_watch *w = l->watches; w; w = w->next) {
        short events = w->ready_events;

        w->ready_events = 0;
        if (events)
            w->ready(w->arg, events);
    }
    while ((call = take_call(l)))
        call->run(call);
    int64_t now = tenure_now();
    for (struct tn_timer *t = l->timers; t; t = t->next) {
        if (now < t->at_ns)
            continue;
        t->at_ns = TN_NEVER;
        if (t->expired)
            t->expired(t->arg, now);
    }
}
