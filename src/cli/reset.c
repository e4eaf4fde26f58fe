/* tenure reset: an operator's repair of a lease that no candidate will touch. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "core/lease.h"
#include "tenure/lease.h"
#include "tenure/removal.h"

static const char help[] =
    "usage: tenure reset --name NAME [--store URL] [--epoch-above N] [--force]\n"
    "                    [--yes]\n"
    "       tenure reset --removed [--store URL] [--epoch-above N] [--force] [--yes]\n"
    "\n"
    "Replaces an unusable lease record (corrupt, or with an epoch or ttl out of\n"
    "range) by a free one with a higher epoch.  Inspect it first with `tenure\n"
    "status`.\n"
    "\n"
    "  --removed        replace instead the damaged record of the epochs of elections\n"
    "                   that `tenure remove --compact` has deleted; until then no\n"
    "                   candidate of the store begins to lead\n"
    "  --epoch-above N  make the new epoch higher than N, the highest epoch that your\n"
    "                   data has seen.  Required if the damaged record does not show\n"
    "                   its epoch\n"
    "  --force          reset it even if a candidate holds it: the holder loses\n"
    "                   leadership at once, so make sure that it is really gone;\n"
    "                   or if no epoch is known: the new one is then the time\n"
    "  --yes            do not ask; at a terminal it does\n"
    "\n"
    "Exit: 0 done, 1 refused or failed, 2 usage error or no such store.\n";

enum { OPT_EPOCH = CLI_OPT_OWN, OPT_FORCE, OPT_YES, OPT_REMOVED };

static bool parse_epoch(const char *text, uint64_t *out)
{
    char *end;

    *out = strtoull(text, &end, 10);
    return *text >= '0' && *text <= '9' && !*end && *out < (UINT64_C(1) << 53) - 2;
}

/*
 * The record, also if the store itself cannot read it: some stores can be opened
 * to see what is damaged as it is (repair=yes), and then it is one that cannot be
 * used, like any other.  What was damaged stays as long as old records do.
 */
static bool read_lease(tenure_store **store, const struct cli_common *c,
                       const struct cli_verb *verb, struct tenure_lease_view *view,
                       int64_t deadline, struct tenure_error *err)
{
    enum tenure_status status = tenure_lease_look(*store, c->name, view, deadline, err);

    if (status == TENURE_CORRUPT && cli_repair(verb, c, store, deadline))
        status = tenure_lease_look(*store, c->name, view, deadline, err);
    return status == TENURE_OK;
}

/*
 * Can the last epoch not be told?  Then the wall clock alone may be below it, and
 * what fences by epoch would prefer the leader of before (I2).
 */
static bool epoch_unknown(const struct tenure_lease_view *view)
{
    return view->state == TENURE_LEASE_REFUSED && (view->epoch == 0 || view->epoch >= TN_EPOCH_MAX);
}

/* The record of the epochs of elections that were deleted.  Nothing else knows them. */
static int reset_removed(const struct cli_verb *verb, const struct cli_common *c, bool known,
                         uint64_t at_least, bool yes)
{
    struct tenure_error err;
    uint64_t epoch;
    int code;
    tenure_store *store = cli_open(verb, c, &code);

    if (!store)
        return code;
    code = CLI_FAILED;
    int64_t deadline = tenure_now() + c->timeout_ns;
    enum tenure_status status = tenure_compaction_check(store, &epoch, deadline, &err);
    if (status == TENURE_OK) {
        cli_fail(verb, 0, "the record of removed elections is not damaged; nothing to reset");
    } else if (status != TENURE_CORRUPT) {
        cli_fail(verb, 0, "%s", err.text);
    } else if (!known) {
        cli_fail(
            verb, 0,
            "the epochs of removed elections cannot be read; give --epoch-above N, the highest "
            "that your data has seen, or --force to go by the time and by what is left in the "
            "store");
    } else if (cli_may_ask() &&
               !cli_confirm(verb, yes, "Replace the record of removed elections?")) {
        cli_fail(verb, 0, "it was not reset");
    } else {
        cli_repair(verb, c, &store, deadline);
        status = tenure_compaction_repair(store, at_least, &epoch, deadline, &err);
        code = status ? cli_fail(verb, CLI_FAILED, "%s", err.text) : CLI_OK;
        if (!status)
            printf("every election begins above epoch %" PRIu64 "\n", epoch);
    }
    tenure_store_close(store);
    return code;
}

static int run(const struct cli_verb *verb, int argc, char **argv)
{
    static const struct option options[] = {CLI_COMMON_OPTIONS,
                                            {"epoch-above", required_argument, NULL, OPT_EPOCH},
                                            {"force", no_argument, NULL, OPT_FORCE},
                                            {"yes", no_argument, NULL, OPT_YES},
                                            {"removed", no_argument, NULL, OPT_REMOVED},
                                            {0}};
    struct tenure_lease_view view = TENURE_LEASE_VIEW;
    struct tenure_error err;
    struct cli_common c;
    bool force = false, above = false, yes = false, removed = false;
    uint64_t at_least = 0, epoch = 0;
    int opt, code;

    cli_common_init(&c);
    const char *from_env = c.name;
    c.absent = CLI_REFUSE;
    while ((opt = cli_getopt(verb, argc, argv, CLI_ANY_ORDER, options)) != -1) {
        if (opt == OPT_FORCE)
            force = true;
        else if (opt == OPT_YES)
            yes = true;
        else if (opt == OPT_REMOVED)
            removed = true;
        else if (opt == OPT_EPOCH && !parse_epoch(optarg, &at_least))
            return cli_misuse(verb, "--epoch-above '%.40s': give an epoch, a whole number", optarg);
        else if (opt == OPT_EPOCH)
            above = true;
        else
            cli_common_take(&c, verb, opt);
    }
    if (removed && (c.name != from_env || optind < argc))
        return cli_misuse(verb, "give --name NAME or --removed, not both");
    if (removed)
        return reset_removed(verb, &c, above || force, at_least, yes);
    if (!c.name || optind < argc)
        return cli_misuse(verb, "give --name NAME, or --removed, and nothing else");
    if (!cli_named(verb, c.name))
        return CLI_USAGE;
    tenure_store *store = cli_open(verb, &c, &code);
    if (!store)
        return code;
    code = CLI_FAILED;
    int64_t deadline = tenure_now() + c.timeout_ns;
    if (!read_lease(&store, &c, verb, &view, deadline, &err)) {
        cli_fail(verb, 0, "%s", err.text);
    } else if (view.state == TENURE_LEASE_ABSENT) {
        cli_fail(verb, 0, "%s has no lease record; nothing to reset", c.name);
    } else if (view.state == TENURE_LEASE_HELD && !force) {
        cli_fail(verb, 0, "%s is held by %s; --force resets it anyway", c.name, view.holder);
    } else if (epoch_unknown(&view) && !above && !force) {
        cli_fail(verb, 0,
                 "the last epoch of %s cannot be read from its record; give --epoch-above N, the "
                 "highest that your data has seen, or --force to go by the time alone",
                 c.name);
    } else if (cli_may_ask() &&
               !cli_confirm(verb, yes, "Replace the lease record of %s%s%s?", c.name,
                            view.holder[0] ? ", held by " : "", view.holder)) {
        cli_fail(verb, 0, "%s was not reset", c.name);
    } else if (tenure_lease_reset(store, c.name, &view, at_least, &epoch, deadline, &err)) {
        cli_fail(verb, 0, "%s", err.text);
    } else {
        printf("%s is free, epoch %" PRIu64 "\n", c.name, epoch);
        code = CLI_OK;
    }
    tenure_store_close(store);
    return code;
}

const struct cli_verb cli_reset = {"reset", "replace an unusable lease record", help, run};
