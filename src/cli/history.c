/* tenure history: who led, when, and why it changed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/show.h"

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

static int print_json(const char *name, const struct tenure_history *h)
{
    json_t *terms = json_array();
    json_t *object = json_pack("{s:s, s:o}", "name", name, "history", terms);

    for (uint32_t i = 0; i < h->n; i++)
        json_array_append_new(terms, cli_term_json(&h->terms[i]));
    return cli_print_json(object);
}

static void when(uint64_t ms, char *out, size_t size)
{
    time_t seconds = (time_t)(ms / 1000);
    struct tm tm;

    localtime_r(&seconds, &tm);
    strftime(out, size, "%Y-%m-%d %H:%M:%S", &tm);
}

static void print_term(const struct tenure_term_record *t, int width)
{
    char from[32], lasted[24] = "now", gap[24] = "";
    bool open = t->to_ms == 0;

    when(t->from_ms, from, sizeof from);
    if (!open)
        cli_span(t->to_ms > t->from_ms ? (int64_t)(t->to_ms - t->from_ms) : 0, lasted);
    if (t->gap_ms >= 0)
        cli_span(t->gap_ms, gap);
    printf("%s%s%s  %s%-*s%s  %s%-9s %-9s  %s%-9s%s  %s\n", cli_dim(), from, cli_plain(),
           open ? cli_green() : cli_bold(), width, t->holder, cli_plain(), t->estimated ? "~" : " ",
           lasted, t->cause, t->gap_ms > 1000 ? cli_red() : "", gap, cli_plain(), t->end);
}

static int print_table(const char *name, const struct tenure_history *h)
{
    int width = 6;

    if (h->n == 0) {
        printf("%s has no history\n", name);
        return CLI_OK;
    }
    for (uint32_t i = 0; i < h->n; i++) {
        int n = (int)strlen(h->terms[i].holder);

        width = n > width && n <= 40 ? n : width;
    }
    printf("%s%-19s  %-*s   %-9s %-9s  %-9s  %s%s\n", cli_dim(), "from", width, "leader", "for",
           "began by", "gap", "ended by", cli_plain());
    for (uint32_t i = 0; i < h->n; i++)
        print_term(&h->terms[i], width);
    return CLI_OK;
}

static int run(const struct cli_verb *verb, int argc, char **argv)
{
    struct tenure_history *h = calloc(1, sizeof *h);
    tenure_store *store = NULL;
    struct tenure_error err;
    struct cli_common c;
    int code;

    cli_common_init(&c);
    if (!h)
        code = cli_fail(verb, CLI_FAILED, "out of memory");
    else if (!cli_begin(verb, argc, argv, NULL, &c, &store, &code))
        store = NULL; /* and all is said */
    else if (tenure_history_look(store, c.name, h, tenure_now() + c.timeout_ns, &err))
        code = cli_fail(verb, CLI_FAILED, "%s", err.text);
    else
        code = c.json ? print_json(c.name, h) : print_table(c.name, h);
    tenure_store_close(store);
    free(h);
    return code;
}

const struct cli_verb cli_history = {"history", "list who led, and why it changed", help, run};
