/* sim/jobs/chaos.c - how a history begins, faults, operators, and how it ends. */
#include "world.h"

#include <stdio.h>
#include <string.h>

#define RHO_PPM 100000

/* ---- The beginning ------------------------------------------------------- */

static void plan_node(struct world *w, unsigned i)
{
    static const int64_t rates[] = {-RHO_PPM, RHO_PPM, 0, 50000};
    struct node *n = &w->node[i];
    struct tn_timing_wish wish = {.rho_ppm = RHO_PPM};
    struct tn_member *p = &n->beat.profile;

    n->index = n->id = i;
    if (w->twins && i == w->nodes - 1)
        n->id = 0;
    n->rate_ppm = rates[below(w, 4)];
    n->offset_ns = span(w, TN_S, 1000 * TN_S);
    n->ttl_ms = (uint32_t)span(w, 2, 6) * 1000;
    wish.ttl_ns = n->ttl_ms * TN_MS;
    if (tn_timing_plan(&wish, &n->timing) != TN_TIMING_OK)
        fail(w, "world", "the timing of n%u is refused", i);
    if (wish.ttl_ns > w->longest_ttl_ns)
        w->longest_ttl_ns = wish.ttl_ns;
    n->guarded = chance(w, 70);
    p->ttl_ms = n->ttl_ms;
    p->share = w->shares && chance(w, 40) ? 2 : 1;
    p->limit = w->limits && chance(w, 50) ? (uint32_t)span(w, 1, JOBS) : UINT32_MAX;
    p->standby = w->standbys && i == 1;
    p->linger_ms = w->lingers && chance(w, 50) ? (uint32_t)span(w, 500, 8000) : 0;
    if (w->labels && (chance(w, 50) || i == 0))
        memcpy(p->labels, "x=1", 4);
    if (w->labels && chance(w, 20)) {
        p->unfit_count = 1;
        p->unfit[0] = below(w, w->jobs);
    }
    at(w, span(w, 0, 4 * TN_S), I_BOOT, i, 0, 0);
}

static void plan_jobs(struct world *w)
{
    memcpy(w->kinds[1].must, "x=1", 4);
    memcpy(w->kinds[2].prefer, "x=1", 4);
    memcpy(w->kinds[3].pin, "a", 2);
    w->catalogue = (struct catalogue_reg){.revision = 1, .active = w->standbys ? w->nodes - 1 : 0};
    for (unsigned j = 0; j < w->jobs; j++) {
        struct tn_entry *e = &w->page[j / PAGE].entries[j % PAGE];

        *e = (struct tn_entry){.number = j,
                               .weight = w->weights ? 1 + below(w, 5) : 1,
                               .requirements = (uint16_t)(w->labels ? below(w, KINDS) : 0)};
        w->page[j / PAGE].revision = w->catalogue.page_revision[j / PAGE] = 1;
        w->job[j].s = (struct stamp){.present = true, .version = 1, .nonce = {1}};
    }
    for (unsigned j = w->jobs; j < JOBS; j++)
        w->page[j / PAGE].entries[j % PAGE].number = UINT32_MAX;
}

/* In every other history each job of a request takes its time: large batches are cut off at their
 * deadline, and the workers make them smaller and larger. */
static void plan_pace(struct world *w)
{
    struct sim_rng rng = sim_rng_keyed(w->seed, SIM_RND_SLOT, 0, 0);

    w->batch_min = w->batch_max;
    if (w->seed % 2 == 0)
        return;
    w->batch_min = 1;
    w->job_ns = sim_rng_span(&rng, 1, 150) * TN_MS;
}

void chaos_plan(struct world *w)
{
    w->nodes = 2 + below(w, NODES - 1);
    w->jobs = 3 + below(w, JOBS - 2);
    w->labels = chance(w, 20);
    w->limits = chance(w, 12);
    w->weights = chance(w, 30);
    w->shares = chance(w, 30);
    w->twins = w->nodes > 2 && chance(w, 12);
    w->standbys = w->nodes > 2 && chance(w, 15);
    w->lingers = chance(w, 20);
    w->wild = chance(w, 10);
    w->no_wall = chance(w, 20);
    w->fast = chance(w, 50);
    w->batch_max = chance(w, 30) ? 1 + below(w, 3) : JOBS;
    plan_pace(w);
    w->chaos_ns = span(w, 12, 45) * TN_S;
    for (unsigned i = 0; i < w->nodes; i++)
        plan_node(w, i);
    plan_jobs(w);
    at(w, span(w, 3, 8) * TN_S, I_FAULT, 0, 0, 0);
    at(w, w->chaos_ns, I_CALM, 0, 0, 0);
}

/* ---- Operators ----------------------------------------------------------- */

/* A page, then the catalogue that names its revision; an operator may die between the two. */
void operate_page(struct world *w, unsigned job, const struct tn_entry *e, bool dies)
{
    struct page_reg *p = &w->page[job / PAGE];

    p->entries[job % PAGE] = *e;
    p->revision++;
    if (dies)
        return;
    for (unsigned i = 0; i < PAGES; i++)
        w->catalogue.page_revision[i] = w->page[i].revision;
    w->catalogue.revision++;
    ring(w, NULL);
}

static void edit_entry(struct world *w, unsigned job, enum tn_wanted wanted)
{
    struct tn_entry e = w->page[job / PAGE].entries[job % PAGE];

    e.wanted = wanted;
    operate_page(w, job, &e, !w->calm && chance(w, 10));
}

static void edit_job(struct world *w, unsigned job, enum tn_wanted wanted)
{
    struct job_reg *r = &w->job[job];
    struct tn_job j = r->j;
    struct tenure_token token = token_of(&r->s);
    uint64_t nonce[2];

    if (!r->s.present)
        return;
    fresh(w, nonce);
    j.wanted = wanted;
    swap_job(w, job, &token, (const uint8_t *)nonce, &j, r->value);
    ring(w, NULL);
}

/* Confirmed: nobody has it. */
static bool confirm_pause(struct world *w, unsigned job)
{
    const struct job_reg *r = &w->job[job];

    if (!r->s.present || r->j.wanted == TN_WANTED_RUNNING || tn_job_owned(&r->j))
        return false;
    say(w, "the pause of job %u is confirmed", job);
    for (unsigned i = 0; i < w->nodes; i++)
        if (w->node[i].programs[job].runs && !w->node[i].programs[job].strange)
            fail(w, "J6", "job %u runs on n%u although its pause is confirmed", job, i);
    return true;
}

/* Pause: the catalogue, then the register, then wait.  Resume: the register, then the catalogue. */
void chaos_operate(struct world *w, unsigned job)
{
    struct pause *p = &w->pauses[job];
    int64_t next_ns = span(w, 5 * TN_MS, 600 * TN_MS);

    if (p->lifting) {
        edit_job(w, job, TN_WANTED_RUNNING);
        edit_entry(w, job, TN_WANTED_RUNNING);
        *p = (struct pause){0};
        say(w, "job %u is resumed", job);
        return;
    }
    switch (p->step) {
    case 1:
        edit_entry(w, job, p->wanted);
        p->step = 2;
        break;
    case 2:
        edit_job(w, job, p->wanted);
        p->step = 3;
        break;
    case 3:
        if (confirm_pause(w, job)) {
            p->step = 4;
            next_ns = span(w, TN_S, 10 * TN_S);
        }
        break;
    case 4:
        p->lifting = true;
        break;
    default:
        return;
    }
    if (!w->calm && chance(w, 5))
        next_ns += 10 * TN_S; /* the operator died; another one goes on */
    at(w, w->now_ns + next_ns, I_OPERATOR, 0, 0, job);
}

static void edit_member(struct world *w, unsigned id, bool evict, bool drain)
{
    struct member_reg *r = &w->member[id];
    struct tn_member m = r->m;
    struct tenure_token token = token_of(&r->s);
    uint64_t nonce[2];

    if (!r->s.present || (evict && (m.state != TN_MEMBER_ALIVE || m.mark != TN_MARK_NONE)))
        return;
    fresh(w, nonce);
    if (evict)
        m.mark = TN_MARK_EVICTED;
    m.draining = drain;
    say(w, "an operator %s %c", evict ? "evicts" : drain ? "drains" : "restores", 'a' + id);
    swap_member(w, id, &token, (const uint8_t *)nonce, &m);
}

static void admit(struct world *w, unsigned id)
{
    struct member_reg *r = &w->member[id];
    struct tn_member m = r->m;
    struct tenure_token token = token_of(&r->s);
    uint64_t nonce[2];

    fresh(w, nonce);
    m.mark = TN_MARK_NONE;
    w->admitted_ns[id] = w->now_ns;
    swap_member(w, id, &token, (const uint8_t *)nonce, &m);
}

/* ---- Lost and restored registers ----------------------------------------- */

/* Runs of a register that was lost or restored are beyond J1; their commits are fenced. */
static void set_strange(struct world *w, unsigned job)
{
    w->restored_ns[job] = w->now_ns;
    for (unsigned i = 0; i < w->nodes; i++)
        w->node[i].programs[job].strange = true;
}

static void restore_job(struct world *w, unsigned job)
{
    const struct job_reg *past = &w->job_past[job][below(w, PAST)];
    uint64_t version = w->job[job].s.version;

    if (!past->s.present || w->pauses[job].step != 0)
        return;
    say(w, "the register of job %u is restored to epoch %llu", job,
        (unsigned long long)past->j.epoch);
    set_strange(w, job);
    w->job[job] = *past;
    if (chance(w, 50))
        w->job[job].s.version = version;
    w->acked[job] = w->job[job].value;
    if (w->no_wall) /* without the wall clock's floor, epochs come again */
        w->last_epoch[job] = w->job[job].j.epoch;
    if (w->job[job].j.wanted != TN_WANTED_RUNNING)
        edit_job(w, job, TN_WANTED_RUNNING); /* `jobs repair` */
}

static void lose_job(struct world *w, unsigned job)
{
    if (w->pauses[job].step != 0 || !w->job[job].s.present)
        return;
    say(w, "the register of job %u is lost", job);
    set_strange(w, job);
    memmove(&w->job_past[job][1], &w->job_past[job][0], (PAST - 1) * sizeof w->job[0]);
    w->job_past[job][0] = w->job[job];
    w->job[job].s.present = false;
}

static void set_node_strange(struct world *w, unsigned node, unsigned id)
{
    for (unsigned j = 0; j < w->jobs && w->node[node].id == id; j++)
        w->node[node].programs[j].strange = true;
}

static bool has_seen(const struct node *n, const struct tn_member *record)
{
    return n->run != DOWN && n->beat.present &&
           tn_identity_equal(&n->beat.record.identity, &record->identity);
}

static void restore_member(struct world *w, unsigned id, bool lose)
{
    const struct member_reg *past = &w->member_past[id][below(w, PAST)];
    bool unaware = false;

    if (lose) {
        /* J1 is promised while the record survives (SAFETY: I1).  The placeholder keeps it even
         * then, unless a second process of this id never saw the record and joins over nothing. */
        for (unsigned i = 0; i < w->nodes; i++)
            unaware |= w->node[i].id == id && !has_seen(&w->node[i], &w->member[id].m);
        for (unsigned i = 0; i < w->nodes && w->twins && unaware; i++)
            set_node_strange(w, i, id);
        if (w->twins && unaware)
            w->lost[id] = w->member[id].m.identity;
        w->member[id].s.present = false;
        /* A store that loses what it has stored has also lost its connections: no create that
         * was sent before lands on the absence after it. */
        for (unsigned i = 0; i < MSGS; i++)
            if (w->msg[i].used && w->msg[i].what == W_MEMBER && w->msg[i].id == id)
                memcpy(w->msg[i].expect.version, "cut", 4);
    } else {
        if (!past->s.present || past->m.mark == TN_MARK_EVICTED)
            return;
        /* An observer that had seen nothing since then counts on: beyond J1, as I1 has it. */
        for (unsigned i = 0; i < w->nodes; i++)
            set_node_strange(w, i, id);
        w->member_restored_ns[id] = w->now_ns;
        w->member[id] = *past;
    }
    say(w, "the record of member %c is %s", 'a' + id, lose ? "lost" : "restored");
    w->member_lost = true;
    w->alive_since_plan[id] = true;
}

static void restore_plan(struct world *w, bool lose)
{
    const struct plan_reg *past = &w->plan_past[below(w, PAST)];

    if (!lose && !past->s.present)
        return;
    say(w, "the plan is %s", lose ? "lost" : "restored");
    if (lose)
        w->plan.s.present = false;
    else
        w->plan = *past;
    memset(w->alive_since_plan, true, sizeof w->alive_since_plan);
}

/* ---- Faults -------------------------------------------------------------- */

static void stall(struct world *w, struct node *n, bool freeze)
{
    if (n->run != UP)
        return;
    n->run = STALLED;
    n->frozen = freeze;
    n->resume_ns = w->now_ns + (chance(w, 50) ? span(w, TN_S / 10, 3 * TN_S)
                                              : span(w, TN_S, 2 * n->timing.ttl_ns));
    say(w, "n%u is %s for %.3f s", n->index, freeze ? "frozen with its guard" : "stopped",
        (double)(n->resume_ns - w->now_ns) / 1e9);
    for (unsigned j = 0; j < w->jobs && freeze; j++)
        n->programs[j].strange = true;
    at(w, n->resume_ns, I_RESUME, n->index, n->life, 0);
}

static void crash(struct world *w, struct node *n)
{
    if (n->run == DOWN)
        return;
    node_crash(w, n, n->guarded);
    at(w, w->now_ns + span(w, TN_S / 10, 8 * TN_S), I_BOOT, n->index, n->life, 0);
}

static void begin_pause(struct world *w, unsigned job, bool remove)
{
    if (w->pauses[job].step != 0 || !w->job[job].s.present)
        return;
    w->pauses[job] = (struct pause){
        .step = 1, .wanted = (uint8_t)(remove ? TN_WANTED_REMOVED : TN_WANTED_PAUSED)};
    say(w, "job %u is to be %s", job, remove ? "removed" : "paused");
    at(w, w->now_ns, I_OPERATOR, 0, 0, job);
}

static void weigh(struct world *w, unsigned job)
{
    struct tn_entry e = w->page[job / PAGE].entries[job % PAGE];

    e.weight = w->weights ? 1 + below(w, 5) : 1;
    if (w->labels)
        e.requirements = (uint16_t)below(w, KINDS);
    operate_page(w, job, &e, chance(w, 20));
}

static void partition(struct world *w, struct node *n)
{
    n->cut = true;
    say(w, "n%u is cut off", n->index);
    at(w, w->now_ns + span(w, TN_S / 2, 2 * n->timing.ttl_ns), I_HEAL, n->index, 0, 0);
}

void chaos_fault(struct world *w)
{
    struct node *n = &w->node[below(w, w->nodes)];
    unsigned job = below(w, w->jobs), id = below(w, w->nodes);

    if (w->calm)
        return;
    at(w, w->now_ns + span(w, TN_S / 5, 3 * TN_S), I_FAULT, 0, 0, 0);
    switch (below(w, 24)) {
    case 0:
    case 1:
    case 2:
        stall(w, n, false);
        break;
    case 3:
        if (w->wild)
            stall(w, n, true);
        break;
    case 4:
    case 5:
    case 6:
        crash(w, n);
        break;
    case 7:
    case 8:
        if (n->run == UP)
            node_leave(w, n);
        break;
    case 9:
    case 10:
    case 11:
        partition(w, n);
        break;
    case 12:
        restore_member(w, id, true);
        break;
    case 13:
        restore_member(w, id, chance(w, 50));
        break;
    case 14:
        restore_job(w, job);
        break;
    case 15:
        if (chance(w, 40))
            lose_job(w, job);
        break;
    case 16:
        restore_plan(w, chance(w, 30));
        break;
    case 17:
        edit_member(w, id, true, w->member[id].m.draining);
        break;
    case 18:
        edit_member(w, id, false, !w->member[id].m.draining);
        break;
    case 19:
        begin_pause(w, job, false);
        break;
    case 20:
        begin_pause(w, job, chance(w, 50));
        break;
    case 21:
        weigh(w, job);
        break;
    default: /* an edit that the owner adopts */
        edit_job(w, job, w->job[job].j.wanted);
        break;
    }
}

/* ---- The end ------------------------------------------------------------- */

static void repair(struct world *w)
{
    for (unsigned i = 0; i < IDS; i++) {
        struct member_reg *r = &w->member[i];

        if (r->s.present && r->m.mark == TN_MARK_EVICTED)
            admit(w, i);
        if (r->s.present && r->m.draining && r->m.state == TN_MEMBER_ALIVE)
            edit_member(w, i, false, false);
    }
}

/* Faults end: what is down comes up, what is lost is repaired; some pauses stay. */
void chaos_calm(struct world *w)
{
    struct tn_entry e = w->page[0].entries[0];
    int64_t w_ns = w->longest_ttl_ns * 10 / 9;

    w->calm = true;
    say(w, "no more faults");
    for (unsigned i = 0; i < w->nodes; i++) {
        w->node[i].cut = false;
        if (w->node[i].run == STALLED)
            at(w, w->now_ns, I_RESUME, i, w->node[i].life, 0);
    }
    for (unsigned j = 0; j < w->jobs; j++) {
        if (!w->job[j].s.present && w->job_past[j][0].s.present) {
            w->job[j] = w->job_past[j][0];
            w->acked[j] = w->job[j].value;
        }
        if (w->pauses[j].step != 0 && chance(w, 70)) {
            w->pauses[j].lifting = true;
            at(w, w->now_ns, I_OPERATOR, 0, 0, j);
        }
    }
    operate_page(w, 0, &e, false); /* pages whose operator died before the catalogue's turn */
    /* 8 s until the last request in flight has ended; evicted ones are buried, then admitted. */
    w->bound_ns = 3 * w_ns + 8 * w->longest_ttl_ns / 3 + 2 * w->longest_ttl_ns / 3 + TN_S;
    if (!w->member_lost)
        w->bound_ns -= w_ns;
    at(w, w->now_ns + TN_S, I_TAIL, 0, 0, 0);
}

static bool all_settled(const struct world *w)
{
    for (unsigned i = 0; i < IDS; i++) {
        const struct member_reg *r = &w->member[i];

        if (r->s.present && r->m.state == TN_MEMBER_ALIVE &&
            (!tn_member_settled(&r->m) || r->m.mark != TN_MARK_NONE || r->m.draining))
            return false;
    }
    return true;
}

static void begin_leave(struct world *w)
{
    unsigned i = below(w, w->nodes);

    check_fair(w);
    w->leave_only = true;
    w->leaver = i;
    if (w->node[i].run != UP || w->node[i].beat.phase != TN_BEAT_IN || w->nodes < 3 || w->twins ||
        w->standbys || w->labels || w->limits || w->lingers || w->weights || w->shares)
        return;
    for (unsigned j = 0; j < w->jobs; j++)
        w->leavers[j] = w->node[i].programs[j].runs;
    node_leave(w, &w->node[i]);
}

/* A tail of quiet: nothing moves; then a member leaves, and only its own jobs move. */
void chaos_tail(struct world *w)
{
    int64_t since_ns = w->now_ns - w->chaos_ns;
    int64_t settle_ns = 10 * TN_S + w->bound_ns + 25 * w->longest_ttl_ns;

    repair(w);
    if (since_ns > 10 * TN_S)
        check_running(w);
    w->settled_s = all_settled(w) ? w->settled_s + 1 : 0;
    if (since_ns > 400 * TN_S) {
        w->done = true; /* a member that flaps has not settled: J5 is not judged */
    } else if (w->leave_only) {
        w->quiet = false;
        if (w->now_ns > w->end_ns)
            w->done = true;
    } else if (w->quiet) {
        begin_leave(w);
        w->end_ns = w->now_ns + w->bound_ns + w->bound_ns / 2;
        at(w, w->now_ns + w->longest_ttl_ns / 2, I_TAIL, 0, 0, 0);
        return;
    } else if (since_ns > settle_ns && w->settled_s * TN_S > (uint64_t)(20 * w->longest_ttl_ns)) {
        w->quiet = true;
        say(w, "nothing moves from here");
        at(w, w->now_ns + 10 * TN_S, I_TAIL, 0, 0, 0);
        return;
    }
    at(w, w->now_ns + TN_S, I_TAIL, 0, 0, 0);
}
