#include "state/http/http.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/timing.h"
#include "state/calls.h"

/* A request ends so long after it came, and before the term does. */
#define REQUEST_NS (5 * TN_S)

/* ---- Answers ------------------------------------------------------------- */

void tn_http_answer_json(struct tn_http_reply *reply, unsigned status, json_t *json)
{
    char *text = json ? json_dumps(json, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;

    json_decref(json);
    reply->status = text ? status : 500;
    reply->type = "application/json";
    reply->body = text;
    reply->len = text ? strlen(text) : 0;
    reply->owned = text != NULL;
}

void tn_http_answer_error(struct tn_http_reply *reply, unsigned status, const char *error,
                          const char *detail)
{
    /* A text may hold anybody's bytes; if it is not UTF-8 it is left out. */
    json_t *json = json_pack("{s:s, s:s}", "error", error, "detail", detail);

    tn_http_answer_json(reply, status, json ? json : json_pack("{s:s}", "error", error));
}

void tn_http_answer_status(struct tn_http_reply *reply, enum tenure_status status,
                           const char *detail)
{
    switch (status) {
    case TENURE_FENCED:
    case TENURE_CONFLICT:
    case TENURE_NOT_LEADER:
        tn_http_answer_error(reply, 409, tenure_status_word(status), detail);
        break;
    case TENURE_INVALID:
        tn_http_answer_error(reply, 400, tenure_status_word(status), detail);
        break;
    case TENURE_UNKNOWN:
    case TENURE_TIMEOUT:
    case TENURE_UNAVAILABLE:
    case TENURE_NOMEM:
    case TENURE_CANCELLED:
        tn_http_answer_error(reply, 503, tenure_status_word(status), detail);
        break;
    default:
        tn_http_answer_error(reply, 500, tenure_status_word(status), detail);
    }
}

void tn_state_http_denied(struct tn_http_reply *reply)
{
    tn_http_answer_error(reply, 403, "denied", "this socket is for the program that tenure runs");
}

/* ---- The verbs ----------------------------------------------------------- */

static enum tenure_status load_document(const struct tn_state_term *term,
                                        struct tn_state_request *x, int64_t deadline,
                                        struct tenure_error *err)
{
    static const char *const names[] = {"Tenure-Epoch", "Tenure-Seq", "Tenure-Edited"};
    struct tenure_document d = {0};
    enum tenure_status status =
        tenure_state_load(term->state, x->collection, x->id, &d, deadline, err);

    if (status)
        return status;
    if (!d.exists) {
        tenure_document_free(&d);
        tn_http_answer_error(&x->reply, 404, "not-found", "there is no such document");
        return TENURE_OK;
    }
    snprintf(x->values[0], sizeof x->values[0], "%" PRIu64, d.epoch);
    snprintf(x->values[1], sizeof x->values[1], "%" PRIu64, d.seq);
    snprintf(x->values[2], sizeof x->values[2], "%s", d.edited ? "true" : "false");
    x->reply.status = 200;
    x->reply.type = "application/octet-stream";
    x->reply.body = d.value.data; /* its owner is the server now */
    x->reply.len = d.value.len;
    x->reply.owned = d.value.data != NULL;
    for (int i = 0; i < 3; i++) {
        x->reply.headers[i].name = names[i];
        x->reply.headers[i].value = x->values[i];
    }
    return TENURE_OK;
}

/* One commit, to be tried with the others. */
static enum tenure_status plan_commit(struct tn_state_request *x, bool remove)
{
    if (!remove && x->len > TENURE_DATA_MAX - 4096) {
        tn_http_answer_error(&x->reply, 413, "too-long", "a document may have 1,044,480 bytes");
        return TENURE_OK;
    }
    x->one = (struct tenure_commit){.collection = x->collection,
                                    .id = x->id,
                                    .data = x->body ? x->body : (const void *)"",
                                    .len = x->len,
                                    .remove = remove};
    x->commits = &x->one;
    x->n_commits = 1;
    return TENURE_OK;
}

static enum tenure_status plan_delete(const struct tn_state_term *term, struct tn_state_request *x,
                                      int64_t deadline, struct tenure_error *err)
{
    bool exists = false;
    enum tenure_status status =
        tn_state_exists(term->state, x->collection, x->id, &exists, deadline, err);

    if (status)
        return status;
    if (exists)
        return plan_commit(x, true);
    tn_http_answer_error(&x->reply, 404, "not-found", "there is no such document");
    return TENURE_OK;
}

struct listing {
    json_t *documents;
    bool lost; /* one could not be added: the rest is not all */
};

static bool list_one(void *arg, const char *id, const struct tenure_document *d, const char *damage)
{
    struct listing *list = arg;
    json_t *o =
        json_pack("{s:s, s:I, s:I, s:I, s:b}", "id", id, "epoch", (json_int_t)d->epoch, "seq",
                  (json_int_t)d->seq, "bytes", (json_int_t)d->value.len, "edited", d->edited);

    if (o && damage)
        json_object_set_new(o, "damage", json_string(damage));
    if (!o) /* an id that is not UTF-8, of an earlier build, is left out */
        return true;
    list->lost = json_array_append_new(list->documents, o) != 0;
    return !list->lost;
}

static enum tenure_status list_collection(const struct tn_state_term *term,
                                          struct tn_state_request *x, int64_t deadline,
                                          struct tenure_error *err)
{
    struct listing l = {.documents = json_array()};
    enum tenure_status status =
        tenure_state_list(term->state, x->collection, list_one, &l, deadline, err);

    if (!status && l.lost)
        status = tenure_fail(err, TENURE_NOMEM, "out of memory");
    if (status)
        json_decref(l.documents);
    else
        tn_http_answer_json(&x->reply, 200, json_pack("{s:o}", "documents", l.documents));
    return status;
}

/* ---- Which of them ------------------------------------------------------- */

/* "/v1/state/COLLECTION[/ID]" in its parts. */
static bool parse_path(struct tn_state_request *x)
{
    const char *rest = x->path + strlen("/v1/state/");
    size_t n = strcspn(rest, "/");

    if (n == 0 || n >= sizeof x->collection)
        return false;
    memcpy(x->collection, rest, n);
    x->collection[n] = '\0';
    x->id = rest[n] ? rest + n + 1 : "";
    return true;
}

/* The program may name the epoch that it works under; another one is not its own. */
static bool of_this_term(const struct tn_state_term *term, const struct tn_state_request *x)
{
    char *end;

    return !x->epoch || (strtoull(x->epoch, &end, 10) == term->epoch && end != x->epoch && !*end);
}

/* It is not done under a grant, or for a program, that it did not come from (I3). */
static bool of_this_turn(const struct tn_state_term *term, struct tn_state_request *x)
{
    bool dead = x->by_program && x->program != term->program;

    if (!dead && x->turn == term->turn)
        return true;
    tn_http_answer_error(&x->reply, 409, tenure_status_word(TENURE_NOT_LEADER),
                         dead ? "the program that connected has ended; connect again"
                              : "the request came before the current term began");
    if (dead) { /* nor is anything else that comes this way */
        snprintf(x->values[0], sizeof x->values[0], "close");
        x->reply.headers[0].name = "Connection";
        x->reply.headers[0].value = x->values[0];
    }
    return false;
}

/* Answer it, or plan what it commits. */
static enum tenure_status dispatch(const struct tn_state_term *term, struct tn_state_request *x,
                                   int64_t deadline, struct tenure_error *err)
{
    const char *method = x->method;
    bool many = !x->collection[0];

    if (!term->state || term->left_ns <= 0)
        return tenure_fail(err, TENURE_NOT_LEADER, "not leading: there is no current term");
    if (!of_this_turn(term, x))
        return TENURE_OK;
    if (!of_this_term(term, x)) { /* the asker's is over, not the one in hand */
        tn_http_answer_error(&x->reply, 409, "fenced", "the current term has another epoch");
        return TENURE_OK;
    }
    if (tenure_now() >= deadline)
        return tenure_fail(err, TENURE_TIMEOUT, "the deadline passed before the request was begun");
    if (many && strcmp(method, "POST") == 0)
        return tn_state_batch_parse(x, err);
    if (!many && !*x->id && strcmp(method, "GET") == 0)
        return list_collection(term, x, deadline, err);
    if (*x->id && strcmp(method, "GET") == 0)
        return load_document(term, x, deadline, err);
    if (*x->id && strcmp(method, "PUT") == 0)
        return plan_commit(x, false);
    if (*x->id && strcmp(method, "DELETE") == 0)
        return plan_delete(term, x, deadline, err);
    tn_http_answer_error(&x->reply, 405, "method",
                         "GET, PUT and DELETE of a document, GET of a collection, POST of commits");
    return TENURE_OK;
}

/* true: a later leader was met. */
static bool begin_request(const struct tn_state_term *term, struct tn_state_request *x,
                          int64_t deadline)
{
    struct tenure_error err = {0};
    enum tenure_status status = TENURE_OK;

    x->reply = (struct tn_http_reply){.status = 500, .type = "application/json"};
    x->id = x->collection; /* "" */
    x->collection[0] = '\0';
    x->n_commits = 0;
    if (strcmp(x->path, "/v1/state") == 0 ||
        (strncmp(x->path, "/v1/state/", 10) == 0 && parse_path(x))) {
        status = dispatch(term, x, deadline, &err);
        if (status) {
            x->n_commits = 0;
            tn_http_answer_status(&x->reply, status, err.text);
        }
    } else {
        tn_http_answer_error(&x->reply, 404, "not-found",
                             "see /v1/leadership, /v1/state and /v1/state/COLLECTION/ID");
    }
    return status == TENURE_FENCED;
}

/* ---- Commits, together --------------------------------------------------- */

/* What was planned has been tried.  err explains the first that failed of all. */
static bool finish_commits(const struct tn_state_term *term, struct tn_state_request *x,
                           const struct tenure_error *err)
{
    enum tenure_status status = TENURE_OK;
    bool over = false;

    for (size_t i = 0; i < x->n_commits; i++) {
        const struct tenure_commit *c = &x->commits[i];

        over = over || c->status == TENURE_FENCED;
        status = status ? status : c->status;
        if (!c->status && term->committed)
            term->committed(term->arg, c->collection, c->id, c->seq);
    }
    const char *detail = status && status == err->code ? err->text : tenure_status_meaning(status);
    if (x->batch)
        tn_state_batch_answer(x, detail);
    else if (status)
        tn_http_answer_status(&x->reply, status, detail);
    else
        tn_http_answer_json(&x->reply, 200, json_pack("{s:I}", "seq", (json_int_t)x->one.seq));
    return over;
}

static bool commit_together(const struct tn_state_term *term,
                            struct tn_state_request *const *requests, size_t n, size_t n_commits,
                            int64_t deadline)
{
    struct tenure_commit *all = calloc(n_commits, sizeof *all);
    struct tenure_error err = {0};
    bool over = false;
    size_t at = 0;

    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < requests[i]->n_commits; k++) {
            requests[i]->commits[k].status = TENURE_NOMEM;
            if (all)
                all[at++] = requests[i]->commits[k];
        }
    }
    if (all)
        tenure_state_commit(term->state, all, at, deadline, &err);
    at = 0;
    for (size_t i = 0; i < n; i++) {
        if (all && requests[i]->n_commits)
            memcpy(requests[i]->commits, all + at, requests[i]->n_commits * sizeof *all);
        at += requests[i]->n_commits;
        if (requests[i]->n_commits)
            over = finish_commits(term, requests[i], &err) || over;
    }
    free(all);
    return over;
}

bool tn_state_http(const struct tn_state_term *term, struct tn_state_request *const *requests,
                   size_t n)
{
    int64_t over_at = tenure_now() + term->left_ns, until = requests[0]->came_ns + REQUEST_NS;
    int64_t deadline = over_at < until ? over_at : until;
    size_t n_commits = 0;
    bool over = false;

    for (size_t i = 0; i < n; i++) {
        over = begin_request(term, requests[i], deadline) || over;
        n_commits += requests[i]->n_commits;
    }
    if (n_commits)
        over = commit_together(term, requests, n, n_commits, deadline) || over;
    for (size_t i = 0; i < n; i++)
        tn_state_batch_free(requests[i]);
    return over;
}
