/* sim/net.h - messages between candidates and the store, and what befalls them. */
#ifndef SIM_NET_H
#define SIM_NET_H

#include "world.h"

void sim_net_clear(struct sim_world *w);
struct sim_msg *sim_net_take(struct sim_world *w);
void sim_net_give(struct sim_world *w, struct sim_msg *msg);
static inline uint32_t sim_net_index(const struct sim_world *w, const struct sim_msg *msg)
{
    return (uint32_t)(msg - w->msgs);
}

/* The fate of request `number` of a candidate, drawn from its own key. */
struct sim_fate sim_net_fate(struct sim_world *w, enum sim_stream stream, const struct sim_node *n,
                             uint32_t number);

#endif
