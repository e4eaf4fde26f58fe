/* jobs/driver_commits.c - checkpoints on their way: those of one job in their order. */
#include <stdlib.h>
#include <string.h>

#include "jobs/driver_inner.h"

static void answer(tn_jobs_driver *d, struct tn_commit *c, enum tenure_status status,
                   const char *why)
{
    struct tenure_error err = {0};

    if (c->answered)
        return;
    c->answered = true;
    if (status)
        tenure_fail(&err, status, "%s", why);
    if (d->hooks.committed)
        d->hooks.committed(d->hooks.arg, c->job, c->ticket, status, &err);
}

static void pop(struct tn_side *side)
{
    struct tn_commit *first = side->commits;

    side->commits = first->next;
    free(first);
}

static const struct tn_held *run_of(const tn_jobs_driver *d, uint32_t number, uint64_t epoch)
{
    uint32_t at = number < d->jobs_max ? d->worker.cfg.known[number].held : 0;
    const struct tn_held *h = at ? &d->worker.cfg.held[at - 1] : NULL;

    return h && h->program != TN_PROGRAM_NONE && !h->fenced && h->epoch == epoch ? h : NULL;
}

void tn_jobs_add_commit(tn_jobs_driver *d, struct tn_commit *c)
{
    struct tn_side *side = run_of(d, c->job, c->epoch) ? tn_jobs_side(d, c->job) : NULL;
    struct tn_commit **end;

    c->next = NULL;
    if (!side) {
        answer(d, c, TENURE_FENCED, "the job is not this worker's any more");
        free(c);
        return;
    }
    for (end = &side->commits; *end; end = &(*end)->next)
        continue;
    *end = c;
    if (c == side->commits)
        tn_jobs_push(&d->again, &d->again_count, &d->again_room, c->job);
}

void tn_jobs_committed(tn_jobs_driver *d, uint32_t number)
{
    struct tn_side *side = d->sides[number];

    if (!side || !side->commits)
        return;
    answer(d, side->commits, TENURE_OK, "");
    pop(side);
    if (side->commits)
        tn_jobs_push(&d->again, &d->again_count, &d->again_room, number);
    pthread_mutex_lock(&d->lock);
    d->status.commits++;
    pthread_mutex_unlock(&d->lock);
}

void tn_jobs_keep_commit(tn_jobs_driver *d, uint32_t number)
{
    struct tn_side *side = d->sides[number];

    if (!side || !side->commits)
        return;
    /* Without memory the bytes that a release would carry are unknown: better to end here. */
    if (!tn_jobs_set_checkpoint(d, number, side->commits->data, side->commits->len))
        abort();
    side = d->sides[number];
    if (side->commits->answered) /* its program is dead: nobody waits for the core's word */
        pop(side);
}

/* The core has the first one due, out or in doubt: it may be stored, though its program is dead. */
static bool may_be_stored(const tn_jobs_driver *d, const struct tn_commit *c)
{
    uint32_t at = d->worker.cfg.known[c->job].held;
    const struct tn_held *h = at ? &d->worker.cfg.held[at - 1] : NULL;

    return c->sent || (h && !h->fenced && h->epoch == c->epoch && h->purpose == TN_SWAP_COMMIT &&
                       h->request != TN_REQUEST_NONE);
}

void tn_jobs_fail_commits(tn_jobs_driver *d, uint32_t number, const char *why)
{
    struct tn_side *side = d->sides[number];

    for (struct tn_commit *c = side ? side->commits : NULL; c; c = c->next) {
        bool unknown = c == side->commits && may_be_stored(d, c);

        answer(d, c, unknown ? TENURE_UNKNOWN : TENURE_FENCED, why);
    }
    /* The bytes of the first may still be asked for. */
    while (side && side->commits && side->commits->next) {
        struct tn_commit *second = side->commits->next;

        side->commits->next = second->next;
        free(second);
    }
}
