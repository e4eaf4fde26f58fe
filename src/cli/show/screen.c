/* tenure watch on a terminal: asked at every change, drawn again each second besides. */
#include "cli/show/screen.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/show/show.h"
#include "cli/show/terminal.h"

#define BEAT_NS    INT64_C(1000000000)       /* times that run are drawn so often */
#define AT_MOST_NS (3 * INT64_C(1000000000)) /* a store that says nothing is asked so often */
#define BETWEEN_NS (INT64_C(200000000))      /* a busy one no more often than this */
#define TERMS      8

struct screen {
    const struct cli_common *common;
    tenure_store *store;
    char store_text[256];
    char prefix[TENURE_KEY_MAX + 2]; /* what is watched: "NAME/", or everything */
    char mark[TENURE_VERSION_MAX + 1];
    struct cli_look *look; /* one */
    struct cli_rows rows;  /* all */
    int64_t asked_ns;      /* the last answer is of then; 0: none yet */
    int64_t next_ns;       /* to ask again by itself */
    struct tenure_error trouble;
};

/* ---- Asking -------------------------------------------------------------- */

static bool stop_at_once(void *arg, const char *key, const struct tenure_value *value)
{
    (void)arg, (void)key, (void)value;
    return false;
}

/* What cannot be read stays as it was, with its age. */
static void refresh(struct screen *s)
{
    int64_t now = tenure_now(), by = now + s->common->timeout_ns;
    const char *name = s->common->name;
    struct tenure_error err = {0};
    enum tenure_status status;

    if (name) { /* the mark first: what changes behind it is told by the wait */
        status =
            tenure_store_list(s->store, s->prefix, NULL, stop_at_once, NULL, s->mark, by, &err);
        if (!status)
            status = cli_look_again(s->look, s->store, name, by, &err);
    } else {
        status = cli_rows_again(&s->rows, s->store, s->mark, by, &err);
    }
    if (status)
        s->trouble = err;
    else
        s->trouble.code = TENURE_OK;
    if (!status)
        s->asked_ns = now;
    s->next_ns = tenure_now() + (status ? BEAT_NS : AT_MOST_NS);
}

/* Until something changed, a key was pressed, or a second has passed.  true: ask again. */
static bool rest(struct screen *s)
{
    struct tenure_watch watch = {.key = s->prefix, .prefix = true};
    int64_t until = tenure_now() + BEAT_NS;
    struct pollfd key = {.fd = cli_terminal_fd(), .events = POLLIN};

    memcpy(watch.mark, s->mark, sizeof watch.mark);
    if (!s->trouble.code) {
        enum tenure_status status =
            tenure_store_wait(s->store, &watch, 1, cli_terminal_fd(), until, NULL);

        if (status == TENURE_OK)
            s->next_ns = s->asked_ns + BETWEEN_NS;
        if (status == TENURE_TIMEOUT || status == TENURE_CANCELLED)
            return tenure_now() >= s->next_ns;
        until = status == TENURE_OK ? s->next_ns : until; /* it cannot wait: we do */
    }
    int64_t left_ms = (until - tenure_now()) / 1000000;
    poll(&key, 1, left_ms > 0 ? (int)left_ms : 0);
    return tenure_now() >= s->next_ns;
}

/* ---- Drawing ------------------------------------------------------------- */

static void draw_head(const struct screen *s, FILE *to)
{
    char now[CLI_TIME_SIZE];

    cli_time((uint64_t)time(NULL) * 1000, now);
    fprintf(to, "%s%s  tenure watch, q quits  %s%s\n", cli_dim(), now, s->store_text, cli_plain());
    if (s->trouble.code)
        fprintf(to, "%sthe store: %s%s\n", cli_red(), s->trouble.text, cli_plain());
    if (s->trouble.code && s->asked_ns)
        fprintf(to, "%sas of %.0f s ago%s\n", cli_red(), (double)(tenure_now() - s->asked_ns) / 1e9,
                cli_plain());
    fputc('\n', to);
}

static void draw_lease(const struct screen *s, FILE *to)
{
    const struct tenure_lease_view *v = &s->look->lease;
    int64_t left = cli_left_ms(v, s->look->renewed_ns);
    char age[24];

    fprintf(to, "%s%s%s  ", cli_bold(), s->common->name, cli_plain());
    if (v->state != TENURE_LEASE_HELD) {
        fprintf(to, "%s%s%s: %s%s%s\n", cli_red(), tenure_lease_state_word(v->state), cli_plain(),
                v->state == TENURE_LEASE_REFUSED ? "who leads is not known" : "nobody leads",
                v->trouble[0] ? "; " : "", v->trouble);
        return;
    }
    if (cli_age_ms(v) >= 0)
        cli_span(cli_age_ms(v), age);
    else
        snprintf(age, sizeof age, "an unknown time");
    fprintf(to, "led by %s%s%s, epoch %" PRIu64 ", for %s (%s)\n", cli_green(), v->holder,
            cli_plain(), v->epoch, age, cli_cause(s->look));
    fprintf(to, "  lease  ");
    if (left == CLI_LEFT_UNKNOWN)
        fprintf(to, "renewed at %s, ttl %.3g s\n", v->renewed_at, v->ttl_ms / 1e3);
    else if (left <= 0)
        fprintf(to, "%snot renewed for %.1f s%s, ttl %.3g s\n", cli_red(),
                (double)(v->ttl_ms - left) / 1e3, cli_plain(), v->ttl_ms / 1e3);
    else
        fprintf(to, "%s%s%.1f s%s left of %.3g s\n", left < v->ttl_ms / 3 ? cli_red() : cli_green(),
                s->look->renewed_ns ? "" : "~", (double)left / 1e3, cli_plain(), v->ttl_ms / 1e3);
}

static void draw_one(const struct screen *s, FILE *to, int width)
{
    draw_lease(s, to);
    if (s->look->control.paused) {
        fputs("  ", to);
        cli_show_pause(to, &s->look->control);
    }
    if (s->look->partly[0])
        fprintf(to, "  %s%s%s\n", cli_red(), s->look->partly, cli_plain());
    fputc('\n', to);
    cli_table_candidates(to, s->look, width);
    fputc('\n', to);
    cli_table_terms(to, s->look, TERMS, width);
}

static bool draw(const struct screen *s)
{
    char *text = NULL;
    size_t len = 0;
    FILE *to = open_memstream(&text, &len);
    int width = cli_width();

    if (!to)
        return false;
    width = width ? width : 80;
    draw_head(s, to);
    if (s->asked_ns && s->common->name)
        draw_one(s, to, width);
    else if (s->asked_ns && s->rows.n)
        cli_table_rows(to, &s->rows, width);
    else if (s->asked_ns)
        fputs("there are no elections in this store\n", to);
    bool well = fclose(to) == 0 && cli_terminal_draw(text);
    free(text);
    return well;
}

/* ---- Life ---------------------------------------------------------------- */

bool cli_screen_possible(void)
{
    const char *term = getenv("TERM");

    return isatty(STDOUT_FILENO) && term && *term && strcmp(term, "dumb") != 0;
}

int cli_screen(const struct cli_verb *verb, const struct cli_common *c, tenure_store *store)
{
    struct screen s = {.common = c, .store = store, .look = cli_look_new()};
    int code = CLI_FAILED;

    const char *url = cli_store_url(verb, c);
    tenure_url_redact(url ? url : "", s.store_text, sizeof s.store_text);
    if (c->name)
        snprintf(s.prefix, sizeof s.prefix, "%.254s/", c->name);
    if (!s.look)
        return cli_fail(verb, CLI_FAILED, "out of memory");
    refresh(&s);
    if (!cli_may_pass(s.trouble.code)) {
        code = cli_fail_with(verb, &s.trouble);
    } else if (cli_terminal_take()) {
        for (;;) {
            if (!draw(&s))
                break;
            bool again = rest(&s);
            if (cli_terminal_asked_to_end()) {
                code = CLI_OK;
                break;
            }
            if (again)
                refresh(&s);
        }
        cli_terminal_give_back();
    }
    cli_rows_free(&s.rows);
    free(s.look);
    return code;
}
