/* tenure status, tenure watch: who leads. */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/screen.h"
#include "tenure/control.h"
#include "tenure/lease.h"

static const char status_help[] =
    "usage: tenure status --name NAME [--store URL] [--json] [--timeout 5s]\n"
    "\n"
    "Shows who leads an election.  Without --store: the SQLite file in your state\n"
    "directory, as `tenure run` uses it.  TENURE_STORE and TENURE_NAME do as well.\n"
    "\n"
    "  --json     one JSON object: name, state (held, free, absent, refused), holder,\n"
    "             epoch, ttl_ms, transitions, version, paused, and more\n"
    "\n"
    "Exit: 0 held, 3 free or absent, 1 the store said no or the record is damaged,\n"
    "      2 usage.\n";

static const char watch_help[] =
    "usage: tenure watch --name NAME [--store URL] [--json] [--lines]\n"
    "\n"
    "Follows an election live, until Ctrl-C.  On a terminal: a table that is drawn again\n"
    "as things change, with the candidates and the last terms; NO_COLOR takes the colours\n"
    "away.  Elsewhere, and with --lines: a line for every change of hands.\n"
    "\n"
    "  --json     one JSON object a line, as `tenure status --json`\n";

static json_t *to_json(const char *name, const struct tenure_lease_view *v)
{
    return json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:s, s:s, s:s, s:s, s:s, s:s, s:i, s:s, s:s, "
                     "s:s, s:s, s:s}",
                     "name", name, "state", tenure_lease_state_word(v->state), "holder", v->holder,
                     "epoch", (json_int_t)v->epoch, "ttl_ms", (json_int_t)v->ttl_ms, "transitions",
                     (json_int_t)v->transitions, "version", v->token.version, "cause", v->cause,
                     "acquired_at", v->acquired_at, "renewed_at", v->renewed_at, "address",
                     v->address, "build", v->build, "priority", (int)v->priority, "incarnation",
                     v->incarnation, "grant", v->grant, "nonce", v->nonce, "prev", v->prev,
                     "trouble", v->trouble);
}

/* control may be NULL: watch shows the lease alone. */
static int print_json(const char *name, const struct tenure_lease_view *v,
                      const struct tenure_control *control)
{
    json_t *object = to_json(name, v);

    if (object && control) {
        json_object_set_new(object, "paused", json_boolean(control->paused));
        json_object_set_new(object, "paused_by", json_string(control->paused_by));
        json_object_set_new(object, "paused_at", json_string(control->paused_at));
        json_object_set_new(object, "reason", json_string(control->reason));
    }
    int failed = !object || json_dumpf(object, stdout, JSON_COMPACT) != 0;

    json_decref(object);
    putchar('\n');
    return failed || fflush(stdout) != 0 ? CLI_FAILED : CLI_OK;
}

static int code_of(const struct tenure_lease_view *v)
{
    switch (v->state) {
    case TENURE_LEASE_HELD:
        return CLI_OK;
    case TENURE_LEASE_REFUSED:
        return CLI_FAILED;
    default:
        return CLI_NOT_HELD;
    }
}

static void row(const char *label, const char *value)
{
    if (*value)
        printf("  %s%-12s%s %s\n", cli_dim(), label, cli_plain(), value);
}

static void print_view(const char *name, const struct tenure_lease_view *v)
{
    char text[64];

    switch (v->state) {
    case TENURE_LEASE_HELD:
        printf("%s%s%s is led by %s%s%s\n", cli_bold(), name, cli_plain(), cli_green(), v->holder,
               cli_plain());
        break;
    case TENURE_LEASE_FREE:
        printf("%s%s%s is free: nobody leads\n", cli_bold(), name, cli_plain());
        break;
    case TENURE_LEASE_ABSENT:
        printf("%s%s%s has never been led\n", cli_bold(), name, cli_plain());
        return;
    case TENURE_LEASE_REFUSED:
        printf("%s%s%s has a record that cannot be used: %s%s%s\n", cli_bold(), name, cli_plain(),
               cli_red(), v->trouble, cli_plain());
        printf("  nobody will claim it; look at it, then `tenure reset --name %s`\n", name);
        return;
    }
    snprintf(text, sizeof text, "%" PRIu64, v->epoch);
    row("epoch", text);
    snprintf(text, sizeof text, "%.3g s", v->ttl_ms / 1000.0);
    row("ttl", text);
    row("since", v->acquired_at);
    row("renewed", v->renewed_at);
    row("cause", v->cause);
    snprintf(text, sizeof text, "%" PRIu64, v->transitions);
    row("transitions", text);
    row("address", v->address);
    row("build", v->build);
}

static void print_pause(const struct tenure_control *control)
{
    if (!control->paused)
        return;
    printf("%sPAUSED%s%s%s%s%s: nobody takes over until `tenure resume`%s%s\n", cli_red(),
           control->paused_by[0] ? " by " : "", control->paused_by,
           control->paused_at[0] ? " since " : "", control->paused_at, cli_plain(),
           control->reason[0] ? "; " : "", control->reason);
}

enum { OPT_LINES = CLI_OPT_OWN };

/* Shared beginning of both verbs.  true: go on; else *code is the exit code. */
static bool begin(const struct cli_verb *verb, int argc, char **argv, struct cli_common *c,
                  tenure_store **store, bool *lines, int *code)
{
    static const struct option options[] = {
        CLI_COMMON_OPTIONS, {"lines", no_argument, NULL, OPT_LINES}, {0}};
    int opt;

    cli_common_init(c);
    while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (opt == OPT_LINES && lines) {
            *lines = true;
        } else if (!cli_common_take(c, verb, opt)) {
            *code = CLI_USAGE;
            return false;
        }
    }
    if (optind < argc && !c->name)
        c->name = argv[optind++];
    if (optind < argc || !c->name) {
        *code = cli_misuse(verb, c->name ? "unexpected '%s'" : "which election? give --name NAME%s",
                           c->name ? argv[optind] : "");
        return false;
    }
    *store = cli_open(verb, c);
    *code = CLI_FAILED;
    return *store != NULL;
}

static int run_status(const struct cli_verb *verb, int argc, char **argv)
{
    struct tenure_lease_view view = TENURE_LEASE_VIEW;
    struct tenure_control control = TENURE_CONTROL;
    struct tenure_error err;
    struct cli_common c;
    tenure_store *store = NULL;
    int code;

    if (!begin(verb, argc, argv, &c, &store, NULL, &code))
        return code;
    int64_t by = tenure_now() + c.timeout_ns;
    if (tenure_lease_look(store, c.name, &view, by, &err)) {
        code = cli_fail(verb, CLI_FAILED, "%s", err.text);
    } else {
        code = code_of(&view);
        /* Without it the lease is still worth showing. */
        if (tenure_control_look(store, c.name, &control, by, &err))
            cli_fail(verb, 0, "%s", err.text);
        if (!c.json) {
            print_pause(&control);
            print_view(c.name, &view);
        } else if (print_json(c.name, &view, &control)) {
            code = CLI_FAILED;
        }
    }
    tenure_store_close(store);
    return code;
}

const struct cli_verb cli_status = {"status", "show who leads", status_help, run_status};

/* ---- watch --------------------------------------------------------------- */

static void print_line(const char *name, const struct tenure_lease_view *v)
{
    char now[16];
    time_t t = time(NULL);
    struct tm tm;

    localtime_r(&t, &tm);
    strftime(now, sizeof now, "%H:%M:%S", &tm);
    if (v->state == TENURE_LEASE_HELD)
        printf("%s%s%s %s: %s%s%s leads, epoch %" PRIu64 " (%s)\n", cli_dim(), now, cli_plain(),
               name, cli_green(), v->holder, cli_plain(), v->epoch, v->cause);
    else
        printf("%s%s%s %s: %s%s%s%s%s\n", cli_dim(), now, cli_plain(), name, cli_red(),
               tenure_lease_state_word(v->state), cli_plain(), *v->trouble ? ": " : "", v->trouble);
    fflush(stdout);
}

static bool same_term(const struct tenure_lease_view *a, const struct tenure_lease_view *b)
{
    return a->state == b->state && a->epoch == b->epoch && strcmp(a->grant, b->grant) == 0;
}

static int run_watch(const struct cli_verb *verb, int argc, char **argv)
{
    struct tenure_lease_view shown = TENURE_LEASE_VIEW, view = TENURE_LEASE_VIEW;
    struct tenure_error err;
    struct cli_common c;
    tenure_store *store = NULL;
    bool first = true, silent = false, lines = false;
    int code;

    if (!begin(verb, argc, argv, &c, &store, &lines, &code))
        return code;
    if (!lines && !c.json && cli_screen_possible()) {
        code = cli_screen(&c, store);
        tenure_store_close(store);
        return code;
    }
    for (;;) {
        if (tenure_lease_look(store, c.name, &view, tenure_now() + c.timeout_ns, &err)) {
            /* Said once, not every second; it goes on by itself when it can. */
            if (!silent)
                cli_fail(verb, 0, "%s; trying again", err.text);
            silent = true;
            if (tenure_status_class(err.code) == TENURE_CLASS_PERMANENT && first)
                break;
            sleep(1);
            continue;
        }
        silent = false;
        if (first || !same_term(&shown, &view)) {
            if (c.json ? print_json(c.name, &view, NULL) != CLI_OK
                       : (print_line(c.name, &view), ferror(stdout)))
                break;
            shown = view;
            first = false;
        }
        if (tenure_lease_wait(store, c.name, &view, -1, tenure_now() + 10 * INT64_C(1000000000),
                              &err) == TENURE_UNAVAILABLE)
            sleep(1);
    }
    tenure_store_close(store);
    return CLI_FAILED;
}

const struct cli_verb cli_watch = {"watch", "follow who leads, live", watch_help, run_watch};
