/*
 * News of changes: a watch for each register that is waited on, kept over
 * several waits, all on one handle of libcurl.
 *
 * A watch begins "now", and then the registers are compared by a read (C6).
 * Beginning at a version last heard of would be wrong: after a restore versions
 * go back, and such a watch would sleep until they are reached again.
 * Bookmarks tell once a minute that a watch still works.  One that was silent
 * for longer is not believed without a look: its server may hang, while others
 * behind the same address answer.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "os/poll.h"
#include "store/kube/kube.h"

#define LINES_MAX  256 /* ... taken in at once: then the time is looked at */
#define SILENCE_NS INT64_C(90000000000)
#define BRIEF_NS   1000000000
#define BRIEF_MAX  4 /* ... in one wait: then there is something wrong with the server */

struct target {
    char key[TENURE_KEY_MAX + 1]; /* or a prefix */
    bool prefix;
    bool known; /* token is the register's, or news of a later one is on its way */
    struct tenure_token token;
    struct tn_http_stream *stream;
    int64_t began;
    int64_t heard_ns; /* when it last said something, or was found to be right */
};

struct tn_kube_news {
    struct target targets[TENURE_WATCH_MAX];
    unsigned n;
    unsigned unanswered; /* the handle's when the first of them began */
};

/* One wait in progress. */
struct waiting {
    const struct tenure_watch *watches;
    size_t n;
    bool news;      /* something watched has changed */
    unsigned brief; /* watches that ended as soon as they had begun */
};

void tn_kube_news_drop(struct tn_kube *h)
{
    if (!h->news)
        return;
    for (unsigned i = 0; i < h->news->n; i++)
        tn_http_stream_close(h->news->targets[i].stream);
    free(h->news);
    h->news = NULL;
}

static struct target *find(struct tn_kube *h, const char *key, bool prefix)
{
    for (unsigned i = 0; h->news && i < h->news->n; i++) {
        struct target *t = &h->news->targets[i];

        if (t->prefix == prefix && strcmp(t->key, key) == 0)
            return t;
    }
    return NULL;
}

void tn_kube_news_learn(struct tn_kube *h, const char *key, const struct tenure_token *token)
{
    struct target *t = find(h, key, false);

    if (t) {
        t->known = true;
        t->token = *token;
    }
}

/* ---- Events -------------------------------------------------------------- */

static bool later(const char *rv, const char *mark)
{
    return strtoull(rv, NULL, 10) > strtoull(mark, NULL, 10);
}

static void note_prefix(const struct target *t, struct waiting *w, const json_t *object)
{
    const char *key = tn_kube_key_of(object), *rv = tn_kube_meta(object, "resourceVersion");

    for (size_t i = 0; i < w->n; i++) {
        const struct tenure_watch *watch = &w->watches[i];

        if (watch->prefix && strcmp(watch->key, t->key) == 0 && key && rv &&
            strncmp(key, watch->key, strlen(watch->key)) == 0 && later(rv, watch->mark))
            w->news = true;
    }
}

static void note(struct target *t, struct waiting *w, const char *type, const json_t *object)
{
    if (strcmp(type, "BOOKMARK") == 0)
        return;
    if (t->prefix) {
        note_prefix(t, w, object);
        return;
    }
    memset(&t->token, 0, sizeof t->token);
    t->known = strcmp(type, "DELETED") == 0 ? true : tn_kube_token(t->key, object, &t->token);
    for (size_t i = 0; i < w->n; i++) {
        const struct tenure_watch *watch = &w->watches[i];

        if (!watch->prefix && strcmp(watch->key, t->key) == 0)
            w->news = w->news || !t->known || !tenure_token_equal(&t->token, &watch->seen);
    }
}

static void end_stream(struct target *t)
{
    tn_http_stream_close(t->stream);
    t->stream = NULL;
    t->known = false;
}

/* One line of a stream.  Unless OK, the watch has to begin anew. */
static enum tenure_status digest(struct target *t, struct waiting *w, const char *line,
                                 struct tenure_error *err)
{
    json_t *root = json_loads(line, 0, NULL);
    const json_t *object = json_object_get(root, "object");
    const char *type = json_string_value(json_object_get(root, "type"));
    enum tenure_status status = TENURE_OK;

    if (!type || !object || strcmp(type, "ERROR") == 0) {
        const char *why = json_string_value(json_object_get(object, "message"));

        /* Too old, most likely; what happened under a prefix since cannot be told. */
        w->news = w->news || t->prefix;
        status = tenure_fail(err, TENURE_UNAVAILABLE, "kube: the watch was ended: %.200s",
                             why ? why : "its news cannot be understood");
    } else {
        note(t, w, type, object);
    }
    json_decref(root);
    return status;
}

/* Take in what has come.  A stream that has ended is closed. */
static void take_in(struct target *t, struct waiting *w)
{
    struct tenure_error err;
    char *line;
    enum tenure_status status = TENURE_OK;

    for (unsigned n = 0; t->stream && !status && n < LINES_MAX; n++) {
        status = tn_http_stream_line(t->stream, 0, &line, &err);
        if (!status) {
            t->heard_ns = tenure_now();
            status = digest(t, w, line, &err);
        }
        if (status && status != TENURE_TIMEOUT && status != TENURE_CANCELLED) {
            w->brief += tenure_now() - t->began < BRIEF_NS;
            end_stream(t);
        }
    }
}

/* ---- Subscribing --------------------------------------------------------- */

static enum tenure_status follow(struct tn_kube *h, struct target *t, int64_t deadline,
                                 struct tenure_error *err)
{
    char name[TN_KUBE_NAME_MAX + 1];
    long code = 0;
    enum tenure_status status;

    tn_kube_name(h, t->key, name);
    status = tn_kube_follow(h, name, NULL, deadline, &t->stream, &code, err);
    t->began = t->heard_ns = tenure_now();
    t->known = false; /* until it is compared */
    if (!status && code != 200) {
        end_stream(t);
        status = tenure_fail(err, TENURE_UNAVAILABLE, "kube: %s: no watch can begin (HTTP %ld)",
                             h->access.server, code);
    }
    return status;
}

/* A prefix is compared by versions: has anything happened in scope since the mark? */
static enum tenure_status follow_prefix(struct tn_kube *h, struct target *t,
                                        const struct tenure_watch *watch, struct waiting *w,
                                        int64_t deadline, struct tenure_error *err)
{
    char now[TN_KUBE_RV_MAX + 1];
    long code = 0;
    enum tenure_status status = tn_kube_list_version(h, deadline, now, err);

    if (status)
        return status;
    /* Another history, or none at all. */
    if (!watch->mark[0] || strspn(watch->mark, "0123456789") != strlen(watch->mark) ||
        strlen(watch->mark) > TN_KUBE_RV_MAX || later(watch->mark, now)) {
        w->news = true;
        return TENURE_OK;
    }
    status = tn_kube_follow(h, NULL, watch->mark, deadline, &t->stream, &code, err);
    t->began = t->heard_ns = tenure_now();
    if (!status && code != 200) {
        end_stream(t);
        w->news = true; /* too long ago to tell */
    }
    return status;
}

static struct target *target_of(struct tn_kube *h, const struct tenure_watch *watch)
{
    struct target *t = find(h, watch->key, watch->prefix);

    if (t || (!h->news && !(h->news = calloc(1, sizeof *h->news))))
        return t;
    if (h->news->n == 0)
        h->news->unanswered = h->unanswered;
    if (h->news->n == TENURE_WATCH_MAX) { /* other things are waited on now */
        for (unsigned i = 0; i < h->news->n; i++)
            end_stream(&h->news->targets[i]);
        h->news->n = 0;
    }
    t = &h->news->targets[h->news->n++];
    memset(t, 0, sizeof *t);
    snprintf(t->key, sizeof t->key, "%s", watch->key);
    t->prefix = watch->prefix;
    return t;
}

static enum tenure_status compare(struct tn_kube *h, struct target *t,
                                  const struct tenure_watch *watch, struct waiting *w,
                                  int64_t deadline, struct tenure_error *err)
{
    json_t *object = NULL;
    bool told = t->known && tenure_token_equal(&t->token, &watch->seen);
    enum tenure_status status = tn_kube_get(h, t->key, deadline, &object, err);

    if (status)
        return status;
    t->heard_ns = tenure_now();
    memset(&t->token, 0, sizeof t->token);
    t->known = !object || tn_kube_token(t->key, object, &t->token);
    w->news = w->news || !t->known || !tenure_token_equal(&t->token, &watch->seen);
    json_decref(object);
    if (told && w->news)
        end_stream(t); /* it should have said so */
    return TENURE_OK;
}

static bool is_silent(const struct target *t)
{
    return tenure_now() - t->heard_ns >= SILENCE_NS;
}

/* Subscribe, then compare (C6). */
static enum tenure_status set_out(struct tn_kube *h, struct waiting *w, int64_t deadline,
                                  struct tenure_error *err)
{
    enum tenure_status status = TENURE_OK;

    for (size_t i = 0; !status && !w->news && i < w->n; i++) {
        const struct tenure_watch *watch = &w->watches[i];
        struct target *t = target_of(h, watch);

        if (!t)
            return tenure_fail(err, TENURE_NOMEM, "kube: out of memory");
        take_in(t, w);
        if (w->news)
            break;
        if (t->prefix) {
            if (t->stream && is_silent(t))
                end_stream(t);
            if (!t->stream)
                status = follow_prefix(h, t, watch, w, deadline, err);
            continue;
        }
        if (!t->stream)
            status = follow(h, t, deadline, err);
        if (!status && (!t->known || is_silent(t) || !tenure_token_equal(&t->token, &watch->seen)))
            status = compare(h, t, watch, w, deadline, err);
    }
    return status;
}

/* ---- Waiting ------------------------------------------------------------- */

static enum tenure_status listen_until(struct tn_kube *h, struct waiting *w, int64_t deadline,
                                       struct tenure_error *err)
{
    struct tn_http_stream *streams[TENURE_WATCH_MAX];
    struct target *targets[TENURE_WATCH_MAX];
    int64_t until = deadline;
    enum tenure_status status;

    for (size_t i = 0; i < w->n; i++) {
        targets[i] = find(h, w->watches[i].key, w->watches[i].prefix);
        if (!targets[i] || !targets[i]->stream)
            return TENURE_OK; /* to be set out again */
        streams[i] = targets[i]->stream;
        if (targets[i]->heard_ns + SILENCE_NS < until)
            until = targets[i]->heard_ns + SILENCE_NS;
    }
    status = tn_http_streams_wait(streams, w->n, until, err);
    if (status == TENURE_TIMEOUT && until < deadline)
        return TENURE_OK;
    for (size_t i = 0; !status && i < w->n; i++)
        take_in(targets[i], w);
    return status;
}

static enum tenure_status wait_inner(struct tn_kube *h, struct waiting *w, int64_t deadline,
                                     struct tenure_error *err)
{
    enum tenure_status status = TENURE_OK;

    while (!status && !w->news) {
        status = set_out(h, w, deadline, err);
        if (!status && !w->news)
            status = listen_until(h, w, deadline, err);
        if (!status && w->brief > BRIEF_MAX)
            status = tenure_fail(err, TENURE_UNAVAILABLE,
                                 "kube: %s: the server ends every watch at once", h->access.server);
        if (!status && !w->news && tenure_now() >= deadline)
            status = TENURE_TIMEOUT;
    }
    if (status == TENURE_TIMEOUT)
        tenure_fail(err, TENURE_TIMEOUT, "kube: nothing changed");
    else if (status && status != TENURE_CANCELLED)
        tn_kube_news_drop(h);
    return status;
}

enum tenure_status tn_kube_wait(void *impl, const struct tenure_watch *watches, size_t n,
                                int wake_fd, int64_t deadline, struct tenure_error *err)
{
    struct tn_kube *h = impl;
    struct waiting w = {.watches = watches, .n = n};
    struct pollfd wake = {.fd = wake_fd, .events = POLLIN};
    enum tenure_status status;

    if (n == 0 || poll(&wake, 1, 0) > 0) {
        int ready = tn_poll(&wake, 1, deadline);

        return ready > 0 ? tenure_fail(err, TENURE_CANCELLED, "kube: wait was cancelled")
                         : tenure_fail(err, TENURE_TIMEOUT, "kube: nothing changed");
    }
    /* A watch is as good as the server that it comes from: if one left a request
     * unanswered since, it may be the same one. */
    if (h->news && h->news->unanswered != h->unanswered)
        tn_kube_news_drop(h);
    h->access.http.cancel_fd = wake_fd;
    status = wait_inner(h, &w, deadline, err);
    h->access.http.cancel_fd = -1;
    return status;
}
