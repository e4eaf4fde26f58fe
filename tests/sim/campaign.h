/* sim/campaign.h - many histories, on all cores, until told to stop. */
#ifndef SIM_CAMPAIGN_H
#define SIM_CAMPAIGN_H

#include "history.h"

struct sim_campaign {
    const struct sim_family *model; /* NULL: all of them */
    uint64_t from;
    uint64_t hostile; /* how many short histories; 0: none */
    uint64_t lasting; /* how many long ones */
    double seconds;   /* 0: no limit */
    unsigned jobs;
    bool first;         /* stop at the first violation */
    bool progress;      /* one line that is refreshed */
    const char *ignore; /* promises that are not judged; see struct sim_history */
    const char *soak;   /* state file: go on from there, until stopped */
};

/* 0: nothing was broken; 1: something was; 2: it could not be run. */
int sim_campaign_run(const struct sim_campaign *c);

#endif
