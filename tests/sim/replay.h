/*
 * sim/replay.h - the checkers of the simulator over traces of real processes.
 *
 * The world is not lived but told: each event of a trace sets what a simulated
 * candidate would have come to, and then the same sim_check_* functions look at
 * it, on the machine's own time.
 */
#ifndef SIM_REPLAY_H
#define SIM_REPLAY_H

#include <stdint.h>
#include <stdio.h>

/* Judge the traces in these files together.  allow_ns: what a busy machine may add
 * to the bound of I10.  0: nothing was broken; 1: something was; 2: they cannot be
 * read.  Prints what was found. */
int sim_replay(char *const *paths, int n, int64_t allow_ns, FILE *timeline);

#endif
