/* NAME/history: who led, when, and why it changed. */
#include "control/history.h"
#include "base/key.h"

#include <jansson.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/record_text.h"
#include "base/rfc3339.h"
#include "control/edit.h"
#include "core/lease.h"
#include "lease/read.h"

#define HISTORY_MAX 65536 /* bytes of the register that we look at */
/* Year 9999; times beyond are nonsense, and would overflow where they are subtracted. */
#define WALL_MAX_MS INT64_C(253402300799000)

/* ---- The record ---------------------------------------------------------- */

/* Each by the end of the one before, as far as both are known.  That nobody knows when that was,
 * other than before this one, is no gap of nothing. */
static void fill_gaps(struct tenure_history *h)
{
    for (uint32_t i = 0; i < h->n; i++) {
        struct tenure_term_record *t = &h->terms[i];
        uint64_t before = i > 0 ? h->terms[i - 1].to_ms : 0;
        bool guessed = before >= t->from_ms && i > 0 && h->terms[i - 1].estimated;

        t->gap_ms = guessed ? -1 : tn_wall_span_ms(before, t->from_ms);
    }
}

/* Where a term of that epoch is, or belongs. */
static uint32_t place_of(const struct tenure_history *h, uint64_t epoch)
{
    uint32_t i = 0;

    while (i < h->n && h->terms[i].epoch < epoch)
        i++;
    return i;
}

/* Make room at that place; the oldest is forgotten.  NULL: this one is older than all. */
static struct tenure_term_record *insert(struct tenure_history *h, uint32_t at)
{
    if (h->n == TENURE_TERMS_MAX) {
        if (at == 0)
            return NULL;
        memmove(&h->terms[0], &h->terms[1], (at - 1) * sizeof h->terms[0]);
        at--;
    } else {
        memmove(&h->terms[at + 1], &h->terms[at], (h->n - at) * sizeof h->terms[0]);
        h->n++;
    }
    memset(&h->terms[at], 0, sizeof h->terms[at]);
    return &h->terms[at];
}

static void take_term(struct tenure_history *h, const json_t *o)
{
    struct tenure_term_record t = {.epoch = tn_record_number(o, "epoch", TN_EPOCH_MAX)};

    TN_RECORD_TEXT(o, &t, holder);
    if (t.epoch == 0 || !t.holder[0])
        return; /* the others are worth showing all the same */
    t.from_ms = tn_record_number(o, "from_ms", WALL_MAX_MS);
    t.to_ms = tn_record_number(o, "to_ms", WALL_MAX_MS);
    t.estimated = json_is_true(json_object_get(o, "estimated"));
    TN_RECORD_TEXT(o, &t, cause);
    TN_RECORD_TEXT(o, &t, end);
    uint32_t at = place_of(h, t.epoch);
    if (at < h->n && h->terms[at].epoch == t.epoch)
        return;
    struct tenure_term_record *slot = insert(h, at);
    if (slot)
        *slot = t;
}

enum tenure_status tn_history_decode(const void *data, size_t len, struct tenure_history *out,
                                     struct tenure_error *err)
{
    json_error_t why;
    json_t *object =
        len > 0 && len <= HISTORY_MAX ? json_loadb(data, len, JSON_REJECT_DUPLICATES, &why) : NULL;
    const json_t *terms = json_object_get(object, "terms"), *term;
    size_t i;

    if (len > 0 && !json_is_array(terms)) {
        json_decref(object);
        return tenure_fail(err, TENURE_CORRUPT,
                           "the history register cannot be read; the next leader writes a new one");
    }
    out->n = 0;
    json_array_foreach(terms, i, term) take_term(out, term);
    json_decref(object);
    fill_gaps(out);
    return TENURE_OK;
}

static json_t *put_term(const struct tenure_term_record *t)
{
    json_t *o = json_pack("{s:I, s:s, s:I}", "epoch", (json_int_t)t->epoch, "holder", t->holder,
                          "from_ms", (json_int_t)t->from_ms);

    if (o && t->to_ms)
        json_object_set_new(o, "to_ms", json_integer((json_int_t)t->to_ms));
    if (o && t->estimated)
        json_object_set_new(o, "estimated", json_true());
    if (o && t->cause[0])
        json_object_set_new(o, "cause", json_string(t->cause));
    if (o && t->end[0])
        json_object_set_new(o, "end", json_string(t->end));
    return o;
}

char *tn_history_encode(const struct tenure_history *h)
{
    json_t *terms = json_array(), *object = json_pack("{s:o}", "terms", terms);
    char *text = NULL;
    bool ok = object != NULL;

    for (uint32_t i = 0; ok && i < h->n; i++)
        ok = json_array_append_new(terms, put_term(&h->terms[i])) == 0;
    if (ok)
        text = json_dumps(object, JSON_COMPACT);
    json_decref(object);
    return text;
}

/* ---- Notes --------------------------------------------------------------- */

static void add(struct tenure_term_record *to, const struct tenure_term_record *t)
{
    if (t->holder[0])
        memcpy(to->holder, t->holder, sizeof to->holder);
    if (t->from_ms)
        to->from_ms = t->from_ms;
    if (t->cause[0])
        memcpy(to->cause, t->cause, sizeof to->cause);
    if (t->to_ms && (to->to_ms == 0 || to->estimated || !t->estimated)) {
        to->to_ms = t->to_ms;
        to->estimated = t->estimated;
    }
    if (t->end[0])
        memcpy(to->end, t->end, sizeof to->end);
}

/* How the term before a new one ended, if it could not say so itself. */
static const char *end_before(const struct tenure_term_record *next)
{
    if (strcmp(next->cause, "crashed") == 0)
        return "crashed";
    if (strcmp(next->cause, "proved") == 0)
        return "its machine was switched off";
    return strcmp(next->cause, "expired") == 0 ? "not renewed in time" : "";
}

void tn_history_merge(struct tenure_history *h, const struct tenure_term_record *term,
                      uint64_t heard_ms)
{
    uint32_t at = place_of(h, term->epoch);
    struct tenure_term_record *slot;

    if (at < h->n && h->terms[at].epoch == term->epoch)
        slot = &h->terms[at];
    else
        slot = insert(h, at);
    if (!slot)
        return;
    slot->epoch = term->epoch;
    add(slot, term);
    uint64_t heard = heard_ms ? heard_ms : slot->from_ms;
    for (struct tenure_term_record *t = h->terms; t < slot; t++) {
        if (t->to_ms != 0 || heard == 0)
            continue;
        t->to_ms = heard > t->from_ms ? heard : t->from_ms;
        t->estimated = true;
        if (t + 1 == slot && !t->end[0])
            snprintf(t->end, sizeof t->end, "%s", end_before(slot));
    }
    fill_gaps(h);
}

/* Of more terms than the caller has room for, the newest. */
static enum tenure_status decode(void *out, const struct tenure_value *value,
                                 struct tenure_error *err)
{
    struct tenure_history *to = out, *whole = calloc(1, sizeof *whole);
    uint32_t room =
        (uint32_t)((to->size - offsetof(struct tenure_history, terms)) / sizeof whole->terms[0]);

    if (!whole)
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    enum tenure_status status = tn_history_decode(value->data, value->len, whole, err);
    if (!status) {
        to->n = whole->n < room ? whole->n : room;
        memcpy(to->terms, whole->terms + whole->n - to->n, to->n * sizeof whole->terms[0]);
    }
    free(whole);
    return status;
}

enum tenure_status tenure_history_look(tenure_store *store, const char *name,
                                       struct tenure_history *history, int64_t deadline,
                                       struct tenure_error *err)
{
    char key[TENURE_KEY_MAX + 1];

    if (history->size < offsetof(struct tenure_history, terms))
        return tenure_fail(err, TENURE_INVALID,
                           "the struct has no size: initialise it with TENURE_HISTORY");
    tn_key_of(name, TN_KEY_HISTORY, key);
    return tn_read_register(store, key, decode, history, deadline, err);
}

struct note {
    struct tenure_history *history; /* scratch */
    const struct tenure_term_record *term;
    uint64_t heard_ms;
};

static enum tenure_status write_down(void *arg, const struct tenure_value *value,
                                     struct tn_edit *edit, struct tenure_error *err)
{
    const struct note *n = arg;

    n->history->n = 0;
    tn_history_decode(value->data, value->len, n->history, err); /* damaged: a new one begins */
    tn_history_merge(n->history, n->term, n->heard_ms);
    edit->text = tn_history_encode(n->history);
    return edit->text ? TENURE_OK : tenure_fail(err, TENURE_NOMEM, "out of memory");
}

enum tenure_status tenure_history_note(tenure_store *store, const char *name,
                                       const struct tenure_term_record *term, uint64_t heard_ms,
                                       int64_t deadline, struct tenure_error *err)
{
    struct note n = {.history = calloc(1, sizeof *n.history), .term = term, .heard_ms = heard_ms};
    struct tenure_error scratch;
    char key[TENURE_KEY_MAX + 1];

    err = err ? err : &scratch;
    if (!n.history)
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    tn_key_of(name, TN_KEY_HISTORY, key);
    enum tenure_status status = tn_edit_register(store, key, write_down, &n, deadline, err);
    free(n.history);
    return status;
}
