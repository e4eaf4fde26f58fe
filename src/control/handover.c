/* A planned change of hands, from the outside: call, yield, watch, measure. */
#include <stdio.h>
#include <string.h>

#include "base/sized.h"
#include "control/control.h"
#include "tenure/lease.h"

#define MS INT64_C(1000000)

/* ---- The gap ------------------------------------------------------------- */

struct pair {
    const char *from, *to;
    uint64_t old_epoch, new_epoch;
    struct tenure_candidate old, new;
    bool ended, started;
};

static bool find_pair(void *arg, const struct tenure_candidate *c)
{
    struct pair *p = arg;

    if (strcmp(c->id, p->from) == 0 && c->ended_epoch == p->old_epoch) {
        p->old = *c;
        p->ended = true;
    }
    if (strcmp(c->id, p->to) == 0 && c->started_epoch == p->new_epoch) {
        p->new = *c;
        p->started = true;
    }
    return true;
}

/* Both tell it a moment later, so that they lose no time when it matters. */
static void measure(tenure_store *store, const char *name, uint64_t old_epoch,
                    struct tenure_handover *r, int64_t deadline)
{
    struct pair p = {.from = r->from, .to = r->to, .old_epoch = old_epoch, .new_epoch = r->epoch};
    struct tn_candidates_watch watch;

    r->gap_ns = -1;
    for (;;) {
        if (tn_candidates_list(store, name, find_pair, &p, &watch, deadline, NULL) ||
            (p.ended && p.started) || tenure_now() >= deadline)
            break;
        tn_candidates_wait(store, &watch, deadline);
    }
    if (!p.ended || !p.started)
        return;
    r->same_clock = strcmp(p.old.boot, p.new.boot) == 0 && p.old.boot[0];
    r->gap_ns = r->same_clock ? p.new.started_ns - p.old.ended_ns
                              : ((int64_t)p.new.started_ms - (int64_t)p.old.ended_ms) * MS;
}

/* ---- The change of hands ------------------------------------------------- */

static enum tenure_status check(tenure_store *store, const char *name, const char *to,
                                const struct tenure_lease_view *lease, int64_t deadline,
                                struct tenure_error *err)
{
    struct tenure_control control = TENURE_CONTROL;
    enum tenure_status status = tenure_control_look(store, name, &control, deadline, err);

    if (status)
        return status;
    if (lease->state == TENURE_LEASE_REFUSED)
        return tenure_fail(err, TENURE_CORRUPT, "%s: who leads is not known: %.180s", name,
                           lease->trouble);
    if (lease->state != TENURE_LEASE_HELD)
        return tenure_fail(err, TENURE_NOT_LEADER, "%s: nobody leads, so nobody can hand over",
                           name);
    if (control.paused)
        return tenure_fail(err, TENURE_CONFLICT, "%s is paused: `tenure resume` first", name);
    if (to && strcmp(to, lease->holder) == 0)
        return tenure_fail(err, TENURE_INVALID, "%s leads already", to);
    return TENURE_OK;
}

/* Until a term that began after that epoch is held. */
static enum tenure_status await(tenure_store *store, const char *name, uint64_t epoch,
                                struct tenure_lease_view *lease, int64_t deadline,
                                struct tenure_error *err)
{
    for (;;) {
        enum tenure_status status = tenure_lease_look(store, name, lease, deadline, err);

        if (!status && lease->state == TENURE_LEASE_HELD && lease->epoch > epoch)
            return TENURE_OK;
        if (tenure_now() >= deadline)
            return status
                       ? status
                       : tenure_fail(err, TENURE_TIMEOUT,
                                     "%s: the leader was asked to go, but nobody leads yet", name);
        int64_t until = tenure_now() + 200 * MS;
        tenure_lease_wait(store, name, lease, -1, until < deadline ? until : deadline, NULL);
    }
}

enum tenure_status tenure_handover(tenure_store *store, const char *name, const char *to,
                                   struct tenure_handover *result, int64_t deadline,
                                   struct tenure_error *err)
{
    struct tenure_lease_view lease = TENURE_LEASE_VIEW;
    struct tenure_candidate chosen = TENURE_CANDIDATE;
    struct tenure_handover r = TENURE_HANDOVER;
    enum tenure_status status;
    uint64_t epoch;

    status = tn_sized_check(result->size, "TENURE_HANDOVER", err);
    if (!status)
        status = tenure_lease_look(store, name, &lease, deadline, err);
    if (!status)
        status = check(store, name, to, &lease, deadline, err);
    if (status)
        return status;
    epoch = lease.epoch;
    snprintf(r.from, sizeof r.from, "%s", lease.holder);
    /* Who waits answers within a notification; five seconds also cover a poll. */
    int64_t patience = tenure_now() + 5000 * MS;
    status = tenure_control_call(store, name, to, &chosen,
                                 patience < deadline ? patience : deadline, err);
    if (!status)
        status = tenure_control_yield(store, name, epoch, chosen.id, 0, deadline, err);
    if (!status)
        status = await(store, name, epoch, &lease, deadline, err);
    if (status)
        return status;
    snprintf(r.to, sizeof r.to, "%s", lease.holder);
    r.epoch = lease.epoch;
    r.as_asked = strcmp(lease.holder, chosen.id) == 0;
    int64_t limit = tenure_now() + 3000 * MS;
    measure(store, name, epoch, &r, limit < deadline ? limit : deadline);
    tn_sized_copy(result, &r, sizeof r);
    return TENURE_OK;
}
