/*
 * sim/body.h - the program that a leader runs, and the guard over it
 * (SAFETY: Guard).  Without a guard the user is a library user: nobody can
 * kill anything, and what counts is what the candidate believes.
 */
#ifndef SIM_BODY_H
#define SIM_BODY_H

#include "world.h"

/* Duty 1: the deadline goes to the guard before anything else is done. */
void sim_body_publish(struct sim_world *w, struct sim_node *n);
/* Duty 2. */
void sim_body_stop(struct sim_world *w, struct sim_node *n);
/* Duty 4.  A guard that has fired does not start anything. */
void sim_body_start(struct sim_world *w, struct sim_node *n);

void sim_body_alarm(struct sim_world *w, struct sim_node *n, bool ghost, uint32_t gen);
void sim_body_dead(struct sim_world *w, struct sim_node *n, bool ghost, uint32_t gen);
/* End the program now, as KILL does: it is dead within K. */
void sim_body_kill(struct sim_world *w, struct sim_node *n, struct sim_body *b);
/* The program ends by itself. */
void sim_body_exit(struct sim_world *w, struct sim_node *n);
/* Tenure died: the guard ends the program and frees the lease. */
void sim_body_orphan(struct sim_world *w, struct sim_node *n);
/* The host goes on after it slept: the guard acts at once on what is overdue. */
void sim_body_continue(struct sim_world *w, struct sim_node *n);
void sim_body_rearm(struct sim_world *w, struct sim_node *n);
/* A message of a releaser has reached the store. */
void sim_body_releaser(struct sim_world *w, struct sim_msg *msg);

/* Acts at this instant: a program that is not dead, or a belief that stands. */
bool sim_body_acts(const struct sim_world *w, const struct sim_node *n);

#endif
