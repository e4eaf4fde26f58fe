/* NAME/candidates/ID: what each candidate says of itself. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/key.h"
#include "base/record_text.h"
#include "control/control.h"
#include "control/edit.h"

#define CANDIDATE_MAX 4096

/* ---- The record ---------------------------------------------------------- */

char *tn_candidate_encode(const struct tenure_candidate *c)
{
    json_t *object =
        json_pack("{s:s, s:s, s:b, s:i, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I, "
                  "s:I, s:I, s:s, s:s}",
                  "id", c->id, "state", c->state, "healthy", (int)c->healthy, "priority",
                  (int)c->priority, "build", c->build, "address", c->address, "contain", c->contain,
                  "since", c->since, "trouble", c->trouble, "answer", c->answer, "boot", c->boot,
                  "started_epoch", (json_int_t)c->started_epoch, "started_ns",
                  (json_int_t)c->started_ns, "started_ms", (json_int_t)c->started_ms, "ended_epoch",
                  (json_int_t)c->ended_epoch, "ended_ns", (json_int_t)c->ended_ns, "ended_ms",
                  (json_int_t)c->ended_ms, "page", c->page, "incarnation", c->incarnation);
    char *text = object ? json_dumps(object, JSON_COMPACT) : NULL;

    json_decref(object);
    return text;
}

enum tenure_status tn_candidate_decode(const void *data, size_t len,
                                       struct tenure_candidate *candidate, struct tenure_error *err)
{
    struct tenure_candidate c = TENURE_CANDIDATE;
    json_error_t why;
    json_t *o = len > 0 && len <= CANDIDATE_MAX
                    ? json_loadb(data, len, JSON_REJECT_DUPLICATES, &why)
                    : NULL;

    TN_RECORD_TEXT(o, &c, id);
    if (!json_is_object(o) || !c.id[0]) {
        json_decref(o);
        return tenure_fail(err, TENURE_CORRUPT, "a candidate's record cannot be read");
    }
    TN_RECORD_TEXT(o, &c, state);
    c.healthy = json_is_true(json_object_get(o, "healthy"));
    json_int_t priority = json_integer_value(json_object_get(o, "priority"));
    c.priority = priority >= INT32_MIN && priority <= INT32_MAX ? (int32_t)priority : 0;
    TN_RECORD_TEXT(o, &c, build);
    TN_RECORD_TEXT(o, &c, address);
    TN_RECORD_TEXT(o, &c, contain);
    TN_RECORD_TEXT(o, &c, since);
    TN_RECORD_TEXT(o, &c, trouble);
    TN_RECORD_TEXT(o, &c, answer);
    TN_RECORD_TEXT(o, &c, boot);
    TN_RECORD_TEXT(o, &c, incarnation);
    c.started_epoch = tn_record_number(o, "started_epoch", INT64_MAX);
    c.started_ns = (int64_t)tn_record_number(o, "started_ns", INT64_MAX);
    c.started_ms = tn_record_number(o, "started_ms", INT64_MAX);
    c.ended_epoch = tn_record_number(o, "ended_epoch", INT64_MAX);
    c.ended_ns = (int64_t)tn_record_number(o, "ended_ns", INT64_MAX);
    c.ended_ms = tn_record_number(o, "ended_ms", INT64_MAX);
    TN_RECORD_TEXT(o, &c, page);
    json_decref(o);
    *candidate = c;
    return TENURE_OK;
}

/* ---- Writing ------------------------------------------------------------- */

struct announcement {
    const struct tenure_candidate *candidate;
    struct tenure_candidate was;
    bool tried;
};

/* Its own register: a conflict is an earlier try of ours, or a namesake. */
static enum tenure_status put(void *arg, const struct tenure_value *value, struct tn_edit *edit,
                              struct tenure_error *err)
{
    struct announcement *a = arg;
    struct tenure_candidate c = TENURE_CANDIDATE;

    if (!value->tombstone)
        tn_candidate_decode(value->data, value->len, &c, NULL);
    if (!a->tried || strcmp(c.incarnation, a->candidate->incarnation) != 0)
        a->was = c;
    a->tried = true;
    edit->text = tn_candidate_encode(a->candidate);
    return edit->text ? TENURE_OK : tenure_fail(err, TENURE_NOMEM, "out of memory");
}

/* Not that of another process under the same id. */
static enum tenure_status erase(void *arg, const struct tenure_value *value, struct tn_edit *edit,
                                struct tenure_error *err)
{
    const char *incarnation = arg;
    struct tenure_candidate c = TENURE_CANDIDATE;

    (void)err;
    edit->tombstone = !tenure_token_absent(&value->token) && !value->tombstone;
    if (edit->tombstone && incarnation[0] &&
        tn_candidate_decode(value->data, value->len, &c, NULL) == TENURE_OK && c.incarnation[0])
        edit->tombstone = strcmp(c.incarnation, incarnation) == 0;
    return TENURE_OK;
}

enum tenure_status tn_candidate_announce(tenure_store *store, const char *name,
                                         const struct tenure_candidate *candidate,
                                         struct tenure_candidate *was, int64_t deadline,
                                         struct tenure_error *err)
{
    struct announcement a = {.candidate = candidate};
    char key[TENURE_KEY_MAX + 1];

    tn_key_candidate(name, candidate->id, key);
    enum tenure_status status = tn_edit_register(store, key, put, &a, deadline, err);
    if (!status)
        *was = a.was;
    return status;
}

enum tenure_status tn_candidate_withdraw(tenure_store *store, const char *name, const char *id,
                                         const char *incarnation, int64_t deadline,
                                         struct tenure_error *err)
{
    char key[TENURE_KEY_MAX + 1], whose[33];

    tn_key_candidate(name, id, key);
    snprintf(whose, sizeof whose, "%s", incarnation);
    return tn_edit_register(store, key, erase, whose, deadline, err);
}

/* ---- Listing ------------------------------------------------------------- */

struct listing {
    tenure_candidate_fn visit;
    void *arg;
};

/* A record that cannot be read is nobody's: it is passed over. */
static bool visit_record(void *arg, const char *key, const struct tenure_value *value)
{
    const struct listing *l = arg;
    struct tenure_candidate c = TENURE_CANDIDATE;

    (void)key;
    if (value->tombstone || tn_candidate_decode(value->data, value->len, &c, NULL))
        return true;
    return l->visit(l->arg, &c);
}

enum tenure_status tn_candidates_list(tenure_store *store, const char *name,
                                      tenure_candidate_fn visit, void *arg,
                                      struct tn_candidates_watch *watch, int64_t deadline,
                                      struct tenure_error *err)
{
    struct listing listing = {.visit = visit, .arg = arg};
    struct tn_candidates_watch scratch;

    if (!watch)
        watch = &scratch;
    tn_key_of(name, TN_KEY_CANDIDATES, watch->prefix);
    return tenure_store_list(store, watch->prefix, NULL, visit_record, &listing, watch->mark,
                             deadline, err);
}

void tn_candidates_wait(tenure_store *store, const struct tn_candidates_watch *watch,
                        int64_t deadline)
{
    struct tenure_watch w = {.key = watch->prefix, .prefix = true};
    enum tenure_status status;

    memcpy(w.mark, watch->mark, sizeof w.mark);
    status = tenure_store_wait(store, &w, 1, -1, deadline, NULL);
    if (status != TENURE_OK && status != TENURE_TIMEOUT)
        nanosleep(&(struct timespec){.tv_nsec = 20 * 1000 * 1000}, NULL);
}

enum tenure_status tenure_candidates(tenure_store *store, const char *name,
                                     tenure_candidate_fn visit, void *arg, int64_t deadline,
                                     struct tenure_error *err)
{
    return tn_candidates_list(store, name, visit, arg, NULL, deadline, err);
}
