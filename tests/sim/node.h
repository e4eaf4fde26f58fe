/*
 * sim/node.h - a candidate: the shipped elector and a driver that obeys the
 * duties of core/elector.h as the real one does.
 */
#ifndef SIM_NODE_H
#define SIM_NODE_H

#include "world.h"

/* A new process of this candidate: the same id, a fresh incarnation. */
void sim_node_boot(struct sim_world *w, struct sim_node *n);
/* The process is gone.  Its program is for its guard to end. */
void sim_node_kill(struct sim_world *w, struct sim_node *n);
/* Stop it for a while.  Overlapping pauses last until the last of them ends. */
void sim_node_pause(struct sim_world *w, struct sim_node *n, int64_t span_ns);
void sim_node_resume(struct sim_world *w, struct sim_node *n);

/* Something happened to it: stepped now, or when the driver gets to it. */
void sim_node_post(struct sim_world *w, struct sim_node *n, const struct sim_mail *mail);
/* Go on with what is waiting, if it can. */
void sim_node_pump(struct sim_world *w, struct sim_node *n);

/* Set the timer of its wait; one that is set for earlier is set anew when it comes up. */
void sim_node_set_wake(struct sim_world *w, struct sim_node *n);
void sim_node_wake(struct sim_world *w, struct sim_node *n, uint32_t gen);
void sim_node_notice(struct sim_world *w, struct sim_node *n, uint32_t gen);
void sim_node_answer(struct sim_world *w, struct sim_node *n, uint32_t no);
void sim_node_give_up(struct sim_world *w, struct sim_node *n, uint32_t no);
/* Its clock changed: what waits for a local time is set anew. */
void sim_node_rearm(struct sim_world *w, struct sim_node *n);

/* ---- For families -------------------------------------------------------- */

/* Say what became of request msg->no, if its candidate still wants to know. */
void sim_node_reply(struct sim_world *w, const struct sim_msg *msg, enum tenure_status status,
                    const struct sim_value *seen);

/* No answer will come: it gives up when its time is up. */
void sim_node_unanswered(struct sim_world *w, struct sim_node *n, uint32_t no);

#endif
