#include "model/world.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define NEVER (INT64_MAX / 4)

static const struct tn_timing timing = {
    .ttl_ns = MODEL_W,
    .hold_ns = MODEL_D,
    .kill_ns = MODEL_K,
    .renew_ns = 3 * MODEL_UNIT,
    .request_ns = MODEL_UNIT,
    .retry_ns = MODEL_UNIT,
    .poll_ns = 3 * MODEL_UNIT,
    .grace_ns = 3 * MODEL_UNIT,
    .rho_ppm = 100000,
};

/* ---- Clocks -------------------------------------------------------------- */

static int64_t local(const struct world *w, const struct node *n)
{
    return w->now * n->rate / 10;
}

/* The first true instant at which the node's clock shows at least this. */
static int64_t when(const struct node *n, int64_t local_ns)
{
    return local_ns >= NEVER ? NEVER : (local_ns * 10 + n->rate - 1) / n->rate;
}

/* ---- Beginning ----------------------------------------------------------- */

static void boot(struct world *w, int i)
{
    struct node *n = &w->node[i];
    struct tn_elector_config cfg = {.drain_ns = 3 * MODEL_UNIT, .timing = timing};

    snprintf(cfg.id, sizeof cfg.id, "%c", 'a' + i);
    cfg.incarnation[0] = (uint8_t)(i + 1);
    cfg.incarnation[1] = (uint8_t)++n->incarnation;
    tn_elector_init(&n->e, &cfg);
    n->up = true;
    n->pending = ANSWER;
    n->kind = TN_EV_START;
    n->due = w->now;
}

void world_init(struct world *w, int n, unsigned rates, int faults, bool notifies)
{
    memset(w, 0, sizeof *w);
    w->n = n;
    w->faults = faults;
    w->notifies = notifies;
    w->now = 9900 * TN_MS;
    for (int i = 0; i < n; i++) {
        w->node[i].rate = rates >> i & 1 ? 11 : 9;
        w->node[i].may_crash = true;
        boot(w, i);
    }
}

/* ---- The register -------------------------------------------------------- */

static bool apply(struct world *w, const struct tenure_token *expect, const uint8_t *nonce,
                  const struct tn_lease *record)
{
    if (!tenure_token_equal(expect, &w->token))
        return false;
    memset(&w->token, 0, sizeof w->token);
    snprintf(w->token.version, sizeof w->token.version, "%u", ++w->version);
    memcpy(w->token.nonce, nonce, TENURE_NONCE_SIZE);
    w->lease = *record;
    w->present = true;
    return true;
}

static void fill_read(struct world *w, struct node *n)
{
    n->status = TENURE_OK;
    n->token = w->token;
    n->has_record = w->present;
    n->record = w->lease;
}

/* ---- What the elector asks for ------------------------------------------- */

static void ask_read(struct world *w, struct node *n, int64_t by, choose_fn choose, void *arg)
{
    int way = n->cut ? 1 : w->faults > 0 ? choose(arg, 3) : 0;

    n->pending = ANSWER;
    n->kind = TN_EV_READ;
    w->faults -= way != 0 && !n->cut;
    fill_read(w, n);
    n->due = w->now;
    if (way == 1) { /* no answer */
        n->status = TENURE_TIMEOUT;
        n->due = by;
    } else if (way == 2) { /* read now, answered at the last moment */
        n->due = by;
    }
}

static void land_late(struct world *w, int64_t at, const struct tn_actions *a)
{
    for (int i = 0; i < LATE_MAX; i++) {
        struct late *l = &w->late[i];

        if (l->used)
            continue;
        l->used = true;
        l->at = at;
        l->expect = a->expect;
        memcpy(l->nonce, a->nonce, TENURE_NONCE_SIZE);
        l->record = a->record;
        return;
    }
}

static void ask_swap(struct world *w, struct node *n, const struct tn_actions *a, int64_t by,
                     choose_fn choose, void *arg)
{
    enum { FINE, ANSWER_LOST, REQUEST_LOST, SLOW_ANSWER, SLOW_REQUEST, LATE, VERY_LATE, WAYS };
    int way = n->cut ? REQUEST_LOST : w->faults > 0 ? choose(arg, WAYS) : FINE;
    bool done;

    n->pending = ANSWER;
    n->kind = TN_EV_SWAPPED;
    w->faults -= way != FINE && !n->cut;
    n->status = TENURE_UNKNOWN;
    n->due = by;
    switch (way) {
    case FINE:
    case ANSWER_LOST:
    case SLOW_ANSWER:
        done = apply(w, &a->expect, a->nonce, &a->record);
        if (way != ANSWER_LOST) {
            n->status = done ? TENURE_OK : TENURE_CONFLICT;
            n->token = w->token;
        }
        if (way == FINE)
            n->due = w->now;
        break;
    case SLOW_REQUEST: /* lands at the last moment, and is answered by a read in time */
        land_late(w, by, a);
        break;
    case LATE:
        land_late(w, by + MODEL_GRID, a);
        break;
    case VERY_LATE:
        land_late(w, w->now + 11 * MODEL_GRID * 10, a);
        break;
    default:
        break;
    }
}

/* ---- The program and its guard ------------------------------------------- */

/* The guard kills at the published deadline; K later nothing of it is left. */
static int64_t latest_death(const struct node *n)
{
    return n->deadline_ns ? when(n, n->deadline_ns + MODEL_K) : NEVER;
}

static void stop_program(struct world *w, struct node *n, int64_t by_ns, choose_fn choose,
                         void *arg)
{
    n->must_tell = true;
    if (!n->program.alive)
        return;
    int64_t last = when(n, by_ns + MODEL_K);
    if (last > latest_death(n))
        last = latest_death(n);
    /* At once, or as late as it may. */
    int64_t dies = last > w->now && choose(arg, 2) ? last : w->now;
    if (dies < n->program.dies_at)
        n->program.dies_at = dies;
}

static void start_program(struct world *w, struct node *n, const struct tn_actions *a)
{
    if (a->epoch <= w->last_epoch)
        w->broken = "I2: epochs rise";
    w->last_epoch = a->epoch;
    n->program.alive = true;
    n->program.epoch = a->epoch;
    n->program.dies_at = latest_death(n);
}

/* ---- One step of a node -------------------------------------------------- */

static void step(struct world *w, struct node *n, struct tn_event *ev, choose_fn choose, void *arg)
{
    struct tn_actions a;

    for (;;) {
        bool program_before = n->program.alive;
        bool out = ev->kind == TN_EV_SEALED && n->pending == ANSWER;

        ev->now_ns = local(w, n);
        ev->entropy[0] = 0; /* no jitter */
        ev->entropy[1] = ++w->nonces;
        tn_elector_step(&n->e, ev, &a);
        n->deadline_ns = a.deadline_ns;
        if (n->program.alive && !n->must_tell)
            n->program.dies_at = latest_death(n);
        else if (n->program.alive && latest_death(n) < n->program.dies_at)
            n->program.dies_at = latest_death(n);
        if (a.set & TN_ACT_STOP)
            stop_program(w, n, a.stop_by_ns, choose, arg);
        if (a.set & TN_ACT_START)
            start_program(w, n, &a);
        if ((a.set & TN_ACT_SWAP) && a.purpose == TN_FOR_RELEASE && program_before)
            w->broken = "I8: released while the program lives";
        assert(!out || !(a.set & (TN_ACT_READ | TN_ACT_SWAP)));
        n->pending = out ? ANSWER : NOTHING;
        if (a.set & TN_ACT_READ)
            ask_read(w, n, when(n, a.request_by_ns), choose, arg);
        else if (a.set & TN_ACT_SWAP)
            ask_swap(w, n, &a, when(n, a.request_by_ns), choose, arg);
        else if ((a.set & TN_ACT_WAIT) && !out) {
            n->pending = WAIT;
            n->due = when(n, a.wait_until_ns);
            n->watch = a.watch;
            n->seen = a.expect;
        }
        if (!(a.set & TN_ACT_SEAL))
            return;
        /* Sealing takes no time here; a request that is out stays out. */
        memset(ev, 0, sizeof *ev);
        ev->kind = TN_EV_SEALED;
        memcpy(ev->grant, a.grant, TENURE_NONCE_SIZE);
    }
}

static void deliver(struct world *w, struct node *n, choose_fn choose, void *arg)
{
    struct tn_event ev = {0};

    if (n->pending == ANSWER) {
        ev.kind = n->kind;
        ev.status = n->status;
        ev.token = n->token;
        ev.record = n->has_record ? &n->record : NULL;
    } else if (n->watch && w->notifies && !tenure_token_equal(&n->seen, &w->token)) {
        ev.kind = TN_EV_CHANGED;
    } else {
        ev.kind = TN_EV_TIMER;
    }
    struct tn_lease copy = n->record; /* the step overwrites what ev points to */
    if (ev.record)
        ev.record = &copy;
    step(w, n, &ev, choose, arg);
}

static void tell_stopped(struct world *w, struct node *n, choose_fn choose, void *arg)
{
    struct tn_event ev = {.kind = TN_EV_STOPPED};
    enum pending pending = n->pending;
    int64_t due = n->due;

    n->must_tell = false;
    step(w, n, &ev, choose, arg);
    /* A request that was out is still out: the step started no second one. */
    if (n->pending == NOTHING && pending == ANSWER) {
        n->pending = pending;
        n->due = due;
    }
}

/* ---- Time ---------------------------------------------------------------- */

static int64_t next_of(const struct world *w, const struct node *n)
{
    int64_t at = n->pending == NOTHING ? NEVER : n->due;

    if (!n->up)
        return NEVER;
    if (n->pending == WAIT && n->watch && w->notifies && !n->cut &&
        !tenure_token_equal(&n->seen, &w->token))
        at = w->now;
    if (n->must_tell && !n->program.alive)
        at = w->now;
    if (n->paused && at < n->paused_until)
        at = n->paused_until;
    return at < w->now ? w->now : at;
}

static int64_t next_time(const struct world *w)
{
    int64_t at = NEVER;

    for (int i = 0; i < w->n; i++) {
        const struct node *n = &w->node[i];
        int64_t mine = next_of(w, n);

        if (n->program.alive && n->program.dies_at < mine)
            mine = n->program.dies_at;
        if (n->orphan.alive && n->orphan.dies_at < mine)
            mine = n->orphan.dies_at;
        at = mine < at ? mine : at;
    }
    for (int i = 0; i < LATE_MAX; i++) {
        if (w->late[i].used && w->late[i].at < at)
            at = w->late[i].at;
    }
    return at < w->now ? w->now : at;
}

/* What happens by itself when time moves: deaths, late landings, faults that end. */
static void pass(struct world *w)
{
    for (int i = 0; i < w->n; i++) {
        struct node *n = &w->node[i];

        n->program.alive = n->program.alive && n->program.dies_at > w->now;
        n->orphan.alive = n->orphan.alive && n->orphan.dies_at > w->now;
        n->cut = n->cut && n->cut_until > w->now;
        n->paused = n->paused && n->paused_until > w->now;
    }
    for (int i = 0; i < LATE_MAX; i++) {
        if (w->late[i].used && w->late[i].at <= w->now) {
            apply(w, &w->late[i].expect, w->late[i].nonce, &w->late[i].record);
            memset(&w->late[i], 0, sizeof w->late[i]);
        }
    }
}

/* ---- Faults -------------------------------------------------------------- */

static void crash(struct world *w, int i, bool lingers)
{
    struct node *n = &w->node[i];

    n->may_crash = false;
    if (n->program.alive) {
        n->orphan = n->program; /* the guard ends it, at the latest by its deadline */
        if (!lingers)
            n->orphan.dies_at = w->now;
        if (n->orphan.dies_at <= w->now)
            n->orphan.alive = false;
    }
    memset(&n->program, 0, sizeof n->program);
    n->must_tell = n->paused = false;
    n->deadline_ns = 0;
    boot(w, i); /* the same id, another process */
}

/* Perhaps something goes wrong before the next event. */
static void misfortune(struct world *w, choose_fn choose, void *arg)
{
    for (int i = 0; i < w->n; i++) {
        struct node *n = &w->node[i];
        bool crashes = n->may_crash && n->e.phase >= TN_PHASE_SEALING;
        bool breaks = w->faults > 0 && !n->paused && !n->cut && n->e.phase != TN_PHASE_NEW;
        int way = crashes || breaks ? choose(arg, 1 + 2 * crashes + 2 * breaks) : 0;

        if (way == 0)
            continue;
        if (crashes && way <= 2) {
            crash(w, i, way == 2);
            continue;
        }
        w->faults--;
        if (way - 2 * crashes == 1) {
            n->paused = true;
            n->paused_until = w->now + 2200 * TN_MS;
        } else {
            n->cut = true;
            n->cut_until = w->now + 1650 * TN_MS;
        }
    }
}

/* ---- The world ----------------------------------------------------------- */

void world_check(struct world *w)
{
    int holders = 0;

    for (int i = 0; i < w->n; i++) {
        const struct node *n = &w->node[i];
        bool believes = n->up && tn_elector_leads(&n->e, local(w, n));

        holders += n->program.alive || believes;
        holders += n->orphan.alive;
        if (n->program.alive && w->now >= latest_death(n))
            w->broken = "the program outlives its deadline";
    }
    if (holders > 1)
        w->broken = "I1: two at once";
}

bool world_step(struct world *w, choose_fn choose, void *arg)
{
    int ready[NODES_MAX], n = 0;

    misfortune(w, choose, arg);
    int64_t at = next_time(w);
    if (at >= NEVER)
        return false;
    w->now = at;
    pass(w);
    world_check(w);
    for (int i = 0; i < w->n; i++) {
        if (next_of(w, &w->node[i]) <= w->now)
            ready[n++] = i;
    }
    if (n == 0)
        return true;
    struct node *node = &w->node[ready[n > 1 ? choose(arg, n) : 0]];
    if (node->must_tell && !node->program.alive)
        tell_stopped(w, node, choose, arg);
    else
        deliver(w, node, choose, arg);
    world_check(w);
    return true;
}
