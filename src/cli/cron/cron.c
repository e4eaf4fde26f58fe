/* tenure cron: a job that runs once a period, on one of many machines. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/cron/period.h"
#include "os/clock.h"

static const char help[] =
    "usage: tenure cron NAME --every 1h | --at \"0 3 * * *\" --store URL\n"
    "                   [--catch-up once] [--retry never] [options]\n"
    "                   -- COMMAND [ARGUMENT ...]\n"
    "       tenure cron list [NAME] [--store URL] [--json]\n"
    "\n"
    "Runs COMMAND if the current period of NAME has not been run yet, by any machine.\n"
    "Put the same line into the crontab or timer of every machine, to be called when\n"
    "a period begins or more often; or use --stay.\n"
    "\n"
    "  --every 1h           periods of this length, counted from 1970-01-01 00:00 UTC\n"
    "  --at \"0 3 * * *\"     a period begins at these times: minute, hour, day of the\n"
    "                       month, month, day of the week, as in crontab(5)\n"
    "  --utc                these are times in UTC; default: local time (TZ)\n"
    "  --catch-up once      periods that nobody ran: once (one run now stands for\n"
    "                       all), skip (none if it is late), all (each, oldest first)\n"
    "  --window 5m          --at: a period is not late for this long; default with\n"
    "                       --every: the whole period\n" CLI_PERIOD_HELP
    "  --stay               do not exit: wait for each period, and run it\n"
    "  --name NAME          instead of the argument\n"
    "\n" CLI_COMMAND_HELP "\n"
    "COMMAND gets TENURE_NAME, TENURE_ID, TENURE_EPOCH and TENURE_PERIOD, the time at\n"
    "which the period began.  `list` shows the last period of each NAME.\n"
    "\n"
    "Exit: COMMAND's code (128 + n for a signal); 0 also if there was nothing to do,\n"
    "      or another machine does it; 75 it was not run: NAME is held for something\n"
    "      else, or paused; 122 the lease was lost, and COMMAND ended; 1 the store\n"
    "      refused or did not answer; 2 usage error or impossible settings; 125\n"
    "      tenure itself failed; 126 COMMAND cannot be executed; 127 COMMAND was not\n"
    "      found.\n";

enum { OPT_EVERY = CLI_PERIOD_OWN, OPT_AT, OPT_UTC, OPT_CATCH_UP, OPT_WINDOW, OPT_STAY };

#define S        INT64_C(1000000000)
#define WINDOW_S 300
/* --stay: after what was due could not be run. */
#define AGAIN_S  30

struct cron {
    struct cli_period period;
    struct tn_cron_rules rules;
    const char *at;
    int64_t every_ns, window_ns;
    bool utc, stay;
};

/* ---- Time ---------------------------------------------------------------- */

static int64_t local_offset(void *arg, int64_t at_s)
{
    time_t at = (time_t)at_s;
    struct tm tm = {0};

    (void)arg;
    return localtime_r(&at, &tm) ? tm.tm_gmtoff : 0;
}

static int64_t utc_offset(void *arg, int64_t at_s)
{
    (void)arg;
    (void)at_s;
    return 0;
}

static int64_t wall_s(void)
{
    return (int64_t)(tn_wall_ms() / 1000);
}

/* ---- The command line ---------------------------------------------------- */

static void take_option(void *arg, int opt)
{
    static const char *const catch_ups[] = {"once", "skip", "all", NULL};
    struct cron *c = arg;
    const struct cli_verb *verb = c->period.command.verb;

    switch (opt) {
    case OPT_EVERY:
        c->every_ns = cli_duration(verb, "--every", optarg);
        if (c->every_ns < S || c->every_ns % S)
            exit(cli_misuse(verb, "--every '%.40s': give whole seconds, at least one", optarg));
        snprintf(c->period.schedule, sizeof c->period.schedule, "every %s", optarg);
        break;
    case OPT_AT:
        c->at = optarg;
        break;
    case OPT_UTC:
        c->utc = true;
        break;
    case OPT_CATCH_UP:
        c->rules.catch_up =
            (enum tn_catch_up)cli_period_choose(&c->period, "--catch-up", catch_ups);
        break;
    case OPT_WINDOW:
        c->window_ns = cli_duration(verb, "--window", optarg);
        break;
    case OPT_STAY:
        c->stay = true;
        break;
    default:
        cli_period_take(&c->period, opt);
        break;
    }
}

static bool settle(struct cron *c)
{
    const struct cli_verb *verb = c->period.command.verb;
    struct tenure_error err;

    if (!c->at == !c->every_ns) {
        cli_misuse(verb, "give --every 1h or --at \"0 3 * * *\"");
        return false;
    }
    if (c->at && tn_schedule_parse(c->at, &c->rules.schedule, &err)) {
        cli_misuse(verb, "--at: %s", err.text);
        return false;
    }
    if (c->at)
        snprintf(c->period.schedule, sizeof c->period.schedule, "%.100s%s", c->at,
                 c->utc ? " UTC" : "");
    else
        tn_schedule_every(&c->rules.schedule, c->every_ns / S);
    c->rules.window_s = c->window_ns >= 0 ? c->window_ns / S : c->at ? WINDOW_S : c->every_ns / S;
    c->rules.zone = (struct tn_zone){.offset = c->utc ? utc_offset : local_offset};
    c->rules.retry = c->period.retry;
    tzset();
    return true;
}

/* ---- Runs ---------------------------------------------------------------- */

static struct tn_plan plan(struct cli_period *p, const struct tn_period_record *last,
                           struct tn_period_record *next)
{
    const struct cron *c = (const struct cron *)p;
    struct tn_plan plan = tn_plan_cron(&c->rules, last, wall_s());

    next->at_s = plan.at_s;
    tn_period_name(plan.at_s, next->period);
    return plan;
}

/* What is due: one period, or (--catch-up all) one after the other, but none twice.  *own: the code
 * is not the command's. */
static int run_due(struct cron *c, bool *own)
{
    struct cli_period *p = &c->period;
    int64_t former = -1;
    int code = CLI_OK;
    bool ran;

    *own = false;
    do {
        int then = cli_period_run(p, &ran);

        if (code == CLI_OK) {
            code = then;
            *own = !ran;
        }
        if (!ran || p->record.at_s == former)
            break;
        former = p->record.at_s;
    } while (c->rules.catch_up == TN_CATCH_UP_ALL && !p->command.once.asked &&
             p->record.state != TN_PERIOD_INTERRUPTED);
    return code;
}

/* Until that time on the wall, which may be set meanwhile. */
static void sleep_until(int64_t at_s)
{
    struct timespec at = {.tv_sec = (time_t)at_s};

    while (clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &at, NULL) == EINTR)
        ;
}

static int stay(struct cron *c)
{
    for (;;) {
        bool own;
        int code = run_due(c, &own);
        int64_t now = wall_s(), next = tn_schedule_next(&c->rules.schedule, &c->rules.zone, now);

        if (c->period.command.once.asked || (own && code == CLI_USAGE))
            return code;
        sleep_until(own && code != CLI_OK && next - now > AGAIN_S ? now + AGAIN_S : next);
    }
}

static int run(const struct cli_verb *verb, int argc, char **argv)
{
    static const struct option own[] = {CLI_PERIOD_OPTIONS,
                                        {"every", required_argument, NULL, OPT_EVERY},
                                        {"at", required_argument, NULL, OPT_AT},
                                        {"utc", no_argument, NULL, OPT_UTC},
                                        {"catch-up", required_argument, NULL, OPT_CATCH_UP},
                                        {"window", required_argument, NULL, OPT_WINDOW},
                                        {"stay", no_argument, NULL, OPT_STAY},
                                        {0}};
    static struct cron c = {
        .period = {.collection = TN_CRON_COLLECTION, .id = TN_CRON_LAST, .plan = plan},
        .window_ns = -1};
    bool of_tenure;
    int code;

    if (argc > 1 && strcmp(argv[1], "list") == 0)
        return cli_cron_list(verb, argc - 1, argv + 1);
    c.period.command.verb = verb;
    if (!cli_command_take(&c.period.command, verb, argc, argv, own, take_option, &c, &code))
        return code;
    if (!settle(&c))
        return CLI_USAGE;
    if (!cli_period_prepare(&c.period, &code))
        return code;
    return c.stay ? stay(&c) : run_due(&c, &of_tenure);
}

const struct cli_verb cli_cron = {"cron", "run a job once per period, on one of many machines",
                                  help, run};
