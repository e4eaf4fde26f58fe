/* tenure history: who led, when, and why it changed. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/cli.h"
#include "tenure/history.h"

static const char help[] =
    "usage: tenure history --name NAME [--store URL] [--json] [--timeout 5s]\n"
    "\n"
    "Lists the last terms of an election, the oldest first: who led, from when to when,\n"
    "why it began and why it ended, and how long nobody led before it.  The candidates\n"
    "write it beside the lease, the last 64 terms.  A time with ~ is an estimate: nobody\n"
    "saw that term end.\n"
    "\n"
    "  --json     one JSON object: name, history (epoch, holder, from_ms, to_ms,\n"
    "             estimated, cause, end, gap_ms)\n"
    "\n"
    "Exit: 0, 1 the store said no or the register is damaged, 2 usage.\n";

static json_t *term_json(const struct tenure_term_record *t)
{
    return json_pack("{s:I, s:s, s:I, s:o, s:b, s:s, s:s, s:o}", "epoch", (json_int_t)t->epoch,
                     "holder", t->holder, "from_ms", (json_int_t)t->from_ms, "to_ms",
                     t->to_ms ? json_integer((json_int_t)t->to_ms) : json_null(), "estimated",
                     (int)t->estimated, "cause", t->cause, "end", t->end, "gap_ms",
                     t->gap_ms >= 0 ? json_integer(t->gap_ms) : json_null());
}

static int print_json(const char *name, const struct tenure_history *h)
{
    json_t *terms = json_array();
    json_t *object = json_pack("{s:s, s:o}", "name", name, "history", terms);

    for (uint32_t i = 0; i < h->n; i++)
        json_array_append_new(terms, term_json(&h->terms[i]));
    int failed = !object || json_dumpf(object, stdout, JSON_COMPACT) != 0;
    json_decref(object);
    putchar('\n');
    return failed || fflush(stdout) != 0 ? CLI_FAILED : CLI_OK;
}

static void when(uint64_t ms, char *out, size_t size)
{
    time_t seconds = (time_t)(ms / 1000);
    struct tm tm;

    localtime_r(&seconds, &tm);
    strftime(out, size, "%Y-%m-%d %H:%M:%S", &tm);
}

/* Three figures and a unit. */
static void span(int64_t ms, char *out, size_t size)
{
    if (ms < 1000)
        snprintf(out, size, "%" PRId64 " ms", ms);
    else if (ms < 100000)
        snprintf(out, size, "%.1f s", (double)ms / 1e3);
    else if (ms < 6000000)
        snprintf(out, size, "%.1f min", (double)ms / 6e4);
    else if (ms < 172800000)
        snprintf(out, size, "%.1f h", (double)ms / 3.6e6);
    else
        snprintf(out, size, "%.1f d", (double)ms / 8.64e7);
}

static void print_term(const struct tenure_term_record *t, int width)
{
    char from[32], lasted[32] = "now", gap[32] = "";
    bool open = t->to_ms == 0;

    when(t->from_ms, from, sizeof from);
    if (!open)
        span(t->to_ms > t->from_ms ? (int64_t)(t->to_ms - t->from_ms) : 0, lasted, sizeof lasted);
    if (t->gap_ms >= 0)
        span(t->gap_ms, gap, sizeof gap);
    printf("%s%s%s  %s%-*s%s  %s%-9s %-9s  %s%-9s%s  %s\n", cli_dim(), from, cli_plain(),
           open ? cli_green() : cli_bold(), width, t->holder, cli_plain(), t->estimated ? "~" : " ",
           lasted, t->cause, t->gap_ms > 1000 ? cli_red() : "", gap, cli_plain(), t->end);
}

static void print_table(const char *name, const struct tenure_history *h)
{
    int width = 6;

    if (h->n == 0) {
        printf("%s has no history\n", name);
        return;
    }
    for (uint32_t i = 0; i < h->n; i++) {
        int n = (int)strlen(h->terms[i].holder);

        width = n > width && n <= 40 ? n : width;
    }
    printf("%s%-19s  %-*s   %-9s %-9s  %-9s  %s%s\n", cli_dim(), "from", width, "leader", "for",
           "began by", "gap", "ended by", cli_plain());
    for (uint32_t i = 0; i < h->n; i++)
        print_term(&h->terms[i], width);
}

static int run(const struct cli_verb *verb, int argc, char **argv)
{
    static const struct option options[] = {CLI_COMMON_OPTIONS, {0}};
    struct tenure_history *h = calloc(1, sizeof *h);
    struct tenure_error err;
    struct cli_common c;
    int opt, code = CLI_OK;

    cli_common_init(&c);
    while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (!cli_common_take(&c, verb, opt)) {
            free(h);
            return CLI_USAGE;
        }
    }
    if (optind < argc && !c.name)
        c.name = argv[optind++];
    tenure_store *store = NULL;
    if (!h)
        code = cli_fail(verb, CLI_FAILED, "out of memory");
    else if (!c.name || optind < argc)
        code = cli_misuse(verb, "give --name NAME and nothing else");
    else if (!(store = cli_open(verb, &c)))
        code = CLI_FAILED;
    else if (tenure_history_look(store, c.name, h, tenure_now() + c.timeout_ns, &err))
        code = cli_fail(verb, CLI_FAILED, "%s", err.text);
    else if (c.json)
        code = print_json(c.name, h);
    else
        print_table(c.name, h);
    tenure_store_close(store);
    free(h);
    return code;
}

const struct cli_verb cli_history = {"history", "list who led, and why it changed", help, run};
