/* jobs/driver_moves.c - what a new plan moves, and why: for people and metrics. */
#include <stdlib.h>
#include <string.h>

#include "jobs/driver_inner.h"
#include "jobs/view.h"
#include "os/clock.h"

#define NOBODY UINT32_MAX

const char *tn_move_cause_word(enum tn_move_cause cause)
{
    static const char *const words[TN_MOVE_CAUSES] = {
        "placed", "rebalanced", "died", "left", "drained", "evicted", "lost", "paused", "unplaced"};

    return words[cause];
}

static int by_id(const void *id, const void *peer)
{
    return strcmp(id, ((const struct tn_peer *)peer)->id);
}

uint32_t tn_jobs_peer(const tn_jobs_driver *d, const char *id)
{
    const struct tn_worker *w = &d->worker;
    const struct tn_peer *p =
        w->peer_count ? bsearch(id, w->cfg.peers, w->peer_count, sizeof *p, by_id) : NULL;

    return p ? (uint32_t)(p - w->cfg.peers) : NOBODY;
}

/* ---- A new plan ---------------------------------------------------------- */

/* Ids, not places: the table of members may shift before the causes are known. */
static uint32_t *keep_ids(tn_jobs_driver *d, const struct tn_plan_record *plan)
{
    struct tn_observed *o = &d->observed;
    uint32_t peers = d->worker.peer_count;
    uint32_t *places = calloc((size_t)plan->member_count + 1, sizeof *places);
    void *ids = calloc((size_t)peers + plan->member_count + 1, sizeof o->ids[0]);

    if (!places || !ids) {
        free(places);
        free(ids);
        return NULL;
    }
    free(o->ids);
    o->ids = ids;
    o->id_count = peers;
    for (uint32_t at = 0; at < peers; at++)
        memcpy(o->ids[at], d->worker.cfg.peers[at].id, sizeof o->ids[0]);
    for (uint32_t i = 0; i < plan->member_count; i++) {
        places[i] = tn_jobs_peer(d, plan->members[i]);
        if (places[i] != NOBODY)
            continue;
        places[i] = o->id_count++;
        memcpy(o->ids[places[i]], plan->members[i], sizeof o->ids[0]);
    }
    return places;
}

static bool add_pending(struct tn_observed *o, struct tn_pending_move move)
{
    if (o->pending_count == o->pending_room) {
        size_t room = o->pending_room ? 2 * o->pending_room : 64;
        struct tn_pending_move *grown = realloc(o->pending, room * sizeof *grown);

        if (!grown)
            return false;
        o->pending = grown;
        o->pending_room = room;
    }
    o->pending[o->pending_count++] = move;
    return true;
}

/* Of the first plan that is seen only what it gives to us is news: what was before is not known.
 * Whoever has no memory for it shows fewer moves. */
static void compare(tn_jobs_driver *d, const struct tn_plan_record *plan, bool first)
{
    struct tn_observed *o = &d->observed;
    uint32_t *places = keep_ids(d, plan);
    bool kept = places != NULL;

    o->plan = plan->seq;
    for (uint32_t j = 0; kept && j < d->jobs_max; j++) {
        uint16_t was = d->worker.cfg.known[j].slot;
        uint16_t is = j < plan->job_count ? plan->slots[j] : TN_SLOT_NONE;
        uint32_t from = was == TN_SLOT_NONE ? NOBODY : was;
        uint32_t to = is == TN_SLOT_NONE || is >= plan->member_count ? NOBODY : places[is];

        if (from != to && (!first || (to != NOBODY && strcmp(o->ids[to], d->id) == 0)))
            kept = add_pending(o, (struct tn_pending_move){.job = j, .from = from, .to = to});
    }
    free(places);
}

/* ---- Causes -------------------------------------------------------------- */

enum tn_move_cause tn_jobs_owner_cause(const tn_jobs_driver *d, const char *id)
{
    uint32_t at = tn_jobs_peer(d, id);
    const struct tn_member *r = at == NOBODY ? NULL : &d->worker.cfg.records[at];

    if (!r || !d->worker.cfg.peers[at].present || d->worker.cfg.peers[at].damaged ||
        r->mark == TN_MARK_PLACEHOLDER)
        return TN_MOVE_LOST;
    if (r->mark == TN_MARK_EVICTED)
        return TN_MOVE_EVICTED;
    if (r->state == TN_MEMBER_DEAD)
        return TN_MOVE_DIED;
    if (r->state == TN_MEMBER_LEFT)
        return TN_MOVE_LEFT;
    return r->draining ? TN_MOVE_DRAINED : TN_MOVE_REBALANCED;
}

/* By the records that were read after the plan. */
static enum tn_move_cause cause_of(const tn_jobs_driver *d, const struct tn_pending_move *move)
{
    const struct tn_known *k = &d->worker.cfg.known[move->job];

    if (move->to == NOBODY)
        return k->listed && k->wanted == TN_WANTED_RUNNING ? TN_MOVE_UNPLACED : TN_MOVE_PAUSED;
    if (move->from == NOBODY)
        return TN_MOVE_PLACED;
    return tn_jobs_owner_cause(d, d->observed.ids[move->from]);
}

/* Moves are told by whom they are about: the one that got the jobs, or the one that had them. */
static bool is_about_receiver(enum tn_move_cause cause)
{
    return cause == TN_MOVE_PLACED || cause == TN_MOVE_REBALANCED;
}

static struct tn_move *group_of(struct tn_observed *o, uint64_t first, enum tn_move_cause cause,
                                const char *from, const char *to)
{
    uint64_t oldest = o->kept_count > TN_MOVES_KEPT ? o->kept_count - TN_MOVES_KEPT : 0;
    struct tn_move *m;

    for (uint64_t i = first > oldest ? first : oldest; i < o->kept_count; i++) {
        m = &o->kept[i % TN_MOVES_KEPT];
        if (m->cause == cause && strcmp(is_about_receiver(cause) ? m->to : m->from,
                                        is_about_receiver(cause) ? to : from) == 0)
            return m;
    }
    m = &o->kept[o->kept_count++ % TN_MOVES_KEPT];
    *m = (struct tn_move){.at_ms = (int64_t)tn_wall_ms(), .plan = o->plan, .cause = cause};
    memcpy(m->from, from, strlen(from) + 1);
    memcpy(m->to, to, strlen(to) + 1);
    return m;
}

static void keep_move(tn_jobs_driver *d, const struct tn_pending_move *move, uint64_t first)
{
    struct tn_observed *o = &d->observed;
    const char *from = move->from == NOBODY ? "" : o->ids[move->from];
    const char *to = move->to == NOBODY ? "" : o->ids[move->to];
    enum tn_move_cause cause = cause_of(d, move);
    struct tn_move *m = group_of(o, first, cause, from, to);
    const char *id = tn_jobs_id_of(d, move->job, NULL);

    m->from_several |= strcmp(m->from, from) != 0;
    m->to_several |= strcmp(m->to, to) != 0;
    if (m->count < sizeof m->jobs / sizeof m->jobs[0] && id)
        memcpy(m->jobs[m->count], id, strlen(id) + 1);
    m->count++;
    if (strcmp(to, d->id) == 0) {
        pthread_mutex_lock(&d->lock);
        d->status.moves[cause]++;
        pthread_mutex_unlock(&d->lock);
    }
}

static void settle(tn_jobs_driver *d)
{
    struct tn_observed *o = &d->observed;
    uint64_t first = o->kept_count;

    if (o->pending_count && !o->kept)
        o->kept = calloc(TN_MOVES_KEPT, sizeof *o->kept);
    for (size_t i = 0; o->kept && i < o->pending_count; i++)
        keep_move(d, &o->pending[i], first);
    free(o->pending);
    o->pending = NULL;
    o->pending_count = o->pending_room = 0;
}

/* ---- Events -------------------------------------------------------------- */

void tn_jobs_moves_before(tn_jobs_driver *d, const struct tn_work_event *ev)
{
    const struct tn_worker *w = &d->worker;

    if (!d->observed.on || ev->kind != TN_WORK_PLAN || ev->status || !ev->plan ||
        (w->planned && tenure_token_equal(&w->plan_token, &ev->token)))
        return;
    settle(d); /* of the plan before, if its round was cut short */
    compare(d, ev->plan, !w->planned);
}

void tn_jobs_moves_after(tn_jobs_driver *d, const struct tn_work_event *ev)
{
    if (ev->kind == TN_WORK_CATALOGUE && !ev->status && d->observed.pending_count)
        settle(d);
}

void tn_jobs_moves_started(tn_jobs_driver *d, uint32_t number)
{
    struct tn_observed *o = &d->observed;

    if (!o->on)
        return;
    pthread_mutex_lock(&d->table_lock);
    if (number >= o->since_room) {
        int64_t *grown = realloc(o->since_ms, d->jobs_max * sizeof *grown);

        if (grown) {
            memset(grown + o->since_room, 0, (d->jobs_max - o->since_room) * sizeof *grown);
            o->since_ms = grown;
            o->since_room = d->jobs_max;
        }
    }
    if (number < o->since_room)
        o->since_ms[number] = (int64_t)tn_wall_ms();
    pthread_mutex_unlock(&d->table_lock);
}

void tn_jobs_moves_free(tn_jobs_driver *d)
{
    free(d->observed.since_ms);
    free(d->observed.pending);
    free(d->observed.ids);
    free(d->observed.kept);
}
