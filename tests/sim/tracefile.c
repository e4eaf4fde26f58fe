#include "tracefile.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VERSION 1

/* One file while it is read. */
struct reader {
    struct sim_events *to;
    const char *path;
    unsigned line;
    bool headed, judge;
    bool named; /* the process's first event has told who it is */
    int64_t offset_ns;
    struct tn_timing timing;
    char *err;
    size_t size;
};

static const char *const words[] = {
#define SIM_X(name, word) [SIM_EV_##name] = (word),
    SIM_EVENT_MAP(SIM_X)
#undef SIM_X
};

__attribute__((format(printf, 2, 3))) static bool wrong(struct reader *r, const char *format, ...)
{
    va_list args;
    int used = snprintf(r->err, r->size, "%s:%u: ", r->path, r->line);

    va_start(args, format);
    if (used >= 0 && (size_t)used < r->size)
        vsnprintf(r->err + used, r->size - (size_t)used, format, args);
    va_end(args);
    return false;
}

static bool add(struct reader *r, const struct sim_event *ev)
{
    struct sim_events *e = r->to;

    if (e->n == e->cap) {
        size_t cap = e->cap ? 2 * e->cap : 1024;
        struct sim_event *list = realloc(e->list, cap * sizeof *list);

        if (!list)
            return wrong(r, "out of memory");
        e->list = list;
        e->cap = cap;
    }
    e->list[e->n] = *ev;
    e->list[e->n].order = (unsigned)e->n;
    e->n++;
    return true;
}

/* ---- Members ------------------------------------------------------------- */

static bool integer(struct reader *r, json_t *o, const char *name, int64_t *out)
{
    json_t *v = json_object_get(o, name);

    if (v && !json_is_integer(v))
        return wrong(r, "'%s' is not a whole number: the trace is damaged", name);
    *out = json_integer_value(v); /* 0 if it is not there */
    return true;
}

static bool text(struct reader *r, json_t *o, const char *name, char *out, size_t size)
{
    json_t *v = json_object_get(o, name);
    const char *s = v ? json_string_value(v) : "";

    if (!s || strlen(s) >= size)
        return wrong(r, "'%s' is not a text of less than %zu bytes: the trace is damaged", name,
                     size);
    snprintf(out, size, "%s", s);
    return true;
}

/* A time in bounds, so that nothing overflows later; 0 stays "none". */
static bool moment(struct reader *r, json_t *o, const char *name, int64_t *out)
{
    if (!integer(r, o, name, out))
        return false;
    if (*out < 0 || *out > INT64_MAX / 8)
        return wrong(r, "'%s' is out of range: the trace is damaged", name);
    if (*out)
        *out -= r->offset_ns;
    return true;
}

static bool span(int64_t ns)
{
    return ns >= 0 && ns <= 3600 * TN_S;
}

/* ---- Lines --------------------------------------------------------------- */

static bool header(struct reader *r, json_t *o)
{
    struct tn_timing *t = &r->timing;
    int64_t version = 0, rho = 0;

    if (!integer(r, o, "tenure_trace", &version))
        return false;
    if (version != VERSION)
        return wrong(r, "a trace of version %" PRId64 "; this program reads version %d", version,
                     VERSION);
    r->headed = true;
    r->named = false;
    r->judge = json_is_true(json_object_get(o, "judge"));
    if (!integer(r, o, "boot_offset_ns", &r->offset_ns) || !integer(r, o, "ttl_ns", &t->ttl_ns) ||
        !integer(r, o, "hold_ns", &t->hold_ns) || !integer(r, o, "kill_ns", &t->kill_ns) ||
        !integer(r, o, "grace_ns", &t->grace_ns) || !integer(r, o, "poll_ns", &t->poll_ns) ||
        !integer(r, o, "rho_ppm", &rho))
        return false;
    if (r->offset_ns > INT64_MAX / 8 || r->offset_ns < -(INT64_MAX / 8))
        return wrong(r, "'boot_offset_ns' is out of range: the trace is damaged");
    t->rho_ppm = (uint32_t)rho;
    if (!r->judge &&
        (t->ttl_ns <= 0 || t->ttl_ns > 3600 * TN_S || t->hold_ns <= 0 || t->hold_ns > t->ttl_ns ||
         !span(t->kill_ns) || !span(t->grace_ns) || !span(t->poll_ns) || rho < 0 || rho >= 1000000))
        return wrong(r, "the header lacks the times in force: the trace is damaged");
    return true;
}

static bool kind_of(struct reader *r, json_t *o, enum sim_event_kind *kind)
{
    const char *word = json_string_value(json_object_get(o, "event"));

    for (unsigned i = 0; word && i < sizeof words / sizeof words[0]; i++) {
        if (strcmp(words[i], word) == 0) {
            *kind = (enum sim_event_kind)i;
            return true;
        }
    }
    return wrong(r, "no event is called '%.40s': the trace is damaged or of another version",
                 word ? word : "");
}

/* What is judged at two moments becomes two events. */
static bool add_halves(struct reader *r, struct sim_event *ev)
{
    struct sim_event half = *ev;

    switch (ev->kind) {
    case SIM_EV_ACTS:
        half.kind = SIM_EV_ACTED;
        half.at_ns = ev->until_ns > ev->at_ns ? ev->until_ns : ev->at_ns + 1;
        return add(r, ev) && add(r, &half);
    case SIM_EV_COMMITTED: /* a commit is judged by when it was sent, and binds when it is told */
        half.kind = SIM_EV_ACKED;
        ev->at_ns -= ev->took_ns;
        return add(r, ev) && add(r, &half);
    case SIM_EV_RELEASED: /* the program must be dead before it is sent (I8) */
        ev->at_ns -= ev->took_ns;
        return add(r, ev);
    default:
        return add(r, ev);
    }
}

static bool event(struct reader *r, json_t *o)
{
    struct sim_event ev = {.timing = r->timing, .offset_ns = r->offset_ns};
    int64_t epoch = 0, value = 0, lost = 0;

    if (!kind_of(r, o, &ev.kind) || !moment(r, o, "at_ns", &ev.at_ns) ||
        !moment(r, o, "deadline_ns", &ev.deadline_ns) || !moment(r, o, "until_ns", &ev.until_ns) ||
        !integer(r, o, "took_ns", &ev.took_ns) || !integer(r, o, "epoch", &epoch) ||
        !integer(r, o, "value", &value) || !integer(r, o, "lost", &lost) ||
        !text(r, o, "id", ev.id, sizeof ev.id) ||
        !text(r, o, "leader", ev.leader, sizeof ev.leader))
        return false;
    const char *why = json_string_value(json_object_get(o, "text"));
    snprintf(ev.text, sizeof ev.text, "%s", why ? why : "");
    if (epoch < 0 || value < 0 || lost < 0 || ev.took_ns < 0 || ev.took_ns > 3600 * TN_S)
        return wrong(r, "a number is out of range: the trace is damaged");
    if (json_object_get(o, "at_ns") == NULL || (!r->judge && !ev.id[0]))
        return wrong(r, "an event without a time or an id: the trace is damaged");
    ev.epoch = (uint64_t)epoch;
    ev.value = (uint64_t)value;
    r->to->lost += (uint64_t)lost;
    if (!r->judge && !r->named) {
        struct sim_event first = ev;

        first.kind = SIM_EV_BEGINS;
        r->named = true;
        if (!add(r, &first))
            return false;
    }
    return add_halves(r, &ev);
}

static bool line(struct reader *r, const char *data, size_t len, bool whole)
{
    json_error_t why;
    json_t *o = json_loadb(data, len, JSON_REJECT_DUPLICATES, &why);
    bool ok;

    r->line++;
    if (!o && !whole)
        return true; /* its writer was killed in the middle of it */
    if (!json_is_object(o))
        ok = r->line == 1 ? wrong(r, "not a trace: the first line is no header")
                          : wrong(r, "the trace is damaged: %s", o ? "no object" : why.text);
    else if (json_object_get(o, "tenure_trace"))
        ok = header(r, o);
    else if (!r->headed)
        ok = wrong(r, "not a trace: the first line is no header");
    else
        ok = event(r, o);
    json_decref(o);
    return ok;
}

/* ---- Files --------------------------------------------------------------- */

bool sim_events_read(struct sim_events *e, const char *path, char *err, size_t size)
{
    struct reader r = {.to = e, .path = path, .err = err, .size = size};
    FILE *f = fopen(path, "r");
    char *data = NULL;
    size_t cap = 0;
    ssize_t len;
    bool ok = true;

    if (!f) {
        snprintf(err, size, "cannot read %s: %s", path, strerror(errno));
        return false;
    }
    while (ok && (len = getline(&data, &cap, f)) > 0)
        ok = line(&r, data, (size_t)len, data[len - 1] == '\n');
    if (ok && ferror(f)) {
        snprintf(err, size, "cannot read %s: %s", path, strerror(errno));
        ok = false;
    } else if (ok && !r.headed) {
        snprintf(err, size, "%s is empty: not a trace", path);
        ok = false;
    }
    free(data);
    fclose(f);
    return ok;
}

/* At one instant whoever ends goes first: an end is the last proof of life, so
 * that two that merely touch do not overlap. */
static int compare(const void *a, const void *b)
{
    const struct sim_event *x = a, *y = b;

    if (x->at_ns != y->at_ns)
        return x->at_ns < y->at_ns ? -1 : 1;
    if ((x->kind == SIM_EV_ACTED) != (y->kind == SIM_EV_ACTED))
        return x->kind == SIM_EV_ACTED ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

void sim_events_sort(struct sim_events *e)
{
    if (e->n)
        qsort(e->list, e->n, sizeof *e->list, compare);
}

const char *sim_event_word(enum sim_event_kind kind)
{
    return words[kind];
}

void sim_events_free(struct sim_events *e)
{
    free(e->list);
    memset(e, 0, sizeof *e);
}
