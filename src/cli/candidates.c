/* tenure candidates: who stands by. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "tenure/control.h"

static const char help[] =
    "usage: tenure candidates --name NAME [--store URL] [--timeout 5s] [--json]\n"
    "\n"
    "Lists the candidates as they last announced themselves; asks all of them, and\n"
    "shows who answers within half a second.\n"
    "\n"
    "Exit: 0, 1 the store said no, 2 usage.\n";

struct listing {
    bool json;
    const char *request;
    json_t *array;
    unsigned n;
};

static bool show(void *arg, const struct tenure_candidate *c)
{
    struct listing *l = arg;
    bool answers = l->request[0] && strcmp(c->answer, l->request) == 0;

    l->n++;
    if (l->json) {
        json_array_append_new(l->array,
                              json_pack("{s:s, s:s, s:b, s:b, s:i, s:s, s:s, s:s, s:s, s:s}", "id",
                                        c->id, "state", c->state, "answers", (int)answers,
                                        "healthy", (int)c->healthy, "priority", (int)c->priority,
                                        "build", c->build, "address", c->address, "contain",
                                        c->contain, "since", c->since, "trouble", c->trouble));
        return true;
    }
    printf("%s%-24s%s %-10s %s%-7s%s priority %-4d %s%s%s\n",
           strcmp(c->state, "leading") == 0 ? cli_green() : cli_bold(), c->id, cli_plain(),
           c->state, answers ? "" : cli_red(), answers ? "answers" : "silent", cli_plain(),
           (int)c->priority, c->contain, c->trouble[0] ? "; " : "", c->trouble);
    return true;
}

static int run(const struct cli_verb *verb, int argc, char **argv)
{
    static const struct option options[] = {CLI_COMMON_OPTIONS, {0}};
    struct listing l = {0};
    char request[33] = "";
    struct tenure_error err;
    struct cli_common c;
    int opt, code = CLI_OK;

    cli_common_init(&c);
    while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (!cli_common_take(&c, verb, opt))
            return CLI_USAGE;
    }
    if (!c.name || optind < argc)
        return cli_misuse(verb, "give --name NAME and nothing else");
    tenure_store *store = cli_open(verb, &c);
    if (!store)
        return CLI_FAILED;
    l.json = c.json;
    l.array = json_array();
    l.request = request;
    int64_t by = tenure_now() + c.timeout_ns;
    if (tenure_control_ping(store, c.name, tenure_now() + 500 * INT64_C(1000000), request, &err) ||
        tenure_candidates(store, c.name, show, &l, by, &err)) {
        code = cli_fail(verb, CLI_FAILED, "%s", err.text);
    } else if (c.json) {
        json_dumpf(l.array, stdout, JSON_COMPACT);
        putchar('\n');
    } else if (l.n == 0) {
        printf("%s has no candidates\n", c.name);
    }
    json_decref(l.array);
    tenure_store_close(store);
    return code;
}

const struct cli_verb cli_candidates = {"candidates", "list who stands by", help, run};
