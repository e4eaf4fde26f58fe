/* tenure candidates: who stands by. */
#include <stdio.h>
#include <string.h>

#include "cli/show/show.h"

static const char help[] =
    "usage: tenure candidates --name NAME [--store URL] [--timeout 5s] [--json]\n"
    "\n"
    "Lists the candidates as they last announced themselves, pings all of them, and\n"
    "shows which ones answer within half a second.\n"
    "\n"
    "Exit: 0 done, 1 the store refused the request, 2 usage error or no such store.\n";

struct listing {
    bool json;
    const char *request;
    json_t *array;
    unsigned n;
    struct tenure_lease_view lease;
};

static bool show(void *arg, const struct tenure_candidate *c)
{
    struct listing *l = arg;
    bool answers = l->request[0] && strcmp(c->answer, l->request) == 0;
    const char *role = cli_role(c, &l->lease);

    l->n++;
    if (l->json) {
        json_t *object = cli_candidate_json(c, &l->lease);

        json_object_set_new(object, "answers", json_boolean(answers));
        json_array_append_new(l->array, object);
        return true;
    }
    printf("%s%-24s%s %-10s %s%-7s%s priority %-4d %s%s%s\n",
           strcmp(role, "leading") == 0 ? cli_green() : cli_bold(), c->id, cli_plain(), role,
           answers ? "" : cli_red(), answers ? "answers" : "silent", cli_plain(), (int)c->priority,
           c->contain, c->trouble[0] ? "; " : "", c->trouble);
    return true;
}

static int run(const struct cli_verb *verb, int argc, char **argv)
{
    tenure_store *store = NULL;
    struct listing l = {.lease = TENURE_LEASE_VIEW};
    char request[33] = "";
    struct tenure_error err;
    struct cli_common c;
    int code;

    cli_common_init(&c);
    c.absent = CLI_REFUSE;
    if (!cli_begin(verb, argc, argv, NULL, &c, &store, &code))
        return code;
    l.json = c.json;
    l.array = json_array();
    l.request = request;
    code = CLI_OK;
    int64_t by = tenure_now() + c.timeout_ns;
    if (tenure_control_ping(store, c.name, tenure_now() + 500 * INT64_C(1000000), request, &err) ||
        cli_lease_look(store, c.name, &l.lease, by, &err) ||
        tenure_candidates(store, c.name, show, &l, by, &err))
        code = cli_fail_with(verb, &err);
    else if (c.json)
        code = cli_print_json(json_incref(l.array));
    else if (l.n == 0)
        printf("%s has no candidates\n", c.name);
    json_decref(l.array);
    tenure_store_close(store);
    return code;
}

const struct cli_verb cli_candidates = {"candidates", "list the candidates", help, run};
