/* core/replica/replica_inner.h - the two halves of the machine. */
#ifndef TN_CORE_REPLICA_INNER_H
#define TN_CORE_REPLICA_INNER_H

#include "core/replica/replica.h"

/* ---- replica.c: the copy and its links ------------------------------------- */

/* Somebody has seen this epoch: who leads in a lower one does not lead (R9, R17). */
void tn_replica_hear(struct tn_replica *r, uint64_t epoch, struct tn_replica_actions *out);
/* Begin the transaction that makes r->draft the head. */
void tn_replica_write(struct tn_replica *r, enum tn_write write, struct tn_replica_actions *out);

/* ---- replica_term.c: promotion, the set, acknowledging --------------------- */

void tn_replica_term_won(struct tn_replica *r, const struct tn_replica_event *ev,
                         struct tn_replica_actions *out);
void tn_replica_term_end(struct tn_replica *r, struct tn_replica_actions *out);
void tn_replica_term_flushed(struct tn_replica *r, enum tn_write write,
                             struct tn_replica_actions *out);
void tn_replica_term_answered(struct tn_replica *r, const struct tn_replica_event *ev,
                              struct tn_replica_actions *out);
/* True: it is new.  What is not new is not forwarded, so that it cannot go round in circles. */
bool tn_replica_term_ack(struct tn_replica *r, const struct tn_replica_ack *ack);
void tn_replica_term_lost(struct tn_replica *r, const uint8_t *id);
/* The commit point, as its primary knows it: what is acknowledged; in async, what is published. */
struct tn_position tn_replica_term_committed(const struct tn_replica *r);
/* What is to be done next: requests, the first change, what is acknowledged. */
void tn_replica_term_plan(struct tn_replica *r, struct tn_replica_actions *out);

#endif
