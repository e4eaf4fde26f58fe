/* tenure work: a program for each job of a group that this worker owns. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/name.h"
#include "cli/cli.h"
#include "cli/run/run.h"
#include "os/init.h"
#include "tn_version.h"
#include "work/work.h"

static const char help[] =
    "usage: tenure work --group NAME [--store URL] [options] -- COMMAND [ARG ...]\n"
    "\n"
    "Joins the group of jobs NAME and runs COMMAND once for each job that this worker\n"
    "owns.  Start it on several machines: the jobs are spread over them, each runs\n"
    "once, and moves when its worker dies or leaves.  `tenure jobs` adds jobs.\n"
    "\n"
    "  --id ID              this worker; default: the host name\n"
    "  --capacity N         the most weight of jobs that it takes; default: as many\n"
    "                       as the kill time covers\n"
    "  --share N            its part of the whole, against others (default 1)\n"
    "  --label k=v,...      labels of this worker, for jobs that require them;\n"
    "                       repeatable\n"
    "  --standby            take jobs only while too few other workers are active\n"
    "  --linger 0           after a leave, keep its jobs for it for so long\n"
    "  --ttl 90s            how long others wait after the last renewal they saw\n"
    "  --renew 30s          renewal interval\n"
    "  --grace 8s           how long COMMAND may take to stop\n"
    "  --kill-time 1s       how long ending all programs may take after the deadline:\n"
    "                       100 ms, and 2 ms for each\n"
    "  --stop-signal TERM   the signal that asks COMMAND to stop\n"
    "  --start-rate 100     programs started a second\n"
    "  --listen ADDR        serve HTTP: 127.0.0.1:8080 or unix:/path; repeatable\n"
    "  --token-file FILE    the token for reads over HTTP\n"
    "  --listen-reads open  or token: reads need the token\n"
    "  --listen-host NAME   an accepted Host header; repeatable\n"
    "  --tls-cert FILE --tls-key FILE [--tls-client-ca FILE]  HTTPS\n"
    "  --one-program        run COMMAND once for all jobs: it learns of them over\n"
    "                       TENURE_SOCKET\n"
    "  --user USER[:GROUP]  run COMMAND as this user\n"
    "  --chdir DIR          run COMMAND in this directory\n"
    "  --allow-new-privs    let it gain privileges (sudo)\n"
    "  --contain auto       how its processes are contained, see tenure-run(1)\n"
    "  --log auto           log format on stderr: text, json, none\n"
    "  --log-level info     error, warn, info, debug\n"
    "  --log-time auto      times in text: always, never\n"
    "\n"
    "COMMAND gets TENURE_JOB, TENURE_EPOCH, TENURE_GROUP, TENURE_ID, TENURE_SPEC (the\n"
    "file of the job's specification, if it has one) and TENURE_SOCKET, where it\n"
    "reads and stores its checkpoint.  If it ends by itself it is started again under\n"
    "a new epoch, after 100ms; after each failure within a minute twice as late, at\n"
    "most 30s.  SIGTERM stops every program and leaves the group; a second one kills\n"
    "them.\n"
    "\n"
    "Exit: 0 it has left on request; 1 the store refused the request, or did not\n"
    "      confirm the leave; 2 usage error or impossible settings; 125 tenure itself\n"
    "      failed; 126 COMMAND cannot be executed; 127 COMMAND was not found.\n";

enum {
    OPT_GROUP = CLI_RUN_OWN,
    OPT_CAPACITY,
    OPT_SHARE,
    OPT_LABEL,
    OPT_STANDBY,
    OPT_LINGER,
    OPT_KILL,
    OPT_RATE,
    OPT_ONE
};

#define MS           INT64_C(1000000)
#define CAPACITY_MAX 100000
#define RATE_MAX     10000

/* What the command line says. */
struct cli_work {
    const struct cli_verb *verb;
    struct cli_common common;
    struct cli_run run; /* what is shared with `run` */
    struct tn_work_options o;
    char id[TN_MEMBER_ID_MAX + 1];
    char labels[TN_MEMBER_LABELS_MAX + 1], sorted[TN_MEMBER_LABELS_MAX + 1];
};

static uint32_t number(const struct cli_work *w, const char *option, long max)
{
    char *end;
    long n = strtol(optarg, &end, 10);

    if (!*optarg || *end || n < 1 || n > max)
        exit(cli_misuse(w->verb, "%s '%.40s': give a number from 1 to %ld", option, optarg, max));
    return (uint32_t)n;
}

static int64_t milliseconds(const struct cli_work *w, const char *option)
{
    int64_t ns = cli_duration(w->verb, option, optarg);

    if (ns % MS != 0)
        exit(cli_misuse(w->verb, "%s '%.40s': give whole milliseconds", option, optarg));
    return ns / MS;
}

static void add_labels(struct cli_work *w)
{
    size_t n = strlen(w->labels);

    if (n + 1 + strlen(optarg) >= sizeof w->labels)
        exit(cli_misuse(w->verb, "--label: at most %d bytes of labels", TN_MEMBER_LABELS_MAX));
    snprintf(w->labels + n, sizeof w->labels - n, "%s%s", n ? "," : "", optarg);
}

static void take_option(struct cli_work *w, int opt)
{
    struct tn_jobs_options *jobs = &w->o.jobs;

    switch (opt) {
    case OPT_GROUP:
        jobs->group = optarg;
        break;
    case OPT_CAPACITY:
        jobs->limit = number(w, "--capacity", CAPACITY_MAX);
        break;
    case OPT_SHARE:
        jobs->share = number(w, "--share", TN_PLAN_SHARE_MAX);
        break;
    case OPT_LABEL:
        add_labels(w);
        break;
    case OPT_STANDBY:
        jobs->standby = true;
        break;
    case OPT_LINGER:
        jobs->linger_ms = milliseconds(w, "--linger");
        break;
    case OPT_KILL:
        jobs->kill_ms = milliseconds(w, "--kill-time");
        break;
    case OPT_RATE:
        w->o.start_rate = number(w, "--start-rate", RATE_MAX);
        break;
    case OPT_ONE:
        w->o.one_program = true;
        break;
    default:
        if (!cli_common_take(&w->common, w->verb, opt))
            cli_run_set(w->verb, &w->run, opt);
        break;
    }
}

static void take_options(struct cli_work *w, int argc, char **argv)
{
    static const char *const shared[] = {
        "id",          "ttl",          "renew",           "grace",
        "stop-signal", "user",         "allow-new-privs", "chdir",
        "contain",     "log",          "log-level",       "log-time",
        "listen",      "listen-reads", "listen-host",     "token-file",
        "tls-cert",    "tls-key",      "tls-client-ca",   NULL};
    static const struct option own[] = {
        {"group", required_argument, NULL, OPT_GROUP},
        {"capacity", required_argument, NULL, OPT_CAPACITY},
        {"share", required_argument, NULL, OPT_SHARE},
        {"label", required_argument, NULL, OPT_LABEL},
        {"standby", no_argument, NULL, OPT_STANDBY},
        {"linger", required_argument, NULL, OPT_LINGER},
        {"kill-time", required_argument, NULL, OPT_KILL},
        {"start-rate", required_argument, NULL, OPT_RATE},
        {"one-program", no_argument, NULL, OPT_ONE},
        {NULL, 0, NULL, 0},
    };
    int opt;

    while ((opt = cli_getopt(w->verb, argc, argv, CLI_OPTIONS_FIRST, cli_run_pick(shared, own))) !=
           -1)
        take_option(w, opt);
}

/* What follows from several options. */
static bool settle(struct cli_work *w)
{
    struct tn_work_options *o = &w->o;
    const struct tn_run_options *run = &w->run.o;
    struct tenure_error err;

    o->program = run->program;
    o->contain = run->contain;
    o->stop_signal = run->stop_signal;
    o->log = run->log;
    o->api = run->api;
    o->api.reads_token = w->run.reads == CLI_READS_TOKEN;
    o->api.hosts = w->run.hosts[0] ? w->run.hosts : NULL;
    o->jobs.ttl_ms = run->elector.ttl_ms ? run->elector.ttl_ms : 90000;
    o->jobs.renew_ms = run->elector.renew_ms;
    o->jobs.grace_ms = run->elector.grace_ms;
    o->jobs.build = TN_VERSION;
    gethostname(w->id, sizeof w->id - 1);
    o->jobs.host = strdup(w->id);
    if (run->elector.id)
        snprintf(w->id, sizeof w->id, "%s", run->elector.id);
    o->jobs.id = w->id;
    o->jobs.labels = w->sorted;
    if (!o->jobs.group)
        cli_misuse(w->verb, "missing --group NAME, the same on every machine");
    else if (tn_name_fault(o->jobs.group))
        cli_misuse(w->verb, "'%.60s' cannot be the name of a group: %s", o->jobs.group,
                   tn_name_fault(o->jobs.group));
    else if (tn_jobs_id_fault(w->id))
        cli_misuse(w->verb, "'%.60s' cannot be the id of a worker: %s", w->id,
                   tn_jobs_id_fault(w->id));
    else if (tn_labels_sort(w->labels, w->sorted, &err))
        cli_misuse(w->verb, "--label: %s", err.text);
    else
        return true;
    return false;
}

static int run(const struct cli_verb *verb, int argc, char **argv)
{
    static const struct tn_work_codes codes = {
        .failed = CLI_FAILED, .usage = CLI_USAGE, .broken = CLI_BROKEN};
    static struct cli_work w = {.o = {.start_rate = 100},
                                .run.o = {.elector = TENURE_ELECTOR_OPTIONS,
                                          .stop_signal = SIGTERM,
                                          .log_level = TN_LEVEL_INFO}};
    struct tenure_error err;

    w.verb = verb;
    w.o.jobs.group = getenv("TENURE_GROUP");
    cli_common_init(&w.common);
    take_options(&w, argc, argv);
    if (!settle(&w))
        return CLI_USAGE;
    if (optind >= argc)
        return cli_misuse(verb, "missing command: give it after --");
    w.o.program.args = argv + optind;
    w.o.program.env = environ;
    cli_no_core();
    sigprocmask(SIG_SETMASK, NULL, &w.o.program.mask);
    enum tenure_status status = tn_program_check(&w.o.program, &err);
    if (status)
        return cli_fail(verb, status == TENURE_DENIED ? CLI_CANNOT_RUN : CLI_NOT_FOUND, "%s",
                        err.text);
    w.o.jobs.store = cli_store_find(verb, &w.common);
    if (!w.o.jobs.store)
        return CLI_USAGE;
    tn_log_as(verb->name);
    tn_log_limit(w.run.o.log_level);
    tn_log_stamp(w.run.o.log_stamp);
    tn_init_split(false);
    return tn_work(&w.o, &codes);
}

const struct cli_verb cli_work = {"work", "run a command for each job that this machine owns", help,
                                  run};
