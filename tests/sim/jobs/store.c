/* sim/jobs/store.c - the registers, and requests with their fate on the network. */
#include "world.h"

#include <stdio.h>
#include <string.h>

struct tenure_token token_of(const struct stamp *s)
{
    struct tenure_token t = {.version = ""};

    if (!s->present)
        return t;
    snprintf(t.version, sizeof t.version, "%llu", (unsigned long long)s->version);
    memcpy(t.nonce, s->nonce, sizeof t.nonce);
    return t;
}

unsigned id_index(const char *id)
{
    return (unsigned)(id[0] - 'a');
}

static bool expected(const struct stamp *s, const struct tenure_token *expect)
{
    struct tenure_token now = token_of(s);

    return tenure_token_equal(&now, expect);
}

/* Versions repeat after a restore; nonces do not. */
static void stamp(struct stamp *s, const uint8_t *nonce)
{
    memcpy(s->prev, s->nonce, sizeof s->prev);
    memcpy(s->nonce, nonce, sizeof s->nonce);
    s->version++;
    s->present = true;
}

bool swap_member(struct world *w, unsigned id, const struct tenure_token *expect,
                 const uint8_t *nonce, const struct tn_member *m)
{
    struct member_reg *r = &w->member[id];

    if (!expected(&r->s, expect))
        return false;
    memmove(&w->member_past[id][1], &w->member_past[id][0], (PAST - 1) * sizeof *r);
    w->member_past[id][0] = *r;
    stamp(&r->s, nonce);
    if (r->m.state != m->state || r->m.mark != m->mark ||
        !tn_identity_equal(&r->m.identity, &m->identity))
        say(w, "member %c: %s %s number %llu", 'a' + id,
            m->state == TN_MEMBER_ALIVE  ? "alive"
            : m->state == TN_MEMBER_DEAD ? "DEAD"
                                         : "left",
            m->mark == TN_MARK_NONE      ? ""
            : m->mark == TN_MARK_EVICTED ? "evicted"
                                         : "placeholder",
            (unsigned long long)m->identity.number);
    r->m = *m;
    if (m->state == TN_MEMBER_ALIVE || m->linger_ms > 0)
        w->alive_since_plan[id] = true;
    w->burials += m->state == TN_MEMBER_DEAD;
    return true;
}

bool swap_job(struct world *w, unsigned job, const struct tenure_token *expect,
              const uint8_t *nonce, const struct tn_job *j, uint64_t value)
{
    struct job_reg *r = &w->job[job], before = *r;

    if (!expected(&r->s, expect))
        return false;
    memmove(&w->job_past[job][1], &w->job_past[job][0], (PAST - 1) * sizeof *r);
    w->job_past[job][0] = *r;
    stamp(&r->s, nonce);
    r->j = *j;
    r->value = value;
    if (strcmp(before.j.owner.id, j->owner.id) != 0 || before.j.epoch != j->epoch)
        say(w, "job %u: owner %s number %llu epoch %llu", job,
            tn_job_owned(j) ? j->owner.id : "none", (unsigned long long)j->owner.identity.number,
            (unsigned long long)j->epoch);
    check_job(w, job, &before);
    return true;
}

static bool swap_plan(struct world *w, const struct msg *m)
{
    struct plan_reg before = w->plan;

    if (!expected(&w->plan.s, &m->expect))
        return false;
    memmove(&w->plan_past[1], &w->plan_past[0], (PAST - 1) * sizeof w->plan);
    w->plan_past[0] = w->plan;
    w->plan = m->plan;
    w->plan.s = before.s;
    stamp(&w->plan.s, m->nonce);
    w->plans++;
    if (w->verbose) {
        char text[JOBS + 1] = "";

        for (unsigned j = 0; j < w->jobs; j++)
            text[j] = w->plan.slots[j] == TN_SLOT_NONE ? '-' : w->plan.ids[w->plan.slots[j]][0];
        say(w, "plan %llu by n%u: %s%s", (unsigned long long)w->plan.p.seq, m->node, text,
            w->plan.p.cut ? " (cut)" : "");
    }
    check_plan(w, &before);
    return true;
}

/* ---- Requests ------------------------------------------------------------ */

struct msg *msg_new(struct world *w, const struct node *n, enum lane lane, enum what what)
{
    for (unsigned i = 0; i < MSGS; i++) {
        struct msg *m = &w->msg[i];

        if (m->used)
            continue;
        m->used = true;
        m->echo = false;
        m->lane = lane;
        m->what = what;
        m->node = n->index;
        m->life = n->life;
        m->n = 0;
        return m;
    }
    fail(w, "world", "no message is left");
    return &w->msg[0];
}

static int64_t delay(struct world *w)
{
    if (w->fast && !chance(w, w->calm ? 0 : 4))
        return span(w, TN_MS / 10, 2 * TN_MS);
    return chance(w, w->calm ? 0 : 4) ? span(w, 100 * TN_MS, 6 * TN_S)
                                      : span(w, TN_MS / 2, 40 * TN_MS);
}

void msg_send(struct world *w, struct msg *m)
{
    unsigned index = (unsigned)(m - w->msg);
    bool cut = w->node[m->node].cut && m->lane != OPERATOR;
    int64_t work_ns = w->calm ? 0 : m->n * w->job_ns;

    m->back_ns = chance(w, w->calm ? 0 : 3) ? -1 : delay(w);
    if (!cut && chance(w, w->calm ? 0 : 2)) {
        struct msg *copy = msg_new(w, &w->node[m->node], m->lane, m->what);
        unsigned at_index = (unsigned)(copy - w->msg);

        *copy = *m;
        copy->echo = true;
        at(w, w->now_ns + delay(w) + delay(w), I_ARRIVE, m->node, 0, at_index);
    }
    if (cut || chance(w, w->calm ? 0 : 3))
        m->used = false;
    else
        at(w, w->now_ns + delay(w) + work_ns, I_ARRIVE, m->node, 0, index);
}

static void read_jobs(const struct world *w, struct msg *m)
{
    for (unsigned i = 0; i < m->n; i++)
        m->reads[i] = w->job[m->jobs[i]];
}

/* A batch is not atomic: a part of it may get no answer, or all behind the job at which it was cut.
 */
static void swap_jobs(struct world *w, struct msg *m)
{
    unsigned cut = m->n;

    if (!w->calm && w->job_ns && chance(w, 5))
        cut = below(w, m->n + 1);
    for (unsigned i = 0; i < m->n; i++) {
        const struct tn_job_swap *s = &m->swaps[i];
        bool made = false;

        if (i >= cut || (!w->calm && chance(w, 2))) {
            m->statuses[i] = TENURE_UNKNOWN;
            if (chance(w, 50))
                continue;
            made = swap_job(w, s->job, &s->expect, s->nonce, &s->record, m->values[i]);
            continue;
        }
        made = swap_job(w, s->job, &s->expect, s->nonce, &s->record, m->values[i]);
        m->statuses[i] = made ? TENURE_OK : TENURE_CONFLICT;
        m->tokens[i] = token_of(&w->job[s->job].s);
    }
}

void msg_arrive(struct world *w, unsigned index)
{
    struct msg *m = &w->msg[index];

    m->status = TENURE_OK;
    switch (m->what) {
    case R_MEMBER:
        m->member = w->member[m->id];
        break;
    case W_MEMBER:
        if (!swap_member(w, m->id, &m->expect, m->nonce, &m->member.m))
            m->status = TENURE_CONFLICT;
        m->token = token_of(&w->member[m->id].s);
        break;
    case LIST:
        memcpy(m->members, w->member, sizeof m->members);
        break;
    case R_PLAN:
        m->plan = w->plan;
        break;
    case W_PLAN:
        if (!swap_plan(w, m))
            m->status = TENURE_CONFLICT;
        break;
    case R_CATALOGUE:
        m->catalogue = w->catalogue;
        memcpy(m->pages, w->page, sizeof m->pages);
        break;
    case R_JOBS:
        read_jobs(w, m);
        break;
    case W_JOBS:
        swap_jobs(w, m);
        break;
    }
    if (m->echo || m->back_ns < 0 || w->node[m->node].cut)
        m->used = false;
    else
        at(w, w->now_ns + m->back_ns, I_ANSWER, m->node, m->life, index);
}

void ring(struct world *w, const struct node *by)
{
    for (unsigned i = 0; i < w->nodes; i++)
        if ((by == NULL || i != by->index) && !w->node[i].cut && !chance(w, w->calm ? 0 : 10))
            at(w, w->now_ns + delay(w), I_BELL, i, w->node[i].life, 0);
}
