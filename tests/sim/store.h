/* sim/store.h - the lease's register as it really is, and what befalls it. */
#ifndef SIM_STORE_H
#define SIM_STORE_H

#include "world.h"

void sim_store_clear(struct sim_world *w);
/* The register that a candidate talks to: there may be two after a fail-over. */
struct sim_value *sim_store_of(struct sim_world *w, unsigned node);
/* A swap takes effect.  Whoever calls has compared version and nonce (I5). */
void sim_store_apply(struct sim_world *w, const struct sim_msg *msg);
/* A candidate waits for a change: C6, subscribe, compare, sleep. */
void sim_store_subscribe(struct sim_world *w, struct sim_node *n);
/* Tell those who wait, as far as the network lets it through. */
void sim_store_notify(struct sim_world *w, const struct sim_value *now, uint16_t nodes);
/* One of the things that befall the record itself. */
void sim_store_befall(struct sim_world *w, const struct sim_op *op);
/* An operator makes it usable again. */
void sim_store_reset(struct sim_world *w);
/* What `tenure remove --compact` does from now on, once or twice, about the tombstone that is
 * there; compaction.c. */
void sim_compaction_begin(struct sim_world *w, uint64_t pick);
void sim_compaction_step(struct sim_world *w, uint32_t index);
/* The tombstone is deleted, by a compaction that compared its token. */
void sim_store_purge(struct sim_world *w, uint64_t pick);
/* The next version, as text. */
void sim_store_version(struct sim_world *w, struct tenure_token *token);

/* "claim", "renew", ... */
const char *sim_purpose_word(enum tn_purpose purpose);

extern const struct sim_family sim_family_register;
extern const struct sim_family sim_family_stale;
extern const struct sim_family sim_family_failover;
extern const struct sim_family sim_family_advisory;
extern const struct sim_family sim_family_slots;
extern const struct sim_family sim_family_jobs;

#endif
