#include "store.h"

#include <assert.h>
#include <string.h>

#include "check.h"
#include "node.h"

const char *sim_purpose_word(enum tn_purpose purpose)
{
    static const char *const words[] = {"nothing", "claim", "renew", "release", "regrant"};

    return words[purpose];
}

void sim_store_clear(struct sim_world *w)
{
    memset(&w->store, 0, sizeof w->store);
    w->store.lock_owner = SIM_NOBODY;
}

void sim_store_version(struct sim_world *w, struct tenure_token *token)
{
    char text[24];
    unsigned n = 0;

    for (uint64_t v = ++w->store.version; v; v /= 10)
        text[n++] = (char)('0' + v % 10);
    memset(token->version, 0, sizeof token->version);
    for (unsigned i = 0; i < n; i++)
        token->version[i] = text[n - 1 - i];
}

/* ---- Telling ------------------------------------------------------------- */

static void notice(struct sim_world *w, struct sim_node *n)
{
    const struct sim_odds *o = &w->plan.odds;
    uint64_t r = sim_key(w->plan.seed, SIM_RND_NOTICE, n->index, ++n->notices);
    int64_t after = (int64_t)((r >> 40) * (uint64_t)w->plan.latency_ns >> 24);
    int pick = (int)(r & 0xffff);

    if (pick < o->notice_lost + o->notice_late + o->notice_twice &&
        sim_fault(w, SIM_RND_NOTICE, n->index, n->notices)) {
        if (pick < o->notice_lost)
            return;
        if (pick < o->notice_lost + o->notice_late)
            after = (int64_t)((r >> 16 & 0xffffff) * (uint64_t)n->timing->ttl_ns >> 24);
        else
            sim_at(w, w->now_ns + after + after / 2 + 1, SIM_Q_NOTICE, n->index, n->wait_gen, 0);
    }
    sim_at(w, w->now_ns + after, SIM_Q_NOTICE, n->index, n->wait_gen, 0);
}

void sim_store_notify(struct sim_world *w, const struct sim_value *now, uint16_t nodes)
{
    if (!w->plan.notifies || w->now_ns < w->store.down_until_ns)
        return;
    for (unsigned i = 0; i < w->plan.nodes; i++) {
        struct sim_node *n = &w->nodes[i];

        if ((nodes >> i & 1) && n->waiting && n->out.watch && n->run != SIM_DOWN && !n->cut &&
            !tenure_token_equal(&n->out.expect, &now->token))
            notice(w, n);
    }
}

struct sim_value *sim_store_of(struct sim_world *w, unsigned node)
{
    bool split = w->now_ns < w->store.split_until_ns && (w->store.split_nodes >> node & 1);

    return split ? &w->store.split : &w->store.now;
}

void sim_store_subscribe(struct sim_world *w, struct sim_node *n)
{
    if (w->plan.notifies && w->now_ns >= w->store.down_until_ns && !n->cut &&
        !tenure_token_equal(&n->out.expect, &sim_store_of(w, n->index)->token))
        notice(w, n);
}

/* ---- Swaps --------------------------------------------------------------- */

static void remember(struct sim_world *w)
{
    struct sim_store *s = &w->store;

    if (!w->plan.loose && w->plan.family->linear && w->plan.family->keeps &&
        w->plan.odds.stale == 0)
        return; /* nobody will ever ask for it */
    s->past[s->n_past++ % SIM_PAST_MAX] = s->now;
}

static uint32_t new_grant(struct sim_world *w, const struct sim_msg *msg, uint64_t above)
{
    bool used = sim_check_used(w, msg->record.grant);
    struct sim_grant *g = &w->grants[++w->n_grants % SIM_GRANTS_MAX];

    g->used = used; /* a claim that lands twice is still won once */
    memcpy(g->grant, msg->record.grant, TENURE_NONCE_SIZE);
    g->serial = w->n_grants;
    g->claim_no = msg->no;
    g->epoch = msg->record.epoch;
    g->node = msg->node;
    g->age = w->store.age;
    g->above = above;
    w->counts.grants++;
    return g->serial;
}

static void note_applied(struct sim_world *w, const struct sim_value *reg)
{
    struct sim_grant *g = &w->grants[reg->serial % SIM_GRANTS_MAX];

    if (g->serial != reg->serial)
        return;
    g->ttl_ms = reg->lease.ttl_ms;
    g->applied_ns = w->now_ns;
}

/* A new token by somebody who is no candidate. */
static void touch(struct sim_world *w, uint64_t pick)
{
    uint64_t nonce[2] = {sim_mix(pick), w->store.version + 1};

    remember(w);
    sim_store_version(w, &w->store.now.token);
    memcpy(w->store.now.token.nonce, nonce, sizeof nonce);
}

/* What `tenure remove` leaves behind its own term: nothing is promised less than before. */
static void entomb(struct sim_world *w)
{
    struct sim_value *now = &w->store.now;
    uint64_t pick = w->store.removal;

    if (!pick || w->now_ns >= w->plan.hostile_ns || !now->has_record || now->corrupt ||
        now->tombstone || tn_lease_held(&now->lease) || !tn_lease_sane(&now->lease))
        return;
    touch(w, pick);
    now->lease = tn_lease_tombstone(&now->lease, 0, 0);
    now->tombstone = true;
    now->serial = 0;
    w->store.removal = 0;
    sim_say(w, -1, "the election is removed: v%s, epoch %llu", now->token.version,
            (unsigned long long)now->lease.epoch);
    if (w->plan.purges)
        sim_compaction_begin(w, pick);
}

void sim_store_purge(struct sim_world *w, uint64_t pick)
{
    remember(w);
    memset(&w->store.now, 0, sizeof w->store.now);
    w->store.age++;
    w->age_epoch = 0;
    w->store.removal = w->plan.swift ? sim_mix(pick) | 1 : 0;
    sim_say(w, -1, "its tombstone is deleted");
    sim_store_notify(w, &w->store.now, UINT16_MAX);
}

void sim_store_apply(struct sim_world *w, const struct sim_msg *msg)
{
    struct sim_value *reg = sim_store_of(w, msg->node);

    uint64_t above = w->top_epoch;

    sim_check_apply(w, msg, reg);
    remember(w);
    if (msg->purpose == TN_FOR_CLAIM || msg->purpose == TN_FOR_REGRANT)
        reg->serial = new_grant(w, msg, above);
    sim_store_version(w, &reg->token);
    memcpy(reg->token.nonce, msg->nonce, TENURE_NONCE_SIZE);
    reg->tombstone = reg->corrupt = false;
    reg->has_record = true;
    reg->lease = msg->record;
    reg->sent_ns = msg->sent_ns;
    reg->hold_ns = msg->hold_ns;
    note_applied(w, reg);
    sim_hash(w, (uint64_t)msg->purpose << 8 | msg->node, reg->lease.epoch);
    sim_say(w, msg->node, "%s takes effect: v%s, epoch %llu", sim_purpose_word(msg->purpose),
            reg->token.version, (unsigned long long)reg->lease.epoch);
    if (reg == &w->store.now)
        entomb(w);
    uint16_t split = w->now_ns < w->store.split_until_ns ? w->store.split_nodes : 0;
    sim_store_notify(w, reg, reg == &w->store.split ? split : (uint16_t)~split);
}

/* ---- What befalls the record --------------------------------------------- */

static void told(struct sim_world *w)
{
    sim_store_notify(w, &w->store.now, UINT16_MAX);
}

/* One of the last few that names another process than the record does now, which may stand by. */
static struct sim_value *of_another(struct sim_world *w)
{
    struct sim_store *s = &w->store;

    for (unsigned i = 0; i < s->n_past && i < SIM_PAST_MAX; i++) {
        struct sim_value *old = &s->past[(s->n_past - 1 - i) % SIM_PAST_MAX];

        if (old->has_record && !old->corrupt && tn_lease_held(&old->lease) &&
            memcmp(old->lease.incarnation, s->now.lease.incarnation, TENURE_NONCE_SIZE) != 0)
            return old;
    }
    return NULL;
}

/* How many versions ago: one of the last few. */
static struct sim_value *earlier(struct sim_world *w, uint64_t pick)
{
    struct sim_store *s = &w->store;
    unsigned have = s->n_past < SIM_PAST_MAX ? s->n_past : SIM_PAST_MAX;

    if (have == 0)
        return NULL;
    return &s->past[(s->n_past - 1 - pick % have) % SIM_PAST_MAX];
}

static uint64_t number_of(const struct tenure_token *token)
{
    uint64_t v = 0;

    for (const char *p = token->version; *p; p++)
        v = v * 10 + (uint64_t)(*p - '0');
    return v;
}

static void restore(struct sim_world *w, uint64_t pick)
{
    const struct sim_value *old = pick & 2 ? of_another(w) : NULL;

    if (!old)
        old = earlier(w, pick >> 8);
    if (!old)
        return;
    w->store.now = *old;
    if (pick & 1)
        w->store.version = number_of(&w->store.now.token);
    sim_say(w, -1, "the record is restored to v%s", w->store.now.token.version);
    sim_check_record_lost(w);
}

static void edit(struct sim_world *w, uint64_t pick)
{
    struct sim_value *now = &w->store.now;

    if (!now->has_record || now->corrupt || now->tombstone)
        return;
    touch(w, pick);
    w->edited_serial = w->n_grants;
    switch (pick % 4) {
    case 0:
        now->lease.holder[0] = '\0';
        break;
    case 1:
        memcpy(now->lease.holder, "operator", sizeof "operator");
        now->lease.epoch++;
        now->serial = 0;
        break;
    case 2:
        now->lease.ttl_ms = (pick >> 8) % 2 ? TN_TTL_MIN_MS : 2 * now->lease.ttl_ms;
        break;
    default:
        return; /* the same again: nothing is lost */
    }
    sim_check_record_lost(w);
}

static void corrupt(struct sim_world *w, uint64_t pick)
{
    struct sim_value *now = &w->store.now;

    touch(w, pick);
    now->tombstone = false;
    now->serial = 0;
    if (!now->has_record || pick % 6 == 0) {
        now->has_record = now->corrupt = true;
        return;
    }
    switch (pick % 6) {
    case 1:
        now->lease.epoch = 0;
        break;
    case 2:
        now->lease.epoch = TN_EPOCH_MAX + (pick >> 8) % 3;
        break;
    case 3:
        now->lease.ttl_ms = (pick >> 8) % TN_TTL_MIN_MS;
        break;
    case 4:
        now->lease.ttl_ms = TN_TTL_MAX_MS + 1 + (uint32_t)((pick >> 8) % 1000000);
        break;
    default:
        now->lease.epoch = (pick >> 8) % 2 ? UINT64_MAX : UINT64_C(1) << 60;
        break;
    }
}

/* Another server takes over, without the last writes; for a while some of the
 * candidates still talk to the old one. */
static void fail_over(struct sim_world *w, const struct sim_op *op)
{
    const struct sim_value *old = earlier(w, (op->pick >> 8) % 3);

    if (!old || w->now_ns < w->store.split_until_ns)
        return;
    w->store.split = w->store.now;
    w->store.split_nodes = (uint16_t)(op->pick >> 16);
    w->store.split_until_ns = op->pick & 1 ? w->now_ns + op->span_ns : 0;
    if (op->pick & 2)
        w->store.now = *old;
    sim_check_record_lost(w);
}

void sim_store_befall(struct sim_world *w, const struct sim_op *op)
{
    struct sim_value *now = &w->store.now;

    switch (op->kind) {
    case SIM_OP_DELETE:
        remember(w);
        memset(now, 0, sizeof *now);
        if (op->pick & 1)
            w->store.version = 0;
        sim_check_record_lost(w);
        break;
    case SIM_OP_RESTORE:
        restore(w, op->pick);
        break;
    case SIM_OP_EDIT:
        edit(w, op->pick);
        break;
    case SIM_OP_ERASE:
        touch(w, op->pick);
        now->tombstone = true;
        now->corrupt = false;
        now->has_record = now->has_record && (op->pick & 1) && tn_lease_sane(&now->lease);
        now->serial = 0;
        sim_check_record_lost(w);
        break;
    case SIM_OP_CORRUPT:
        corrupt(w, op->pick);
        break;
    case SIM_OP_REMOVE:
        w->store.removal = op->pick | 1;
        entomb(w);
        told(w);
        return; /* it excuses nobody */
    case SIM_OP_ROT:
        now->corrupt = now->has_record;
        break;
    case SIM_OP_FAILOVER:
        fail_over(w, op);
        break;
    default:
        return;
    }
    for (unsigned i = 0; i < w->plan.nodes; i++)
        sim_check_excuse(w, &w->nodes[i]);
    told(w);
}

void sim_store_reset(struct sim_world *w)
{
    struct sim_value *now = &w->store.now;

    if (!now->corrupt && (!now->has_record || tn_lease_sane(&now->lease)))
        return;
    touch(w, w->store.version);
    memset(&now->lease, 0, sizeof now->lease);
    now->corrupt = false;
    now->has_record = false;
    now->tombstone = true;
    now->serial = 0;
    sim_say(w, -1, "an operator resets the record: v%s", now->token.version);
    sim_check_record_lost(w);
    told(w);
}
