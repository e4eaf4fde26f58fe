/* sim/options.h - the command line of tenure-sim. */
#ifndef SIM_OPTIONS_H
#define SIM_OPTIONS_H

#include "campaign.h"

/* Reads the arguments, does what they ask, and returns the exit code. */
int sim_main(int argc, char **argv);

#endif
