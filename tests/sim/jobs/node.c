/* sim/jobs/node.c - a worker's two lanes, its guard, and its programs. */
#include "world.h"

#include <stdio.h>
#include <string.h>

static void step_beat(struct world *w, struct node *n, struct tn_beat_event *ev);
static void step_work(struct world *w, struct node *n, struct tn_work_event *ev);

bool programs_left(const struct node *n)
{
    for (unsigned j = 0; j < JOBS; j++)
        if (n->programs[j].runs)
            return true;
    return false;
}

static void beat_event(struct world *w, struct node *n, enum tn_beat_kind kind)
{
    struct tn_beat_event ev = {.kind = kind};

    step_beat(w, n, &ev);
}

static void work_event(struct world *w, struct node *n, enum tn_work_kind kind, uint32_t job)
{
    struct tn_work_event ev = {.kind = kind, .job = job, .jobs = &job, .n = kind == TN_WORK_COMMIT};

    step_work(w, n, &ev);
}

/* ---- Programs ------------------------------------------------------------ */

static void end_at(struct world *w, struct node *n, unsigned job, int64_t ns)
{
    at(w, ns, I_DEATH, n->index, n->programs[job].gen, job);
}

static void stop_program(struct world *w, struct node *n, unsigned job, int64_t by_local_ns)
{
    int64_t by_ns = true_of(n, by_local_ns);

    n->programs[job].stopping = true;
    if (chance(w, 30)) /* it ignores TERM, and is dead K after KILL */
        end_at(w, n, job, true_of(n, by_local_ns + n->timing.kill_ns));
    else
        end_at(w, n, job, by_ns > w->now_ns ? span(w, w->now_ns, by_ns) : w->now_ns);
}

/* Its claim, or its membership, may be what a restore has undone: beyond J1. */
static bool is_strange(const struct world *w, const struct node *n, unsigned job)
{
    int64_t since_ns = w->restored_ns[job] > w->member_restored_ns[n->id]
                           ? w->restored_ns[job]
                           : w->member_restored_ns[n->id];

    if (w->lost[n->id].number != 0 && tn_identity_equal(&n->beat.identity, &w->lost[n->id]))
        return true;
    return since_ns > 0 && w->now_ns - since_ns < 10 * TN_S;
}

static void start_program(struct world *w, struct node *n, const struct tn_start *s)
{
    struct program *p = &n->programs[s->job];

    if (n->fired || n->guard_ns <= local_of(w, n)) {
        at(w, w->now_ns + TN_MS, I_DEATH, n->index, p->gen, s->job); /* refused by the guard */
        return;
    }
    *p = (struct program){.runs = true,
                          .epoch = s->epoch,
                          .value = n->seen_value[s->job],
                          .gen = p->gen + 1,
                          .strange = is_strange(w, n, s->job),
                          .started_ns = w->now_ns};
    w->starts++;
    say(w, "n%u STARTS job %u, epoch %llu, value %llu", n->index, s->job,
        (unsigned long long)s->epoch, (unsigned long long)p->value);
    check_start(w, n->index, s->job);
    at(w, w->now_ns + span(w, 50 * TN_MS, 2 * TN_S), I_COMMIT, n->index, p->gen, s->job);
}

static void reaped(struct world *w, struct node *n)
{
    if (!n->reaping || programs_left(n) || n->run != UP)
        return;
    n->reaping = false;
    beat_event(w, n, TN_BEAT_EV_REAPED);
}

static void program_dies(struct world *w, struct node *n, unsigned job)
{
    struct program *p = &n->programs[job];

    p->runs = false;
    p->gen++;
    say(w, "n%u: job %u is dead", n->index, job);
    if (n->run != UP)
        return; /* told when it wakes up */
    work_event(w, n, TN_WORK_STOPPED, job);
    reaped(w, n);
}

/* ---- The guard ----------------------------------------------------------- */

static void publish(struct world *w, struct node *n, int64_t deadline_ns)
{
    if (deadline_ns == n->guard_ns)
        return;
    n->guard_ns = deadline_ns;
    n->fired = false;
    if (deadline_ns > 0)
        at(w, true_of(n, deadline_ns), I_GUARD, n->index, ++n->guard_gen, 0);
}

/* D: everything is dead K later, by the local clock. */
static void guard_fires(struct world *w, struct node *n)
{
    int64_t by_ns = true_of(n, n->guard_ns + n->timing.kill_ns);

    n->fired = true;
    for (unsigned j = 0; j < w->jobs; j++)
        if (n->programs[j].runs)
            end_at(w, n, j, chance(w, 50) ? by_ns : span(w, w->now_ns, by_ns));
    if (n->run == UP)
        beat_event(w, n, TN_BEAT_EV_FIRED);
}

/* Its tenure is dead; when the programs are, the releaser swaps the member record to left. */
static void release_member(struct world *w, struct node *n)
{
    struct member_reg *r = &w->member[n->id];
    struct tn_member left = r->m;
    struct tenure_token token = token_of(&r->s);
    uint64_t nonce[2];

    if (programs_left(n)) {
        at(w, w->now_ns + 10 * TN_MS, I_RELEASER, n->index, n->life, 0);
        return;
    }
    fresh(w, nonce);
    if (!r->s.present || left.state != TN_MEMBER_ALIVE || left.mark != TN_MARK_NONE ||
        !tn_identity_equal(&left.identity, &n->identity))
        return;
    left.state = TN_MEMBER_LEFT;
    left.linger_ms = 0;
    swap_member(w, n->id, &token, (const uint8_t *)nonce, &left);
    ring(w, n);
}

/* ---- The heartbeat's lane ------------------------------------------------ */

static void send_beat(struct world *w, struct node *n, const struct tn_beat_actions *out)
{
    bool swap = (out->set & TN_BEAT_SWAP) != 0;
    struct msg *m = msg_new(w, n, BEAT, swap ? W_MEMBER : R_MEMBER);

    m->id = n->id;
    m->no = n->beat_no = ++n->no;
    n->beat_out = true;
    if (swap) {
        m->expect = out->expect;
        m->member.m = out->record;
        memcpy(m->nonce, out->nonce, sizeof m->nonce);
    }
    at(w, true_of(n, out->request_by_ns), I_GIVE_UP, n->index, n->life, m->no);
    msg_send(w, m);
}

static void step_beat(struct world *w, struct node *n, struct tn_beat_event *ev)
{
    static struct tn_beat_actions out;
    enum tn_beat_phase before = n->beat.phase;

    ev->now_ns = local_of(w, n);
    ev->wall_ms = wall_ms(w);
    fresh(w, ev->entropy);
    n->beat.profile.applied = n->worker.profile.applied;
    n->beat.profile.ask_count = n->worker.profile.ask_count;
    memcpy(n->beat.profile.asks, n->worker.profile.asks, sizeof n->worker.profile.asks);
    tn_heartbeat_step(&n->beat, ev, &out);
    n->identity = n->beat.identity;
    publish(w, n, out.deadline_ns);
    if (out.set & TN_BEAT_STOP) {
        say(w, "n%u stops everything (%s)", n->index,
            n->beat.phase == TN_BEAT_DRAINING ? "leaves" : "lost");
        if (n->beat.phase == TN_BEAT_LOST)
            check_needless(w, n, "its membership");
        n->reaping = true;
        for (unsigned j = 0; j < w->jobs; j++)
            if (n->programs[j].runs)
                stop_program(w, n, j, out.stop_by_ns);
    }
    if (out.set & (TN_BEAT_READ | TN_BEAT_SWAP))
        send_beat(w, n, &out);
    if (out.set & TN_BEAT_HALT) {
        say(w, "n%u has left", n->index);
        n->run = DOWN;
        n->life++;
        at(w, w->now_ns + span(w, TN_S / 10, 8 * TN_S) + (w->quiet ? 60 * TN_S : 0), I_BOOT,
           n->index, n->life, 0);
        ring(w, n);
        return;
    }
    at(w, true_of(n, out.wake_ns), I_BEAT_TIMER, n->index, ++n->beat_timer, 0);
    if (before != n->beat.phase)
        work_event(w, n, TN_WORK_TIMER, 0);
    if (before != TN_BEAT_IN && n->beat.phase == TN_BEAT_IN)
        ring(w, n);
    reaped(w, n);
}

/* ---- The work's lane ----------------------------------------------------- */

static void draft_swaps(struct node *n, struct msg *m, const struct tn_work_actions *out)
{
    for (unsigned i = 0; i < out->n; i++) {
        uint32_t job = out->swaps[i].job;

        m->swaps[i] = out->swaps[i];
        m->values[i] = n->seen_value[job];
        if (out->swaps[i].purpose == TN_SWAP_COMMIT)
            m->values[i] = n->programs[job].value;
        n->draft_value[job] = m->values[i];
    }
}

static void send_work(struct world *w, struct node *n, const struct tn_work_actions *out)
{
    static const enum what whats[] = {[TN_WORK_READ_PLAN] = R_PLAN,
                                      [TN_WORK_LIST_MEMBERS] = LIST,
                                      [TN_WORK_READ_CATALOGUE] = R_CATALOGUE,
                                      [TN_WORK_SWAP_MEMBER] = W_MEMBER,
                                      [TN_WORK_SWAP_PLAN] = W_PLAN,
                                      [TN_WORK_READ_JOBS] = R_JOBS,
                                      [TN_WORK_SWAP_JOBS] = W_JOBS};
    struct msg *m = msg_new(w, n, WORK, whats[out->request]);

    m->no = n->work_no = ++n->no;
    n->work_out = true;
    n->asked = out->request;
    m->expect = out->expect;
    memcpy(m->nonce, out->nonce, sizeof m->nonce);
    m->n = out->n;
    if (out->request == TN_WORK_SWAP_MEMBER) {
        m->id = id_index(out->member_id);
        m->member.m = out->member;
    } else if (out->request == TN_WORK_SWAP_PLAN) {
        m->plan.p = out->plan;
        memcpy(m->plan.ids, out->plan.members, out->plan.member_count * sizeof m->plan.ids[0]);
        memcpy(m->plan.slots, out->plan.slots, out->plan.job_count * sizeof m->plan.slots[0]);
    } else if (out->request == TN_WORK_READ_JOBS) {
        memcpy(m->jobs, out->jobs, out->n * sizeof m->jobs[0]);
    } else if (out->request == TN_WORK_SWAP_JOBS) {
        draft_swaps(n, m, out);
    }
    at(w, true_of(n, out->request_by_ns), I_GIVE_UP, n->index, n->life, m->no);
    msg_send(w, m);
}

static void step_work(struct world *w, struct node *n, struct tn_work_event *ev)
{
    static struct tn_work_actions actions;
    struct tn_work_actions *out = &actions;

    ev->now_ns = local_of(w, n);
    ev->wall_ms = wall_ms(w);
    fresh(w, ev->entropy);
    ev->in = tn_heartbeat_holds(&n->beat, ev->now_ns);
    ev->leaving = n->beat.phase == TN_BEAT_DRAINING;
    ev->deadline_ns = n->beat.deadline_ns;
    ev->identity = n->beat.identity;
    tn_worker_step(&n->worker, ev, out);
    for (unsigned i = 0; i < out->stop_count; i++) {
        if (!n->programs[out->stops[i]].runs)
            continue;
        say(w, "n%u stops job %u%s", n->index, out->stops[i], out->fenced[i] ? " (fenced)" : "");
        check_stop(w, n->index, out->stops[i], out->fenced[i], out->stop_by_ns[i]);
        stop_program(w, n, out->stops[i], out->stop_by_ns[i]);
    }
    for (unsigned i = 0; i < out->committed_count; i++) {
        struct program *p = &n->programs[out->committed[i]];

        n->seen_value[out->committed[i]] = p->value;
        if (!p->runs)
            continue;
        if (!p->strange)
            check_ack(w, out->committed[i], p->value);
        p->committing = false;
        at(w, w->now_ns + span(w, 50 * TN_MS, w->calm ? 40 * TN_S : 2 * TN_S), I_COMMIT, n->index,
           p->gen, out->committed[i]);
    }
    for (unsigned i = 0; i < out->start_count; i++)
        start_program(w, n, &out->starts[i]);
    if (out->ring)
        ring(w, n);
    if (out->request != TN_WORK_NOTHING)
        send_work(w, n, out);
    at(w, true_of(n, out->wake_ns), I_WORK_TIMER, n->index, ++n->work_timer, 0);
}

/* ---- Answers ------------------------------------------------------------- */

static void answer_beat(struct world *w, struct node *n, const struct msg *m)
{
    struct tn_beat_event ev = {.kind = m->what == R_MEMBER ? TN_BEAT_EV_READ : TN_BEAT_EV_SWAPPED,
                               .status = m->status,
                               .token = m->token};

    if (m->what == R_MEMBER) {
        ev.token = token_of(&m->member.s);
        ev.record = m->member.s.present ? &m->member.m : NULL;
    }
    n->beat_out = false;
    step_beat(w, n, &ev);
}

static unsigned list_members(const struct msg *m, struct tn_listed *listed, char ids[][2])
{
    unsigned count = 0;

    for (unsigned i = 0; i < IDS; i++) {
        if (!m->members[i].s.present)
            continue;
        ids[i][0] = (char)('a' + i);
        ids[i][1] = '\0';
        listed[count++] = (struct tn_listed){ids[i], token_of(&m->members[i].s), &m->members[i].m};
    }
    return count;
}

/* Only pages whose revision has changed by the catalogue are read. */
static unsigned list_entries(struct node *n, const struct msg *m, struct tn_entry *entries)
{
    unsigned count = 0;

    for (unsigned p = 0; p < PAGES; p++) {
        if (n->page_seen[p] == m->catalogue.page_revision[p])
            continue;
        n->page_seen[p] = m->catalogue.page_revision[p];
        for (unsigned i = 0; i < PAGE; i++)
            entries[count++] = m->pages[p].entries[i];
    }
    return count;
}

static void answer_jobs(struct world *w, struct node *n, const struct msg *m,
                        struct tn_work_event *ev, struct tn_read *reads)
{
    ev->kind = TN_WORK_READ;
    ev->reads = reads;
    ev->n = m->n;
    for (unsigned i = 0; i < m->n; i++) {
        const struct job_reg *r = &m->reads[i];

        reads[i] = (struct tn_read){
            .job = m->jobs[i], .status = TENURE_OK, .token = token_of(&r->s), .record = r->j};
        memcpy(reads[i].prev, r->s.prev, sizeof reads[i].prev);
        n->seen_value[m->jobs[i]] = r->value;
    }
    step_work(w, n, ev);
}

static void answer_work(struct world *w, struct node *n, const struct msg *m)
{
    struct tn_work_event ev = {.status = m->status, .token = m->token};
    struct tn_listed listed[IDS];
    struct tn_entry entries[JOBS];
    struct tn_read reads[JOBS];
    char ids[IDS][2];
    struct plan_reg plan;

    n->work_out = false;
    switch (m->what) {
    case R_PLAN:
        ev.kind = TN_WORK_PLAN;
        plan = m->plan;
        plan.p.members = (const char(*)[TN_MEMBER_ID_MAX + 1]) plan.ids;
        plan.p.slots = plan.slots;
        ev.token = token_of(&plan.s);
        ev.plan = plan.s.present ? &plan.p : NULL;
        break;
    case LIST:
        ev.kind = TN_WORK_MEMBERS;
        ev.listed = listed;
        ev.n = list_members(m, listed, ids);
        break;
    case R_CATALOGUE:
        ev.kind = TN_WORK_CATALOGUE;
        ev.revision = m->catalogue.revision;
        ev.active = m->catalogue.active;
        ev.job_count = w->jobs;
        ev.entries = entries;
        ev.n = list_entries(n, m, entries);
        break;
    case W_MEMBER:
        ev.kind = TN_WORK_MEMBER_SWAPPED;
        break;
    case W_PLAN:
        ev.kind = TN_WORK_PLAN_SWAPPED;
        break;
    case R_JOBS:
        answer_jobs(w, n, m, &ev, reads);
        return;
    default:
        ev.kind = TN_WORK_SWAPPED;
        ev.statuses = m->statuses;
        ev.tokens = m->tokens;
        for (unsigned i = 0; i < m->n; i++)
            if (m->statuses[i] == TENURE_OK)
                n->seen_value[m->swaps[i].job] = n->draft_value[m->swaps[i].job];
        break;
    }
    step_work(w, n, &ev);
}

void node_answer(struct world *w, struct msg *m)
{
    struct node *n = &w->node[m->node];

    if (n->life == m->life && m->lane == BEAT && n->beat_out && n->beat_no == m->no)
        answer_beat(w, n, m);
    else if (n->life == m->life && m->lane == WORK && n->work_out && n->work_no == m->no)
        answer_work(w, n, m);
    m->used = false;
}

static void give_up(struct world *w, struct node *n, uint32_t no)
{
    enum tenure_status statuses[JOBS];
    struct tenure_token tokens[JOBS];

    if (n->beat_out && n->beat_no == no) {
        struct tn_beat_event ev = {.kind = n->beat.reading ? TN_BEAT_EV_READ : TN_BEAT_EV_SWAPPED,
                                   .status = TENURE_UNKNOWN};

        n->beat_out = false;
        step_beat(w, n, &ev);
    } else if (n->work_out && n->work_no == no) {
        static const enum tn_work_kind kinds[] = {[TN_WORK_READ_PLAN] = TN_WORK_PLAN,
                                                  [TN_WORK_LIST_MEMBERS] = TN_WORK_MEMBERS,
                                                  [TN_WORK_READ_CATALOGUE] = TN_WORK_CATALOGUE,
                                                  [TN_WORK_SWAP_MEMBER] = TN_WORK_MEMBER_SWAPPED,
                                                  [TN_WORK_SWAP_PLAN] = TN_WORK_PLAN_SWAPPED,
                                                  [TN_WORK_READ_JOBS] = TN_WORK_READ,
                                                  [TN_WORK_SWAP_JOBS] = TN_WORK_SWAPPED};
        struct tn_work_event ev = {.kind = kinds[n->asked], .status = TENURE_UNKNOWN};
        struct tn_read reads[JOBS];

        for (unsigned j = 0; j < JOBS; j++) {
            statuses[j] = TENURE_UNKNOWN;
            reads[j] = (struct tn_read){.job = j, .status = TENURE_UNAVAILABLE};
        }
        ev.statuses = statuses;
        ev.tokens = tokens;
        ev.reads = reads;
        ev.n = ev.kind == TN_WORK_READ ? w->jobs : 0;
        n->work_out = false;
        step_work(w, n, &ev);
    }
}

/* ---- Life ---------------------------------------------------------------- */

void node_boot(struct world *w, struct node *n)
{
    struct tn_worker_config c = {.timing = n->timing,
                                 .ttl_ms = n->ttl_ms,
                                 .members_max = IDS,
                                 .jobs_max = JOBS,
                                 .held_max = JOBS,
                                 .class_max = CLASSES,
                                 .requirements = w->kinds,
                                 .peers = n->peers,
                                 .records = n->records,
                                 .counts = n->counts,
                                 .known = n->known,
                                 .held = n->held,
                                 .versions = n->versions[0],
                                 .version_size = sizeof n->versions[0],
                                 .scratch = n->scratch,
                                 .batch_max = w->batch_max,
                                 .batch_min = w->batch_min,
                                 .drain_ns = DRAIN_NS,
                                 .batch = n->batch};
    struct tn_member profile = n->beat.profile;

    if (tn_worker_scratch_size(&c) > sizeof n->scratch)
        fail(w, "world", "scratch of %zu bytes", tn_worker_scratch_size(&c));
    if (tn_worker_batch_size(c.batch_max) > sizeof n->batch)
        fail(w, "world", "a batch of %zu bytes", tn_worker_batch_size(c.batch_max));
    c.id[0] = (char)('a' + n->id);
    n->run = UP;
    n->frozen = false;
    n->beat_out = n->work_out = n->reaping = false;
    n->guard_ns = 0;
    memset(n->page_seen, 0, sizeof n->page_seen);
    profile.ask_count = 0;
    profile.applied = 0;
    tn_heartbeat_init(&n->beat, &n->timing, &profile, DRAIN_NS);
    tn_worker_init(&n->worker, &c);
    say(w, "n%u (%c) boots", n->index, 'a' + n->id);
    beat_event(w, n, TN_BEAT_EV_TIMER);
    work_event(w, n, TN_WORK_TIMER, 0);
}

/* Its memory is gone.  Under a guard its programs are ended, and then its record is released. */
void node_crash(struct world *w, struct node *n, bool guarded)
{
    int64_t by_ns = w->now_ns + n->timing.kill_ns * 9 / 10;

    say(w, "n%u crashes%s", n->index, guarded ? " under its guard" : "");
    n->run = DOWN;
    n->life++;
    n->guard_gen++;
    for (unsigned j = 0; j < w->jobs; j++)
        if (n->programs[j].runs)
            end_at(w, n, j, guarded ? span(w, w->now_ns, by_ns) : w->now_ns);
    if (guarded)
        at(w, w->now_ns + 10 * TN_MS, I_RELEASER, n->index, n->life, 0);
}

void node_leave(struct world *w, struct node *n)
{
    say(w, "n%u is asked to leave", n->index);
    beat_event(w, n, TN_BEAT_EV_LEAVE);
}

void node_resume(struct world *w, struct node *n)
{
    n->run = UP;
    if (n->frozen && n->guard_ns > 0 && local_of(w, n) >= n->guard_ns && !n->fired)
        guard_fires(w, n);
    n->frozen = false;
    say(w, "n%u goes on", n->index);
    beat_event(w, n, TN_BEAT_EV_TIMER);
    for (unsigned j = 0; j < w->jobs && n->run == UP; j++)
        if (!n->programs[j].runs)
            work_event(w, n, TN_WORK_STOPPED, j);
    if (n->run == UP)
        reaped(w, n);
}

static void commit(struct world *w, struct node *n, unsigned job, uint32_t gen)
{
    struct program *p = &n->programs[job];

    if (!p->runs || p->gen != gen || p->committing)
        return;
    p->committing = true;
    p->value = (n->seen_value[job] > p->value ? n->seen_value[job] : p->value) + 1;
    work_event(w, n, TN_WORK_COMMIT, job);
}

/* What needs the worker's process waits until it can run. */
static bool deferred(struct world *w, const struct node *n, const struct item *it)
{
    if (n->run != STALLED || (it->kind == I_GUARD && !n->frozen) || it->kind == I_RESUME ||
        (it->kind == I_DEATH && !n->frozen))
        return false;
    at(w, n->resume_ns + 1, it->kind, it->node, it->gen, it->arg);
    return true;
}

void node_item(struct world *w, const struct item *it)
{
    struct node *n = &w->node[it->node];
    bool ours = n->run == UP && it->gen == n->life;

    if (deferred(w, n, it))
        return;
    switch (it->kind) {
    case I_BEAT_TIMER:
        if (n->run == UP && it->gen == n->beat_timer)
            beat_event(w, n, TN_BEAT_EV_TIMER);
        break;
    case I_WORK_TIMER:
        if (n->run == UP && it->gen == n->work_timer)
            work_event(w, n, TN_WORK_TIMER, 0);
        break;
    case I_ANSWER:
        if (ours)
            node_answer(w, &w->msg[it->arg]);
        w->msg[it->arg].used = false;
        break;
    case I_GIVE_UP:
        if (ours)
            give_up(w, n, it->arg);
        break;
    case I_BELL:
        if (ours)
            work_event(w, n, TN_WORK_BELL, 0);
        break;
    case I_GUARD:
        if (it->gen == n->guard_gen && n->run != DOWN && !n->fired)
            guard_fires(w, n);
        break;
    case I_DEATH:
        if (it->gen == n->programs[it->arg].gen)
            program_dies(w, n, it->arg);
        break;
    case I_COMMIT:
        if (n->run == UP)
            commit(w, n, it->arg, it->gen);
        break;
    case I_BOOT:
        if (n->run == DOWN && it->gen == n->life) {
            if (programs_left(n))
                at(w, w->now_ns + 50 * TN_MS, I_BOOT, it->node, it->gen, 0);
            else
                node_boot(w, n);
        }
        break;
    case I_RESUME:
        if (n->run == STALLED && it->gen == n->life)
            node_resume(w, n);
        break;
    case I_RELEASER:
        if (n->run == DOWN && it->gen == n->life)
            release_member(w, n);
        break;
    default:
        break;
    }
}
