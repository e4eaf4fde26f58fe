/* tenure lock: acquire, run a command once, release. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/duration.h"
#include "base/name.h"
#include "cli/command.h"
#include "cli/lock/places.h"

static const char help[] =
    "usage: tenure lock NAME [--store URL] [--try | --wait 10s] [--holders N]\n"
    "                   [options] -- COMMAND [ARGUMENT ...]\n"
    "\n"
    "Acquires the lock NAME, runs COMMAND once, releases the lock and exits with\n"
    "COMMAND's code.  COMMAND is guarded as in `tenure run`: if the lease is lost it\n"
    "is ended before anybody else can have it, and it is never started again.\n"
    "Default store: an SQLite file in your state directory, for this machine only.\n"
    "\n"
    "  --try                do not wait: exit with code 75 if the lock is held\n"
    "  --wait 10s           wait this long, then exit with code 75; default: for ever\n"
    "  --conflict-exit-code 75  another code for that, 0 to 255\n"
    "  --holders N          let up to N (1 to 64) hold it at once; same N everywhere\n"
    "  --name NAME          instead of the argument\n"
    "\n" CLI_COMMAND_HELP "\n"
    "COMMAND gets TENURE_NAME, TENURE_ID, TENURE_EPOCH and TENURE_PLACE (1 to N).\n"
    "\n"
    "Exit: COMMAND's code (128 + n for a signal); 75 somebody else holds the lock;\n"
    "      122 the lease was lost, and COMMAND ended; 1 the store refused or did not\n"
    "      answer; 2 usage error or impossible settings; 125 tenure itself failed;\n"
    "      126 COMMAND cannot be executed; 127 COMMAND was not found; 128 + n tenure\n"
    "      was ended by signal n while it waited.\n";

enum { OPT_TRY = CLI_RUN_OWN, OPT_WAIT, OPT_CONFLICT, OPT_HOLDERS };

/* How long a place is contended for whose holder is silent: W of the others' rule, and a bit. */
#define SILENT_TTLS 2

struct lock {
    struct cli_command command;
    bool try, waits;
    int64_t wait_ns;
    int64_t until_ns;
    int holders;
    int code_taken;
};

static int number(const struct lock *l, const char *option, int min, int max)
{
    char *end;
    long n = strtol(optarg, &end, 10);

    if (!*optarg || *end || n < min || n > max)
        exit(cli_misuse(l->command.verb, "%s '%.40s': give a number from %d to %d", option, optarg,
                        min, max));
    return (int)n;
}

static void take_option(void *arg, int opt)
{
    struct lock *l = arg;

    switch (opt) {
    case OPT_TRY:
        l->try = true;
        break;
    case OPT_WAIT:
        l->waits = true;
        l->wait_ns = cli_duration(l->command.verb, "--wait", optarg);
        break;
    case OPT_CONFLICT:
        l->code_taken = number(l, "--conflict-exit-code", 0, 255);
        break;
    default:
        l->holders = number(l, "--holders", 1, TN_KEY_HOLDERS_MAX);
        break;
    }
}

/* One election: try, or wait until then. */
static int contend(struct lock *l, unsigned place, bool try_only, int64_t until_ns)
{
    static char variable[32], election[TENURE_KEY_MAX + 1];
    static const char *env[] = {variable, NULL};
    struct tn_once *once = &l->command.once;

    snprintf(variable, sizeof variable, "TENURE_PLACE=%u", place);
    tn_key_holder(l->command.name, place, election);
    *once = (struct tn_once){.try_only = try_only,
                             .quiet = l->holders > 1,
                             .must_return = l->holders > 1,
                             .until_ns = until_ns,
                             .code_taken = l->code_taken,
                             .env = env};
    return cli_command_run(&l->command, election);
}

/* The answer to a try comes with the store's; what takes longer than a request may is a failure. */
static int contend_for_one(struct lock *l)
{
    return contend(l, 1, l->try,
                   l->try ? tenure_now() + l->command.common.timeout_ns : l->until_ns);
}

/* Find a place that looks free, or wait until then.  0: *code is the exit code.  The store is open
 * no longer than that: the command may run for days. */
static unsigned find_place(struct lock *l, struct cli_places *places, bool *silent, int *code)
{
    const struct cli_command *c = &l->command;
    struct tenure_error err;
    unsigned found = 0;

    places->store = cli_open(c->verb, &c->common, code);
    while (places->store) {
        int64_t by = tenure_now() + c->common.timeout_ns;
        enum tenure_status status = cli_places_choose(places, &found, silent, by, &err);
        bool over = l->try || tenure_now() >= l->until_ns;

        if (status && (over || tenure_status_class(status) != TENURE_CLASS_TRANSIENT)) {
            *code = cli_fail_with(c->verb, &err);
            break;
        }
        if (found == 0 && over)
            *code =
                cli_fail(c->verb, l->code_taken, "%s: all %d places are held", c->name, l->holders);
        if (found || over)
            break;
        cli_places_wait(places, l->until_ns);
    }
    tenure_store_close(places->store);
    return found;
}

static int contend_for_any(struct lock *l)
{
    static struct cli_places places;

    cli_places_init(&places, l->command.name, (unsigned)l->holders);
    for (;;) {
        bool silent;
        int code;
        unsigned found = find_place(l, &places, &silent, &code);

        if (found == 0)
            return code;
        /* A free one is had at once or not at all. */
        int64_t ttl_ns = places.place[found - 1].view.ttl_ms * INT64_C(1000000);
        int64_t until =
            tenure_now() + (silent ? SILENT_TTLS * ttl_ns : l->command.common.timeout_ns);
        if (silent && until > l->until_ns)
            until = l->until_ns;
        code = contend(l, found, !silent, until);
        if (!l->command.once.taken || code != l->code_taken)
            return code;
    }
}

static int run(const struct cli_verb *verb, int argc, char **argv)
{
    static const struct option own[] = {
        {"try", no_argument, NULL, OPT_TRY},
        {"wait", required_argument, NULL, OPT_WAIT},
        {"conflict-exit-code", required_argument, NULL, OPT_CONFLICT},
        {"holders", required_argument, NULL, OPT_HOLDERS},
        {0}};
    static struct lock l = {.holders = 1, .code_taken = CLI_TAKEN};
    char last[TENURE_KEY_MAX + 1];
    int code;

    l.command.verb = verb;
    if (!cli_command_take(&l.command, verb, argc, argv, own, take_option, &l, &code))
        return code;
    if (l.try && l.waits)
        return cli_misuse(verb, "give --try or --wait, not both");
    tn_key_holder(l.command.name, (unsigned)l.holders, last);
    if (tn_name_fault(last))
        return cli_misuse(verb, "'%.100s' is too long a name for so many holders", l.command.name);
    l.try = l.try || (l.waits && l.wait_ns == 0);
    l.until_ns = l.waits && !l.try ? tenure_now() + l.wait_ns : TN_NEVER;
    if (!cli_command_prepare(&l.command, &code))
        return code;
    return l.holders == 1 ? contend_for_one(&l) : contend_for_any(&l);
}

const struct cli_verb cli_lock = {"lock", "run a command once, while holding a lock", help, run};
