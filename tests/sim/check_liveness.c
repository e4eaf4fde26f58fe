/*
 * I10: once faults and requests in flight have ended, a leader exists within
 *      W / (1 - rho) + one poll + two round trips; after a release, within one
 *      notification.
 * I11: a candidate that loses goes on contending.  Nothing is one-shot.
 *
 * When the plan's faults are over the checker heals the world, waits until
 * nothing old is in flight, and then asks for three leaders in a row: one at
 * all; another one, after the first was asked to step down; and one after the
 * second was killed.  In some histories the record is then deleted under the
 * third, which claims again, and steps down: who spared it in between has no
 * reason any more to wait.
 */
#include "body.h"
#include "check.h"
#include "node.h"
#include "ops.h"
#include "store.h"

enum { HEAL, FIRST, HANDED, KILLED, DELETED, AGAIN, DONE, LATE };

void sim_check_stuck(struct sim_world *w, struct sim_node *n)
{
    const struct tn_actions *out = &n->out;
    const struct tn_timing *own = &w->plan.timing[n->index], *other = &w->plan.other;
    int64_t longest = 4 * (own->ttl_ns > other->ttl_ns ? own->ttl_ns : other->ttl_ns);

    if (out->set & TN_ACT_HALT) {
        if (!n->facts.ending)
            sim_fail(w, "I11", "n%u has ended, and nobody asked it to", n->index);
        return;
    }
    if (n->req.out || (out->set & (TN_ACT_READ | TN_ACT_SWAP)))
        return;
    if (!(out->set & TN_ACT_WAIT)) {
        sim_fail(w, "I11", "n%u has nothing left to wait for", n->index);
        return;
    }
    if (n->elector.phase == TN_PHASE_STOPPING)
        return; /* its program's end wakes it up */
    if (n->elector.phase == TN_PHASE_SEALING || n->elector.phase == TN_PHASE_LEADING)
        longest = out->deadline_ns - n->elector.now_ns;
    if (out->wait_until_ns - n->elector.now_ns > longest)
        sim_fail(w, "I11", "n%u is %s and waits for nothing that will come", n->index,
                 tn_phase_word(n->elector.phase));
}

/* ---- Bounds -------------------------------------------------------------- */

/* The longest that a local span can last in true time. */
static int64_t stretch(const struct sim_world *w, int64_t local_ns)
{
    return local_ns / (1000000 - w->plan.rho_ppm) * 1000000 + 1000000;
}

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

struct limits {
    int64_t ttl, poll, trip, seal, stopping, spare, session;
};

/* A session is set up behind requests that end meanwhile; the next one goes on it. */
static int64_t session_limit(const struct sim_world *w, const struct tn_timing *t)
{
    int64_t setup = w->plan.trips * 2 * w->plan.latency_ns;

    return w->plan.trips ? setup + stretch(w, 2 * (tn_timing_contend(t) + t->retry_ns)) : 0;
}

static struct limits limits_of(const struct sim_world *w)
{
    const struct sim_plan *p = &w->plan;
    struct limits l = {.ttl = p->other.ttl_ns,
                       .poll = p->other.poll_ns,
                       .trip = 2 * p->latency_ns,
                       .session = session_limit(w, &p->other)};

    for (unsigned i = 0; i < p->nodes; i++) {
        const struct sim_node *n = &w->nodes[i];

        if (p->timing[i].ttl_ns > l.ttl)
            l.ttl = p->timing[i].ttl_ns;
        if (p->timing[i].poll_ns > l.poll)
            l.poll = p->timing[i].poll_ns;
        if (session_limit(w, &p->timing[i]) > l.session)
            l.session = session_limit(w, &p->timing[i]);
        /* A holder whose record was lost is given its ttl by who knew it (I1). */
        if (n->run != SIM_DOWN && n->elector.spare_ns - sim_local(w, n) > l.spare)
            l.spare = n->elector.spare_ns - sim_local(w, n);
        if (n->run != SIM_DOWN && n->elector.phase == TN_PHASE_STOPPING)
            l.stopping = p->drain_ns + p->timing[i].kill_ns;
    }
    const struct sim_value *now = &w->store.now;
    if (now->has_record && !now->corrupt && (int64_t)now->lease.ttl_ms * TN_MS > l.ttl)
        l.ttl = (int64_t)now->lease.ttl_ms * TN_MS;
    /* The state: each document read and sealed, and once more if it was fenced. */
    l.seal = p->commits ? (4 * SIM_DOCS + 1) * l.trip : 0;
    /* The product's code: roots and documents, read, sealed and read again; twice if fenced. */
    if (p->product)
        l.seal = (8 * SIM_REGS + 1) * l.trip;
    /* The floor of epochs is read, and once more above it; and so again if the state has fenced. */
    l.seal += p->purges ? 6 * l.trip : 0;
    return l;
}

static int64_t bound(const struct sim_world *w, uint32_t part)
{
    const struct sim_plan *p = &w->plan;
    struct limits l = limits_of(w);
    int64_t seen = p->notifies ? p->latency_ns : stretch(w, l.poll);
    int64_t spare = l.spare > 0 ? stretch(w, l.spare) : 0;
    int64_t expiry = stretch(w, l.ttl + l.poll) + 2 * l.trip + l.seal + spare + l.session;
    /* The end of a program that does as it is told, the release (a renewal
     * may be on its way), and what its watchers then do. */
    int64_t released =
        stretch(w, 20 * TN_MS) + 2 * l.trip + seen + 2 * l.trip + l.seal + spare + l.session;
    if (part == FIRST && p->unsealed) /* it may be the first, and keep it for a ttl */
        expiry += stretch(w, l.ttl + l.ttl / 2) + released;
    if (part == FIRST || part == DELETED)
        return expiry + stretch(w, l.stopping);
    if (part == HANDED)
        return released;
    if (part == AGAIN)
        return released - spare;
    return p->guarded && p->releaser ? released + 2 * l.trip : expiry;
}

/* ---- The calm ------------------------------------------------------------ */

static int leader(const struct sim_world *w)
{
    for (unsigned i = 0; i < w->plan.nodes; i++) {
        const struct sim_node *n = &w->nodes[i];

        if (n->run == SIM_UP && tn_elector_leads(&n->elector, sim_local(w, n)))
            return (int)i;
    }
    return -1;
}

/* True time at which nobody keeps back from claiming any more, but for the one that is not meant.
 */
static int64_t held_back_until(const struct sim_world *w, const struct sim_node *but)
{
    int64_t last = w->now_ns;

    for (unsigned i = 0; i < w->plan.nodes; i++) {
        const struct sim_node *n = &w->nodes[i];
        int64_t left = n->elector.not_before_ns - sim_local(w, n);
        int64_t most = 16 * limits_of(w).ttl; /* who keeps back for longer is not waited for */

        if (n != but && n->run != SIM_DOWN && left > 0 && left < most)
            last = later(last, w->now_ns + stretch(w, left));
    }
    return last;
}

/* Who was on its way to end when the faults ended has ended by now. */
static void boot_all(struct sim_world *w)
{
    for (unsigned i = 0; i < w->plan.nodes; i++)
        sim_node_boot(w, &w->nodes[i]);
}

/* Everybody can seal the state from now on. */
static void let_seal(struct sim_world *w)
{
    if (w->calm.unsealed)
        w->calm.unsealed->saver.unsealed_until_ns = 0;
}

static void next_part(struct sim_world *w)
{
    struct limits l = limits_of(w);

    w->calm.waiting = false;
    let_seal(w);
    boot_all(w);
    int64_t rest = w->calm.part == DELETED ? 0 : stretch(w, 2 * l.ttl);
    sim_at(w, w->now_ns + rest, SIM_Q_CALM, 0, 0, w->calm.part + 1);
}

static void expect(struct sim_world *w, uint32_t part, int not_this)
{
    struct sim_calm *c = &w->calm;
    int now = leader(w);

    c->part = part;
    c->not_this = not_this;
    c->since_ns = w->now_ns;
    c->bound_ns = bound(w, part);
    if (now >= 0 && now != not_this) {
        next_part(w);
        return;
    }
    c->waiting = true;
    sim_at(w, w->now_ns + c->bound_ns, SIM_Q_CALM, 0, ++c->gen, LATE);
}

void sim_check_started(struct sim_world *w, const struct sim_node *n)
{
    struct sim_calm *c = &w->calm;

    if (!c->waiting || n->index == c->not_this)
        return;
    uint32_t part = (uint32_t)((w->now_ns - c->since_ns) * 1000 / (c->bound_ns + 1));
    if (part > w->counts.bound_permille)
        w->counts.bound_permille = part;
    w->counts.takeovers++;
    next_part(w);
}

void sim_check_await(struct sim_world *w)
{
    expect(w, FIRST, -1);
}

/* When whatever was under way as the faults ended has ended, too. */
static int64_t in_flight_until(const struct sim_world *w)
{
    static const enum sim_what kinds[] = {SIM_Q_ARRIVE,   SIM_Q_ANSWER,    SIM_Q_GIVE_UP,
                                          SIM_Q_RELEASER, SIM_Q_DOC,       SIM_Q_SAVED,
                                          SIM_Q_PART,     SIM_Q_PART_BACK, SIM_Q_CLIENT};
    int64_t last = later(held_back_until(w, w->calm.unsealed), w->calm.yield_until_ns);

    for (unsigned i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        last = later(last, sim_queue_last(&w->queue, (uint8_t)kinds[i]));
    return last + 4 * w->plan.latency_ns + TN_MS;
}

static unsigned candidates(const struct sim_world *w)
{
    unsigned n = 0;

    for (unsigned i = 0; i < w->plan.nodes; i++)
        n += !(w->keep.without >> i & 1);
    return n;
}

/* Ask the leader to step down, or kill it; then there must be another. */
static void unseat(struct sim_world *w, uint32_t part)
{
    int who = leader(w);
    int64_t free_ns = held_back_until(w, who < 0 ? NULL : &w->nodes[who]);

    if (free_ns > w->now_ns) {
        sim_at(w, free_ns, SIM_Q_CALM, 0, 0, part);
        return;
    }
    if (who < 0) {
        /* Its state may have fenced it only now; any other stop was judged where it
         * happened.  Then once more: a leader has to be there in time. */
        expect(w, part - 1, -1);
        return;
    }
    struct sim_node *n = &w->nodes[who];
    struct limits l = limits_of(w);
    expect(w, part, who);
    if (part != KILLED) {
        struct sim_mail mail = {.kind = TN_EV_YIELD, .until_ns = sim_local(w, n) + l.ttl};
        sim_node_post(w, n, &mail);
    } else {
        sim_say(w, who, "is killed");
        sim_node_kill(w, n);
    }
}

/* Delete the record under the leader, and wait until it, or another, has started again. */
static void lose_record(struct sim_world *w)
{
    struct sim_calm *c = &w->calm;

    c->loser = leader(w);
    if (c->loser < 0 || w->plan.family != &sim_family_register ||
        sim_key(w->plan.seed, SIM_RND_PLAN, 5, 0) % 3 != 0) {
        w->done = true;
        return;
    }
    c->part = DELETED;
    c->not_this = -1;
    c->since_ns = w->now_ns;
    c->bound_ns = bound(w, DELETED);
    c->waiting = true;
    sim_say(w, -1, "the record is deleted");
    sim_store_befall(w, &(struct sim_op){.kind = SIM_OP_DELETE});
    sim_at(w, w->now_ns + c->bound_ns, SIM_Q_CALM, 0, ++c->gen, LATE);
}

void sim_check_overdue(struct sim_world *w)
{
    if (w->calm.waiting && w->now_ns - w->calm.since_ns >= w->calm.bound_ns)
        sim_fail(w, "I10", "no leader %.3f s after %s", (double)w->calm.bound_ns / 1e9,
                 w->calm.part == FIRST     ? "the faults were over"
                 : w->calm.part == KILLED  ? "the leader was killed"
                 : w->calm.part == DELETED ? "its record was deleted"
                                           : "the leader was asked to step down");
}

void sim_check_calm(struct sim_world *w, uint32_t part, uint32_t gen)
{
    switch (part) {
    case HEAL:
        sim_ops_heal(w);
        sim_at(w, in_flight_until(w), SIM_Q_CALM, 0, 0, FIRST);
        break;
    case FIRST:
        if (candidates(w) < 2)
            let_seal(w);
        boot_all(w);
        if (w->plan.wild)
            w->done = true; /* nothing is promised about when */
        else
            expect(w, FIRST, -1);
        break;
    case HANDED:
    case KILLED:
        if (candidates(w) < 2)
            w->done = true;
        else
            unseat(w, part);
        break;
    case DELETED:
        lose_record(w);
        break;
    case AGAIN:
        if (leader(w) == w->calm.loser)
            unseat(w, AGAIN);
        else
            w->done = true;
        break;
    case DONE:
        w->done = true;
        break;
    case LATE:
        if (gen == w->calm.gen)
            sim_check_overdue(w);
        break;
    default:
        break;
    }
}
