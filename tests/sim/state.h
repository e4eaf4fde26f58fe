/*
 * sim/state.h - the fenced state, as a model: a register per document in a
 * service of its own that judges epochs (core/fence.h), sealed by each new
 * leader before it starts (I4), written by swaps on the version last seen (I3).
 *
 * In other histories the product's own code takes its place behind the same
 * calls (term.h), or a file per epoch (state_files.c).
 */
#ifndef SIM_STATE_H
#define SIM_STATE_H

#include "world.h"

void sim_state_clear(struct sim_world *w);
/* Duty 3: seal everything under the grant just won, then tell the elector. */
void sim_saver_seal(struct sim_world *w, struct sim_node *n);
/* It could not be sealed the last time: again, if this is still about the same term. */
void sim_saver_seal_again(struct sim_world *w, struct sim_node *n, uint32_t gen);
/* The program was started: after a while it saves now and then. */
void sim_saver_begin(struct sim_world *w, struct sim_node *n, int64_t after_ns);
void sim_saver_end(struct sim_world *w, struct sim_node *n);
void sim_saver_save(struct sim_world *w, struct sim_node *n, uint32_t gen);
void sim_saver_answer(struct sim_world *w, struct sim_node *n, uint32_t msg, uint32_t no);
void sim_state_arrive(struct sim_world *w, uint32_t msg);
/* Somebody without a grant writes with epoch 0; it must not take effect. */
void sim_state_rogue(struct sim_world *w, uint64_t pick);
/* Another leader, of a lease that is lost since, has sealed it far ahead. */
void sim_state_fence(struct sim_world *w, uint64_t pick);

/* ---- For state.c and state_files.c --------------------------------------- */

/* Whoever saves is stopped with its process. */
bool sim_saver_asleep(const struct sim_world *w, const struct sim_node *n);
void sim_saver_fenced(struct sim_world *w, struct sim_node *n, uint64_t floor);
void sim_saver_sealed(struct sim_world *w, struct sim_node *n);
/* A commit was acknowledged: what it holds may not be lost any more. */
void sim_saver_acked(struct sim_world *w, struct sim_node *n);
int64_t sim_saver_pace(const struct sim_world *w, const struct sim_node *n);

/* state_files.c: the same, with a file per epoch. */
void sim_files_seal(struct sim_world *w, struct sim_node *n);
void sim_files_save(struct sim_world *w, struct sim_node *n);
void sim_files_step(struct sim_world *w, struct sim_node *n, uint32_t gen);
void sim_files_fence(struct sim_world *w, uint64_t pick);

#endif
