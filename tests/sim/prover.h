/*
 * sim/prover.h - the command that makes sure that a holder's machine is off (TN_ACT_PROVE).
 *
 * It takes its time, fails, does its work and says that it failed, or is told of after the
 * machine is up again.  What it never does is to succeed without having switched it off.
 */
#ifndef SIM_PROVER_H
#define SIM_PROVER_H

#include "world.h"

/* Duty 6: n wants its suspect proved dead. */
void sim_prover_start(struct sim_world *w, struct sim_node *n);
/* Its next step; life: of the candidate that started it. */
void sim_prover_step(struct sim_world *w, struct sim_node *n, uint32_t life, uint32_t arg);

#endif
