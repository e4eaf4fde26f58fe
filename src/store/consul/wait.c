/*
 * News of changes: a blocking query for each register and prefix, of names alone (store/watcher.h).
 *
 * The names tell the nonce, and the index the version, of every register.  A query that blocks from
 * the index at which the names were last seen misses nothing behind it, so what a feed has seen is
 * what is there, or news of a later state is on its way.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/consul/consul.h"

/* An agent answers every blocking query after some 20 s.  One that was silent for longer is not
 * believed without a comparison. */
#define SILENCE_NS INT64_C(30000000000)

struct feed {
    struct tn_http_stream *stream; /* NULL: to be begun */
    unsigned long long index;
    char mark[TENURE_VERSION_MAX + 1]; /* of the names that were last seen */
    bool clear;                        /* of a register: it is absent, or token is it */
    struct tenure_token token;
};

static void unsubscribe(struct tn_watcher *w, struct tn_followed *one)
{
    for (unsigned i = 0; i < w->n_followed; i++) {
        struct feed *feed = w->followed[i].feed;

        if ((one && one != &w->followed[i]) || !feed)
            continue;
        tn_http_stream_close(feed->stream);
        free(feed);
        w->followed[i].feed = NULL;
    }
}

static void name_of(const struct tn_consul *h, const struct tn_followed *one,
                    char out[TN_CONSUL_NAME_MAX])
{
    snprintf(out, TN_CONSUL_NAME_MAX, "%s%s%s", h->conf.base, one->key, one->prefix ? "" : "#");
}

/* ---- What is there ------------------------------------------------------- */

/* The token of a register from its names: one anchor and one row, or no anchor. */
static bool take_token(const struct tn_consul *h, const char *key, const json_t *names,
                       unsigned long long index, struct tenure_token *token)
{
    struct tenure_token found = {0};
    bool anchored = false, named = true;
    unsigned rows = 0;
    const json_t *name;
    size_t i;

    memset(token, 0, sizeof *token);
    json_array_foreach(names, i, name)
    {
        const char *suffix = tn_consul_suffix(h, json_string_value(name), key);

        if (!suffix)
            continue;
        anchored = anchored || !*suffix;
        rows += *suffix != '\0';
        named = named && (!*suffix || tn_consul_nonce(suffix, found.nonce));
    }
    if (!anchored)
        return true;
    snprintf(found.version, sizeof found.version, "%llu", index);
    *token = found;
    return named && rows == 1;
}

/* Names that came.  True if they are not those of before. */
static bool names_changed(struct tn_consul *h, const struct tn_followed *one, const json_t *names,
                          unsigned long long index)
{
    struct feed *feed = one->feed;
    char mark[TENURE_VERSION_MAX + 1];
    bool other;

    tn_consul_mark(names, index, mark);
    other = strcmp(mark, feed->mark) != 0;
    memcpy(feed->mark, mark, sizeof mark);
    feed->index = index;
    if (!one->prefix)
        feed->clear = take_token(h, one->key, names, index, &feed->token);
    return other;
}

static enum tenure_status ask_names(struct tn_consul *h, const struct tn_followed *one, int64_t by,
                                    struct tenure_error *err)
{
    char name[TN_CONSUL_NAME_MAX];
    unsigned long long index;
    json_t *names = NULL;
    enum tenure_status status;

    name_of(h, one, name);
    status = tn_consul_names(h, name, by, &names, &index, err);
    if (!status)
        names_changed(h, one, names, index);
    json_decref(names);
    return status;
}

static bool is_as_seen(const struct feed *feed, const struct tenure_watch *watch)
{
    return watch->prefix ? strcmp(feed->mark, watch->mark) == 0
                         : feed->clear && tenure_token_equal(&feed->token, &watch->seen);
}

/* Asked only if what the feed has seen is old, or not what the caller saw: the caller may know
 * more. */
static enum tenure_status compare(struct tn_watcher *w, const struct tenure_watch *const *watches,
                                  size_t n, int64_t by, bool *changed, struct tenure_error *err)
{
    struct tn_consul *h = w->impl;

    for (size_t i = 0; i < n && !*changed; i++) {
        const struct tn_followed *one = tn_watcher_find(w, watches[i]->key, watches[i]->prefix);
        enum tenure_status status = TENURE_OK;

        if (!one || !one->feed) {
            *changed = true;
            break;
        }
        if (tenure_now() - one->heard_ns >= SILENCE_NS || !is_as_seen(one->feed, watches[i]))
            status = ask_names(h, one, by, err);
        if (status)
            return status;
        *changed = !is_as_seen(one->feed, watches[i]);
    }
    return TENURE_OK;
}

/* ---- Subscribing --------------------------------------------------------- */

static enum tenure_status block(struct tn_consul *h, struct tn_followed *one,
                                struct tenure_error *err)
{
    struct feed *feed = one->feed;
    char name[TN_CONSUL_NAME_MAX];
    bool first = !feed->stream;

    tn_http_stream_close(feed->stream);
    feed->stream = NULL;
    name_of(h, one, name);
    return tn_consul_block(h, name, feed->index, first, &feed->stream, err);
}

static enum tenure_status follow(struct tn_consul *h, struct tn_followed *one, int64_t by,
                                 struct tenure_error *err)
{
    enum tenure_status status;

    if (!one->feed)
        one->feed = calloc(1, sizeof(struct feed));
    if (!one->feed)
        return tenure_fail(err, TENURE_NOMEM, "consul: out of memory");
    status = ask_names(h, one, by, err);
    if (!status)
        status = block(h, one, err);
    if (!status)
        tn_watcher_confirm(one);
    return status;
}

static enum tenure_status subscribe(struct tn_watcher *w, int64_t by, struct tenure_error *err)
{
    enum tenure_status status = TENURE_OK;

    for (unsigned i = 0; !status && i < w->n_followed; i++) {
        if (!w->followed[i].live)
            status = follow(w->impl, &w->followed[i], by, err);
    }
    return status;
}

/* ---- News ---------------------------------------------------------------- */

/* A blocking query was answered, or broke. */
static void take_answer(struct tn_consul *h, struct tn_followed *one)
{
    struct feed *feed = one->feed;
    struct tenure_error why;
    unsigned long long index;
    json_t *names = NULL;

    if (tn_consul_unblock(h, feed->stream, &names, &index, &why)) {
        tn_watcher_lost(&h->watcher, one);
        return;
    }
    tn_watcher_heard(&h->watcher, one);
    if (names_changed(h, one, names, index)) {
        bool known = !one->prefix && feed->clear;

        if (one->prefix)
            tn_watcher_event_under(&h->watcher, one->key);
        else
            tn_watcher_event(&h->watcher, one->key, known ? &feed->token : NULL);
    }
    json_decref(names);
    if (block(h, one, &why))
        tn_watcher_lost(&h->watcher, one);
}

/* Take in what is there, or (until is not 0) wait for something to be there. */
static enum tenure_status next(struct tn_watcher *w, int64_t until, struct tenure_error *err)
{
    struct tn_http_stream *streams[TN_WATCHER_MAX];
    size_t n = 0;
    enum tenure_status status;

    for (unsigned i = 0; i < w->n_followed; i++) {
        struct feed *feed = w->followed[i].feed;

        if (w->followed[i].live && feed && feed->stream)
            streams[n++] = feed->stream;
    }
    status = n ? tn_http_streams_wait(streams, n, until, err)
               : tenure_fail(err, TENURE_UNAVAILABLE, "consul: nothing is followed");
    for (unsigned i = 0; !status && i < w->n_followed; i++) {
        struct feed *feed = w->followed[i].feed;

        if (w->followed[i].live && feed && feed->stream && tn_http_stream_ended(feed->stream))
            take_answer(w->impl, &w->followed[i]);
    }
    return status;
}

/* An agent may be down: the others are asked. */
static void next_server(struct tn_watcher *w)
{
    struct tn_consul *h = w->impl;

    h->at = (h->at + 1) % h->conf.n_hosts;
}

static const struct tn_watcher_ops ops = {.subscribe = subscribe,
                                          .next = next,
                                          .compare = compare,
                                          .unsubscribe = unsubscribe,
                                          .next_server = next_server};

void tn_consul_watcher_init(struct tn_consul *h)
{
    h->watcher = (struct tn_watcher){.ops = &ops,
                                     .impl = h,
                                     .scheme = "consul",
                                     .cancel_fd = &h->conf.http.cancel_fd,
                                     .unanswered = &h->unanswered,
                                     .attempts = h->conf.n_hosts + 1,
                                     .share = true,
                                     .silence_ns = SILENCE_NS};
}
