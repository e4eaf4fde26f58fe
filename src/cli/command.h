/* cli/command.h - a command that runs once, guarded: what `lock`, `once` and `cron` share. */
#ifndef TN_CLI_COMMAND_H
#define TN_CLI_COMMAND_H

#include "cli/cli.h"
#include "cli/run/run.h"

struct cli_command {
    const struct cli_verb *verb;
    struct cli_common common;
    struct cli_run run;
    struct tn_once once;
    const char *name; /* of the lock */
    char id[96];      /* of this process */
};

/*
 * The command line VERB NAME [options] -- COMMAND: some of the options of `run`, and own, whose
 * values are CLI_RUN_OWN and up; take() gets those.  false: said, and *code is the exit
 * code.
 */
bool cli_command_take(struct cli_command *c, const struct cli_verb *verb, int argc, char **argv,
                      const struct option *own, void (*take)(void *arg, int opt), void *arg,
                      int *code);
/* Find the store and the command.  false: said, and *code is the exit code. */
bool cli_command_prepare(struct cli_command *c, int *code);
/* Contend for the election, run, release.  The exit code; c->once says whether it gave up. */
int cli_command_run(struct cli_command *c, const char *election);

/* In the help of each of these verbs. */
#define CLI_COMMAND_HELP                                                                           \
    "  --store URL          where the lock is; TENURE_STORE does as well\n"                        \
    "  --ttl 15s            how long others wait after the last renewal they saw\n"                \
    "  --renew 5s           renewal interval\n"                                                    \
    "  --grace 8s           how long COMMAND may take to stop\n"                                   \
    "  --stop-signal TERM   the signal that asks COMMAND to stop\n"                                \
    "  --user USER[:GROUP]  run COMMAND as this user\n"                                            \
    "  --chdir DIR          run COMMAND in this directory\n"                                       \
    "  --contain auto       how its processes are contained, see tenure-run(1)\n"                  \
    "  --timeout 5s         limit for a request to the store\n"                                    \
    "  --log text           log format on stderr: text, json, none\n"                              \
    "  --log-level warn     error, warn, info, debug\n"

#endif
