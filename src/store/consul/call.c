/* Requests to Consul: agents, tokens, and what its errors mean. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/consul/consul.h"

#define ANSWER_MAX (96u << 20)
#define INDEX      "X-Consul-Index"
/* The agent adds up to a sixteenth, so that not everybody comes back at once. */
#define BLOCK      "20s"

/* ---- Errors -------------------------------------------------------------- */

static bool is_denied(const char *text)
{
    return strstr(text, "Permission denied") != NULL;
}

static enum tenure_status fail_denied(struct tenure_error *err)
{
    return tenure_fail(err, TENURE_DENIED,
                       "the token may not read and write all keys under the prefix; see "
                       "docs/reference/stores/consul.md");
}

/* What an answer means that is neither 200 nor a verdict.  *definite: nothing was carried out. */
static enum tenure_status explain(long code, const char *body, bool *definite,
                                  struct tenure_error *err)
{
    int n = (int)strcspn(body, "\r\n");

    *definite = code >= 400 && code < 500;
    if (is_denied(body))
        return fail_denied(err);
    switch (code) {
    case 401:
    case 403:
        if (strstr(body, "ACL not found"))
            return tenure_fail(err, TENURE_DENIED, "the server does not know the token");
        return tenure_fail(err, TENURE_DENIED, "the server refused the token (HTTP %ld)", code);
    case 404:
    case 405:
        return tenure_fail(err, TENURE_CONFIG,
                           "this is not Consul's HTTP API (HTTP %ld); check host and port", code);
    case 413:
        return tenure_fail(err, TENURE_INVALID, "larger than the server's txn_max_req_len");
    case 429:
        return tenure_fail(err, TENURE_UNAVAILABLE, "the server has too many requests");
    default:
        /* 500: no leader is known, or it was lost, perhaps behind the change. */
        return code >= 500 ? tenure_fail(err, TENURE_UNAVAILABLE, "the server says: %.*s",
                                         n < 200 ? n : 200, n ? body : "nothing")
                           : tenure_fail(err, TENURE_UNSUPPORTED, "HTTP %ld: %.*s", code,
                                         n < 200 ? n : 200, body);
    }
}

/* ---- One agent ----------------------------------------------------------- */

struct headers {
    char *token;
    const char *all[3];
};

static enum tenure_status make_headers(const struct tn_consul *h, struct headers *to,
                                       struct tenure_error *err)
{
    char *secret = tn_secret_load(&h->conf.token, err);
    enum tenure_status status = TENURE_OK;
    unsigned n = 0;

    memset(to, 0, sizeof *to);
    if (!secret)
        return err->code;
    if (strpbrk(secret, "\r\n"))
        status = tenure_fail(err, TENURE_CONFIG, "consul: the token has a line break in it");
    else if (*secret && asprintf(&to->token, "X-Consul-Token: %s", secret) < 0) {
        to->token = NULL;
        status = tenure_fail(err, TENURE_NOMEM, "consul: out of memory");
    }
    tn_secret_free(secret);
    to->all[n++] = "Content-Type: application/json";
    if (to->token)
        to->all[n++] = to->token;
    return status;
}

/* What to ask: a transaction, or names. */
struct question {
    const char *method, *path;
    const char *body; /* or NULL */
    bool change;
};

struct outcome {
    bool next; /* another agent may do better, and nothing was done here */
    bool lost;
};

static enum tenure_status post(struct tn_consul *h, const struct question *q, int64_t connect_by,
                               int64_t deadline, struct tn_http_answer *answer,
                               struct tenure_error *err)
{
    char url[TN_REMOTE_ORIGIN + TN_CONSUL_NAME_MAX + 100];
    struct headers headers;
    const struct tn_http_request rq = {.method = q->method,
                                       .url = url,
                                       .headers = headers.all,
                                       .body = q->body,
                                       .len = q->body ? strlen(q->body) : 0,
                                       .answer_max = ANSWER_MAX,
                                       .connect_by = connect_by,
                                       .once = q->change,
                                       .header = INDEX};
    enum tenure_status status = make_headers(h, &headers, err);

    memset(answer, 0, sizeof *answer);
    snprintf(url, sizeof url, "%s%s", h->conf.hosts[h->at], q->path);
    if (!status)
        status = tn_http_call(h->http, &rq, deadline, answer, err);
    tn_secret_free(headers.token);
    return status;
}

/* 200, and 404 and 409 where they are answers, are OK here. */
static enum tenure_status send_request(struct tn_consul *h, const struct question *q,
                                       int64_t connect_by, int64_t deadline,
                                       struct tn_http_answer *answer, struct outcome *o,
                                       struct tenure_error *err)
{
    bool definite = false;
    enum tenure_status status = post(h, q, connect_by, deadline, answer, err);

    memset(o, 0, sizeof *o);
    if (status) {
        h->unanswered += status != TENURE_CANCELLED;
        o->lost = q->change && answer->sent;
        o->next = !o->lost && (status == TENURE_UNAVAILABLE || status == TENURE_TIMEOUT);
    } else if (answer->code == 200 || (q->body && answer->code == 409) ||
               (!q->body && answer->code == 404 && answer->header[0])) {
        return TENURE_OK;
    } else {
        status = explain(answer->code, answer->body, &definite, err);
        h->unready = status == TENURE_UNAVAILABLE;
        o->lost = q->change && !definite;
        o->next = !o->lost && status == TENURE_UNAVAILABLE;
        free(answer->body);
        answer->body = NULL;
    }
    if (status != TENURE_CANCELLED)
        tenure_fail_context(err, "consul: %s", h->conf.hosts[h->at]);
    return status;
}

static enum tenure_status ask_all(struct tn_consul *h, const struct question *q, int64_t deadline,
                                  struct tn_http_answer *answer, bool *lost,
                                  struct tenure_error *err)
{
    enum tenure_status status = TENURE_OK;
    struct outcome o = {0};

    *lost = false;
    for (unsigned left = h->conf.n_hosts; left; left--) {
        int64_t now = tenure_now(), share = now + (deadline - now) / left;

        if (now >= deadline)
            return status ? status : tenure_fail(err, TENURE_TIMEOUT, "consul: no time was left");
        /* A change that has left must be waited for; a read can be asked elsewhere. */
        status = send_request(h, q, share, q->change ? deadline : share, answer, &o, err);
        *lost = o.lost;
        if (!status)
            return status;
        if (o.next || o.lost)
            h->at = (h->at + 1) % h->conf.n_hosts;
        if (!o.next)
            return status;
    }
    return status;
}

/* ---- Transactions -------------------------------------------------------- */

static enum tenure_status find_denial(const json_t *answer, struct tenure_error *err)
{
    const json_t *one;
    size_t i;

    json_array_foreach(json_object_get(answer, "Errors"), i, one)
    {
        const char *what = json_string_value(json_object_get(one, "What"));

        if (what && is_denied(what))
            return fail_denied(err);
    }
    return TENURE_OK;
}

static enum tenure_status take_verdict(const struct tn_http_answer *answer, bool change,
                                       struct tn_consul_verdict *v, struct tenure_error *err)
{
    json_t *root = json_loads(answer->body, JSON_REJECT_DUPLICATES, NULL);
    const json_t *list = json_object_get(root, answer->code == 409 ? "Errors" : "Results");
    enum tenure_status status = TENURE_OK;

    if (!json_is_array(list) || (answer->code == 409 && !json_array_size(list))) {
        v->lost = change;
        status = tenure_fail(err, TENURE_UNAVAILABLE, "the answer is not one of Consul's");
    } else if (answer->code == 409) {
        status = find_denial(root, err);
        v->refused = !status;
    }
    if (status)
        json_decref(root);
    else
        v->answer = root;
    return status;
}

enum tenure_status tn_consul_txn(struct tn_consul *h, json_t *ops, bool change, int64_t deadline,
                                 struct tn_consul_verdict *v, struct tenure_error *err)
{
    char *body = ops ? json_dumps(ops, JSON_COMPACT) : NULL;
    const struct question q = {"PUT", change ? "/v1/txn" : "/v1/txn?consistent", body, change};
    struct tn_http_answer answer = {0};
    enum tenure_status status;

    memset(v, 0, sizeof *v);
    json_decref(ops);
    if (!body)
        return tenure_fail(err, TENURE_NOMEM, "consul: out of memory for a request");
    status = ask_all(h, &q, deadline, &answer, &v->lost, err);
    if (!status) {
        status = take_verdict(&answer, change, v, err);
        if (status)
            tenure_fail_context(err, "consul: %s", h->conf.hosts[h->at]);
    }
    free(answer.body);
    free(body);
    return status;
}

/* ---- Names --------------------------------------------------------------- */

static enum tenure_status take_names(long code, const char *index_text, const char *body,
                                     json_t **names, unsigned long long *index,
                                     struct tenure_error *err)
{
    json_t *root = code == 404 ? json_array() : json_loads(body, 0, NULL);
    const json_t *one;
    size_t i;
    bool sound = json_is_array(root) && tn_consul_is_index(index_text);

    json_array_foreach(root, i, one)
    {
        sound = sound && json_is_string(one);
    }
    if (!sound) {
        json_decref(root);
        return tenure_fail(err, TENURE_UNAVAILABLE, "the answer is not one of Consul's");
    }
    *names = root;
    *index = strtoull(index_text, NULL, 10);
    return TENURE_OK;
}

/* Of the characters of a name only '#' needs an escape. */
static void names_path(const char *name, char *out, size_t size)
{
    size_t n = strcspn(name, "#");

    snprintf(out, size, "/v1/kv/%.*s%s?keys&consistent", (int)n, name, name[n] ? "%23" : "");
}

enum tenure_status tn_consul_names(struct tn_consul *h, const char *name, int64_t deadline,
                                   json_t **names, unsigned long long *index,
                                   struct tenure_error *err)
{
    char path[TN_CONSUL_NAME_MAX + 60];
    const struct question q = {"GET", path, NULL, false};
    struct tn_http_answer answer = {0};
    bool lost;
    enum tenure_status status;

    names_path(name, path, sizeof path);
    status = ask_all(h, &q, deadline, &answer, &lost, err);
    if (!status) {
        status = take_names(answer.code, answer.header, answer.body, names, index, err);
        if (status)
            tenure_fail_context(err, "consul: %s", h->conf.hosts[h->at]);
    }
    free(answer.body);
    return status;
}

enum tenure_status tn_consul_block(struct tn_consul *h, const char *name, unsigned long long index,
                                   bool fresh, struct tn_http_stream **stream,
                                   struct tenure_error *err)
{
    char path[TN_CONSUL_NAME_MAX + 60], url[TN_REMOTE_ORIGIN + TN_CONSUL_NAME_MAX + 100];
    struct headers headers;
    const struct tn_http_request rq = {.method = "GET",
                                       .url = url,
                                       .headers = headers.all,
                                       .answer_max = ANSWER_MAX,
                                       .fresh = fresh};
    enum tenure_status status = make_headers(h, &headers, err);

    if (status)
        return status;
    names_path(name, path, sizeof path);
    snprintf(url, sizeof url, "%s%s&wait=" BLOCK "&index=%llu", h->conf.hosts[h->at], path, index);
    *stream = tn_http_stream_add(h->http, &rq);
    tn_secret_free(headers.token);
    return *stream ? TENURE_OK : tenure_fail(err, TENURE_NOMEM, "consul: out of memory");
}

enum tenure_status tn_consul_unblock(struct tn_consul *h, struct tn_http_stream *stream,
                                     json_t **names, unsigned long long *index,
                                     struct tenure_error *err)
{
    char text[TN_HTTP_HEADER_MAX + 1], *body = NULL;
    bool definite;
    long code = 0;
    enum tenure_status status = tn_http_stream_head(stream, 0, &code, err);

    if (status)
        return status;
    tn_http_stream_header(stream, INDEX, text);
    if (tn_http_stream_line(stream, 0, &body, err))
        body = NULL; /* a 404 has none */
    if (code == 200 || (code == 404 && text[0]))
        status = take_names(code, text, body ? body : "", names, index, err);
    else
        status = explain(code, body ? body : "", &definite, err);
    return status ? tenure_fail_context(err, "consul: %s", h->conf.hosts[h->at]) : TENURE_OK;
}
