/*
 * News of changes: a watch for each register that is waited on, kept over
 * several waits, all on one handle of libcurl (store/watcher.h).
 *
 * A watch begins "now", and then the registers are compared by a read (C6).
 * Beginning at a version last heard of would be wrong: after a restore versions
 * go back, and such a watch would sleep until they are reached again.
 * Bookmarks tell once a minute that a watch still works.  One that was silent
 * for longer is not believed without a comparison: its server may hang, while others
 * behind the same address answer.
 *
 * Of struct tn_followed: `feed` is the stream; the token of a prefix holds the latest version that
 * was heard of under it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/kube/kube.h"

#define LINES_MAX  256 /* ... taken in at once: then the time is looked at */
#define SILENCE_NS INT64_C(90000000000)

static void unsubscribe(struct tn_watcher *w, struct tn_followed *one)
{
    for (unsigned i = 0; i < w->n_followed; i++) {
        if (one && one != &w->followed[i])
            continue;
        tn_http_stream_close(w->followed[i].feed);
        w->followed[i].feed = NULL;
    }
}

/* ---- Events -------------------------------------------------------------- */

static bool later(const char *rv, const char *mark)
{
    return strtoull(rv, NULL, 10) > strtoull(mark, NULL, 10);
}

/* A prefix is compared by versions: has anything happened under it since the mark? */
static bool is_later(const struct tn_followed *one, const char *mark)
{
    return one->known && later(one->token.version, mark);
}

static void take_prefix_event(struct tn_watcher *w, struct tn_followed *one, const json_t *object)
{
    const char *key = tn_kube_key_of(object), *rv = tn_kube_meta(object, "resourceVersion");

    if (!key || !rv || strlen(rv) > TN_KUBE_RV_MAX || strncmp(key, one->key, strlen(one->key)) != 0)
        return;
    one->known = true;
    snprintf(one->token.version, sizeof one->token.version, "%s", rv);
    for (size_t i = 0; i < w->n_watches; i++) {
        const struct tenure_watch *watch = &w->watches[i];

        if (watch->prefix && strcmp(watch->key, one->key) == 0 && is_later(one, watch->mark))
            tn_watcher_changed(w);
    }
}

static void take_event(struct tn_watcher *w, struct tn_followed *one, const char *type,
                       const json_t *object)
{
    struct tenure_token token = {0};

    if (strcmp(type, "BOOKMARK") == 0)
        return;
    if (one->prefix)
        take_prefix_event(w, one, object);
    else if (strcmp(type, "DELETED") == 0 || tn_kube_token(one->key, object, &token))
        tn_watcher_event(w, one->key, &token);
    else
        tn_watcher_event(w, one->key, NULL);
}

/* One line of a stream.  False: the watch has ended. */
static bool take_line(struct tn_watcher *w, struct tn_followed *one, const char *line)
{
    json_t *root = json_loads(line, 0, NULL);
    const json_t *object = json_object_get(root, "object");
    const char *type = json_string_value(json_object_get(root, "type"));
    bool good = type && object && strcmp(type, "ERROR") != 0;

    if (good)
        take_event(w, one, type, object);
    else if (one->prefix)
        tn_watcher_changed(w); /* too old, most likely: what happened since cannot be told */
    json_decref(root);
    return good;
}

/* Take in what has come.  A stream that has ended is closed. */
static void take_lines(struct tn_watcher *w, struct tn_followed *one)
{
    struct tenure_error err;
    char *line;

    for (unsigned n = 0; one->feed && n < LINES_MAX; n++) {
        enum tenure_status status = tn_http_stream_line(one->feed, 0, &line, &err);

        if (status == TENURE_TIMEOUT || status == TENURE_CANCELLED)
            return;
        tn_watcher_heard(w, one);
        if (status || !take_line(w, one, line))
            tn_watcher_lost(w, one);
    }
}

static enum tenure_status next(struct tn_watcher *w, int64_t until, struct tenure_error *err)
{
    struct tn_http_stream *streams[TN_WATCHER_MAX];
    enum tenure_status status;
    size_t n = 0;

    for (unsigned i = 0; i < w->n_followed; i++)
        take_lines(w, &w->followed[i]);
    if (w->changed || w->again || !until)
        return TENURE_OK;
    for (unsigned i = 0; i < w->n_followed; i++) {
        if (w->followed[i].feed)
            streams[n++] = w->followed[i].feed;
    }
    status = tn_http_streams_wait(streams, n, until, err);
    for (unsigned i = 0; !status && i < w->n_followed; i++)
        take_lines(w, &w->followed[i]);
    return status;
}

/* ---- Subscribing --------------------------------------------------------- */

static enum tenure_status follow(struct tn_kube *h, struct tn_followed *one, int64_t by,
                                 struct tenure_error *err)
{
    struct tn_http_stream *stream = NULL;
    char name[TN_KUBE_NAME_MAX + 1];
    long code = 0;
    enum tenure_status status;

    tn_kube_name(h, one->key, name);
    status = tn_kube_follow(h, name, NULL, by, &stream, &code, err);
    if (!status && code != 200) {
        tn_http_stream_close(stream);
        status = tenure_fail(err, TENURE_UNAVAILABLE, "kube: %s: no watch can begin (HTTP %ld)",
                             h->access.server, code);
    } else if (!status) {
        one->feed = stream;
        tn_watcher_confirm(one);
    }
    return status;
}

/* Follow everything in scope from the mark on. */
static enum tenure_status follow_prefix(struct tn_kube *h, struct tn_followed *one,
                                        const char *mark, int64_t by, bool *changed,
                                        struct tenure_error *err)
{
    struct tn_http_stream *stream = NULL;
    char now[TN_KUBE_RV_MAX + 1];
    long code = 0;
    enum tenure_status status = tn_kube_list_version(h, by, now, err);

    if (status)
        return status;
    /* Another history, or none at all. */
    *changed = !mark[0] || strspn(mark, "0123456789") != strlen(mark) ||
               strlen(mark) > TN_KUBE_RV_MAX || later(mark, now);
    if (*changed)
        return TENURE_OK;
    status = tn_kube_follow(h, NULL, mark, by, &stream, &code, err);
    if (!status && code != 200) {
        tn_http_stream_close(stream);
        *changed = true; /* too long ago to tell */
    } else if (!status) {
        one->feed = stream;
        tn_watcher_confirm(one);
    }
    return status;
}

/* What is not waited for now is not followed again. */
static enum tenure_status subscribe(struct tn_watcher *w, int64_t by, struct tenure_error *err)
{
    enum tenure_status status = TENURE_OK;

    for (size_t i = 0; i < w->n_watches && !status && !w->changed; i++) {
        const struct tenure_watch *watch = &w->watches[i];
        struct tn_followed *one = tn_watcher_find(w, watch->key, watch->prefix);
        bool changed = false;

        if (one->live)
            continue;
        status = one->prefix ? follow_prefix(w->impl, one, watch->mark, by, &changed, err)
                             : follow(w->impl, one, by, err);
        if (changed)
            tn_watcher_changed(w);
    }
    return status;
}

/* ---- Comparing ----------------------------------------------------------- */

/* One that was silent for long is followed again from the mark on, which shows what it hid. */
static enum tenure_status compare_prefix(struct tn_watcher *w, const struct tenure_watch *watch,
                                         int64_t by, bool *changed, struct tenure_error *err)
{
    struct tn_followed *one = tn_watcher_find(w, watch->key, true);

    *changed = is_later(one, watch->mark);
    if (*changed || tenure_now() - one->heard_ns < SILENCE_NS)
        return TENURE_OK;
    unsubscribe(w, one);
    one->live = one->known = false;
    return follow_prefix(w->impl, one, watch->mark, by, changed, err);
}

static enum tenure_status compare_register(struct tn_kube *h, const struct tenure_watch *watch,
                                           int64_t by, bool *changed, struct tenure_error *err)
{
    struct tenure_token token = {0};
    json_t *object = NULL;
    enum tenure_status status = tn_kube_get(h, watch->key, by, &object, err);

    if (!status)
        *changed = (object && !tn_kube_token(watch->key, object, &token)) ||
                   !tenure_token_equal(&token, &watch->seen);
    json_decref(object);
    return status;
}

static enum tenure_status compare(struct tn_watcher *w, const struct tenure_watch *const *watches,
                                  size_t n, int64_t by, bool *changed, struct tenure_error *err)
{
    enum tenure_status status = TENURE_OK;

    for (size_t i = 0; i < n && !status && !*changed; i++)
        status = watches[i]->prefix ? compare_prefix(w, watches[i], by, changed, err)
                                    : compare_register(w->impl, watches[i], by, changed, err);
    return status;
}

static const struct tn_watcher_ops ops = {
    .subscribe = subscribe, .next = next, .compare = compare, .unsubscribe = unsubscribe};

void tn_kube_watcher_init(struct tn_kube *h)
{
    h->watcher = (struct tn_watcher){.ops = &ops,
                                     .impl = h,
                                     .scheme = "kube",
                                     .cancel_fd = &h->access.http.cancel_fd,
                                     .unanswered = &h->unanswered,
                                     .attempts = 1,
                                     .silence_ns = SILENCE_NS};
}
