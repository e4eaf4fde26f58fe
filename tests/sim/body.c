#include "body.h"

#include <string.h>

#include "check.h"
#include "net.h"
#include "node.h"
#include "state.h"
#include "store.h"

static bool has_mail(const struct sim_node *n, enum tn_event_kind kind)
{
    for (unsigned i = 0; i < n->n_mail; i++) {
        if (n->mail[i].kind == kind)
            return true;
    }
    return false;
}

static void tell(struct sim_world *w, struct sim_node *n, enum tn_event_kind kind)
{
    struct sim_mail mail = {.kind = kind};

    memcpy(mail.grant, n->body.grant, TENURE_NONCE_SIZE);
    if (!has_mail(n, kind))
        sim_node_post(w, n, &mail);
}

static struct sim_rng program_rng(const struct sim_world *w, const struct sim_node *n,
                                  const struct sim_body *b)
{
    return sim_rng_keyed(w->plan.seed, SIM_RND_PROGRAM, n->index, b->serial);
}

/* ---- Dying --------------------------------------------------------------- */

static void dies_at(struct sim_world *w, struct sim_node *n, struct sim_body *b, int64_t local_ns)
{
    int64_t at = sim_clock_true(&n->clock, local_ns);

    if (b->dead_ns != 0 && b->dead_ns <= at)
        return;
    b->prog = SIM_PROG_DYING;
    b->dead_ns = at < w->now_ns ? w->now_ns : at;
    sim_at(w, b->dead_ns, SIM_Q_DEAD, n->index, ++b->dead_gen, b == &n->ghost);
}

void sim_body_kill(struct sim_world *w, struct sim_node *n, struct sim_body *b)
{
    struct sim_rng rng = program_rng(w, n, b);
    int64_t k = 0;

    if (b->prog == SIM_PROG_NONE)
        return;
    /* All of K is used up as often as none of it. */
    if (sim_rng_chance(&rng, 70) && sim_fault(w, SIM_RND_PROGRAM, n->index, b->serial))
        k = sim_rng_chance(&rng, 60) ? b->kill_ns : sim_rng_span(&rng, 0, b->kill_ns);
    dies_at(w, n, b, sim_local(w, n) + k);
}

/* TERM: a program ends at once, or takes its time, or does not care. */
static void ask_to_end(struct sim_world *w, struct sim_node *n)
{
    struct sim_body *b = &n->body;
    struct sim_rng rng = program_rng(w, n, b);
    int64_t takes = sim_rng_span(&rng, 0, 20 * TN_MS);

    if (sim_rng_chance(&rng, 50) && sim_fault(w, SIM_RND_PROGRAM, n->index, b->serial)) {
        if (w->plan.guarded && sim_rng_chance(&rng, 40))
            return; /* it waits for the KILL */
        takes = sim_rng_span(&rng, 0, 2 * n->timing->ttl_ns);
    }
    dies_at(w, n, b, sim_local(w, n) + takes);
}

static void start_releaser(struct sim_world *w, struct sim_node *n, const struct sim_body *b)
{
    struct sim_fate fate = sim_net_fate(w, SIM_RND_RELEASER, n, b->serial);

    if (!w->plan.releaser || fate.out_ns < 0 || fate.refused)
        return;
    struct sim_msg *msg = sim_net_take(w);
    msg->node = n->index;
    msg->life = 0;
    msg->no = b->serial;
    msg->read = true;
    msg->echo = true;
    msg->purpose = TN_FOR_RELEASE;
    msg->back_ns = fate.back_ns < 0 ? 0 : fate.back_ns;
    memcpy(msg->incarnation, b->incarnation, TENURE_NONCE_SIZE);
    memcpy(msg->grant, b->grant, TENURE_NONCE_SIZE);
    sim_at(w, w->now_ns + fate.out_ns, SIM_Q_RELEASER, n->index, 0, sim_net_index(w, msg));
}

void sim_body_dead(struct sim_world *w, struct sim_node *n, bool ghost, uint32_t gen)
{
    struct sim_body *b = ghost ? &n->ghost : &n->body;

    if (gen != b->dead_gen || b->prog == SIM_PROG_NONE)
        return;
    if (n->suspended || n->frozen) { /* nothing dies while the host sleeps */
        b->dead_ns = n->resume_ns;
        sim_at(w, n->resume_ns, SIM_Q_DEAD, n->index, b->dead_gen, ghost);
        return;
    }
    b->prog = SIM_PROG_NONE;
    b->dead_ns = 0;
    sim_say(w, n->index, "its program is dead%s", ghost ? " (of the life before)" : "");
    if (!ghost)
        sim_saver_end(w, n);
    if (b->orphan || (b->fired && n->run == SIM_PAUSED))
        start_releaser(w, n, b);
    if (!ghost)
        tell(w, n, TN_EV_STOPPED);
}

void sim_body_exit(struct sim_world *w, struct sim_node *n)
{
    if (n->body.prog != SIM_PROG_ALIVE || n->suspended || n->frozen)
        return;
    n->facts.ordered = true;
    sim_say(w, n->index, "its program ends by itself");
    dies_at(w, n, &n->body, sim_local(w, n));
}

/* ---- The guard ----------------------------------------------------------- */

static void set_alarm(struct sim_world *w, struct sim_node *n)
{
    struct sim_body *b = &n->body;

    if (!w->plan.guarded || b->deadline_ns == 0 || b->fired || b->stopped)
        return;
    int64_t at = sim_clock_true(&n->clock, b->deadline_ns);
    if (at < w->now_ns)
        at = w->now_ns;
    if (b->alarm_ns != 0 && b->alarm_ns <= at)
        return;
    b->alarm_ns = at;
    sim_at(w, at, SIM_Q_GUARD, n->index, ++b->alarm_gen, 0);
}

void sim_body_publish(struct sim_world *w, struct sim_node *n)
{
    struct sim_body *b = &n->body;
    int64_t deadline = n->out.deadline_ns;

    /* Firing and raising are swaps on one word: once fired, that grant is over. */
    if (memcmp(b->grant, n->elector.grant, TENURE_NONCE_SIZE) != 0 &&
        n->elector.phase == TN_PHASE_SEALING) {
        memcpy(b->grant, n->elector.grant, TENURE_NONCE_SIZE);
        b->fired = b->told = false;
        b->deadline_ns = 0;
        b->serial = n->facts.serial;
    }
    if (b->fired) {
        if (deadline != 0 && !b->told) {
            b->told = true;
            tell(w, n, TN_EV_FIRED);
        }
        return;
    }
    b->deadline_ns = deadline;
    set_alarm(w, n);
}

void sim_body_alarm(struct sim_world *w, struct sim_node *n, bool ghost, uint32_t gen)
{
    struct sim_body *b = &n->body;

    if (ghost || gen != b->alarm_gen)
        return;
    b->alarm_ns = 0;
    if (b->fired || b->deadline_ns == 0 || b->stopped || n->run == SIM_DOWN)
        return;
    if (sim_local(w, n) < b->deadline_ns) {
        set_alarm(w, n);
        return;
    }
    b->fired = true;
    sim_say(w, n->index, "its guard fires");
    sim_check_fired(w, n);
    sim_body_kill(w, n, b);
    if (!b->told) {
        b->told = true;
        tell(w, n, TN_EV_FIRED);
    }
}

void sim_body_rearm(struct sim_world *w, struct sim_node *n)
{
    n->body.alarm_ns = 0;
    n->body.alarm_gen++;
    if (n->run != SIM_DOWN)
        set_alarm(w, n);
}

static void let_die(struct sim_world *w, struct sim_node *n, struct sim_body *b)
{
    if (b->prog != SIM_PROG_DYING || b->dead_ns != n->resume_ns)
        return;
    b->dead_ns = w->now_ns;
    sim_at(w, w->now_ns, SIM_Q_DEAD, n->index, ++b->dead_gen, b == &n->ghost);
}

void sim_body_continue(struct sim_world *w, struct sim_node *n)
{
    n->body.stopped = false;
    let_die(w, n, &n->body);
    let_die(w, n, &n->ghost);
    sim_body_rearm(w, n);
}

/* ---- Start and stop ------------------------------------------------------ */

/* The start callback takes its time, on a thread of its own: the driver goes
 * on, and only what the program does comes later. */
static int64_t call_started(struct sim_world *w, struct sim_node *n)
{
    struct sim_rng rng =
        sim_rng_keyed(w->plan.seed, SIM_RND_PROGRAM, n->index | 0x40u, n->body.serial);
    int64_t takes = 0;

    if ((uint16_t)sim_rng_next(&rng) < w->plan.odds.slow_start &&
        sim_fault(w, SIM_RND_PROGRAM, n->index | 0x40u, n->body.serial))
        takes = sim_rng_span(&rng, 0, 2 * n->timing->ttl_ns);
    return takes;
}

void sim_body_start(struct sim_world *w, struct sim_node *n)
{
    struct sim_body *b = &n->body;

    if (w->plan.guarded && (b->fired || sim_local(w, n) >= b->deadline_ns)) {
        if (!b->told) {
            b->fired = b->told = true;
            tell(w, n, TN_EV_FIRED);
        }
        return;
    }
    b->prog = SIM_PROG_ALIVE;
    b->dead_ns = 0;
    b->kill_ns = w->plan.kill_ns[n->index];
    w->counts.starts++;
    sim_say(w, n->index, "STARTS its program, epoch %llu", (unsigned long long)n->out.epoch);
    sim_check_exclusion(w, n);
    sim_check_spared(w, n);
    sim_check_loaded(w, n);
    sim_check_started(w, n);
    sim_saver_begin(w, n, call_started(w, n));
}

void sim_body_stop(struct sim_world *w, struct sim_node *n)
{
    w->counts.stops++;
    sim_say(w, n->index, "stops: %s", tn_stop_text(n->out.stop));
    if (n->body.prog == SIM_PROG_NONE)
        tell(w, n, TN_EV_STOPPED);
    else if (n->body.prog == SIM_PROG_ALIVE)
        ask_to_end(w, n);
}

void sim_body_orphan(struct sim_world *w, struct sim_node *n)
{
    sim_saver_end(w, n);
    if (n->ghost.prog == SIM_PROG_NONE) {
        uint32_t gen = n->ghost.dead_gen + 1;

        n->ghost = n->body;
        n->ghost.dead_gen = gen;
        if (n->ghost.dead_ns != 0) /* it was dying already, and does not live longer now */
            sim_at(w, n->ghost.dead_ns, SIM_Q_DEAD, n->index, gen, 1);
    }
    n->body.prog = SIM_PROG_NONE;
    n->body.dead_gen++;
    n->body.alarm_gen++;
    if (n->ghost.prog == SIM_PROG_NONE)
        return;
    n->ghost.orphan = true;
    if (!w->plan.guarded)
        n->ghost.prog = SIM_PROG_NONE; /* it was the same process */
    else
        sim_body_kill(w, n, &n->ghost);
}

bool sim_body_acts(const struct sim_world *w, const struct sim_node *n)
{
    if (w->plan.guarded)
        return n->body.prog != SIM_PROG_NONE || n->ghost.prog != SIM_PROG_NONE;
    return n->run != SIM_DOWN && tn_elector_leads(&n->elector, sim_local(w, n));
}

/* ---- The releaser -------------------------------------------------------- */

/* A read, then a swap on what was read, only if all three match (I8); again if
 * something of the same grant came in between. */
void sim_body_releaser(struct sim_world *w, struct sim_msg *msg)
{
    const struct sim_node *n = &w->nodes[msg->node];
    const struct sim_value *now = sim_store_of(w, msg->node);
    const char id[] = {'n', (char)('0' + msg->node), '\0'};

    if (w->now_ns < w->store.down_until_ns || n->cut) {
        sim_net_give(w, msg);
        return;
    }
    if (!msg->read && tenure_token_equal(&msg->expect, &now->token)) {
        sim_store_apply(w, msg);
        sim_net_give(w, msg);
        return;
    }
    /* Read, or read again: a last renewal of the dead process may have landed. */
    if (!now->has_record || now->corrupt || now->tombstone ||
        !tn_lease_is_grant(&now->lease, id, msg->incarnation, msg->grant)) {
        sim_net_give(w, msg);
        return;
    }
    uint64_t nonce[2] = {sim_key(w->plan.seed, SIM_RND_RELEASER, 64u + msg->node, msg->no),
                         (uint64_t)w->now_ns};
    msg->read = false;
    msg->expect = now->token;
    memcpy(msg->nonce, nonce, sizeof nonce);
    msg->record = now->lease;
    msg->record.holder[0] = '\0';
    sim_say(w, msg->node, "its releaser asks to release");
    sim_at(w, w->now_ns + 2 * msg->back_ns, SIM_Q_RELEASER, msg->node, 0, sim_net_index(w, msg));
}
