/* tenure remove: an election goes, with all that is kept of it. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/key.h"
#include "base/rfc3339.h"
#include "cli/show/show.h"
#include "cron/record.h"
#include "os/clock.h"
#include "tenure/elections.h"
#include "tenure/removal.h"
#include "tenure/state.h"

static const char help[] =
    "usage: tenure remove NAME [--store URL] [--state URL] [--yes] [--dry-run]\n"
    "                     [--timeout 60s] [--json]\n"
    "       tenure remove --all-retired AGE [--store URL] [--state URL] [--yes]\n"
    "                     [--dry-run] [--timeout 60s] [--json]\n"
    "       tenure remove --compact [--older-than AGE] [--store URL] [--timeout 60s]\n"
    "                     [--json]\n"
    "\n"
    "Erases an election or a lock: its history, candidates, control record, state and\n"
    "lease.  Refused while a candidate contends or the lease is held; a lease whose\n"
    "holder is gone is waited out.  What stays is a record of a few bytes with the\n"
    "last epoch: if the name is used again, its epochs go on from there.  --compact\n"
    "deletes those records as well.\n"
    "\n"
    "  --all-retired AGE  every election whose lease was last renewed more than AGE\n"
    "                     (30d) ago, by the wall clocks; kept are those in use,\n"
    "                     paused ones, and those of `tenure cron` and `tenure once`,\n"
    "                     which would run again what they have run\n"
    "  --compact          delete the records of elections that were removed before;\n"
    "                     their epochs are kept in one record for all.  Not in stores\n"
    "                     that cannot delete on a condition, and not those of a state\n"
    "  --older-than AGE   only of those that were removed at least AGE ago (1d)\n"
    "  --state URL        where the state is, if it has a store of its own\n"
    "  --yes              do not ask; required unless standard input is a terminal\n"
    "  --dry-run          only show what would be erased\n"
    "  --timeout TIME     for each election, the wait for its lease included\n"
    "\n"
    "Exit: 0 done; 1 refused or failed; 2 usage error or no such store; 3 no such\n"
    "      election.\n";

struct call {
    const struct cli_verb *verb;
    struct cli_common common;
    const char *url;
    const char *state;
    bool yes, dry_run;
    json_t *removed, *kept;
};

/* ---- What it is still good for ------------------------------------------- */

/* Nobody holds it, and yet it does something. */
struct use {
    bool paused;    /* so that nobody leads */
    bool periods;   /* of `tenure cron` and `tenure once`, so that none runs twice */
    char text[240]; /* the same in words; "" */
};

static bool find_period(void *arg, const char *id, const struct tenure_document *document,
                        const char *damage)
{
    (void)id;
    (void)document;
    (void)damage; /* nobody runs what may have been run */
    *(bool *)arg = true;
    return false;
}

static enum tenure_status find_use(const struct call *c, const char *name, struct use *use,
                                   struct tenure_error *err)
{
    int64_t by = tenure_now() + c->common.timeout_ns;
    struct tenure_control control = TENURE_CONTROL;
    tenure_store *store = NULL;
    tenure_state *state = NULL;
    enum tenure_status status = tenure_store_open(c->url, by, &store, err);

    memset(use, 0, sizeof *use);
    if (!status)
        status = tenure_control_look(store, name, &control, by, err);
    use->paused = control.paused || status == TENURE_CORRUPT; /* as the candidates take it */
    tenure_store_close(store);
    if (!status || status == TENURE_CORRUPT)
        status = tenure_state_open(c->url, name, NULL, by, &state, err);
    if (!status)
        status = tenure_state_list(state, TN_CRON_COLLECTION, find_period, &use->periods, by, err);
    if (!status)
        status = tenure_state_list(state, TN_ONCE_COLLECTION, find_period, &use->periods, by, err);
    tenure_state_close(state);
    snprintf(use->text, sizeof use->text, "%s%s%s%s%s", use->paused ? "it is paused" : "",
             control.paused_by[0] && use->paused ? " by " : "",
             use->paused ? control.paused_by : "", use->paused && use->periods ? "; " : "",
             use->periods ? "`tenure cron` or `tenure once` would run again what it has run" : "");
    return status;
}

/* ---- One ----------------------------------------------------------------- */

static enum tenure_status remove_one(const struct call *c, const char *name, bool dry_run,
                                     struct tenure_removal *result, struct tenure_error *err)
{
    struct tenure_removal_options o = TENURE_REMOVAL_OPTIONS;

    o.store = c->url;
    o.state = c->state;
    o.name = name;
    o.dry_run = dry_run;
    return tenure_remove(&o, result, tenure_now() + c->common.timeout_ns, err);
}

static void describe(const struct tenure_removal *r, const struct use *use, char out[400])
{
    snprintf(out, 400,
             "its lease%s, %" PRIu64 " candidate record%s and %" PRIu64 " document%s%s%s%s",
             r->history ? " and history" : "", r->candidates, r->candidates == 1 ? "" : "s",
             r->documents, r->documents == 1 ? "" : "s", use->text[0] ? " (" : "", use->text,
             use->text[0] ? ")" : "");
}

static json_t *to_json(const char *name, const struct tenure_removal *r, const struct use *use)
{
    return json_pack("{s:s, s:I, s:I, s:I, s:b, s:b, s:b, s:b}", "name", name, "epoch",
                     (json_int_t)r->epoch, "candidates", (json_int_t)r->candidates, "documents",
                     (json_int_t)r->documents, "history", (int)r->history, "control",
                     (int)r->control, "paused", (int)use->paused, "periods", (int)use->periods);
}

/* Shows first what would go, and asks.  The status of what was done, or not.  One that was named is
 * erased whatever it is good for. */
static enum tenure_status ask_and_remove(struct call *c, const char *name, bool named,
                                         struct tenure_error *err)
{
    struct tenure_removal r = TENURE_REMOVAL;
    struct use use;
    enum tenure_status status = find_use(c, name, &use, err);
    char what[400];

    if (!status && use.text[0] && !named)
        status = tenure_fail(err, TENURE_CONFLICT, "%s: %s; `tenure remove %s` erases it", name,
                             use.text, name);
    if (!status)
        status = remove_one(c, name, true, &r, err);
    if (status)
        return status;
    describe(&r, &use, what);
    if (!c->yes && !c->dry_run && !cli_may_ask())
        return tenure_fail(err, TENURE_INVALID,
                           "what is erased cannot be restored: confirm with --yes, or look first "
                           "with --dry-run");
    if (!c->dry_run && !cli_confirm(c->verb, c->yes, "Erase %s: %s?", name, what))
        return tenure_fail(err, TENURE_CANCELLED, "%s was not erased", name);
    if (!c->dry_run)
        status = remove_one(c, name, false, &r, err);
    if (status)
        return status;
    json_array_append_new(c->removed, to_json(name, &r, &use));
    if (!c->common.json)
        printf("%s%s%s: %s%s; epochs go on above %" PRIu64 "\n", cli_bold(), name, cli_plain(),
               c->dry_run ? "would erase " : "erased ", what, r.epoch);
    return TENURE_OK;
}

/* ---- All ----------------------------------------------------------------- */

/* Nobody has renewed it for so long, as far as the clocks of two machines can tell. */
static bool is_retired(const struct tenure_lease_view *lease, int64_t age_ms)
{
    uint64_t at;

    return (lease->state == TENURE_LEASE_FREE || lease->state == TENURE_LEASE_HELD) &&
           tn_rfc3339_parse(lease->renewed_at, &at) && at + (uint64_t)age_ms <= tn_wall_ms();
}

static enum tenure_status list_all(const struct call *c, struct cli_rows *rows,
                                   struct tenure_error *err)
{
    int64_t by = tenure_now() + c->common.timeout_ns;
    tenure_store *store = NULL;
    enum tenure_status status = tenure_store_open(c->url, by, &store, err);

    if (!status)
        status = cli_rows_again(rows, store, NULL, by, err);
    tenure_store_close(store);
    return status;
}

static int remove_retired(struct call *c, int64_t age_ms)
{
    struct cli_rows rows = {0};
    struct tenure_error err;
    int code = CLI_OK;

    enum tenure_status status = list_all(c, &rows, &err);
    if (status)
        return cli_fail_with(c->verb, &err);
    for (size_t i = 0; i < rows.n; i++) {
        const struct tenure_election *e = &rows.row[i].election;

        if (!is_retired(&e->lease, age_ms))
            continue;
        status = ask_and_remove(c, e->name, false, &err);
        if (!status)
            continue;
        if (status == TENURE_INVALID) {
            code = cli_fail_with(c->verb, &err);
            break;
        }
        json_array_append_new(c->kept, json_pack("{s:s, s:s}", "name", e->name, "why", err.text));
        /* In use, or good for something, is what is not retired: no failure. */
        if (status != TENURE_CONFLICT && status != TENURE_CANCELLED)
            code = CLI_FAILED;
        cli_fail(c->verb, 0, "kept: %s", err.text);
    }
    if (!json_array_size(c->removed) && !json_array_size(c->kept) && !c->common.json)
        puts("no election is retired");
    cli_rows_free(&rows);
    return code;
}

/* The other holders of a lock that several may hold are elections of their own (base/key.h). */
static enum tenure_status remove_holders(struct call *c, struct tenure_error *err)
{
    char prefix[TENURE_KEY_MAX + 1];
    struct cli_rows rows = {0};
    enum tenure_status status = list_all(c, &rows, err);

    tn_key_of(c->common.name, TN_KEY_HOLDERS, prefix);
    for (size_t i = 0; i < rows.n && !status; i++) {
        if (strncmp(rows.row[i].election.name, prefix, strlen(prefix)) == 0)
            status = ask_and_remove(c, rows.row[i].election.name, true, err);
    }
    cli_rows_free(&rows);
    return status;
}

static int remove_named(struct call *c)
{
    struct tenure_error err;
    enum tenure_status status = remove_holders(c, &err);

    if (!status)
        status = ask_and_remove(c, c->common.name, true, &err);
    if (status == TENURE_NOT_LEADER)
        return json_array_size(c->removed) ? CLI_OK
                                           : cli_fail(c->verb, CLI_NOT_HELD, "%s", err.text);
    return status ? cli_fail_with(c->verb, &err) : CLI_OK;
}

/* ---- What is left of them ------------------------------------------------ */

#define OLDER_THAN "1d"

static int compact(struct call *c, const char *older_than)
{
    struct tenure_compaction r = TENURE_COMPACTION;
    struct tenure_error err;
    int64_t age_ns = cli_duration(c->verb, "--older-than", older_than ? older_than : OLDER_THAN);
    enum tenure_status status =
        tenure_compact(c->url, age_ns / 1000000, &r, tenure_now() + c->common.timeout_ns, &err);

    if (status && r.registers)
        fprintf(stderr, "tenure remove: deleted %" PRIu64 " record%s before it failed\n",
                r.registers, r.registers == 1 ? "" : "s");
    if (status)
        return cli_fail_with(c->verb, &err);
    if (c->common.json)
        return cli_print_json(json_pack("{s:I, s:I, s:I}", "elections", (json_int_t)r.elections,
                                        "registers", (json_int_t)r.registers, "waiting",
                                        (json_int_t)r.waiting))
                   ? CLI_FAILED
                   : CLI_OK;
    printf("deleted what was left of %" PRIu64 " removed election%s (%" PRIu64 " record%s)\n",
           r.elections, r.elections == 1 ? "" : "s", r.registers, r.registers == 1 ? "" : "s");
    if (r.waiting)
        printf("kept that of %" PRIu64
               ": removed less than %s ago, or near the end of the epochs\n",
               r.waiting, older_than ? older_than : OLDER_THAN);
    return CLI_OK;
}

/* ---- The verb ------------------------------------------------------------ */

static int run(const struct cli_verb *verb, int argc, char **argv)
{
    struct call c = {.verb = verb};
    const char *age = NULL, *older_than = NULL;
    bool compacts = false;
    const struct cli_own own[] = {{"all-retired", &age, NULL},
                                  {"state", &c.state, NULL},
                                  {"yes", NULL, &c.yes},
                                  {"dry-run", NULL, &c.dry_run},
                                  {"compact", NULL, &compacts},
                                  {"older-than", &older_than, NULL},
                                  {0}};
    int64_t age_ns = 0;

    cli_common_init(&c.common);
    const char *from_env = c.common.name;
    c.common.timeout_ns = INT64_C(60000000000);
    c.common.absent = CLI_REFUSE;
    c.common.any = true;
    if (!cli_take(verb, argc, argv, own, &c.common))
        return CLI_USAGE;
    if (older_than && !compacts)
        return cli_misuse(verb, "--older-than goes with --compact");
    if (compacts) {
        if (c.common.name != from_env || age || c.state || c.dry_run)
            return cli_misuse(verb, "--compact goes with --older-than, and with nothing else");
    } else if (age) {
        age_ns = cli_duration(verb, "--all-retired", age);
        if (c.common.name != from_env)
            return cli_misuse(verb, "give a NAME or --all-retired, not both");
    } else if (!c.common.name) {
        return cli_misuse(verb, "missing NAME, --all-retired AGE or --compact");
    }
    c.url = cli_store_find(verb, &c.common);
    if (!c.url)
        return CLI_USAGE;
    if (compacts)
        return compact(&c, older_than);
    c.removed = json_array();
    c.kept = json_array();
    int code = age ? remove_retired(&c, age_ns / 1000000) : remove_named(&c);
    json_t *all = json_pack("{s:b, s:o, s:o}", "dry_run", (int)c.dry_run, "removed", c.removed,
                            "kept", c.kept);
    if (!c.common.json || (code && !age))
        json_decref(all);
    else if (cli_print_json(all))
        code = CLI_FAILED;
    return code;
}

const struct cli_verb cli_remove = {"remove", "erase an election and what is kept of it", help,
                                    run};
