#include "check_docs.h"

#include <stdio.h>
#include <string.h>

#include "world.h"

/* ---- Reading ------------------------------------------------------------- */

static int digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* A decimal number and the space behind it; NULL: there is none. */
static const char *number(const char *p, uint64_t *out)
{
    *out = 0;
    if (!p || *p < '0' || *p > '9')
        return NULL;
    for (; *p >= '0' && *p <= '9'; p++)
        *out = *out * 10 + (uint64_t)(*p - '0');
    return *p == ' ' ? p + 1 : NULL;
}

static const char *grant(const char *p, uint8_t *out)
{
    for (unsigned i = 0; p && i < TENURE_NONCE_SIZE; i++, p += 2) {
        if (digit(p[0]) < 0 || digit(p[1]) < 0)
            return NULL;
        out[i] = (uint8_t)(digit(p[0]) << 4 | digit(p[1]));
    }
    return p && *p == ' ' ? p + 1 : NULL;
}

/* "tenure-doc 1 EPOCH GRANT SEQ FLAGS\n<data>"; not by the product's own parser. */
static bool parse(const struct sim_content *value, struct sim_reading *r)
{
    static const char magic[] = "tenure-doc 1 ";
    char line[SIM_REG_BYTES + 1];

    memcpy(line, value->data, value->len);
    line[value->len] = '\0';
    if (strncmp(line, magic, sizeof magic - 1) != 0)
        return false;
    const char *p = number(line + sizeof magic - 1, &r->fence.epoch);
    p = number(grant(p, r->fence.grant), &r->seq);
    if (!p)
        return false;
    for (; *p && *p != '\n'; p++) {
        r->deleted |= *p == 'd';
        r->edited |= *p == 'o';
    }
    if (*p != '\n')
        return false;
    size_t len = value->len - (size_t)(p + 1 - line);
    r->there = true;
    r->len = (uint8_t)(len < SIM_TEXT ? len : SIM_TEXT);
    memcpy(r->text, p + 1, r->len);
    return r->deleted == value->tombstone;
}

static bool same_text(const struct sim_reading *a, const struct sim_reading *b)
{
    return a->deleted == b->deleted && a->len == b->len && memcmp(a->text, b->text, a->len) == 0;
}

static const struct sim_reading *standing(const struct sim_reg *reg)
{
    return &reg->past[(reg->n_past - 1) % SIM_REG_PAST];
}

static void stands(struct sim_world *w, struct sim_reg *reg, const struct sim_reading *r)
{
    struct sim_reading *to = &reg->past[reg->n_past++ % SIM_REG_PAST];

    *to = *r;
    to->at_ns = w->now_ns;
}

/* ---- A register ---------------------------------------------------------- */

void sim_check_doc_sent(struct sim_world *w, const struct sim_client *c, const struct sim_reg *reg,
                        const struct tenure_swap *swap)
{
    uint64_t key[2];

    memcpy(key, swap->nonce, sizeof key);
    uint64_t nonce = sim_mix(key[0] ^ sim_mix(key[1]));
    uint64_t *slot = &w->docs.nonces[nonce % SIM_NONCES];
    if (*slot == nonce)
        sim_fail(w, "I6", "n%u used a nonce twice, for %s", c->node, reg->key);
    *slot = nonce;
}

static void check_fence(struct sim_world *w, const struct sim_doc_part *p, struct sim_reg *reg,
                        const struct sim_reading *is)
{
    /* What a leader from before a restore was told is lost: it may get in until the next seal. */
    if (p->restores != w->docs.restores && is->fence.epoch < reg->floor)
        reg->loose = true;
    if (is->fence.epoch < reg->top.epoch)
        sim_fail(w, "I3", "%s accepted epoch %llu after %llu", reg->key,
                 (unsigned long long)is->fence.epoch, (unsigned long long)reg->top.epoch);
    else if (is->fence.epoch == reg->top.epoch && !sim_fence_same(&is->fence, &reg->top))
        sim_fail(w, "I3", "%s accepted two grants of epoch %llu", reg->key,
                 (unsigned long long)reg->top.epoch);
    else if (is->fence.epoch < reg->floor && !reg->loose)
        sim_fail(w, "I3", "%s accepted epoch %llu; %llu was told that it had sealed it", reg->key,
                 (unsigned long long)is->fence.epoch, (unsigned long long)reg->floor);
}

/* A change of what it holds; else it was sealed, and holds what it held. */
static bool changes(struct sim_world *w, const struct sim_reg *reg, const struct sim_reading *was,
                    const struct sim_reading *is)
{
    if (is->seq == was->seq + 1)
        return true;
    if (is->seq != was->seq)
        sim_fail(w, "I5", "%s went from commit %llu to %llu", reg->key,
                 (unsigned long long)was->seq, (unsigned long long)is->seq);
    else if (was->there && (!same_text(was, is) || was->edited != is->edited))
        sim_fail(w, "I4", "%s was sealed, and does not hold what it held", reg->key);
    return false;
}

/* One request can make a value twice: it took effect, a back-up undid it, its duplicate arrived.
 * Who has seen one of the two has seen the other; a text is never used for another change. */
static bool same_request(const struct sim_reg *reg, const struct sim_reading *was, uint32_t known)
{
    for (unsigned i = 0; i < SIM_REG_PAST && i < reg->n_past; i++) {
        const struct sim_reading *r = &reg->past[i];

        if (r->id == known && r->uid == was->uid && r->seq == was->seq && !was->deleted &&
            !was->edited && !r->edited && same_text(r, was))
            return true;
    }
    return false;
}

static void check_change(struct sim_world *w, const struct sim_doc_part *p, struct sim_reg *reg,
                         const struct sim_reading *was, struct sim_reading *is)
{
    struct sim_client *c = &w->docs.clients[p->client];

    if (p->denied && p->restores == w->docs.restores)
        sim_fail(w, "I6", "%s took a change whose writer was told that it never will", reg->key);
    is->id = ++w->docs.ids;
    is->uid = p->uid;
    if (reg->root)
        return;
    /* An operator's edit, or a back-up that is back: who commits has seen what it replaces.
     * A later try of its own it knows of, whatever became of it. */
    if (p->granted && was->id != 0 && was->id != p->known &&
        (was->uid != p->uid || (was->restored && was->id < p->known)) &&
        !same_request(reg, was, p->known))
        sim_fail(w, "I5", "n%u overwrote %s of %s, which it had not seen", c->node,
                 was->edited ? "an operator's edit" : "a value", reg->key);
    for (unsigned i = 0; c->uid == p->uid && c->serial == p->serial && i < c->n_tries; i++) {
        struct sim_try *t = &c->tries[i];

        if (t->reg != p->reg || t->remove != is->deleted || t->len != is->len ||
            memcmp(t->text, is->text, t->len) != 0)
            continue;
        t->applied = true;
        t->seq = is->seq;
        t->id = is->id;
    }
}

static void note_ever(struct sim_docs *d, const struct tn_fence *fence)
{
    if (fence->epoch == d->ever.epoch && !sim_fence_same(fence, &d->ever))
        d->ever_two = true;
    if (fence->epoch <= d->ever.epoch)
        return;
    d->ever = *fence;
    d->ever_two = false;
}

void sim_check_doc_applied(struct sim_world *w, const struct sim_doc_part *p, struct sim_reg *reg)
{
    const struct sim_reading was = *standing(reg);
    struct sim_reading is = {0};

    if (!tenure_token_equal(&p->expect, &reg->now.token))
        sim_fail(w, "I5", "a change of %s took effect on a value that it had not seen", reg->key);
    if (!parse(&p->value, &is)) {
        sim_fail(w, "I5", "%s took what is not a document", reg->key);
        return;
    }
    check_fence(w, p, reg, &is);
    if (changes(w, reg, &was, &is))
        check_change(w, p, reg, &was, &is);
    else
        is.id = was.id, is.uid = was.uid, is.restored = was.restored;
    reg->writes++;
    if (w->docs.clients[p->client].uid == p->uid)
        w->docs.clients[p->client].own[p->reg]++;
    reg->top = is.fence;
    note_ever(&w->docs, &is.fence);
    sim_say(w, w->docs.clients[p->client].node, "state: %s is commit %llu of epoch %llu%s%s: %.*s",
            reg->key, (unsigned long long)is.seq, (unsigned long long)is.fence.epoch,
            is.deleted ? ", deleted" : "", is.edited ? ", edited" : "", is.len, is.text);
    stands(w, reg, &is);
}

void sim_check_doc_restored(struct sim_world *w, struct sim_reg *reg, const struct sim_reading *was)
{
    struct sim_reading is = *was;

    is.restored = was->id != standing(reg)->id || standing(reg)->restored;
    reg->top = was->fence;
    reg->floor = 0;
    reg->loose = false;
    reg->writes++;
    stands(w, reg, &is);
}
