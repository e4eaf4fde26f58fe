/* tenure history: who led, when, and why it changed. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/key.h"
#include "cli/show/show.h"

static const char help[] =
    "usage: tenure history --name NAME [--follow] [--store URL] [--json]\n"
    "                      [--timeout 5s]\n"
    "\n"
    "Lists the last 64 terms of an election, oldest first: the leader, when the term\n"
    "began and how long it lasted, why it began and ended, and the gap without a\n"
    "leader before it.  Candidates record this beside the lease.  ~ marks an estimate\n"
    "(nobody saw the term end), - an unknown time.\n"
    "\n"
    "  --follow   then print each term as it begins and as it ends, until Ctrl-C\n"
    "  --json     one JSON object: name, history (epoch, holder, from_ms, to_ms,\n"
    "             estimated, cause, end, gap_ms, current); with --follow one a line\n"
    "\n"
    "Exit: 0 done, 1 the store refused the request or the history is damaged, 2 usage\n"
    "      error or no such store.\n";

/* What is shown: the terms, and which of them goes on. */
struct shown {
    struct tenure_history history;
    uint64_t current;
};

/* The terms first: who leads then is in none of them, or in the last. */
static enum tenure_status read_terms(tenure_store *store, const char *name, struct shown *s,
                                     int64_t by, struct tenure_error *err)
{
    struct tenure_lease_view lease = TENURE_LEASE_VIEW;
    s->history.size = sizeof s->history;
    enum tenure_status status = tenure_history_look(store, name, &s->history, by, err);

    if (!status)
        status = cli_lease_look(store, name, &lease, by, err);
    s->current = cli_current(&lease);
    return status;
}

static int print_json(const char *name, const struct shown *s)
{
    json_t *terms = json_array();
    json_t *object = json_pack("{s:s, s:o}", "name", name, "history", terms);

    for (uint32_t i = 0; i < s->history.n; i++)
        json_array_append_new(terms, cli_term_json(&s->history.terms[i], s->current));
    return cli_print_json(object);
}

static void print_term(const struct shown *s, uint32_t i, int width)
{
    const struct tenure_term_record *t = &s->history.terms[i];
    struct cli_term_words words;
    char from[CLI_TIME_SIZE];

    cli_time(t->from_ms, from);
    cli_term_words(&s->history, i, s->current, &words);
    printf("%s%s%s  %s%-*s%s %s%-8s %-9s %s%9s%s%s%s\n", cli_dim(), from, cli_plain(),
           words.now ? cli_green() : cli_bold(), width, t->holder, cli_plain(),
           t->estimated ? "~" : " ", words.lasted, t->cause, words.alarm, words.gap,
           *words.alarm ? cli_plain() : "", t->end[0] ? "  " : "", t->end);
}

static int print_head(const struct tenure_history *h)
{
    int width = 6;

    for (uint32_t i = 0; i < h->n; i++) {
        int n = (int)strlen(h->terms[i].holder);

        width = n > width && n <= 40 ? n : width;
    }
    printf("%s%-20s  %-*s  %-8s %-9s %9s  %s%s\n", cli_dim(), "from", width, "leader", "for",
           "began by", "gap", "ended by", cli_plain());
    return width;
}

static int print_table(const char *name, const struct shown *s)
{
    if (s->history.n == 0) {
        printf("%s has no history\n", name);
        return CLI_OK;
    }
    int width = print_head(&s->history);
    for (uint32_t i = 0; i < s->history.n; i++)
        print_term(s, i, width);
    return CLI_OK;
}

/* ---- Following ----------------------------------------------------------- */

#define REST_NS INT64_C(10000000000) /* then it looks, whatever the store's wait says */

static bool told_before(const struct tenure_history *told, const struct tenure_term_record *t)
{
    for (uint32_t i = 0; i < told->n; i++) {
        const struct tenure_term_record *old = &told->terms[i];

        if (old->epoch == t->epoch)
            return old->to_ms == t->to_ms && strcmp(old->end, t->end) == 0;
    }
    return false;
}

/* As `| head` does not for ever. */
static bool somebody_reads(void)
{
    struct pollfd out = {.fd = STDOUT_FILENO};

    return !ferror(stdout) && (poll(&out, 1, 0) <= 0 || !(out.revents & (POLLERR | POLLNVAL)));
}

/* The version first: what comes between the two is looked at again. */
static enum tenure_status look_again(tenure_store *store, const char *name,
                                     struct tenure_watch *watch, struct shown *s, int64_t by,
                                     struct tenure_error *err)
{
    struct tenure_value value = {0};
    enum tenure_status status = tenure_store_read(store, watch->key, &value, by, err);

    if (!status)
        watch->seen = value.token;
    tenure_value_free(&value);
    return status ? status : read_terms(store, name, s, by, err);
}

static void print_news(const struct cli_common *c, const struct shown *s,
                       const struct tenure_history *told, int width)
{
    for (uint32_t i = 0; i < s->history.n; i++) {
        if (told_before(told, &s->history.terms[i]))
            continue;
        if (!c->json)
            print_term(s, i, width);
        else if (cli_print_json(cli_term_json(&s->history.terms[i], s->current)))
            break;
    }
    fflush(stdout);
}

static int follow(const struct cli_verb *verb, const struct cli_common *c, tenure_store *store,
                  struct shown *s)
{
    struct tenure_history *told = calloc(1, sizeof *told);
    char key[TENURE_KEY_MAX + 1];
    struct tenure_watch watch = {.key = key};
    struct tenure_error err;
    bool begun = false, silent = false;
    int width = 0, code = CLI_FAILED;

    tn_key_of(c->name, TN_KEY_HISTORY, key);
    while (told && somebody_reads()) {
        if (look_again(store, c->name, &watch, s, tenure_now() + c->timeout_ns, &err)) {
            if (!begun) {
                code = cli_fail_with(verb, &err);
                break;
            }
            if (!silent)
                cli_fail(verb, 0, "%s; trying again", err.text);
            silent = true;
            sleep(1);
            continue;
        }
        if (!begun && !c->json)
            width = print_head(&s->history);
        print_news(c, s, told, width);
        *told = s->history;
        begun = true;
        silent = false;
        if (tenure_store_wait(store, &watch, 1, -1, tenure_now() + REST_NS, &err) ==
            TENURE_UNAVAILABLE)
            sleep(1);
    }
    free(told);
    return code;
}

static int run(const struct cli_verb *verb, int argc, char **argv)
{
    struct shown *s = calloc(1, sizeof *s);
    tenure_store *store = NULL;
    struct tenure_error err;
    struct cli_common c;
    bool follows = false;
    const struct cli_own own[] = {{"follow", NULL, &follows}, {0}};
    int code = CLI_USAGE;

    cli_common_init(&c);
    bool taken = cli_take(verb, argc, argv, own, &c);
    c.absent = follows ? CLI_WAIT : CLI_REFUSE;
    if (!s)
        code = cli_fail(verb, CLI_FAILED, "out of memory");
    else if (taken)
        store = cli_open(verb, &c, &code);
    if (!store) /* and all is said */
        goto done;
    if (follows)
        code = follow(verb, &c, store, s);
    else if (read_terms(store, c.name, s, tenure_now() + c.timeout_ns, &err))
        code = cli_fail_with(verb, &err);
    else
        code = c.json ? print_json(c.name, s) : print_table(c.name, s);
done:
    tenure_store_close(store);
    free(s);
    return code;
}

const struct cli_verb cli_history = {"history", "list past terms and why they ended", help, run};
