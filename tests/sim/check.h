/*
 * sim/check.h - the promises of SAFETY.md, checked on true time.
 *
 * The world calls these where something is about to be believed, sent or
 * applied; each checker file keeps one group of invariants.  A checker only
 * looks: it changes nothing but its own memory and w->failed.
 */
#ifndef SIM_CHECK_H
#define SIM_CHECK_H

#include "world.h"

/* A step was made. */
void sim_check_step(struct sim_world *w, struct sim_node *n, const struct tn_event *ev);
/* A swap leaves its driver. */
void sim_check_send(struct sim_world *w, struct sim_node *n);
/* A swap takes effect: `before` still stands in the register. */
void sim_check_apply(struct sim_world *w, const struct sim_msg *msg,
                     const struct sim_value *before);

/* check_exclusion.c: I1. */
void sim_check_exclusion(struct sim_world *w, struct sim_node *n);
/* An exemption has ended: look at everybody again. */
void sim_check_exclusion_all(struct sim_world *w);
bool sim_exempt(const struct sim_world *w, const struct sim_node *n, uint32_t serial,
                uint32_t claim_no);
/* The record was lost or rewritten: nothing is promised about the grants up to now. */
void sim_check_record_lost(struct sim_world *w);
/* check_spare.c: I1 over a record that went back.  A read showed n->req.seen. */
void sim_check_looked(struct sim_world *w, struct sim_node *n);
/* n starts a program: not beside a holder that it has to spare. */
void sim_check_spared(struct sim_world *w, struct sim_node *n);
/* check_epoch.c: I2. */
void sim_check_won(struct sim_world *w, struct sim_node *n);
/* It has won by this grant already. */
bool sim_check_used(struct sim_world *w, const uint8_t grant[TENURE_NONCE_SIZE]);
void sim_check_begun(struct sim_world *w, struct sim_node *n);
void sim_check_granted(struct sim_world *w, const struct sim_msg *msg,
                       const struct sim_value *before);
/* check_fence.c: I3, I4. */
void sim_check_doc(struct sim_world *w, unsigned doc, const struct sim_doc *value,
                   const struct sim_doc *before, uint64_t expect_version, uint64_t expect_nonce);
void sim_check_loaded(struct sim_world *w, struct sim_node *n);
/* check_swap.c: I5, I6, I6b. */
void sim_check_swap_sent(struct sim_world *w, struct sim_node *n);
void sim_check_swap_applied(struct sim_world *w, const struct sim_msg *msg,
                            const struct sim_value *before);
void sim_check_deadline(struct sim_world *w, struct sim_node *n);
/* check_release.c: I7, I8. */
void sim_check_release_sent(struct sim_world *w, struct sim_node *n);
void sim_check_release_applied(struct sim_world *w, const struct sim_msg *msg,
                               const struct sim_value *before);
/* check_loss.c: I9, I12. */
void sim_check_stop(struct sim_world *w, struct sim_node *n);
void sim_check_fired(struct sim_world *w, struct sim_node *n);
void sim_check_believed(struct sim_world *w, struct sim_node *n, const struct tn_event *ev);
/* Something happened to this candidate that may cost it the leadership. */
void sim_check_excuse(struct sim_world *w, struct sim_node *n);
/* check_liveness.c: I10, I11. */
void sim_check_stuck(struct sim_world *w, struct sim_node *n);
/* The faults are over: what must happen now, and by when. */
void sim_check_calm(struct sim_world *w, uint32_t part, uint32_t gen);
/* From now on a leader has to come up within its bound; over if there is one already. */
void sim_check_await(struct sim_world *w);
/* If the bound of that has passed, that is a violation. */
void sim_check_overdue(struct sim_world *w);
/* A program was started: perhaps the one that the calm waits for. */
void sim_check_started(struct sim_world *w, const struct sim_node *n);

#endif
