/* tenure status: who leads. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/show/show.h"

static const char help[] =
    "usage: tenure status [--name NAME] [--all] [--store URL] [--json] [--timeout 5s]\n"
    "\n"
    "Shows an election in full, with its candidates and last terms; without a name,\n"
    "one line per election of the store.  Default store: the SQLite file in your\n"
    "state directory that `tenure run` uses.  TENURE_STORE and TENURE_NAME set the\n"
    "defaults.  Never creates a store.\n"
    "\n"
    "  --all      show every election, even if TENURE_NAME is set\n"
    "  --json     print one JSON object: name, state (held, free, absent, refused),\n"
    "             holder, epoch, ttl_ms, left_ms, transitions, version, paused,\n"
    "             candidates, history and more; for all elections, an array of these\n"
    "             in `elections`\n"
    "\n"
    "The remaining time of a lease is an estimate (~) from the wall clocks of the\n"
    "holder and of this machine.\n"
    "\n"
    "Exit: 0 held, 3 free or absent, 1 the store refused the request or a record is\n"
    "      damaged, 2 usage error or no such store.  For all elections: the worst of\n"
    "      these; one that nobody contends for, such as a lock that is not in use,\n"
    "      does not count; 3 if there are none.\n";

#define TERMS 5 /* the newest; `tenure history` has them all */

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

/* ---- One ----------------------------------------------------------------- */

static void row(const char *label, const char *value)
{
    if (*value)
        printf("  %s%-12s%s %s\n", cli_dim(), label, cli_plain(), value);
}

static void row_left(const struct tenure_lease_view *v)
{
    int64_t left = cli_left_ms(v, 0);
    char text[64];

    if (left == CLI_LEFT_UNKNOWN)
        snprintf(text, sizeof text, "unknown: the clocks differ");
    else if (left > 0)
        snprintf(text, sizeof text, "~%.1f s", (double)left / 1e3);
    else
        snprintf(text, sizeof text, "%snone: not renewed in time%s", cli_red(), cli_plain());
    row("left", text);
}

/* Its holder has won a term, and cannot begin it before its state is sealed. */
static bool is_sealing(const struct cli_look *l)
{
    for (unsigned i = 0; i < l->n_candidates; i++) {
        if (strcmp(cli_role(&l->candidates[i], &l->lease), "sealing") == 0)
            return true;
    }
    return false;
}

/* store: what names it behind a command. */
static void print_lease(const char *name, const struct cli_look *l, const char *store)
{
    const struct tenure_lease_view *v = &l->lease;
    char text[96], age[24];

    switch (v->state) {
    case TENURE_LEASE_HELD:
        if (is_sealing(l))
            printf("%s%s%s is held by %s, which has not sealed its state yet: no leader\n",
                   cli_bold(), name, cli_plain(), v->holder);
        else
            printf("%s%s%s is led by %s%s%s\n", cli_bold(), name, cli_plain(), cli_green(),
                   v->holder, cli_plain());
        break;
    case TENURE_LEASE_FREE:
        printf("%s%s%s is free: nobody leads\n", cli_bold(), name, cli_plain());
        break;
    case TENURE_LEASE_ABSENT:
        printf(v->epoch ? "%s%s%s was removed\n" : "%s%s%s has never been led\n", cli_bold(), name,
               cli_plain());
        return;
    case TENURE_LEASE_REFUSED:
        printf("%s%s%s has an unusable record: %s%s%s\n", cli_bold(), name, cli_plain(), cli_red(),
               v->trouble, cli_plain());
        printf("  no candidate will claim it; inspect it, then run `tenure reset --name %s%s`\n",
               name, store);
        return;
    }
    snprintf(text, sizeof text, "%" PRIu64, v->epoch);
    row("epoch", text);
    snprintf(text, sizeof text, "%.3g s", v->ttl_ms / 1000.0);
    row("ttl", text);
    if (v->state == TENURE_LEASE_HELD)
        row_left(v);
    int64_t age_ms = cli_age_ms(v);
    cli_span(age_ms, age);
    bool aged = age_ms >= 0 && v->state == TENURE_LEASE_HELD;
    snprintf(text, sizeof text, "%s%s%s%s", v->acquired_at, aged ? " (" : "", aged ? age : "",
             aged ? ")" : "");
    row("since", text);
    row("renewed", v->renewed_at);
    row("cause", cli_cause(l));
    snprintf(text, sizeof text, "%" PRIu64, v->transitions);
    row("transitions", text);
    row("address", v->address);
    row("build", v->build);
}

static void print_one(const struct cli_common *c, const struct cli_look *l)
{
    char store[CLI_AGAIN_MAX];
    int width = cli_width();

    cli_store_again(c, store);

    if (l->control.paused)
        cli_show_pause(stdout, &l->control);
    print_lease(c->name, l, store);
    if (l->n_candidates) {
        putchar('\n');
        cli_table_candidates(stdout, l, width);
    }
    if (l->history.n) {
        putchar('\n');
        cli_table_terms(stdout, l, TERMS, width);
    }
}

static json_t *one_json(const char *name, const struct cli_look *l)
{
    json_t *object = cli_lease_json(name, &l->lease, &l->control);
    json_t *candidates = json_array(), *history = json_array();

    for (unsigned i = 0; i < l->n_candidates; i++)
        json_array_append_new(candidates, cli_candidate_json(&l->candidates[i], &l->lease));
    for (uint32_t i = 0; i < l->history.n; i++)
        json_array_append_new(history, cli_term_json(&l->history.terms[i], cli_current(&l->lease)));
    json_object_set_new(object, "candidates", candidates);
    json_object_set_new(object, "history", history);
    return object;
}

static int show_one(const struct cli_verb *verb, const struct cli_common *c, tenure_store *store)
{
    struct cli_look *l = cli_look_new();
    struct tenure_error err;
    int code;

    if (!l)
        return cli_fail(verb, CLI_FAILED, "out of memory");
    if (cli_look_again(l, store, c->name, tenure_now() + c->timeout_ns, &err)) {
        code = cli_fail_with(verb, &err);
    } else {
        code = code_of(&l->lease);
        if (l->partly[0])
            cli_fail(verb, 0, "%s", l->partly);
        if (!c->json)
            print_one(c, l);
        else if (cli_print_json(one_json(c->name, l)))
            code = CLI_FAILED;
    }
    free(l);
    return code;
}

/* ---- All ----------------------------------------------------------------- */

static json_t *all_json(const struct cli_rows *rows)
{
    json_t *array = json_array();

    for (size_t i = 0; i < rows->n; i++) {
        const struct tenure_election *e = &rows->row[i].election;
        json_t *object = cli_lease_json(e->name, &e->lease, &e->control);

        json_object_set_new(object, "candidates_count", json_integer(e->candidates));
        json_object_set_new(object, "healthy_count", json_integer(e->healthy));
        json_object_set_new(object, "troubled_count", json_integer(e->troubled));
        json_array_append_new(array, object);
    }
    return json_pack("{s:o}", "elections", array);
}

/* Nobody leads because nobody wants to: a lock that is not in use, a service that was stopped. */
static bool is_idle(const struct tenure_election *e)
{
    return e->lease.state != TENURE_LEASE_REFUSED && e->candidates == 0;
}

/* One that is damaged outdoes one that nobody leads. */
static int worst(const struct cli_rows *rows)
{
    int code = rows->n ? CLI_OK : CLI_NOT_HELD;

    for (size_t i = 0; i < rows->n; i++) {
        const struct tenure_election *e = &rows->row[i].election;
        int one = is_idle(e) ? CLI_OK : code_of(&e->lease);

        code = one == CLI_FAILED || code == CLI_OK ? one : code;
        if (code == CLI_FAILED)
            break;
    }
    return code;
}

static int show_all(const struct cli_verb *verb, const struct cli_common *c, tenure_store *store)
{
    struct cli_rows rows = {0};
    struct tenure_error err;

    if (cli_rows_again(&rows, store, NULL, tenure_now() + c->timeout_ns, &err))
        return cli_fail_with(verb, &err);
    int code = worst(&rows);
    if (c->json && cli_print_json(all_json(&rows)))
        code = CLI_FAILED;
    else if (!c->json && rows.n)
        cli_table_rows(stdout, &rows, cli_width());
    else if (!c->json)
        puts("there are no elections in this store");
    cli_rows_free(&rows);
    return code;
}

static int run(const struct cli_verb *verb, int argc, char **argv)
{
    struct cli_common c;
    const struct cli_own own[] = {{"all", NULL, &c.all}, {0}};
    tenure_store *store = NULL;
    int code;

    cli_common_init(&c);
    c.any = true;
    c.absent = CLI_EMPTY;
    if (!cli_begin(verb, argc, argv, own, &c, &store, &code))
        return code;
    code = c.name ? show_one(verb, &c, store) : show_all(verb, &c, store);
    tenure_store_close(store);
    return code;
}

const struct cli_verb cli_status = {"status", "show the leader", help, run};
