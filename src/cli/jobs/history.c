/* tenure jobs history: who owned a job when, why it moved, and at which epoch. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rfc3339.h"
#include "cli/jobs/jobs.h"
#include "jobs/history.h"

#define LIMIT_DEFAULT 100u
#define NAMED_TEXT    3u   /* jobs that a line names */
#define NAMED_JSON    100u /* ... and an object */

/* An event, and whose it is. */
struct line {
    const struct tn_jobs_history_event *event;
    const char *worker;
    enum tn_jobs_history_has has; /* the job that was asked for */
};

struct asked {
    const struct tn_catalogue *catalogue;
    const char *id; /* of the one job that was asked for; NULL: all of them */
    uint32_t number;
    size_t limit; /* 0: none */
};

static int by_time(const void *a, const void *b)
{
    const struct tn_jobs_history_event *x = ((const struct line *)a)->event;
    const struct tn_jobs_history_event *y = ((const struct line *)b)->event;

    if (x->at_ms != y->at_ms)
        return x->at_ms < y->at_ms ? -1 : 1;
    return (x->kind > y->kind) - (x->kind < y->kind);
}

/* Of one job: its epochs are in order whatever the clocks say, and within a run it is claimed
 * first.  An epoch is about the time of its claim; an event of several epochs has its own. */
static int by_epoch(const void *a, const void *b)
{
    const struct tn_jobs_history_event *x = ((const struct line *)a)->event;
    const struct tn_jobs_history_event *y = ((const struct line *)b)->event;
    uint64_t p = x->epoch ? x->epoch : (uint64_t)x->at_ms;
    uint64_t q = y->epoch ? y->epoch : (uint64_t)y->at_ms;

    if (p != q)
        return p < q ? -1 : 1;
    return x->kind != y->kind ? (x->kind > y->kind) - (x->kind < y->kind) : by_time(a, b);
}

static const char *name_of(const struct asked *q, uint32_t number)
{
    return number < tn_catalogue_size(q->catalogue) ? tn_catalogue_row(q->catalogue, number)->id
                                                    : NULL;
}

/* ---- Printing ------------------------------------------------------------ */

/* The first `most` of the jobs, by name; one that the catalogue names no more is left out. */
static void each_name(const struct asked *q, const char *numbers, unsigned most,
                      void (*name)(void *arg, const char *id), void *arg)
{
    uint32_t first, last;

    while (most && tn_jobs_history_next_range(&numbers, &first, &last))
        for (uint32_t n = first; n <= last && most; n++) {
            const char *id = name_of(q, n);

            if (id)
                name(arg, id), most--;
        }
}

static void add_json(void *arg, const char *id)
{
    json_array_append_new(arg, json_string(id));
}

static json_t *text_or_null(const char *text)
{
    return *text ? json_string(text) : json_null();
}

static void print_json(const struct asked *q, const struct line *l, const char *time)
{
    const struct tn_jobs_history_event *e = l->event;
    json_t *names = json_array(), *object;

    if (q->id)
        add_json(names, q->id);
    else
        each_name(q, e->numbers, NAMED_JSON, add_json, names);
    object = json_pack("{s:s, s:s, s:s, s:s, s:I, s:o, s:o, s:o, s:b}", "time", time, "worker",
                       l->worker, "event", tn_jobs_history_kind_word(e->kind), "cause",
                       tn_jobs_history_cause_word(e->cause), "count", (json_int_t)e->jobs, "jobs",
                       names, "other", text_or_null(e->other), "epoch",
                       e->epoch ? json_integer((json_int_t)e->epoch) : json_null(), "certain",
                       (int)(!q->id || l->has == TN_HISTORY_YES));
    json_dumpf(object, stdout, JSON_COMPACT);
    json_decref(object);
    putchar('\n');
}

static void add_text(void *arg, const char *id)
{
    unsigned *named = arg;

    printf("%s%s", (*named)++ ? ", " : "", id);
}

/* "990 jobs: a, b, c ..." */
static void print_jobs(const struct asked *q, const struct line *l)
{
    const struct tn_jobs_history_event *e = l->event;
    unsigned named = 0;

    if (q->id) {
        printf(" %s", q->id);
        if (l->has == TN_HISTORY_MAYBE)
            printf(" (perhaps: one of %u jobs)", e->jobs);
        else if (e->jobs > 1)
            printf(" (one of %u jobs)", e->jobs);
        return;
    }
    if (e->jobs > 1)
        printf(" %u jobs: ", e->jobs);
    else if (e->jobs)
        putchar(' ');
    each_name(q, e->numbers, NAMED_TEXT, add_text, &named);
    if (e->jobs && !named)
        printf("number %.20s", e->numbers);
    if (e->jobs > named && named)
        printf(" ...");
}

static void print_text(const struct asked *q, const struct line *l, const char *time)
{
    const struct tn_jobs_history_event *e = l->event;
    static const char *const ways[TN_HISTORY_KINDS] = {[TN_HISTORY_CLAIMED] = " from ",
                                                       [TN_HISTORY_REVOKED] = " for ",
                                                       [TN_HISTORY_RELEASED] = " for ",
                                                       [TN_HISTORY_BURIED] = " "};

    printf("%s%s%s %s%-16s%s %-8s", cli_dim(), time, cli_plain(), cli_bold(), l->worker,
           cli_plain(), tn_jobs_history_kind_word(e->kind));
    print_jobs(q, l);
    if (*e->other)
        printf("%s%s", ways[e->kind] ? ways[e->kind] : " ", e->other);
    printf(" (%s)", tn_jobs_history_cause_word(e->cause));
    if (e->epoch)
        printf(" epoch %" PRIu64, e->epoch);
    putchar('\n');
}

/* The register has the last word on who owns it now. */
static int print_now(struct cli_jobs *j, const struct asked *q)
{
    struct tenure_error err;
    struct tn_job_now now;

    if (tn_jobs_read(&j->group, &q->id, 1, &now, &err))
        return cli_jobs_fail(j, &err);
    if (now.absent || now.status)
        printf("now: the register of %s is %s\n", q->id, now.absent ? "lost" : "damaged");
    else if (tn_job_owned(&now.job))
        printf("now: owned by %s, epoch %" PRIu64 "\n", now.job.owner.id, now.job.epoch);
    else
        printf("now: nobody owns it; the last epoch was %" PRIu64 "\n", now.job.epoch);
    return CLI_OK;
}

/* ---- Choosing ------------------------------------------------------------ */

static size_t choose(const struct cli_jobs *j, const struct asked *q,
                     const struct tn_histories *all, struct line *lines)
{
    size_t n = 0;

    for (uint32_t i = 0; i < all->count; i++) {
        const struct tn_worker_history *one = &all->list[i];

        if (j->worker && strcmp(j->worker, one->worker) != 0)
            continue;
        for (uint32_t k = 0; k < one->history.count; k++) {
            const struct tn_jobs_history_event *e = &one->history.events[k];
            enum tn_jobs_history_has has =
                q->id ? tn_jobs_history_has(e->numbers, q->number) : TN_HISTORY_YES;

            if (has != TN_HISTORY_NO)
                lines[n++] = (struct line){e, one->worker, has};
        }
    }
    qsort(lines, n, sizeof *lines, q->id ? by_epoch : by_time);
    return n;
}

static int print_history(struct cli_jobs *j, const struct asked *q, const struct tn_histories *all)
{
    size_t room = 1, n;
    struct line *lines;

    for (uint32_t i = 0; i < all->count; i++)
        room += all->list[i].history.count;
    lines = calloc(room, sizeof *lines);
    if (!lines)
        return cli_fail(j->verb, CLI_FAILED, "out of memory");
    n = choose(j, q, all, lines);
    for (size_t i = q->limit && n > q->limit ? n - q->limit : 0; i < n; i++) {
        char time[TN_RFC3339_SIZE];

        tn_rfc3339_format((uint64_t)lines[i].event->at_ms, time);
        if (j->common.json)
            print_json(q, &lines[i], time);
        else
            print_text(q, &lines[i], time);
    }
    free(lines);
    if (j->common.json)
        return CLI_OK;
    if (!n)
        printf("%s: nothing is recorded\n", j->group.name);
    return q->id ? print_now(j, q) : CLI_OK;
}

static int report_damage(const struct cli_jobs *j, const struct tn_histories *all)
{
    int code = CLI_OK;

    for (uint32_t i = 0; i < all->count; i++)
        if (all->list[i].damage[0])
            code = cli_fail(j->verb, CLI_FAILED, "%s: %s; `tenure jobs repair` replaces it",
                            all->list[i].key, all->list[i].damage);
    return code;
}

int cli_jobs_history(struct cli_jobs *j)
{
    struct tn_catalogue catalogue = {0};
    struct tn_histories all = {0};
    struct asked q = {.catalogue = &catalogue, .limit = LIMIT_DEFAULT};
    struct tenure_error err;
    char *end = NULL;
    int code = CLI_OK;

    if (j->limit)
        q.limit = strtoul(j->limit, &end, 10);
    if (j->limit && (*j->limit < '0' || *j->limit > '9' || *end || q.limit > 1000000))
        return cli_misuse(j->verb, "--limit N: give a number up to 1000000; 0 is all");
    if (j->n_args > 1 || (j->n_args && j->worker))
        return cli_misuse(j->verb, "history: give one job, or --worker, or neither");
    if (tn_catalogue_load(j->group.store, j->group.name, &catalogue, j->group.deadline, &err) ||
        tn_histories_load(&j->group, &all, &err))
        code = cli_jobs_fail(j, &err);
    if (!code && j->n_args && !tn_catalogue_find(&catalogue, j->args[0], &q.number))
        code = cli_misuse(j->verb, "there is no job '%.127s'", j->args[0]);
    if (!code) {
        q.id = j->n_args ? j->args[0] : NULL;
        code = print_history(j, &q, &all);
    }
    if (!code)
        code = report_damage(j, &all);
    tn_histories_free(&all);
    tn_catalogue_free(&catalogue);
    return code;
}
