/* cli/run.h - the options of `tenure run`. */
#ifndef TN_CLI_RUN_H
#define TN_CLI_RUN_H

#include "cli/cli.h"
#include "supervise/supervisor.h"

#define CLI_LEASE_STORE "store" /* --state store: where the lease is */

/* For getopt_long(), with the common ones. */
extern const struct option cli_run_options[];

/* Take one of them, with optarg.  Exits with CLI_USAGE and a message if it makes no sense.
 * watchdog: 0 off, 1 auto, 2 required. */
void cli_run_take(const struct cli_verb *verb, struct tn_run_options *o, int opt, int *watchdog);

#endif
