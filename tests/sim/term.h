/*
 * sim/term.h - a leader's term and its visitors, with the product's state code:
 * everything sealed and read before its program starts (I4), then commits,
 * batches, deletions, loads, a checkpoint; operators who edit, strangers who
 * seal further ahead, writers whose time is over.
 */
#ifndef SIM_TERM_H
#define SIM_TERM_H

#include "world.h"

/* Duty 3, under the grant in n->saver. */
void sim_term_seal(struct sim_world *w, struct sim_node *n);
/* Its program runs; its first save is due at that true time. */
void sim_term_begin(struct sim_world *w, struct sim_node *n, int64_t at_ns);
void sim_term_end(struct sim_world *w, struct sim_node *n);
/* A term has something to tell its elector. */
void sim_term_says(struct sim_world *w, uint32_t client, uint32_t uid);

/* The calls, each judged by what the registers really are. */
enum tenure_status sim_client_load(struct sim_client *c, const char *collection, const char *id,
                                   struct tenure_document *doc);
enum tenure_status sim_client_commit(struct sim_client *c, const char *const *ids, unsigned n,
                                     bool remove);
enum tenure_status sim_client_open(struct sim_client *c, const struct tenure_grant *grant);
enum tenure_status sim_client_seal(struct sim_client *c, const char *collection);

/* visitor.c */
enum sim_errand { SIM_EDITS, SIM_SEALS_AHEAD, SIM_WRITES_STALE };
void sim_visit(struct sim_world *w, unsigned node, enum sim_errand errand, uint64_t pick);
/* The host is down, or the faults are over. */
void sim_visitors_leave(struct sim_world *w, unsigned node);
void sim_visitors_leave_all(struct sim_world *w);

#endif
