/*
 * cli/cron/period.h - a command that runs once a period, on one of many machines: `cron` and
 * `once`.
 *
 * The lock of NAME says who may; the record in its state says what was done (cron/record.h).  The
 * record is read and written under the grant: before the command starts, and when nothing of it is
 * left.
 */
#ifndef TN_CLI_PERIOD_H
#define TN_CLI_PERIOD_H

#include "cli/command.h"
#include "cron/plan.h"
#include "tenure/state.h"

struct cli_period {
    struct cli_command command;
    enum tn_retry retry;
    bool waits; /* --wait */
    int64_t wait_ns;

    const char *collection;
    char id[TN_PERIOD_MAX + 1];  /* of the document */
    char schedule[128];          /* for people */
    struct tn_period_record due; /* before anybody contends: its period and time, or "" if there is
                                    nothing to run; and the epoch of the record that was there */
    /* What is to be done, by the last record.  Fills next.period and next.at_s of a RUN or NOTE. */
    struct tn_plan (*plan)(struct cli_period *p, const struct tn_period_record *last,
                           struct tn_period_record *next);

    /* Of the run: */
    tenure_state *state;
    struct tn_period_record record;
    struct tn_period_record before; /* what record replaced */
    uint64_t epoch;                 /* of the last try to begin; 0: none */
    int code;                       /* not 0: nobody can run it, and that was said */
    char variable[16 + TN_PERIOD_MAX + 1];
    const char *env[2];
};

/* The option values that both verbs have. */
enum { CLI_PERIOD_RETRY = CLI_RUN_OWN, CLI_PERIOD_WAIT, CLI_PERIOD_OWN };
#define CLI_PERIOD_OPTIONS                                                                         \
    {"retry", required_argument, NULL, CLI_PERIOD_RETRY},                                          \
    {                                                                                              \
        "wait", required_argument, NULL, CLI_PERIOD_WAIT                                           \
    }
/* Take one; exits with CLI_USAGE if it is invalid. */
void cli_period_take(struct cli_period *p, int opt);
/* The place of optarg in words; exits with CLI_USAGE if it is not there. */
int cli_period_choose(const struct cli_period *p, const char *option, const char *const *words);

#define CLI_PERIOD_HELP                                                                            \
    "  --retry never        never: a period is run at most once; lost: again if its\n"             \
    "                       machine died or lost the lease; failed: and if COMMAND\n"              \
    "                       failed.  Other machines then wait until it has ended\n"                \
    "  --wait 10s           wait this long for a run that is under way\n"

/* cli_command_prepare(), for a store that was named: one that each machine has for itself would run
 * the command on each. */
bool cli_period_prepare(struct cli_period *p, int *code);
/*
 * Run what is due, once.  Returns the exit code: 0 also if there was nothing to do.  *ran (may be
 * NULL): the command was started, so that the code is its own and p->record is about it.
 */
int cli_period_run(struct cli_period *p, bool *ran);

/* `tenure cron list`, with the arguments from "list" on. */
int cli_cron_list(const struct cli_verb *verb, int argc, char **argv);

#endif
