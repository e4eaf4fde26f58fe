/* tenure store: what a store needs from those who own the server. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

static const char help[] =
    "usage: tenure store options [--store URL]\n"
    "       tenure store schema [--store URL] [--role ROLE]\n"
    "\n"
    "options prints what the URL of such a store may say behind '?'.\n"
    "\n"
    "schema prints the SQL that the database's owner runs once if the candidates' own\n"
    "role may not create tables.  Neither connects to anything or changes anything:\n"
    "\n"
    "    tenure store schema --store postgres:// --role app | psql -d app\n"
    "\n"
    "  --store URL  the store; only its kind and schema= matter here\n"
    "  --role ROLE  also grant this role the rights that it needs\n"
    "\n"
    "Exit: 0 done, 1 this kind of store needs no schema, 2 usage error.\n";

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
    const char *what = optind == argc - 1 ? argv[optind] : "";
    bool schema = strcmp(what, "schema") == 0;
    if (!schema && (strcmp(what, "options") != 0 || role))
        return cli_no_subcommand(verb, what, "options schema");
    if (!c.store)
        c.store = schema ? "postgres://" : "sqlite:";
    if ((schema ? tenure_store_schema(c.store, role, &text, &err)
                : tenure_store_options(c.store, &text, &err)) != TENURE_OK)
        return cli_fail_with(verb, &err);
    fputs(text, stdout);
    free(text);
    return CLI_OK;
}

const struct cli_verb cli_store = {"store", "print the options of a store URL, or its schema", help,
                                   run};
