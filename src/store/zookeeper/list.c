/* Listings: folder by folder, each in the order of its names. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/pager.h"
#include "store/zookeeper/zookeeper.h"

struct listing {
    struct tn_pager pager;
    bool begun;
    /* On the stack of keys a folder ends with '/', and is replaced by what is in it. */
};

/* ---- Names --------------------------------------------------------------- */

static bool is_folder(const char *key)
{
    return key[strlen(key) - 1] == '/';
}

/* Could something under prefix and behind `last` stand under this name? */
static bool is_wanted(const struct listing *l, const char *key)
{
    const char *prefix = l->pager.prefix, *last = l->pager.last;
    size_t n = strlen(key), p = strlen(prefix);
    bool folder = is_folder(key);

    if (strncmp(key, prefix, folder && n < p ? n : p) != 0)
        return false;
    return strcmp(key, last) > 0 || (folder && strncmp(key, last, n) == 0);
}

/* The children of a folder go on top of the stack, the first one last. */
static enum tenure_status push(struct listing *l, const char *folder, char *const *names, size_t n,
                               struct tenure_error *err)
{
    size_t first = l->pager.n_keys;
    enum tenure_status status = TENURE_OK;

    for (size_t i = 0; i < n && !status; i++) {
        size_t len = strlen(names[i]);
        bool node = len && names[i][len - 1] == '#';
        char key[TENURE_KEY_MAX + 2];

        if (len == (size_t)node) /* of a name "#", which is not ours, the folder would be left */
            continue;
        if (snprintf(key, sizeof key, "%s%.*s%s", folder, (int)(len - node), names[i],
                     node ? "" : "/") >= (int)sizeof key ||
            !tenure_prefix_valid(key) || !is_wanted(l, key))
            continue;
        status = tn_pager_push_key(&l->pager, key, err);
    }
    tn_pager_sort_keys(&l->pager, first);
    return status;
}

static void send_folder(struct tn_zk *h, struct tn_zk_call *calls, size_t n, const void *arg)
{
    char path[TN_ZK_PATH];
    int len = (int)strlen(arg);

    (void)n;
    snprintf(path, sizeof path, "%s%s%.*s", h->conf.base, len ? "/" : "", len ? len - 1 : 0,
             (const char *)arg);
    tn_zk_children(h, path, &calls[0]);
}

static enum tenure_status open_folder(struct listing *l, const char *folder,
                                      struct tenure_error *err)
{
    struct tn_zk_call calls[2] = {0};
    enum tenure_status status =
        tn_zk_ask(l->pager.impl, calls, 2, send_folder, folder, l->pager.deadline, err);

    if (!status)
        status = push(l, folder, calls[1].names, calls[1].n_names, err);
    tn_zk_call_free(&calls[0]);
    tn_zk_call_free(&calls[1]);
    return status;
}

/* ---- Values -------------------------------------------------------------- */

static enum tenure_status decode(struct tn_pager *p, const char *key, const void *row,
                                 struct tenure_error *err)
{
    return tn_zk_decode(p->impl, key, row, &p->value, err);
}

/* Whoever repairs reads each one by itself. */
static enum tenure_status take_damaged(struct tn_pager *p, const char *key, const void *row,
                                       struct tenure_error *err)
{
    (void)row;
    if (p->repair)
        return tn_raw_read(&tn_zk_raw, p->impl, key, true, &p->value, p->deadline, err);
    return tn_damaged_value(&p->value, ((const struct tn_zk_call *)row)->data,
                            ((const struct tn_zk_call *)row)->len, err);
}

static void send_values(struct tn_zk *h, struct tn_zk_call *calls, size_t n, const void *arg)
{
    const struct tn_pager *p = arg;
    char path[TN_ZK_PATH];

    for (size_t i = 0; i < n; i++) {
        tn_zk_path(h, p->keys[p->n_keys - 1 - i], path);
        tn_zk_get(h, path, &calls[i]);
    }
}

/* Registers on top of the stack, up to the next folder. */
static enum tenure_status show_values(struct tn_pager *p, struct tenure_error *err)
{
    struct tn_zk_call calls[TN_ZK_READS_MAX + 1] = {0};
    size_t n = 0;
    enum tenure_status status;

    while (n < p->n_keys && n < TN_ZK_READS_MAX && !is_folder(p->keys[p->n_keys - 1 - n]))
        n++;
    status = tn_zk_ask(p->impl, calls, n + 1, send_values, p, p->deadline, err);
    for (size_t i = 0; i < n; i++) {
        char *key = p->keys[--p->n_keys];

        if (!status && !p->stop && calls[i + 1].rc == ZOK)
            status = tn_pager_show(p, key, &calls[i + 1], err);
        free(key);
    }
    for (size_t i = 0; i <= n; i++)
        tn_zk_call_free(&calls[i]);
    return status;
}

/* ---- Pages --------------------------------------------------------------- */

static void send_mark(struct tn_zk *h, struct tn_zk_call *calls, size_t n, const void *arg)
{
    char path[TN_ZK_PATH];

    (void)n;
    tn_zk_folder(h, arg, path);
    tn_zk_get(h, path, &calls[0]);
}

/* The mark is taken before anything is read: what changes behind it shows. */
static enum tenure_status begin(struct listing *l, struct tenure_error *err)
{
    struct tn_pager *p = &l->pager;
    const char *end = strrchr(p->prefix, '/');
    char folder[TENURE_KEY_MAX + 2];
    struct tn_zk_call calls[2] = {0};
    enum tenure_status status = TENURE_OK;

    l->begun = true;
    if (p->mark) {
        status = tn_zk_ask(p->impl, calls, 2, send_mark, p->prefix, p->deadline, err);
        if (!status)
            tn_zk_mark(&calls[1], p->mark);
        p->mark = NULL;
        tn_zk_call_free(&calls[0]);
        tn_zk_call_free(&calls[1]);
    }
    snprintf(folder, sizeof folder, "%.*s", end ? (int)(end - p->prefix) + 1 : 0, p->prefix);
    return status ? status : open_folder(l, folder, err);
}

static enum tenure_status list_page(struct tn_pager *p, struct tenure_error *err)
{
    struct listing *l = (struct listing *)p; /* the pager is its first member */
    enum tenure_status status = TENURE_OK;

    if (!l->begun) {
        status = begin(l, err);
    } else if (is_folder(p->keys[p->n_keys - 1])) {
        char *folder = p->keys[--p->n_keys];

        status = open_folder(l, folder, err);
        free(folder);
    } else {
        status = show_values(p, err);
    }
    p->more = p->n_keys > 0;
    return status;
}

enum tenure_status tn_zk_list(void *impl, const char *prefix, const char *after,
                              tenure_visit_fn visit, void *arg, char mark[TENURE_VERSION_MAX + 1],
                              int64_t deadline, struct tenure_error *err)
{
    static const struct tn_pager_ops ops = {list_page, decode, take_damaged};
    struct tn_zk *h = impl;
    struct listing l = {0};

    return tn_pager_list(&l.pager, &ops, impl, h->conf.repair, prefix, after, visit, arg, mark,
                         deadline, err);
}
