/*
 * Waiting: nothing tells of changes, so what is watched is asked for every poll interval
 * (store/watcher.h).  A register costs a GET whose answer is empty if it still has its tag; a
 * prefix a listing.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "os/poll.h"
#include "store/object/object.h"

static enum tenure_status subscribe(struct tn_watcher *w, int64_t by, struct tenure_error *err)
{
    (void)by;
    (void)err;
    for (unsigned i = 0; i < w->n_followed; i++) {
        if (!w->followed[i].live)
            tn_watcher_confirm(&w->followed[i]);
    }
    return TENURE_OK;
}

static enum tenure_status next(struct tn_watcher *w, int64_t until, struct tenure_error *err)
{
    struct pollfd wake = {.fd = *w->cancel_fd, .events = POLLIN};

    if (until && tn_poll(&wake, 1, until) > 0)
        return tenure_fail(err, TENURE_CANCELLED, "%s: wait was cancelled", w->scheme);
    return tenure_fail(err, TENURE_TIMEOUT, "%s: nothing changed", w->scheme);
}

static enum tenure_status compare_prefix(struct tn_object *h, const struct tenure_watch *watch,
                                         int64_t by, bool *changed, struct tenure_error *err)
{
    char mark[TENURE_VERSION_MAX + 1];
    enum tenure_status status = tn_object_mark(h, watch->key, by, mark, err);

    if (!status && strcmp(mark, watch->mark) != 0)
        *changed = true;
    return status;
}

static enum tenure_status compare(struct tn_watcher *w, const struct tenure_watch *const *watches,
                                  size_t n, int64_t by, bool *changed, struct tenure_error *err)
{
    struct tn_object *h = w->impl;
    struct tn_object_exchange xs[TENURE_WATCH_MAX] = {0};
    const struct tenure_token *seen[TENURE_WATCH_MAX];
    char tags[TENURE_WATCH_MAX][TN_OBJECT_TAG_MAX + 1];
    enum tenure_status status = TENURE_OK;
    size_t used = 0;

    for (size_t i = 0; i < n && !*changed; i++) {
        if (watches[i]->prefix)
            continue;
        xs[used].verb = TN_OBJECT_GET;
        tn_object_name(h, watches[i]->key, &xs[used]);
        *changed = !tn_object_expected(&watches[i]->seen, tags[used]);
        xs[used].tag = tags[used][0] ? tags[used] : NULL;
        seen[used++] = &watches[i]->seen;
    }
    if (used && !*changed)
        tn_object_send(h, xs, used, by);
    for (size_t i = 0; i < used && !*changed; i++) {
        if (!xs[i].status)
            *changed = !tn_object_is(&xs[i], seen[i]);
        else if (!status)
            status = (*err = xs[i].err, xs[i].status);
    }
    tn_object_release(xs, used);
    for (size_t i = 0; i < n && !status && !*changed; i++) {
        if (watches[i]->prefix)
            status = compare_prefix(h, watches[i], by, changed, err);
    }
    return *changed ? TENURE_OK : status;
}

void tn_object_watcher_init(struct tn_object *h)
{
    static const struct tn_watcher_ops ops = {
        .subscribe = subscribe, .next = next, .compare = compare};

    h->watcher.ops = &ops;
    h->watcher.impl = h;
    h->watcher.scheme = h->vendor->scheme;
    h->watcher.cancel_fd = &h->conf.http.cancel_fd;
    h->watcher.unanswered = &h->unanswered;
    h->watcher.attempts = 2;
    h->watcher.share = true;
    h->watcher.silence_ns = h->conf.poll_ns; /* it never says anything */
}
