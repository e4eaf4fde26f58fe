/* sim/replica/check.c - the promises. */
#include <stdio.h>
#include <string.h>

#include "world.h"

static struct state *find(struct world *w, uint64_t epoch, uint64_t n)
{
    for (unsigned i = w->states; i-- > 0;)
        if (w->state[i].epoch == epoch && w->state[i].n == n)
            return &w->state[i];
    return NULL;
}

/* R1: a position is numbered once.  Between two states of a batch nobody can be. */
void check_state_made(struct world *w, const struct tn_chain *chain, const struct doc *doc)
{
    struct state *s = &w->state[w->states];

    if (find(w, tn_chain_epoch(chain), chain->n) != NULL) {
        rep_fail(w, "R1", "position (%llu, %llu) was given twice",
                 (unsigned long long)tn_chain_epoch(chain), (unsigned long long)chain->n);
        return;
    }
    if (w->states == STATES - 1 || chain->n >= N_MAX) {
        rep_fail(w, "world", "the history is too long");
        return;
    }
    w->states++;
    s->epoch = tn_chain_epoch(chain);
    s->n = chain->n;
    memcpy(s->doc, doc, sizeof s->doc);
}

static bool is_live(const struct doc *doc)
{
    return doc->n > 0 && !doc->deleted;
}

/* R5: every copy is at a state that a primary had; what is deleted there is not here. */
void check_copy(struct world *w, const struct node *n)
{
    const struct disk *d = &n->disk;
    const struct state *s = find(w, tn_chain_epoch(&d->head.chain), d->head.chain.n);

    if (d->head.chain.n == 0)
        return;
    if (s == NULL) {
        rep_fail(w, "R5", "node %u is at (%llu, %llu), where no primary was", n->index,
                 (unsigned long long)tn_chain_epoch(&d->head.chain),
                 (unsigned long long)d->head.chain.n);
        return;
    }
    for (unsigned i = 0; i < DOCS; i++) {
        const struct doc *is = &d->doc[i], *was = &s->doc[i];

        if (is_live(is) != is_live(was) || (is_live(is) && is->value != was->value))
            rep_fail(w, "R5", "node %u at (%llu, %llu): document %u is not what its primary had",
                     n->index, (unsigned long long)s->epoch, (unsigned long long)s->n, i);
        else if (was->deleted && was->n > d->head.floor && is->value != was->value)
            rep_fail(w, "R21", "node %u at (%llu, %llu) does not know that document %u is deleted",
                     n->index, (unsigned long long)s->epoch, (unsigned long long)s->n, i);
    }
}

/* R11: a change that is not on the new chain is kept aside. */
void check_given_up(struct world *w, const struct disk *before, const struct disk *after)
{
    for (unsigned i = 0; i < DOCS; i++) {
        const struct doc *doc = &before->doc[i];
        struct tn_chain chain = before->head.chain;
        struct tn_position at;

        if (doc->n == 0 || doc->n > chain.n)
            continue;
        chain = tn_chain_cut(&chain, doc->n);
        at = tn_chain_end(&chain);
        if (!tn_chain_has(&after->head.chain, &at) && !after->aside[doc->value])
            rep_fail(w, "R11", "document %u of (%llu, %llu) was given up and not kept", i,
                     (unsigned long long)at.epoch, (unsigned long long)at.n);
    }
}

/* The last change that two terms have in common; all of `a`, if `b` follows it. */
static uint64_t common(const struct term *a, const struct term *b)
{
    struct tn_chain chain = a->chain;

    chain.n = N_MAX; /* Its own changes: as many as it has made. */
    return tn_chain_common(&chain, &b->chain);
}

/* The term that began before this one. */
static const struct term *former(const struct world *w, const struct term *t)
{
    const struct term *best = NULL;

    for (unsigned i = 0; i < w->terms; i++)
        if (w->term[i].epoch < t->epoch && (best == NULL || w->term[i].epoch > best->epoch))
            best = &w->term[i];
    return best;
}

/* R12, R16: nothing that was acknowledged is missing; in async, no more than was agreed to. */
static void check_loss(struct world *w, const struct term *t)
{
    const struct term *before = former(w, t);
    uint64_t most = w->cfg.async ? w->cfg.max_lag + w->cfg.unpublished : 0, high = 0, shared;

    if (before == NULL)
        return;
    for (unsigned i = 0; i < w->terms; i++) {
        const struct term *e = &w->term[i];
        uint64_t n = e->acknowledged;

        if (e->epoch > before->epoch)
            continue;
        if (!w->cfg.async && common(e, t) < n)
            rep_fail(w, "R12", "(%llu, %llu) was acknowledged, and term %llu lacks it",
                     (unsigned long long)e->epoch, (unsigned long long)n,
                     (unsigned long long)t->epoch);
        if (e != before && common(e, before) < n)
            n = common(e, before);
        if (n > high)
            high = n;
    }
    shared = common(before, t);
    if (high > shared + most)
        rep_fail(w, "R16", "term %llu lost %llu of at most %llu acknowledged changes",
                 (unsigned long long)t->epoch, (unsigned long long)(high - shared),
                 (unsigned long long)most);
}

void check_began(struct world *w, const struct node *n)
{
    struct term *t = &w->term[w->terms];

    if (w->terms == TERMS - 1) {
        rep_fail(w, "world", "too many terms");
        return;
    }
    w->terms++;
    w->terms_begun++;
    t->epoch = n->core.epoch;
    t->chain = n->disk.head.chain;
    rep_say(w, "n%u LEADS epoch %llu from %llu", n->index, (unsigned long long)t->epoch,
            (unsigned long long)t->chain.n);
    t->acknowledged = 0;
    for (unsigned i = 0; i < w->terms; i++) /* A stale one may begin after a later one. */
        if (w->term[i].epoch >= t->epoch)
            check_loss(w, &w->term[i]);
}

void check_acknowledged(struct world *w, const struct node *n, uint64_t to)
{
    for (unsigned i = 0; i < w->terms; i++)
        if (w->term[i].epoch == n->core.epoch)
            w->term[i].acknowledged = to;
    w->acks++;
    rep_say(w, "n%u acknowledged %llu", n->index, (unsigned long long)to);
    for (unsigned i = 0; i < w->terms; i++)
        if (w->term[i].epoch > n->core.epoch)
            check_loss(w, &w->term[i]);
}

/* R13: a set that was established stays so; the epoch of the register never falls (I3). */
void check_register(struct world *w, const struct tn_replica_set *before)
{
    if (!w->cfg.async && tn_set_established(&before->set) && !tn_set_established(&w->set.set))
        rep_fail(w, "R13", "the set shrank to %u members, k is %u", w->set.set.count, w->set.set.k);
    if (w->set.epoch < before->epoch)
        rep_fail(w, "I3", "the epoch of the register fell");
}

void check_converged(struct world *w)
{
    const struct node *leader = NULL;

    for (unsigned i = 0; i < w->nodes; i++)
        if (w->node[i].core.phase == TN_REPLICA_PRIMARY && w->node[i].core.epoch == w->lease)
            leader = &w->node[i];
    if (leader == NULL) {
        rep_fail(w, "live", "nobody leads, long after the last fault");
        return;
    }
    if (leader->acknowledged < leader->core.head.chain.n)
        rep_fail(w, "live", "node %u has acknowledged %llu of %llu, long after the last fault",
                 leader->index, (unsigned long long)leader->acknowledged,
                 (unsigned long long)leader->core.head.chain.n);
    for (unsigned i = 0; i < w->nodes; i++)
        if (w->node[i].disk.head.chain.n != leader->disk.head.chain.n ||
            !tn_chain_within(&w->node[i].disk.head.chain, &leader->disk.head.chain))
            rep_fail(w, "live", "node %u is at (%llu, %llu), its primary at (%llu, %llu)", i,
                     (unsigned long long)tn_chain_epoch(&w->node[i].disk.head.chain),
                     (unsigned long long)w->node[i].disk.head.chain.n,
                     (unsigned long long)leader->core.epoch,
                     (unsigned long long)leader->disk.head.chain.n);
}
