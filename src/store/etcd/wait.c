/*
 * News of changes: one stream of watches, kept over several waits.
 *
 * A watch begins "now", is confirmed, and then the registers are compared (C6).
 * Beginning at the revision last seen would save the comparison, but after a
 * restore revisions go back, and such a watch would sleep through the changes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "os/poll.h"
#include "store/etcd/etcd.h"
#include "store/etcd/news.h"

#define LINE_MAX_BYTES (8u << 20) /* what may lie unread, at most */
#define SHARE_MIN_NS   1000000000
#define CONFIRM_NS     2000000000 /* a watch that is not confirmed by then will not be */
#define LINES_MAX      256        /* ... taken in at once: then the time is looked at */

void tn_etcd_news_drop(struct tn_etcd *h)
{
    if (!h->news)
        return;
    tn_http_stream_close(h->news->stream);
    free(h->news);
    h->news = NULL;
}

struct tn_etcd_target *tn_etcd_find(struct tn_etcd *h, const char *key, bool prefix)
{
    for (unsigned i = 0; h->news && i < h->news->n; i++) {
        struct tn_etcd_target *t = &h->news->targets[i];

        if (t->prefix == prefix && strcmp(t->key, key) == 0)
            return t;
    }
    return NULL;
}

void tn_etcd_news_learn(struct tn_etcd *h, const char *key, const struct tenure_token *token)
{
    struct tn_etcd_target *t = tn_etcd_find(h, key, false);

    /* Before the watch is confirmed, changes that follow would go unnoticed. */
    if (t && h->news->confirmed >= h->news->n) {
        t->known = true;
        t->token = *token;
    }
}

/* ---- Messages ------------------------------------------------------------ */

static void note(struct tn_etcd *h, struct tn_etcd_waiting *w, const json_t *event)
{
    struct tn_etcd_pair pair;
    struct tenure_token token;

    if (!tn_etcd_pair(h, json_object_get(event, "kv"), &pair))
        return; /* somebody else's key */
    /* A deletion has no value: not clear, and so a change. */
    bool clear = pair.data && tn_etcd_token(&pair, &token);
    struct tn_etcd_target *t = pair.nonce ? NULL : tn_etcd_find(h, pair.key, false);
    if (t) {
        t->known = clear;
        if (clear)
            t->token = token;
    }
    for (size_t i = 0; w->asked && i < w->n; i++) {
        const struct tenure_watch *watch = &w->watches[i];

        if (watch->prefix ? strncmp(pair.key, watch->key, strlen(watch->key)) == 0
                          : !pair.nonce && strcmp(pair.key, watch->key) == 0 &&
                                !(clear && tenure_token_equal(&token, &watch->seen)))
            w->news = true;
    }
    free(pair.data);
}

/* Why a stream or a watch ended.  With a fresh login it may work again. */
static enum tenure_status ended(struct tn_etcd *h, const char *why, struct tenure_error *err)
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
static enum tenure_status digest(struct tn_etcd *h, struct tn_etcd_waiting *w, const char *line,
                                 struct tenure_error *err)
{
    json_t *root = json_loads(line, 0, NULL);
    const json_t *result = json_object_get(root, "result"), *event;
    enum tenure_status status = TENURE_OK;
    size_t i;

    if (!result) {
        /* {"error": {"grpc_code": ..., "message": ...}} */
        const json_t *error = json_object_get(root, "error");

        status = ended(h, json_string_value(json_object_get(error, "message")), err);
    } else if (json_is_true(json_object_get(result, "canceled"))) {
        status = ended(h, json_string_value(json_object_get(result, "cancel_reason")), err);
    } else {
        h->news->confirmed += json_is_true(json_object_get(result, "created"));
        json_array_foreach(json_object_get(result, "events"), i, event)
        {
            note(h, w, event);
        }
    }
    json_decref(root);
    return status;
}

/* Take in what is there, or (until is not 0) wait for something to be there. */
static enum tenure_status listen_until(struct tn_etcd *h, struct tn_etcd_waiting *w, int64_t until,
                                       struct tenure_error *err)
{
    char *line;
    enum tenure_status status = tn_http_stream_line(h->news->stream, until, &line, err);

    for (unsigned n = 0; !status; n++) {
        h->news->heard_ns = tenure_now();
        status = digest(h, w, line, err);
        if (status || n == LINES_MAX)
            return status;
        status = tn_http_stream_line(h->news->stream, 0, &line, err);
        if (status == TENURE_TIMEOUT)
            return TENURE_OK;
    }
    return status;
}

/* ---- Subscribing --------------------------------------------------------- */

static json_t *create_request(struct tn_etcd *h, const struct tenure_watch *watch)
{
    if (watch->prefix)
        return json_pack("{s:{s:o, s:o}}", "create_request", "key", tn_etcd_key(h, watch->key, ""),
                         "range_end", tn_etcd_key(h, watch->key, "\x7f"));
    return json_pack("{s:{s:o}}", "create_request", "key", tn_etcd_key(h, watch->key, ""));
}

/* All requests one behind the other: the gateway reads them as a stream. */
static char *compose_requests(struct tn_etcd *h, const struct tn_etcd_waiting *w)
{
    char *all = calloc(1, 1);
    size_t len = 0;

    for (size_t i = 0; all && i < w->n; i++) {
        json_t *request = create_request(h, &w->watches[i]);
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

static enum tenure_status refuse(struct tn_etcd *h, long code, int64_t deadline,
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

static enum tenure_status begin_stream(struct tn_etcd *h, const struct tn_etcd_waiting *w,
                                       struct tenure_error *err)
{
    char url[400], *body = compose_requests(h, w);
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
        status = refuse(h, code, deadline, err);
    if (status && status != TENURE_CANCELLED)
        tenure_fail_context(err, "etcd: %s", h->conf.hosts[h->at]);
    h->news->open = !status;
    if (!status)
        h->news->heard_ns = tenure_now();
    return status;
}

static enum tenure_status begin_news(struct tn_etcd *h, struct tn_etcd_waiting *w, int64_t deadline,
                                     struct tenure_error *err)
{
    enum tenure_status status = tn_etcd_login(h, deadline, err);

    if (status)
        return status;
    h->news = calloc(1, sizeof *h->news);
    if (!h->news)
        return tenure_fail(err, TENURE_NOMEM, "etcd: out of memory");
    h->news->unanswered = h->unanswered;
    h->news->heard_ns = tenure_now();
    for (size_t i = 0; i < w->n; i++) {
        struct tn_etcd_target *t = &h->news->targets[h->news->n++];

        snprintf(t->key, sizeof t->key, "%s", w->watches[i].key);
        t->prefix = w->watches[i].prefix;
    }
    return begin_stream(h, w, err);
}

/* Go on until all watches are confirmed; a wait that ends before leaves the rest to the next. */
static enum tenure_status subscribe(struct tn_etcd *h, struct tn_etcd_waiting *w, int64_t deadline,
                                    struct tenure_error *err)
{
    enum tenure_status status = h->news->open ? TENURE_OK : open_stream(h, deadline, err);

    while (!status && h->news->confirmed < h->news->n) {
        status = tenure_now() < deadline ? listen_until(h, w, deadline, err)
                                         : tenure_fail(err, TENURE_TIMEOUT,
                                                       "etcd: the watch was not confirmed in time");
    }
    return status;
}

/* A stream is as good as the server that it comes from: if that left a request
 * unanswered since, and the next one was asked, news may never come from there. */
static bool followed(struct tn_etcd *h, const struct tn_etcd_waiting *w)
{
    if (!h->news || h->news->unanswered != h->unanswered)
        return false;
    if (h->news->confirmed < h->news->n && tenure_now() - h->news->heard_ns >= CONFIRM_NS)
        return false;
    for (size_t i = 0; i < w->n; i++) {
        if (!tn_etcd_find(h, w->watches[i].key, w->watches[i].prefix))
            return false;
    }
    return true;
}

/* ---- Waiting ------------------------------------------------------------- */

/* A wait may be too short for an answer: that says nothing about the server. */
static enum tenure_status compare(struct tn_etcd *h, struct tn_etcd_waiting *w, int64_t deadline,
                                  struct tenure_error *err)
{
    unsigned before = h->unanswered;
    bool brief = deadline - tenure_now() < SHARE_MIN_NS;
    enum tenure_status status = tn_etcd_compare(h, w, deadline, err);

    if (status == TENURE_TIMEOUT && brief)
        h->unanswered = before;
    return status;
}

/* Subscribe, then compare (C6). */
static enum tenure_status set_out_once(struct tn_etcd *h, struct tn_etcd_waiting *w,
                                       int64_t deadline, struct tenure_error *err)
{
    enum tenure_status status = TENURE_OK;

    w->asked = false;
    if (!followed(h, w)) {
        tn_etcd_news_drop(h);
        status = begin_news(h, w, deadline, err);
    }
    if (!status)
        status = subscribe(h, w, deadline, err);
    if (!status) {
        status = listen_until(h, w, 0, err);
        if (status == TENURE_TIMEOUT)
            status = TENURE_OK; /* nothing more is there */
    }
    if (!status) {
        w->asked = true;
        status = compare(h, w, deadline, err);
    }
    if (status && status != TENURE_TIMEOUT && status != TENURE_CANCELLED)
        tn_etcd_news_drop(h);
    return status;
}

/* A stream that was idle may have ended; a member may be down: the others are asked. */
static enum tenure_status set_out(struct tn_etcd *h, struct tn_etcd_waiting *w, int64_t deadline,
                                  struct tenure_error *err)
{
    enum tenure_status status = TENURE_OK;

    for (unsigned left = h->conf.n_hosts + 1; left; left--) {
        int64_t now = tenure_now(), share = (deadline - now) / left;

        if (now >= deadline)
            return tenure_fail(err, TENURE_TIMEOUT, "etcd: nothing changed");
        /* One dead member must not use up the time of the others; but a short
         * wait is not worth cutting into pieces in which nothing gets done. */
        if (share < SHARE_MIN_NS)
            share = deadline - now < SHARE_MIN_NS ? deadline - now : SHARE_MIN_NS;
        status = set_out_once(h, w, now + share, err);
        if (!status && !w->news && !followed(h, w))
            continue; /* another member answered than the one that is listened to */
        if (status != TENURE_UNAVAILABLE && status != TENURE_TIMEOUT)
            break;
        if (status == TENURE_TIMEOUT && tenure_now() >= deadline)
            break; /* the next wait goes on with what was begun */
        tn_etcd_news_drop(h);
        h->at = (h->at + 1) % h->conf.n_hosts;
    }
    return status;
}

static enum tenure_status wait_inner(struct tn_etcd *h, struct tn_etcd_waiting *w, int64_t deadline,
                                     struct tenure_error *err)
{
    enum tenure_status status = set_out(h, w, deadline, err);

    while (!status && !w->news) {
        int64_t look = h->news->heard_ns + TN_ETCD_SILENCE_NS;

        status = listen_until(h, w, look < deadline ? look : deadline, err);
        if (status == TENURE_CANCELLED)
            return status;
        /* Compacted, no leader, gone: what was missed is found by comparing again.
         * So it is when there was nothing to hear for long. */
        if (status && status != TENURE_TIMEOUT)
            tn_etcd_news_drop(h);
        if (w->news)
            return TENURE_OK;
        if (tenure_now() >= deadline)
            return tenure_fail(err, TENURE_TIMEOUT, "etcd: nothing changed");
        if (status)
            status = set_out(h, w, deadline, err);
    }
    return status;
}

enum tenure_status tn_etcd_wait(void *impl, const struct tenure_watch *watches, size_t n,
                                int wake_fd, int64_t deadline, struct tenure_error *err)
{
    struct tn_etcd *h = impl;
    struct tn_etcd_waiting w = {.watches = watches, .n = n};
    struct pollfd wake = {.fd = wake_fd, .events = POLLIN};
    enum tenure_status status;

    if (n == 0 || poll(&wake, 1, 0) > 0) {
        int ready = tn_poll(&wake, 1, deadline);

        return ready > 0 ? tenure_fail(err, TENURE_CANCELLED, "etcd: wait was cancelled")
                         : tenure_fail(err, TENURE_TIMEOUT, "etcd: nothing changed");
    }
    h->conf.http.cancel_fd = wake_fd;
    status = wait_inner(h, &w, deadline, err);
    h->conf.http.cancel_fd = -1;
    return status;
}
