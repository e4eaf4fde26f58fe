/* Elections, candidates and terms as tables that fit a terminal. */
#include <inttypes.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "base/rfc3339.h"
#include "cli/show/show.h"

/* ---- Words --------------------------------------------------------------- */

void cli_span(int64_t ms, char out[24])
{
    if (ms < 1000)
        snprintf(out, 24, "%" PRId64 " ms", ms);
    else if (ms < 100000)
        snprintf(out, 24, "%.1f s", (double)ms / 1e3);
    else if (ms < 6000000)
        snprintf(out, 24, "%.1f min", (double)ms / 6e4);
    else if (ms < 172800000)
        snprintf(out, 24, "%.1f h", (double)ms / 3.6e6);
    else
        snprintf(out, 24, "%.1f d", (double)ms / 8.64e7);
}

int cli_width(void)
{
    struct winsize size;

    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

/* Colours are bytes that take no room, so a cell is padded before it is painted. */
static void cell(FILE *to, const char *colour, int width, const char *text)
{
    int len = (int)strlen(text);

    if (width > 2 && len > width)
        fprintf(to, "%s%.*s..%s", colour, width - 2, text, *colour ? cli_plain() : "");
    else
        fprintf(to, "%s%-*s%s", colour, width, text, *colour ? cli_plain() : "");
}

static int max(int a, int b)
{
    return a > b ? a : b;
}

static int min(int a, int b)
{
    return a < b ? a : b;
}

/* A column takes what its longest word needs, but leaves room for the others. */
static int fit(int longest, int width, int others)
{
    return width > 0 ? min(longest, max(width - others, 8)) : longest;
}

/* ~ where it is an estimate by the wall clocks. */
static void left_text(const struct tenure_lease_view *lease, int64_t renewed_ns, char out[24])
{
    int64_t left = cli_left_ms(lease, renewed_ns);

    if (left == CLI_LEFT_UNKNOWN)
        snprintf(out, 24, "%s", lease->state == TENURE_LEASE_HELD ? "?" : "");
    else if (left <= 0)
        snprintf(out, 24, "over");
    else
        snprintf(out, 24, "%s%.1f s", renewed_ns ? "" : "~", (double)left / 1e3);
}

/* ---- All elections ------------------------------------------------------- */

#define EPOCH_WIDTH 13 /* milliseconds since 1970, until 2286 */
#define OTHERS      (7 + EPOCH_WIDTH + 8 + 7 + 7 + 6)

static const char *state_colour(const struct cli_row *r)
{
    if (r->election.lease.state == TENURE_LEASE_HELD)
        return cli_left_ms(&r->election.lease, r->renewed_ns) > 0 ? cli_green() : cli_red();
    return r->election.lease.state == TENURE_LEASE_ABSENT ? cli_dim() : cli_red();
}

static void row_line(FILE *to, const struct cli_row *r, int name_width, int leader_width)
{
    const struct tenure_lease_view *v = &r->election.lease;
    char epoch[24] = "", age[24] = "", left[24], healthy[24];
    int64_t age_ms = cli_age_ms(v);

    left_text(v, r->renewed_ns, left);
    if (v->epoch)
        snprintf(epoch, sizeof epoch, "%" PRIu64, v->epoch);
    if (v->state == TENURE_LEASE_HELD && age_ms >= 0)
        cli_span(age_ms, age);
    snprintf(healthy, sizeof healthy, "%u/%u", r->election.healthy, r->election.candidates);
    cell(to, cli_bold(), name_width, r->election.name);
    fputc(' ', to);
    cell(to, state_colour(r), 7, tenure_lease_state_word(v->state));
    fputc(' ', to);
    cell(to, "", leader_width, v->holder);
    fprintf(to, " %*s %8s %s%7s%s ", EPOCH_WIDTH, epoch, age,
            strcmp(left, "over") == 0 ? cli_red() : "", left, cli_plain());
    bool sick = r->election.healthy < r->election.candidates;
    fprintf(to, "%s%7s%s\n", sick ? cli_red() : "", healthy, cli_plain());
}

/* The reason first: the rest may be cut off. */
void cli_show_pause(FILE *to, const struct tenure_control *c)
{
    fprintf(to, "%sPAUSED%s%s%s: %s%snobody takes over until `tenure resume`%s%s%s\n", cli_red(),
            c->paused_by[0] ? " by " : "", c->paused_by, cli_plain(), c->reason,
            c->reason[0] ? "; " : "", c->paused_at[0] ? " (since " : "", c->paused_at,
            c->paused_at[0] ? ")" : "");
}

static void row_notes(FILE *to, const struct cli_row *r)
{
    const struct tenure_lease_view *v = &r->election.lease;

    if (r->election.control.paused) {
        fputs("  ", to);
        cli_show_pause(to, &r->election.control);
    }
    if (v->trouble[0])
        fprintf(to, "  %s%s%s\n", cli_red(), v->trouble, cli_plain());
    if (r->election.troubled)
        fprintf(to, "  %s%s: %s%s\n", cli_red(), r->election.trouble_of, r->election.trouble,
                cli_plain());
}

void cli_table_rows(FILE *to, const struct cli_rows *rows, int width)
{
    int name_width = 8, leader_width = 6;

    for (size_t i = 0; i < rows->n; i++) {
        const struct tenure_election *e = &rows->row[i].election;

        name_width = max(name_width, (int)strlen(e->name));
        leader_width = max(leader_width, (int)strlen(e->lease.holder));
    }
    name_width = fit(name_width, width, OTHERS + min(leader_width, max(width - OTHERS, 0) / 2));
    leader_width = fit(leader_width, width, OTHERS + name_width);
    fprintf(to, "%s%-*s %-7s %-*s %*s %8s %7s %7s%s\n", cli_dim(), name_width, "election", "state",
            leader_width, "leader", EPOCH_WIDTH, "epoch", "for", "left", "healthy", cli_plain());
    for (size_t i = 0; i < rows->n; i++) {
        row_line(to, &rows->row[i], name_width, leader_width);
        row_notes(to, &rows->row[i]);
    }
}

/* ---- One election -------------------------------------------------------- */

void cli_table_candidates(FILE *to, const struct cli_look *l, int width)
{
    int id_width = 9;

    for (unsigned i = 0; i < l->n_candidates; i++)
        id_width = max(id_width, (int)strlen(l->candidates[i].id));
    id_width = fit(id_width, width, 46);
    fprintf(to, "%s  %-*s %-9s %-9s %8s  %s%s\n", cli_dim(), id_width, "candidate", "state",
            "health", "priority", "build", cli_plain());
    for (unsigned i = 0; i < l->n_candidates; i++) {
        const struct tenure_candidate *c = &l->candidates[i];
        const char *role = cli_role(c, &l->lease);
        /* Of its health, too, it wrote when it led. */
        const char *health = strcmp(role, "former") == 0 ? "-"
                             : c->healthy                ? "healthy"
                                                         : "unhealthy";

        fputs("  ", to);
        cell(to, strcmp(role, "leading") == 0 ? cli_green() : "", id_width, c->id);
        fprintf(to, " %-9s %s%-9s%s %8d%s%s%s%s%s%s\n", role, c->healthy ? "" : cli_red(), health,
                c->healthy ? "" : cli_plain(), (int)c->priority, c->build[0] ? "  " : "", c->build,
                c->trouble[0] ? "; " : "", c->trouble[0] ? cli_red() : "", c->trouble,
                c->trouble[0] ? cli_plain() : "");
    }
}

void cli_term_words(const struct tenure_history *h, uint32_t i, uint64_t current,
                    struct cli_term_words *out)
{
    const struct tenure_term_record *t = &h->terms[i];
    char span[24];

    *out = (struct cli_term_words){
        .now = t->to_ms == 0 && t->epoch == current, .lasted = "-", .gap = "-", .alarm = ""};
    int64_t lasted_ms = tn_wall_span_ms(t->from_ms, t->to_ms);
    if (lasted_ms >= 0)
        cli_span(lasted_ms, out->lasted);
    else if (out->now)
        snprintf(out->lasted, sizeof out->lasted, "now");
    if (t->gap_ms < 0)
        return;
    cli_span(t->gap_ms, span);
    snprintf(out->gap, sizeof out->gap, "%s%.20s", i > 0 && h->terms[i - 1].estimated ? "~" : "",
             span);
    out->alarm = t->gap_ms > 1000 ? cli_red() : "";
}

static void term_line(FILE *to, const struct cli_look *l, uint32_t i, int leader_width)
{
    const struct tenure_term_record *t = &l->history.terms[i];
    struct cli_term_words words;
    char from[CLI_TIME_SIZE];

    cli_term_words(&l->history, i, cli_current(&l->lease), &words);
    cli_time(t->from_ms, from);
    fprintf(to, "  %s%s%s ", cli_dim(), from, cli_plain());
    cell(to, words.now ? cli_green() : "", leader_width, t->holder);
    fprintf(to, " %s%-8s %-9s %s%9s%s%s%s\n", t->estimated ? "~" : " ", words.lasted, t->cause,
            words.alarm, words.gap, *words.alarm ? cli_plain() : "", t->end[0] ? "  " : "", t->end);
}

void cli_table_terms(FILE *to, const struct cli_look *l, unsigned most, int width)
{
    uint32_t first = l->history.n > most ? l->history.n - most : 0;
    int leader_width = 6;

    for (uint32_t i = first; i < l->history.n; i++)
        leader_width = max(leader_width, (int)strlen(l->history.terms[i].holder));
    leader_width = fit(leader_width, width, 69);
    fprintf(to, "%s  %-20s %-*s  %-8s %-9s %9s  %s%s\n", cli_dim(), "from", leader_width, "leader",
            "for", "began by", "gap", "ended by", cli_plain());
    for (uint32_t i = l->history.n; i > first; i--)
        term_line(to, l, i - 1, leader_width);
}
