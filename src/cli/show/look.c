/* What the store knows of an election, or of all of them, and how old that is. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/grow.h"
#include "base/rfc3339.h"
#include "base/text.h"
#include "cli/show/show.h"

struct cli_look *cli_look_new(void)
{
    struct cli_look *l = calloc(1, sizeof *l);

    if (l) {
        l->lease.size = sizeof l->lease;
        l->control.size = sizeof l->control;
        l->history.size = sizeof l->history;
    }
    return l;
}

bool cli_may_pass(enum tenure_status status)
{
    return tenure_status_class(status) != TENURE_CLASS_PERMANENT || status == TENURE_CORRUPT;
}

/* ---- One ----------------------------------------------------------------- */

enum tenure_status cli_lease_look(tenure_store *store, const char *name,
                                  struct tenure_lease_view *view, int64_t deadline,
                                  struct tenure_error *err)
{
    enum tenure_status status = tenure_lease_look(store, name, view, deadline, err);

    if (status != TENURE_CORRUPT)
        return status;
    *view = (struct tenure_lease_view)TENURE_LEASE_VIEW;
    view->state = TENURE_LEASE_REFUSED;
    snprintf(view->trouble, sizeof view->trouble, "%.255s", err->text);
    tn_text_repair(view->trouble, '?');
    return TENURE_OK;
}

static bool keep_candidate(void *arg, const struct tenure_candidate *candidate)
{
    struct cli_look *l = arg;

    l->candidates[l->n_candidates++] = *candidate;
    return l->n_candidates < CLI_CANDIDATES_MAX;
}

/* Without the rest the lease is still worth showing. */
static void remember_failure(struct cli_look *l, enum tenure_status status,
                             const struct tenure_error *err)
{
    if (status)
        snprintf(l->partly, sizeof l->partly, "%.250s", err->text);
}

/* Our own clock says when it was renewed, once we have seen that happen. */
static int64_t renewal(const struct tenure_lease_view *old, const struct tenure_lease_view *new,
                       int64_t known_ns)
{
    if (tenure_token_absent(&old->token))
        return 0;
    return strcmp(old->nonce, new->nonce) != 0 ? tenure_now() : known_ns;
}

enum tenure_status cli_look_again(struct cli_look *l, tenure_store *store, const char *name,
                                  int64_t deadline, struct tenure_error *err)
{
    struct tenure_lease_view lease = TENURE_LEASE_VIEW;
    struct tenure_error why = {0};
    enum tenure_status status = cli_lease_look(store, name, &lease, deadline, err);

    if (status)
        return status;
    l->renewed_ns = renewal(&l->lease, &lease, l->renewed_ns);
    l->lease = lease;
    l->n_candidates = 0;
    l->partly[0] = '\0';
    remember_failure(l, tenure_candidates(store, name, keep_candidate, l, deadline, &why), &why);
    remember_failure(l, tenure_history_look(store, name, &l->history, deadline, &why), &why);
    remember_failure(l, tenure_control_look(store, name, &l->control, deadline, &why), &why);
    return TENURE_OK;
}

const char *cli_role(const struct tenure_candidate *c, const struct tenure_lease_view *lease)
{
    bool holds = lease->state == TENURE_LEASE_HELD && strcmp(lease->holder, c->id) == 0;

    if (lease->state == TENURE_LEASE_REFUSED)
        return c->state;
    if (holds)
        return strcmp(c->state, "stopping") == 0 || strcmp(c->state, "sealing") == 0 ? c->state
                                                                                     : "leading";
    return strcmp(c->state, "leading") == 0 ? "former" : c->state;
}

const char *cli_cause(const struct cli_look *l)
{
    for (uint32_t i = l->history.n; i > 0 && l->lease.state == TENURE_LEASE_HELD; i--) {
        if (l->history.terms[i - 1].epoch == l->lease.epoch)
            return l->history.terms[i - 1].cause;
    }
    return l->lease.cause;
}

uint64_t cli_current(const struct tenure_lease_view *lease)
{
    return lease->state == TENURE_LEASE_HELD ? lease->epoch : 0;
}

/* ---- All ----------------------------------------------------------------- */

struct collecting {
    const struct cli_rows *old;
    struct cli_rows new;
};

static const struct cli_row *find(const struct cli_rows *rows, const char *name)
{
    for (size_t i = 0; i < rows->n; i++) {
        if (strcmp(rows->row[i].election.name, name) == 0)
            return &rows->row[i];
    }
    return NULL;
}

static bool keep_row(void *arg, const struct tenure_election *e)
{
    struct collecting *c = arg;
    struct cli_rows *rows = &c->new;
    const struct cli_row *old = find(c->old, e->name);

    if (!tn_grow(&rows->row, &rows->room, rows->n, sizeof *rows->row))
        return false;
    struct cli_row *row = &rows->row[rows->n++];
    row->election = *e;
    row->renewed_ns = old ? renewal(&old->election.lease, &e->lease, old->renewed_ns) : 0;
    return true;
}

enum tenure_status cli_rows_again(struct cli_rows *rows, tenure_store *store,
                                  char mark[TENURE_VERSION_MAX + 1], int64_t deadline,
                                  struct tenure_error *err)
{
    struct collecting c = {.old = rows};
    enum tenure_status status = tenure_elections(store, keep_row, &c, mark, deadline, err);

    if (status) {
        cli_rows_free(&c.new);
        return status;
    }
    cli_rows_free(rows);
    *rows = c.new;
    return TENURE_OK;
}

void cli_rows_free(struct cli_rows *rows)
{
    free(rows->row);
    memset(rows, 0, sizeof *rows);
}

/* ---- Times --------------------------------------------------------------- */

static int64_t wall_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void cli_time(uint64_t unix_ms, char out[CLI_TIME_SIZE])
{
    if (unix_ms == 0) {
        snprintf(out, CLI_TIME_SIZE, "%-20s", "-");
        return;
    }
    tn_rfc3339_format(unix_ms, out);
    char *dot = strchr(out, '.');
    if (dot)
        memcpy(dot, "Z", sizeof "Z");
}

int64_t cli_left_ms(const struct tenure_lease_view *lease, int64_t renewed_ns)
{
    uint64_t at;

    if (lease->state != TENURE_LEASE_HELD)
        return CLI_LEFT_UNKNOWN;
    if (renewed_ns)
        return lease->ttl_ms - (tenure_now() - renewed_ns) / 1000000;
    if (!tn_rfc3339_parse(lease->renewed_at, &at) || at > INT64_MAX / 2 ||
        tn_wall_span_ms(at, (uint64_t)wall_ms()) < 0)
        return CLI_LEFT_UNKNOWN;
    int64_t left = (int64_t)at + lease->ttl_ms - wall_ms();
    return left > (int64_t)lease->ttl_ms ? CLI_LEFT_UNKNOWN : left; /* clocks that disagree */
}

int64_t cli_age_ms(const struct tenure_lease_view *lease)
{
    uint64_t at;

    if (!tn_rfc3339_parse(lease->acquired_at, &at))
        return -1;
    return tn_wall_span_ms(at, (uint64_t)wall_ms());
}
