/*
 * slots: a register as a folder of immutable numbered files on a shared file
 * system (store/file/swap.c tells the real protocol; this is its model).
 *
 * A swap on slot n prepares (n is the highest that is seen), links slot n+1,
 * which fails if there is one, and settles: it claims success only if slot n,
 * the very one expected, is still there, and the link did not take too long.
 * Old slots are removed from the lowest up, a while after they were superseded.
 * A listing is no snapshot and may miss what is there; caches show what was; a
 * server may do a link and lose its answer.
 *
 * The times are shorter than in the product, so that a short history sees many
 * clean-ups: RETAIN is one ttl and a half, KEEP is two.
 */
#include "check.h"
#include "net.h"
#include "node.h"
#include "store.h"

#define KEEP 2

enum stage { PREPARE, LINK, LOOK, SETTLE };

static int64_t retain_ns(const struct sim_world *w)
{
    return w->plan.timing[0].ttl_ns * 3 / 2;
}

static uint64_t number_of(const struct tenure_token *token)
{
    uint64_t v = 0;

    for (const char *p = token->version; *p; p++)
        v = v * 10 + (uint64_t)(*p - '0');
    return v;
}

static void later(struct sim_world *w, struct sim_msg *msg, enum stage stage, int64_t at_ns)
{
    msg->stage = (uint8_t)stage;
    sim_at(w, at_ns, SIM_Q_FAMILY, msg->node, 0, sim_net_index(w, msg));
}

static void end(struct sim_world *w, struct sim_msg *msg, enum tenure_status status,
                const struct sim_value *seen)
{
    msg->back_ns = 0;
    sim_node_reply(w, msg, status, seen);
    sim_net_give(w, msg);
}

/* Whoever sent it still waits for it, and is running. */
static bool wanted(const struct sim_world *w, const struct sim_msg *msg)
{
    const struct sim_node *n = &w->nodes[msg->node];

    return !msg->echo && n->run != SIM_DOWN && n->life == msg->life && n->req.out &&
           n->req.no == msg->no && !n->req.answered;
}

/* ---- Reading ------------------------------------------------------------- */

static bool hit(struct sim_world *w, const struct sim_msg *msg, unsigned salt, uint16_t odds)
{
    uint64_t r = sim_key(w->plan.seed, SIM_RND_SLOT, msg->node | salt << 4, msg->no);

    return (r & 0xffff) < odds && sim_fault(w, SIM_RND_SLOT, msg->node | salt << 4, msg->no);
}

/* A cache shows what was the highest before; but never less than is known. */
static const struct sim_value *from_cache(struct sim_world *w, const struct sim_msg *msg)
{
    const struct sim_store *s = &w->store;
    unsigned have = s->n_past < SIM_PAST_MAX ? s->n_past : SIM_PAST_MAX;

    for (unsigned i = 0; i < have && i < 3; i++) {
        const struct sim_value *old = &s->past[(s->n_past - 1 - i) % SIM_PAST_MAX];

        if (number_of(&old->token) < w->nodes[msg->node].hint)
            break;
        if (hit(w, msg, 1 + i, w->plan.odds.stale))
            return old;
    }
    return &s->now;
}

static const struct sim_value *look(struct sim_world *w, const struct sim_msg *msg)
{
    static const struct sim_value nothing;
    const struct sim_value *seen = from_cache(w, msg);

    if (hit(w, msg, 8, w->plan.odds.stale)) {
        /* The folder changed while it was listed, and the listing missed the
         * highest: nothing is believed of it, it is listed again. */
        seen = &nothing;
    }
    if (seen == &nothing)
        seen = &w->store.now;
    return seen;
}

static void know(struct sim_world *w, unsigned node, uint64_t number)
{
    if (number > w->nodes[node].hint)
        w->nodes[node].hint = number;
}

/* ---- Swapping ------------------------------------------------------------ */

static void prepare(struct sim_world *w, struct sim_msg *msg)
{
    const struct sim_node *n = &w->nodes[msg->node];
    const struct sim_value *seen = look(w, msg);

    if (msg->read) {
        know(w, msg->node, number_of(&seen->token));
        end(w, msg, TENURE_OK, seen);
        return;
    }
    if (!tenure_token_equal(&seen->token, &msg->expect)) {
        know(w, msg->node, number_of(&seen->token));
        end(w, msg, TENURE_CONFLICT, NULL);
        return;
    }
    msg->seen_ns = sim_local(w, n);
    later(w, msg, LINK, w->now_ns + msg->link_ns);
}

/* The server makes slot n+1, unless it is there. */
static void make_slot(struct sim_world *w, struct sim_msg *msg)
{
    struct sim_store *s = &w->store;
    uint64_t base = number_of(&msg->expect), number = base + 1;

    msg->made = number > s->version || number < s->low;
    msg->follows = tenure_token_equal(&msg->expect, &s->now.token);
    if (number > s->version) {
        s->version = number - 1; /* it is the highest now, whatever it was built on */
        sim_store_apply(w, msg);
    } else if (msg->made) {
        sim_say(w, msg->node, "request %u fills a slot that was removed", msg->no);
    }
}

static void link_slot(struct sim_world *w, struct sim_msg *msg)
{
    if (w->now_ns < w->store.down_until_ns) {
        sim_check_excuse(w, &w->nodes[msg->node]);
        if (wanted(w, msg))
            sim_node_unanswered(w, &w->nodes[msg->node], msg->no);
        sim_net_give(w, msg);
        return;
    }
    make_slot(w, msg);
    if (!wanted(w, msg)) {
        sim_net_give(w, msg);
        return;
    }
    know(w, msg->node, number_of(&msg->expect) + 1);
    if (msg->back_ns < 0)
        later(w, msg, LOOK, w->now_ns + w->plan.latency_ns);
    else if (msg->made)
        later(w, msg, SETTLE, w->now_ns + msg->back_ns);
    else
        end(w, msg, TENURE_CONFLICT, NULL);
}

/* The answer was lost; who asks again is told that the slot is there.  The
 * nonce in it tells whose it is. */
static void look_again(struct sim_world *w, struct sim_msg *msg)
{
    if (!msg->made)
        end(w, msg, TENURE_CONFLICT, NULL);
    else
        later(w, msg, SETTLE, w->now_ns);
}

static void clean(struct sim_world *w)
{
    struct sim_store *s = &w->store;

    if (s->low == 0)
        s->low = 1;
    if (s->noted == 0) {
        s->noted = s->version;
        s->noted_ns = w->now_ns;
    }
    if (w->now_ns - s->noted_ns < retain_ns(w) || s->version < KEEP + s->low)
        return;
    uint64_t floor = s->version - KEEP + 1 < s->noted ? s->version - KEEP + 1 : s->noted;
    if (floor > s->low)
        s->low = floor;
    s->noted = s->version;
    s->noted_ns = w->now_ns;
}

static void settle(struct sim_world *w, struct sim_msg *msg)
{
    const struct sim_node *n = &w->nodes[msg->node];
    uint64_t base = number_of(&msg->expect);
    bool slow = sim_local(w, n) - msg->seen_ns >= retain_ns(w) / 4;
    bool there = base == 0 ? w->store.low <= 1 : base >= w->store.low;

    if (slow || !there || !msg->follows) {
        sim_check_excuse(w, &w->nodes[msg->node]);
        end(w, msg, TENURE_UNKNOWN, NULL);
        return;
    }
    struct sim_value mine = {0};
    uint64_t v = base + 1;
    unsigned digits = 0;
    for (uint64_t x = v; x; x /= 10)
        digits++;
    for (unsigned i = digits; i > 0; i--, v /= 10)
        mine.token.version[i - 1] = (char)('0' + v % 10);
    __builtin_memcpy(mine.token.nonce, msg->nonce, TENURE_NONCE_SIZE);
    clean(w);
    end(w, msg, TENURE_OK, &mine);
}

/* ---- The family ---------------------------------------------------------- */

static void slots_event(struct sim_world *w, const struct sim_item *it)
{
    struct sim_msg *msg = &w->msgs[it->arg];
    const struct sim_node *n = &w->nodes[msg->node];

    /* The server does a link that is on its way; all else is done by the one who asked. */
    if (msg->stage != LINK && !wanted(w, msg)) {
        sim_net_give(w, msg);
        return;
    }
    if (msg->stage != LINK && n->run == SIM_PAUSED) {
        sim_at(w, n->resume_ns, SIM_Q_FAMILY, msg->node, 0, it->arg);
        return;
    }
    switch ((enum stage)msg->stage) {
    case PREPARE:
        if (w->now_ns < w->store.down_until_ns)
            link_slot(w, msg); /* nobody is there to be asked */
        else
            prepare(w, msg);
        break;
    case LINK:
        link_slot(w, msg);
        break;
    case LOOK:
        look_again(w, msg);
        break;
    case SETTLE:
        settle(w, msg);
        break;
    }
}

static int64_t slots_send(struct sim_world *w, struct sim_node *n, struct sim_msg *msg)
{
    struct sim_fate f = sim_net_fate(w, SIM_RND_REQUEST, n, msg->no);

    if (n->cut)
        f = (struct sim_fate){.hostile = true, .out_ns = -1, .twice_ns = -1, .cut_ns = -1};
    if (f.hostile)
        sim_check_excuse(w, n);
    if (f.out_ns < 0 || f.refused) {
        sim_net_give(w, msg);
        return SIM_NEVER;
    }
    msg->back_ns = f.cut_ns >= 0 ? -1 : f.back_ns;
    msg->link_ns = f.hostile ? f.out_ns : 0;
    if (f.twice_ns >= 0 && !msg->read) {
        struct sim_msg *copy = sim_net_take(w);

        *copy = *msg;
        copy->echo = true;
        later(w, copy, LINK, w->now_ns + f.twice_ns);
    }
    later(w, msg, PREPARE, w->now_ns + (f.hostile ? 0 : f.out_ns));
    return f.hostile ? SIM_NEVER : w->now_ns + f.out_ns + f.back_ns;
}

/* Messages of the other families do not come here. */
static void slots_arrive(struct sim_world *w, struct sim_msg *msg)
{
    sim_net_give(w, msg);
}

const struct sim_family sim_family_slots = {
    .name = "slots",
    .promise = "everything; a folder that is deleted as a whole is out of it",
    .linear = true,
    .keeps = true,
    .weight = 12,
    .send = slots_send,
    .arrive = slots_arrive,
    .event = slots_event,
};
