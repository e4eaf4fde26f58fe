#include "check.h"

void sim_check_step(struct sim_world *w, struct sim_node *n, const struct tn_event *ev)
{
    if (n->out.set & TN_ACT_SEAL)
        sim_check_won(w, n);
    if (n->out.set & TN_ACT_START)
        sim_check_begun(w, n);
    if (ev->kind == TN_EV_READ && ev->status == TENURE_OK)
        sim_check_looked(w, n);
    if (ev->kind == TN_EV_UNSEALED)
        n->facts.unsealed_final = ev->final;
    sim_check_believed(w, n, ev);
    sim_check_deadline(w, n);
    if (n->out.set & TN_ACT_STOP)
        sim_check_stop(w, n);
    if ((n->out.set & TN_ACT_STOP) && (n->out.set & (TN_ACT_SEAL | TN_ACT_START)))
        sim_fail(w, "duty", "n%u is told to stop and to go on by one step", n->index);
    sim_check_stuck(w, n);
    n->facts.published_ns = n->out.deadline_ns;
    n->facts.phase = n->elector.phase;
}

void sim_check_send(struct sim_world *w, struct sim_node *n)
{
    sim_check_swap_sent(w, n);
    if (n->req.purpose == TN_FOR_RELEASE)
        sim_check_release_sent(w, n);
}

void sim_check_apply(struct sim_world *w, const struct sim_msg *msg, const struct sim_value *before)
{
    sim_check_swap_applied(w, msg, before);
    if (msg->purpose == TN_FOR_CLAIM || msg->purpose == TN_FOR_REGRANT)
        sim_check_granted(w, msg, before);
    else if (msg->purpose == TN_FOR_RELEASE)
        sim_check_release_applied(w, msg, before);
}
