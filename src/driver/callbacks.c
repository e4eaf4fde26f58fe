/* The caller's callbacks and the seal, on a thread of their own or in the caller's loop. */
#include <string.h>
#include <unistd.h>

#include "driver/inner.h"

static struct tenure_term term_of(const tenure_elector *e, const struct tenure_grant *grant)
{
    return (struct tenure_term){e->name, e->id, grant->epoch, *grant};
}

static void call_started(void *arg, const struct tenure_grant *grant)
{
    tenure_elector *e = arg;
    struct tenure_term term = term_of(e, grant);

    if (e->options.started)
        e->options.started(e->options.arg, &term);
}

static bool call_stopped(void *arg, const struct tenure_grant *grant, enum tn_stop why)
{
    tenure_elector *e = arg;
    struct tenure_term term = term_of(e, grant);

    if (e->hooks.stopping)
        return e->hooks.stopping(e->hooks.arg, why);
    if (e->options.stopped)
        e->options.stopped(e->options.arg, &term, tn_stop_text(why));
    return true;
}

static void call_quiet(void *arg)
{
    tenure_elector *e = arg;

    if (e->hooks.quiet)
        e->hooks.quiet(e->hooks.arg);
    tn_driver_lock(e);
    e->requests.quiet = true;
    tn_driver_unlock_and_wake(e);
}

static void call_expired(void *arg, uint64_t epoch)
{
    tn_driver_ended(arg, epoch);
}

static void call_leader(void *arg, const char *leader, uint64_t epoch)
{
    tenure_elector *e = arg;

    if (e->options.new_leader && !atomic_load(&e->halted))
        e->options.new_leader(e->options.arg, leader, epoch);
}

static bool stop_pending(tenure_elector *e)
{
    pthread_mutex_lock(&e->dispatch.lock);
    bool pending = e->dispatch.stop;
    pthread_mutex_unlock(&e->dispatch.lock);
    return pending;
}

/* How often a seal that keeps failing is reported to the elector, which ends its wait. */
#define UNSEALED_NS (250 * TN_MS)

static void post_unsealed(tenure_elector *e, const uint8_t grant[TENURE_NONCE_SIZE], bool gained,
                          bool final)
{
    tn_driver_lock(e);
    e->requests.unsealed = true;
    e->requests.seal_gained |= gained;
    e->requests.seal_final |= final;
    memcpy(e->requests.unsealed_grant, grant, TENURE_NONCE_SIZE);
    tn_driver_unlock_and_wake(e);
}

/* Seal, then read (I4): nothing starts before the state refuses older epochs. */
static void call_seal(void *arg, const struct tenure_grant *grant)
{
    tenure_elector *e = arg;
    enum tenure_status status;
    struct tenure_error err;
    uint64_t floor = 0;
    int64_t told_ns = tenure_now();
    bool gained = false;

    for (;;) {
        bool got_on = false, final;

        status = e->hooks.seal(e->hooks.arg, grant->epoch, grant->id, &floor, &got_on, &err);
        if (status == TENURE_OK || status == TENURE_FENCED || stop_pending(e))
            break;
        gained |= got_on;
        final = tenure_status_class(status) == TENURE_CLASS_PERMANENT;
        if (final || tenure_now() - told_ns >= UNSEALED_NS) {
            post_unsealed(e, grant->id, gained, final);
            told_ns = tenure_now();
            gained = false;
        }
        if (final)
            break;
        usleep(50 * 1000);
        if (stop_pending(e)) /* a try that begins now would hold the stop up */
            break;
    }
    tn_driver_lock(e);
    if (status == TENURE_FENCED) {
        e->requests.fenced = true;
        e->requests.floor = floor;
        memcpy(e->requests.fenced_grant, grant->id, TENURE_NONCE_SIZE);
    } else if (status == TENURE_OK) {
        e->requests.sealed = true;
        memcpy(e->requests.sealed_grant, grant->id, TENURE_NONCE_SIZE);
    }
    tn_driver_unlock_and_wake(e);
}

const struct tn_dispatch_calls tn_driver_calls = {.seal = call_seal,
                                                  .started = call_started,
                                                  .stopped = call_stopped,
                                                  .all_quiet = call_quiet,
                                                  .expired = call_expired,
                                                  .new_leader = call_leader};
