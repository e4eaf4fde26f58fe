/*
 * News of changes: one stream of watches, kept over several waits (store/watcher.h).
 *
 * A watch begins "now", is confirmed, and then the registers are compared (C6).
 * Beginning at the revision last seen would save the comparison, but after a
 * restore revisions go back, and such a watch would sleep through the changes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/etcd/news.h"

#define LINE_MAX_BYTES (8u << 20) /* what may lie unread, at most */
#define LINES_MAX      256        /* ... taken in at once: then the time is looked at */
/* A stream that was silent for so long is not believed without a comparison: nothing happened, or
 * the member hangs and its kernel keeps the connection. */
#define SILENCE_NS     INT64_C(30000000000)

struct tn_etcd_news {
    struct tn_http_stream *stream;
    bool open;        /* its head has come */
    unsigned watches; /* that it consists of: the first ones that are followed */
    unsigned confirmed;
    int64_t heard_ns; /* when it last said something */
};

static void unsubscribe(struct tn_watcher *w, struct tn_followed *one)
{
    struct tn_etcd *h = w->impl;

    if (one || !h->news)
        return;
    tn_http_stream_close(h->news->stream);
    free(h->news);
    h->news = NULL;
}

/* ---- Messages ------------------------------------------------------------ */

static void take_event(struct tn_etcd *h, const json_t *event)
{
    struct tn_etcd_pair pair;
    struct tenure_token token;

    if (!tn_etcd_pair(h, json_object_get(event, "kv"), &pair))
        return; /* somebody else's key */
    /* A deletion has no value: not clear, and so a change.  A nonce comes with its register. */
    bool clear = pair.data && tn_etcd_token(&pair, &token);
    if (pair.nonce)
        tn_watcher_event_under(&h->watcher, pair.key);
    else
        tn_watcher_event(&h->watcher, pair.key, clear ? &token : NULL);
    free(pair.data);
}

/* Watches are confirmed in the order in which they were asked for. */
static void confirm_next(struct tn_etcd *h)
{
    if (h->news->confirmed < h->news->watches)
        tn_watcher_confirm(&h->watcher.followed[h->news->confirmed++]);
}

/* Why a stream or a watch ended.  With a fresh login it may work again. */
static enum tenure_status explain_end(struct tn_etcd *h, const char *why, struct tenure_error *err)
{
    bool definite, token;
    enum tenure_status status =
        tn_etcd_explain_text(why ? why : "compacted", &definite, &token, err);

    if (token) {
        tn_etcd_forget_token(h);
        status = TENURE_UNAVAILABLE;
    }
    tenure_fail_context(err, "etcd: the watch was ended");
    return status;
}

/* One line of the stream.  Unless OK, it is of no more use. */
static enum tenure_status take_line(struct tn_etcd *h, const char *line, struct tenure_error *err)
{
    json_t *root = json_loads(line, 0, NULL);
    const json_t *result = json_object_get(root, "result"), *event;
    enum tenure_status status = TENURE_OK;
    size_t i;

    if (!result) {
        /* {"error": {"grpc_code": ..., "message": ...}} */
        const json_t *error = json_object_get(root, "error");

        status = explain_end(h, json_string_value(json_object_get(error, "message")), err);
    } else if (json_is_true(json_object_get(result, "canceled"))) {
        status = explain_end(h, json_string_value(json_object_get(result, "cancel_reason")), err);
    } else {
        if (json_is_true(json_object_get(result, "created")))
            confirm_next(h);
        json_array_foreach(json_object_get(result, "events"), i, event)
        {
            take_event(h, event);
        }
    }
    json_decref(root);
    return status;
}

/* Take in what is there, or (until is not 0) wait for something to be there. */
static enum tenure_status next(struct tn_watcher *w, int64_t until, struct tenure_error *err)
{
    struct tn_etcd *h = w->impl;
    char *line;
    enum tenure_status status = tn_http_stream_line(h->news->stream, until, &line, err);

    for (unsigned n = 0; !status; n++) {
        h->news->heard_ns = tenure_now();
        tn_watcher_heard(w, NULL);
        status = take_line(h, line, err);
        if (status || n == LINES_MAX)
            return status;
        status = tn_http_stream_line(h->news->stream, 0, &line, err);
        if (status == TENURE_TIMEOUT)
            return TENURE_OK;
    }
    return status;
}

/* ---- Subscribing --------------------------------------------------------- */

static json_t *create_request(struct tn_etcd *h, const struct tn_followed *one)
{
    if (one->prefix)
        return json_pack("{s:{s:o, s:o}}", "create_request", "key", tn_etcd_key(h, one->key, ""),
                         "range_end", tn_etcd_key(h, one->key, "\x7f"));
    return json_pack("{s:{s:o}}", "create_request", "key", tn_etcd_key(h, one->key, ""));
}

/* All requests one behind the other: the gateway reads them as a stream. */
static char *compose_requests(struct tn_etcd *h)
{
    char *all = calloc(1, 1);
    size_t len = 0;

    for (unsigned i = 0; all && i < h->watcher.n_followed; i++) {
        json_t *request = create_request(h, &h->watcher.followed[i]);
        char *text = request ? json_dumps(request, JSON_COMPACT) : NULL;
        char *longer = text ? realloc(all, len + strlen(text) + 1) : NULL;

        if (longer) {
            all = longer;
            strcpy(all + len, text);
            len += strlen(text);
        } else {
            free(all);
            all = NULL;
        }
        free(text);
        json_decref(request);
    }
    return all;
}

static enum tenure_status explain_refusal(struct tn_etcd *h, long code, int64_t deadline,
                                          struct tenure_error *err)
{
    char *line = NULL;
    bool definite, token;
    enum tenure_status status = tn_http_stream_line(h->news->stream, deadline, &line, err);

    if (status && status != TENURE_UNAVAILABLE)
        return status;
    status = tn_etcd_explain(code, line ? line : "", &definite, &token, err);
    if (token) {
        tn_etcd_forget_token(h);
        status = TENURE_UNAVAILABLE; /* with a fresh one it may work */
    }
    return status;
}

static enum tenure_status begin_stream(struct tn_etcd *h, struct tenure_error *err)
{
    char url[400], *body = compose_requests(h);
    const char *headers[3];
    const struct tn_http_request rq = {.method = "POST",
                                       .url = url,
                                       .headers = headers,
                                       .body = body,
                                       .len = body ? strlen(body) : 0,
                                       .answer_max = LINE_MAX_BYTES};

    snprintf(url, sizeof url, "%s/v3/watch", h->conf.hosts[h->at]);
    tn_etcd_headers(h, headers);
    if (body)
        h->news->stream = tn_http_stream_begin(&h->conf.http, &rq);
    free(body);
    return h->news->stream ? TENURE_OK : tenure_fail(err, TENURE_NOMEM, "etcd: out of memory");
}

static enum tenure_status open_stream(struct tn_etcd *h, int64_t deadline, struct tenure_error *err)
{
    long code = 0;
    enum tenure_status status = tn_http_stream_head(h->news->stream, deadline, &code, err);

    if (!status && code != 200)
        status = explain_refusal(h, code, deadline, err);
    if (status && status != TENURE_CANCELLED)
        tenure_fail_context(err, "etcd: %s", h->conf.hosts[h->at]);
    h->news->open = !status;
    if (!status)
        h->news->heard_ns = tenure_now();
    return status;
}

static enum tenure_status begin_news(struct tn_etcd *h, int64_t by, struct tenure_error *err)
{
    enum tenure_status status = tn_etcd_login(h, by, err);

    if (status)
        return status;
    h->news = calloc(1, sizeof *h->news);
    if (!h->news)
        return tenure_fail(err, TENURE_NOMEM, "etcd: out of memory");
    h->news->heard_ns = tenure_now();
    h->news->watches = h->watcher.n_followed;
    return begin_stream(h, err);
}

/* A stream cannot be extended, and one that is not confirmed in time will not be. */
static bool is_of_use(const struct tn_etcd *h)
{
    return h->news && h->news->watches == h->watcher.n_followed &&
           (h->news->confirmed == h->news->watches ||
            tenure_now() - h->news->heard_ns < TN_WATCHER_CONFIRM_NS);
}

static enum tenure_status subscribe(struct tn_watcher *w, int64_t by, struct tenure_error *err)
{
    struct tn_etcd *h = w->impl;
    enum tenure_status status = TENURE_OK;

    if (!is_of_use(h)) {
        tn_watcher_drop(w);
        status = begin_news(h, by, err);
    }
    if (!status && !h->news->open)
        status = open_stream(h, by, err);
    while (!status && h->news->confirmed < h->news->watches) {
        status = tenure_now() < by ? next(w, by, err)
                                   : tenure_fail(err, TENURE_TIMEOUT,
                                                 "etcd: the watch was not confirmed in time");
    }
    return status;
}

/* A member may be down: the others are asked. */
static void next_server(struct tn_watcher *w)
{
    struct tn_etcd *h = w->impl;

    h->at = (h->at + 1) % h->conf.n_hosts;
}

static const struct tn_watcher_ops ops = {.subscribe = subscribe,
                                          .next = next,
                                          .compare = tn_etcd_compare,
                                          .unsubscribe = unsubscribe,
                                          .next_server = next_server};

void tn_etcd_watcher_init(struct tn_etcd *h)
{
    h->watcher = (struct tn_watcher){.ops = &ops,
                                     .impl = h,
                                     .scheme = "etcd",
                                     .cancel_fd = &h->conf.http.cancel_fd,
                                     .unanswered = &h->unanswered,
                                     .attempts = h->conf.n_hosts + 1,
                                     .share = true,
                                     .silence_ns = SILENCE_NS};
}
