/* sim/replica/world.c - the history: what happens next, faults, and the calm after them. */
#include "world.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define STORM 900 /* steps */
#define CALM  3000

void rep_say(struct world *w, const char *format, ...)
{
    va_list args;

    if (!w->verbose)
        return;
    printf("%5llu  ", (unsigned long long)w->steps);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    printf("\n");
}

void rep_fail(struct world *w, const char *promise, const char *format, ...)
{
    va_list args;

    if (w->failed)
        return;
    w->failed = true;
    snprintf(w->promise, sizeof w->promise, "%s", promise);
    va_start(args, format);
    vsnprintf(w->why, sizeof w->why, format, args);
    va_end(args);
    rep_say(w, "BROKEN %s: %s", w->promise, w->why);
}

void rep_nonce(struct world *w, uint8_t nonce[TENURE_NONCE_SIZE])
{
    uint64_t words[2] = {sim_rng_next(&w->rng) | 1, sim_rng_next(&w->rng)};

    memcpy(nonce, words, sizeof words);
}

/* ---- Messages ---------------------------------------------------------------- */

/* If there is no room, some message is lost. */
struct msg *rep_msg(struct world *w, unsigned from, unsigned to, enum what what)
{
    struct msg *m = NULL;

    for (unsigned i = 0; m == NULL && i < MSGS; i++)
        if (!w->msg[i].used)
            m = &w->msg[i];
    if (m == NULL)
        m = &w->msg[rep_below(w, MSGS)];
    m->used = true;
    m->order = w->order++;
    m->from = from;
    m->to = to;
    m->what = what;
    return m;
}

/* The node can be told this now: groups wait for the flush. */
static bool is_ready(const struct world *w, const struct msg *m)
{
    const struct node *n = &w->node[m->to];

    return m->used && (!n->up || (!n->stopped && !(m->what == M_GROUP && rep_busy(n))));
}

/* Any of them in a storm, else the oldest. */
static struct msg *pick(struct world *w)
{
    struct msg *best = NULL;
    unsigned ready = 0;

    for (unsigned i = 0; i < MSGS; i++) {
        struct msg *m = &w->msg[i];

        if (!is_ready(w, m))
            continue;
        ready++;
        if (w->calm ? best == NULL || m->order < best->order : rep_below(w, ready) == 0)
            best = m;
    }
    return best;
}

static void deliver(struct world *w)
{
    static struct msg m;
    struct msg *picked = pick(w);

    if (picked == NULL)
        return;
    m = *picked;
    picked->used = !w->calm && rep_chance(w, 10); /* It stays, and comes again. */
    if (w->node[m.to].up && (w->calm || !rep_chance(w, w->loss)))
        rep_deliver(w, &m);
}

/* ---- The lease ---------------------------------------------------------------- */

/* Somebody wins it.  Who had it may not know for long: nothing here rests on exclusion. */
static void grant(struct world *w, struct node *n)
{
    if (!n->up || n->stopped || n->hub)
        return;
    w->lease++;
    w->held = true;
    w->holder = n->index;
    n->won = w->lease;
}

static struct node *leader(struct world *w)
{
    for (unsigned i = 0; i < w->nodes; i++)
        if (w->node[i].up && !w->node[i].stopped && w->node[i].core.phase == TN_REPLICA_PRIMARY &&
            w->node[i].core.epoch == w->lease)
            return &w->node[i];
    return NULL;
}

/* ---- Faults -------------------------------------------------------------------- */

static bool is_lost(const struct world *w, const uint8_t *id)
{
    for (unsigned i = 0; i < w->nodes; i++)
        if (memcmp(w->node[i].disk.head.database, id, TENURE_NONCE_SIZE) == 0)
            return false;
    return true;
}

/* As many disks of a set as is promised may be lost: k. */
static bool bears(const struct world *w, const struct tn_set *set, const struct node *n)
{
    unsigned lost = 0;

    if (!tn_set_established(set) || !tn_set_has(set, n->disk.head.database))
        return true;
    for (unsigned i = 0; i < set->count; i++)
        lost += is_lost(w, set->id[i]);
    return lost + 1 <= set->k;
}

/* ... of the set in the register, and of each that may still land there. */
static bool may_lose(const struct world *w, const struct node *n)
{
    bool may = !w->cfg.async && bears(w, &w->set.set, n);

    if (w->late.kind == TN_REPLICA_SWAP_SET)
        may = may && bears(w, &w->late.set.set, n);
    for (unsigned i = 0; i < w->nodes; i++)
        if (w->node[i].core.doubt || w->node[i].request.kind == TN_REPLICA_SWAP_SET)
            may = may && bears(w, &w->node[i].core.wanted.set, n) &&
                  bears(w, &w->node[i].request.set.set, n);
    return may;
}

/* A new disk, or one restored from a back-up by the tool: another database in any case (R3). */
static void lose_disk(struct world *w, struct node *n)
{
    if (!may_lose(w, n))
        return;
    if (n->up)
        rep_crash(w, n);
    if (n->backed_up && rep_chance(w, 50)) {
        n->disk = n->backup;
        rep_nonce(w, n->disk.head.database);
        rep_say(w, "n%u is restored from a back-up", n->index);
    } else {
        disk_make(w, &n->disk);
        rep_say(w, "n%u has a new disk", n->index);
    }
    n->backed_up = false;
}

/* The leader loses sight of a standby; of the store, too, if it is the network: and of its lease.
 */
static void cut_off(struct world *w, const struct node *n)
{
    struct node *lead = leader(w);

    if (lead == NULL)
        return;
    rep_lost(w, lead, n->disk.head.database);
    lead->cut = rep_chance(w, 50);
    if (lead->cut && rep_chance(w, 50))
        w->held = false;
}

static void fault(struct world *w, struct node *n)
{
    switch (rep_below(w, 12)) {
    case 0:
    case 1:
        if (n->up)
            rep_crash(w, n);
        break;
    case 2:
        if (n->up && !n->stopped) {
            n->stopped = true;
            if (w->holder == n->index)
                w->held = false;
        }
        break;
    case 3:
        lose_disk(w, n);
        break;
    case 4:
        n->backup = n->disk;
        n->backed_up = true;
        break;
    case 5:
        w->outage = !w->outage;
        break;
    case 6:
        w->held = false; /* It runs out; its holder does not know. */
        break;
    case 7:
        if (n->up && !n->stopped && !rep_busy(n))
            rep_event(w, n, TN_REPLICA_FORGET, 0);
        break;
    case 8:
        if (n->up && !n->stopped && n->core.phase == TN_REPLICA_PRIMARY)
            rep_event(w, n, TN_REPLICA_DEMOTE, 0);
        break;
    default:
        cut_off(w, n);
        break;
    }
}

/* ---- One step ------------------------------------------------------------------- */

static void use_register(struct world *w, struct node *n)
{
    bool outage = w->outage || n->cut;

    if (w->late.kind == TN_REPLICA_SWAP_SET && rep_chance(w, 10)) {
        rep_execute(w, &w->late);
        w->late.kind = TN_REPLICA_NO_REQUEST;
    }
    if (n->request.kind == TN_REPLICA_NO_REQUEST || !n->up)
        return;
    if (w->calm) {
        if (!n->request.executed)
            rep_execute(w, &n->request);
        rep_answer(w, n, false);
    } else if (!n->request.executed && !outage && rep_chance(w, 70)) {
        rep_execute(w, &n->request);
    } else if (!n->stopped && (n->request.executed || outage || rep_chance(w, 20))) {
        rep_answer(w, n, !n->request.executed || rep_chance(w, 10));
    }
}

static void act(struct world *w, struct node *n)
{
    unsigned other = rep_below(w, w->nodes);

    n->cut = n->cut && !rep_chance(w, 3);
    if (!n->up) {
        if (rep_chance(w, 20))
            rep_boot(w, n);
        return;
    }
    if (n->stopped) {
        n->stopped = !rep_chance(w, 10);
        return;
    }
    if (n->won != 0 && !rep_busy(n)) {
        rep_won(w, n);
        return;
    }
    if (rep_busy(n)) {
        if (rep_chance(w, 60))
            rep_flush(w, n);
        return;
    }
    if (n->core.phase == TN_REPLICA_PRIMARY && rep_chance(w, 40)) {
        rep_change(w, n);
        return;
    }
    if (rep_chance(w, 60))
        rep_event(w, n, TN_REPLICA_TICK, 0);
    else if (rep_chance(w, 30) && other != n->index)
        rep_connect(w, n, other);
    else if (rep_chance(w, 20))
        rep_event(w, n, TN_REPLICA_FORGET, 0);
}

static void storm(struct world *w)
{
    struct node *n = &w->node[rep_below(w, w->nodes)];

    if (rep_below(w, 1000) < w->trouble)
        fault(w, n);
    else if (!w->held && rep_chance(w, 10))
        grant(w, n);
    else if (rep_chance(w, 45))
        deliver(w);
    else if (rep_chance(w, 35))
        use_register(w, n);
    else
        act(w, n);
}

/* ---- The calm -------------------------------------------------------------------- */

static void settle(struct world *w)
{
    w->calm = true;
    w->outage = false;
    w->held = false;
    rep_say(w, "calm");
    for (unsigned i = 0; i < w->nodes; i++)
        w->node[i].stopped = w->node[i].cut = false;
    for (unsigned i = 0; i < w->nodes; i++)
        if (!w->node[i].up)
            rep_boot(w, &w->node[i]);
}

/* Everybody follows the leader, or the hub that follows it. */
static void follow(struct world *w, const struct node *lead)
{
    for (unsigned i = 0; i < w->nodes; i++) {
        struct node *n = &w->node[i];
        unsigned upstream = w->hub && !n->hub ? w->nodes - 1 : lead->index;

        if (n != lead && n->upstream != upstream)
            rep_connect(w, n, upstream);
    }
}

/* A lost disk of the set is told to the leader, so that it can be replaced. */
static void tell_lost(struct world *w, struct node *lead)
{
    const struct tn_set set = w->set.set;

    for (unsigned i = 0; i < set.count; i++)
        if (is_lost(w, set.id[i]))
            rep_lost(w, lead, set.id[i]);
}

/* Who has lost the lease gets to know it, at D at the latest. */
static void end_stale(struct world *w)
{
    for (unsigned i = 0; i < w->nodes; i++)
        if (w->node[i].core.phase != TN_REPLICA_STANDBY && w->node[i].core.epoch < w->lease)
            rep_event(w, &w->node[i], TN_REPLICA_DEMOTE, 0);
}

static bool is_quiet(const struct world *w)
{
    for (unsigned i = 0; i < MSGS; i++)
        if (w->msg[i].used)
            return false;
    for (unsigned i = 0; i < w->nodes; i++)
        if (rep_busy(&w->node[i]) || w->node[i].request.kind != TN_REPLICA_NO_REQUEST ||
            w->node[i].won != 0)
            return false;
    return true;
}

static void work_off(struct world *w)
{
    for (unsigned i = 0; i < w->nodes; i++) {
        struct node *n = &w->node[i];

        if (rep_busy(n))
            rep_flush(w, n);
        else if (n->won != 0)
            rep_won(w, n);
        use_register(w, n);
    }
    deliver(w);
}

/* The lease goes round until somebody leads; then a few changes are made, with time for each. */
static void calm(struct world *w)
{
    unsigned turn = 0, changes = 0, rounds = 0;

    settle(w);
    while (!w->failed && changes < 4 && rounds++ < 24) {
        struct node *lead = leader(w);

        end_stale(w);
        if (lead == NULL && !w->held) {
            grant(w, &w->node[turn++ % w->nodes]);
        } else if (lead != NULL) {
            follow(w, lead);
            tell_lost(w, lead);
            changes++;
            if (!rep_busy(lead))
                rep_change(w, lead);
        }
        for (unsigned i = 0; i < w->nodes; i++)
            rep_event(w, &w->node[i], TN_REPLICA_TICK, 0);
        for (unsigned i = 0; !w->failed && i < CALM && !is_quiet(w); i++, w->steps++)
            work_off(w);
        if (!is_quiet(w))
            rep_fail(w, "live", "the nodes talk without end");
    }
    for (unsigned turns = 0; turns < 4; turns++) {
        for (unsigned i = 0; i < w->nodes; i++)
            rep_event(w, &w->node[i], TN_REPLICA_TICK, 0);
        for (unsigned i = 0; !w->failed && i < CALM && !is_quiet(w); i++, w->steps++)
            work_off(w);
    }
    if (!w->failed)
        check_converged(w);
}

/* ---- A history -------------------------------------------------------------------- */

static void make(struct world *w)
{
    unsigned candidates = 2 + rep_below(w, 3);

    w->hub = rep_chance(w, 30);
    w->nodes = candidates + w->hub;
    w->cfg.window = 1 + rep_below(w, 3);
    w->cfg.async = rep_chance(w, 30);
    w->cfg.k = w->cfg.async || rep_chance(w, 10) ? 0 : 1 + rep_below(w, candidates > 2 ? 2 : 1);
    w->cfg.unpublished = 1 + rep_below(w, 4);
    w->cfg.max_lag = rep_below(w, 5);
    w->chunk = 1 + rep_below(w, 4);
    w->loss = rep_below(w, 15);
    w->trouble = 5 + rep_below(w, 60);
    for (unsigned i = 0; i < w->nodes; i++) {
        struct node *n = &w->node[i];

        n->index = i;
        n->hub = w->hub && i == w->nodes - 1;
        n->upstream = NODES;
        disk_make(w, &n->disk);
        rep_boot(w, n);
    }
    for (unsigned i = 0; i < w->nodes; i++)
        rep_connect(w, &w->node[i], (i + 1) % w->nodes);
    rep_say(w, "%u nodes%s, %s k %u, U %llu, max_lag %llu", w->nodes, w->hub ? " (a hub)" : "",
            w->cfg.async ? "async" : "semi-sync", w->cfg.k, (unsigned long long)w->cfg.unpublished,
            (unsigned long long)w->cfg.max_lag);
}

void rep_run(struct world *w, uint64_t seed, bool verbose)
{
    memset(w, 0, sizeof *w);
    w->seed = seed;
    w->verbose = verbose;
    w->rng = sim_rng_keyed(seed, SIM_RND_PLAN, 0, 0);
    make(w);
    for (; !w->failed && w->steps < STORM; w->steps++)
        storm(w);
    if (!w->failed)
        calm(w);
}
