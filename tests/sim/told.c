#include "told.h"

#include <inttypes.h>
#include <string.h>

#include "check.h"
#include "store.h"

/* A candidate that is not scheduled for so long has an excuse: nothing is promised
 * for a process that the machine does not let run (I1, I12). */
#define LATE_NS (50 * TN_MS)

static struct sim_node *node_of(struct sim_replay *r, const struct sim_event *ev)
{
    int i = sim_replay_node(r, ev->id);

    return i < 0 ? NULL : &r->w.nodes[i];
}

/* The candidate of that epoch; one seat is kept for those whose traces are lost. */
static struct sim_node *node_of_epoch(struct sim_replay *r, uint64_t epoch)
{
    const struct sim_event *grant = sim_replay_grant(r->events, epoch);
    int i = grant ? sim_replay_node(r, grant->id) : -1;

    return &r->w.nodes[i < 0 ? r->stranger : (unsigned)i];
}

/* ---- Grants -------------------------------------------------------------- */

static void grant_name(uint64_t epoch, unsigned node, uint8_t out[TENURE_NONCE_SIZE])
{
    uint64_t name[2] = {epoch, node + 1};

    memcpy(out, name, sizeof name);
}

/* The claim took effect in the store, and its candidate has won by it (I2). */
static void granted(struct sim_replay *r, struct sim_node *n, const struct sim_event *ev)
{
    struct sim_world *w = &r->w;
    struct sim_value *now = &w->store.now;
    struct sim_msg msg = {.node = n->index, .purpose = TN_FOR_CLAIM};

    msg.record.epoch = ev->epoch;
    grant_name(ev->epoch, n->index, msg.record.grant);
    sim_check_granted(w, &msg, now);
    struct sim_grant *g = &w->grants[++w->n_grants % SIM_GRANTS_MAX];
    *g = (struct sim_grant){
        .serial = w->n_grants, .claim_no = 1, .epoch = ev->epoch, .node = n->index};
    grant_name(ev->epoch, n->index, g->grant);
    now->has_record = true;
    now->lease = msg.record;
    snprintf(now->lease.holder, sizeof now->lease.holder, "%.*s", (int)TN_HOLDER_MAX,
             r->ids[n->index]);
    now->serial = g->serial;
    now->sent_ns = SIM_NEVER; /* when the claim was sent is not told */
    n->out.epoch = ev->epoch;
    memcpy(n->out.grant, g->grant, sizeof n->out.grant);
    sim_check_won(w, n);
    n->facts.ordered = n->facts.ending = r->asked[n->index];
    n->facts.excuse_ns = 0;
    n->facts.acked_ns = ev->at_ns;
    n->elector.phase = TN_PHASE_SEALING;
    r->judged[SIM_TOLD_GRANTS]++;
}

static void renewed(struct sim_replay *r, struct sim_node *n, const struct sim_event *ev)
{
    int64_t sent = ev->at_ns - ev->took_ns;
    uint64_t nonce[2] = {ev->order, 1};

    /* As it was when it was sent: against the deadline then in force (I6b). */
    n->req.no++;
    n->req.purpose = TN_FOR_RENEW;
    memcpy(n->out.nonce, nonce, sizeof nonce);
    n->elector.now_ns = sent;
    n->out.deadline_ns = ev->deadline_ns;
    sim_check_swap_sent(&r->w, n);
    n->out.set = 0;
    sim_check_deadline(&r->w, n); /* and against what the request before entitles to (I6) */
    if (sent - n->facts.acked_ns > ev->timing.hold_ns - ev->timing.grace_ns - LATE_NS)
        sim_check_excuse(&r->w, n); /* it came late */
    n->facts.acked_ns = sent;
    n->elector.now_ns = ev->at_ns;
    if (sent + ev->timing.hold_ns > n->elector.deadline_ns)
        n->elector.deadline_ns = sent + ev->timing.hold_ns;
    if (r->w.store.now.serial == n->facts.serial) {
        r->w.store.now.sent_ns = sent;
        r->w.store.now.hold_ns = ev->timing.hold_ns;
    }
    r->judged[SIM_TOLD_RENEWALS]++;
}

/* The deadline in force.  A renewal shows the one before it. */
static void published(struct sim_node *n, const struct sim_event *ev)
{
    if (ev->deadline_ns != 0 && ev->kind != SIM_EV_RENEWED && ev->kind != SIM_EV_TROUBLE)
        n->elector.deadline_ns = n->out.deadline_ns = ev->deadline_ns;
}

static void started(struct sim_replay *r, struct sim_node *n, const struct sim_event *ev)
{
    n->elector.phase = TN_PHASE_LEADING;
    n->elector.now_ns = ev->at_ns;
    n->out.set = TN_ACT_START;
    sim_check_deadline(&r->w, n);
    if (!r->w.plan.guarded)
        sim_check_exclusion(&r->w, n);
    sim_check_started(&r->w, n);
}

/* ---- Ends ---------------------------------------------------------------- */

/* Somebody saw another grant than this: the one that it was beaten by (I9). */
static bool was_beaten(const struct sim_replay *r, const struct sim_node *n, uint64_t epoch)
{
    for (size_t i = 0; i < r->events->n; i++) {
        const struct sim_event *ev = &r->events->list[i];
        bool other = ev->kind == SIM_EV_GRANTED ? strcmp(ev->id, r->ids[n->index]) != 0
                                                : ev->kind == SIM_EV_LEADER && ev->leader[0] &&
                                                      strcmp(ev->leader, r->ids[n->index]) != 0;
        if (other && ev->epoch > epoch)
            return true;
    }
    return false;
}

static void stopping(struct sim_replay *r, struct sim_node *n, const struct sim_event *ev)
{
    struct sim_world *w = &r->w;
    struct sim_value shown = w->store.now;

    n->out.stop = TN_STOP_NONE;
    for (int i = TN_STOP_NONE; i <= TN_STOP_PROGRAM; i++) {
        if (strcmp(tn_stop_text((enum tn_stop)i), ev->text) == 0)
            n->out.stop = (enum tn_stop)i;
    }
    n->elector.now_ns = ev->at_ns;
    n->facts.stop_ns = ev->deadline_ns ? ev->deadline_ns - ev->timing.grace_ns : ev->at_ns;
    if (ev->at_ns - n->facts.stop_ns > LATE_NS)
        sim_check_excuse(w, n);
    /* Its own view is the only one of the store that a trace has: whoever beat it
     * may be told of a moment later. */
    if (n->out.stop == TN_STOP_LOST && was_beaten(r, n, ev->epoch))
        w->store.now.serial = 0;
    if (n->out.stop == TN_STOP_FIRED)
        sim_check_fired(w, n);
    else
        sim_check_stop(w, n);
    w->store.now = shown;
    n->elector.phase = TN_PHASE_STOPPING;
    r->judged[SIM_TOLD_STOPS]++;
}

static void released(struct sim_replay *r, struct sim_node *n, const struct sim_event *ev)
{
    n->out.deadline_ns = ev->deadline_ns;
    sim_check_release_sent(&r->w, n);
    n->elector.phase = TN_PHASE_FOLLOWING;
    n->elector.deadline_ns = n->out.deadline_ns = 0;
    if (r->w.store.now.serial == n->facts.serial)
        r->w.store.now.lease.holder[0] = '\0';
    r->judged[SIM_TOLD_RELEASES]++;
}

static void halted(struct sim_replay *r, struct sim_node *n)
{
    n->out.set = TN_ACT_HALT;
    sim_check_stuck(&r->w, n);
    r->asked[n->index] = false;
    n->run = SIM_DOWN;
    n->elector.phase = TN_PHASE_HALTED;
}

/* ---- Programs ------------------------------------------------------------ */

static void acts(struct sim_replay *r, struct sim_node *n, const struct sim_event *ev)
{
    if (n->body.prog != SIM_PROG_NONE)
        n->ghost = n->body;
    n->body.prog = SIM_PROG_ALIVE;
    memcpy(n->body.grant, &ev->epoch, sizeof ev->epoch);
    n->body.serial = n->facts.serial;
    if (n->index == r->stranger) {
        n->facts.serial = n->body.serial = UINT32_MAX;
        n->facts.claim_no = 1;
    }
    if (r->w.plan.guarded)
        sim_check_exclusion(&r->w, n);
    r->judged[SIM_TOLD_LIVES]++;
}

static void acted(struct sim_node *n, const struct sim_event *ev)
{
    if (memcmp(n->body.grant, &ev->epoch, sizeof ev->epoch) == 0)
        n->body.prog = SIM_PROG_NONE;
    if (memcmp(n->ghost.grant, &ev->epoch, sizeof ev->epoch) == 0)
        n->ghost.prog = SIM_PROG_NONE;
}

/* ---- The state ----------------------------------------------------------- */

static void stored(struct sim_replay *r, const struct sim_event *ev)
{
    struct sim_doc value = {.epoch = ev->epoch, .data = ev->value}, before = {0};
    struct sim_node *n = node_of_epoch(r, ev->epoch);

    grant_name(ev->epoch, n->index, value.grant);
    if (ev->kind == SIM_EV_ACKED) {
        if (ev->epoch >= r->w.state.acked_epoch[0]) {
            r->w.state.acked_epoch[0] = ev->epoch;
            r->w.state.acked_data[0] = ev->value;
        }
        return;
    }
    sim_check_doc(&r->w, 0, &value, &before, 0, 0);
    r->judged[SIM_TOLD_COMMITS]++;
    if (ev->kind != SIM_EV_LOADED)
        return;
    uint64_t epoch = n->out.epoch;
    n->out.epoch = ev->epoch;
    n->saver.data[0] = ev->value;
    sim_check_loaded(&r->w, n);
    n->out.epoch = epoch;
}

/* ---- Telling ------------------------------------------------------------- */

static void began(struct sim_replay *r, struct sim_node *n)
{
    n->run = SIM_UP;
    n->elector.phase = TN_PHASE_FOLLOWING;
    n->elector.deadline_ns = n->out.deadline_ns = 0;
    n->facts.ordered = n->facts.ending = r->asked[n->index];
}

static void of_candidate(struct sim_replay *r, struct sim_node *n, const struct sim_event *ev)
{
    published(n, ev);
    switch (ev->kind) {
    case SIM_EV_BEGINS:
        began(r, n);
        break;
    case SIM_EV_GRANTED:
        granted(r, n, ev);
        break;
    case SIM_EV_STARTED:
        started(r, n, ev);
        break;
    case SIM_EV_RENEWED:
        renewed(r, n, ev);
        break;
    case SIM_EV_STOPPING:
        stopping(r, n, ev);
        break;
    case SIM_EV_STOPPED:
        n->elector.phase = TN_PHASE_RELEASING;
        break;
    case SIM_EV_RELEASED:
        released(r, n, ev);
        break;
    case SIM_EV_TROUBLE:
    case SIM_EV_REFUSED:
    case SIM_EV_FAULT:
        sim_check_excuse(&r->w, n);
        break;
    case SIM_EV_HALTED:
        halted(r, n);
        break;
    case SIM_EV_KILLED:
        n->run = SIM_DOWN;
        n->elector.phase = TN_PHASE_NEW;
        r->asked[n->index] = false;
        break;
    case SIM_EV_ORDER:
        r->asked[n->index] = true;
        n->facts.ordered = n->facts.ending = true;
        break;
    case SIM_EV_DEAD: /* a program that ends by itself ends its term, or its candidate */
        n->facts.ordered = n->facts.ending = true;
        break;
    default:
        break;
    }
    n->facts.phase = n->elector.phase;
}

void sim_told(struct sim_replay *r, const struct sim_event *ev)
{
    struct sim_world *w = &r->w;
    struct sim_node *n = node_of(r, ev);

    w->now_ns = ev->at_ns > w->now_ns ? ev->at_ns : w->now_ns;
    sim_check_overdue(w);
    sim_say(w, n ? n->index : -1, "%s %s, epoch %" PRIu64 "%s%s", ev->id, sim_event_word(ev->kind),
            ev->epoch, ev->text[0] ? ": " : "", ev->text);
    switch (ev->kind) {
    case SIM_EV_ACTS:
        acts(r, node_of_epoch(r, ev->epoch), ev);
        break;
    case SIM_EV_ACTED:
        acted(node_of_epoch(r, ev->epoch), ev);
        break;
    case SIM_EV_LOADED:
    case SIM_EV_COMMITTED:
    case SIM_EV_ACKED:
        stored(r, ev);
        break;
    case SIM_EV_RECORD:
        sim_check_record_lost(w);
        w->store.now.has_record = false;
        break;
    case SIM_EV_CALM:
        sim_check_await(w);
        break;
    default:
        if (n)
            of_candidate(r, n, ev);
        for (unsigned i = 0; !n && ev->kind == SIM_EV_FAULT && i < r->nodes; i++)
            sim_check_excuse(w, &w->nodes[i]);
        break;
    }
}
