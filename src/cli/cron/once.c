/* tenure once: a command that runs once for each period, on whichever machine asks. */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "cli/cron/period.h"

static const char help[] =
    "usage: tenure once NAME --period PERIOD --store URL [--retry never] [options]\n"
    "                   -- COMMAND [ARGUMENT ...]\n"
    "\n"
    "Runs COMMAND if nobody has run NAME for PERIOD yet: any text, such as a date, a\n"
    "version or a commit.  Call it on as many machines as you like.  What was run is\n"
    "kept with the lock, and shown by `tenure cron list`.\n"
    "\n"
    "  --period PERIOD      up to 100 bytes, in UTF-8\n" CLI_PERIOD_HELP
    "  --name NAME          instead of the argument\n"
    "\n" CLI_COMMAND_HELP "\n"
    "COMMAND gets TENURE_NAME, TENURE_ID, TENURE_EPOCH and TENURE_PERIOD.\n"
    "\n"
    "Exit: COMMAND's code (128 + n for a signal); 0 also if another machine has run\n"
    "      it or runs it; 75 it was not run: NAME is held for something else, or\n"
    "      paused; 122 the lease was lost, and COMMAND ended; 1 the store refused or\n"
    "      did not answer; 2 usage error or impossible settings; 125 tenure itself\n"
    "      failed; 126 COMMAND cannot be executed; 127 COMMAND was not found.\n";

enum { OPT_PERIOD = CLI_PERIOD_OWN };

struct once {
    struct cli_period period;
    const char *text;
};

static void take_option(void *arg, int opt)
{
    struct once *o = arg;

    if (opt == OPT_PERIOD)
        o->text = optarg;
    else
        cli_period_take(&o->period, opt);
}

static struct tn_plan plan(struct cli_period *p, const struct tn_period_record *last,
                           struct tn_period_record *next)
{
    snprintf(next->period, sizeof next->period, "%s", p->id);
    return (struct tn_plan){.kind = tn_plan_once(p->retry, last) ? TN_PLAN_RUN : TN_PLAN_NOTHING};
}

static int run(const struct cli_verb *verb, int argc, char **argv)
{
    static const struct option own[] = {
        CLI_PERIOD_OPTIONS, {"period", required_argument, NULL, OPT_PERIOD}, {0}};
    static struct once o = {.period = {.collection = TN_ONCE_COLLECTION, .plan = plan}};
    struct cli_period *p = &o.period;
    int code;

    p->command.verb = verb;
    if (!cli_command_take(&p->command, verb, argc, argv, own, take_option, &o, &code))
        return code;
    if (!o.text || !*o.text || strlen(o.text) > TN_PERIOD_MAX || !tn_text_is_utf8(o.text))
        return cli_misuse(verb, "give --period PERIOD: a text of 1 to %d bytes, in UTF-8",
                          TN_PERIOD_MAX);
    snprintf(p->id, sizeof p->id, "%s", o.text);
    return cli_period_prepare(p, &code) ? cli_period_run(p, NULL) : code;
}

const struct cli_verb cli_once = {"once", "run a command once for each period", help, run};
