/* GROUP/history/ID: what a worker did to its jobs, as lines of text. */
#include "jobs/history.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/decimal.h"
#include "base/key.h"
#include "jobs/view.h"

#define LINE_MAX_BYTES (TN_HISTORY_JOBS_MAX + TN_MEMBER_ID_MAX + 128u)

static const char *const kind_words[TN_HISTORY_KINDS] = {"claimed", "revoked", "released",
                                                         "lost",    "leaving", "buried"};

const char *tn_jobs_history_kind_word(enum tn_jobs_history_kind kind)
{
    return kind_words[kind];
}

const char *tn_jobs_history_cause_word(unsigned cause)
{
    static const char *const words[] = {"pinned", "removed", "fenced", "ended", "expired"};

    return cause < TN_MOVE_CAUSES ? tn_move_cause_word((enum tn_move_cause)cause)
                                  : words[cause - TN_MOVE_CAUSES];
}

/* ---- Memory -------------------------------------------------------------- */

bool tn_jobs_history_append(struct tn_jobs_history *h, const struct tn_jobs_history_event *event)
{
    if (h->count == h->room) {
        uint32_t room = h->room ? 2 * h->room : 16;
        struct tn_jobs_history_event *grown = realloc(h->events, room * sizeof *grown);

        if (!grown) {
            free(event->numbers);
            return false;
        }
        h->events = grown;
        h->room = room;
    }
    h->events[h->count++] = *event;
    return true;
}

void tn_jobs_history_free(struct tn_jobs_history *h)
{
    for (uint32_t i = 0; i < h->count; i++)
        free(h->events[i].numbers);
    free(h->events);
    memset(h, 0, sizeof *h);
}

/* ---- Numbers ------------------------------------------------------------- */

bool tn_jobs_history_next_range(const char **at, uint32_t *first, uint32_t *last)
{
    const char *text = *at;
    int64_t a, b;

    if (!tn_take_number(&text, &a) || a >= TN_PLAN_JOBS_MAX)
        return false;
    b = a;
    if (*text == '-' && (text++, !tn_take_number(&text, &b)))
        return false;
    if (b < a || b >= TN_PLAN_JOBS_MAX || (*text && *text != ','))
        return false;
    *at = text + (*text == ',');
    *first = (uint32_t)a;
    *last = (uint32_t)b;
    return true;
}

enum tn_jobs_history_has tn_jobs_history_has(const char *numbers, uint32_t job)
{
    uint32_t first, last;

    while (tn_jobs_history_next_range(&numbers, &first, &last)) {
        if (job < first)
            return TN_HISTORY_NO;
        if (job <= last)
            return TN_HISTORY_YES;
    }
    return *numbers == '+' ? TN_HISTORY_MAYBE : TN_HISTORY_NO;
}

/* Ascending, and as many as `jobs` says, or fewer and a '+'. */
static bool numbers_valid(const char *numbers, uint32_t jobs)
{
    uint32_t first, last;
    uint64_t n = 0;
    int64_t before = -1;

    if (strcmp(numbers, "-") == 0)
        return jobs == 0;
    while (tn_jobs_history_next_range(&numbers, &first, &last)) {
        if ((int64_t)first <= before)
            return false;
        before = last;
        n += last - first + 1;
    }
    return strcmp(numbers, "+") == 0 ? n < jobs : !*numbers && n == jobs && n > 0;
}

/* ---- In ------------------------------------------------------------------ */

/* The field at *at, ended where its space was; NULL: there is none. */
static char *take_field(char **at)
{
    char *field = *at, *space = strchr(field, ' ');

    if (!space)
        return NULL;
    *space = '\0';
    *at = space + 1;
    return field;
}

static bool take_count(char **at, uint64_t max, uint64_t *out)
{
    const char *field = take_field(at);
    int64_t number;

    if (!field || !tn_take_number(&field, &number) || *field || (uint64_t)number > max)
        return false;
    *out = (uint64_t)number;
    return true;
}

static bool take_kind(char **at, enum tn_jobs_history_kind *kind)
{
    const char *field = take_field(at);

    for (unsigned i = 0; field && i < TN_HISTORY_KINDS; i++) {
        *kind = (enum tn_jobs_history_kind)i;
        if (strcmp(field, kind_words[i]) == 0)
            return true;
    }
    return false;
}

static bool take_cause(char **at, unsigned *cause)
{
    const char *field = take_field(at);

    for (*cause = 0; field && *cause < TN_HISTORY_CAUSES; ++*cause)
        if (strcmp(field, tn_jobs_history_cause_word(*cause)) == 0)
            return true;
    return false;
}

static bool take_event(char *line, struct tn_jobs_history_event *e)
{
    uint64_t at_ms, epoch, jobs;

    if (!take_count(&line, INT64_C(1) << 50, &at_ms) || !take_kind(&line, &e->kind) ||
        !take_cause(&line, &e->cause) || !take_count(&line, TN_EPOCH_MAX, &epoch) ||
        !take_count(&line, TN_PLAN_JOBS_MAX, &jobs))
        return false;
    e->at_ms = (int64_t)at_ms;
    e->epoch = epoch;
    e->jobs = (uint32_t)jobs;
    const char *numbers = take_field(&line);
    if (!numbers || strlen(numbers) > TN_HISTORY_JOBS_MAX || !numbers_valid(numbers, e->jobs) ||
        (*line && tn_jobs_id_fault(line)) || strlen(line) >= sizeof e->other)
        return false;
    strcpy(e->other, line);
    e->numbers = strdup(numbers);
    return e->numbers != NULL;
}

/* The lines behind the first, in a copy that is taken apart. */
static bool take_events(char *text, uint64_t count, struct tn_jobs_history *h)
{
    for (uint64_t i = 0; i < count; i++) {
        struct tn_jobs_history_event e = {0};
        char *end = strchr(text, '\n');

        if (!end)
            return false;
        *end = '\0';
        if (!take_event(text, &e) || !tn_jobs_history_append(h, &e))
            return false;
        text = end + 1;
    }
    return *text == '\0';
}

enum tenure_status tn_jobs_history_read(const void *data, size_t len,
                                        struct tn_jobs_history *history, struct tenure_error *err)
{
    struct tn_jobs_history h = {0};
    struct tn_line line;
    enum tenure_status status = tn_line_begin(data, len, TN_HISTORY_KIND, &line, err);
    uint64_t count = status ? 0 : tn_line_number(&line, TN_HISTORY_EVENTS_MAX);

    if (!status)
        status = tn_line_end(&line, TN_HISTORY_KIND, err);
    if (status)
        return status;
    char *copy = strndup((const char *)line.after, line.after_len);
    if (!copy)
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    if (strlen(copy) != line.after_len || !take_events(copy, count, &h))
        status = tenure_fail(err, TENURE_CORRUPT, TN_HISTORY_KIND ": its events are damaged");
    free(copy);
    if (status)
        tn_jobs_history_free(&h);
    else
        *history = h;
    return status;
}

/* ---- Out ----------------------------------------------------------------- */

static size_t put_event(const struct tn_jobs_history_event *e, char *out, size_t size)
{
    return (size_t)snprintf(out, size, "%lld %s %s %llu %u %s %s\n", (long long)e->at_ms,
                            kind_words[e->kind], tn_jobs_history_cause_word(e->cause),
                            (unsigned long long)e->epoch, e->jobs, e->numbers, e->other);
}

char *tn_jobs_history_text(const struct tn_jobs_history *h, size_t bytes)
{
    char line[LINE_MAX_BYTES];
    size_t used = sizeof TN_HISTORY_KIND + 32, size;
    uint32_t first = h->count;

    while (first > 0 && h->count - first < TN_HISTORY_EVENTS_MAX) {
        size_t n = put_event(&h->events[first - 1], line, sizeof line);

        if (used + n > bytes)
            break;
        used += n;
        first--;
    }
    size = used + 1;
    char *text = malloc(size);
    if (!text)
        return NULL;
    used =
        (size_t)snprintf(text, size, TN_HISTORY_KIND " %d %u\n", TN_JOBS_FORMAT, h->count - first);
    for (uint32_t i = first; i < h->count; i++)
        used += put_event(&h->events[i], text + used, size - used);
    return text;
}

/* ---- Of a group ---------------------------------------------------------- */

struct listing {
    struct tn_histories *all;
    size_t prefix; /* its bytes */
};

static bool take_history(void *arg, const char *key, const struct tenure_value *value)
{
    const struct listing *l = arg;
    struct tn_histories *all = l->all;
    struct tn_worker_history *one;
    struct tenure_error err = {0};
    char id[TENURE_KEY_MAX + 1];

    if (value->tombstone || strchr(key + l->prefix, '/') ||
        tn_jobs_is_foreign(value->data, value->len, TN_HISTORY_KIND " "))
        return true;
    if (all->count == all->room) {
        uint32_t room = all->room ? 2 * all->room : 16;
        struct tn_worker_history *grown = realloc(all->list, room * sizeof *grown);

        if (!grown)
            return false;
        all->list = grown;
        all->room = room;
    }
    one = &all->list[all->count++];
    memset(one, 0, sizeof *one);
    snprintf(one->key, sizeof one->key, "%s", key);
    if (!tn_key_document_id(strrchr(key, '/') + 1, id))
        snprintf(id, sizeof id, "%s", strrchr(key, '/') + 1);
    snprintf(one->worker, sizeof one->worker, "%s", id);
    one->status = tn_jobs_history_read(value->data, value->len, &one->history, &err);
    snprintf(one->damage, sizeof one->damage, "%s", one->status ? err.text : "");
    return true;
}

enum tenure_status tn_histories_load(const struct tn_jobs *g, struct tn_histories *all,
                                     struct tenure_error *err)
{
    char prefix[TENURE_KEY_MAX + 1];
    struct listing l = {.all = all};

    memset(all, 0, sizeof *all);
    tn_key_of(g->name, TN_KEY_JOB_HISTORY, prefix);
    l.prefix = strlen(prefix);
    return tenure_store_list(g->store, prefix, NULL, take_history, &l, NULL, g->deadline, err);
}

void tn_histories_free(struct tn_histories *all)
{
    for (uint32_t i = 0; i < all->count; i++)
        tn_jobs_history_free(&all->list[i].history);
    free(all->list);
    memset(all, 0, sizeof *all);
}
