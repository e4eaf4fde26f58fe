/* sim/board.h - what the processes of a campaign share: who does what, and what was found. */
#ifndef SIM_BOARD_H
#define SIM_BOARD_H

#include <stdatomic.h>
#include <sys/types.h>

#include "campaign.h"

#define SIM_JOBS_MAX   64
#define SIM_FOUND_MAX  16
#define SIM_SOAK_RATIO 2000 /* short histories to a long one */

struct sim_tally {
    _Atomic uint64_t histories, steps, events, faults, starts, sim_ms, cpu_ns;
    _Atomic uint64_t stated, commits; /* with the product's state code */
};

struct sim_found {
    uint64_t seed;
    bool lasting;
    char model[16];
    char invariant[8];
    char why[400];
};

struct sim_board {
    _Atomic bool stop;
    _Atomic uint64_t next[2];  /* seeds: of short histories, of long ones */
    struct sim_tally tally[2]; /* likewise */
    _Atomic unsigned worst_permille;
    _Atomic unsigned n_found; /* all of them; the first few are kept */
    struct sim_found found[SIM_FOUND_MAX];
    pid_t pid[SIM_JOBS_MAX];
    struct sim_found at[SIM_JOBS_MAX]; /* what each process is at, should it crash */
};

void sim_board_found(struct sim_board *b, const struct sim_found *found);
/* One line on standard error, over the last one. */
void sim_board_progress(const struct sim_board *b, double seconds);
/* The end of a campaign, for people. */
void sim_board_report(const struct sim_board *b, const struct sim_campaign *c, double seconds);

/* A soak's state, to go on from later.  No file yet is a fresh start. */
bool sim_board_load(struct sim_board *b, const char *path, char *err, size_t size);
void sim_board_save(const struct sim_board *b, const char *path);

#endif
