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

/* ---- Waiting ------------------------------------------------------------- */

static bool waits(const struct tn_supervisor *s)
{
    const struct tn_machine *m = &s->machine;

    return s->options->once && !m->ran && m->epoch == 0 && m->life == TN_LIFE_ACTIVE;
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
        tn_log("failed", "not acquired in time%s%s", trouble[0] ? ": " : "", trouble);
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

    if (!waits(s) || !(once->try_only || s->last_look))
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
    if (status == TENURE_OK)
        s->idle_epoch = wanted ? 0 : epoch;
    else if (status != TENURE_FENCED && s->unsealed_epoch != epoch)
        tn_supervisor_unsealed(s, err->text);
    s->unsealed_epoch = status && status != TENURE_FENCED ? epoch : 0;
    return status;
}

void tn_supervisor_once_hooks(struct tn_supervisor *s, struct tn_driver_hooks *hooks)
{
    if (s->options->once && s->options->once->begin)
        hooks->seal = on_begin;
}

void tn_supervisor_once_ended(struct tn_supervisor *s, int code, bool by_itself)
{
    const struct tn_once *once = s->options->once;
    int64_t by = tenure_now() + ENDED_NS, deadline = atomic_load(&s->deadline_ns);

    if (!once || !once->ended)
        return;
    if (deadline < by)
        by = deadline;
    once->ended(once->arg, code, by_itself, by);
}
