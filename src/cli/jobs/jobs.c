/* tenure jobs: what an operator does to a group of jobs. */
#include "cli/jobs/jobs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/name.h"
#include "config/keys.h"

static const char help[] =
    "usage: tenure jobs add     --group NAME ID ... [--weight N] [--require k=v,...]\n"
    "                           [--prefer k=v,...] [--spec FILE]\n"
    "       tenure jobs import  --group NAME FILE\n"
    "       tenure jobs list    --group NAME [--json]\n"
    "       tenure jobs explain --group NAME ID [--json]\n"
    "       tenure jobs pause   --group NAME ID ... | --all [--wait]\n"
    "       tenure jobs resume  --group NAME ID ... | --all\n"
    "       tenure jobs remove  --group NAME ID ... [--yes]\n"
    "       tenure jobs weigh   --group NAME ID ... --weight N\n"
    "       tenure jobs move    --group NAME ID ... --to WORKER\n"
    "       tenure jobs unpin   --group NAME ID ...\n"
    "       tenure jobs workers --group NAME [--json]\n"
    "       tenure jobs drain   --group NAME WORKER [--undo]\n"
    "       tenure jobs evict   --group NAME WORKER [--yes]\n"
    "       tenure jobs admit   --group NAME WORKER\n"
    "       tenure jobs plan    --group NAME [--if-leaves WORKER] [--json]\n"
    "       tenure jobs watch   --group NAME [--json]\n"
    "       tenure jobs history --group NAME [ID | --worker WORKER] [--limit N]\n"
    "                           [--json]\n"
    "       tenure jobs repair  --group NAME [--json] [--yes]\n"
    "\n"
    "Manages a group of jobs, each of which one worker of the group runs at a time.\n"
    "Also takes --store URL and --timeout 60s; TENURE_STORE and TENURE_GROUP set the\n"
    "defaults.  Only add and import create a store that does not exist yet.  Every\n"
    "action can be repeated: a repeated one completes what an interrupted one left.\n"
    "\n"
    "  --weight N   how heavy a job is, 1 to 1000 (default 1)\n"
    "  --require    labels that a worker must have to run the job\n"
    "  --prefer     labels that make a worker the better choice\n"
    "  --spec FILE  what the job is, for the program that runs it ('-': stdin)\n"
    "  --all        every job of the group\n"
    "  --wait       pause: wait until no worker has the jobs\n"
    "  --to WORKER  move: the only worker that may run the jobs, until unpin\n"
    "  --undo       drain: the worker takes jobs again\n"
    "  --if-leaves  plan: what would move if this worker left\n"
    "  --worker     history: what this worker did\n"
    "  --limit N    history: the last N events (default 100; 0: all)\n"
    "  --yes        remove, evict, repair: do not ask; at a terminal they do\n"
    "\n"
    "import reads YAML or JSON: a list of jobs with id, weight, require, prefer, pin,\n"
    "spec.  A pause is confirmed when no worker has the job, and holds until resume.\n"
    "remove waits for the worker that has the job, and keeps the job's epoch.  evict\n"
    "frees a worker's jobs when its lease has run out, never earlier.\n"
    "\n"
    "Exit: 0 done; 1 refused or failed; 2 usage error, or no such job, worker or\n"
    "      store; 3 pause --wait, remove: a worker still has a job.\n";

enum {
    OPT_GROUP = CLI_OPT_OWN,
    OPT_WEIGHT,
    OPT_REQUIRE,
    OPT_PREFER,
    OPT_SPEC,
    OPT_TO,
    OPT_LEAVES,
    OPT_WORKER,
    OPT_LIMIT,
    OPT_WAIT,
    OPT_UNDO,
    OPT_ALL,
    OPT_YES
};

#define STILL_OWNED  CLI_NOT_HELD
#define LAST_LOOK_NS INT64_C(10000000000) /* after the time to wait is over */

int cli_jobs_fail(const struct cli_jobs *j, const struct tenure_error *err)
{
    return cli_fail_with(j->verb, err);
}

/* ---- Actions ------------------------------------------------------------- */

/* A script goes on as it is; somebody at a terminal is asked. */
static bool agreed(const struct cli_jobs *j, const char *what, const char *first)
{
    if (!cli_may_ask() || cli_confirm(j->verb, j->yes, "%s %s%s of %s?", what, first,
                                      j->n_args > 1 ? " and others" : "", j->group.name))
        return true;
    cli_fail(j->verb, 0, "nothing was changed");
    return false;
}

/* The jobs that are named, or all of them: ids point into *catalogue then. */
static const char **chosen(struct cli_jobs *j, struct tn_catalogue *catalogue, size_t *n, int *code)
{
    struct tenure_error err;
    const char **ids;

    *code = CLI_OK;
    *n = 0;
    if (!j->all) {
        ids = calloc((size_t)j->n_args + 1, sizeof *ids);
        for (int i = 0; ids && i < j->n_args; i++)
            ids[(*n)++] = j->args[i];
        return ids;
    }
    *code = tn_catalogue_load(j->group.store, j->group.name, catalogue, j->group.deadline, &err)
                ? cli_jobs_fail(j, &err)
                : CLI_OK;
    ids = calloc((size_t)tn_catalogue_size(catalogue) + 1, sizeof *ids);
    for (uint32_t i = 0; ids && !*code && i < tn_catalogue_size(catalogue); i++) {
        const struct tn_row *row = tn_catalogue_row(catalogue, i);

        if (row->id && row->wanted != TN_WANTED_REMOVED)
            ids[(*n)++] = row->id;
    }
    return ids;
}

static int say(const struct cli_jobs *j, const char *word, size_t n, const char *first)
{
    if (j->common.json)
        printf("{\"group\":\"%s\",\"done\":\"%s\",\"count\":%zu}\n", j->group.name, word, n);
    else if (n == 1)
        printf("%s: %s %s\n", j->group.name, first, word);
    else
        printf("%s: %zu jobs %s\n", j->group.name, n, word);
    return CLI_OK;
}

static int want(struct cli_jobs *j, enum tn_wanted wanted, const char *word)
{
    struct tn_catalogue catalogue = {0};
    struct tenure_error err;
    size_t n, owned = 0;
    int code;
    const char **ids = chosen(j, &catalogue, &n, &code);
    bool wait = j->wait || wanted == TN_WANTED_REMOVED;

    if (!code && tn_jobs_want(&j->group, ids, n, wanted, wait, &owned, &err))
        code = cli_jobs_fail(j, &err);
    else if (!code && owned && wait)
        code = cli_fail(j->verb, STILL_OWNED,
                        "%zu of %zu jobs: a worker still has them; the same command again waits "
                        "on",
                        owned, n);
    else if (!code)
        code = say(j, word, n, n ? ids[0] : "");
    if (!code && owned && !j->common.json)
        printf("  not confirmed: workers still have %zu of them (--wait)\n", owned);
    free(ids);
    tn_catalogue_free(&catalogue);
    return code;
}

static int pause_jobs(struct cli_jobs *j)
{
    return want(j, TN_WANTED_PAUSED, "paused");
}

static int resume(struct cli_jobs *j)
{
    return want(j, TN_WANTED_RUNNING, "resumed");
}

static int remove_jobs(struct cli_jobs *j)
{
    if (j->all)
        return cli_misuse(j->verb, "remove takes the ids of the jobs, not --all");
    if (!agreed(j, "Remove", j->args[0]))
        return CLI_FAILED;
    return want(j, TN_WANTED_REMOVED, "removed");
}

static int change(struct cli_jobs *j, uint32_t weight, const char *pin, const char *word)
{
    const char *const *ids = (const char *const *)j->args;
    struct tenure_error err;

    if (tn_jobs_change(&j->group, ids, (size_t)j->n_args, weight, pin, &err))
        return cli_jobs_fail(j, &err);
    return say(j, word, (size_t)j->n_args, ids[0]);
}

static int weigh(struct cli_jobs *j)
{
    char *end;
    unsigned long weight = j->weight ? strtoul(j->weight, &end, 10) : 0;

    if (!j->weight || *end || weight < 1 || weight > TN_PLAN_WEIGHT_MAX)
        return cli_misuse(j->verb, "weigh needs --weight with a number from 1 to %u",
                          TN_PLAN_WEIGHT_MAX);
    return change(j, (uint32_t)weight, NULL, "weighed");
}

static int move(struct cli_jobs *j)
{
    const char *fault = j->to ? tn_jobs_id_fault(j->to) : "it is missing";

    if (fault)
        return cli_misuse(j->verb, "--to WORKER: %s", fault);
    return change(j, 0, j->to, "pinned");
}

static int unpin(struct cli_jobs *j)
{
    return change(j, 0, "", "unpinned");
}

static int edit_member(struct cli_jobs *j, enum tn_member_edit edit, const char *word)
{
    struct tenure_error err;

    if (j->n_args != 1)
        return cli_misuse(j->verb, "give one worker");
    if (tn_jobs_edit_member(&j->group, j->args[0], edit, &err))
        return cli_jobs_fail(j, &err);
    return say(j, word, 1, j->args[0]);
}

static int drain(struct cli_jobs *j)
{
    return j->undo ? edit_member(j, TN_MEMBER_UNDRAIN, "takes jobs again")
                   : edit_member(j, TN_MEMBER_DRAIN, "drains");
}

static int evict(struct cli_jobs *j)
{
    if (j->n_args == 1 && !agreed(j, "Evict", j->args[0]))
        return CLI_FAILED;
    return edit_member(j, TN_MEMBER_EVICT, "evicted: its jobs are free when its lease has run out");
}

static int admit(struct cli_jobs *j)
{
    return edit_member(j, TN_MEMBER_ADMIT, "admitted");
}

/* ---- Repair -------------------------------------------------------------- */

struct found {
    json_t *array;
    unsigned n;
};

static void tell(void *arg, const char *key, const char *what)
{
    struct found *f = arg;

    f->n++;
    if (f->array)
        json_array_append_new(f->array, json_pack("{s:s, s:s}", "key", key, "what", what));
    else
        printf("%s %s\n", key, what);
}

static int repair(struct cli_jobs *j)
{
    struct found found = {.array = j->common.json ? json_array() : NULL};
    struct tenure_error err;
    int code = CLI_OK;

    if (!agreed(j, "Replace", "the damaged records"))
        return CLI_FAILED;
    /* What the store itself cannot read is read as it is. */
    cli_repair(j->verb, &j->common, &j->group.store, j->group.deadline);
    if (tn_jobs_repair(&j->group, tell, &found, &err))
        code = cli_jobs_fail(j, &err);
    else if (found.array)
        json_dumpf(found.array, stdout, JSON_COMPACT), putchar('\n');
    else if (!found.n)
        printf("%s: nothing to repair\n", j->group.name);
    json_decref(found.array);
    return code;
}

/* ---- The command line ---------------------------------------------------- */

static const struct action {
    const char *name;
    int (*run)(struct cli_jobs *j);
    bool ids;   /* takes at least one argument, or --all */
    bool made;  /* a store that is not there is made */
    bool maybe; /* takes arguments, or none */
} actions[] = {
    {"add", cli_jobs_add, true, true},
    {"import", cli_jobs_import, true, true},
    {"list", cli_jobs_list, false, false},
    {"explain", cli_jobs_explain, true, false},
    {"pause", pause_jobs, true, false},
    {"resume", resume, true, false},
    {"remove", remove_jobs, true, false},
    {"weigh", weigh, true, false},
    {"move", move, true, false},
    {"unpin", unpin, true, false},
    {"workers", cli_jobs_workers, false, false},
    {"drain", drain, true, false},
    {"evict", evict, true, false},
    {"admit", admit, true, false},
    {"plan", cli_jobs_plan, false, false},
    {"watch", cli_jobs_watch, false, false},
    {"history", cli_jobs_history, false, false, .maybe = true},
    {"repair", repair, false, false},
};

static const struct action *find(const struct cli_verb *verb, const char *name)
{
    char names[200] = "", hint[64];
    size_t n = 0;

    for (size_t i = 0; i < sizeof actions / sizeof actions[0]; i++) {
        if (strcmp(actions[i].name, name) == 0)
            return &actions[i];
        n += (size_t)snprintf(names + n, sizeof names - n, "%s%s", n ? " " : "", actions[i].name);
    }
    tn_did_you_mean(name, names, hint, sizeof hint);
    cli_misuse(verb,
               *name ? "unknown action '%.40s'%s; 'tenure jobs --help' lists them"
                     : "missing an action%.0s%s; 'tenure jobs --help' lists them",
               name, hint);
    return NULL;
}

static void take_options(struct cli_jobs *j, int argc, char **argv)
{
    static const struct option options[] = {
        CLI_COMMON_OPTIONS,
        {"group", required_argument, NULL, OPT_GROUP},
        {"weight", required_argument, NULL, OPT_WEIGHT},
        {"require", required_argument, NULL, OPT_REQUIRE},
        {"prefer", required_argument, NULL, OPT_PREFER},
        {"spec", required_argument, NULL, OPT_SPEC},
        {"to", required_argument, NULL, OPT_TO},
        {"if-leaves", required_argument, NULL, OPT_LEAVES},
        {"worker", required_argument, NULL, OPT_WORKER},
        {"limit", required_argument, NULL, OPT_LIMIT},
        {"wait", no_argument, NULL, OPT_WAIT},
        {"undo", no_argument, NULL, OPT_UNDO},
        {"all", no_argument, NULL, OPT_ALL},
        {"yes", no_argument, NULL, OPT_YES},
        {NULL, 0, NULL, 0},
    };
    const char **const values[] = {&j->common.name, &j->weight, &j->require,
                                   &j->prefer,      &j->spec,   &j->to,
                                   &j->if_leaves,   &j->worker, &j->limit};
    bool *const flags[] = {&j->wait, &j->undo, &j->all, &j->yes};
    int opt;

    while ((opt = cli_getopt(j->verb, argc, argv, CLI_ANY_ORDER, options)) != -1) {
        if (opt < CLI_OPT_OWN)
            cli_common_take(&j->common, j->verb, opt);
        else if (opt < OPT_WAIT)
            *values[opt - OPT_GROUP] = optarg;
        else
            *flags[opt - OPT_WAIT] = true;
    }
}

static int run(const struct cli_verb *verb, int argc, char **argv)
{
    struct cli_jobs j = {.verb = verb};
    const char *group = getenv("TENURE_GROUP");
    int code = CLI_USAGE;

    cli_common_init(&j.common);
    j.common.name = group && *group ? group : NULL;
    j.common.timeout_ns = INT64_C(60000000000);
    take_options(&j, argc, argv);
    const struct action *action = find(verb, optind < argc ? argv[optind] : "");
    if (!action)
        return code;
    j.args = argv + optind + 1;
    j.n_args = argc - optind - 1;
    if (!j.common.name)
        return cli_misuse(verb, "missing --group NAME");
    if (tn_name_fault(j.common.name))
        return cli_misuse(verb, "'%.60s' cannot be the name of a group: %s", j.common.name,
                          tn_name_fault(j.common.name));
    if (action->ids ? (j.n_args == 0) != j.all : j.n_args > 0 && !action->maybe)
        return cli_misuse(
            verb, action->ids ? "%s: give at least one argument" : "%s: unexpected argument",
            action->name);
    j.common.absent = action->made ? CLI_MAKE : CLI_REFUSE;
    j.group.store = cli_open(verb, &j.common, &code);
    if (!j.group.store)
        return code;
    j.group.name = j.common.name;
    j.group.wait_until = tenure_now() + j.common.timeout_ns;
    j.group.deadline = j.group.wait_until + LAST_LOOK_NS;
    code = action->run(&j);
    tenure_store_close(j.group.store);
    return code;
}

const struct cli_verb cli_jobs = {"jobs", "manage a group of jobs", help, run};
