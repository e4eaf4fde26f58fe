/* NAME/control: what is asked of the candidates. */
#include "control/control.h"
#include "base/key.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hex.h"
#include "base/name.h"
#include "base/record_text.h"
#include "base/rfc3339.h"
#include "base/sized.h"
#include "base/text.h"
#include "control/edit.h"
#include "lease/read.h"
#include "os/clock.h"

/* The first answer to a call opens this moment for better ones. */
#define BETTER_NS (100 * INT64_C(1000000))
/* A last look, when the time for answers is over. */
#define LOOK_NS   INT64_C(1000000000)

#define REMEDY       "`tenure resume --force` writes a fresh one"
#define CONTROL_MAX  16384 /* bytes of the register that we look at */
#define CONTROL_ROOM 1024  /* that any change of ours fits into */

/* ---- The record ---------------------------------------------------------- */

/* For people and terminals: printable, cut to size. */
static void put_text(const char *text, char *out, size_t size)
{
    snprintf(out, size, "%s", text ? text : "");
    tn_text_tame(out, '?');
}

static json_t *load(const struct tenure_value *value, struct tenure_error *err)
{
    json_error_t why;
    json_t *object;

    if (value->len == 0)
        object = json_object(); /* never written, or erased */
    else if (value->len > CONTROL_MAX)
        object = NULL;
    else
        object = json_loadb((const char *)value->data, value->len, JSON_REJECT_DUPLICATES, &why);
    if (!json_is_object(object)) {
        json_decref(object);
        tenure_fail(err, TENURE_CORRUPT,
                    "the control register is not a JSON object of at most %d bytes; " REMEDY,
                    CONTROL_MAX);
        return NULL;
    }
    return object;
}

enum tenure_status tn_control_decode(const struct tenure_value *value,
                                     struct tenure_control *control, struct tenure_error *err)
{
    json_t *object = load(value, err);

    *control = (struct tenure_control){.size = sizeof *control, .token = value->token};
    if (!object) {
        control->paused = true;
        return TENURE_CORRUPT;
    }
    const json_t *request = json_object_get(object, "request");
    control->paused = json_is_true(json_object_get(object, "paused"));
    TN_RECORD_TEXT(object, control, paused_by);
    TN_RECORD_TEXT(object, control, paused_at);
    TN_RECORD_TEXT(object, control, reason);
    control->roll = tn_record_number(object, "roll", INT64_MAX);
    tn_record_text(request, "id", control->request, sizeof control->request);
    TN_RECORD_TEXT(request, control, kind);
    TN_RECORD_TEXT(request, control, to);
    control->epoch = tn_record_number(request, "epoch", INT64_MAX);
    control->for_ms = (int64_t)tn_record_number(request, "for_ms", 86400000);
    json_decref(object);
    return TENURE_OK;
}

static enum tenure_status decode(void *out, const struct tenure_value *value,
                                 struct tenure_error *err)
{
    struct tenure_control whole;
    enum tenure_status status = tn_control_decode(value, &whole, err);

    tn_sized_copy(out, &whole, sizeof whole);
    return status;
}

enum tenure_status tenure_control_look(tenure_store *store, const char *name,
                                       struct tenure_control *control, int64_t deadline,
                                       struct tenure_error *err)
{
    char key[TENURE_KEY_MAX + 1];
    enum tenure_status status = tn_sized_check(control->size, "TENURE_CONTROL", err);

    if (status)
        return status;
    tn_key_of(name, TN_KEY_CONTROL, key);
    return tn_read_register(store, key, decode, control, deadline, err);
}

/* ---- Changes ------------------------------------------------------------- */

typedef bool (*change_fn)(json_t *object, const void *arg);

struct change {
    change_fn make;
    const void *arg;
    bool read; /* the store could deliver what stands there */
};

/* Members that we do not know stay: the object that was read is the one that is written. */
static enum tenure_status change(void *arg, const struct tenure_value *value, struct tn_edit *edit,
                                 struct tenure_error *err)
{
    struct change *c = arg;
    json_t *object = load(value, err);

    c->read = true;
    if (!object)
        return TENURE_CORRUPT;
    edit->text = c->make(object, c->arg) ? json_dumps(object, JSON_COMPACT) : NULL;
    json_decref(object);
    if (!edit->text)
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    /* What is longer nobody could read again, us included. */
    if (strlen(edit->text) <= CONTROL_MAX)
        return TENURE_OK;
    free(edit->text);
    edit->text = NULL;
    return tenure_fail(err, TENURE_CORRUPT,
                       "the control register is full: what tenure does not know takes most of "
                       "its %d bytes; " REMEDY,
                       CONTROL_MAX);
}

static enum tenure_status edit_register(tenure_store *store, const char *name, tn_edit_fn edit,
                                        void *arg, int64_t deadline, struct tenure_error *err)
{
    const char *fault = tn_name_fault(name);
    char key[TENURE_KEY_MAX + 1];

    if (fault)
        return tenure_fail(err, TENURE_INVALID, "'%.60s' cannot be the name of an election: %s",
                           name ? name : "", fault);
    tn_key_of(name, TN_KEY_CONTROL, key);
    return tn_edit_register(store, key, edit, arg, deadline, err);
}

static enum tenure_status edit_control(tenure_store *store, const char *name, change_fn make,
                                       const void *arg, int64_t deadline, struct tenure_error *err)
{
    struct change c = {.make = make, .arg = arg};
    enum tenure_status status = edit_register(store, name, change, &c, deadline, err);

    if (status == TENURE_CORRUPT && !c.read && err) { /* the store does not know the remedy */
        struct tenure_error why = *err;

        tenure_fail(err, status, "%.400s; " REMEDY, why.text);
    }
    return status;
}

/* As long as it can be read again; longer ones would only fill the register. */
struct pause {
    char by[sizeof((struct tenure_control *)0)->paused_by];
    char reason[sizeof((struct tenure_control *)0)->reason];
    char at[TN_RFC3339_SIZE];
};

static bool put_pause(json_t *object, const void *arg)
{
    const struct pause *p = arg;

    return json_object_set_new(object, "paused", json_true()) == 0 &&
           json_object_set_new(object, "paused_by", json_string(p->by)) == 0 &&
           json_object_set_new(object, "paused_at", json_string(p->at)) == 0 &&
           json_object_set_new(object, "reason", json_string(p->reason)) == 0;
}

static bool put_resume(json_t *object, const void *arg)
{
    (void)arg;
    json_object_del(object, "paused_by");
    json_object_del(object, "paused_at");
    json_object_del(object, "reason");
    return json_object_set_new(object, "paused", json_false()) == 0;
}

static bool put_roll(json_t *object, const void *arg)
{
    (void)arg;
    json_int_t roll = json_integer_value(json_object_get(object, "roll"));

    /* Anybody's number; all that counts is that it is another one. */
    roll = roll > 0 && roll < INT64_MAX ? roll + 1 : 1;
    return json_object_set_new(object, "roll", json_integer(roll)) == 0;
}

static bool put_request(json_t *object, const void *arg)
{
    const struct tenure_control *c = arg;
    json_t *request =
        json_pack("{s:s, s:s, s:s, s:I, s:I}", "id", c->request, "kind", c->kind, "to", c->to,
                  "epoch", (json_int_t)c->epoch, "for_ms", (json_int_t)c->for_ms);

    return request && json_object_set_new(object, "request", request) == 0;
}

enum tenure_status tenure_control_pause(tenure_store *store, const char *name, const char *by,
                                        const char *reason, int64_t deadline,
                                        struct tenure_error *err)
{
    struct pause pause;

    put_text(by, pause.by, sizeof pause.by);
    put_text(reason, pause.reason, sizeof pause.reason);
    tn_rfc3339_format(tn_wall_ms(), pause.at);
    return edit_control(store, name, put_pause, &pause, deadline, err);
}

static enum tenure_status replace(void *arg, const struct tenure_value *value, struct tn_edit *edit,
                                  struct tenure_error *err)
{
    json_t *object = load(value, NULL);
    bool good = object && json_dumpb(object, NULL, 0, JSON_COMPACT) <= CONTROL_MAX - CONTROL_ROOM;

    (void)arg;
    json_decref(object);
    if (!good && !(edit->text = strdup("{}")))
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    return TENURE_OK;
}

enum tenure_status tenure_control_reset(tenure_store *store, const char *name, int64_t deadline,
                                        struct tenure_error *err)
{
    return edit_register(store, name, replace, NULL, deadline, err);
}

enum tenure_status tenure_control_resume(tenure_store *store, const char *name, int64_t deadline,
                                         struct tenure_error *err)
{
    return edit_control(store, name, put_resume, NULL, deadline, err);
}

enum tenure_status tn_control_roll(tenure_store *store, const char *name, int64_t deadline,
                                   struct tenure_error *err)
{
    return edit_control(store, name, put_roll, NULL, deadline, err);
}

/* ---- Requests ------------------------------------------------------------ */

static enum tenure_status post_request(tenure_store *store, const char *name,
                                       struct tenure_control *c, int64_t deadline,
                                       struct tenure_error *err)
{
    uint8_t id[TENURE_NONCE_SIZE];
    enum tenure_status status = tenure_nonce(id, err);

    if (status)
        return status;
    tn_hex_encode(id, sizeof id, c->request);
    return edit_control(store, name, put_request, c, deadline, err);
}

enum tenure_status tenure_control_yield(tenure_store *store, const char *name, uint64_t epoch,
                                        const char *to, int64_t for_ms, int64_t deadline,
                                        struct tenure_error *err)
{
    struct tenure_control c = {.kind = "yield", .epoch = epoch, .for_ms = for_ms};

    put_text(to, c.to, sizeof c.to);
    return post_request(store, name, &c, deadline, err);
}

/* Of all that answered, the best. */
struct answers {
    const char *request;
    const char *to;
    struct tenure_candidate best;
    unsigned n;
};

static bool choose_best(void *arg, const struct tenure_candidate *c)
{
    struct answers *a = arg;

    if (strcmp(c->answer, a->request) != 0 || (a->to && strcmp(c->id, a->to) != 0))
        return true;
    if (a->n++ == 0 || c->priority > a->best.priority)
        a->best = *c;
    return true;
}

enum tenure_status tenure_control_call(tenure_store *store, const char *name, const char *to,
                                       struct tenure_candidate *found, int64_t deadline,
                                       struct tenure_error *err)
{
    struct tenure_control c = {.kind = "call"};
    int64_t enough = 0, now;
    enum tenure_status status;

    status = tn_sized_check(found->size, "TENURE_CANDIDATE", err);
    put_text(to, c.to, sizeof c.to);
    if (!status)
        status = post_request(store, name, &c, deadline, err);
    while (!status) {
        struct answers a = {.request = c.request, .to = to};
        struct tn_candidates_watch watch;

        status = tn_candidates_list(store, name, choose_best, &a, &watch, deadline + LOOK_NS, err);
        if (status)
            break;
        now = tenure_now();
        if (a.n > 0 && enough == 0)
            enough = to ? now : now + BETTER_NS;
        if (a.n > 0 && now >= enough) {
            tn_sized_copy(found, &a.best, sizeof a.best);
            return TENURE_OK;
        }
        if (now >= deadline)
            return tenure_fail(err, TENURE_UNAVAILABLE,
                               to ? "%s does not answer: it is not waiting, or not healthy"
                                  : "%s: no healthy candidate answers",
                               to ? to : name);
        tn_candidates_wait(store, &watch, a.n > 0 && enough < deadline ? enough : deadline);
    }
    return status;
}

static bool count_silent(void *arg, const struct tenure_candidate *c)
{
    struct answers *a = arg;

    a->n += strcmp(c->answer, a->request) != 0;
    return true;
}

enum tenure_status tenure_control_ping(tenure_store *store, const char *name, int64_t deadline,
                                       char request[33], struct tenure_error *err)
{
    struct tenure_control c = {.kind = "ping"};
    enum tenure_status status = post_request(store, name, &c, deadline, err);

    while (!status) {
        struct answers a = {.request = c.request};
        struct tn_candidates_watch watch;

        status = tn_candidates_list(store, name, count_silent, &a, &watch, deadline + LOOK_NS, err);
        if (status || a.n == 0 || tenure_now() >= deadline)
            break;
        tn_candidates_wait(store, &watch, deadline);
    }
    if (!status)
        memcpy(request, c.request, sizeof c.request);
    return status;
}
