/* sim/told.h - one event of a real process: what it makes of the world, and who looks. */
#ifndef SIM_TOLD_H
#define SIM_TOLD_H

#include "tracefile.h"
#include "world.h"

/* What was judged, for the report. */
enum sim_told_kind {
    SIM_TOLD_GRANTS,
    SIM_TOLD_LIVES,
    SIM_TOLD_RENEWALS,
    SIM_TOLD_STOPS,
    SIM_TOLD_RELEASES,
    SIM_TOLD_COMMITS,
    SIM_TOLD_KINDS
};

struct sim_replay {
    struct sim_world w;
    const struct sim_events *events;
    const struct sim_event *at;
    char ids[SIM_NODES_MAX][128];
    bool asked[SIM_NODES_MAX]; /* to step down or to end, and has not ended since */
    unsigned nodes;
    unsigned stranger; /* who acted under an epoch that no trace was granted */
    size_t judged[SIM_TOLD_KINDS];
    FILE *timeline;
};

void sim_told(struct sim_replay *r, const struct sim_event *ev);

/* replay.c: the seat of a candidate, or -1; the event by which an epoch was granted, or NULL. */
int sim_replay_node(const struct sim_replay *r, const char *id);
const struct sim_event *sim_replay_grant(const struct sim_events *e, uint64_t epoch);

#endif
