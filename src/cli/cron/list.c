/* tenure cron list: the last period of each job, and how it went. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cron/period.h"
#include "cli/show/show.h"
#include "tenure/elections.h"

struct job {
    char name[TENURE_KEY_MAX + 1];
    enum tenure_lease_state lease;
    uint64_t epoch;
};

struct listing {
    const char *only; /* NULL: all */
    struct job *jobs;
    size_t n;
    bool lost; /* one could not be noted */

    bool json;
    const struct job *job; /* that is shown */
    const char *kind;
    json_t *array;
    unsigned shown, damaged;
};

/* Noted first and visited later: the store serves one walk at a time. */
static bool note_election(void *arg, const struct tenure_election *e)
{
    struct listing *l = arg;

    if (l->only && strcmp(l->only, e->name) != 0)
        return true;
    struct job *grown = realloc(l->jobs, (l->n + 1) * sizeof *grown);
    l->lost = !grown;
    if (!grown)
        return false;
    l->jobs = grown;
    l->jobs[l->n] = (struct job){.lease = e->lease.state, .epoch = e->lease.epoch};
    snprintf(l->jobs[l->n++].name, sizeof l->jobs->name, "%s", e->name);
    return true;
}

/* What says that it runs, and is nobody's any more, did not end. */
static enum tn_period_state state_of(const struct job *job, const struct tn_period_record *r)
{
    bool held = job->lease == TENURE_LEASE_HELD && job->epoch == r->epoch;

    return r->state == TN_PERIOD_RUNNING && !held ? TN_PERIOD_INTERRUPTED : r->state;
}

static void show_json(struct listing *l, const struct tn_period_record *r)
{
    char started[TN_PERIOD_MAX + 1] = "", ended[TN_PERIOD_MAX + 1] = "";
    bool has_code = r->ended_ms != 0;

    if (r->started_ms)
        tn_period_name((int64_t)(r->started_ms / 1000), started);
    if (r->ended_ms)
        tn_period_name((int64_t)(r->ended_ms / 1000), ended);
    json_array_append_new(l->array,
                          json_pack("{s:s, s:s, s:s, s:s, s:o, s:i, s:s, s:s, s:s, s:s, s:I}",
                                    "name", l->job->name, "kind", l->kind, "period", r->period,
                                    "result", tn_period_state_word(state_of(l->job, r)), "code",
                                    has_code ? json_integer(r->code) : json_null(), "tries",
                                    (int)r->tries, "started", started, "ended", ended, "by", r->by,
                                    "schedule", r->schedule, "epoch", (json_int_t)r->epoch));
}

static void show_text(struct listing *l, const struct tn_period_record *r)
{
    enum tn_period_state state = state_of(l->job, r);
    char result[48], took[32] = "-";
    bool bad = state == TN_PERIOD_FAILED || state == TN_PERIOD_INTERRUPTED;

    snprintf(result, sizeof result, "%s", tn_period_state_word(state));
    if (state == TN_PERIOD_FAILED)
        snprintf(result, sizeof result, "failed (%d)", r->code);
    if (r->ended_ms >= r->started_ms && r->started_ms)
        snprintf(took, sizeof took, "%.1f s", (double)(r->ended_ms - r->started_ms) / 1000);
    if (l->shown == 1)
        printf("%s%-24s %-20s %-12s %8s  %-16s %s%s\n", cli_dim(), "name", "period", "result",
               "took", "by", "schedule", cli_plain());
    printf("%s%-24s%s %-20s %s%-12s%s %8s  %-16s %s\n", cli_bold(), l->job->name, cli_plain(),
           r->period, bad ? cli_red() : "", result, cli_plain(), took, r->by,
           r->schedule[0] ? r->schedule : "once");
}

static bool show(void *arg, const char *id, const struct tenure_document *d, const char *damage)
{
    struct listing *l = arg;
    struct tn_period_record r;

    if (damage || tn_period_record_decode(d->value.data, d->value.len, &r, NULL)) {
        fprintf(stderr, "tenure cron: %s: the record %s/%s is damaged\n", l->job->name, l->kind,
                id);
        l->damaged++;
        return true;
    }
    l->shown++;
    if (l->json)
        show_json(l, &r);
    else
        show_text(l, &r);
    return !ferror(stdout);
}

static enum tenure_status show_job(struct listing *l, const char *url, const struct job *job,
                                   int64_t deadline, struct tenure_error *err)
{
    static const char *const kinds[] = {TN_CRON_COLLECTION, TN_ONCE_COLLECTION};
    tenure_state *state = NULL;
    enum tenure_status status = tenure_state_open(url, job->name, NULL, deadline, &state, err);

    l->job = job;
    for (int i = 0; !status && i < 2; i++) {
        l->kind = kinds[i];
        status = tenure_state_list(state, kinds[i], show, l, deadline, err);
    }
    tenure_state_close(state);
    return status;
}

int cli_cron_list(const struct cli_verb *verb, int argc, char **argv)
{
    struct listing l = {.array = json_array()};
    struct tenure_error err = {0};
    tenure_store *store = NULL;
    struct cli_common c;
    int code;

    cli_common_init(&c);
    c.absent = CLI_EMPTY;
    c.any = true;
    c.name = NULL; /* of the election around us */
    if (!cli_begin(verb, argc, argv, NULL, &c, &store, &code)) {
        json_decref(l.array);
        return code;
    }
    l.only = c.name;
    l.json = c.json;
    const char *url = cli_store_url(verb, &c);
    enum tenure_status status =
        tenure_elections(store, note_election, &l, NULL, tenure_now() + c.timeout_ns, &err);
    if (!status && l.lost)
        status = tenure_fail(&err, TENURE_NOMEM, "out of memory");
    for (size_t i = 0; !status && url && i < l.n; i++)
        status = show_job(&l, url, &l.jobs[i], tenure_now() + c.timeout_ns, &err);
    code = status ? cli_fail_with(verb, &err) : l.damaged ? CLI_FAILED : CLI_OK;
    if (!status && l.json)
        code = cli_print_json(json_incref(l.array)) ? CLI_FAILED : code;
    else if (!status && l.shown == 0)
        printf("no jobs\n");
    json_decref(l.array);
    free(l.jobs);
    tenure_store_close(store);
    return code;
}
