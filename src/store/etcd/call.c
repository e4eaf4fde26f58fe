/* Requests to etcd: endpoints, tokens, and what its errors mean. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/etcd/etcd.h"

#define ANSWER_MAX (96u << 20) /* a listing of 32 registers of the largest size, in base64 */

/* ---- Errors -------------------------------------------------------------- */

/*
 * By what the message holds; the first row that fits.  A change that failed
 * like that was certainly not carried out if it is definite: the server checked
 * before it proposed, or all members refused alike.  Anything else may still be
 * decided by the cluster.
 */
static const struct {
    const char *part;
    enum tenure_status status;
    bool definite, token;
    const char *words;
} messages[] = {
    {"invalid auth token", TENURE_DENIED, true, true, "the login has expired"},
    {"revision in header is old", TENURE_DENIED, true, true, "users or roles have just changed"},
    {"authentication failed", TENURE_DENIED, true, false, "the user name or the password is wrong"},
    {"user name is empty", TENURE_DENIED, true, false,
     "the server wants a user; use user= and password_file=, or user:password@ in the URL"},
    {"permission denied", TENURE_DENIED, true, false,
     "the user may not read and write all keys under the prefix; see "
     "docs/reference/stores/etcd.md"},
    {"CommonName of client sending a request against gateway", TENURE_DENIED, true, false,
     "the gateway does not take users from client certificates; use user= and password_file="},
    /* Not definite: the change that uses up the quota is carried out, and told as an error. */
    {"database space exceeded", TENURE_UNAVAILABLE, false, false,
     "the server's quota is used up and it refuses writes: compact, defragment, disarm the alarm"},
    {"too many requests", TENURE_UNAVAILABLE, true, false, "the server has too many requests"},
    {"too many operations", TENURE_UNSUPPORTED, true, false,
     "the server's --max-txn-ops is below its default of 128"},
    {"request is too large", TENURE_INVALID, true, false,
     "larger than the server's --max-request-bytes"},
    {"no leader", TENURE_UNAVAILABLE, true, false, "this member sees no leader (no majority?)"},
    {"corrupt", TENURE_UNAVAILABLE, false, false, "the server says that its data is corrupt"},
};

enum tenure_status tn_etcd_explain_text(const char *text, bool *definite, bool *token,
                                        struct tenure_error *err)
{
    *definite = *token = false;
    for (size_t i = 0; i < sizeof messages / sizeof messages[0]; i++) {
        if (!strstr(text, messages[i].part))
            continue;
        *definite = messages[i].definite;
        *token = messages[i].token;
        return tenure_fail(err, messages[i].status, "%s", messages[i].words);
    }
    return tenure_fail(err, TENURE_UNAVAILABLE, "the server says: %.200s", text);
}

enum tenure_status tn_etcd_explain(long code, const char *body, bool *definite, bool *token,
                                   struct tenure_error *err)
{
    json_t *root = json_loads(body, 0, NULL);
    const char *text = json_string_value(json_object_get(root, "message"));
    enum tenure_status status;

    if (!text)
        text = json_string_value(json_object_get(root, "error"));
    if (text) {
        status = tn_etcd_explain_text(text, definite, token, err);
    } else {
        *definite = code == 404;
        *token = false;
        status = code == 404
                     ? tenure_fail(err, TENURE_CONFIG,
                                   "this is not etcd 3.4 or later (HTTP 404); check host and port")
                     : tenure_fail(err, TENURE_UNAVAILABLE, "HTTP %ld", code);
    }
    json_decref(root);
    return status;
}

/* ---- Tokens -------------------------------------------------------------- */

void tn_etcd_forget_token(struct tn_etcd *h)
{
    tn_secret_free(h->token);
    h->token = NULL;
}

void tn_etcd_headers(const struct tn_etcd *h, const char *out[3])
{
    unsigned n = 0;

    /* A member without a leader says so at once, instead of after seconds. */
    out[n++] = "Grpc-Metadata-Hasleader: true";
    if (h->token)
        out[n++] = h->token;
    out[n] = NULL;
}

static enum tenure_status post(struct tn_etcd *h, const char *path, const char *body, bool change,
                               int64_t connect_by, int64_t deadline, struct tn_http_answer *answer,
                               struct tenure_error *err)
{
    const char *headers[3];
    char url[400];
    const struct tn_http_request rq = {.method = "POST",
                                       .url = url,
                                       .headers = headers,
                                       .body = body,
                                       .len = strlen(body),
                                       .answer_max = ANSWER_MAX,
                                       .connect_by = connect_by,
                                       .once = change};

    snprintf(url, sizeof url, "%s%s", h->conf.hosts[h->at], path);
    tn_etcd_headers(h, headers);
    enum tenure_status status = tn_http_call(h->http, &rq, deadline, answer, err);
    if (status && status != TENURE_CANCELLED)
        tenure_fail_context(err, "etcd: %s", h->conf.hosts[h->at]);
    return status;
}

static enum tenure_status take_token(struct tn_etcd *h, const char *body, struct tenure_error *err)
{
    json_t *root = json_loads(body, 0, NULL);
    const char *token = json_string_value(json_object_get(root, "token"));
    enum tenure_status status = TENURE_OK;

    if (!token || strpbrk(token, "\r\n"))
        status = tenure_fail(err, TENURE_UNAVAILABLE, "etcd: the login gave no token");
    else if (asprintf(&h->token, "Authorization: %s", token) < 0) {
        h->token = NULL;
        status = tenure_fail(err, TENURE_NOMEM, "etcd: out of memory");
    }
    json_decref(root);
    return status;
}

static enum tenure_status login_at(struct tn_etcd *h, const char *body, int64_t deadline,
                                   struct tenure_error *err)
{
    struct tn_http_answer answer;
    bool definite, token;
    enum tenure_status status =
        post(h, "/v3/auth/authenticate", body, false, deadline, deadline, &answer, err);

    if (status)
        return status;
    if (answer.code == 200)
        status = take_token(h, answer.body, err);
    else if (!strstr(answer.body, "authentication is not enabled")) {
        status = tn_etcd_explain(answer.code, answer.body, &definite, &token, err);
        tenure_fail_context(err, "etcd: %s", h->conf.hosts[h->at]);
    }
    free(answer.body);
    return status;
}

enum tenure_status tn_etcd_login(struct tn_etcd *h, int64_t deadline, struct tenure_error *err)
{
    enum tenure_status status;
    char *secret, *body;

    if (!h->conf.remote.user || h->token)
        return TENURE_OK;
    secret = tn_secret_load(&h->conf.remote.password, err);
    if (!secret)
        return err->code;
    json_t *request = json_pack("{s:s, s:s}", "name", h->conf.remote.user, "password", secret);
    body = request ? json_dumps(request, JSON_COMPACT) : NULL;
    status = body ? login_at(h, body, deadline, err)
                  : tenure_fail(err, TENURE_CONFIG, "etcd: user or password is not UTF-8");
    tn_secret_free(body);
    tn_secret_free(secret);
    json_decref(request);
    return status;
}

/* ---- Calls --------------------------------------------------------------- */

static enum tenure_status parse(struct tn_http_answer *answer, json_t **out,
                                struct tenure_error *err)
{
    json_error_t where;
    json_t *root = json_loads(answer->body, JSON_REJECT_DUPLICATES, &where);

    if (!root)
        return tenure_fail(err, TENURE_UNAVAILABLE, "etcd: the answer is not JSON: %s", where.text);
    if (!json_is_object(root)) {
        json_decref(root);
        return tenure_fail(err, TENURE_UNAVAILABLE, "etcd: the answer is no object");
    }
    *out = root;
    return TENURE_OK;
}

/*
 * A member that lost its data and was made again as a cluster of its own knows
 * nothing of any lease, and would let everybody lead who comes to it.  So the
 * cluster that answered first counts, until most endpoints say another one: that
 * is a restore, or a move.
 */
static bool is_our_cluster(struct tn_etcd *h, const json_t *answer)
{
    const char *id =
        json_string_value(json_object_get(json_object_get(answer, "header"), "cluster_id"));
    unsigned same = 0;

    if (!id || strlen(id) > TN_ETCD_ID)
        return true; /* not how etcd answers: told by who looks for what is missing */
    snprintf(h->clusters[h->at], sizeof h->clusters[0], "%s", id);
    for (unsigned i = 0; i < h->conf.n_hosts; i++)
        same += strcmp(h->clusters[i], id) == 0;
    if (!h->cluster[0] || 2 * same > h->conf.n_hosts)
        snprintf(h->cluster, sizeof h->cluster, "%s", id);
    return strcmp(h->cluster, id) == 0;
}

/* What one endpoint made of it. */
struct outcome {
    bool next;  /* another endpoint may do better, and nothing was done here */
    bool token; /* log in again, and ask again */
    bool lost;
};

static enum tenure_status send_request(struct tn_etcd *h, const char *path, const char *body,
                                       bool change, int64_t connect_by, int64_t deadline,
                                       json_t **out, struct outcome *o, struct tenure_error *err)
{
    struct tn_http_answer answer;
    bool definite = false;
    enum tenure_status status = tn_etcd_login(h, connect_by, err);

    memset(o, 0, sizeof *o);
    if (status) {
        o->next = status == TENURE_UNAVAILABLE || status == TENURE_TIMEOUT;
        return status;
    }
    status = post(h, path, body, change, connect_by, deadline, &answer, err);
    if (status) {
        h->unanswered += status != TENURE_CANCELLED;
        o->lost = change && answer.sent;
        o->next = !o->lost && (status == TENURE_UNAVAILABLE || status == TENURE_TIMEOUT);
        return status;
    }
    if (answer.code == 200) {
        status = parse(&answer, out, err);
        if (!status && !is_our_cluster(h, *out)) {
            json_decref(*out);
            *out = NULL;
            h->unanswered++; /* nor are its news ours */
            status = tenure_fail(err, TENURE_UNAVAILABLE,
                                 "etcd: %s belongs to another cluster than the endpoints used so "
                                 "far; was the cluster re-created?",
                                 h->conf.hosts[h->at]);
            o->next = !change;
        }
        o->lost = status && change;
    } else {
        status = tn_etcd_explain(answer.code, answer.body, &definite, &o->token, err);
        tenure_fail_context(err, "etcd: %s", h->conf.hosts[h->at]);
        h->unready = status == TENURE_UNAVAILABLE;
        o->lost = change && !definite;
        o->next = !o->lost && status == TENURE_UNAVAILABLE;
    }
    free(answer.body);
    return status;
}

static enum tenure_status try_all(struct tn_etcd *h, const char *path, const char *body,
                                  bool change, int64_t deadline, json_t **answer, bool *lost,
                                  struct tenure_error *err)
{
    enum tenure_status status = TENURE_OK;
    struct outcome o = {0};
    unsigned logins = 0;

    for (unsigned left = h->conf.n_hosts; left;) {
        int64_t now = tenure_now(), share = now + (deadline - now) / left;

        if (now >= deadline)
            return status ? status : tenure_fail(err, TENURE_TIMEOUT, "etcd: no time was left");
        /* A change that has left must be waited for; a read can be asked elsewhere. */
        status =
            send_request(h, path, body, change, share, change ? deadline : share, answer, &o, err);
        *lost = o.lost;
        if (!status)
            return status;
        if (o.token && logins++ < 2) {
            tn_etcd_forget_token(h);
            continue;
        }
        if (o.next || o.lost)
            h->at = (h->at + 1) % h->conf.n_hosts;
        if (!o.next)
            return status;
        left--;
    }
    return status;
}

enum tenure_status tn_etcd_call(struct tn_etcd *h, const char *path, json_t *request, bool change,
                                int64_t deadline, json_t **answer, bool *lost,
                                struct tenure_error *err)
{
    char *body = request ? json_dumps(request, JSON_COMPACT) : NULL;
    bool ignored;
    enum tenure_status status;

    if (lost)
        *lost = false;
    if (!body)
        return tenure_fail(err, TENURE_NOMEM, "etcd: out of memory for a request");
    status = try_all(h, path, body, change, deadline, answer, lost ? lost : &ignored, err);
    free(body);
    return status;
}
