#include "store/watcher.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "os/poll.h"

#define ATTEMPT_MIN_NS INT64_C(1000000000) /* a piece of time in which something gets done */
#define BRIEF_NS       INT64_C(1000000000)
#define BRIEF_MAX      4 /* ... in one wait: then there is something wrong with the server */

/* ---- What is followed ---------------------------------------------------- */

struct tn_followed *tn_watcher_find(const struct tn_watcher *w, const char *key, bool prefix)
{
    for (unsigned i = 0; i < w->n_followed; i++) {
        if (w->followed[i].prefix == prefix && strcmp(w->followed[i].key, key) == 0)
            return &w->followed[i];
    }
    return NULL;
}

bool tn_watcher_live(const struct tn_watcher *w)
{
    for (unsigned i = 0; i < w->n_followed; i++) {
        if (!w->followed[i].live)
            return false;
    }
    return true;
}

void tn_watcher_confirm(struct tn_followed *one)
{
    one->live = true;
    one->known = one->compared = false;
    one->began_ns = one->heard_ns = tenure_now();
}

void tn_watcher_heard(struct tn_watcher *w, struct tn_followed *one)
{
    int64_t now = tenure_now();

    if (one)
        one->heard_ns = now;
    for (unsigned i = 0; !one && i < w->n_followed; i++)
        w->followed[i].heard_ns = now;
}

static void set_known(struct tn_followed *one, const struct tenure_token *token)
{
    one->known = one->live && token;
    if (one->known)
        one->token = *token;
}

void tn_watcher_learn(struct tn_watcher *w, const char *key, const struct tenure_token *token)
{
    struct tn_followed *one = tn_watcher_find(w, key, false);

    /* Before the subscription is confirmed, changes that follow would go unnoticed. */
    if (one && one->live)
        set_known(one, token);
}

void tn_watcher_forget(struct tn_watcher *w, const char *key)
{
    for (unsigned i = 0; i < w->n_followed; i++) {
        if (!key || strcmp(w->followed[i].key, key) == 0)
            w->followed[i].known = false;
    }
}

static void add(struct tn_watcher *w, const struct tenure_watch *watch)
{
    if (tn_watcher_find(w, watch->key, watch->prefix))
        return;
    assert(w->n_followed < TN_WATCHER_MAX);
    struct tn_followed *one = &w->followed[w->n_followed++];
    memset(one, 0, sizeof *one);
    snprintf(one->key, sizeof one->key, "%s", watch->key);
    one->prefix = watch->prefix;
}

void tn_watcher_drop(struct tn_watcher *w)
{
    if (!w->followed)
        return;
    if (w->ops->unsubscribe)
        w->ops->unsubscribe(w, NULL);
    /* Another subscription has only what is wanted now. */
    w->n_followed = 0;
    for (size_t i = 0; i < w->n_watches; i++)
        add(w, &w->watches[i]);
}

void tn_watcher_free(struct tn_watcher *w)
{
    tn_watcher_drop(w);
    free(w->followed);
    w->followed = NULL;
}

/* ---- What comes ---------------------------------------------------------- */

void tn_watcher_changed(struct tn_watcher *w)
{
    w->changed = true;
}

void tn_watcher_event_under(struct tn_watcher *w, const char *key)
{
    for (size_t i = 0; w->compared && i < w->n_watches; i++) {
        const struct tenure_watch *watch = &w->watches[i];

        if (watch->prefix && strncmp(key, watch->key, strlen(watch->key)) == 0)
            w->changed = true;
    }
}

void tn_watcher_event(struct tn_watcher *w, const char *key, const struct tenure_token *token)
{
    struct tn_followed *one = key ? tn_watcher_find(w, key, false) : NULL;

    if (!key) {
        tn_watcher_forget(w, NULL);
        w->changed = w->changed || w->compared;
        return;
    }
    if (one)
        set_known(one, one->compared ? token : NULL);
    for (size_t i = 0; w->compared && i < w->n_watches; i++) {
        const struct tenure_watch *watch = &w->watches[i];

        if (!watch->prefix && strcmp(key, watch->key) == 0 &&
            !(token && tenure_token_equal(token, &watch->seen)))
            w->changed = true;
    }
    tn_watcher_event_under(w, key);
}

void tn_watcher_lost(struct tn_watcher *w, struct tn_followed *one)
{
    w->brief += one->live && tenure_now() - one->began_ns < BRIEF_NS;
    if (w->ops->unsubscribe)
        w->ops->unsubscribe(w, one);
    one->live = one->known = false;
    w->again = true;
}

/* The whole subscription has ended. */
static void lose_all(struct tn_watcher *w)
{
    int64_t now = tenure_now();

    for (unsigned i = 0; i < w->n_followed; i++) {
        if (w->followed[i].live && now - w->followed[i].began_ns < BRIEF_NS) {
            w->brief++;
            break;
        }
    }
    tn_watcher_drop(w);
}

/* ---- Subscribe, then compare --------------------------------------------- */

/* News are as good as the server that they come from: if one left a request unanswered since, it
 * may be that one. */
static bool is_doubtful(const struct tn_watcher *w)
{
    return w->unanswered && *w->unanswered != w->unanswered_then;
}

static enum tenure_status follow_all(struct tn_watcher *w, struct tenure_error *err)
{
    unsigned more = 0;

    if (!w->followed)
        w->followed = calloc(TN_WATCHER_MAX, sizeof *w->followed);
    if (!w->followed)
        return tenure_fail(err, TENURE_NOMEM, "%s: out of memory", w->scheme);
    for (size_t i = 0; i < w->n_watches; i++)
        more += !tn_watcher_find(w, w->watches[i].key, w->watches[i].prefix);
    if (is_doubtful(w) || w->n_followed + more > TN_WATCHER_MAX)
        tn_watcher_drop(w);
    if (w->unanswered)
        w->unanswered_then = *w->unanswered;
    for (size_t i = 0; i < w->n_watches; i++)
        add(w, &w->watches[i]);
    return TENURE_OK;
}

/* Everything is followed, and what came so far is taken in. */
static enum tenure_status subscribe(struct tn_watcher *w, int64_t by, struct tenure_error *err)
{
    enum tenure_status status = follow_all(w, err);

    do {
        w->again = false;
        if (!status)
            status = w->ops->subscribe(w, by, err);
        if (!status) {
            status = w->ops->next(w, 0, err);
            if (status == TENURE_TIMEOUT)
                status = TENURE_OK; /* nothing more is there */
        }
        if (!status && w->brief > BRIEF_MAX)
            status = tenure_fail(err, TENURE_UNAVAILABLE,
                                 "%s: the server ends every subscription at once", w->scheme);
        if (!status && w->again && tenure_now() >= by)
            status = tenure_fail(err, TENURE_TIMEOUT, "%s: no time to subscribe", w->scheme);
    } while (!status && w->again && !w->changed);
    return status;
}

static bool is_silent(const struct tn_watcher *w, const struct tn_followed *one)
{
    return w->silence_ns && tenure_now() - one->heard_ns >= w->silence_ns;
}

static bool is_known(const struct tenure_watch *watch, const struct tn_followed *one)
{
    return one && !watch->prefix && one->live && one->known &&
           tenure_token_equal(&one->token, &watch->seen);
}

/* Which watches are not known to be unchanged?  *doubt: one of them was, but has long been silent.
 */
static size_t unknown_of(const struct tn_watcher *w, const struct tenure_watch **out, bool *doubt)
{
    size_t n = 0;

    *doubt = false;
    for (size_t i = 0; i < w->n_watches; i++) {
        const struct tenure_watch *watch = &w->watches[i];
        const struct tn_followed *one = tn_watcher_find(w, watch->key, watch->prefix);
        bool silent = one && one->live && is_silent(w, one);

        if (is_known(watch, one) && !silent)
            continue;
        *doubt = *doubt || silent;
        out[n++] = watch;
    }
    return n;
}

/* A wait may be too short for an answer: that says nothing about the server. */
static enum tenure_status compare_all(struct tn_watcher *w,
                                      const struct tenure_watch *const *watches, size_t n,
                                      int64_t by, bool *changed, struct tenure_error *err)
{
    unsigned before = w->unanswered ? *w->unanswered : 0;
    bool short_of_time = by - tenure_now() < ATTEMPT_MIN_NS;
    enum tenure_status status = w->ops->compare(w, watches, n, by, changed, err);

    if (status == TENURE_TIMEOUT && w->unanswered && short_of_time)
        *w->unanswered = before;
    return status;
}

static enum tenure_status compare(struct tn_watcher *w, int64_t by, struct tenure_error *err)
{
    const struct tenure_watch *unknown[TENURE_WATCH_MAX];
    bool doubt, changed = false;
    size_t n = unknown_of(w, unknown, &doubt);
    enum tenure_status status = TENURE_OK;

    w->compared = true;
    if (n)
        status = compare_all(w, unknown, n, by, &changed, err);
    w->compared_ns = tenure_now(); /* a server that is slow is not asked without a pause */
    if (status)
        return status;
    w->changed = w->changed || changed;
    if (changed && doubt)
        tn_watcher_drop(w); /* it should have said so */
    for (size_t i = 0; i < n; i++) {
        struct tn_followed *one = tn_watcher_find(w, unknown[i]->key, unknown[i]->prefix);

        if (one) {
            tn_watcher_heard(w, one);
            one->compared = true;
        }
        if (one && !w->changed && !one->prefix)
            set_known(one, &unknown[i]->seen);
    }
    return TENURE_OK;
}

static enum tenure_status begin_once(struct tn_watcher *w, int64_t by, struct tenure_error *err)
{
    enum tenure_status status;

    w->compared = false;
    status = subscribe(w, by, err);
    if (!status && !w->changed)
        status = compare(w, by, err);
    /* What a wait that ends has begun, the next one goes on with. */
    if (status && status != TENURE_TIMEOUT && status != TENURE_CANCELLED)
        tn_watcher_drop(w);
    return status;
}

/* Until when the next attempt may last: one server that hangs must not use up the time of the
 * others, but a short wait is not worth cutting into pieces in which nothing gets done. */
static int64_t attempt_until(const struct tn_watcher *w, int64_t now, unsigned left)
{
    int64_t span = w->deadline - now;

    if (w->share && left > 1 && span > ATTEMPT_MIN_NS)
        span = span / left > ATTEMPT_MIN_NS ? span / left : ATTEMPT_MIN_NS;
    if (w->attempt_max_ns && span > w->attempt_max_ns)
        span = w->attempt_max_ns;
    return now + span;
}

/* Until everything is compared: what follows is waited for. */
static enum tenure_status begin(struct tn_watcher *w, struct tenure_error *err)
{
    enum tenure_status status = TENURE_OK;

    assert(w->attempts > 0);
    for (unsigned left = w->attempts; left; left--) {
        int64_t now = tenure_now();

        if (now >= w->deadline)
            return TENURE_TIMEOUT;
        status = begin_once(w, attempt_until(w, now, left), err);
        if (!status && !w->changed && is_doubtful(w))
            continue; /* another server answered than the one that is listened to */
        if (status != TENURE_UNAVAILABLE && status != TENURE_TIMEOUT)
            return status;
        if (tenure_now() >= w->deadline)
            return status; /* the next wait goes on with what was begun */
        if (status == TENURE_TIMEOUT)
            tn_watcher_drop(w);
        if (w->ops->next_server)
            w->ops->next_server(w);
    }
    /* The server's time is up, not the caller's. */
    return status ? err->code = TENURE_UNAVAILABLE : TENURE_OK;
}

/* ---- Wait ---------------------------------------------------------------- */

/* When to compare again although nothing was heard. */
static int64_t check_at(const struct tn_watcher *w)
{
    int64_t at = w->deadline;

    if (w->poll_ns && w->compared_ns + w->poll_ns < at)
        at = w->compared_ns + w->poll_ns;
    for (size_t i = 0; w->silence_ns && i < w->n_watches; i++) {
        const struct tn_followed *one = tn_watcher_find(w, w->watches[i].key, w->watches[i].prefix);

        if (one && one->live && one->heard_ns + w->silence_ns < at)
            at = one->heard_ns + w->silence_ns;
    }
    return at;
}

/*
 * The deadline is over.  TIMEOUT says that nothing had changed by then, so what came in time counts
 * however late it is looked at, and after a subscription that ended the caller reads (C6): a
 * process may have been stopped over the deadline.
 */
static enum tenure_status end_wait(struct tn_watcher *w, enum tenure_status status,
                                   struct tenure_error *err)
{
    if (!status || status == TENURE_TIMEOUT)
        status = w->ops->next(w, 0, err);
    return w->changed || w->again || (status && status != TENURE_TIMEOUT) ? TENURE_OK
                                                                          : TENURE_TIMEOUT;
}

static enum tenure_status wait_for_change(struct tn_watcher *w, struct tenure_error *err)
{
    enum tenure_status status = begin(w, err);

    while (!status && !w->changed) {
        status = w->ops->next(w, check_at(w), err);
        if (w->changed)
            return TENURE_OK;
        if (status == TENURE_CANCELLED)
            return status;
        if (status && status != TENURE_TIMEOUT) {
            lose_all(w);
            if (w->session)
                return status;
        }
        if (tenure_now() >= w->deadline)
            return end_wait(w, status, err);
        if (status || w->again)
            status = begin(w, err);
    }
    return status;
}

enum tenure_status tn_watcher_wait(void *impl, const struct tenure_watch *watches, size_t n,
                                   int wake_fd, int64_t deadline, struct tenure_error *err)
{
    struct tn_watcher *w = impl;
    struct pollfd wake = {.fd = wake_fd, .events = POLLIN};
    enum tenure_status status;

    assert(n <= TENURE_WATCH_MAX && !w->watches);
    /* Woken already: better now than in the middle of an exchange. */
    if ((n ? poll(&wake, 1, 0) : tn_poll(&wake, 1, deadline)) > 0) {
        status = TENURE_CANCELLED;
    } else if (n == 0) {
        status = TENURE_TIMEOUT;
    } else {
        w->watches = watches;
        w->n_watches = n;
        w->deadline = deadline;
        w->changed = false;
        w->brief = 0;
        *w->cancel_fd = wake_fd;
        status = wait_for_change(w, err);
        *w->cancel_fd = -1;
        w->watches = NULL;
        w->n_watches = 0;
        w->compared = false;
    }
    if (status == TENURE_TIMEOUT)
        tenure_fail(err, status, "%s: nothing changed", w->scheme);
    if (status == TENURE_CANCELLED)
        tenure_fail(err, status, "%s: wait was cancelled", w->scheme);
    return status;
}
