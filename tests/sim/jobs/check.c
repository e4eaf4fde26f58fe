/* sim/jobs/check.c - what was promised: J1 to J6, and no needless stops. */
#include "world.h"

#include <string.h>

/* J1, J2, J3, J6 at the start of a program; the node's own program is the one that starts. */
void check_start(struct world *w, unsigned node, unsigned job)
{
    const struct program *own = &w->node[node].programs[job];

    for (unsigned i = 0; i < w->nodes; i++) {
        const struct program *p = &w->node[i].programs[job];

        if (i != node && p->runs && !p->strange)
            fail(w, "J1", "n%u and n%u run job %u at the same time", i, node, job);
    }
    if (own->strange && w->no_wall)
        return; /* a claim that was undone, without the wall clock's floor */
    if (own->epoch <= w->last_epoch[job])
        fail(w, "J2", "job %u starts with epoch %llu, after %llu", job,
             (unsigned long long)own->epoch, (unsigned long long)w->last_epoch[job]);
    w->last_epoch[job] = own->epoch;
    /* A claim that a restore has undone starts from what it read; its commits are fenced. */
    if (own->value < w->acked[job] && !own->strange)
        fail(w, "J3", "job %u starts from checkpoint %llu, %llu was acknowledged", job,
             (unsigned long long)own->value, (unsigned long long)w->acked[job]);
    if (w->pauses[job].step == 4)
        fail(w, "J6", "job %u starts although its pause was confirmed", job);
    if (w->quiet && !(w->leave_only && w->leavers[job]))
        fail(w, "J5", "job %u moves to n%u although nothing has happened to it", job, node);
}

void check_stop(struct world *w, unsigned node, unsigned job, bool fenced, int64_t by_ns)
{
    const struct node *n = &w->node[node];
    const struct job_reg *r = &w->job[job];

    if (fenced && !n->programs[job].strange && r->s.present &&
        r->j.epoch == n->programs[job].epoch &&
        tn_identity_equal(&r->j.owner.identity, &n->beat.identity))
        fail(w, "I12", "n%u stops job %u, which is its own", node, job);
    /* What a program is told must be true: it is killed at D, and once fenced it has no time. */
    if (by_ns > n->beat.deadline_ns)
        fail(w, "D", "n%u gives job %u time until after the deadline of its membership", node, job);
    if (fenced && by_ns > local_of(w, n))
        fail(w, "D", "n%u gives job %u time, which may run elsewhere", node, job);
    if (w->quiet && !(w->leave_only && w->leavers[job]))
        fail(w, "J5", "job %u is taken from n%u although nothing has happened to it", job, node);
}

void check_job(struct world *w, unsigned job, const struct job_reg *before)
{
    const struct job_reg *r = &w->job[job];

    if (r->value < w->acked[job])
        fail(w, "J3", "checkpoint %llu of job %u, acknowledged, is overwritten by %llu",
             (unsigned long long)w->acked[job], job, (unsigned long long)r->value);
    if (r->j.epoch < before->j.epoch)
        fail(w, "J3", "job %u: a write under epoch %llu over epoch %llu", job,
             (unsigned long long)r->j.epoch, (unsigned long long)before->j.epoch);
}

void check_ack(struct world *w, unsigned job, uint64_t value)
{
    w->commits++;
    if (value > w->acked[job])
        w->acked[job] = value;
}

/* A job moves only to a member that has been alive since the plan before. */
void check_plan(struct world *w, const struct plan_reg *before)
{
    for (unsigned j = 0; j < w->jobs; j++) {
        uint16_t from = before->s.present ? before->slots[j] : TN_SLOT_NONE;
        uint16_t to = w->plan.slots[j];

        if (to == TN_SLOT_NONE)
            continue;
        if (from != TN_SLOT_NONE && strcmp(before->ids[from], w->plan.ids[to]) == 0)
            continue;
        if (!w->alive_since_plan[id_index(w->plan.ids[to])])
            fail(w, "J5", "job %u moves to %s, which is dead", j, w->plan.ids[to]);
    }
    for (unsigned i = 0; i < IDS; i++)
        w->alive_since_plan[i] =
            w->member[i].s.present &&
            (w->member[i].m.state == TN_MEMBER_ALIVE ||
             (w->member[i].m.state == TN_MEMBER_LEFT && w->member[i].m.linger_ms > 0));
}

void check_needless(struct world *w, const struct node *n, const char *what)
{
    const struct member_reg *r = &w->member[n->id];

    if (w->admitted_ns[n->id] > 0 && w->now_ns - w->admitted_ns[n->id] < 10 * TN_S)
        return;
    if (!w->member_lost && r->s.present && r->m.state == TN_MEMBER_ALIVE &&
        r->m.mark == TN_MARK_NONE && tn_identity_equal(&r->m.identity, &n->beat.identity) &&
        local_of(w, n) < n->beat.deadline_ns - n->beat.timing.grace_ns)
        fail(w, "I12", "n%u gives %s up without need", n->index, what);
}

/* ---- J4, J5 -------------------------------------------------------------- */

static unsigned count_members(const struct world *w, bool *counts)
{
    struct tn_member all[IDS];

    for (unsigned i = 0; i < IDS; i++) {
        all[i] = w->member[i].m;
        if (!w->member[i].s.present)
            all[i].state = TN_MEMBER_DEAD;
    }
    return tn_members_count(all, IDS, w->catalogue.active, counts);
}

static bool wants(const char *labels, const char *label)
{
    return label[0] == '\0' || strcmp(labels, label) == 0;
}

static bool is_placeable(const struct world *w, unsigned job, const bool *counts)
{
    const struct tn_entry *e = &w->page[job / PAGE].entries[job % PAGE];
    const struct tn_requirements *q = &w->kinds[e->requirements];

    if (e->wanted != TN_WANTED_RUNNING || !w->job[job].s.present ||
        w->job[job].j.wanted != TN_WANTED_RUNNING || w->limits || w->pauses[job].step != 0)
        return false;
    for (unsigned i = 0; i < IDS; i++)
        if (counts[i] && wants(w->member[i].m.labels, q->must) &&
            (q->pin[0] == '\0' || id_index(q->pin) == i) &&
            !(w->member[i].m.unfit_count && w->member[i].m.unfit[0] == job))
            return true;
    return false;
}

static int runner(const struct world *w, unsigned job)
{
    for (unsigned i = 0; i < w->nodes; i++)
        if (w->node[i].programs[job].runs)
            return (int)i;
    return -1;
}

/* Called every second from when the last request of the time of faults has ended. */
void check_running(struct world *w)
{
    bool counts[IDS], nobody = count_members(w, counts) == 0;

    for (unsigned j = 0; j < w->jobs; j++) {
        bool waits = runner(w, j) < 0 && (nobody || is_placeable(w, j, counts));

        if (!waits)
            w->waits_ns[j] = 0;
        else if (w->waits_ns[j] == 0)
            w->waits_ns[j] = w->now_ns;
        else if (w->now_ns - w->waits_ns[j] > w->bound_ns)
            fail(w, "J4", "job %u runs nowhere, long after the last fault", j);
    }
}

void check_fair(struct world *w)
{
    bool counts[IDS];
    uint64_t load[IDS] = {0}, total = 0, heaviest = 0, shares = 0;

    if (w->labels || w->limits || count_members(w, counts) == 0)
        return;
    for (unsigned j = 0; j < w->jobs; j++) {
        int node = runner(w, j);
        uint32_t weight = w->page[j / PAGE].entries[j % PAGE].weight;

        if (node < 0)
            continue;
        load[w->node[node].id] += weight;
        total += weight;
        heaviest = weight > heaviest ? weight : heaviest;
    }
    heaviest += w->weights; /* what is fair is rounded to whole weights */
    for (unsigned i = 0; i < IDS; i++)
        shares += counts[i] ? w->member[i].m.share : 0;
    for (unsigned i = 0; i < IDS; i++) {
        uint64_t share = counts[i] ? w->member[i].m.share : 0;

        if (load[i] * shares > total * share + heaviest * shares ||
            (load[i] + heaviest) * shares < total * share)
            fail(w, "J5", "the load of %c is %llu of %llu, with a share of %llu of %llu", 'a' + i,
                 (unsigned long long)load[i], (unsigned long long)total, (unsigned long long)share,
                 (unsigned long long)shares);
    }
}
