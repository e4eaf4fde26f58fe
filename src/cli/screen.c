/* tenure watch on a terminal: a table that is drawn again at every change, and each second. */
#include "cli/screen.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tenure/control.h"
#include "tenure/history.h"
#include "tenure/lease.h"

#define BEAT_NS  INT64_C(1000000000)
#define TERMS    8 /* of the history, the newest */
#define ROWS_MAX 32

struct screen {
    struct tenure_lease_view lease;
    struct tenure_control control;
    struct tenure_history history;
    struct tenure_candidate rows[ROWS_MAX];
    unsigned n_rows;
    char token[64];     /* of the renewal that was last seen */
    int64_t renewed_ns; /* when, on our own clock */
    char trouble[512];
};

static bool keep(void *arg, const struct tenure_candidate *candidate)
{
    struct screen *s = arg;

    s->rows[s->n_rows++] = *candidate;
    return s->n_rows < ROWS_MAX;
}

/* Everything that is there; what cannot be read stays as it was. */
static void look(struct screen *s, tenure_store *store, const struct cli_common *c)
{
    int64_t by = tenure_now() + c->timeout_ns;
    struct tenure_error err;

    s->trouble[0] = '\0';
    if (tenure_lease_look(store, c->name, &s->lease, by, &err)) {
        snprintf(s->trouble, sizeof s->trouble, "%s", err.text);
        return;
    }
    if (strcmp(s->token, s->lease.token.version) != 0) {
        snprintf(s->token, sizeof s->token, "%s", s->lease.token.version);
        s->renewed_ns = tenure_now();
    }
    tenure_control_look(store, c->name, &s->control, by, NULL);
    tenure_history_look(store, c->name, &s->history, by, NULL);
    s->n_rows = 0;
    tenure_candidates(store, c->name, keep, s, by, NULL);
}

/* ---- Drawing ------------------------------------------------------------- */

#define NEXT_LINE "\033[K\n" /* what was longer before is wiped */

static void draw_lease(const struct screen *s, const char *name)
{
    const struct tenure_lease_view *v = &s->lease;
    double ago = (double)(tenure_now() - s->renewed_ns) / 1e9, ttl = v->ttl_ms / 1000.0;

    printf("%s%s%s  ", cli_bold(), name, cli_plain());
    if (v->state == TENURE_LEASE_HELD)
        printf("led by %s%s%s, epoch %" PRIu64 ", since %s (%s)" NEXT_LINE, cli_green(), v->holder,
               cli_plain(), v->epoch, v->acquired_at, v->cause);
    else
        printf("%s%s%s: nobody leads" NEXT_LINE, cli_red(), tenure_lease_state_word(v->state),
               cli_plain());
    if (v->state == TENURE_LEASE_HELD)
        printf("  %slast renewal seen%s %s%.1f s%s ago, ttl %.3g s" NEXT_LINE, cli_dim(),
               cli_plain(), ago > ttl / 2 ? cli_red() : "", ago, cli_plain(), ttl);
    if (s->control.paused)
        printf("  %sPAUSED%s%s%s%s: %s" NEXT_LINE, cli_red(), s->control.paused_by[0] ? " by " : "",
               s->control.paused_by, cli_plain(), "", s->control.reason);
    if (s->trouble[0])
        printf("  %sthe store: %s%s" NEXT_LINE, cli_red(), s->trouble, cli_plain());
}

static void draw_candidates(const struct screen *s)
{
    printf(NEXT_LINE "%s  %-24s %-10s %-9s %8s  %s%s" NEXT_LINE, cli_dim(), "candidate", "state",
           "health", "priority", "build", cli_plain());
    for (unsigned i = 0; i < s->n_rows; i++) {
        const struct tenure_candidate *r = &s->rows[i];

        printf("  %s%-24s%s %-10s %s%-9s%s %8d  %s%s%s" NEXT_LINE,
               strcmp(r->state, "leading") == 0 ? cli_green() : "", r->id, cli_plain(), r->state,
               r->healthy ? "" : cli_red(), r->healthy ? "healthy" : "unhealthy", cli_plain(),
               (int)r->priority, r->build, r->trouble[0] ? "; " : "", r->trouble);
    }
}

static void draw_history(const struct screen *s)
{
    uint32_t first = s->history.n > TERMS ? s->history.n - TERMS : 0;

    printf(NEXT_LINE "%s  %-8s  %-24s %-9s %9s  %s%s" NEXT_LINE, cli_dim(), "from", "leader",
           "began by", "gap", "ended by", cli_plain());
    for (uint32_t i = s->history.n; i > first; i--) {
        const struct tenure_term_record *t = &s->history.terms[i - 1];
        time_t at = (time_t)(t->from_ms / 1000);
        char from[16], gap[24] = "";
        struct tm tm;

        localtime_r(&at, &tm);
        strftime(from, sizeof from, "%H:%M:%S", &tm);
        if (t->gap_ms >= 0)
            snprintf(gap, sizeof gap, "%.3f s", (double)t->gap_ms / 1e3);
        printf("  %s  %-24s %-9s %9s  %s" NEXT_LINE, from, t->holder, t->cause, gap, t->end);
    }
}

static bool draw(const struct screen *s, const char *name)
{
    fputs("\033[H", stdout); /* over what is there: nothing flickers */
    draw_lease(s, name);
    draw_candidates(s);
    draw_history(s);
    fputs("\033[J", stdout);
    return fflush(stdout) == 0;
}

bool cli_screen_possible(void)
{
    const char *term = getenv("TERM");

    return isatty(STDOUT_FILENO) && term && *term && strcmp(term, "dumb") != 0;
}

int cli_screen(const struct cli_common *c, tenure_store *store)
{
    struct screen *s = calloc(1, sizeof *s);

    if (!s)
        return CLI_FAILED;
    s->lease = (struct tenure_lease_view)TENURE_LEASE_VIEW;
    s->control = (struct tenure_control)TENURE_CONTROL;
    s->history.size = sizeof s->history;
    fputs("\033[2J", stdout);
    do {
        int64_t next = tenure_now() + BEAT_NS;

        look(s, store, c);
        if (!draw(s, c->name))
            break;
        if (s->trouble[0] ||
            tenure_lease_wait(store, c->name, &s->lease, -1, next, NULL) == TENURE_UNAVAILABLE)
            sleep(1);
    } while (!ferror(stdout));
    free(s);
    return CLI_FAILED;
}
