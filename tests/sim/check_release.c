/*
 * I7: leadership is dropped in memory before it is released in the store.
 * I8: a release is written only after the program is dead, only if holder,
 *     incarnation and grant match, by a swap on the version read.
 */
#include <string.h>

#include "check.h"

void sim_check_release_sent(struct sim_world *w, struct sim_node *n)
{
    if (n->elector.phase != TN_PHASE_RELEASING || n->out.deadline_ns != 0)
        sim_fail(w, "I7", "n%u releases while it is %s", n->index, tn_phase_word(n->elector.phase));
    if (n->body.prog != SIM_PROG_NONE)
        sim_fail(w, "I8", "n%u releases before its program is dead", n->index);
}

void sim_check_release_applied(struct sim_world *w, const struct sim_msg *msg,
                               const struct sim_value *before)
{
    const struct sim_node *n = &w->nodes[msg->node];
    const char id[] = {'n', (char)('0' + msg->node), '\0'};

    if (!before->has_record || before->tombstone ||
        !tn_lease_is_grant(&before->lease, id, msg->incarnation, msg->grant))
        sim_fail(w, "I8", "n%u released what was not the grant that ended", msg->node);
    if (w->plan.guarded && before->serial != 0 &&
        ((n->body.prog != SIM_PROG_NONE && n->body.serial == before->serial) ||
         (n->ghost.prog != SIM_PROG_NONE && n->ghost.serial == before->serial)))
        sim_fail(w, "I8", "n%u's lease was released while its program is alive", msg->node);
    /* It may go up, over a record that somebody edited or restored. */
    if (msg->record.epoch < before->lease.epoch)
        sim_fail(w, "I2", "n%u's release took the epoch back", msg->node);
}
