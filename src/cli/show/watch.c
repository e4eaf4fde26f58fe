/* tenure watch: who leads, as it changes. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/show/screen.h"
#include "cli/show/show.h"

static const char help[] =
    "usage: tenure watch [--name NAME] [--all] [--store URL] [--json] [--lines]\n"
    "\n"
    "Follows an election live, until q or Ctrl-C; without a name, every election of\n"
    "the store.  On a terminal: a table with the candidates and the last terms,\n"
    "redrawn on every change (NO_COLOR turns colours off).  Otherwise, and with\n"
    "--lines: one line per change of leader.  A store that does not exist yet, does\n"
    "not answer or is damaged is reported once and retried.\n"
    "\n"
    "  --all      every election, even if TENURE_NAME is set\n"
    "  --json     one JSON object per line, as `tenure status --json`, the lease only\n"
    "  --lines    one line per change of leader, on a terminal too\n"
    "  --timeout 5s  time limit of a single read\n"
    "\n"
    "Exit: 0 on q; 130 on Ctrl-C and 143 on SIGTERM, as in a shell; 1 the store\n"
    "      refused the request or the output was closed; 2 usage error or no such\n"
    "      store.\n";

#define REST_NS    INT64_C(10000000000) /* then it looks, whatever the store's wait says */
#define BETWEEN_MS 200                  /* from one listing of a busy store to the next */

static void print_line(const char *name, const struct tenure_lease_view *v)
{
    char now[CLI_TIME_SIZE];

    cli_time((uint64_t)time(NULL) * 1000, now);
    if (v->state == TENURE_LEASE_HELD)
        printf("%s%s%s %s: %s%s%s leads, epoch %" PRIu64 " (%s)\n", cli_dim(), now, cli_plain(),
               name, cli_green(), v->holder, cli_plain(), v->epoch, v->cause);
    else
        printf("%s%s%s %s: %s%s%s%s%s\n", cli_dim(), now, cli_plain(), name, cli_red(),
               tenure_lease_state_word(v->state), cli_plain(), *v->trouble ? ": " : "", v->trouble);
    fflush(stdout);
}

/* false: nobody reads any more. */
static bool print_lease(const struct cli_common *c, const char *name,
                        const struct tenure_lease_view *v)
{
    if (c->json)
        return cli_print_json(cli_lease_json(name, v, NULL)) == CLI_OK;
    print_line(name, v);
    return !ferror(stdout);
}

static bool same_term(const struct tenure_lease_view *a, const struct tenure_lease_view *b)
{
    return a->state == b->state && a->epoch == b->epoch && strcmp(a->grant, b->grant) == 0;
}

/* ---- Lines --------------------------------------------------------------- */

struct follower {
    const struct cli_verb *verb;
    const struct cli_common *common;
    tenure_store *store;
    bool begun;  /* it has answered */
    bool silent; /* its silence has been told */
    int code;    /* to end with */
};

/* Said once, not every second; it goes on by itself when it can.  false: it never will. */
static bool try_again(struct follower *f, const struct tenure_error *err)
{
    if (!f->begun && !cli_may_pass(err->code)) {
        f->code = cli_fail_with(f->verb, err);
        return false;
    }
    if (!f->silent)
        cli_fail(f->verb, 0, "%s; trying again", err->text);
    f->silent = true;
    sleep(1);
    return true;
}

static void answered(struct follower *f)
{
    f->begun = true;
    f->silent = false;
}

static void follow_one(struct follower *f)
{
    struct tenure_lease_view shown = TENURE_LEASE_VIEW, view = TENURE_LEASE_VIEW;
    const struct cli_common *c = f->common;
    struct tenure_error err;

    for (;;) {
        if (cli_lease_look(f->store, c->name, &view, tenure_now() + c->timeout_ns, &err)) {
            if (!try_again(f, &err))
                return;
            continue;
        }
        if (!f->begun || !same_term(&shown, &view)) {
            if (!print_lease(c, c->name, &view))
                return;
            shown = view;
        }
        answered(f);
        /* A damaged one has no version to wait on. */
        bool damaged = view.state == TENURE_LEASE_REFUSED && tenure_token_absent(&view.token);
        if (damaged || tenure_lease_wait(f->store, c->name, &view, -1, tenure_now() + REST_NS,
                                         &err) == TENURE_UNAVAILABLE)
            sleep(1);
    }
}

/* What is in now and was not so in old.  Both are sorted by name. */
static bool tell_news(const struct cli_common *c, const struct cli_rows *old,
                      const struct cli_rows *now)
{
    size_t j = 0;

    for (size_t i = 0; i < now->n; i++) {
        const struct tenure_election *e = &now->row[i].election;

        while (j < old->n && strcmp(old->row[j].election.name, e->name) < 0)
            j++;
        bool known = j < old->n && strcmp(old->row[j].election.name, e->name) == 0;
        if (!(known && same_term(&old->row[j].election.lease, &e->lease)) &&
            !print_lease(c, e->name, &e->lease))
            return false;
    }
    return true;
}

static void follow_all(struct follower *f)
{
    struct cli_rows shown = {0}, now = {0};
    struct tenure_watch watch = {.key = "", .prefix = true};
    const struct cli_common *c = f->common;
    struct tenure_error err;

    for (;;) {
        if (cli_rows_again(&now, f->store, watch.mark, tenure_now() + c->timeout_ns, &err)) {
            if (!try_again(f, &err))
                break;
            continue;
        }
        answered(f);
        if (!tell_news(c, &shown, &now))
            break;
        cli_rows_free(&shown);
        shown = now;
        now = (struct cli_rows){0};
        usleep(BETWEEN_MS * 1000);
        if (tenure_store_wait(f->store, &watch, 1, -1, tenure_now() + REST_NS, &err) ==
            TENURE_UNAVAILABLE)
            sleep(1);
    }
    cli_rows_free(&shown);
    cli_rows_free(&now);
}

static int run(const struct cli_verb *verb, int argc, char **argv)
{
    struct cli_common c;
    bool lines = false;
    const struct cli_own own[] = {{"all", NULL, &c.all}, {"lines", NULL, &lines}, {0}};
    struct follower f = {.verb = verb, .common = &c, .code = CLI_FAILED};
    int code;

    cli_common_init(&c);
    c.any = true;
    c.absent = CLI_WAIT;
    if (!cli_begin(verb, argc, argv, own, &c, &f.store, &code))
        return code;
    if (!lines && !c.json && cli_screen_possible())
        f.code = cli_screen(verb, &c, f.store);
    else if (c.name)
        follow_one(&f);
    else
        follow_all(&f);
    tenure_store_close(f.store);
    return f.code;
}

const struct cli_verb cli_watch = {"watch", "follow elections live", help, run};
