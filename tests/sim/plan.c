#include "plan.h"

#include <assert.h>
#include <string.h>

#include "core/lease.h"
#include "prng.h"
#include "store.h"
#include "world.h"

static const struct {
    const char *word, *text;
    bool breaks;
} kinds[] = {
#define SIM_X(name, word, breaks, text) {word, text, breaks},
    SIM_OP_MAP(SIM_X)
#undef SIM_X
};

const char *sim_op_word(enum sim_op_kind kind)
{
    return kinds[kind].word;
}

const char *sim_op_text(enum sim_op_kind kind)
{
    return kinds[kind].text;
}

/* ---- Timings ------------------------------------------------------------- */

static void plan_timing(struct sim_plan *p, struct sim_rng *rng, struct tn_timing *out,
                        int64_t ttl_ns)
{
    struct tn_timing_wish wish = {.ttl_ns = ttl_ns, .rho_ppm = p->rho_ppm, .notifies = p->notifies};

    if (sim_rng_chance(rng, 30))
        wish.grace_ns = sim_rng_span(rng, 1, 4 * TN_S);
    if (sim_rng_chance(rng, 20))
        wish.renew_ns = ttl_ns / sim_rng_span(rng, 4, 8);
    if (sim_rng_chance(rng, 20))
        wish.kill_ns = ttl_ns / sim_rng_span(rng, 12, 40);
    if (sim_rng_chance(rng, 20))
        wish.request_ns = ttl_ns / sim_rng_span(rng, 10, 20);
    if (tn_timing_plan(&wish, out) == TN_TIMING_OK)
        return;
    wish =
        (struct tn_timing_wish){.ttl_ns = ttl_ns, .rho_ppm = p->rho_ppm, .notifies = p->notifies};
    enum tn_timing_fault fault = tn_timing_plan(&wish, out);
    assert(fault == TN_TIMING_OK);
}

static int64_t draw_ttl(struct sim_rng *rng)
{
    static const int64_t usual[] = {1, 2, 3, 5, 10, 15, 30};

    if (sim_rng_chance(rng, 20))
        return sim_rng_span(rng, TN_TTL_MIN_MS, 20000) * TN_MS;
    return usual[sim_rng_below(rng, sizeof usual / sizeof usual[0])] * TN_S;
}

static void plan_timings(struct sim_plan *p, struct sim_rng *rng)
{
    static const uint32_t rhos[] = {
        TN_RHO_DEFAULT_PPM, TN_RHO_DEFAULT_PPM, TN_RHO_DEFAULT_PPM, 50000, 10000, 150000};
    int64_t ttl = draw_ttl(rng);
    bool mixed = sim_rng_chance(rng, 30), same = sim_rng_chance(rng, 60);

    p->rho_ppm = rhos[sim_rng_below(rng, sizeof rhos / sizeof rhos[0])];
    for (unsigned i = 0; i < p->nodes; i++) {
        if (i > 0 && !mixed && same)
            p->timing[i] = p->timing[0];
        else
            plan_timing(p, rng, &p->timing[i], mixed && i > 0 ? draw_ttl(rng) : ttl);
    }
    plan_timing(p, rng, &p->other, draw_ttl(rng));
    for (unsigned i = 0; i < p->nodes; i++)
        p->kill_ns[i] =
            p->timing[i].kill_ns < p->other.kill_ns ? p->timing[i].kill_ns : p->other.kill_ns;
    p->drain_ns = sim_rng_span(rng, 0, 2 * ttl);
}

static int64_t shortest_request(const struct sim_plan *p)
{
    int64_t least = p->other.request_ns;

    for (unsigned i = 0; i < p->nodes; i++) {
        if (p->timing[i].request_ns < least)
            least = p->timing[i].request_ns;
    }
    return least;
}

static int64_t longest_ttl(const struct sim_plan *p)
{
    int64_t most = 0;

    for (unsigned i = 0; i < p->nodes; i++) {
        if (p->timing[i].ttl_ns > most)
            most = p->timing[i].ttl_ns;
    }
    return most;
}

/* ---- Clocks -------------------------------------------------------------- */

static void plan_clocks(struct sim_plan *p, struct sim_rng *rng)
{
    int32_t rho = (int32_t)p->rho_ppm * (p->wild ? 3 : 1);
    unsigned style = (unsigned)sim_rng_below(rng, 4);

    p->noisy = style == 3 && !p->wild;
    for (unsigned i = 0; i < p->nodes; i++) {
        p->ppm[i] = style == 0   ? 0
                    : style == 1 ? (sim_rng_chance(rng, 50) ? rho : -rho)
                                 : (int32_t)sim_rng_span(rng, -rho, rho);
        p->wall_off_ms[i] = sim_rng_chance(rng, 50) ? sim_rng_span(rng, -100000, 100000) : 0;
    }
    /* Sometimes nobody's wall clock is set: epochs are small numbers then. */
    p->wall_ms = sim_rng_chance(rng, 70) ? INT64_C(1700000000000) : 100000;
}

/* ---- Faults -------------------------------------------------------------- */

/* Each run has its own few kinds of trouble: a mixture of everything at once
 * hides what two of them do together. */
static void plan_odds(struct sim_plan *p, struct sim_rng *rng)
{
    struct sim_odds *o = &p->odds;
    uint16_t *each[] = {&o->lost, &o->deaf, &o->late, &o->twice, &o->slow, &o->cut, &o->refused};
    static const uint16_t rates[] = {0, 0, 300, 2000, 6000, 16000, 30000};

    o->any = rates[sim_rng_below(rng, sizeof rates / sizeof rates[0])];
    for (unsigned i = 0; i < sizeof each / sizeof each[0]; i++)
        *each[i] = sim_rng_chance(rng, 50) ? (uint16_t)sim_rng_below(rng, 1000) : 0;
    if (sim_rng_chance(rng, 40)) {
        o->notice_lost = (uint16_t)sim_rng_below(rng, 16000);
        o->notice_late = (uint16_t)sim_rng_below(rng, 8000);
        o->notice_twice = (uint16_t)sim_rng_below(rng, 8000);
    }
    if (sim_rng_chance(rng, 40))
        o->stall = (uint16_t)sim_rng_below(rng, 2000);
    if (!p->family->linear || p->family == &sim_family_slots)
        o->stale = (uint16_t)sim_rng_below(rng, 30000);
    if (sim_rng_chance(rng, 40))
        o->slow_start = (uint16_t)sim_rng_below(rng, 40000);
    if (sim_rng_chance(rng, 50))
        o->state_fault = (uint16_t)sim_rng_below(rng, 16000);
}

static bool possible(const struct sim_plan *p, enum sim_op_kind kind)
{
    if (kinds[kind].breaks && !p->loose)
        return false;
    switch (kind) {
    case SIM_OP_FAILOVER:
        return !p->family->keeps;
    case SIM_OP_UNLOCK:
    case SIM_OP_STRANGER:
        return p->family == &sim_family_advisory;
    case SIM_OP_DELETE:
    case SIM_OP_RESTORE:
        return p->family != &sim_family_slots;
    case SIM_OP_GUARD_DIES:
    case SIM_OP_PAUSE_ALL:
        return p->guarded;
    case SIM_OP_ROGUE:
        return p->commits && !p->files;
    case SIM_OP_FENCE:
        return p->commits;
    case SIM_OP_AMEND:
    case SIM_OP_STATE_BACK:
        return p->product;
    case SIM_OP_UNSEAL:
    case SIM_OP_REMOVE:
        return false; /* plan_seals(), plan_removals() */
    default:
        return true;
    }
}

static int64_t draw_span(struct sim_rng *rng, int64_t ttl)
{
    switch (sim_rng_below(rng, 4)) {
    case 0:
        return sim_rng_span(rng, 1, ttl / 10);
    case 1:
        return sim_rng_span(rng, 1, 3 * ttl);
    default:
        return sim_rng_span(rng, 1, ttl + ttl / 2);
    }
}

static void plan_ops(struct sim_plan *p, struct sim_rng *rng)
{
    enum sim_op_kind swarm[SIM_OP_KINDS];
    unsigned n = 0, most = (unsigned)sim_rng_below(rng, 25);
    int64_t ttl = longest_ttl(p);

    for (unsigned kind = 0; kind < SIM_OP_KINDS; kind++) {
        if (possible(p, kind) &&
            (sim_rng_chance(rng, 25) || kind == SIM_OP_FAILOVER || kind == SIM_OP_UNLOCK))
            swarm[n++] = kind;
    }
    for (unsigned i = 0; n > 0 && i < most; i++) {
        struct sim_op *op = &p->ops[p->n_ops++];

        op->kind = swarm[sim_rng_below(rng, n)];
        op->at_ns = sim_rng_span(rng, 0, p->hostile_ns - 1);
        op->node = (uint8_t)sim_rng_below(rng, p->nodes);
        op->span_ns = draw_span(rng, ttl);
        op->pick = sim_rng_next(rng);
    }
}

/* The product's state code: fewer commits and more that befalls each of them. */
static void plan_state(struct sim_plan *p)
{
    static const uint16_t rates[] = {0, 2000, 8000, 16000, 30000};
    struct sim_rng rng = sim_rng_keyed(p->seed, SIM_RND_PLAN, 4, 0);
    int64_t ttl = longest_ttl(p);
    unsigned edits = sim_rng_chance(&rng, 50) ? (unsigned)sim_rng_below(&rng, 8) : 0;

    p->odds.state_fault = rates[sim_rng_below(&rng, sizeof rates / sizeof rates[0])];
    if (p->commit_ns < ttl / 6)
        p->commit_ns = ttl / 6;
    for (unsigned i = 0; i < edits && p->n_ops < SIM_OPS_MAX; i++)
        p->ops[p->n_ops++] = (struct sim_op){
            .at_ns = sim_rng_span(&rng, 0, p->hostile_ns - 1),
            .kind = SIM_OP_AMEND,
            .node = (uint8_t)sim_rng_below(&rng, p->nodes),
            .span_ns = draw_span(&rng, ttl),
            .pick = sim_rng_next(&rng),
        };
}

/* Candidates that cannot reach their state, for a while or for good.  In the calm the others must
 * hear of each release at once, so that the end does not depend on whose poll comes first. */
static void plan_seals(struct sim_plan *p)
{
    struct sim_rng rng = sim_rng_keyed(p->seed, SIM_RND_PLAN, 6, 0);
    unsigned n = sim_rng_chance(&rng, 30) ? (unsigned)sim_rng_span(&rng, 1, 4) : 0;

    for (unsigned i = 0; i < n && p->n_ops < SIM_OPS_MAX; i++) {
        p->ops[p->n_ops++] = (struct sim_op){
            .at_ns = sim_rng_span(&rng, 0, p->hostile_ns - 1),
            .kind = SIM_OP_UNSEAL,
            .node = (uint8_t)sim_rng_below(&rng, p->nodes),
            .span_ns = draw_span(&rng, 4 * longest_ttl(p)),
            .pick = sim_rng_next(&rng),
        };
        p->unsealed = p->notifies && sim_rng_chance(&rng, 50);
    }
}

/* The election is removed, and its candidates use the name again at once. */
static void plan_removals(struct sim_plan *p)
{
    struct sim_rng rng = sim_rng_keyed(p->seed, SIM_RND_PLAN, 7, 0);
    unsigned n = sim_rng_chance(&rng, 15) ? (unsigned)sim_rng_span(&rng, 1, 3) : 0;

    if (p->family == &sim_family_slots || p->family == &sim_family_jobs)
        return;
    for (unsigned i = 0; i < n && p->n_ops < SIM_OPS_MAX; i++)
        p->ops[p->n_ops++] = (struct sim_op){
            .at_ns = sim_rng_span(&rng, 0, p->hostile_ns - 1),
            .kind = SIM_OP_REMOVE,
            .pick = sim_rng_next(&rng),
        };
}

/* Tombstones are deleted soon after they are written: a claim that was on its way since before may
 * land where they were, and a candidate that starts afterwards has never heard of their epochs. */
static void plan_compactions(struct sim_plan *p)
{
    struct sim_rng rng = sim_rng_keyed(p->seed, SIM_RND_PLAN, 9, 0);
    unsigned n = (unsigned)sim_rng_span(&rng, 2, 8);

    if ((p->family != &sim_family_register && p->family != &sim_family_advisory) ||
        !sim_rng_chance(&rng, 25))
        return;
    p->purges = true;
    for (unsigned i = 0; i < n && p->n_ops < SIM_OPS_MAX; i++)
        p->ops[p->n_ops++] = (struct sim_op){
            .at_ns = sim_rng_span(&rng, 0, p->hostile_ns - 1),
            .kind = SIM_OP_REMOVE,
            .pick = sim_rng_next(&rng),
        };
    /* Whole lives of the register while one request is on its way. */
    p->swift = sim_rng_chance(&rng, 50);
    for (unsigned i = 0; p->swift && i < 4 * n && p->n_ops < SIM_OPS_MAX; i++)
        p->ops[p->n_ops++] = (struct sim_op){
            .at_ns = sim_rng_span(&rng, 0, p->hostile_ns - 1),
            .kind = SIM_OP_YIELD,
            .node = (uint8_t)sim_rng_below(&rng, p->nodes),
        };
}

/* Candidates that have a command to switch a silent holder off: sometimes at the first renewal that
 * is late, or even before. */
static void plan_proofs(struct sim_plan *p)
{
    struct sim_rng rng = sim_rng_keyed(p->seed, SIM_RND_PLAN, 8, 0);

    if (p->family != &sim_family_jobs && sim_rng_chance(&rng, 15))
        p->prove_ns = sim_rng_span(&rng, longest_ttl(p) / 8, longest_ttl(p));
}

/* A server far away: every answer comes in time, but not all that a session takes.  Without a
 * state, whose seal would take longer than a leader may need for it. */
static void plan_sessions(struct sim_plan *p)
{
    struct sim_rng rng = sim_rng_keyed(p->seed, SIM_RND_PLAN, 5, 0);

    if (p->family != &sim_family_register || p->commits || !sim_rng_chance(&rng, 30))
        return;
    p->trips = (unsigned)sim_rng_span(&rng, 1, 10);
    p->latency_ns = sim_rng_span(&rng, shortest_request(p) / 10, shortest_request(p) / 4);
}

/* ---- Plans --------------------------------------------------------------- */

static const struct sim_family *draw_family(struct sim_rng *rng)
{
    unsigned sum = 0, pick;

    for (unsigned i = 0; sim_families[i]; i++)
        sum += sim_families[i]->weight;
    pick = (unsigned)sim_rng_below(rng, sum);
    for (unsigned i = 0;; i++) {
        if (pick < sim_families[i]->weight)
            return sim_families[i];
        pick -= sim_families[i]->weight;
    }
}

void sim_plan_hostile(struct sim_plan *p, const struct sim_family *family, uint64_t seed)
{
    struct sim_rng rng = sim_rng_keyed(seed, SIM_RND_PLAN, 0, 0);
    const struct sim_family *drawn = draw_family(&rng);

    memset(p, 0, offsetof(struct sim_plan, ops));
    p->seed = seed;
    p->family = family ? family : drawn;
    p->nodes = sim_rng_chance(&rng, 70) ? (unsigned)sim_rng_span(&rng, 2, 4)
                                        : (unsigned)sim_rng_span(&rng, 2, SIM_NODES_MAX);
    p->notifies = sim_rng_chance(&rng, 65);
    p->guarded = sim_rng_chance(&rng, 65);
    p->blocking = sim_rng_chance(&rng, 75);
    p->releaser = p->guarded && sim_rng_chance(&rng, 50) && p->family != &sim_family_slots;
    p->commits = sim_rng_chance(&rng, 60);
    p->files = sim_rng_chance(&rng, 25);
    p->product = SIM_FIBERS && p->commits && !p->files && p->family != &sim_family_jobs &&
                 sim_key(seed, SIM_RND_PLAN, 2, 0) % 3 != 0;
    p->loose = sim_rng_chance(&rng, 30);
    p->wild = sim_rng_chance(&rng, 5);
    plan_timings(p, &rng);
    plan_clocks(p, &rng);
    plan_odds(p, &rng);
    int64_t ttl = longest_ttl(p);
    p->commit_ns = ttl / sim_rng_span(&rng, 1, 20);
    p->latency_ns = sim_rng_chance(&rng, 30) ? sim_rng_span(&rng, 0, 1000)
                                             : sim_rng_span(&rng, 0, shortest_request(p) / 8);
    p->hostile_ns = ttl * sim_rng_span(&rng, 3, 25);
    plan_sessions(p);
    plan_ops(p, &rng);
    if (p->product)
        plan_state(p);
    if (p->commits)
        plan_seals(p);
    plan_removals(p);
    plan_compactions(p);
    plan_proofs(p);
}

void sim_plan_lasting(struct sim_plan *p, uint64_t seed, int64_t span_ns)
{
    static const enum sim_op_kind usual[] = {
        SIM_OP_PAUSE, SIM_OP_KILL,     SIM_OP_REBOOT,  SIM_OP_EXIT,
        SIM_OP_RATE,  SIM_OP_WALL,     SIM_OP_OUTAGE,  SIM_OP_PARTITION,
        SIM_OP_YIELD, SIM_OP_SHUTDOWN, SIM_OP_CONTROL,
    };
    struct sim_rng rng = sim_rng_keyed(seed, SIM_RND_PLAN, 1, 0);
    struct tn_timing_wish wish = {.notifies = true};

    memset(p, 0, offsetof(struct sim_plan, ops));
    p->seed = seed;
    p->family = &sim_family_register;
    p->lasting = true;
    p->nodes = 3;
    p->notifies = p->guarded = p->blocking = p->releaser = p->commits = true;
    p->rho_ppm = TN_RHO_DEFAULT_PPM;
    tn_timing_plan(&wish, &p->other);
    for (unsigned i = 0; i < p->nodes; i++) {
        p->timing[i] = p->other;
        p->kill_ns[i] = p->other.kill_ns;
        p->ppm[i] = (int32_t)sim_rng_span(&rng, -(int32_t)p->rho_ppm, (int32_t)p->rho_ppm);
    }
    p->wall_ms = INT64_C(1700000000000);
    p->drain_ns = 8 * TN_S;
    p->commit_ns = 600 * TN_S;
    p->latency_ns = 5 * TN_MS;
    p->hostile_ns = span_ns;
    p->odds = (struct sim_odds){.any = 4,
                                .lost = 10,
                                .deaf = 10,
                                .late = 5,
                                .twice = 5,
                                .slow = 20,
                                .cut = 5,
                                .refused = 10,
                                .notice_lost = 4,
                                .state_fault = 20};
    for (int64_t at = 0; p->n_ops < SIM_OPS_MAX;) {
        at += sim_rng_span(&rng, 60 * TN_S, 12 * 3600 * TN_S);
        if (at >= span_ns)
            break;
        p->ops[p->n_ops++] = (struct sim_op){
            .at_ns = at,
            .kind = usual[sim_rng_below(&rng, sizeof usual / sizeof usual[0])],
            .node = (uint8_t)sim_rng_below(&rng, p->nodes),
            .span_ns = draw_span(&rng, 15 * TN_S),
            .pick = sim_rng_next(&rng),
        };
    }
}
