/* The public elector: options in, a driver and its callbacks' thread out. */
#include "tenure/elector.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/hex.h"
#include "base/name.h"
#include "driver/inner.h"
#include "driver/timing_text.h"
#include "os/thread.h"

#define OPEN_LIMIT_NS (5 * TN_S)
/* The caller of tn_driver_start() waits so long for the first try: it has signals to answer. */
#define START_LIMIT_S 1
#define YIELD_MAX_MS  (INT64_C(3650) * 86400000) /* ten years are for ever, and do not overflow */

/* ---- Options ------------------------------------------------------------- */

static enum tenure_status copy_text(char *to, size_t size, const char *what, const char *text,
                                    struct tenure_error *err)
{
    if (!text)
        text = "";
    if (strlen(text) >= size)
        return tenure_fail(err, TENURE_CONFIG, "%s is longer than %zu bytes", what, size - 1);
    for (const char *p = text; *p; p++) {
        if ((unsigned char)*p < 0x20 || (unsigned char)*p > 0x7e)
            return tenure_fail(err, TENURE_CONFIG, "%s must be printable ASCII", what);
    }
    snprintf(to, size, "%s", text);
    return TENURE_OK;
}

/* Unique without anybody's help: host, process, and four random digits. */
static enum tenure_status default_id(char *out, size_t size, const uint8_t *incarnation)
{
    char host[64] = "host", digits[5];

    if (gethostname(host, sizeof host) != 0 || !host[0])
        snprintf(host, sizeof host, "host");
    host[sizeof host - 1] = '\0';
    tn_hex_encode(incarnation, 2, digits);
    snprintf(out, size, "%s-%d-%s", host, (int)getpid(), digits);
    return TENURE_OK;
}

static enum tenure_status plan_timing(const struct tenure_elector_options *o,
                                      const struct tenure_store_info *info, struct tn_timing *out,
                                      struct tenure_error *err)
{
    struct tn_timing_wish wish = {
        .rho_ppm = o->rho_ppm,
        .notifies = info->notifies,
    };
    const struct {
        int64_t ms;
        int64_t *ns;
    } spans[] = {{o->ttl_ms, &wish.ttl_ns},
                 {o->renew_ms, &wish.renew_ns},
                 {o->grace_ms, &wish.grace_ns},
                 {o->kill_ms, &wish.kill_ns}};

    for (size_t i = 0; i < sizeof spans / sizeof spans[0]; i++) {
        if (spans[i].ms < 0 || spans[i].ms > 86400000)
            return tenure_fail(err, TENURE_CONFIG,
                               "a time of %lld ms is out of range: give 0 (choose) to a day",
                               (long long)spans[i].ms);
        *spans[i].ns = spans[i].ms * TN_MS;
    }
    enum tenure_status status = tn_timing_explain(tn_timing_plan(&wish, out), out, err);
    if (!status && out->ttl_ns < (int64_t)info->ttl_min_ms * TN_MS)
        status = tenure_fail(err, TENURE_CONFIG, "ttl is too short for %s: give at least %u ms",
                             info->scheme, info->ttl_min_ms);
    if (!status && info->ttl_step_ms && out->ttl_ns % ((int64_t)info->ttl_step_ms * TN_MS) != 0)
        status = tenure_fail(err, TENURE_CONFIG,
                             "ttl %lld ms cannot be kept by %s: give a whole number of seconds, "
                             "such as %llds",
                             (long long)(out->ttl_ns / TN_MS), info->scheme,
                             (long long)(out->ttl_ns / TN_S + 1));
    return status;
}

static enum tenure_status configure(tenure_elector *e, struct tenure_error *err)
{
    const struct tenure_elector_options *o = &e->options;
    struct tn_elector_config *cfg = &e->machine.cfg;
    enum tenure_status status;

    if ((status = tenure_nonce(cfg->incarnation, err)) ||
        (status = copy_text(cfg->id, sizeof cfg->id, "id", o->id, err)) ||
        (status = copy_text(cfg->address, sizeof cfg->address, "address", o->address, err)) ||
        (status = copy_text(cfg->build, sizeof cfg->build, "build", o->build, err)))
        return status;
    if (!cfg->id[0])
        default_id(cfg->id, sizeof cfg->id, cfg->incarnation);
    const char *fault = tn_name_fault(o->name);
    if (fault)
        return tenure_fail(err, TENURE_CONFIG, "'%.60s' cannot be the name of an election: %s",
                           o->name ? o->name : "", fault);
    snprintf(e->name, sizeof e->name, "%s", o->name);
    snprintf(e->id, sizeof e->id, "%s", cfg->id);
    snprintf(e->snapshot.name, sizeof e->snapshot.name, "%s", o->name);
    snprintf(e->snapshot.id, sizeof e->snapshot.id, "%s", cfg->id);
    memcpy(e->snapshot.incarnation, cfg->incarnation, sizeof e->snapshot.incarnation);
    cfg->priority = o->priority;
    cfg->drain_ns = (o->grace_ms ? o->grace_ms : 8000) * TN_MS;
    return TENURE_OK;
}

enum tenure_status tn_driver_open(tenure_elector *e, struct tenure_error *err)
{
    const char *url = e->options.store ? e->options.store : "noop:";
    struct tn_elector_config cfg = e->machine.cfg;
    enum tenure_status status =
        tenure_store_open(url, tenure_now() + OPEN_LIMIT_NS, &e->store, err);

    if (status)
        return status;
    pthread_mutex_lock(&e->lock);
    tenure_store_info(e->store, &e->info);
    status = plan_timing(&e->options, &e->info, &cfg.timing, err);
    e->planned = !status;
    pthread_mutex_unlock(&e->lock);
    if (!status)
        tn_elector_init(&e->machine, &cfg);
    return status;
}

/* ---- Callbacks, on their own thread -------------------------------------- */

static void call_started(void *arg, uint64_t epoch)
{
    tenure_elector *e = arg;
    struct tenure_term term = {e->name, e->id, epoch};

    if (e->options.started)
        e->options.started(e->options.arg, &term);
}

static void call_stopped(void *arg, uint64_t epoch, enum tn_stop why)
{
    tenure_elector *e = arg;
    struct tenure_term term = {e->name, e->id, epoch};

    if (e->options.stopped)
        e->options.stopped(e->options.arg, &term, tn_stop_text(why));
}

static void call_quiet(void *arg)
{
    tenure_elector *e = arg;

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

/* How often a seal that goes on failing is told to the elector, whose wait it ends. */
#define UNSEALED_NS (250 * TN_MS)

static void tell_unsealed(tenure_elector *e, const uint8_t grant[TENURE_NONCE_SIZE], bool gained,
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
static void call_seal(void *arg, uint64_t epoch, const uint8_t grant[TENURE_NONCE_SIZE])
{
    tenure_elector *e = arg;
    enum tenure_status status;
    struct tenure_error err;
    uint64_t floor = 0;
    int64_t told_ns = tenure_now();
    bool gained = false;

    for (;;) {
        bool got_on = false, final;

        status = e->hooks.seal(e->hooks.arg, epoch, grant, &floor, &got_on, &err);
        if (status == TENURE_OK || status == TENURE_FENCED || stop_pending(e))
            break;
        gained |= got_on;
        final = tenure_status_class(status) == TENURE_CLASS_PERMANENT;
        if (final || tenure_now() - told_ns >= UNSEALED_NS) {
            tell_unsealed(e, grant, gained, final);
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
        memcpy(e->requests.fenced_grant, grant, TENURE_NONCE_SIZE);
    } else if (status == TENURE_OK) {
        e->requests.sealed = true;
        memcpy(e->requests.sealed_grant, grant, TENURE_NONCE_SIZE);
    }
    tn_driver_unlock_and_wake(e);
}

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
    pthread_cond_destroy(&e->met);
    pthread_mutex_destroy(&e->lock);
    free(e);
}

enum tenure_status tn_driver_prepare(const struct tenure_elector_options *options,
                                     int64_t open_by_ns, tenure_elector **elector,
                                     struct tenure_error *err)
{
    tenure_elector *e = calloc(1, sizeof *e);
    enum tenure_status status;

    *elector = NULL;
    if (!e)
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    /* An older caller knows fewer members; the rest stay zero, the default. */
    memcpy(&e->options, options,
           options->size < sizeof e->options ? options->size : sizeof e->options);
    pthread_mutex_init(&e->lock, NULL);
    pthread_cond_init(&e->met, NULL);
    e->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    status = tn_dispatch_init(&e->dispatch,
                              &(struct tn_dispatch_calls){.arg = e,
                                                          .seal = call_seal,
                                                          .started = call_started,
                                                          .stopped = call_stopped,
                                                          .all_quiet = call_quiet,
                                                          .expired = call_expired,
                                                          .new_leader = call_leader},
                              err);
    if (!status && e->wake_fd < 0)
        status = tenure_fail(err, TENURE_UNAVAILABLE, "cannot make an event descriptor: %s",
                             strerror(errno));
    if (!status)
        status = configure(e, err);
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

enum tenure_status tn_driver_retime(tenure_elector *e, const struct tenure_elector_options *options,
                                    _Atomic int64_t *notice_ns, struct tenure_error *err)
{
    struct tn_timing timing;

    pthread_mutex_lock(&e->lock);
    struct tenure_store_info info = e->info;
    pthread_mutex_unlock(&e->lock);
    enum tenure_status status = plan_timing(options, &info, &timing, err);
    if (status)
        return status;
    /* Before the driver knows: the lower ttl lowers the deadline as it is sent, and a guard that
     * still gave the longer notice would end the program there and then (I12). */
    if (timing.grace_ns < atomic_load(notice_ns))
        atomic_store(notice_ns, timing.grace_ns);
    tn_driver_lock(e);
    if (e->planned) {
        e->requests.retime = true;
        e->requests.timing = timing;
    } else { /* planned when the store is open */
        e->options.ttl_ms = options->ttl_ms;
        e->options.renew_ms = options->renew_ms;
        e->options.grace_ms = options->grace_ms;
        e->options.kill_ms = options->kill_ms;
    }
    tn_driver_unlock_and_wake(e);
    return TENURE_OK;
}

void tn_driver_shutdown(tenure_elector *e)
{
    tn_driver_lock(e);
    e->requests.shutdown = true;
    pthread_cond_broadcast(&e->met); /* it may not contend yet */
    tn_driver_unlock_and_wake(e);
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

            tn_dispatch_run(&e->dispatch);
            epoll_wait(e->dispatch.poll_fd, &ready, 1, 100);
        }
        pthread_join(e->thread, NULL);
    }
    destroy(e);
}

/* ---- Asking -------------------------------------------------------------- */

bool tenure_elector_is_leader(const tenure_elector *e)
{
    /* The time is read after the bound: an older reading could only be kinder. */
    int64_t until = atomic_load(&e->lead_until_ns);

    return until != 0 && tenure_now() < until;
}

uint64_t tenure_elector_epoch(const tenure_elector *e)
{
    uint64_t epoch = atomic_load(&e->epoch);

    return tenure_elector_is_leader(e) ? epoch : 0;
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
    *status = (struct tenure_elector_status){.leader_epoch = held ? s.lease.epoch : 0,
                                             .renewals = s.renewals,
                                             .troubles = s.troubles,
                                             .deadline_ns = s.deadline_ns};
    memcpy(status->id, s.id, sizeof status->id);
    snprintf(status->phase, sizeof status->phase, "%s", tn_phase_word(s.phase));
    snprintf(status->leader, sizeof status->leader, "%s", held ? s.lease.holder : "");
    memcpy(status->trouble, s.trouble, sizeof status->trouble);
}

int tenure_elector_fd(const tenure_elector *e)
{
    return e->options.manual_dispatch ? e->dispatch.poll_fd : -1;
}

void tenure_elector_dispatch(tenure_elector *e)
{
    if (e->options.manual_dispatch)
        tn_dispatch_run(&e->dispatch);
}
