/* Requests to the API server, and what its answers mean. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "os/poll.h"
#include "os/secret.h"
#include "store/kube/kube.h"

#define ANSWER_MAX     (64u << 20) /* a page of the largest registers */
#define LINE_MAX_BYTES (16u << 20) /* news that may lie unread, at most */
#define URL_SIZE       2048
#define ALONE_MAX_S    30 /* no server is left alone for longer, whatever it says */

/* ---- Errors -------------------------------------------------------------- */

/*
 * By the code; a change that was answered so was certainly not carried out if
 * it is definite.  Anything else, 5xx above all, may still be.
 */
static const struct {
    long code;
    enum tenure_status status;
    bool definite;
    const char *words;
} meanings[] = {
    {400, TENURE_INVALID, true, "the request is refused"},
    {401, TENURE_DENIED, true, "the token or certificate is not accepted, or has expired"},
    {403, TENURE_DENIED, true, "the account lacks a right (see contrib/kubernetes/base/role.yaml)"},
    {404, TENURE_CONFIG, true, "not found"},
    {405, TENURE_CONFIG, true, "this is not the API server of Kubernetes"},
    {413, TENURE_INVALID, true, "too large for the server"},
    {422, TENURE_INVALID, true, "the server does not accept such a Lease"},
    {429, TENURE_UNAVAILABLE, true, "the server has too many requests and asks to wait"},
};

static enum tenure_status explain(const struct tn_kube *h, long code, const json_t *root,
                                  bool *definite, struct tenure_error *err)
{
    const char *says = json_string_value(json_object_get(root, "message"));
    enum tenure_status status = TENURE_UNAVAILABLE;
    const char *words = "the server has trouble";

    *definite = false;
    for (size_t i = 0; i < sizeof meanings / sizeof meanings[0]; i++) {
        if (meanings[i].code == code) {
            status = meanings[i].status;
            *definite = meanings[i].definite;
            words = meanings[i].words;
        }
    }
    return tenure_fail(err, status, "kube: %s: %s (HTTP %ld)%s%.200s", h->access.server, words,
                       code, says ? ": " : "", says ? says : "");
}

/* A 404 is absence only if the server of that resource says it of that object. */
static bool no_such_lease(const json_t *root, const char *name)
{
    const json_t *details = json_object_get(root, "details");
    const char *reason = json_string_value(json_object_get(root, "reason"));
    const char *kind = json_string_value(json_object_get(details, "kind"));
    const char *whose = json_string_value(json_object_get(details, "name"));

    return reason && kind && whose && name && strcmp(reason, "NotFound") == 0 &&
           strcmp(kind, "leases") == 0 && strcmp(whose, name) == 0;
}

static bool has_reason(const json_t *root, const char *one, const char *other)
{
    const char *reason = json_string_value(json_object_get(root, "reason"));

    return reason && (strcmp(reason, one) == 0 || strcmp(reason, other) == 0);
}

/* ---- Requests ------------------------------------------------------------ */

static bool compose_url(const struct tn_kube *h, const char *resource, const char *name,
                        const char *query, char url[URL_SIZE])
{
    int n = snprintf(url, URL_SIZE, "%s/%s/namespaces/%s/%s%s%s%s%s", h->access.server,
                     resource ? "api/v1" : "apis/coordination.k8s.io/v1", h->namespace,
                     resource ? resource : "leases", name ? "/" : "", name ? name : "",
                     query ? "?" : "", query ? query : "");

    return n > 0 && n < URL_SIZE;
}

/* The headers of every request; *who among them is the caller's to free. */
static enum tenure_status compose_headers(struct tn_kube *h, const char *method, int64_t deadline,
                                          const char *out[5], char **who, struct tenure_error *err)
{
    enum tenure_status status = tn_kube_access_header(&h->access, deadline, who, err);

    out[0] = "Accept: application/json";
    out[1] = strcmp(method, "PATCH") == 0 ? "Content-Type: application/json-patch+json"
                                          : "Content-Type: application/json";
    out[2] = "User-Agent: tenure";
    out[3] = status ? NULL : *who;
    out[4] = NULL;
    return status;
}

/* Retry-After: as long as it says, but of the time that a request has half is left for it.  Who
 * renews has no other time. */
static enum tenure_status leave_alone(struct tn_kube *h, int64_t deadline, struct tenure_error *err)
{
    struct pollfd cancel = {.fd = h->access.http.cancel_fd, .events = POLLIN};
    int64_t now = tenure_now(), until = now + (deadline - now) / 2;

    if (h->not_before_ns < until)
        until = h->not_before_ns;
    if (until > now && tn_poll(&cancel, 1, until) > 0)
        return tenure_fail(err, TENURE_CANCELLED, "cancelled by the caller");
    return TENURE_OK;
}

/* What it says about that in an answer that is no success. */
static void be_told(struct tn_kube *h, long seconds)
{
    if (seconds > ALONE_MAX_S)
        seconds = ALONE_MAX_S;
    h->not_before_ns = seconds ? tenure_now() + seconds * INT64_C(1000000000) : 0;
}

static enum tenure_status send_once(struct tn_kube *h, const struct tn_kube_request *rq,
                                    const char *body, int64_t deadline,
                                    struct tn_http_answer *answer, struct tenure_error *err)
{
    char url[URL_SIZE], *who = NULL;
    const char *headers[5];
    const struct tn_http_request http = {.method = rq->method,
                                         .url = url,
                                         .headers = headers,
                                         .body = body,
                                         .len = body ? strlen(body) : 0,
                                         .answer_max = ANSWER_MAX,
                                         .connect_by = deadline,
                                         .once = rq->change};
    enum tenure_status status;

    memset(answer, 0, sizeof *answer);
    if (!compose_url(h, rq->resource, rq->name, rq->query, url))
        return tenure_fail(err, TENURE_CONFIG, "kube: the address of the server is too long");
    status = leave_alone(h, deadline, err);
    if (!status)
        status = compose_headers(h, rq->method, deadline, headers, &who, err);
    if (status)
        return status;
    status = tn_http_call(h->http, &http, deadline, answer, err);
    tn_secret_free(who);
    h->unanswered += status && status != TENURE_CANCELLED;
    if (status && status != TENURE_CANCELLED)
        tenure_fail_context(err, "kube: %s", h->access.server);
    return status;
}

static enum tenure_status digest(struct tn_kube *h, const struct tn_kube_request *rq,
                                 const struct tn_http_answer *http, struct tn_kube_answer *answer,
                                 struct tenure_error *err)
{
    json_t *root = json_loadb(http->body, http->len, 0, NULL);
    bool good = http->code == 200 || http->code == 201, definite = false;
    enum tenure_status status = TENURE_OK;

    answer->code = http->code;
    be_told(h, good ? 0 : http->retry_after);
    if (good && !json_is_object(root)) {
        status = tenure_fail(err, TENURE_UNAVAILABLE, "kube: %s: the answer cannot be understood",
                             h->access.server);
    } else if (good) {
        answer->root = json_incref(root);
    } else if (http->code == 404 && no_such_lease(root, rq->name)) {
        definite = true;
    } else if ((http->code == 409 && has_reason(root, "Conflict", "AlreadyExists")) ||
               (http->code == 410 && has_reason(root, "Expired", "Gone"))) {
        definite = true;
    } else {
        status = explain(h, http->code, root, &definite, err);
    }
    answer->lost = status && rq->change && !definite;
    json_decref(root);
    return status;
}

static enum tenure_status try(struct tn_kube *h, const struct tn_kube_request *rq, const char *body,
                              int64_t deadline, struct tn_kube_answer *answer,
                              struct tenure_error *err)
{
    struct tn_http_answer http;
    enum tenure_status status = send_once(h, rq, body, deadline, &http, err);

    memset(answer, 0, sizeof *answer);
    if (status) {
        answer->lost = rq->change && http.sent;
        return status;
    }
    status = digest(h, rq, &http, answer, err);
    free(http.body);
    return status;
}

enum tenure_status tn_kube_call(struct tn_kube *h, const struct tn_kube_request *rq,
                                int64_t deadline, struct tn_kube_answer *answer,
                                struct tenure_error *err)
{
    char *body = rq->body ? json_dumps(rq->body, JSON_COMPACT) : NULL;
    enum tenure_status status;

    memset(answer, 0, sizeof *answer);
    if (rq->body && !body)
        return tenure_fail(err, TENURE_NOMEM, "kube: out of memory for a request");
    status = try(h, rq, body, deadline, answer, err);
    /* Refused at the door, nothing was done: perhaps the token has just been rotated. */
    if (status && answer->code == 401 && tn_kube_access_refused(&h->access))
        status = try(h, rq, body, deadline, answer, err);
    free(body);
    return status;
}

/* ---- News ---------------------------------------------------------------- */

static enum tenure_status follow_once(struct tn_kube *h, const char *name, const char *rv,
                                      int64_t deadline, struct tn_http_stream **stream, long *code,
                                      struct tenure_error *err)
{
    char url[URL_SIZE], query[512], *who = NULL;
    const char *headers[5];
    const struct tn_http_request http = {.method = "GET",
                                         .url = url,
                                         .headers = headers,
                                         .answer_max = LINE_MAX_BYTES,
                                         .connect_by = deadline};
    enum tenure_status status = leave_alone(h, deadline, err);

    if (!status)
        status = compose_headers(h, "GET", deadline, headers, &who, err);
    if (status)
        return status;
    /* "%3D" is '=', "%2F" is '/'. */
    snprintf(query, sizeof query, "watch=1&allowWatchBookmarks=true%s%s&%s%s",
             rv ? "&resourceVersion=" : "", rv ? rv : "",
             name ? "fieldSelector=metadata.name%3D" : "labelSelector=tenure%2Fscope%3D",
             name ? name : h->scope);
    status = compose_url(h, NULL, NULL, query, url)
                 ? tn_http_stream_join(h->http, &http, deadline, stream, code, err)
                 : tenure_fail(err, TENURE_CONFIG, "kube: the address of the server is too long");
    tn_secret_free(who);
    if (status && status != TENURE_CANCELLED)
        tenure_fail_context(err, "kube: %s", h->access.server);
    return status;
}

enum tenure_status tn_kube_follow(struct tn_kube *h, const char *name, const char *rv,
                                  int64_t deadline, struct tn_http_stream **stream, long *code,
                                  struct tenure_error *err)
{
    struct tn_http_stream *s = NULL;
    enum tenure_status status = follow_once(h, name, rv, deadline, &s, code, err);

    if (!status && *code == 401 && tn_kube_access_refused(&h->access)) {
        tn_http_stream_close(s);
        s = NULL;
        status = follow_once(h, name, rv, deadline, &s, code, err);
    }
    if (!status && *code != 200 && *code != 410) {
        char *line = NULL;
        bool definite;

        be_told(h, tn_http_stream_retry_after(s));
        status = tn_http_stream_line(s, deadline, &line, err);
        json_t *root = status ? NULL : json_loads(line, 0, NULL);
        status = explain(h, *code, root, &definite, err);
        json_decref(root);
    }
    if (status)
        tn_http_stream_close(s);
    else
        *stream = s;
    return status;
}
