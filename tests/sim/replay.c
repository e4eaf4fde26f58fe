#include "replay.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "told.h"

/* ---- Who is who ---------------------------------------------------------- */

int sim_replay_node(const struct sim_replay *r, const char *id)
{
    for (unsigned i = 0; i < r->nodes; i++) {
        if (strcmp(r->ids[i], id) == 0)
            return (int)i;
    }
    return -1;
}

const struct sim_event *sim_replay_grant(const struct sim_events *e, uint64_t epoch)
{
    for (size_t i = 0; i < e->n; i++) {
        if (e->list[i].kind == SIM_EV_GRANTED && e->list[i].epoch == epoch)
            return &e->list[i];
    }
    return NULL;
}

/* A program stamps its life with the clock of its candidate, wherever the judge is. */
static void map_clocks(struct sim_events *e)
{
    for (size_t i = 0; i < e->n; i++) {
        struct sim_event *ev = &e->list[i];
        const struct sim_event *grant = NULL;

        if (ev->kind == SIM_EV_ACTS || ev->kind == SIM_EV_ACTED)
            grant = sim_replay_grant(e, ev->epoch);
        if (grant)
            ev->at_ns += ev->offset_ns - grant->offset_ns;
    }
}

/* ---- The world ----------------------------------------------------------- */

static bool enrol(struct sim_replay *r, char *err, size_t size)
{
    struct sim_plan *p = &r->w.plan;

    for (size_t i = 0; i < r->events->n; i++) {
        const struct sim_event *ev = &r->events->list[i];

        if (ev->kind != SIM_EV_BEGINS)
            continue;
        int seat = sim_replay_node(r, ev->id);
        if (seat < 0 && r->nodes == SIM_NODES_MAX - 1) {
            snprintf(err, size, "more than %d candidates in these traces", SIM_NODES_MAX - 1);
            return false;
        }
        if (seat < 0) {
            seat = (int)r->nodes++;
            snprintf(r->ids[seat], sizeof r->ids[seat], "%s", ev->id);
        }
        p->timing[seat] = ev->timing;
        p->other = ev->timing;
        p->rho_ppm = ev->timing.rho_ppm;
    }
    r->stranger = r->nodes;
    p->nodes = r->nodes + 1;
    return true;
}

static void begin(struct sim_replay *r, bool guarded, int64_t allow_ns)
{
    struct sim_world *w = &r->w;
    int64_t first = r->events->n ? r->events->list[0].at_ns : 0;

    memset(w->nodes, 0, sizeof w->nodes);
    memset(&w->store, 0, sizeof w->store);
    memset(&w->state, 0, sizeof w->state);
    memset(w->grants, 0, sizeof w->grants);
    memset(&w->calm, 0, sizeof w->calm);
    memset(r->asked, 0, sizeof r->asked);
    memset(r->judged, 0, sizeof r->judged);
    sim_queue_clear(&w->queue);
    w->n_grants = w->exempt_serial = w->edited_serial = 0;
    w->top_epoch = w->age_epoch = 0;
    w->plan.family = sim_family_find("register");
    w->plan.guarded = guarded;
    w->plan.commits = w->plan.files = true;
    w->plan.latency_ns = allow_ns / 30; /* the seal's round trips count, too */
    w->keep.without = UINT16_MAX;       /* nobody is booted: they are real */
    w->trace.to = guarded ? r->timeline : NULL;
    w->now_ns = first;
    for (unsigned i = 0; i < w->plan.nodes; i++) {
        struct sim_node *n = &w->nodes[i];

        n->index = (uint8_t)i;
        n->timing = &w->plan.timing[i];
        n->may_claim = true;
        sim_clock_init(&n->clock, first, first, 0);
    }
}

/* Under a guard what counts is the program: the guard may end a tenure that is stopped,
 * and free its lease, before that has a chance to believe anything else. */
static bool has_guards(const struct sim_events *e)
{
    for (size_t i = 0; i < e->n; i++) {
        if (e->list[i].kind == SIM_EV_RUNNING)
            return true;
    }
    return false;
}

/* Once by what the programs proved; and for library users by what they believed. */
static void judge(struct sim_replay *r, int64_t allow_ns)
{
    int last = has_guards(r->events);

    for (int guarded = 1; guarded >= last && !r->w.failed; guarded--) {
        begin(r, guarded, allow_ns);
        for (size_t i = 0; i < r->events->n && !r->w.failed; i++) {
            r->at = &r->events->list[i];
            sim_told(r, r->at);
        }
    }
}

static int report(const struct sim_replay *r, const struct sim_events *events)
{
    for (unsigned i = 0; i < r->nodes; i++)
        printf("n%u is %s\n", i, r->ids[i]);
    if (r->w.failed)
        printf("VIOLATION %s: %s\n  at %.9f s (CLOCK_BOOTTIME)\n", r->w.invariant, r->w.why,
               (double)r->at->at_ns / 1e9);
    printf("%zu events judged: %zu grants, %zu renewals, %zu stops, %zu releases, %zu programs' "
           "lives, %zu commits and loads\n%d violations\n",
           events->n, r->judged[SIM_TOLD_GRANTS], r->judged[SIM_TOLD_RENEWALS],
           r->judged[SIM_TOLD_STOPS], r->judged[SIM_TOLD_RELEASES], r->judged[SIM_TOLD_LIVES],
           r->judged[SIM_TOLD_COMMITS], r->w.failed);
    return r->w.failed ? 1 : 0;
}

int sim_replay(char *const *paths, int n, int64_t allow_ns, FILE *timeline)
{
    struct sim_events events = {0};
    struct sim_replay *r = calloc(1, sizeof *r);
    char err[600] = "out of memory";
    int code = 2;
    bool ok = r != NULL;

    for (int i = 0; ok && i < n; i++)
        ok = sim_events_read(&events, paths[i], err, sizeof err);
    if (ok) {
        map_clocks(&events);
        sim_events_sort(&events);
        r->events = &events;
        r->timeline = timeline;
        ok = enrol(r, err, sizeof err);
    }
    if (ok && events.lost) {
        snprintf(err, sizeof err,
                 "%" PRIu64 " lines are missing, the disk was too slow for them: what is there "
                 "cannot be judged",
                 events.lost);
        ok = false;
    }
    if (ok) {
        judge(r, allow_ns);
        code = report(r, &events);
    } else {
        fprintf(stderr, "tenure-sim: %s\n", err);
    }
    sim_events_free(&events);
    free(r);
    return code;
}
