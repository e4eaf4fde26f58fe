/* The public elector: options in, a driver and its callbacks' thread out. */
#include "tenure/elector.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/sized.h"
#include "driver/inner.h"
#include "os/thread.h"

/* The caller of tn_driver_start() waits so long for the first try: it has signals to answer. */
#define START_LIMIT_S 1
#define YIELD_MAX_MS  (INT64_C(3650) * 86400000) /* ten years are for ever, and do not overflow */

/* ---- Life ---------------------------------------------------------------- */

static enum tenure_status spawn_driver(tenure_elector *e, struct tenure_error *err)
{
    enum tenure_status status = tn_thread_start(&e->thread, tn_driver_main, e, err);

    e->threaded = !status;
    return status;
}

static void destroy(tenure_elector *e)
{
    tn_dispatch_destroy(&e->dispatch);
    tenure_store_close(e->store);
    tn_lease_seen_free(&e->seen);
    tenure_value_free(&e->buffer);
    tenure_value_free(&e->control);
    if (e->wake_fd >= 0)
        close(e->wake_fd);
    if (e->id_claim >= 0)
        close(e->id_claim);
    pthread_cond_destroy(&e->met);
    pthread_mutex_destroy(&e->lock);
    free(e);
}

enum tenure_status tn_driver_prepare(const struct tenure_elector_options *options,
                                     int64_t open_by_ns, tenure_elector **elector,
                                     struct tenure_error *err)
{
    tenure_elector *e = calloc(1, sizeof *e);
    struct tn_dispatch_calls calls = tn_driver_calls;
    enum tenure_status status;

    *elector = NULL;
    if (!e)
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    /* An older caller knows fewer members; the rest stay zero, the default. */
    memcpy(&e->options, options,
           options->size < sizeof e->options ? options->size : sizeof e->options);
    pthread_mutex_init(&e->lock, NULL);
    pthread_cond_init(&e->met, NULL);
    calls.arg = e;
    e->id_claim = -1;
    e->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    status = tn_dispatch_init(&e->dispatch, &calls, err);
    if (!status && e->wake_fd < 0)
        status = tenure_fail(err, TENURE_UNAVAILABLE, "cannot make an event descriptor: %s",
                             strerror(errno));
    if (!status)
        status = tn_driver_configure(e, err);
    e->open_by_ns = open_by_ns;
    if (!status && open_by_ns == 0) {
        status = tn_driver_open(e, err); /* first: to load a library is dearer beside threads */
        e->opened = true;
    }
    if (!status)
        status = spawn_driver(e, err);
    if (!status && !e->options.manual_dispatch)
        status = tn_dispatch_spawn(&e->dispatch, err);
    if (status)
        tenure_elector_stop(e);
    else
        *elector = e;
    return status;
}

enum tenure_status tn_driver_start(tenure_elector *e, const struct tn_driver_hooks *hooks,
                                   struct tenure_error *err)
{
    enum tenure_status status;
    struct timespec until;

    pthread_mutex_lock(&e->lock);
    if (hooks)
        e->hooks = *hooks;
    e->go = true;
    pthread_cond_broadcast(&e->met);
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += START_LIMIT_S;
    while (!e->opened && !e->unattended)
        e->unattended = pthread_cond_clockwait(&e->met, &e->lock, CLOCK_MONOTONIC, &until) != 0;
    status = e->found;
    if (status)
        *err = e->why;
    pthread_mutex_unlock(&e->lock);
    return status;
}

/* On the caller's own thread, whose locks a store of his may need, and the dynamic loader does. */
enum tenure_status tenure_elector_start(const struct tenure_elector_options *options,
                                        tenure_elector **elector, struct tenure_error *err)
{
    struct tenure_error scratch;
    tenure_elector *e;
    enum tenure_status status = tn_driver_prepare(options, 0, &e, err ? err : &scratch);

    if (!status)
        status = tn_driver_start(e, NULL, err ? err : &scratch);
    if (status)
        tenure_elector_stop(e);
    else
        *elector = e;
    return status;
}

void tn_driver_shutdown(tenure_elector *e)
{
    tn_driver_lock(e);
    e->requests.shutdown = true;
    pthread_cond_broadcast(&e->met); /* it may not contend yet */
    tn_driver_unlock_and_wake(e);
}

bool tn_driver_is_suffixed(const tenure_elector *e)
{
    return e->id_suffixed;
}

bool tn_driver_owes(tenure_elector *e)
{
    pthread_mutex_lock(&e->lock);
    bool owes = e->snapshot.owes;
    pthread_mutex_unlock(&e->lock);
    return owes;
}

void tenure_elector_stop(tenure_elector *e)
{
    if (!e)
        return;
    if (e->threaded) {
        tn_driver_shutdown(e);
        while (e->options.manual_dispatch && !atomic_load(&e->halted)) {
            struct epoll_event ready;

            tn_dispatch_run(&e->dispatch, true);
            epoll_wait(e->dispatch.poll_fd, &ready, 1, 100);
        }
        pthread_join(e->thread, NULL);
    }
    destroy(e);
}

/* ---- Asking -------------------------------------------------------------- */

bool tenure_elector_leads(const tenure_elector *e, uint64_t *epoch)
{
    int64_t until, again = atomic_load(&e->lead_until_ns);
    uint64_t of;

    /* publish() lowers the bound before the epoch changes and raises it afterwards: the same
     * bound before and after an epoch is that epoch's. */
    do {
        until = again;
        of = atomic_load(&e->epoch);
        again = atomic_load(&e->lead_until_ns);
    } while (until != again);
    /* The time is read after the bound: an older reading could only be kinder. */
    bool leads = until != 0 && tenure_now() < until;
    if (epoch)
        *epoch = leads ? of : 0;
    return leads;
}

/* For a second at most: a suspend stops this clock, not the deadline's. */
static void wait_for_change(tenure_elector *e, int64_t for_ns)
{
    struct timespec at;

    clock_gettime(CLOCK_MONOTONIC, &at);
    int64_t until = at.tv_sec * TN_S + at.tv_nsec + (for_ns < TN_S ? for_ns : TN_S);
    at.tv_sec = (time_t)(until / TN_S);
    at.tv_nsec = (long)(until % TN_S);
    pthread_cond_clockwait(&e->met, &e->lock, CLOCK_MONOTONIC, &at);
}

enum tenure_status tenure_elector_wait(tenure_elector *e, int64_t deadline,
                                       struct tenure_grant *grant, struct tenure_error *err)
{
    enum tenure_status status = TENURE_OK;

    pthread_mutex_lock(&e->lock);
    for (;;) {
        int64_t now = tenure_now();

        if (tn_snapshot_leads(&e->snapshot, now))
            break;
        if (atomic_load(&e->halted))
            status = tenure_fail(err, TENURE_CANCELLED, "%s: this candidate has ended", e->name);
        else if (now >= deadline)
            status = tenure_fail(err, TENURE_TIMEOUT, "%s: %s does not lead yet", e->name, e->id);
        if (status)
            break;
        wait_for_change(e, deadline - now);
    }
    if (!status && grant)
        *grant = e->snapshot.grant;
    pthread_mutex_unlock(&e->lock);
    return status;
}

int64_t tenure_elector_time_left(const tenure_elector *e)
{
    int64_t left = atomic_load(&e->deadline_ns) - tenure_now();

    return left > 0 ? left : 0;
}

void tenure_elector_yield(tenure_elector *e, int64_t for_ms)
{
    tn_driver_lock(e);
    e->requests.yield = true;
    if (for_ms > YIELD_MAX_MS)
        for_ms = YIELD_MAX_MS;
    e->requests.yield_until_ns = for_ms > 0 ? tenure_now() + for_ms * TN_MS : 0;
    tn_driver_unlock_and_wake(e);
}

void tenure_elector_set_healthy(tenure_elector *e, bool healthy)
{
    tn_driver_lock(e);
    e->requests.control = true;
    e->requests.unhealthy = !healthy;
    e->requests.step_down = !healthy;
    tn_driver_unlock_and_wake(e);
}

void tenure_elector_set_priority(tenure_elector *e, int32_t priority)
{
    tn_driver_lock(e);
    e->requests.priority = priority;
    tn_driver_unlock_and_wake(e);
}

void tenure_elector_fenced(tenure_elector *e, uint64_t floor)
{
    tn_driver_lock(e);
    /* Less than the epoch in hand is late news of an earlier term of ours. */
    if (floor >= e->snapshot.grant.epoch) {
        e->requests.fenced = true;
        e->requests.floor = floor;
        memcpy(e->requests.fenced_grant, e->snapshot.grant.id, TENURE_NONCE_SIZE);
    }
    tn_driver_unlock_and_wake(e);
}

void tn_driver_fired(tenure_elector *e)
{
    tn_driver_lock(e);
    e->requests.fired = true;
    tn_driver_unlock_and_wake(e);
}

void tn_driver_proved(tenure_elector *e, bool off)
{
    tn_driver_lock(e);
    e->requests.proved = true;
    e->requests.proof = off;
    tn_driver_unlock_and_wake(e);
}

void tn_driver_ended(tenure_elector *e, uint64_t epoch)
{
    tn_driver_lock(e);
    e->requests.ended = true;
    e->requests.ended_epoch = epoch;
    tn_driver_unlock_and_wake(e);
}

void tn_driver_control(tenure_elector *e, bool may_claim, int64_t delay_ns)
{
    tn_driver_lock(e);
    e->requests.control = true;
    e->requests.may_claim = may_claim;
    e->requests.claim_delay_ns = delay_ns;
    tn_driver_unlock_and_wake(e);
}

void tn_driver_snapshot(tenure_elector *e, struct tn_snapshot *snapshot)
{
    pthread_mutex_lock(&e->lock);
    *snapshot = e->snapshot;
    pthread_mutex_unlock(&e->lock);
}

void tenure_elector_status(tenure_elector *e, struct tenure_elector_status *status)
{
    struct tn_snapshot s;

    tn_driver_snapshot(e, &s);
    bool held = s.seen == TN_SEEN_HELD;
    struct tenure_elector_status whole = {.leader_epoch = held ? s.lease.epoch : 0,
                                          .renewals = s.renewals,
                                          .troubles = s.troubles,
                                          .deadline_ns = s.deadline_ns};
    memcpy(whole.id, s.id, sizeof whole.id);
    snprintf(whole.phase, sizeof whole.phase, "%s", tn_phase_word(s.phase));
    snprintf(whole.leader, sizeof whole.leader, "%s", held ? s.lease.holder : "");
    memcpy(whole.trouble, s.trouble, sizeof whole.trouble);
    tn_sized_copy(status, &whole, sizeof whole);
}

int tenure_elector_fd(const tenure_elector *e)
{
    return e->options.manual_dispatch ? e->dispatch.poll_fd : -1;
}

void tenure_elector_dispatch(tenure_elector *e)
{
    if (e->options.manual_dispatch)
        tn_dispatch_run(&e->dispatch, true);
}

bool tn_driver_dispatch(tenure_elector *e)
{
    return tn_dispatch_run(&e->dispatch, false) != TN_DISPATCH_SEAL;
}

void tn_driver_seal(tenure_elector *e)
{
    tn_dispatch_run_seal(&e->dispatch);
}

void tn_driver_stopped(tenure_elector *e)
{
    tn_dispatch_stopped(&e->dispatch);
}
