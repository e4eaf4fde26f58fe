/* tenure replica: a copy of a replicated state, as its file and the replica set tell. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "os/module.h"
#include "replica/module.h"

static const char help[] =
    "usage: tenure replica status --state URL [--name NAME] [--store URL] [--json]\n"
    "\n"
    "Shows the copy of a replicated state on this node (replica:, see `tenure run\n"
    "--state`): its role, its last change, how far it is behind what the replica set\n"
    "has committed, and whether it may lead.  Reads the file and the register of the\n"
    "set; the node may run or not.\n"
    "\n"
    "  --state URL         the copy, as `tenure run --state` has it\n"
    "  --store URL         the store of the lease, with the replica set\n"
    "  --name NAME         the election; TENURE_NAME sets the default\n"
    "  --json              print one JSON object: name, path, role (primary, standby,\n"
    "                      stopped), database, position, committed, documents,\n"
    "                      conflicts, eligible, why_not, lag, mode, set\n"
    "  --timeout DURATION  give up then (default 5s)\n"
    "\n"
    "Exit: 0 it may lead, 3 it may not, 1 the file or the store cannot be read, 2\n"
    "usage error or invalid URL.\n";

static const struct tn_replica_host host = {.open = tenure_store_open,
                                            .close = tenure_store_close,
                                            .read = tenure_store_read,
                                            .swap = tenure_store_swap};

static enum tenure_status read_status(const char *url, const char *store,
                                      const struct cli_common *c, char **json,
                                      struct tenure_error *err)
{
    const struct tn_replica_module *module;
    void *symbol = NULL;
    enum tenure_status status =
        tn_module_load(TN_REPLICA_MODULE, TN_REPLICA_SYMBOL, &symbol, NULL, err);

    if (status)
        return tenure_fail_context(err, "install tenure-store-replica");
    module = symbol;
    if (module->abi != TN_REPLICA_ABI)
        return tenure_fail(err, TENURE_UNSUPPORTED, TN_REPLICA_MODULE " is of another version");
    return module->status(&host, url, store, c->name, tenure_now() + c->timeout_ns, json, err);
}

static void row(const char *label, const char *format, ...) TENURE_PRINTF(2, 3);
static void row(const char *label, const char *format, ...)
{
    va_list args;

    printf("  %s%-10s%s ", cli_dim(), label, cli_plain());
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    printf("\n");
}

static long long number(const json_t *map, const char *name)
{
    return (long long)json_integer_value(json_object_get(map, name));
}

static void print(const json_t *all)
{
    const json_t *position = json_object_get(all, "position"), *set = json_object_get(all, "set");
    const char *why = json_string_value(json_object_get(all, "why_not"));

    printf("%s%s%s: %s\n", cli_bold(), json_string_value(json_object_get(all, "name")), cli_plain(),
           json_string_value(json_object_get(all, "role")));
    row("copy", "%s", json_string_value(json_object_get(all, "path")));
    row("position", "change %lld, epoch %lld", number(position, "n"), number(position, "epoch"));
    row("committed", "change %lld", number(all, "committed"));
    row("lag", "%lld changes", number(all, "lag"));
    row("documents", "%lld", number(all, "documents"));
    if (number(all, "conflicts") > 0)
        row("conflicts", "%lld: changes that a rewind gave up, kept in the file",
            number(all, "conflicts"));
    row("set", "%zu members, %s; %s, acks %lld", json_array_size(json_object_get(set, "members")),
        json_is_true(json_object_get(set, "member")) ? "this copy is one" : "this copy is not one",
        json_string_value(json_object_get(all, "mode")), number(set, "acks"));
    row("eligible", "%s%s", why ? "no: " : "yes", why ? why : "");
}

static int show(const struct cli_verb *verb, const struct cli_common *c, const char *url)
{
    const char *store = cli_store_find(verb, c);
    struct tenure_error err = {0};
    char *text = NULL;
    json_t *all;
    int code;

    if (!store)
        return CLI_USAGE;
    if (read_status(url, store, c, &text, &err))
        return cli_fail_with(verb, &err);
    all = json_loads(text, 0, NULL);
    if (c->json)
        puts(text);
    else
        print(all);
    code = json_is_true(json_object_get(all, "eligible")) ? CLI_OK : CLI_NOT_HELD;
    json_decref(all);
    free(text);
    return code;
}

static int run(const struct cli_verb *verb, int argc, char **argv)
{
    const char *url = NULL, *word = argc > 1 ? argv[1] : "";
    const struct cli_own own[] = {{"state", &url, NULL}, {0}};
    struct cli_common c;

    if (strcmp(word, "--help") != 0 && strcmp(word, "status") != 0)
        return cli_no_subcommand(verb, word, "status");
    cli_common_init(&c);
    c.absent = CLI_REFUSE;
    c.timeout_ns = INT64_C(5000000000);
    if (strcmp(word, "status") == 0) {
        argc--;
        argv++;
    }
    if (!cli_take(verb, argc, argv, own, &c))
        return CLI_USAGE;
    if (!url || strncmp(url, "replica:", 8) != 0)
        return cli_misuse(verb, "give the copy: --state replica:///PATH");
    return show(verb, &c, url);
}

const struct cli_verb cli_replica = {"replica", "show a copy of a replicated state", help, run};
