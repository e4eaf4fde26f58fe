/* A command that runs once: how long it waits, and what its owner does around it. */
#include <stdio.h>
#include <string.h>

#include "core/timing.h"
#include "driver/driver.h"
#include "supervise/supervisor_inner.h"

/* So long for the first look at the lease, if the wait was shorter. */
#define LOOK_NS  (5 * TN_S)
/* How long the owner may take to write down how it went. */
#define ENDED_NS (5 * TN_S)
/* How often to look whether a lease that was ours when the wait ended still is. */
#define OURS_NS  (100 * TN_MS)

/* ---- Waiting ------------------------------------------------------------- */

static bool waits(const struct tn_supervisor *s)
{
    const struct tn_machine *m = &s->machine;

    return s->options->once && !m->ran && m->epoch == 0 && m->life == TN_LIFE_ACTIVE;
}

/* It counts only until the lease is ours: what was begun by then is not given up. */
static bool is_ours(const struct tn_supervisor *s)
{
    struct tn_snapshot now;

    tn_driver_snapshot(s->elector, &now);
    return now.phase == TN_PHASE_SEALING || now.phase == TN_PHASE_LEADING ||
           now.phase == TN_PHASE_STOPPING || now.phase == TN_PHASE_RELEASING;
}

static void give_up(struct tn_supervisor *s, int code)
{
    s->options->once->taken = true;
    tn_supervisor_step(s, &(struct tn_machine_event){.kind = TN_ON_GIVEN_UP, .code = code});
}

/* The last leader that was seen, or the pause, is why. */
static void on_waited(void *arg, int64_t now)
{
    struct tn_supervisor *s = arg;
    const struct tn_once *once = s->options->once;
    char leader[TENURE_ID_MAX + 1], trouble[TN_OUTAGE_TEXT];

    if (!waits(s))
        return;
    if (is_ours(s)) {
        s->waited.at_ns = now + OURS_NS;
        return;
    }
    pthread_mutex_lock(&s->inbox.lock);
    memcpy(leader, s->inbox.leader, sizeof leader);
    memcpy(trouble, s->inbox.trouble, sizeof trouble);
    pthread_mutex_unlock(&s->inbox.lock);
    bool held = leader[0] && strcmp(leader, s->id) != 0;
    if (!held && !trouble[0] && !s->paused && !once->try_only && !s->last_look) {
        /* A short wait, or a slow machine: the lease has not been read yet. */
        s->last_look = true;
        s->waited.at_ns = now + LOOK_NS;
        return;
    }
    if (trouble[0] || !(held || s->paused)) {
        const char *why = trouble[0] ? trouble : s->unsealed ? s->self.trouble : "";

        tn_log("failed", "not acquired in time%s%s", why[0] ? ": " : "", why);
        give_up(s, s->codes->gave_up);
        return;
    }
    if (!once->quiet)
        tn_log("taken", "not acquired in time: %s%s", s->paused ? "it is paused" : "held by ",
               s->paused ? "" : leader);
    give_up(s, once->code_taken);
}

void tn_supervisor_once_open(struct tn_supervisor *s)
{
    tn_loop_timer(&s->loop, &s->waited, on_waited, s);
    if (s->options->once)
        s->waited.at_ns = s->options->once->until_ns;
}

void tn_supervisor_once_held(struct tn_supervisor *s, const char *by)
{
    const struct tn_once *once = s->options->once;

    if (!waits(s) || !(once->try_only || s->last_look) || is_ours(s))
        return;
    if (!once->quiet)
        tn_log("taken", "%s%s", by[0] ? "held by " : "it is paused", by);
    give_up(s, once->code_taken);
}

/* ---- Its owner ----------------------------------------------------------- */

static enum tenure_status on_begin(void *arg, uint64_t epoch,
                                   const uint8_t grant[TENURE_NONCE_SIZE], uint64_t *floor,
                                   bool *gained, struct tenure_error *err)
{
    struct tn_supervisor *s = arg;
    const struct tn_once *once = s->options->once;
    struct tenure_grant held = {.epoch = epoch};
    bool wanted = true;

    memcpy(held.id, grant, sizeof held.id);
    *gained = false;
    enum tenure_status status = once->begin(once->arg, &held, &wanted, floor, err);
    if (status == TENURE_OK) {
        s->idle_epoch = wanted ? 0 : epoch;
        atomic_store(&s->begun, wanted);
    } else if (status != TENURE_FENCED && s->unsealed_epoch != epoch)
        tn_supervisor_unsealed(s, err->text);
    s->unsealed_epoch = status && status != TENURE_FENCED ? epoch : 0;
    return status;
}

void tn_supervisor_once_hooks(struct tn_supervisor *s, struct tn_driver_hooks *hooks)
{
    if (s->options->once && s->options->once->begin)
        hooks->seal = on_begin;
    if (s->options->once && s->options->once->not_run)
        hooks->quiet = tn_supervisor_once_released;
}

/* Not beyond the term: then it is somebody else's to write. */
static int64_t write_by(const struct tn_supervisor *s)
{
    int64_t by = tenure_now() + ENDED_NS, deadline = atomic_load(&s->deadline_ns);

    return deadline < by ? deadline : by;
}

void tn_supervisor_once_released(void *arg)
{
    struct tn_supervisor *s = arg;
    const struct tn_once *once = s->options->once;

    if (atomic_exchange(&s->begun, false) && once->not_run)
        once->not_run(once->arg, write_by(s));
}

void tn_supervisor_once_ended(struct tn_supervisor *s, int code, bool by_itself)
{
    const struct tn_once *once = s->options->once;

    atomic_store(&s->begun, false);
    if (once && once->ended)
        once->ended(once->arg, code, by_itself, write_by(s));
}
