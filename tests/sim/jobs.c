/*
 * jobs: one member lease vouches for all jobs of a worker (SAFETY: Jobs).  A
 * reference model without the electors, until the product has jobs.
 *
 * Whoever judges a member dead first swaps the MEMBER record to dead, and only
 * then claims its jobs.  A job is claimable if its owner's member record, as
 * read, shows that incarnation dead, or a later one.  Every join is a fresh
 * incarnation.  A claim of one's own that is found applied late is adopted only
 * by a swap with a new epoch.
 */
#include <string.h>

#include "check.h"
#include "net.h"
#include "ops.h"
#include "store.h"

enum { LOOK_MEMBER, JOIN, RENEW, BURY, LOOK_JOB, CLAIM };
enum { Q_WAKE, Q_ARRIVE, Q_ANSWER, Q_GIVE_UP };

static void think(struct sim_world *w, struct sim_node *n);

static int64_t local(const struct sim_world *w, const struct sim_node *n)
{
    return sim_clock_local(&n->clock, w->now_ns);
}

static void event(struct sim_world *w, int64_t at, unsigned what, const struct sim_node *n,
                  uint32_t arg)
{
    sim_at(w, at, SIM_Q_FAMILY, n->index, what, arg);
}

static void wake_at(struct sim_world *w, struct sim_node *n, int64_t local_ns)
{
    int64_t at = sim_clock_true(&n->clock, local_ns);

    event(w, at > w->now_ns ? at : w->now_ns + 1, Q_WAKE, n, ++n->wake_gen);
}

/* ---- The promise --------------------------------------------------------- */

static bool runs(const struct sim_world *w, unsigned worker, unsigned job)
{
    const struct sim_node *n = &w->nodes[worker];
    const struct sim_worker *k = &w->jobs.workers[worker];

    return n->run != SIM_DOWN && k->joined && k->mine[job] && local(w, n) < k->deadline_ns;
}

static void check(struct sim_world *w)
{
    for (unsigned job = 0; job < SIM_JOBS && !w->plan.wild; job++) {
        int who = -1;

        for (unsigned i = 0; i < w->plan.nodes; i++) {
            if (!runs(w, i, job))
                continue;
            if (who >= 0)
                sim_fail(w, "I1", "n%d and n%u run job %u at the same time", who, i, job);
            who = (int)i;
        }
    }
}

/* ---- Requests ------------------------------------------------------------ */

static struct sim_msg *draft(struct sim_world *w, struct sim_node *n, uint8_t doing, uint8_t target)
{
    struct sim_worker *k = &w->jobs.workers[n->index];
    struct sim_msg *msg = sim_net_take(w);

    k->out = true;
    k->doing = doing;
    k->target = target;
    k->no++;
    k->nonce = sim_key(w->plan.seed, SIM_RND_ENTROPY, n->index, k->no) | 1;
    k->sent_ns = local(w, n);
    msg->node = n->index;
    msg->life = n->life;
    msg->no = k->no;
    msg->stage = doing;
    msg->echo = false;
    /* The registers here are small: what is expected and written fits these. */
    memset(&msg->record, 0, sizeof msg->record);
    msg->record.renewed_ms = k->nonce;
    msg->record.priority = target;
    return msg;
}

static void send(struct sim_world *w, struct sim_node *n, struct sim_msg *msg)
{
    struct sim_fate f = sim_net_fate(w, SIM_RND_REQUEST, n, msg->no);
    int64_t by = sim_clock_true(&n->clock, local(w, n) + n->timing->request_ns);

    event(w, by, Q_GIVE_UP, n, msg->no);
    msg->back_ns = f.cut_ns >= 0 ? -1 : f.back_ns;
    if (f.twice_ns >= 0) {
        struct sim_msg *copy = sim_net_take(w);

        *copy = *msg;
        copy->echo = true;
        event(w, w->now_ns + f.twice_ns, Q_ARRIVE, n, sim_net_index(w, copy));
    }
    if (f.out_ns < 0 || f.refused || n->cut)
        sim_net_give(w, msg);
    else
        event(w, w->now_ns + f.out_ns, Q_ARRIVE, n, sim_net_index(w, msg));
}

static void ask(struct sim_world *w, struct sim_node *n, uint8_t doing, uint8_t target)
{
    struct sim_worker *k = &w->jobs.workers[n->index];
    struct sim_msg *msg = draft(w, n, doing, target);
    struct tn_lease *r = &msg->record;

    if (doing == JOIN || doing == RENEW || doing == BURY) {
        const struct sim_member *seen = &k->seen[target];

        if (doing == JOIN)
            k->draft_inc = ++w->jobs.drawn; /* fresh for every join, also a retried one */
        r->epoch = seen->version;
        r->transitions = seen->nonce;
        r->acquired_ms = doing == JOIN    ? k->draft_inc
                         : doing == RENEW ? k->incarnation
                                          : seen->incarnation;
    } else if (doing == CLAIM) {
        r->epoch = k->job[target].version;
        r->transitions = k->job[target].nonce;
        r->acquired_ms = k->incarnation;
        r->ttl_ms = (uint32_t)k->job[target].epoch + 1;
    }
    send(w, n, msg);
}

/* ---- The registers ------------------------------------------------------- */

static void arrive(struct sim_world *w, struct sim_msg *msg)
{
    const struct tn_lease *r = &msg->record;
    struct sim_member *m = &w->jobs.members[r->priority];
    struct sim_job *j = &w->jobs.jobs[r->priority % SIM_JOBS];
    bool member = msg->stage <= BURY;
    bool match = member ? m->version == r->epoch && m->nonce == r->transitions
                        : j->version == r->epoch && j->nonce == r->transitions;

    msg->made = msg->stage == LOOK_MEMBER || msg->stage == LOOK_JOB;
    if (w->now_ns < w->store.down_until_ns) {
        sim_net_give(w, msg);
        return;
    }
    if (!msg->made && match) {
        msg->made = true;
        if (member)
            *m = (struct sim_member){.version = ++w->jobs.version,
                                     .nonce = r->renewed_ms,
                                     .incarnation = r->acquired_ms,
                                     .dead = msg->stage == BURY};
        else
            *j = (struct sim_job){.version = ++w->jobs.version,
                                  .nonce = r->renewed_ms,
                                  .incarnation = r->acquired_ms,
                                  .epoch = r->ttl_ms,
                                  .owner = msg->node};
        sim_hash(w, (uint64_t)msg->stage << 8 | msg->node, w->jobs.version);
        sim_say(w, msg->node, "%s takes effect on %d", member ? "member swap" : "claim",
                r->priority);
    }
    if (msg->echo || msg->back_ns < 0) {
        sim_net_give(w, msg);
        return;
    }
    /* The answer: what the register shows now. */
    msg->record.epoch = member ? m->version : j->version;
    msg->record.transitions = member ? m->nonce : j->nonce;
    msg->record.acquired_ms = member ? m->incarnation : j->incarnation;
    msg->record.ttl_ms = member ? m->dead : (uint32_t)j->epoch;
    msg->follows = !member && j->version != 0;
    msg->expect.nonce[0] = member ? 0 : j->owner;
    event(w, w->now_ns + msg->back_ns, Q_ANSWER, &w->nodes[msg->node], sim_net_index(w, msg));
}

/* ---- A worker ------------------------------------------------------------ */

static void leave(struct sim_world *w, struct sim_node *n)
{
    struct sim_worker *k = &w->jobs.workers[n->index];

    sim_say(w, n->index, "stops all its jobs");
    k->joined = false;
    memset(k->mine, 0, sizeof k->mine);
}

static void saw_member(struct sim_world *w, struct sim_node *n, const struct sim_msg *msg)
{
    struct sim_worker *k = &w->jobs.workers[n->index];
    struct sim_member *seen = &k->seen[k->target];

    if (seen->version != msg->record.epoch || seen->nonce != msg->record.transitions)
        k->since_ns[k->target] = local(w, n);
    seen->version = msg->record.epoch;
    seen->nonce = msg->record.transitions;
    seen->incarnation = msg->record.acquired_ms;
    seen->dead = msg->record.ttl_ms;
    if (seen->dead && seen->incarnation > k->dead_inc[k->target])
        k->dead_inc[k->target] = seen->incarnation;
    if (seen->incarnation > 1 && seen->incarnation - 1 > k->dead_inc[k->target])
        k->dead_inc[k->target] = seen->incarnation - 1; /* a later one is there */
    if (k->target == n->index && k->joined && (seen->dead || seen->incarnation != k->incarnation))
        leave(w, n);
}

static void saw_job(struct sim_worker *k, const struct sim_msg *msg)
{
    struct sim_job *j = &k->job[k->target];

    j->version = msg->record.epoch;
    j->nonce = msg->record.transitions;
    j->incarnation = msg->record.acquired_ms;
    j->epoch = msg->record.ttl_ms;
    j->owner = msg->follows ? msg->expect.nonce[0] : SIM_NODES_MAX;
}

static void done(struct sim_world *w, struct sim_node *n)
{
    struct sim_worker *k = &w->jobs.workers[n->index];
    int64_t hold = k->sent_ns + n->timing->hold_ns;

    if (k->doing == JOIN) {
        k->joined = true;
        k->incarnation = k->draft_inc;
        k->deadline_ns = hold;
        k->renew_ns = k->sent_ns + n->timing->renew_ns;
    } else if (k->doing == RENEW && local(w, n) < k->deadline_ns) {
        k->deadline_ns = hold;
        k->renew_ns = k->sent_ns + n->timing->renew_ns;
    } else if (k->doing == CLAIM && k->joined && local(w, n) < k->deadline_ns) {
        k->mine[k->target] = true;
        w->counts.starts++;
        sim_say(w, n->index, "RUNS job %u", k->target);
    }
    check(w);
}

static void answer(struct sim_world *w, struct sim_node *n, const struct sim_msg *msg)
{
    struct sim_worker *k = &w->jobs.workers[n->index];

    k->out = false;
    if (k->doing <= BURY)
        saw_member(w, n, msg);
    else
        saw_job(k, msg);
    if (msg->made && k->doing != LOOK_MEMBER && k->doing != LOOK_JOB &&
        msg->record.transitions == k->nonce)
        done(w, n);
}

/* May this job be claimed, by what was read? */
static bool claimable(const struct sim_worker *k, const struct sim_node *n, unsigned job)
{
    const struct sim_job *j = &k->job[job];

    if (k->mine[job])
        return false;
    if (j->owner == SIM_NODES_MAX)
        return true;
    if (j->owner == n->index)
        return true; /* of a life before, or a claim that landed late: by a new epoch */
    return j->incarnation <= k->dead_inc[j->owner];
}

/* The others' member records and the jobs, one after the other. */
static void look_round(struct sim_world *w, struct sim_node *n)
{
    struct sim_worker *k = &w->jobs.workers[n->index];
    unsigned turn = k->turn++ % (2 * w->plan.nodes + SIM_JOBS * 2);

    if (turn < 2 * w->plan.nodes) {
        unsigned who = turn / 2;
        const struct sim_member *seen = &k->seen[who];
        bool expired = local(w, n) - k->since_ns[who] >= n->timing->ttl_ns;

        if (turn % 2 == 0)
            ask(w, n, LOOK_MEMBER, (uint8_t)who);
        else if (who != n->index && seen->version && !seen->dead && expired)
            ask(w, n, BURY, (uint8_t)who);
        return;
    }
    unsigned job = (turn - 2 * w->plan.nodes) / 2;
    if (turn % 2 == 0)
        ask(w, n, LOOK_JOB, (uint8_t)job);
    else if (claimable(k, n, job))
        ask(w, n, CLAIM, (uint8_t)job);
}

static void think(struct sim_world *w, struct sim_node *n)
{
    struct sim_worker *k = &w->jobs.workers[n->index];

    if (n->run != SIM_UP || k->out)
        return;
    if (k->joined && local(w, n) >= k->deadline_ns)
        leave(w, n);
    if (!k->joined)
        ask(w, n, k->turn++ % 2 ? JOIN : LOOK_MEMBER, n->index);
    else if (local(w, n) >= k->renew_ns)
        ask(w, n, k->turn++ % 4 == 3 ? LOOK_MEMBER : RENEW, n->index);
    else
        look_round(w, n);
    wake_at(w, n, local(w, n) + n->timing->renew_ns / 16 + 1);
}

/* ---- What befalls them --------------------------------------------------- */

static void befall(struct sim_world *w, unsigned index)
{
    const struct sim_op *op = &w->plan.ops[index];
    struct sim_node *n = &w->nodes[op->node];
    struct sim_worker *k = &w->jobs.workers[op->node];
    int64_t back = w->now_ns + op->span_ns;

    if (!sim_fault(w, SIM_RND_OP, 0, index))
        return;
    sim_say(w, -1, "op %u, n%u: %s, %.3f s", index, op->node, sim_op_text(op->kind),
            (double)op->span_ns / 1e9);
    switch (op->kind) {
    case SIM_OP_PAUSE:
    case SIM_OP_YIELD:
    case SIM_OP_EXIT:
        n->run = n->run == SIM_DOWN ? SIM_DOWN : SIM_PAUSED;
        n->resume_ns = back;
        sim_at(w, back, SIM_Q_RESUME, op->node, ++n->pauses, 0);
        break;
    case SIM_OP_KILL:
    case SIM_OP_REBOOT:
    case SIM_OP_SHUTDOWN:
        n->run = SIM_DOWN;
        n->life++;
        n->pauses++;
        memset(k, 0, offsetof(struct sim_worker, no));
        k->joined = k->out = false;
        memset(k->mine, 0, sizeof k->mine);
        sim_at(w, back, SIM_Q_BOOT, op->node, 0, 0);
        break;
    case SIM_OP_PARTITION:
        n->cut = true;
        sim_at(w, back, SIM_Q_LATER, op->node, 0, index);
        break;
    case SIM_OP_OUTAGE:
        w->store.down_until_ns = back;
        break;
    default:
        break;
    }
}

static void jobs_event(struct sim_world *w, const struct sim_item *it)
{
    struct sim_node *n = &w->nodes[it->node];
    struct sim_worker *k = &w->jobs.workers[it->node];
    struct sim_msg *msg = NULL;

    if (it->gen == Q_ARRIVE || it->gen == Q_ANSWER)
        msg = &w->msgs[it->arg]; /* of the others it is a generation or a number */
    switch (it->gen) {
    case Q_WAKE:
        if (it->arg == n->wake_gen)
            think(w, n);
        break;
    case Q_ARRIVE:
        arrive(w, msg);
        break;
    case Q_ANSWER:
        if (n->run == SIM_PAUSED && n->life == msg->life) {
            sim_at(w, n->resume_ns, SIM_Q_FAMILY, it->node, Q_ANSWER, it->arg);
            break;
        }
        if (n->run == SIM_UP && n->life == msg->life && k->out && k->no == msg->no && !n->cut)
            answer(w, n, msg);
        sim_net_give(w, msg);
        think(w, n);
        break;
    default:
        if (k->out && k->no == it->arg) {
            k->out = false; /* unknown: whatever it was, it is looked at again */
            think(w, n);
        }
        break;
    }
}

static void happen(struct sim_world *w, const struct sim_item *it)
{
    struct sim_node *n = &w->nodes[it->node];

    switch (it->what) {
    case SIM_Q_OP:
        befall(w, it->arg);
        break;
    case SIM_Q_LATER:
        n->cut = false;
        break;
    case SIM_Q_BOOT:
        n->run = SIM_UP;
        think(w, n);
        break;
    case SIM_Q_RESUME:
        if (it->gen == n->pauses && n->run == SIM_PAUSED) {
            n->run = SIM_UP;
            check(w);
            think(w, n);
        }
        break;
    case SIM_Q_FAMILY:
        jobs_event(w, it);
        break;
    case SIM_Q_CALM:
        w->done = true;
        break;
    default:
        break;
    }
}

static void jobs_run(struct sim_world *w)
{
    struct sim_item it;

    memset(&w->jobs, 0, sizeof w->jobs);
    for (unsigned i = 0; i < SIM_JOBS; i++)
        w->jobs.jobs[i].owner = SIM_NODES_MAX;
    for (unsigned i = 0; i < w->plan.nodes; i++)
        w->nodes[i].timing = &w->plan.timing[0]; /* the ttl is not what is tried here */
    while (!w->failed && !w->done && sim_queue_pop(&w->queue, &it)) {
        w->now_ns = it.at_ns;
        w->counts.events++;
        happen(w, &it);
    }
    sim_hash(w, w->counts.events, (uint64_t)w->now_ns);
}

const struct sim_family sim_family_jobs = {
    .name = "jobs",
    .promise = "a job is run by one worker at a time (a reference model)",
    .linear = true,
    .keeps = true,
    .weight = 6,
    .run = jobs_run,
};
