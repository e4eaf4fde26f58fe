#include "model/canon.h"

#include <assert.h>
#include <string.h>

#include "core/elector_inner.h"

#define NAMES 128

struct writer {
    uint64_t hash[2];
    uint64_t names[NAMES];
    int n_names;
    uint64_t top_epoch;
    bool blind;          /* who is who does not matter: to sort candidates by what they are at */
    int self;            /* blind: whose eyes these are */
    int seat[NODES_MAX]; /* else: where each candidate stands in the canonical order */
};

static void put(struct writer *c, int64_t value)
{
    for (int i = 0; i < 2; i++) {
        uint64_t h = c->hash[i] ^ (uint64_t)value;

        h ^= h >> 32;
        h *= i ? UINT64_C(0xd6e8feb86659fd93) : UINT64_C(0x9e3779b97f4a7c15);
        h ^= h >> 29;
        c->hash[i] = h * UINT64_C(0xff51afd7ed558ccd) + 0x2545f4914f6cdd1d;
    }
}

/* Nonces, grants and incarnations matter only as equal or not.  In this world they are
 * small: a counter in the second half, or a few bytes in the first. */
static void put_name(struct writer *c, const uint8_t *name)
{
    uint64_t half[2];

    memcpy(half, name, sizeof half);
    uint64_t key = half[0] ^ half[1] << 20;
    if (key == 0 || c->blind) {
        put(c, key == 0 ? -1 : -2);
        return;
    }
    for (int i = 0; i < c->n_names; i++) {
        if (c->names[i] == key) {
            put(c, i);
            return;
        }
    }
    assert(c->n_names < NAMES);
    c->names[c->n_names] = key;
    put(c, c->n_names++);
}

/* Epochs matter by their distance: the next one is one above the highest that its
 * candidate knows, which may be one that another has used. */
static void put_epoch(struct writer *c, uint64_t epoch)
{
    put(c, epoch ? (int64_t)(c->top_epoch - epoch) : -1);
}

static void know_epoch(struct writer *c, uint64_t epoch)
{
    c->top_epoch = epoch > c->top_epoch ? epoch : c->top_epoch;
}

/* A time that has passed has passed; how long ago matters only down to least. */
static void put_time(struct writer *c, int64_t at, int64_t now, int64_t least)
{
    int64_t rel = at - now;

    put(c, rel < least ? least : rel);
}

static void put_holder(struct writer *c, const char *holder)
{
    int who = holder[0] - 'a';

    put(c, !holder[0] ? -1 : c->blind ? who == c->self : c->seat[who]);
}

static void put_lease(struct writer *c, const struct tn_lease *l)
{
    put_holder(c, l->holder);
    put_name(c, l->incarnation);
    put_name(c, l->grant);
    put_epoch(c, l->epoch);
    put(c, l->ttl_ms);
}

static void put_elector(struct writer *c, const struct tn_elector *e, int64_t now)
{
    put(c, e->phase);
    put(c, e->seen);
    put_name(c, e->token.nonce);
    if (e->seen == TN_SEEN_HELD || e->seen == TN_SEEN_FREE)
        put_lease(c, &e->lease);
    /* Only somebody else's grant is waited out, and for W. */
    bool waits = e->seen == TN_SEEN_HELD && !tn_sees_own_process(e);
    put_time(c, e->observed_ns, now, waits ? -MODEL_W : 0);
    put_time(c, e->poll_at_ns, now, 0);
    put_time(c, e->spare_ns, now, 0);
    if (e->phase >= TN_PHASE_SEALING && e->phase <= TN_PHASE_RELEASING) {
        put_name(c, e->grant);
        put_epoch(c, e->epoch);
        put_time(c, e->deadline_ns, now, 0);
        put_time(c, e->stop_at_ns, now, 0);
        put_time(c, e->renew_at_ns, now, 0);
        put_time(c, e->stop_by_ns, now, 0);
        put_time(c, e->release_until_ns, now, 0);
    }
    put(c, e->lost | e->over << 1 | e->draining << 2 | e->regrant << 3 | e->reading << 4 |
               e->must_read << 5 | e->conflicted << 6 | e->may_claim << 7 | e->ending << 8);
    put(c, e->phase == TN_PHASE_RELEASING && e->asked_in != TN_PHASE_RELEASING &&
               (e->reading || e->out != TN_FOR_NONE));
    for (unsigned i = 0; i < TN_ATTEMPTS; i++) { /* a ring: from the oldest */
        const struct tn_attempt *a = &e->attempts[(e->attempt_next + i) % TN_ATTEMPTS];

        put_name(c, a->nonce);
        put_name(c, a->grant);
        put_epoch(c, a->epoch);
        put_time(c, a->renew_at_ns, now, 0);
        put_time(c, a->stop_at_ns, now, 0);
        put_time(c, a->hold_until_ns, now, 0);
    }
    put(c, e->out);
    if (e->out != TN_FOR_NONE)
        put_lease(c, &e->draft);
    put_time(c, e->retry_at_ns, now, 0);
    put_epoch(c, e->floor);
    put_time(c, e->not_before_ns, now, 0);
}

static void put_program(struct writer *c, const struct program *p, int64_t now)
{
    put(c, p->alive);
    if (p->alive)
        put_time(c, p->dies_at, now, 0);
}

static void put_node(struct writer *c, const struct world *w, const struct node *n)
{
    put(c, n->up | n->cut << 1 | n->paused << 2 | n->may_crash << 3 | n->must_tell << 4);
    put(c, n->rate);
    put(c, w->now * n->rate % 10);
    if (n->cut)
        put_time(c, n->cut_until, w->now, 0);
    if (n->paused)
        put_time(c, n->paused_until, w->now, 0);
    put_name(c, n->e.cfg.incarnation);
    put_elector(c, &n->e, w->now * n->rate / 10);
    put(c, n->pending);
    if (n->pending != NOTHING)
        put_time(c, n->due, w->now, 0);
    if (n->pending == WAIT) {
        put(c, n->watch);
        put_name(c, n->seen.nonce);
    } else if (n->pending == ANSWER) {
        put(c, n->kind);
        put(c, n->status);
        put_name(c, n->token.nonce);
        put(c, n->has_record);
        if (n->has_record && n->kind == TN_EV_READ)
            put_lease(c, &n->record);
    }
    put_time(c, n->deadline_ns, w->now * n->rate / 10, -1);
    put(c, n->deadline_ns != 0);
    put_program(c, &n->program, w->now);
    put_program(c, &n->orphan, w->now);
}

/* ---- Candidates in an order that does not depend on their names ---------- */

static uint64_t look_of(const struct writer *all, const struct world *w, int i)
{
    struct writer c;

    c.hash[0] = c.hash[1] = 3;
    c.top_epoch = all->top_epoch;
    c.blind = true;
    c.self = i;
    put_holder(&c, w->lease.holder);
    put_node(&c, w, &w->node[i]);
    return c.hash[0];
}

/* By rate, then by what they are at.  Two that look alike stay as they are: then one
 * world may be met in two forms, which costs time and loses nothing. */
static void take_seats(struct writer *c, const struct world *w, int *order)
{
    uint64_t look[NODES_MAX];

    for (int i = 0; i < w->n; i++) {
        int at = i;

        look[i] = look_of(c, w, i);
        while (at > 0 && (w->node[order[at - 1]].rate > w->node[i].rate ||
                          (w->node[order[at - 1]].rate == w->node[i].rate &&
                           look[order[at - 1]] > look[i]))) {
            order[at] = order[at - 1];
            at--;
        }
        order[at] = i;
    }
    for (int i = 0; i < w->n; i++)
        c->seat[order[i]] = i;
}

/* ---- The whole ----------------------------------------------------------- */

static void know_epochs(struct writer *c, const struct world *w)
{
    know_epoch(c, w->last_epoch);
    if (w->present)
        know_epoch(c, w->lease.epoch);
    for (int i = 0; i < LATE_MAX; i++) {
        if (w->late[i].used)
            know_epoch(c, w->late[i].record.epoch);
    }
    for (int i = 0; i < w->n; i++) {
        const struct node *n = &w->node[i];

        know_epoch(c, n->e.floor);
        if (n->e.phase >= TN_PHASE_SEALING && n->e.phase <= TN_PHASE_RELEASING)
            know_epoch(c, n->e.epoch);
        if (n->e.seen == TN_SEEN_HELD || n->e.seen == TN_SEEN_FREE)
            know_epoch(c, n->e.lease.epoch);
        if (n->e.out != TN_FOR_NONE)
            know_epoch(c, n->e.draft.epoch);
        if (n->pending == ANSWER && n->has_record && n->kind == TN_EV_READ)
            know_epoch(c, n->record.epoch);
        for (int k = 0; k < TN_ATTEMPTS; k++)
            know_epoch(c, n->e.attempts[k].epoch);
    }
}

static void put_late(struct writer *c, const struct world *w)
{
    for (int i = 0; i < LATE_MAX; i++) {
        put(c, w->late[i].used);
        if (!w->late[i].used)
            continue;
        put_time(c, w->late[i].at, w->now, 0);
        put_name(c, w->late[i].expect.nonce);
        put_name(c, w->late[i].nonce);
        put_lease(c, &w->late[i].record);
    }
}

void canon_of(const struct world *w, struct canon *out)
{
    struct writer c;
    int order[NODES_MAX];

    c.hash[0] = 1;
    c.hash[1] = 2;
    c.n_names = 0;
    c.top_epoch = 0;
    c.blind = false;
    know_epochs(&c, w);
    take_seats(&c, w, order);
    put(&c, w->n);
    put(&c, w->faults);
    put(&c, w->notifies);
    put_name(&c, w->token.nonce);
    put(&c, w->present);
    if (w->present)
        put_lease(&c, &w->lease);
    put_late(&c, w);
    put_epoch(&c, w->last_epoch);
    for (int i = 0; i < w->n; i++)
        put_node(&c, w, &w->node[order[i]]);
    out->hash[0] = c.hash[0];
    out->hash[1] = c.hash[1];
}
