/* News of changes: one watch for each register or folder that is followed (store/watcher.h). */
#include <stdlib.h>
#include <string.h>

#include "store/zookeeper/zookeeper.h"

static void path_of(const struct tn_zk *h, const char *key, bool prefix, char path[TN_ZK_PATH])
{
    if (prefix)
        tn_zk_folder(h, key, path);
    else
        tn_zk_path(h, key, path);
}

/* ---- Events -------------------------------------------------------------- */

/* A watch tells once: what it was for is followed again before the wait goes on. */
static void take_event(struct tn_zk *h, const char *path)
{
    struct tn_watcher *w = &h->watcher;
    char own[TN_ZK_PATH];

    for (unsigned i = 0; i < w->n_followed; i++) {
        struct tn_followed *one = &w->followed[i];

        path_of(h, one->key, one->prefix, own);
        if (!one->live || strcmp(own, path) != 0)
            continue;
        one->live = one->known = false;
        w->again = true;
        for (size_t k = 0; w->compared && k < w->n_watches; k++) {
            if (w->watches[k].prefix == one->prefix && strcmp(w->watches[k].key, one->key) == 0)
                tn_watcher_changed(w);
        }
    }
}

static void on_event(zhandle_t *session, int type, int state, const char *path, void *arg)
{
    struct tn_zk *h = arg;

    (void)state;
    /* A session that ends is seen by whoever turns its loop. */
    if (type != ZOO_SESSION_EVENT && session == h->session && h->generation == h->subscribed)
        take_event(h, path);
}

static enum tenure_status next(struct tn_watcher *w, int64_t until, struct tenure_error *err)
{
    struct tn_zk *h = w->impl;

    if (!h->session || h->subscribed != h->generation)
        return tenure_fail(err, TENURE_UNAVAILABLE, "zookeeper: the session has ended");
    return tn_zk_turn(h, until, err);
}

/* ---- Subscribing --------------------------------------------------------- */

/* A watch, and then what the register is: nothing falls between the two. */
static enum tenure_status follow(struct tn_zk *h, struct tn_followed *one, int64_t by,
                                 struct tenure_error *err)
{
    struct tn_zk_call calls[2] = {0};
    struct tenure_value value = {0};
    char path[TN_ZK_PATH];
    enum tenure_status status;

    path_of(h, one->key, one->prefix, path);
    tn_watcher_confirm(one);
    tn_zk_watch(h, path, on_event, &calls[0]);
    tn_zk_get(h, path, &calls[1]);
    status = tn_zk_finish(h, calls, 2, by, err);
    for (size_t i = 0; i < 2 && !status; i++) {
        if (calls[i].rc != ZOK && calls[i].rc != ZNONODE)
            status = tn_zk_explain(h, calls[i].rc, path, err);
    }
    if (status)
        one->live = false;
    else if (one->live && !one->prefix && calls[1].rc == ZOK && !calls[1].failed &&
             !tn_zk_decode(h, one->key, &calls[1], &value, err))
        tn_watcher_learn(&h->watcher, one->key, &value.token);
    tenure_value_free(&value);
    tn_zk_call_free(&calls[0]);
    tn_zk_call_free(&calls[1]);
    return status;
}

static enum tenure_status subscribe(struct tn_watcher *w, int64_t by, struct tenure_error *err)
{
    struct tn_zk *h = w->impl;
    enum tenure_status status = tn_zk_connect(h, by, err);

    if (status)
        return status;
    for (unsigned i = 0; h->subscribed != h->generation && i < w->n_followed; i++)
        w->followed[i].live = w->followed[i].known = false;
    h->subscribed = h->generation;
    for (unsigned i = 0; i < w->n_followed && !status; i++) {
        if (!w->followed[i].live)
            status = follow(h, &w->followed[i], by, err);
    }
    return status;
}

/* ---- Comparing ----------------------------------------------------------- */

static bool is_same(const struct tn_zk *h, const struct tenure_watch *watch,
                    const struct tn_zk_call *node)
{
    struct tenure_value value = {0};
    struct tenure_error ignored;
    char mark[TENURE_VERSION_MAX + 1];
    bool same;

    if (watch->prefix) {
        tn_zk_mark(node, mark);
        return strcmp(mark, watch->mark) == 0;
    }
    if (node->rc == ZNONODE)
        return tenure_token_absent(&watch->seen);
    if (tn_zk_decode(h, watch->key, node, &value, &ignored))
        return tn_damaged(&watch->seen); /* which only an operator has seen */
    same = tenure_token_equal(&value.token, &watch->seen);
    tenure_value_free(&value);
    return same;
}

static void send_compare(struct tn_zk *h, struct tn_zk_call *calls, size_t n, const void *arg)
{
    const struct tenure_watch *const *watches = arg;
    char path[TN_ZK_PATH];

    for (size_t i = 0; i < n; i++) {
        path_of(h, watches[i]->key, watches[i]->prefix, path);
        tn_zk_get(h, path, &calls[i]);
    }
}

static enum tenure_status compare(struct tn_watcher *w, const struct tenure_watch *const *watches,
                                  size_t n, int64_t by, bool *changed, struct tenure_error *err)
{
    struct tn_zk *h = w->impl;
    struct tn_zk_call calls[TENURE_WATCH_MAX + 1] = {0};
    enum tenure_status status = tn_zk_ask(h, calls, n + 1, send_compare, watches, by, err);

    *changed = false;
    for (size_t i = 0; i < n && !status; i++)
        *changed = *changed || !is_same(h, watches[i], &calls[i + 1]);
    for (size_t i = 0; i <= n; i++)
        tn_zk_call_free(&calls[i]);
    return status;
}

void tn_zk_watcher_init(struct tn_zk *h)
{
    static const struct tn_watcher_ops ops = {
        .subscribe = subscribe, .next = next, .compare = compare};

    h->watcher = (struct tn_watcher){.ops = &ops,
                                     .impl = h,
                                     .scheme = "zookeeper",
                                     .cancel_fd = &h->cancel_fd,
                                     .attempts = 2,
                                     .share = true};
}
