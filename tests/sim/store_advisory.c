/*
 * advisory: the register, and one more condition: whoever writes a lease that
 * is held must have the server's session lock.  The lock vanishes at any
 * instant, lingers after its session is gone, and may be a stranger's; so it
 * proves nothing, and the register decides as it does everywhere.
 */
#include "check.h"
#include "net.h"
#include "node.h"
#include "store.h"

/* A session is gone when its process is; the server may notice late. */
static void drop_dead_session(struct sim_world *w, const struct sim_msg *msg)
{
    struct sim_store *s = &w->store;

    if (s->lock_owner >= SIM_NODES_MAX)
        return;
    const struct sim_node *owner = &w->nodes[s->lock_owner];
    if ((owner->run == SIM_DOWN || owner->life != s->lock_life) && (w->quiet || (msg->no & 3) == 0))
        s->lock_owner = SIM_NOBODY;
}

static bool owns(const struct sim_world *w, const struct sim_msg *msg)
{
    return w->store.lock_owner == msg->node && w->store.lock_life == msg->life;
}

static bool take_lock(struct sim_world *w, const struct sim_msg *msg)
{
    struct sim_store *s = &w->store;

    drop_dead_session(w, msg);
    /* A session's own former self is ended by it; so is a lock that nobody has. */
    if (s->lock_owner == SIM_NOBODY || s->lock_owner == msg->node) {
        s->lock_owner = msg->node;
        s->lock_life = msg->life;
    }
    return owns(w, msg);
}

static void advisory_arrive(struct sim_world *w, struct sim_msg *msg)
{
    bool held = !msg->read && tn_lease_held(&msg->record);
    bool had = owns(w, msg);

    if (w->now_ns < w->store.down_until_ns || msg->read) {
        sim_family_register.arrive(w, msg);
        return;
    }
    if (held && !take_lock(w, msg)) {
        sim_check_excuse(w, &w->nodes[msg->node]);
        sim_say(w, msg->node, "request %u: somebody else has the lock", msg->no);
        sim_node_reply(w, msg, TENURE_UNAVAILABLE, NULL);
        sim_net_give(w, msg);
        return;
    }
    bool match = tenure_token_equal(&msg->expect, &w->store.now.token);
    if (owns(w, msg) && ((!held && match) || (held && !match && !had)))
        w->store.lock_owner = SIM_NOBODY; /* released, or taken for nothing */
    sim_family_register.arrive(w, msg);
}

static int64_t advisory_send(struct sim_world *w, struct sim_node *n, struct sim_msg *msg)
{
    return sim_family_register.send(w, n, msg);
}

const struct sim_family sim_family_advisory = {
    .name = "advisory",
    .promise = "everything, between candidates of ours; a stranger's lock may keep all of them out",
    .linear = true,
    .keeps = true,
    .weight = 8,
    .send = advisory_send,
    .arrive = advisory_arrive,
};
