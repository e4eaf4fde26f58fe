/*
 * cli/cli.h - what the verbs share.
 *
 * One file a verb.  A verb sees the public headers and base/ (durations,
 * JSON glue), nothing further in.
 */
#ifndef TN_CLI_CLI_H
#define TN_CLI_CLI_H

#include <getopt.h>
#include <stdbool.h>
#include <stdint.h>

#include "tenure/status.h"
#include "tenure/store.h"

/* A help text may be longer than the 4,095 bytes that ISO C asks of every compiler. */
#pragma GCC diagnostic ignored "-Woverlength-strings"

/* Exit codes.  `run` passes the program's own code through; the codes from 124
 * up are those of env(1) and timeout(1). */
enum {
    CLI_OK = 0,
    CLI_FAILED = 1,       /* the store or the system refused; a line says why */
    CLI_USAGE = 2,        /* usage error or invalid store URL */
    CLI_NOT_HELD = 3,     /* status: nobody leads */
    CLI_UNSOUND = 4,      /* doctor: a promise is broken */
    CLI_WEAK = 5,         /* doctor --strict: a promise is weak */
    CLI_TAKEN = 75,       /* lock: somebody else holds it; EX_TEMPFAIL of sysexits.h */
    CLI_LEASE_LOST = 122, /* lock, once, cron: the lease was lost, and the command ended */
    CLI_LOST = 124,       /* run: leadership was lost, and --on-loss=exit */
    CLI_BROKEN = 125,     /* run: tenure itself could not do its part */
    CLI_CANNOT_RUN = 126, /* run: the command is there but cannot be executed */
    CLI_NOT_FOUND = 127,  /* run: there is no such command */
};

struct cli_verb {
    const char *name;
    const char *summary; /* one line for `tenure help`; NULL: not for people */
    const char *help;    /* the whole text of `tenure VERB --help` */
    int (*run)(const struct cli_verb *verb, int argc, char **argv);
};

extern const struct cli_verb cli_pod_label, cli_replica;
extern const struct cli_verb cli_run, cli_status, cli_watch, cli_reset, cli_state, cli_sim,
    cli_store, cli_release_grant, cli_pause, cli_resume, cli_handover, cli_step_down, cli_lock,
    cli_candidates, cli_agent, cli_config, cli_history, cli_doctor, cli_jobs, cli_remove, cli_cron,
    cli_once, cli_work;

/* What a verb does where no store is yet.  Only who leaves something there makes one. */
enum cli_absent {
    CLI_MAKE,   /* make it */
    CLI_REFUSE, /* say so, and end */
    CLI_EMPTY,  /* the default one is taken for empty; any other is refused: it may be mistyped */
    CLI_WAIT,   /* say so, and wait until somebody makes it */
};

/* Options that most verbs take.  Strings are argv's or the environment's. */
struct cli_common {
    const char *store; /* --store, TENURE_STORE; NULL: the user's own SQLite file */
    const char *name;  /* --name, an argument, TENURE_NAME */
    bool store_given;  /* by --store */
    bool name_given;   /* by --name */
    enum cli_absent absent;
    bool json;
    int64_t timeout_ns; /* --timeout */
    bool any;           /* the verb does without a name: it means every election */
    bool all;           /* --all: forget TENURE_NAME */
};

/* getopt_long() values of the common options; a verb's own start at CLI_OPT_OWN. */
enum {
    CLI_OPT_STORE = 1000,
    CLI_OPT_NAME,
    CLI_OPT_JSON,
    CLI_OPT_TIMEOUT,
    CLI_OPT_HELP,
    CLI_OPT_OWN
};

#define CLI_COMMON_OPTIONS                                                                         \
    {"store", required_argument, NULL, CLI_OPT_STORE},                                             \
        {"name", required_argument, NULL, CLI_OPT_NAME},                                           \
        {"json", no_argument, NULL, CLI_OPT_JSON},                                                 \
        {"timeout", required_argument, NULL, CLI_OPT_TIMEOUT},                                     \
    {                                                                                              \
        "help", no_argument, NULL, CLI_OPT_HELP                                                    \
    }

/* Fill from TENURE_STORE and TENURE_NAME. */
void cli_common_init(struct cli_common *c);
/* Take one getopt value.  true: taken.  Prints help and exits on --help. */
bool cli_common_take(struct cli_common *c, const struct cli_verb *verb, int opt);

/* "tenure VERB: text" on stderr.  Returns code, so that `return cli_fail(...)` reads well. */
int cli_fail(const struct cli_verb *verb, int code, const char *format, ...) TENURE_PRINTF(3, 4);
/* The same with CLI_USAGE: the text says what to give. */
int cli_misuse(const struct cli_verb *verb, const char *format, ...) TENURE_PRINTF(2, 3);
/* A word that is none of the subcommands in list (spaces between), or "".  CLI_USAGE. */
int cli_no_subcommand(const struct cli_verb *verb, const char *word, const char *list);
/* Say err.  CLI_USAGE if somebody has to write something else (CONFIG, INVALID), or CLI_FAILED. */
int cli_fail_with(const struct cli_verb *verb, const struct tenure_error *err);
/* For verbs that live long with passwords in memory: no core of this process is written.  What it
 * executes is as before. */
void cli_no_core(void);
/* Can an election be called that?  false: said. */
bool cli_named(const struct cli_verb *verb, const char *name);

/* getopt_long(), which says in one line what is wrong and what to do, and exits with CLI_USAGE. */
int cli_getopt(const struct cli_verb *verb, int argc, char **argv, const char *order,
               const struct option *options);
#define CLI_ANY_ORDER     ":"  /* options and arguments may be mixed */
#define CLI_OPTIONS_FIRST "+:" /* what begins with the first argument is a command */

/* A duration option; exits with CLI_USAGE and a message if it cannot be read. */
int64_t cli_duration(const struct cli_verb *verb, const char *option, const char *text);

/* The store that c names, or else an SQLite file in the user's state directory.  Nothing is made.
 * Static buffer; NULL with a message on stderr. */
const char *cli_store_url(const struct cli_verb *verb, const struct cli_common *c);
/* The one to open, by c->absent: of who makes it, its directory is there then.  As above. */
const char *cli_store_find(const struct cli_verb *verb, const struct cli_common *c);
/* Behind a command that is told: " --store URL" as it was given there, without secrets; or "". */
#define CLI_AGAIN_MAX 600
void cli_store_again(const struct cli_common *c, char out[CLI_AGAIN_MAX]);

/* Open the store of c.  NULL with a message on stderr, and *code is the exit code. */
tenure_store *cli_open(const struct cli_verb *verb, const struct cli_common *c, int *code);
/* Some stores can be opened to see what is damaged as it is.  true: *store is such a one now. */
bool cli_repair(const struct cli_verb *verb, const struct cli_common *c, tenure_store **store,
                int64_t deadline);

/* An option of a verb's own: with a value, or a flag.  A list of them ends with a zero. */
struct cli_own {
    const char *name;
    const char **value; /* argv's; NULL: it is a flag */
    bool *flag;
};

/*
 * The command line of a verb on an election: the common options and own (may be
 * NULL), and its name (an argument will do).  c was initialised, and perhaps
 * given other defaults.  false: said; the exit code is CLI_USAGE.
 */
bool cli_take(const struct cli_verb *verb, int argc, char **argv, const struct cli_own *own,
              struct cli_common *c);
/* The same, and the store.  false: *code is the exit code, all is said. */
bool cli_begin(const struct cli_verb *verb, int argc, char **argv, const struct cli_own *own,
               struct cli_common *c, tenure_store **store, int *code);

/* Is there somebody at a terminal who can be asked? */
bool cli_may_ask(void);
/* Ask before what cannot be undone.  true: yes was given, or is the answer.  Where nobody can be
 * asked it is for the caller to refuse. */
bool cli_confirm(const struct cli_verb *verb, bool yes, const char *format, ...)
    TENURE_PRINTF(3, 4);

/* Colour: on a terminal, unless NO_COLOR is set.  "" otherwise. */
const char *cli_bold(void);
const char *cli_dim(void);
const char *cli_green(void);
const char *cli_red(void);
const char *cli_plain(void);

#endif
