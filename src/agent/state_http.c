#include "agent/state_http.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/timing.h"

/* A request ends by then, and before the term does. */
#define REQUEST_NS (5 * TN_S)

struct exchange {
    const struct tn_state_term *term;
    const struct tn_http_request *request;
    struct tn_http_reply *reply;
    char collection[TENURE_KEY_MAX + 1];
    const char *id; /* "": the collection itself */
    int64_t deadline;
};

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

static enum tenure_status get(struct exchange *x, struct tenure_error *err)
{
    static _Thread_local char epoch[24], seq[24];
    struct tenure_document d = {0};
    enum tenure_status status =
        tenure_state_load(x->term->state, x->collection, x->id, &d, x->deadline, err);

    if (status)
        return status;
    if (!d.exists) {
        tenure_document_free(&d);
        tn_http_answer_error(x->reply, 404, "not-found", "there is no such document");
        return TENURE_OK;
    }
    snprintf(epoch, sizeof epoch, "%" PRIu64, d.epoch);
    snprintf(seq, sizeof seq, "%" PRIu64, d.seq);
    x->reply->status = 200;
    x->reply->type = "application/octet-stream";
    x->reply->body = d.value.data; /* its owner is the server now */
    x->reply->len = d.value.len;
    x->reply->owned = d.value.data != NULL;
    x->reply->headers[0].name = "Tenure-Epoch";
    x->reply->headers[0].value = epoch;
    x->reply->headers[1].name = "Tenure-Seq";
    x->reply->headers[1].value = seq;
    x->reply->headers[2].name = "Tenure-Edited";
    x->reply->headers[2].value = d.edited ? "true" : "false";
    return TENURE_OK;
}

static enum tenure_status commit(struct exchange *x, bool remove, struct tenure_error *err)
{
    struct tenure_commit c = {.collection = x->collection,
                              .id = x->id,
                              .data = x->request->body ? x->request->body : (const void *)"",
                              .len = x->request->body_len,
                              .remove = remove};
    enum tenure_status status;

    if (!remove && c.len > TENURE_DATA_MAX - 4096) {
        tn_http_answer_error(x->reply, 413, "too-long", "a document may have 1,044,480 bytes");
        return TENURE_OK;
    }
    status = tenure_state_commit(x->term->state, &c, 1, x->deadline, err);
    if (status)
        return status;
    tn_http_answer_json(x->reply, 200, json_pack("{s:I}", "seq", (json_int_t)c.seq));
    if (x->term->committed)
        x->term->committed(x->term->arg, x->collection, x->id, c.seq);
    return status;
}

static enum tenure_status delete_one(struct exchange *x, struct tenure_error *err)
{
    struct tenure_document d = {0};
    enum tenure_status status =
        tenure_state_load(x->term->state, x->collection, x->id, &d, x->deadline, err);
    bool exists = d.exists;

    tenure_document_free(&d);
    if (status)
        return status;
    if (exists)
        return commit(x, true, err);
    tn_http_answer_error(x->reply, 404, "not-found", "there is no such document");
    return TENURE_OK;
}

static bool list_one(void *arg, const char *id, const struct tenure_document *d, const char *damage)
{
    json_t *o =
        json_pack("{s:s, s:I, s:I, s:I, s:b}", "id", id, "epoch", (json_int_t)d->epoch, "seq",
                  (json_int_t)d->seq, "bytes", (json_int_t)d->value.len, "edited", d->edited);

    if (o && damage)
        json_object_set_new(o, "damage", json_string(damage));
    return !o || json_array_append_new(arg, o) == 0; /* an id that is not UTF-8 is left out */
}

static enum tenure_status list(struct exchange *x, struct tenure_error *err)
{
    json_t *documents = json_array();
    enum tenure_status status =
        tenure_state_list(x->term->state, x->collection, list_one, documents, x->deadline, err);

    if (status)
        json_decref(documents);
    else
        tn_http_answer_json(x->reply, 200, json_pack("{s:o}", "documents", documents));
    return status;
}

/* ---- Which of them ------------------------------------------------------- */

static void leadership(struct exchange *x)
{
    const struct tn_state_term *t = x->term;

    tn_http_answer_json(x->reply, 200,
                        json_pack("{s:s, s:b, s:I, s:I}", "name", t->name, "leading",
                                  t->state && t->left_ns > 0, "epoch", (json_int_t)t->epoch,
                                  "left_ms", (json_int_t)(t->left_ns / TN_MS)));
}

/* "/v1/state/COLLECTION[/ID]" in its parts. */
static bool take_path(struct exchange *x)
{
    const char *rest = x->request->path + strlen("/v1/state/");
    size_t n = strcspn(rest, "/");

    if (n == 0 || n >= sizeof x->collection)
        return false;
    memcpy(x->collection, rest, n);
    x->collection[n] = '\0';
    x->id = rest[n] ? rest + n + 1 : "";
    return true;
}

/* The program may name the epoch that it works under; another one is not its own. */
static bool of_this_term(const struct exchange *x)
{
    const char *text = x->request->header(x->request, "Tenure-Epoch");
    char *end;

    return !text || (strtoull(text, &end, 10) == x->term->epoch && end != text && !*end);
}

static enum tenure_status dispatch(struct exchange *x, struct tenure_error *err)
{
    const char *method = x->request->method;

    if (!x->term->state || x->term->left_ns <= 0)
        return tenure_fail(err, TENURE_NOT_LEADER, "no term is in hand");
    if (!of_this_term(x)) { /* the asker's is over, not the one in hand */
        tn_http_answer_error(x->reply, 409, "fenced", "the term in hand has another epoch");
        return TENURE_OK;
    }
    if (!*x->id && strcmp(method, "GET") == 0)
        return list(x, err);
    if (strcmp(method, "GET") == 0 && *x->id)
        return get(x, err);
    if (strcmp(method, "PUT") == 0 && *x->id)
        return commit(x, false, err);
    if (strcmp(method, "DELETE") == 0 && *x->id)
        return delete_one(x, err);
    tn_http_answer_error(x->reply, 405, "method",
                         "GET, PUT and DELETE of a document, GET of a collection");
    return TENURE_OK;
}

bool tn_state_http(const struct tn_state_term *term, const struct tn_http_request *request,
                   struct tn_http_reply *reply)
{
    struct exchange x = {.term = term, .request = request, .reply = reply, .id = ""};
    struct tenure_error err = {0};
    enum tenure_status status = TENURE_OK;

    x.deadline = tenure_now() + (term->left_ns < REQUEST_NS ? term->left_ns : REQUEST_NS);
    if (!request->local) {
        tn_state_http_denied(reply);
    } else if (strcmp(request->path, "/v1/leadership") == 0) {
        if (strcmp(request->method, "GET") == 0)
            leadership(&x);
        else
            tn_http_answer_error(reply, 405, "method", "GET");
    } else if (strncmp(request->path, "/v1/state/", 10) == 0 && take_path(&x)) {
        status = dispatch(&x, &err);
        if (status)
            tn_http_answer_status(reply, status, err.text);
    } else {
        tn_http_answer_error(reply, 404, "not-found",
                             "see /v1/leadership and /v1/state/COLLECTION/ID");
    }
    return status == TENURE_FENCED;
}
