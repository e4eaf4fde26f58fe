/*
 * Families that are one register behind a network.
 *
 *   register  linearizable: what the contract asks for (C1 to C6).
 *   stale     reads may show an older value (a replica, a cache); swaps do not.
 *   failover  the server fails over and forgets its last writes, and for a
 *             while some still talk to the old one.
 */
#include <string.h>

#include "check.h"
#include "net.h"
#include "node.h"
#include "store.h"

static void copy_later(struct sim_world *w, const struct sim_msg *msg, int64_t at_ns)
{
    struct sim_msg *copy = sim_net_take(w);

    *copy = *msg;
    copy->echo = true;
    sim_at(w, at_ns, SIM_Q_ARRIVE, msg->node, 0, sim_net_index(w, copy));
}

static int64_t register_send(struct sim_world *w, struct sim_node *n, struct sim_msg *msg)
{
    struct sim_fate f = sim_net_fate(w, SIM_RND_REQUEST, n, msg->no);
    enum tenure_status broken = msg->read ? TENURE_UNAVAILABLE : TENURE_UNKNOWN;

    if (n->cut)
        f = (struct sim_fate){.hostile = true, .out_ns = -1, .twice_ns = -1, .cut_ns = -1};
    f.out_ns += f.out_ns >= 0 ? msg->wait_ns : 0;
    f.twice_ns += f.twice_ns >= 0 ? msg->wait_ns : 0;
    f.cut_ns += f.cut_ns >= 0 ? msg->wait_ns : 0;
    n->session = n->session && !f.refused && f.cut_ns < 0;
    if (f.hostile) {
        sim_check_excuse(w, n);
        sim_say(w, n->index, "request %u: %s", msg->no,
                f.refused         ? "will be refused"
                : f.cut_ns >= 0   ? "the connection will break"
                : f.out_ns < 0    ? "will be lost"
                : f.twice_ns >= 0 ? "will arrive twice"
                : f.back_ns < 0   ? "will have no answer"
                                  : "will be slow");
    }
    msg->back_ns = f.back_ns;
    if (f.refused || f.cut_ns >= 0) {
        msg->back_ns = f.refused ? 0 : f.cut_ns;
        sim_node_reply(w, msg, f.refused ? TENURE_UNAVAILABLE : broken, NULL);
    }
    int64_t due = f.refused || f.cut_ns >= 0      ? w->now_ns + msg->back_ns
                  : f.out_ns < 0 || f.back_ns < 0 ? SIM_NEVER
                                                  : w->now_ns + f.out_ns + f.back_ns;
    if (f.twice_ns >= 0 && !msg->read)
        copy_later(w, msg, w->now_ns + f.twice_ns);
    if (f.out_ns < 0)
        sim_net_give(w, msg);
    else
        sim_at(w, w->now_ns + f.out_ns, SIM_Q_ARRIVE, n->index, 0, sim_net_index(w, msg));
    return due;
}

/* A replica that lags: one of the values before. */
static const struct sim_value *what_is_read(struct sim_world *w, const struct sim_msg *msg,
                                            const struct sim_value *now)
{
    struct sim_store *s = &w->store;
    unsigned have = s->n_past < SIM_PAST_MAX ? s->n_past : SIM_PAST_MAX;
    struct sim_rng rng = sim_rng_keyed(w->plan.seed, SIM_RND_REQUEST, msg->node | 0x40u, msg->no);

    if (w->plan.family->linear || have == 0 || w->quiet ||
        (uint16_t)sim_rng_next(&rng) >= w->plan.odds.stale ||
        !sim_fault(w, SIM_RND_REQUEST, msg->node | 0x40u, msg->no))
        return now;
    sim_say(w, msg->node, "request %u shows an older value", msg->no);
    return &s->past[(s->n_past - 1 - sim_rng_below(&rng, have < 4 ? have : 4)) % SIM_PAST_MAX];
}

static void register_arrive(struct sim_world *w, struct sim_msg *msg)
{
    struct sim_node *n = &w->nodes[msg->node];
    struct sim_value *reg = sim_store_of(w, msg->node);

    if (w->now_ns < w->store.down_until_ns) {
        sim_check_excuse(w, n);
        if (w->store.down_refuses)
            sim_node_reply(w, msg, TENURE_UNAVAILABLE, NULL);
        else if (n->run != SIM_DOWN && n->req.out && n->req.no == msg->no && !n->req.answered)
            sim_node_unanswered(w, n, msg->no);
    } else if (msg->read) {
        sim_node_reply(w, msg, TENURE_OK, what_is_read(w, msg, reg));
    } else if (tenure_token_equal(&msg->expect, &reg->token)) {
        sim_store_apply(w, msg);
        sim_node_reply(w, msg, TENURE_OK, reg);
    } else {
        sim_say(w, msg->node, "request %u meets a conflict", msg->no);
        sim_node_reply(w, msg, TENURE_CONFLICT, NULL);
    }
    sim_net_give(w, msg);
}

const struct sim_family sim_family_register = {
    .name = "register",
    .promise = "everything, except over what SAFETY.md names under I1",
    .linear = true,
    .keeps = true,
    .weight = 58,
    .send = register_send,
    .arrive = register_arrive,
};

const struct sim_family sim_family_stale = {
    .name = "stale",
    .promise = "all but I9, I10 and I12: a stale read may cost a leader its term",
    .linear = false,
    .keeps = true,
    .weight = 8,
    .send = register_send,
    .arrive = register_arrive,
};

const struct sim_family sim_family_failover = {
    .name = "failover",
    .promise = "fencing (I3, I4) and what holds within one server's memory; not I1, I2, I12 "
               "over a lost write",
    .linear = true,
    .keeps = false,
    .weight = 8,
    .send = register_send,
    .arrive = register_arrive,
};
