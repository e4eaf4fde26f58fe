/* tenure store: what a store needs from those who own the server. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

static const char help[] =
    "usage: tenure store schema [--store URL] [--role ROLE]\n"
    "\n"
    "Prints what an owner of the database runs once, if the candidates' own role may\n"
    "not create it.  Nothing is connected to, and nothing is changed:\n"
    "\n"
    "    tenure store schema --store postgres:// --role app | psql -d app\n"
    "\n"
    "  --store URL  which store; only its kind and its schema= matter here\n"
    "  --role ROLE  also the rights that this role needs\n"
    "\n"
    "Exit: 0 done, 1 this kind of store needs nothing, 2 usage.\n";

enum { OPT_ROLE = CLI_OPT_OWN };

static int run(const struct cli_verb *verb, int argc, char **argv)
{
    static const struct option options[] = {
        CLI_COMMON_OPTIONS, {"role", required_argument, NULL, OPT_ROLE}, {0}};
    const char *role = NULL;
    struct tenure_error err;
    struct cli_common c;
    char *text = NULL;
    int opt;

    cli_common_init(&c);
    while ((opt = cli_getopt(verb, argc, argv, CLI_ANY_ORDER, options)) != -1) {
        if (opt == OPT_ROLE)
            role = optarg;
        else
            cli_common_take(&c, verb, opt);
    }
    if (optind != argc - 1 || strcmp(argv[optind], "schema") != 0)
        return cli_misuse(verb, "say 'schema': there is nothing else to do with a store yet");
    if (tenure_store_schema(c.store ? c.store : "postgres://", role, &text, &err) != TENURE_OK)
        return cli_fail_with(verb, &err);
    fputs(text, stdout);
    free(text);
    return CLI_OK;
}

const struct cli_verb cli_store = {"store", "print what a database store needs", help, run};
