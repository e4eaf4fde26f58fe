/* sim/ops.h - the things that befall a world, one by one. */
#ifndef SIM_OPS_H
#define SIM_OPS_H

#include "world.h"

void sim_ops_begin(struct sim_world *w, unsigned index);
/* The second half of those that have one: the partition heals, the process is back. */
void sim_ops_end(struct sim_world *w, unsigned index);
/* The host restarts: nothing of it is left. */
void sim_ops_reboot(struct sim_world *w, struct sim_node *n);
/* The faults are over: everything works again, everybody is there. */
void sim_ops_heal(struct sim_world *w);

#endif
