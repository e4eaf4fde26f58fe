#include "cli/command.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/hex.h"
#include "os/init.h"

/* ---- The command line ---------------------------------------------------- */

/* Of `run`. */
static const char *const shared[] = {"ttl",   "renew",   "grace", "stop-signal", "user",
                                     "chdir", "contain", "log",   "log-level",   NULL};

/* Everything behind the first -- is the command. */
static int find_command(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--") == 0)
            return i;
    }
    return argc;
}

static void init(struct cli_command *c, const struct cli_verb *verb)
{
    memset(c, 0, sizeof *c);
    c->verb = verb;
    cli_common_init(&c->common);
    c->common.name = NULL; /* of the election around us, if there is one: another lock is meant */
    c->run.o = (struct tn_run_options){.elector = TENURE_ELECTOR_OPTIONS,
                                       .stop_signal = SIGTERM,
                                       .log = TN_LOG_TEXT,
                                       .log_level = TN_LEVEL_WARN,
                                       .crash_limit = 1,
                                       .once = &c->once};
}

bool cli_command_take(struct cli_command *c, const struct cli_verb *verb, int argc, char **argv,
                      const struct option *own, void (*take)(void *arg, int opt), void *arg,
                      int *code)
{
    int end = find_command(argc, argv), opt;

    init(c, verb);
    *code = CLI_USAGE;
    while ((opt = cli_getopt(verb, end, argv, CLI_ANY_ORDER, cli_run_pick(shared, own))) != -1) {
        if (opt >= CLI_RUN_OWN)
            take(arg, opt);
        else if (!cli_common_take(&c->common, verb, opt))
            cli_run_set(verb, &c->run, opt);
    }
    if (optind < end && !c->common.name_given)
        c->common.name = argv[optind++];
    c->name = c->common.name;
    if (optind < end)
        cli_misuse(verb, "unexpected '%.40s': give one NAME, and the command after --",
                   argv[optind]);
    else if (!c->name)
        cli_misuse(verb, "missing NAME, the same on every machine");
    else if (end + 1 >= argc)
        cli_misuse(verb, "missing command: give it after --");
    else if (cli_named(verb, c->name)) {
        c->run.o.program.args = argv + end + 1;
        return true;
    }
    return false;
}

/* Nobody needs a label that stays the same here, and two commands of one machine, or of two that
 * have one name, must not be taken for one another: host, process, and random digits. */
static enum tenure_status choose_id(struct cli_command *c, struct tenure_error *err)
{
    char host[64] = "", digits[9];
    uint8_t nonce[TENURE_NONCE_SIZE];
    enum tenure_status status = tenure_nonce(nonce, err);

    if (status)
        return status;
    gethostname(host, sizeof host - 1);
    for (char *p = host; *p; p++)
        *p = *p > 0x20 && *p < 0x7f ? *p : '-';
    tn_hex_encode(nonce, 4, digits);
    snprintf(c->id, sizeof c->id, "%s-%d-%s", host[0] ? host : "host", (int)getpid(), digits);
    c->run.o.elector.id = c->id;
    return TENURE_OK;
}

bool cli_command_prepare(struct cli_command *c, int *code)
{
    struct tn_run_options *o = &c->run.o;
    struct tenure_error err;

    cli_no_core();
    o->program.env = environ;
    sigprocmask(SIG_SETMASK, NULL, &o->program.mask);
    enum tenure_status status = tn_program_check(&o->program, &err);
    if (status) {
        *code = cli_fail(c->verb, status == TENURE_DENIED ? CLI_CANNOT_RUN : CLI_NOT_FOUND, "%s",
                         err.text);
        return false;
    }
    if (choose_id(c, &err)) {
        *code = cli_fail(c->verb, CLI_BROKEN, "%s", err.text);
        return false;
    }
    *code = CLI_USAGE;
    o->elector.store = cli_store_find(c->verb, &c->common);
    tn_log_as(c->verb->name);
    tn_log_limit(o->log_level);
    if (o->elector.store)
        tn_init_split(false);
    return o->elector.store != NULL;
}

/* ---- One run ------------------------------------------------------------- */

int cli_command_run(struct cli_command *c, const char *election)
{
    static const struct tn_run_codes codes = {.failed = CLI_FAILED,
                                              .gave_up = CLI_FAILED,
                                              .usage = CLI_USAGE,
                                              .lost = CLI_LEASE_LOST,
                                              .broken = CLI_BROKEN,
                                              .cannot_run = CLI_CANNOT_RUN,
                                              .not_found = CLI_NOT_FOUND};

    c->run.o.elector.name = election;
    c->once.taken = c->once.asked = false;
    int code = tn_run(&c->run.o, &codes);
    /* A signal that came too late for this run is for what comes after it. */
    sigprocmask(SIG_SETMASK, &c->run.o.program.mask, NULL);
    return code;
}
