#include "docs.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check_docs.h"
#include "net.h"
#include "world.h"

/* All there will ever be; absent at first. */
static const char *const keys[] = {
    "sim/state/docs",   "sim/state/docs/a", "sim/state/docs/b",
    "sim/state/docs/c", "sim/state/marks",  "sim/state/marks/pos",
};

void sim_docs_clear(struct sim_world *w)
{
    struct sim_docs *d = &w->docs;
    uint64_t r = sim_key(w->plan.seed, SIM_RND_PLAN, 3, 0);

    if (!w->plan.product)
        return;
    d->together = r & 1;
    d->batches = r & 2;
    d->n_regs = d->n_parts = d->n_backups = 0;
    d->free = SIM_DOC_MSGS;
    d->version = 0;
    d->uids = d->drawn = d->texts = d->ids = d->restores = 0;
    memset(&d->ever, 0, sizeof d->ever);
    d->ever_two = false;
    memset(d->nonces, 0, sizeof d->nonces);
    d->keeps_backups = false;
    for (unsigned i = 0; i < w->plan.n_ops; i++)
        d->keeps_backups |= w->plan.ops[i].kind == SIM_OP_STATE_BACK;
    for (unsigned i = 0; i < sizeof keys / sizeof keys[0]; i++)
        sim_docs_reg(w, keys[i]);
}

void sim_docs_end(struct sim_world *w)
{
    for (unsigned i = 0; i < SIM_CLIENTS; i++)
        sim_client_kill(&w->docs.clients[i]);
}

struct sim_reg *sim_docs_reg(struct sim_world *w, const char *key)
{
    struct sim_docs *d = &w->docs;
    unsigned slashes = 0;

    for (unsigned i = 0; i < d->n_regs; i++) {
        if (strcmp(d->regs[i].key, key) == 0)
            return &d->regs[i];
    }
    assert(d->n_regs < SIM_REGS);
    struct sim_reg *reg = &d->regs[d->n_regs++];
    assert(strlen(key) < sizeof reg->key);
    memset(reg, 0, sizeof *reg);
    memcpy(reg->key, key, strlen(key) + 1);
    for (const char *p = key; *p; p++)
        slashes += *p == '/';
    reg->root = slashes == 2; /* NAME/state/COLLECTION */
    reg->n_past = 1;          /* absent, ever since */
    return reg;
}

/* ---- Requests ------------------------------------------------------------ */

static struct sim_doc_part *take(struct sim_docs *d)
{
    struct sim_doc_part *p;

    if (d->free < SIM_DOC_MSGS) {
        p = &d->parts[d->free];
        d->free = p->next;
    } else {
        assert(d->n_parts < SIM_DOC_MSGS);
        p = &d->parts[d->n_parts++];
    }
    p->used = true;
    return p;
}

static void give(struct sim_docs *d, struct sim_doc_part *p)
{
    p->used = false;
    p->next = d->free;
    d->free = (uint16_t)(p - d->parts);
}

static void fill(struct sim_world *w, const struct sim_client *c, struct sim_doc_part *p,
                 const struct sim_reg *reg, const struct tenure_swap *swap)
{
    p->read = !swap;
    p->echo = p->denied = false;
    p->granted = c->granted;
    p->client = c->index;
    p->reg = (uint8_t)(reg - w->docs.regs);
    p->uid = c->uid;
    p->call = c->call;
    p->serial = c->serial;
    p->known = c->known[p->reg];
    p->twin = false;
    p->restores = c->restores;
    if (!swap)
        return;
    assert(swap->len <= SIM_REG_BYTES);
    p->expect = swap->expect;
    memset(&p->value.token, 0, sizeof p->value.token);
    memcpy(p->value.token.nonce, swap->nonce, TENURE_NONCE_SIZE);
    memcpy(p->value.prev, swap->expect.nonce, TENURE_NONCE_SIZE);
    p->value.tombstone = swap->tombstone;
    p->value.len = (uint16_t)swap->len;
    memcpy(p->value.data, swap->data, swap->len);
}

static void go(struct sim_world *w, struct sim_doc_part *p, enum sim_what what, int64_t after_ns)
{
    sim_at(w, w->now_ns + after_ns, what, w->docs.clients[p->client].node, 0,
           (uint32_t)(p - w->docs.parts));
}

static void copy_later(struct sim_world *w, struct sim_doc_part *p, int64_t after_ns)
{
    struct sim_doc_part *copy = take(&w->docs);

    *copy = *p;
    copy->echo = true;
    p->twin = true;
    go(w, copy, SIM_Q_PART, after_ns);
}

int64_t sim_docs_send(struct sim_world *w, struct sim_client *c, unsigned slot, struct sim_reg *reg,
                      const struct tenure_swap *swap)
{
    struct sim_node *n = &w->nodes[c->node];
    struct sim_fate f = sim_net_fate(w, SIM_RND_STATE, n, ++n->saver.no);
    struct sim_doc_part *p = take(&w->docs);

    if (w->docs.together && n->cut)
        f = (struct sim_fate){.hostile = true, .out_ns = -1, .twice_ns = -1, .cut_ns = -1};
    fill(w, c, p, reg, swap);
    p->slot = (uint8_t)slot;
    p->back_ns = f.back_ns;
    if (f.hostile)
        sim_say(w, c->node, "state: request %u.%u %s", c->call, slot,
                f.refused         ? "will be refused"
                : f.cut_ns >= 0   ? "will have its connection broken"
                : f.out_ns < 0    ? "will be lost"
                : f.twice_ns >= 0 ? "will arrive twice"
                : f.back_ns < 0   ? "will have no answer"
                                  : "will be slow");
    if (f.refused) { /* answered at once: not applied, and never will be */
        p->status = TENURE_UNAVAILABLE;
        go(w, p, SIM_Q_PART_BACK, 0);
        return w->now_ns;
    }
    int64_t due = f.out_ns < 0 || f.back_ns < 0 ? SIM_NEVER : w->now_ns + f.out_ns + f.back_ns;
    if (f.cut_ns >= 0) { /* told at once that nothing is known; it may arrive all the same */
        struct sim_doc_part *word = take(&w->docs);

        *word = *p;
        word->status = swap ? TENURE_UNKNOWN : TENURE_UNAVAILABLE;
        go(w, word, SIM_Q_PART_BACK, f.cut_ns);
        p->echo = true;
        due = w->now_ns + f.cut_ns;
    }
    if (f.twice_ns >= 0 && swap)
        copy_later(w, p, f.twice_ns);
    if (f.out_ns < 0)
        give(&w->docs, p);
    else
        go(w, p, SIM_Q_PART, f.out_ns);
    return due;
}

/* ---- The store ----------------------------------------------------------- */

static void next_version(struct sim_docs *d, struct tenure_token *token)
{
    char digits[24];
    unsigned n = 0;

    for (uint64_t v = ++d->version; v; v /= 10)
        digits[n++] = (char)('0' + v % 10);
    memset(token->version, 0, sizeof token->version);
    for (unsigned i = 0; i < n; i++)
        token->version[i] = digits[n - 1 - i];
}

static void back_up(struct sim_docs *d)
{
    struct sim_backup *b = &d->backups[d->n_backups++ % SIM_BACKUPS];

    b->n_regs = d->n_regs;
    b->version = d->version;
    memcpy(b->regs, d->regs, d->n_regs * sizeof d->regs[0]);
}

static void apply(struct sim_world *w, struct sim_doc_part *p)
{
    struct sim_docs *d = &w->docs;
    struct sim_reg *reg = &d->regs[p->reg];

    sim_check_doc_applied(w, p, reg);
    reg->now = p->value;
    next_version(d, &reg->now.token);
    sim_hash(w, (uint64_t)p->reg << 8 | p->client, d->version ^ reg->past[0].seq << 32);
    if (d->keeps_backups && d->version % 5 == 1)
        back_up(d);
}

static enum tenure_status serve(struct sim_world *w, struct sim_doc_part *p)
{
    const struct sim_reg *reg = &w->docs.regs[p->reg];

    if (p->read)
        return TENURE_OK;
    if (!tenure_token_equal(&p->expect, &reg->now.token))
        return TENURE_CONFLICT;
    apply(w, p);
    return TENURE_OK;
}

void sim_docs_arrive(struct sim_world *w, uint32_t index)
{
    struct sim_doc_part *p = &w->docs.parts[index];

    if (w->docs.together && w->now_ns < w->store.down_until_ns) {
        struct sim_client *c = &w->docs.clients[p->client];

        if (!w->store.down_refuses)
            p->back_ns = -1;
        if (!w->store.down_refuses && c->uid == p->uid && c->call == p->call)
            sim_client_unanswered(c);
        p->status = p->twin ? TENURE_UNKNOWN : TENURE_UNAVAILABLE; /* the other may arrive */
    } else {
        p->status = serve(w, p);
        p->value = w->docs.regs[p->reg].now;
    }
    if (p->echo || p->back_ns < 0)
        give(&w->docs, p);
    else
        go(w, p, SIM_Q_PART_BACK, p->back_ns);
}

void sim_docs_answer(struct sim_world *w, uint32_t index)
{
    struct sim_doc_part *p = &w->docs.parts[index];
    struct sim_client *c = &w->docs.clients[p->client];
    struct sim_doc_answer *a = &c->answers[p->slot];

    if (c->fiber.alive && c->uid == p->uid && c->call == p->call && c->left && !a->there) {
        a->there = true;
        a->status = p->status;
        a->value = p->value;
        if (--c->left == 0)
            sim_client_ready(c);
    }
    give(&w->docs, p);
}

void sim_docs_restore(struct sim_world *w, uint64_t pick)
{
    struct sim_docs *d = &w->docs;
    unsigned have = d->n_backups < SIM_BACKUPS ? d->n_backups : SIM_BACKUPS;

    if (!have)
        return;
    const struct sim_backup *b = &d->backups[(d->n_backups - 1 - pick % have) % SIM_BACKUPS];
    for (unsigned i = 0; i < d->n_regs; i++) {
        struct sim_reg *reg = &d->regs[i];
        static const struct sim_reg absent = {.n_past = 1};
        const struct sim_reg *was = i < b->n_regs ? &b->regs[i] : &absent;

        reg->now = was->now;
        sim_check_doc_restored(w, reg, &was->past[(was->n_past - 1) % SIM_REG_PAST]);
    }
    if (pick >> 32 & 1)
        d->version = b->version; /* numbers repeat; nonces do not */
    d->restores++;
    sim_say(w, -1, "the state is as it was %llu changes ago",
            (unsigned long long)(d->version - b->version));
}
