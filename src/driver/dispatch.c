#include "driver/dispatch.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "os/thread.h"

static void leave_word(struct tn_dispatch *d)
{
    uint64_t one = 1;

    while (write(d->word_fd, &one, sizeof one) < 0 && errno == EINTR)
        continue;
}

static bool drain(int fd)
{
    uint64_t count;

    return read(fd, &count, sizeof count) == sizeof count;
}

enum tenure_status tn_dispatch_init(struct tn_dispatch *d, const struct tn_dispatch_calls *calls,
                                    struct tenure_error *err)
{
    struct epoll_event on = {.events = EPOLLIN};

    memset(d, 0, sizeof *d);
    d->calls = *calls;
    pthread_mutex_init(&d->lock, NULL);
    d->word_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    d->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    d->poll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (d->word_fd < 0 || d->timer_fd < 0 || d->poll_fd < 0 ||
        epoll_ctl(d->poll_fd, EPOLL_CTL_ADD, d->word_fd, &on) != 0 ||
        epoll_ctl(d->poll_fd, EPOLL_CTL_ADD, d->timer_fd, &on) != 0)
        return tenure_fail(err, TENURE_UNAVAILABLE, "cannot make event descriptors: %s",
                           strerror(errno));
    return TENURE_OK;
}

static void *dispatch_main(void *arg)
{
    struct tn_dispatch *d = arg;
    struct epoll_event ready;

    tn_thread_name("tenure-callback");
    while (tn_dispatch_run(d, true) != TN_DISPATCH_END)
        epoll_wait(d->poll_fd, &ready, 1, -1);
    return NULL;
}

enum tenure_status tn_dispatch_spawn(struct tn_dispatch *d, struct tenure_error *err)
{
    /* The new thread copies all of *d, under the lock. */
    pthread_mutex_lock(&d->lock);
    enum tenure_status status = tn_thread_start(&d->thread, dispatch_main, d, err);
    d->threaded = status == TENURE_OK;
    pthread_mutex_unlock(&d->lock);
    return status;
}

void tn_dispatch_destroy(struct tn_dispatch *d)
{
    pthread_mutex_lock(&d->lock);
    d->end = true;
    pthread_mutex_unlock(&d->lock);
    leave_word(d);
    if (d->threaded)
        pthread_join(d->thread, NULL);
    else
        tn_dispatch_run(d, true);
    pthread_mutex_destroy(&d->lock);
    if (d->word_fd >= 0)
        close(d->word_fd);
    if (d->timer_fd >= 0)
        close(d->timer_fd);
    if (d->poll_fd >= 0)
        close(d->poll_fd);
}

/* ---- Word from the driver ------------------------------------------------ */

void tn_dispatch_deadline(struct tn_dispatch *d, int64_t deadline_ns)
{
    struct itimerspec when = {0}; /* zero disarms: no grant, no deadline */

    pthread_mutex_lock(&d->lock);
    d->deadline_ns = deadline_ns;
    pthread_mutex_unlock(&d->lock);
    when.it_value.tv_sec = (time_t)(deadline_ns / TN_S);
    when.it_value.tv_nsec = (long)(deadline_ns % TN_S);
    timerfd_settime(d->timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
}

void tn_dispatch_seal(struct tn_dispatch *d, const struct tenure_grant *grant)
{
    pthread_mutex_lock(&d->lock);
    d->seal = true;
    d->grant = *grant;
    pthread_mutex_unlock(&d->lock);
    leave_word(d);
}

void tn_dispatch_start(struct tn_dispatch *d, const struct tenure_grant *grant)
{
    pthread_mutex_lock(&d->lock);
    d->start = true;
    d->grant = *grant;
    pthread_mutex_unlock(&d->lock);
    leave_word(d);
}

void tn_dispatch_stop(struct tn_dispatch *d, enum tn_stop why)
{
    pthread_mutex_lock(&d->lock);
    d->stop = true;
    d->why = why;
    d->seal = d->start = false;
    pthread_mutex_unlock(&d->lock);
    leave_word(d);
}

void tn_dispatch_leader(struct tn_dispatch *d, const char *leader, uint64_t epoch)
{
    pthread_mutex_lock(&d->lock);
    d->announce = true;
    snprintf(d->leader, sizeof d->leader, "%s", leader);
    d->leader_epoch = epoch;
    pthread_mutex_unlock(&d->lock);
    leave_word(d);
}

/* ---- Running the callbacks ----------------------------------------------- */

static void answer_stop(struct tn_dispatch *d, bool answers, uint64_t expired_epoch)
{
    if (answers)
        d->calls.all_quiet(d->calls.arg);
    if (expired_epoch)
        d->calls.expired(d->calls.arg, expired_epoch);
}

static void run_stop(struct tn_dispatch *d, enum tn_stop why, bool answers, uint64_t expired_epoch)
{
    bool ran = d->running;

    d->running = false;
    if (!ran || d->calls.stopped(d->calls.arg, &d->running_grant, why)) {
        answer_stop(d, answers, expired_epoch);
        return;
    }
    d->stopping = true;
    d->answers = answers;
    d->expired_epoch = expired_epoch;
}

void tn_dispatch_stopped(struct tn_dispatch *d)
{
    assert(d->stopping);
    d->stopping = false;
    answer_stop(d, d->answers, d->expired_epoch);
    leave_word(d); /* for what came meanwhile */
}

/* The timer only wakes us up: the deadline may have been moved on since. */
static bool is_late(const struct tn_dispatch *d)
{
    return d->deadline_ns != 0 && tenure_now() >= d->deadline_ns;
}

/* Whatever the driver does, nothing runs on or starts now (I1).  It is told: it
 * may be about to publish a renewal of a term in which nobody works any more. */
static void run_expired(struct tn_dispatch *d, uint64_t epoch)
{
    run_stop(d, TN_STOP_EXPIRED, false, epoch); /* the driver's own word may still come */
}

void tn_dispatch_run_seal(struct tn_dispatch *d)
{
    struct tenure_grant grant;

    pthread_mutex_lock(&d->lock);
    bool due = d->seal && !d->stop;
    if (due)
        d->seal = false;
    grant = d->grant;
    pthread_mutex_unlock(&d->lock);
    if (due)
        d->calls.seal(d->calls.arg, &grant);
}

enum tn_dispatch_left tn_dispatch_run(struct tn_dispatch *d, bool may_seal)
{
    drain(d->word_fd);
    drain(d->timer_fd);
    while (!d->stopping) {
        struct tn_dispatch word;

        pthread_mutex_lock(&d->lock);
        word = *d;
        bool late = (d->running || d->start) && is_late(d);
        if (!may_seal && d->seal && !d->stop && !late) {
            pthread_mutex_unlock(&d->lock);
            return TN_DISPATCH_SEAL;
        }
        if (d->stop)
            d->stop = false;
        else if (late)
            d->start = false;
        else if (d->seal)
            d->seal = false;
        else if (d->start)
            d->start = false;
        else if (d->announce)
            d->announce = false;
        pthread_mutex_unlock(&d->lock);

        if (word.stop) {
            run_stop(d, word.why, true, 0);
        } else if (late) {
            run_expired(d, (word.running ? word.running_grant : word.grant).epoch);
        } else if (word.seal) {
            d->calls.seal(d->calls.arg, &word.grant);
        } else if (word.start) {
            d->running = true;
            d->running_grant = word.grant;
            d->calls.started(d->calls.arg, &word.grant);
        } else if (word.announce) {
            d->calls.new_leader(d->calls.arg, word.leader, word.leader_epoch);
        } else {
            return word.end ? TN_DISPATCH_END : TN_DISPATCH_NOTHING;
        }
    }
    return TN_DISPATCH_NOTHING;
}
