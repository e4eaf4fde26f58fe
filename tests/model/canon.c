#include "model/canon.h"

#include <string.h>

#define NAMES 128

struct writer {
    uint64_t hash[2];
    uint8_t names[NAMES][TENURE_NONCE_SIZE];
    int n_names;
    uint64_t epochs[NAMES];
    int n_epochs;
    bool collecting; /* first pass: only gather the epochs */
};

static void put(struct writer *c, int64_t value)
{
    if (c->collecting)
        return;
    for (int i = 0; i < 2; i++) {
        uint64_t h = c->hash[i] ^ (uint64_t)value;

        h ^= h >> 32;
        h *= i ? UINT64_C(0xd6e8feb86659fd93) : UINT64_C(0x9e3779b97f4a7c15);
        h ^= h >> 29;
        c->hash[i] = h * UINT64_C(0xff51afd7ed558ccd) + 0x2545f4914f6cdd1d;
    }
}

/* Nonces, grants and incarnations matter only as equal or not. */
static void put_name(struct writer *c, const uint8_t *name)
{
    static const uint8_t zero[TENURE_NONCE_SIZE];

    if (memcmp(name, zero, sizeof zero) == 0) {
        put(c, -1);
        return;
    }
    for (int i = 0; i < c->n_names; i++) {
        if (memcmp(c->names[i], name, TENURE_NONCE_SIZE) == 0) {
            put(c, i);
            return;
        }
    }
    if (c->collecting)
        return;
    memcpy(c->names[c->n_names % NAMES], name, TENURE_NONCE_SIZE);
    put(c, c->n_names++);
}

/* Epochs matter only by their order: the next one is always above all. */
static void put_epoch(struct writer *c, uint64_t epoch)
{
    int rank = 0;

    if (c->collecting) {
        for (int i = 0; i < c->n_epochs; i++) {
            if (c->epochs[i] == epoch)
                return;
        }
        c->epochs[c->n_epochs++ % NAMES] = epoch;
        return;
    }
    for (int i = 0; i < c->n_epochs; i++)
        rank += c->epochs[i] < epoch;
    put(c, rank);
}

/* A time that has passed has passed; how long ago matters only up to two W. */
static void put_time(struct writer *c, int64_t at, int64_t now, int64_t least)
{
    int64_t rel = at - now;

    put(c, rel < least ? least : rel);
}

static void put_lease(struct writer *c, const struct tn_lease *l)
{
    put(c, l->holder[0]);
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
    put_time(c, e->observed_ns, now, -2 * MODEL_W);
    put_time(c, e->poll_at_ns, now, 0);
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
    put(c, e->attempt_next);
    for (int i = 0; i < TN_ATTEMPTS; i++) {
        const struct tn_attempt *a = &e->attempts[i];

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

static void put_world(struct writer *c, const struct world *w)
{
    put(c, w->n);
    put(c, w->faults);
    put(c, w->notifies);
    put_name(c, w->token.nonce);
    put(c, w->present);
    if (w->present)
        put_lease(c, &w->lease);
    for (int i = 0; i < LATE_MAX; i++) {
        put(c, w->late[i].used);
        if (!w->late[i].used)
            continue;
        put_time(c, w->late[i].at, w->now, 0);
        put_name(c, w->late[i].expect.nonce);
        put_name(c, w->late[i].nonce);
        put_lease(c, &w->late[i].record);
    }
    put_epoch(c, w->last_epoch);
    for (int i = 0; i < w->n; i++)
        put_node(c, w, &w->node[i]);
}

void canon_of(const struct world *w, struct canon *out)
{
    struct writer c = {.hash = {1, 2}, .collecting = true};

    put_world(&c, w);
    c.collecting = false;
    put_world(&c, w);
    out->hash[0] = c.hash[0];
    out->hash[1] = c.hash[1];
}
