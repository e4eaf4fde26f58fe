/* A candidate from outside: what reaches its driver, and its life as a process. */
#include <string.h>

#include "body.h"
#include "check.h"
#include "node.h"
#include "term.h"

/* ---- What comes from outside --------------------------------------------- */

void sim_node_wake(struct sim_world *w, struct sim_node *n, uint32_t gen)
{
    if (gen != n->wake_gen)
        return;
    n->wake_ns = 0;
    if (n->run == SIM_DOWN || !n->waiting)
        return;
    if (sim_clock_local(&n->clock, w->now_ns) < n->out.wait_until_ns)
        sim_node_set_wake(w, n);
    else
        sim_node_post(w, n, &(struct sim_mail){.kind = TN_EV_TIMER, .tag = n->wait_gen});
}

void sim_node_notice(struct sim_world *w, struct sim_node *n, uint32_t gen)
{
    if (n->run != SIM_DOWN && n->waiting && n->out.watch && gen == n->wait_gen && !n->cut)
        sim_node_post(w, n, &(struct sim_mail){.kind = TN_EV_CHANGED, .tag = gen});
}

void sim_node_reply(struct sim_world *w, const struct sim_msg *msg, enum tenure_status status,
                    const struct sim_value *seen)
{
    struct sim_node *n = &w->nodes[msg->node];
    struct sim_request *r = &n->req;

    if (msg->echo || n->run == SIM_DOWN || msg->life != n->life || !r->out || r->answered ||
        msg->no != r->no)
        return;
    if (msg->back_ns < 0) {
        sim_node_unanswered(w, n, r->no);
        return;
    }
    r->answered = true;
    r->answer_ns = w->now_ns + msg->back_ns;
    r->status = status;
    r->floor = w->store.floor;
    if (seen && r->read)
        r->seen = *seen;
    else if (seen)
        r->seen.token = seen->token;
    sim_at(w, r->answer_ns, SIM_Q_ANSWER, n->index, r->no, 0);
}

void sim_node_answer(struct sim_world *w, struct sim_node *n, uint32_t no)
{
    struct sim_request *r = &n->req;

    if (n->run == SIM_DOWN || !r->out || r->no != no)
        return;
    if (n->cut) {
        r->answered = false;
        sim_node_unanswered(w, n, no);
        return;
    }
    sim_node_post(w, n,
                  &(struct sim_mail){.kind = r->read ? TN_EV_READ : TN_EV_SWAPPED,
                                     .tag = no,
                                     .status = r->status});
}

void sim_node_unanswered(struct sim_world *w, struct sim_node *n, uint32_t no)
{
    int64_t by = sim_clock_true(&n->clock, n->req.by_ns);

    sim_check_excuse(w, n);
    sim_at(w, by > w->now_ns ? by : w->now_ns, SIM_Q_GIVE_UP, n->index, no, 0);
}

void sim_node_give_up(struct sim_world *w, struct sim_node *n, uint32_t no)
{
    if (n->run == SIM_DOWN || !n->req.out || n->req.no != no)
        return;
    sim_check_excuse(w, n);
    n->session = n->session && n->req.late; /* silent for a whole request: it is dropped */
    sim_node_post(w, n,
                  &(struct sim_mail){.kind = n->req.read ? TN_EV_READ : TN_EV_SWAPPED,
                                     .tag = no,
                                     .status = n->req.read ? TENURE_TIMEOUT : TENURE_UNKNOWN});
}

void sim_node_rearm(struct sim_world *w, struct sim_node *n)
{
    n->wake_ns = 0;
    n->wake_gen++;
    if (n->run == SIM_DOWN)
        return;
    if (n->waiting && n->out.wait_until_ns < SIM_NEVER)
        sim_node_set_wake(w, n);
    if (n->req.out) {
        int64_t by = sim_clock_true(&n->clock, n->req.by_ns);
        sim_at(w, by > w->now_ns ? by : w->now_ns, SIM_Q_GIVE_UP, n->index, n->req.no, 0);
    }
}

/* ---- Life ---------------------------------------------------------------- */

void sim_node_boot(struct sim_world *w, struct sim_node *n)
{
    struct tn_elector_config cfg = {.drain_ns = w->plan.drain_ns,
                                    .prove_ns = w->plan.prove_ns,
                                    .purges = w->plan.purges,
                                    .timing = *n->timing};
    struct sim_rng rng;

    if (n->run != SIM_DOWN || (w->keep.without >> n->index & 1))
        return;
    n->life++;
    rng = sim_rng_keyed(w->plan.seed, SIM_RND_ENTROPY, n->index | 0x80, n->life);
    uint64_t incarnation[2] = {sim_rng_next(&rng), sim_rng_next(&rng) | 1};
    memcpy(cfg.incarnation, incarnation, sizeof incarnation);
    cfg.id[0] = 'n';
    cfg.id[1] = (char)('0' + n->index);
    tn_elector_init(&n->elector, &cfg);
    n->run = SIM_UP;
    n->ended = n->waiting = n->req.out = n->cut = n->stalled = n->session = false;
    n->session_ns = 0;
    n->n_mail = 0;
    n->duty = SIM_DUTIES;
    n->may_claim = true;
    n->proving = n->switched_off = false;
    memset(&n->body, 0, sizeof n->body);
    memcpy(n->body.incarnation, incarnation, sizeof incarnation);
    n->facts.serial = 0;
    n->facts.published_ns = 0;
    n->facts.phase = TN_PHASE_NEW;
    n->facts.ordered = n->facts.ending = false;
    memset(n->facts.known, 0, sizeof n->facts.known);
    sim_check_excuse(w, n);
    sim_say(w, n->index, "starts (life %u)", n->life);
    sim_node_post(w, n, &(struct sim_mail){.kind = TN_EV_START});
}

void sim_node_kill(struct sim_world *w, struct sim_node *n)
{
    if (n->run == SIM_DOWN)
        return;
    n->run = SIM_DOWN;
    n->ended = false;
    n->pauses++;
    n->frozen = n->suspended = false;
    sim_body_orphan(w, n);
    if (w->plan.product)
        sim_visitors_leave(w, n->index);
}

void sim_node_pause(struct sim_world *w, struct sim_node *n, int64_t span_ns)
{
    int64_t until = w->now_ns + span_ns;

    if (n->run == SIM_DOWN)
        return;
    /* When the faults are over everybody goes on, and with it what waits for that. */
    if (until > w->plan.hostile_ns)
        until = w->plan.hostile_ns;
    sim_check_excuse(w, n);
    if (n->run == SIM_PAUSED && (n->resume_ns >= until || n->body.stopped))
        return;
    n->run = SIM_PAUSED;
    n->resume_ns = until;
    sim_at(w, until, SIM_Q_RESUME, n->index, ++n->pauses, 0);
}

void sim_node_resume(struct sim_world *w, struct sim_node *n)
{
    if (n->run != SIM_PAUSED)
        return;
    n->run = SIM_UP;
    n->pauses++;
    if (n->frozen) {
        n->frozen = false;
        sim_clock_stood(&n->clock, w->now_ns, n->frozen_ns);
        sim_node_rearm(w, n);
    }
    n->suspended = false;
    if (n->body.stopped)
        sim_body_continue(w, n);
    sim_say(w, n->index, "goes on");
    sim_node_pump(w, n);
}
