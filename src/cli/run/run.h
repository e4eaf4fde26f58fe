/* cli/run/run.h - the options of `tenure run`. */
#ifndef TN_CLI_RUN_H
#define TN_CLI_RUN_H

#include "cli/cli.h"
#include "supervise/supervisor.h"

#define CLI_LEASE_STORE "store" /* --state store: where the lease is */
#define CLI_RUN_HOSTS   16
#define CLI_RUN_SEALS   64

/* What the command line says: the supervisor's settings, and what is settled after all options. */
struct cli_run {
    struct tn_run_options o;
    enum { CLI_WATCHDOG_OFF, CLI_WATCHDOG_AUTO, CLI_WATCHDOG_REQUIRED } watchdog;
    enum { CLI_READS_OPEN, CLI_READS_TOKEN } reads;
    const char *hosts[CLI_RUN_HOSTS + 1];
    const char *seals[CLI_RUN_SEALS + 1];
};

/* For getopt_long(), with the common ones. */
const struct option *cli_run_options(void);
/* Those of them that another verb shares (names ends with NULL), and its own, whose values are
 * CLI_RUN_OWN and up.  Static buffer. */
#define CLI_RUN_OWN (CLI_OPT_OWN + 1000)
const struct option *cli_run_pick(const char *const *names, const struct option *own);

/* Set what one of them says, with optarg.  Exits with CLI_USAGE and a message if it is invalid. */
void cli_run_set(const struct cli_verb *verb, struct cli_run *run, int opt);

#endif
