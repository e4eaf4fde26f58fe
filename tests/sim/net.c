#include "net.h"

#include <assert.h>

#include "check.h"

void sim_net_clear(struct sim_world *w)
{
    for (unsigned i = 0; i < SIM_MSGS_MAX; i++)
        w->msgs[i].next = (uint16_t)(i + 1);
    w->free_msg = 0;
}

struct sim_msg *sim_net_take(struct sim_world *w)
{
    assert(w->free_msg < SIM_MSGS_MAX);
    struct sim_msg *msg = &w->msgs[w->free_msg];
    w->free_msg = msg->next;
    return msg;
}

void sim_net_give(struct sim_world *w, struct sim_msg *msg)
{
    msg->next = w->free_msg;
    w->free_msg = (uint16_t)(msg - w->msgs);
}

/* Something is wrong with this one: choose what. */
static void spoil(struct sim_world *w, const struct sim_node *n, struct sim_rng *rng,
                  struct sim_fate *f)
{
    const struct sim_odds *o = &w->plan.odds;
    int64_t request = n->timing->request_ns, ttl = n->timing->ttl_ns;
    unsigned sum = o->lost + o->deaf + o->late + o->twice + o->slow + o->cut + o->refused;
    unsigned pick = (unsigned)sim_rng_below(rng, sum ? sum : 1);

    f->hostile = true;
    if (pick < o->lost) {
        f->out_ns = -1;
    } else if ((pick -= o->lost) < o->deaf) {
        f->back_ns = -1;
    } else if ((pick -= o->deaf) < o->late) {
        f->out_ns = sim_rng_span(rng, request / 2, sim_rng_chance(rng, 50) ? ttl : 6 * ttl);
        f->back_ns = -1;
    } else if ((pick -= o->late) < o->twice) {
        f->twice_ns = f->out_ns + sim_rng_span(rng, 0, sim_rng_chance(rng, 50) ? request : 4 * ttl);
    } else if ((pick -= o->twice) < o->slow) {
        f->out_ns = sim_rng_span(rng, 0, request);
        f->back_ns = sim_rng_span(rng, 0, request);
    } else if ((pick -= o->slow) < o->cut) {
        f->cut_ns = sim_rng_span(rng, 0, request / 4);
        f->back_ns = -1;
        if (sim_rng_chance(rng, 30))
            f->out_ns = -1;
        else if (sim_rng_chance(rng, 40))
            f->out_ns = sim_rng_span(rng, 0, 4 * ttl);
    } else {
        f->refused = true;
        f->out_ns = -1;
    }
}

struct sim_fate sim_net_fate(struct sim_world *w, enum sim_stream stream, const struct sim_node *n,
                             uint32_t number)
{
    uint64_t r = sim_key(w->plan.seed, stream, n->index, number);
    uint64_t latency = (uint64_t)w->plan.latency_ns;
    struct sim_fate f = {
        .out_ns = (int64_t)((r >> 40) * latency >> 24),
        .back_ns = (int64_t)((r >> 16 & 0xffffff) * latency >> 24),
        .twice_ns = -1,
        .cut_ns = -1,
    };
    unsigned odds = stream == SIM_RND_STATE ? w->plan.odds.state_fault : w->plan.odds.any;

    if ((r & 0xffff) >= odds || !sim_fault(w, stream, n->index, number))
        return f;
    struct sim_rng rng = {r};
    spoil(w, n, &rng, &f);
    return f;
}
