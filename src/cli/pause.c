/* tenure pause, tenure resume: automation off, and on again. */
#include <pwd.h>
#include <stdio.h>
#include <unistd.h>

#include "cli/cli.h"
#include "tenure/control.h"

static const char pause_help[] =
    "usage: tenure pause --name NAME [--store URL] [--reason TEXT] [--timeout 5s]\n"
    "\n"
    "Nobody takes over until `tenure resume`: who leads goes on leading for as long as\n"
    "it renews its lease, and if it stops, nobody leads.  `tenure status` says so.\n"
    "\n"
    "  --reason TEXT    for those who wonder\n"
    "\n"
    "Exit: 0 done, 1 the store said no, 2 usage.\n";

static const char resume_help[] = "usage: tenure resume --name NAME [--store URL] [--timeout 5s]\n"
                                  "\n"
                                  "Ends a pause: leadership can change hands again.\n"
                                  "\n"
                                  "Exit: 0 done, 1 the store said no, 2 usage.\n";

enum { OPT_REASON = CLI_OPT_OWN };

static int change(const struct cli_verb *verb, int argc, char **argv, bool pause)
{
    static const struct option options[] = {
        CLI_COMMON_OPTIONS, {"reason", required_argument, NULL, OPT_REASON}, {0}};
    const struct passwd *user = getpwuid(getuid());
    const char *reason = NULL;
    struct tenure_error err;
    struct cli_common c;
    int opt, code = CLI_OK;

    cli_common_init(&c);
    while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (opt == OPT_REASON && pause)
            reason = optarg;
        else if (!cli_common_take(&c, verb, opt))
            return CLI_USAGE;
    }
    if (!c.name || optind < argc)
        return cli_misuse(verb, "give --name NAME and nothing else");
    tenure_store *store = cli_open(verb, &c);
    if (!store)
        return CLI_FAILED;
    int64_t by = tenure_now() + c.timeout_ns;
    enum tenure_status status =
        pause ? tenure_control_pause(store, c.name, user ? user->pw_name : "", reason, by, &err)
              : tenure_control_resume(store, c.name, by, &err);
    if (status)
        code = cli_fail(verb, CLI_FAILED, "%s", err.text);
    else
        printf(pause ? "%s is paused: nobody takes over until `tenure resume`\n" : "%s goes on\n",
               c.name);
    tenure_store_close(store);
    return code;
}

static int run_pause(const struct cli_verb *verb, int argc, char **argv)
{
    return change(verb, argc, argv, true);
}

static int run_resume(const struct cli_verb *verb, int argc, char **argv)
{
    return change(verb, argc, argv, false);
}

const struct cli_verb cli_pause = {"pause", "nobody takes over", pause_help, run_pause};
const struct cli_verb cli_resume = {"resume", "end a pause", resume_help, run_resume};
