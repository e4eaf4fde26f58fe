/* tenure agent: the elections of a configuration file, each in a process of its own. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "agent/fleet.h"
#include "cli/cli.h"
#include "cli/config.h"
#include "config/change.h"
#include "os/init.h"
#include "os/known.h"
#include "os/log.h"

static const char help[] =
    "usage: tenure agent [--config FILE] [--log FORMAT] [--log-level LEVEL]\n"
    "                    [--log-time WHEN]\n"
    "\n"
    "Runs every election in FILE (default: TENURE_CONFIG, ./tenure.yaml,\n"
    "/etc/tenure/tenure.yaml).  An election with a program runs it only while\n"
    "leading, as `tenure run` does; one without a program answers programs that ask\n"
    "over HTTP. tenure.yaml(5) documents the keys; `tenure config check` shows their\n"
    "effect.\n"
    "\n"
    "  --config FILE        the configuration file\n"
    "  --log FORMAT         auto, text, json, none, on stderr; overrides log.format\n"
    "  --log-level LEVEL    error, warn, info, debug; overrides log.level\n"
    "  --log-time WHEN      times in text: auto, always, never; overrides log.time\n"
    "\n"
    "SIGHUP reloads FILE: settings that can change at run time do; an election with\n"
    "others is restarted, the rest go on.  SIGTERM stops the programs, releases their\n"
    "leases and exits.\n"
    "\n"
    "Exit: 0 stopped on request; 1 FILE cannot be read; 2 usage error or invalid\n"
    "      FILE; when every election has ended by itself, the highest of their exit\n"
    "      codes (those of `tenure run`).\n";

enum { OPT_CONFIG = CLI_OPT_OWN, OPT_LOG, OPT_LOG_LEVEL, OPT_LOG_TIME, OPT_ELECTION, OPT_INNER };

/* A child's exit code for "try again later", which no program has by accident. */
#define AGAIN 122

struct later {
    struct later *former;
    struct tn_config config;
};

struct agent {
    const struct cli_verb *verb;
    const char *path;
    const char *election; /* in a child: which; else NULL */
    bool inner;           /* in a child: the agent listens for all, and asks us */
    int log;              /* --log; -1: what the file says */
    int log_level;        /* --log-level; -1: what the file says */
    int log_stamp;        /* --log-time; -1: what the file says */
    const char *log_word, *level_word, *stamp_word;
    struct tn_fleet *fleet;
    struct tn_config config;            /* the first one; in the agent it says how we listen */
    struct tn_config latest;            /* in the agent: what its children run by, if reloaded */
    struct later *later;                /* in a child: those after it, which are all in use */
    struct tn_run_options effective[2]; /* in a child: in force, and the next; in turns */
    unsigned turn;
    char **env;
    bool started; /* in the agent: config is there */
};

static void on_stderr(const char *text)
{
    fprintf(stderr, "%s\n", text);
}

static void in_log(const char *text)
{
    tn_log("config", "%s", text);
}

/* ---- A child: one election ----------------------------------------------- */

/* Ours, with what the file adds or replaces. */
static char **program_env(const char *const *extra)
{
    size_t count = 1, n = 0;

    for (size_t i = 0; environ[i]; i++)
        count++;
    for (size_t i = 0; extra && extra[i]; i++)
        count++;
    char **env = calloc(count, sizeof *env);
    for (size_t i = 0; env && environ[i]; i++) {
        size_t len = strcspn(environ[i], "=") + 1;
        bool replaced = false;

        for (size_t j = 0; extra && extra[j]; j++)
            replaced |= strncmp(environ[i], extra[j], len) == 0;
        if (!replaced)
            env[n++] = environ[i];
    }
    for (size_t i = 0; env && extra && extra[i]; i++)
        env[n++] = (char *)(uintptr_t)extra[i];
    return env;
}

static enum tenure_status read_child(const struct agent *a, struct tn_config *c,
                                     struct tenure_error *err)
{
    size_t len = 0;
    char *text = tn_fleet_text(&len, err);

    if (!text)
        return err->code;
    struct tn_config_world world = tn_config_real_world;
    world.only = a->election;
    enum tenure_status status = tn_config_read(c, a->path, text, len, &world);
    explicit_bzero(text, len);
    free(text);
    if (status)
        return tenure_fail(err, status, "%s", c->n_complaints ? c->complaints[0] : "out of memory");
    for (size_t i = 0; i < c->n_elections; i++) {
        struct tn_run_options *o = &c->elections[i].run;

        o->log = a->log >= 0 ? (enum tn_log_format)a->log : o->log;
        o->log_level = a->log_level >= 0 ? (enum tn_log_level)a->log_level : o->log_level;
        o->log_stamp = a->log_stamp >= 0 ? (enum tn_log_stamp)a->log_stamp : o->log_stamp;
    }
    if (!tn_config_find(c, a->election))
        return tenure_fail(err, TENURE_CONFIG, "there is no election '%s'", a->election);
    return TENURE_OK;
}

/* What the supervisor calls on SIGHUP.  Every configuration lives on: strings of it are in use. */
static const struct tn_run_options *reload_child(void *arg)
{
    struct agent *a = arg;
    struct later *later = calloc(1, sizeof *later);
    struct tn_config *c = later ? &later->config : NULL;
    struct tenure_error err = {0};
    struct tn_change change;
    struct tn_run_options *next = &a->effective[!a->turn];

    if (!c || read_child(a, c, &err) != TENURE_OK) {
        tn_log("reload", "reload failed, keeping the current settings: %s",
               c ? err.text : "out of memory");
        if (c)
            tn_config_free(c);
        free(later);
        return NULL;
    }
    later->former = a->later;
    a->later = later;
    *next = a->effective[a->turn];
    tn_config_change(tn_config_find(&a->config, a->election), tn_config_find(c, a->election), next,
                     &change);
    if (change.done[0] || change.restart[0])
        tn_log("reload", "changed: %s%s%s", change.done[0] ? change.done : "nothing",
               change.restart[0] ? "; needs a restart: " : "", change.restart);
    else
        tn_log("reload", "nothing changed for this election");
    a->turn = !a->turn;
    return next;
}

/* What the agent that listens for all sees of us, and where it asks. */
static enum tenure_status join_agent(struct tn_run_options *o, const struct tn_api_options *api,
                                     struct tenure_error *err)
{
    fcntl(TN_FLEET_PAGE, F_SETFD, FD_CLOEXEC);
    fcntl(TN_FLEET_SOCKET, F_SETFD, FD_CLOEXEC);
    o->agent_socket = TN_FLEET_SOCKET;
    o->agent_api = api;
    o->leader_page = tn_leader_page_map(TN_FLEET_PAGE);
    return o->leader_page ? TENURE_OK
                          : tenure_fail(err, TENURE_UNAVAILABLE,
                                        "only `tenure agent` may call this: %s", strerror(errno));
}

static int run_child(struct agent *a)
{
    static const struct tn_run_codes codes = {.failed = AGAIN,
                                              .gave_up = CLI_FAILED,
                                              .usage = CLI_USAGE,
                                              .lost = CLI_LOST,
                                              .broken = AGAIN,
                                              .cannot_run = CLI_CANNOT_RUN,
                                              .not_found = CLI_NOT_FOUND};
    struct tenure_error err = {0};

    /* The agent found it good: what has changed since is a file or a descriptor, and may be back.
     */
    if (read_child(a, &a->config, &err) != TENURE_OK)
        return cli_fail(a->verb, AGAIN, "%s", err.text);
    fcntl(TN_FLEET_FD, F_SETFD, FD_CLOEXEC);
    const struct tn_config_election *e = tn_config_find(&a->config, a->election);
    struct tn_run_options *o = &a->effective[0];
    *o = e->run;
    o->program.env = a->env = program_env(e->env);
    if (!a->env)
        return cli_fail(a->verb, AGAIN, "out of memory");
    tn_known_share(TN_FLEET_KNOWN); /* not in the programs' environment, which is made above */
    if (a->inner && join_agent(o, &a->config.api, &err) != TENURE_OK)
        return cli_fail(a->verb, AGAIN, "%s", err.text);
    tn_fleet_mask(&o->program.mask);
    o->reload = reload_child;
    o->reload_arg = a;
    tn_log_as("agent");
    tn_log_limit(o->log_level);
    tn_log_stamp(o->log_stamp);
    enum tenure_status status = o->program.args && o->on_exit == TN_EXIT_EXIT
                                    ? tn_program_check(&o->program, &err)
                                    : TENURE_OK;
    if (status) {
        tn_log_setup(o->log, e->name.text, "");
        tn_log("failed", "%s", err.text);
        return status == TENURE_DENIED ? CLI_CANNOT_RUN : CLI_NOT_FOUND;
    }
    return tn_run(o, &codes);
}

/* ---- The agent ----------------------------------------------------------- */

/* At the start; what a reload cannot change is told. */
static enum tenure_status listen_for_all(struct agent *a, const struct tn_api_options *o,
                                         struct tenure_error *err)
{
    char restart[TN_CHANGE_TEXT] = "";

    if (!a->started)
        return o->listen[0] ? tn_fleet_listen(a->fleet, o, err) : TENURE_OK;
    tn_config_change_http(&a->config.api, o, restart);
    if (restart[0])
        tn_log("reload", "needs a restart of the agent: %s", restart);
    return TENURE_OK;
}

/* Which keys of an election changed that it cannot change as it runs? */
static bool needs_restart(const struct agent *a, const struct tn_config_election *next)
{
    const struct tn_config *latest = a->latest.n_elections ? &a->latest : &a->config;
    const struct tn_config_election *now =
        a->started ? tn_config_find(latest, next->name.text) : NULL;
    struct tn_run_options effective;
    struct tn_change change;

    if (!now)
        return false;
    effective = now->run;
    tn_config_change(now, next, &effective, &change);
    if (change.restart[0])
        tn_log("reload", "%s: restarting it, because these have changed: %s", next->name.text,
               change.restart);
    return change.restart[0];
}

/* What the children run by from now on.  Takes over what c holds. */
static void keep_latest(struct agent *a, const struct tn_config *c)
{
    if (a->started)
        tn_config_free(&a->latest);
    *(a->started ? &a->latest : &a->config) = *c;
    a->started = true;
}

/* Read the file and pass it on.  tell says what is wrong with it. */
static int apply(struct agent *a, void (*tell)(const char *line))
{
    struct tn_config c = {0};
    struct tenure_error err = {0};
    struct tn_fleet_election *elections = NULL;
    size_t len = 0;
    char *text = cli_config_load(a->path, &len, &err);

    if (!text) {
        tell(err.text);
        return CLI_FAILED;
    }
    enum tenure_status status = tn_config_read(&c, a->path, text, len, &tn_config_real_world);
    if (status == TENURE_OK && !(elections = calloc(c.n_elections, sizeof *elections)))
        status = TENURE_NOMEM;
    if (status == TENURE_OK) {
        tn_log_as("agent");
        tn_log_setup(a->log >= 0 ? (enum tn_log_format)a->log : c.log, "agent", "");
        tn_log_limit(a->log_level >= 0 ? (enum tn_log_level)a->log_level : c.log_level);
        tn_log_stamp(a->log_stamp >= 0 ? (enum tn_log_stamp)a->log_stamp : c.log_stamp);
        for (size_t i = 0; i < c.n_elections; i++) {
            elections[i].name = c.elections[i].name.text;
            elections[i].restart = needs_restart(a, &c.elections[i]);
        }
        status = listen_for_all(a, &c.api, &err);
        if (!status)
            status = tn_fleet_set(a->fleet, text, len, elections, c.n_elections, &err);
        if (status)
            tell(err.text);
    } else if (status == TENURE_NOMEM) {
        tell("out of memory");
    } else {
        cli_config_tell(&c, tell);
    }
    explicit_bzero(text, len);
    free(text);
    free(elections);
    if (status == TENURE_OK)
        keep_latest(a, &c);
    else
        tn_config_free(&c);
    return status == TENURE_OK ? CLI_OK : status == TENURE_CONFIG ? CLI_USAGE : CLI_FAILED;
}

static bool reload(void *arg)
{
    struct agent *a = arg;
    bool ok = apply(a, in_log) == CLI_OK;

    tn_log("reload", ok ? "reloaded %s" : "%s is invalid; keeping the current settings", a->path);
    return ok;
}

static int run_agent(struct agent *a)
{
    struct tn_fleet_options o = {.config = a->path,
                                 .log = a->log_word,
                                 .level = a->level_word,
                                 .stamp = a->stamp_word,
                                 .codes = {.again = AGAIN, .usage = CLI_USAGE},
                                 .reload = reload,
                                 .arg = a};
    struct tenure_error err = {0};

    if (tn_fleet_open(&o, &a->fleet, &err) != TENURE_OK)
        return cli_fail(a->verb, CLI_BROKEN, "%s", err.text);
    int code = apply(a, on_stderr);
    if (code == CLI_OK)
        code = tn_fleet_run(a->fleet);
    tn_fleet_close(a->fleet);
    tn_config_free(&a->latest);
    tn_config_free(&a->config);
    return code;
}

/* ---- The verb ------------------------------------------------------------ */

static const char *const formats[] = {"auto", "text", "json", "none", NULL};
static const char *const levels[] = {"error", "warn", "info", "debug", NULL};
static const char *const stamps[] = {"auto", "always", "never", NULL};

static int take_word(const struct cli_verb *verb, const char *option, const char *const *words)
{
    char list[64] = "";

    for (int i = 0; words[i]; i++) {
        size_t used = strlen(list);

        if (strcmp(optarg, words[i]) == 0)
            return i;
        snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", words[i]);
    }
    exit(cli_misuse(verb, "%s '%.40s': give one of %s", option, optarg, list));
}

static int run(const struct cli_verb *verb, int argc, char **argv)
{
    static const struct option options[] = {
        {"help", no_argument, NULL, CLI_OPT_HELP},
        {"config", required_argument, NULL, OPT_CONFIG},
        {"log", required_argument, NULL, OPT_LOG},
        {"log-level", required_argument, NULL, OPT_LOG_LEVEL},
        {"log-time", required_argument, NULL, OPT_LOG_TIME},
        {"election", required_argument, NULL, OPT_ELECTION}, /* for our own children */
        {"inner", no_argument, NULL, OPT_INNER},
        {0}};
    struct agent a = {.verb = verb, .log = -1, .log_level = -1, .log_stamp = -1};
    int opt;

    while ((opt = cli_getopt(verb, argc, argv, CLI_ANY_ORDER, options)) != -1) {
        if (opt == CLI_OPT_HELP) {
            fputs(help, stdout);
            return CLI_OK;
        }
        if (opt == OPT_CONFIG)
            a.path = optarg;
        else if (opt == OPT_LOG)
            a.log = take_word(verb, "--log", formats), a.log_word = optarg;
        else if (opt == OPT_LOG_LEVEL)
            a.log_level = take_word(verb, "--log-level", levels), a.level_word = optarg;
        else if (opt == OPT_LOG_TIME)
            a.log_stamp = take_word(verb, "--log-time", stamps), a.stamp_word = optarg;
        else if (opt == OPT_ELECTION)
            a.election = optarg;
        else if (opt == OPT_INNER)
            a.inner = true;
    }
    if (optind < argc)
        return cli_misuse(verb, "'%.40s': the programs are in the configuration file",
                          argv[optind]);
    a.path = cli_config_path(a.path);
    cli_no_core();
    if (!a.election) {
        tn_init_split(true);
        return run_agent(&a);
    }
    char name[16]; /* all that the kernel keeps; ps -o args shows the whole of it */
    snprintf(name, sizeof name, "tenure: %s", a.election);
    prctl(PR_SET_NAME, name, 0, 0, 0);
    tn_init_join();
    int code = run_child(&a);
    free(a.env);
    for (struct later *one = a.later, *former; one; one = former) {
        former = one->former;
        tn_config_free(&one->config);
        free(one);
    }
    tn_config_free(&a.config);
    return code;
}

const struct cli_verb cli_agent = {"agent", "run the elections of a configuration file", help, run};
