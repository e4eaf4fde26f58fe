/* sim/replica/disk.c - a node's database: the last change of each document. */
#include <string.h>

#include "world.h"

void disk_make(struct world *w, struct disk *d)
{
    memset(d, 0, sizeof *d);
    rep_nonce(w, d->head.database);
}

void disk_read(const struct disk *d, const struct tn_answer *answer, const bool *wants,
               unsigned chunk, struct tn_group *group, struct carried docs[DOCS])
{
    uint64_t to = answer->from;

    memset(docs, 0, DOCS * sizeof *docs);
    group->from = answer->from;
    group->snapshot = answer->snapshot;
    group->rewinds = answer->rewinds;
    for (unsigned i = 0; answer->rewinds && i < DOCS; i++)
        if (wants[i] && d->doc[i].n <= answer->from)
            docs[i] = (struct carried){true, d->doc[i]};
    for (; chunk > 0; chunk--) {
        unsigned next = DOCS;

        for (unsigned i = 0; i < DOCS; i++)
            if (d->doc[i].n > to && (next == DOCS || d->doc[i].n < d->doc[next].n))
                next = i;
        if (next == DOCS)
            break;
        docs[next] = (struct carried){true, d->doc[next]};
        to = d->doc[next].n;
    }
    group->to = d->head.chain.n;
    for (unsigned i = 0; i < DOCS; i++)
        if (d->doc[i].n > to)
            group->to = to;
}

static void put(struct doc *doc, const struct carried *from)
{
    for (unsigned i = 0; i < DOCS; i++)
        if (from[i].present)
            doc[i] = from[i].doc;
}

static void forget(struct disk *d)
{
    for (unsigned i = 0; i < DOCS; i++)
        if (d->doc[i].deleted && d->doc[i].n <= d->head.floor)
            memset(&d->doc[i], 0, sizeof d->doc[i]);
}

static void apply(struct disk *d, const struct flush *f)
{
    for (unsigned i = 0; i < DOCS; i++)
        if (d->doc[i].n > f->common)
            d->aside[d->doc[i].value] = true;
    if (f->taking == TN_TAKE_SNAPSHOT)
        memset(d->doc, 0, sizeof d->doc);
    if (!f->fresh)
        put(d->doc, d->staged);
    put(d->doc, f->docs);
    memset(d->staged, 0, sizeof d->staged);
}

static void stage(struct disk *d, const struct flush *f)
{
    if (f->fresh)
        memset(d->staged, 0, sizeof d->staged);
    for (unsigned i = 0; i < DOCS; i++)
        if (f->docs[i].present)
            d->staged[i] = f->docs[i];
}

void disk_commit(struct world *w, struct node *n, struct disk *d, const struct flush *f)
{
    static struct disk before;

    before = *d;
    d->head = f->head;
    switch (f->write) {
    case TN_WRITE_STAGE:
        stage(d, f);
        w->staged++;
        break;
    case TN_WRITE_APPLY:
        apply(d, f);
        w->applied++;
        w->rewinds += f->taking == TN_TAKE_REWIND;
        w->snapshots += f->taking == TN_TAKE_SNAPSHOT;
        check_given_up(w, &before, d);
        break;
    case TN_WRITE_DROP:
        memset(d->staged, 0, sizeof d->staged);
        break;
    case TN_WRITE_CHANGES:
        put(d->doc, f->docs);
        break;
    default:
        break;
    }
    forget(d);
    if (d->head.epoch < before.head.epoch)
        rep_fail(w, "R9", "the epoch of node %u fell from %llu to %llu", n->index,
                 (unsigned long long)before.head.epoch, (unsigned long long)d->head.epoch);
}
