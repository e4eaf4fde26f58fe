/* What a user of the state is told, against the registers as they really are. */
#include <stdio.h>
#include <string.h>

#include "check_docs.h"
#include "world.h"

static struct sim_reg *reg_of(const struct sim_client *c, const char *collection, const char *id)
{
    char key[40];

    snprintf(key, sizeof key, "sim/state/%s/%s", collection, id);
    return sim_docs_reg(c->w, key);
}

static struct sim_reg *root_of(const struct sim_client *c, const struct sim_reg *reg)
{
    char key[sizeof reg->key];

    memcpy(key, reg->key, sizeof key);
    *strrchr(key, '/') = '\0';
    return sim_docs_reg(c->w, key);
}

/* How often somebody else has written here. */
static uint32_t foreign(const struct sim_client *c, const struct sim_reg *reg)
{
    const struct sim_docs *d = &c->w->docs;

    return reg->writes - c->own[reg - d->regs];
}

void sim_check_call(struct sim_client *c)
{
    c->serial++;
    c->n_tries = 0;
    c->began_ns = c->w->now_ns;
    c->calm = c->w->quiet && c->w->calm.part > 0;
}

void sim_check_try(struct sim_client *c, const char *collection, const char *id, const char *text)
{
    struct sim_try *t = &c->tries[c->n_tries++];

    memset(t, 0, sizeof *t);
    t->reg = (uint8_t)(reg_of(c, collection, id) - c->w->docs.regs);
    t->remove = !text;
    t->len = (uint8_t)(text ? strlen(text) : 0);
    memcpy(t->text, text ? text : "", t->len);
}

/* Once the faults are over every call is answered, and in time (I10). */
static void check_calm(const struct sim_client *c, enum tenure_status status)
{
    if (c->calm && status != TENURE_OK && status != TENURE_CONFLICT && status != TENURE_FENCED)
        sim_fail(c->w, "I10", "n%u's call to the state ends with %s, and nothing went wrong",
                 c->node, tenure_status_word(status));
}

void sim_check_told(struct sim_client *c, enum tenure_status status)
{
    struct sim_docs *d = &c->w->docs;
    struct tn_fence own = {.epoch = c->grant.epoch};

    if (c->gone)
        return;
    check_calm(c, status);
    memcpy(own.grant, c->grant.id, TENURE_NONCE_SIZE);
    if (c->fenced && status != TENURE_FENCED)
        sim_fail(c->w, "I3", "n%u was fenced, which is final, and is told: %s", c->node,
                 tenure_status_word(status));
    if (status != TENURE_FENCED || c->fenced)
        return;
    c->fenced = true;
    if (own.epoch > d->ever.epoch ||
        (own.epoch == d->ever.epoch && !d->ever_two && sim_fence_same(&own, &d->ever)))
        sim_fail(c->w, "I9", "n%u is fenced, and there was nobody later than epoch %llu", c->node,
                 (unsigned long long)own.epoch);
}

/* What is still on its way must never land. */
static void deny(struct sim_client *c, const struct sim_try *t)
{
    struct sim_docs *d = &c->w->docs;

    for (unsigned i = 0; i < d->n_parts; i++) {
        struct sim_doc_part *p = &d->parts[i];

        if (p->used && !p->read && p->uid == c->uid && p->serial == c->serial && p->reg == t->reg)
            p->denied = true;
    }
}

void sim_check_tried(struct sim_client *c, unsigned i, enum tenure_status status, uint64_t seq)
{
    struct sim_world *w = c->w;
    const struct sim_try *t = &c->tries[i];
    const char *key = w->docs.regs[t->reg].key;

    if (c->gone)
        return;
    sim_say(w, c->node, "state: its change of %s: %s", key, tenure_status_word(status));
    check_calm(c, status);
    if (status == TENURE_UNKNOWN || status == TENURE_FENCED)
        return;
    if (status == TENURE_OK) {
        if (!t->applied)
            sim_fail(w, "I6", "n%u is told that its change of %s is there; it is not", c->node,
                     key);
        else if (c->granted && seq != t->seq)
            sim_fail(w, "I6", "n%u is told that it made commit %llu of %s; it was %llu", c->node,
                     (unsigned long long)seq, key, (unsigned long long)t->seq);
        c->known[t->reg] = t->id;
        w->counts.commits++;
        return;
    }
    if (t->applied)
        sim_fail(w, "I6", "n%u is told %s; its change of %s took effect", c->node,
                 tenure_status_word(status), key);
    const struct sim_reg *reg = &w->docs.regs[t->reg], *root = root_of(c, reg);
    if (status == TENURE_CONFLICT && c->granted && c->foreign[t->reg] == foreign(c, reg) &&
        c->foreign[root - w->docs.regs] == foreign(c, root))
        sim_fail(w, "I9", "n%u is told of a conflict over %s, and nobody else has written", c->node,
                 key);
    deny(c, t);
}

static bool shows(const struct sim_reading *r, const struct tenure_document *doc)
{
    if (doc->exists != (r->there && !r->deleted))
        return false;
    if (!doc->exists)
        return true;
    if (doc->seq != SIM_ANY_SEQ && (doc->seq != r->seq || doc->edited != r->edited))
        return false;
    return doc->value.len == r->len && r->len && memcmp(doc->value.data, r->text, r->len) == 0;
}

static void raise_floor(struct sim_reg *reg, uint64_t epoch)
{
    if (reg->floor >= epoch)
        return;
    reg->floor = epoch;
    reg->loose = false;
}

uint32_t sim_check_foreign(struct sim_client *c, const char *collection, const char *id)
{
    return foreign(c, reg_of(c, collection, id));
}

void sim_check_doc_loaded(struct sim_client *c, const char *collection, const char *id,
                          const struct tenure_document *doc, uint32_t before)
{
    struct sim_world *w = c->w;
    struct sim_reg *reg = reg_of(c, collection, id);
    unsigned have = reg->n_past < SIM_REG_PAST ? reg->n_past : SIM_REG_PAST;
    struct tn_fence own = {.epoch = c->grant.epoch};
    int64_t until = w->now_ns;

    if (c->gone)
        return;
    memcpy(own.grant, c->grant.id, TENURE_NONCE_SIZE);
    c->foreign[reg - w->docs.regs] = before;
    if (c->granted && c->restores == w->docs.restores) {
        raise_floor(reg, own.epoch);
        raise_floor(root_of(c, reg), own.epoch);
    }
    for (unsigned i = 0; i < have && until >= c->began_ns; i++) {
        const struct sim_reading *r = &reg->past[(reg->n_past - 1 - i) % SIM_REG_PAST];

        until = r->at_ns;
        if ((c->granted && r->there && !sim_fence_same(&own, &r->fence)) || !shows(r, doc))
            continue;
        c->known[reg - w->docs.regs] = r->id;
        return;
    }
    if (until < c->began_ns || have == reg->n_past)
        sim_fail(w, "I4", "n%u loads %s, and what it gets did not stand there after its seal",
                 c->node, reg->key);
}

void sim_check_collection_sealed(struct sim_client *c, const char *collection)
{
    struct sim_docs *d = &c->w->docs;
    char prefix[40];

    if (c->gone || c->restores != d->restores)
        return;
    snprintf(prefix, sizeof prefix, "sim/state/%s", collection);
    for (unsigned i = 0; i < d->n_regs; i++) {
        struct sim_reg *reg = &d->regs[i];

        if (strncmp(reg->key, prefix, strlen(prefix)) == 0)
            raise_floor(reg, c->grant.epoch);
    }
}

void sim_check_term(struct sim_world *w, unsigned node, uint64_t epoch)
{
    const struct sim_client *c = &w->docs.clients[node];

    if (!c->fiber.alive || !c->loaded || c->grant.epoch != epoch)
        sim_fail(w, "I4", "n%u starts, and its state was not loaded", node);
    for (unsigned i = 0; i < w->docs.n_regs; i++) {
        const struct sim_reg *reg = &w->docs.regs[i];

        if (reg->floor < epoch && c->restores == w->docs.restores)
            sim_fail(w, "I4", "n%u starts with %s not sealed", node, reg->key);
    }
}
