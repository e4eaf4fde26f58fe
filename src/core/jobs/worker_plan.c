/* core/jobs/worker_plan.c - the need of a plan, and its making. */
#include "core/jobs/worker_inner.h"

/* ---- The inputs ---------------------------------------------------------- */

static bool is_living(const struct tn_worker *w, uint32_t at)
{
    return w->cfg.peers[at].present && w->cfg.records[at].state == TN_MEMBER_ALIVE &&
           w->cfg.records[at].mark == TN_MARK_NONE;
}

/* It has left, and its jobs stay planned for it for a while. */
static bool is_lingering(const struct tn_worker *w, uint32_t at)
{
    return w->cfg.peers[at].present && w->cfg.records[at].state == TN_MEMBER_LEFT &&
           w->cfg.records[at].linger_ms > 0;
}

static uint64_t mix(uint64_t digest, const void *bytes, size_t n)
{
    const uint8_t *at = bytes;

    for (size_t i = 0; i < n; i++)
        digest = (digest ^ at[i]) * UINT64_C(0x100000001b3);
    return digest;
}

static uint64_t mix_number(uint64_t digest, uint64_t number)
{
    uint8_t bytes[8];

    for (unsigned i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(number >> (8 * i));
    return mix(digest, bytes, sizeof bytes);
}

static uint32_t unfit_count(const struct tn_member *r)
{
    return r->unfit_count < TN_MEMBER_ASKS_MAX ? r->unfit_count : TN_MEMBER_ASKS_MAX;
}

/* Facts of the store alone: no opinion, no clock. */
static uint64_t digest_inputs(const struct tn_worker *w)
{
    uint64_t digest = mix_number(UINT64_C(0xcbf29ce484222325), w->catalogue);

    for (uint32_t at = 0; at < w->peer_count; at++) {
        const struct tn_member *r = &w->cfg.records[at];

        if (!w->cfg.counts[at] && !is_lingering(w, at))
            continue;
        digest = mix(digest, w->cfg.peers[at].id, strlen(w->cfg.peers[at].id) + 1);
        digest = mix_number(digest, w->cfg.counts[at]);
        digest = mix_number(digest, (uint64_t)r->share << 32 | r->limit);
        digest = mix(digest, r->labels, strlen(r->labels) + 1);
        for (uint32_t i = 0; i < unfit_count(r); i++)
            digest = mix_number(digest, r->unfit[i]);
    }
    return digest;
}

/* ---- Labels -------------------------------------------------------------- */

static size_t label_length(const char *at)
{
    size_t n = 0;

    while (at[n] != '\0' && at[n] != ',')
        n++;
    return n;
}

static bool has_label(const char *labels, const char *label, size_t length)
{
    for (const char *at = labels; *at != '\0';) {
        size_t n = label_length(at);

        if (n == length && memcmp(at, label, n) == 0)
            return true;
        at += n + (at[n] == ',');
    }
    return false;
}

static bool has_labels(const char *labels, const char *wanted)
{
    for (const char *at = wanted; *at != '\0';) {
        size_t n = label_length(at);

        if (!has_label(labels, at, n))
            return false;
        at += n + (at[n] == ',');
    }
    return true;
}

/* ---- Classes ------------------------------------------------------------- */

struct making {
    const struct tn_worker *w;
    uint32_t member_count; /* those that count */
    uint32_t class_count;
    uint32_t kinds; /* the requirements of the catalogue: 0 .. kinds - 1 */
    uint32_t alone; /* classes of one job, that somebody is unfit for */
    struct tn_plan_member *members;
    uint16_t *peers;   /* of each member that counts: its place in the table */
    uint16_t *place;   /* of each peer: its slot in the plan, or NONE */
    uint16_t *classes; /* of each kind of requirements: its class, or NONE */
    uint8_t *fit;
    struct tn_plan_job *jobs;
    uint16_t *slots;
    char (*ids)[TN_MEMBER_ID_MAX + 1];
    void *scratch;
};

static struct tn_plan_input largest(const struct tn_worker_config *c)
{
    return (struct tn_plan_input){
        .member_count = c->members_max, .job_count = c->jobs_max, .class_count = c->class_max};
}

size_t tn_worker_scratch_size(const struct tn_worker_config *c)
{
    struct tn_plan_input in = largest(c);

    return rounded(c->members_max * sizeof(struct tn_plan_member)) +
           2 * rounded(c->members_max * sizeof(uint16_t)) +
           rounded(c->class_max * sizeof(uint16_t)) +
           rounded((size_t)c->class_max * c->members_max) +
           rounded(c->jobs_max * sizeof(struct tn_plan_job)) +
           rounded(c->jobs_max * sizeof(uint16_t)) +
           rounded((size_t)c->members_max * (TN_MEMBER_ID_MAX + 1)) + tn_plan_scratch_size(&in);
}

static void lay_out(struct making *m, const struct tn_worker_config *c)
{
    unsigned char *at = c->scratch;

    m->members = carve(&at, c->members_max * sizeof *m->members);
    m->peers = carve(&at, c->members_max * sizeof *m->peers);
    m->place = carve(&at, c->members_max * sizeof *m->place);
    m->classes = carve(&at, c->class_max * sizeof *m->classes);
    m->fit = carve(&at, (size_t)c->class_max * c->members_max);
    m->jobs = carve(&at, c->jobs_max * sizeof *m->jobs);
    m->slots = carve(&at, c->jobs_max * sizeof *m->slots);
    m->ids = carve(&at, (size_t)c->members_max * (TN_MEMBER_ID_MAX + 1));
    m->scratch = at;
}

static bool is_unfit(const struct tn_member *r, uint32_t job)
{
    for (uint32_t i = 0; i < unfit_count(r); i++)
        if (r->unfit[i] == job)
            return true;
    return false;
}

/* Before slots are filled they say which jobs some member is unfit for: 1. */
static void mark_unfit(struct making *m)
{
    memset(m->slots, 0, m->w->job_count * sizeof *m->slots);
    for (uint32_t i = 0; i < m->member_count; i++) {
        const struct tn_member *r = &m->w->cfg.records[m->peers[i]];

        for (uint32_t k = 0; k < unfit_count(r); k++)
            if (r->unfit[k] < m->w->job_count)
                m->slots[r->unfit[k]] = 1;
    }
}

/* Every kind has its class, whatever room the jobs alone take. */
static void count_kinds(struct making *m)
{
    for (uint32_t j = 0; j < m->w->job_count; j++)
        if (m->w->cfg.known[j].requirements >= m->kinds)
            m->kinds = m->w->cfg.known[j].requirements + 1u;
    assert(m->kinds <= m->w->cfg.class_max);
    for (uint32_t k = 0; k < m->kinds; k++)
        m->classes[k] = TN_SLOT_NONE;
}

static enum tn_fit fit_of(const struct making *m, uint32_t member, uint16_t requirements)
{
    const struct tn_requirements *q = &m->w->cfg.requirements[requirements];
    uint32_t at = m->peers[member];
    const char *labels = m->w->cfg.records[at].labels;

    if (q->pin[0] != '\0' && strcmp(q->pin, m->w->cfg.peers[at].id) != 0)
        return TN_FIT_NO;
    if (!has_labels(labels, q->must))
        return TN_FIT_NO;
    return q->prefer[0] != '\0' && has_labels(labels, q->prefer) ? TN_FIT_PREFERRED : TN_FIT_YES;
}

/* A class: who is fit for these requirements; of a job alone, but for those who are unfit. */
static uint16_t add_class(struct making *m, uint16_t requirements, uint32_t job, bool alone)
{
    uint32_t c = m->class_count++;

    for (uint32_t i = 0; i < m->member_count; i++) {
        enum tn_fit fit = fit_of(m, i, requirements);

        if (alone && is_unfit(&m->w->cfg.records[m->peers[i]], job))
            fit = TN_FIT_NO;
        m->fit[(size_t)c * m->member_count + i] = (uint8_t)fit;
    }
    return (uint16_t)c;
}

/* Jobs of the same requirements are one class; a job that somebody is unfit for is one alone. */
static uint16_t class_of(struct making *m, uint32_t job)
{
    uint16_t requirements = m->w->cfg.known[job].requirements;

    if (m->slots[job] != 0 && m->kinds + m->alone < m->w->cfg.class_max) {
        m->alone++;
        return add_class(m, requirements, job, true);
    }
    if (m->classes[requirements] == TN_SLOT_NONE)
        m->classes[requirements] = add_class(m, requirements, job, false);
    return m->classes[requirements];
}

/* ---- The making ---------------------------------------------------------- */

static uint32_t list_members(struct making *m)
{
    const struct tn_worker *w = m->w;
    uint32_t n = 0;

    for (uint32_t at = 0; at < w->peer_count; at++) {
        m->place[at] = TN_SLOT_NONE;
        if (!w->cfg.counts[at])
            continue;
        m->members[n].share = w->cfg.records[at].share ? w->cfg.records[at].share : 1;
        m->members[n].limit = w->cfg.records[at].limit;
        m->peers[n] = (uint16_t)at;
        m->place[at] = (uint16_t)n;
        memcpy(m->ids[n++], w->cfg.peers[at].id, sizeof m->ids[0]);
    }
    m->member_count = n;
    /* Those who linger have slots of the plan, but get nothing new. */
    for (uint32_t at = 0; at < w->peer_count; at++) {
        if (w->cfg.counts[at] || !is_lingering(w, at))
            continue;
        m->place[at] = (uint16_t)n;
        memcpy(m->ids[n++], w->cfg.peers[at].id, sizeof m->ids[0]);
    }
    return n;
}

/* Every job as the plan that was read has it: no worker plans from a history of its own. */
static void list_jobs(struct making *m)
{
    for (uint32_t j = 0; j < m->w->job_count; j++) {
        const struct tn_known *k = &m->w->cfg.known[j];
        uint16_t slot = k->slot == TN_SLOT_NONE ? TN_SLOT_NONE : m->place[k->slot];
        bool runs = k->listed && k->wanted == TN_WANTED_RUNNING;
        bool lingers = slot != TN_SLOT_NONE && slot >= m->member_count;

        m->jobs[j].weight = runs && !lingers ? k->weight : 0;
        m->jobs[j].slot = lingers ? TN_SLOT_NONE : slot;
        m->jobs[j].class = class_of(m, j);
    }
}

static void keep_lingering(struct making *m)
{
    for (uint32_t j = 0; j < m->w->job_count; j++) {
        const struct tn_known *k = &m->w->cfg.known[j];
        uint16_t slot = k->slot == TN_SLOT_NONE ? TN_SLOT_NONE : m->place[k->slot];

        if (slot != TN_SLOT_NONE && slot >= m->member_count)
            m->slots[j] = slot;
    }
}

static bool all_applied(const struct tn_worker *w)
{
    for (uint32_t at = 0; at < w->peer_count; at++)
        if (w->cfg.counts[at] && w->cfg.records[at].applied != w->plan_seq)
            return false;
    return true;
}

static void make_plan(struct tn_worker *w, uint64_t digest, struct tn_work_actions *out)
{
    struct making m = {.w = w};
    struct tn_plan_input in;
    struct tn_plan_result result;
    uint32_t ids;

    lay_out(&m, &w->cfg);
    ids = list_members(&m);
    mark_unfit(&m);
    count_kinds(&m);
    list_jobs(&m);
    in = (struct tn_plan_input){.members = m.members,
                                .jobs = m.jobs,
                                .fit = m.fit,
                                .member_count = m.member_count,
                                .job_count = w->job_count,
                                .class_count = m.class_count,
                                /* Orphans are placed at once; what only rebalances waits. */
                                .moves_max = all_applied(w) ? tn_plan_tenth(w->job_count) : 0};
    tn_plan_assign(&in, m.scratch, m.slots, &result);
    if (m.member_count == 0)
        memset(m.slots, 0xff, w->job_count * sizeof *m.slots);
    keep_lingering(&m);
    out->plan = (struct tn_plan_record){
        .seq = w->plan_seq + 1,
        .catalogue = w->catalogue,
        .digest = digest,
        /* Where labels or limits keep it from getting fairer, it is as fair as it gets. */
        .cut = result.cut && (result.moved > 0 || in.moves_max == 0),
        .member_count = ids,
        .job_count = w->job_count,
        .members = (const char(*)[TN_MEMBER_ID_MAX + 1]) m.ids,
        .slots = m.slots,
    };
}

/* ---- The need ------------------------------------------------------------ */

static uint32_t rank(const struct tn_worker *w)
{
    uint32_t rank = 0;

    for (uint32_t at = 0; at < w->peer_count && strcmp(w->cfg.peers[at].id, w->cfg.id) < 0; at++)
        rank += is_living(w, at);
    return rank;
}

/* Rank k of the living waits k steps: no planner is elected, and none is waited for. */
static bool is_our_turn(struct tn_worker *w)
{
    int64_t at_ns;

    if (!w->needed)
        w->need_ns = w->now_ns;
    w->needed = true;
    at_ns = w->need_ns + (int64_t)rank(w) * (w->cfg.timing.poll_ns / 4);
    if (w->now_ns >= at_ns)
        return true;
    if (w->round_at_ns > at_ns)
        w->round_at_ns = at_ns;
    return false;
}

bool tn_plan_ask(struct tn_worker *w, const struct tn_work_event *ev, struct tn_work_actions *out)
{
    uint64_t digest;
    bool same;

    if (!w->planned || w->plan_tried)
        return false;
    tn_members_count(w->cfg.records, w->peer_count, w->active, w->cfg.counts);
    digest = digest_inputs(w);
    same = digest == w->plan_digest && w->plan_seq > 0;
    /* A plan that was cut is a need itself, once everybody has applied it. */
    if (same && !(w->plan_cut && all_applied(w))) {
        w->needed = false;
        return false;
    }
    if (!is_our_turn(w))
        return false;
    w->plan_tried = true;
    make_plan(w, digest, out);
    out->request = TN_WORK_SWAP_PLAN;
    out->expect = w->plan_token;
    memcpy(out->nonce, ev->entropy, TENURE_NONCE_SIZE);
    out->request_by_ns = w->now_ns + w->cfg.timing.request_ns;
    return true;
}
