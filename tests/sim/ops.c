#include "ops.h"

#include <string.h>

#include "body.h"
#include "check.h"
#include "node.h"
#include "state.h"
#include "store.h"
#include "term.h"

/* ---- Processes and hosts ------------------------------------------------- */

/* After a sleep, or with nobody watching, a program may act for K before it is
 * dead; from then on exclusion is promised again. */
static void exempt_until(struct sim_world *w, struct sim_node *n, int64_t resume_ns)
{
    int64_t k = w->plan.kill_ns[n->index];
    int64_t until = resume_ns + k / (1000000 - w->plan.rho_ppm) * 1000000 + 1000000;

    if (until > n->facts.exempt_until_ns)
        n->facts.exempt_until_ns = until;
    sim_at(w, n->facts.exempt_until_ns, SIM_Q_RECHECK, n->index, 0, 0);
}

static void stop_host(struct sim_world *w, struct sim_node *n, const struct sim_op *op)
{
    if (n->run == SIM_DOWN || n->run == SIM_PAUSED)
        return;
    if (op->kind == SIM_OP_SUSPEND)
        n->suspended = true;
    if (op->kind == SIM_OP_FREEZE) {
        n->frozen_ns = sim_local(w, n);
        n->frozen = true;
        n->facts.exempt_no = n->req.no;
    }
    sim_node_pause(w, n, op->span_ns);
    n->body.stopped = true;
    exempt_until(w, n, n->resume_ns);
}

void sim_ops_reboot(struct sim_world *w, struct sim_node *n)
{
    sim_node_kill(w, n);
    n->ghost.prog = SIM_PROG_NONE;
    n->ghost.dead_gen++;
    sim_clock_init(&n->clock, w->now_ns, TN_S, n->ppm);
    sim_node_rearm(w, n);
}

static void guard_dies(struct sim_world *w, struct sim_node *n)
{
    if (!w->plan.guarded || n->run != SIM_UP || n->body.prog == SIM_PROG_NONE)
        return;
    /* Tenure ends the program at once, and does not go on without a guard. */
    n->body.fired = n->body.told = true;
    sim_check_excuse(w, n);
    sim_body_kill(w, n, &n->body);
    struct sim_mail mail = {.kind = TN_EV_FIRED};
    memcpy(mail.grant, n->body.grant, TENURE_NONCE_SIZE);
    sim_node_post(w, n, &mail);
}

static void set_rate(struct sim_world *w, struct sim_node *n, int32_t ppm)
{
    if (n->frozen)
        return;
    n->ppm = ppm;
    sim_clock_set_rate(&n->clock, w->now_ns, ppm);
    sim_node_rearm(w, n);
    sim_body_rearm(w, n);
}

static int32_t drawn_rate(const struct sim_world *w, uint64_t pick)
{
    int32_t rho = (int32_t)w->plan.rho_ppm * (w->plan.wild ? 3 : 1);

    if (rho > 900000)
        rho = 900000;
    switch (pick % 4) {
    case 0:
        return rho;
    case 1:
        return -rho;
    case 2:
        return 0;
    default:
        return (int32_t)((pick >> 8) % (uint64_t)(2 * rho + 1)) - rho;
    }
}

static void outage(struct sim_world *w, const struct sim_op *op)
{
    if (w->now_ns + op->span_ns > w->store.down_until_ns)
        w->store.down_until_ns = w->now_ns + op->span_ns;
    w->store.down_refuses = op->pick & 1;
    for (unsigned i = 0; i < w->plan.nodes; i++)
        sim_check_excuse(w, &w->nodes[i]);
}

/* ---- Requests from people ------------------------------------------------ */

static void yield(struct sim_world *w, struct sim_node *n, const struct sim_op *op)
{
    int64_t until = sim_local(w, n) + op->span_ns;
    int64_t at = w->now_ns + op->span_ns / (1000000 - w->plan.rho_ppm) * 1000000 + 1000000;

    if (at > w->calm.yield_until_ns)
        w->calm.yield_until_ns = at;
    sim_node_post(w, n,
                  &(struct sim_mail){.kind = TN_EV_YIELD, .until_ns = op->pick & 1 ? until : 0});
}

static void change_timing(struct sim_world *w, struct sim_node *n)
{
    const struct tn_timing *own = &w->plan.timing[n->index];

    n->timing = n->timing == own ? &w->plan.other : own;
    sim_node_post(w, n, &(struct sim_mail){.kind = TN_EV_TIMING, .timing = n->timing});
}

static void control(struct sim_world *w, struct sim_node *n, bool may_claim, int64_t delay_ns)
{
    sim_node_post(
        w, n,
        &(struct sim_mail){.kind = TN_EV_CONTROL, .may_claim = may_claim, .until_ns = delay_ns});
}

static void spurious(struct sim_world *w)
{
    for (unsigned i = 0; i < w->plan.nodes; i++)
        sim_node_notice(w, &w->nodes[i], w->nodes[i].wait_gen);
}

/* ---- The table ----------------------------------------------------------- */

void sim_ops_begin(struct sim_world *w, unsigned index)
{
    const struct sim_op *op = &w->plan.ops[index];
    struct sim_node *n = &w->nodes[op->node];

    if (!sim_fault(w, SIM_RND_OP, 0, index))
        return;
    sim_say(w, -1, "op %u, n%u: %s, %.3f s", index, op->node, sim_op_text(op->kind),
            (double)op->span_ns / 1e9);
    switch (op->kind) {
    case SIM_OP_PAUSE:
        sim_node_pause(w, n, op->span_ns);
        break;
    case SIM_OP_PAUSE_ALL:
    case SIM_OP_SUSPEND:
    case SIM_OP_FREEZE:
        stop_host(w, n, op);
        break;
    case SIM_OP_KILL:
        sim_node_kill(w, n);
        break;
    case SIM_OP_REBOOT:
        sim_ops_reboot(w, n);
        break;
    case SIM_OP_EXIT:
        sim_body_exit(w, n);
        break;
    case SIM_OP_GUARD_DIES:
        guard_dies(w, n);
        break;
    case SIM_OP_RATE:
        set_rate(w, n, drawn_rate(w, op->pick));
        break;
    case SIM_OP_WALL:
        n->wall_off_ms = (int64_t)(op->pick % 20000000) - 10000000;
        break;
    case SIM_OP_OUTAGE:
        outage(w, op);
        break;
    case SIM_OP_PARTITION:
        n->cut = true;
        sim_check_excuse(w, n);
        break;
    case SIM_OP_YIELD:
        yield(w, n, op);
        break;
    case SIM_OP_SHUTDOWN:
        sim_node_post(w, n, &(struct sim_mail){.kind = TN_EV_SHUTDOWN});
        break;
    case SIM_OP_CONTROL:
        control(w, n, op->pick & 1, (int64_t)(op->pick >> 1) % n->timing->ttl_ns);
        break;
    case SIM_OP_TIMING:
        change_timing(w, n);
        break;
    case SIM_OP_SPURIOUS:
        spurious(w);
        break;
    case SIM_OP_ROGUE:
        if (w->plan.product)
            sim_visit(w, op->node, SIM_WRITES_STALE, op->pick);
        else
            sim_state_rogue(w, op->pick);
        break;
    case SIM_OP_FENCE:
        if (w->plan.product)
            sim_visit(w, op->node, SIM_SEALS_AHEAD, op->pick);
        else
            sim_state_fence(w, op->pick);
        break;
    case SIM_OP_AMEND:
        sim_visit(w, op->node, SIM_EDITS, op->pick);
        break;
    case SIM_OP_STATE_BACK:
        sim_docs_restore(w, op->pick);
        break;
    case SIM_OP_UNSEAL:
        n->saver.unsealed_until_ns = w->now_ns + op->span_ns;
        n->saver.unsealed_final = op->pick & 1;
        w->calm.unsealed = n;
        break;
    case SIM_OP_UNLOCK:
        w->store.lock_owner = SIM_NOBODY;
        break;
    case SIM_OP_STRANGER:
        if (w->store.lock_owner == SIM_NOBODY)
            w->store.lock_owner = SIM_STRANGER;
        break;
    default:
        sim_store_befall(w, op);
        break;
    }
    sim_at(w, w->now_ns + op->span_ns, SIM_Q_LATER, op->node, 0, index);
}

void sim_ops_end(struct sim_world *w, unsigned index)
{
    const struct sim_op *op = &w->plan.ops[index];
    struct sim_node *n = &w->nodes[op->node];

    switch (op->kind) {
    case SIM_OP_KILL:
    case SIM_OP_REBOOT:
    case SIM_OP_SHUTDOWN:
        sim_node_boot(w, n);
        break;
    case SIM_OP_PARTITION:
        n->cut = false;
        sim_check_excuse(w, n);
        break;
    case SIM_OP_CONTROL:
        control(w, n, true, 0);
        break;
    case SIM_OP_ROT:
        if (op->pick & 1)
            w->store.now.corrupt = false; /* repaired in place: what it was, it is again */
        sim_store_reset(w);
        break;
    case SIM_OP_CORRUPT:
        sim_store_reset(w);
        break;
    case SIM_OP_STRANGER:
        if (w->store.lock_owner == SIM_STRANGER)
            w->store.lock_owner = SIM_NOBODY;
        break;
    case SIM_OP_FAILOVER:
        sim_check_record_lost(w); /* what the old server answered is gone */
        break;
    default:
        break;
    }
}

void sim_ops_heal(struct sim_world *w)
{
    w->quiet = true;
    w->store.down_until_ns = 0;
    w->store.lock_owner = SIM_NOBODY;
    if (w->now_ns < w->store.split_until_ns) {
        w->store.split_until_ns = 0;
        sim_check_record_lost(w);
    }
    sim_say(w, -1, "the faults are over");
    if (w->plan.product)
        sim_visitors_leave_all(w);
    sim_store_reset(w);
    for (unsigned i = 0; i < w->plan.nodes; i++) {
        struct sim_node *n = &w->nodes[i];

        n->cut = false;
        n->saver.unsealed_until_ns = w->plan.unsealed && w->calm.unsealed == n ? SIM_NEVER : 0;
        sim_check_excuse(w, n);
        sim_node_resume(w, n);
        if (n->run == SIM_DOWN)
            sim_node_boot(w, n);
        else
            control(w, n, true, 0);
    }
}
