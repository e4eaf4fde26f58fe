/* Listings: everything in scope, put into the order of the keys. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/kube/kube.h"
#include "store/pager.h"

#define PAGE "100"

struct found {
    const char *key; /* in object */
    json_t *object;
};

struct listing {
    struct tn_pager pager;
    struct found *all;
    size_t n, cap;
};

static int by_key(const void *a, const void *b)
{
    return strcmp(((const struct found *)a)->key, ((const struct found *)b)->key);
}

/* Does the object have the name of the key that it says to hold? */
static bool named(const struct tn_kube *h, const json_t *item, const char *key)
{
    char name[TN_KUBE_NAME_MAX + 1];
    const char *called = tn_kube_meta(item, "name");

    if (!key || !called)
        return false;
    tn_kube_name(h, key, name);
    return strcmp(name, called) == 0;
}

/*
 * Objects under a name that is not theirs are copies of somebody's, and no
 * registers.  But one whose name is made like ours is a register that does not
 * say which: if it may be one of these it must not be taken for absent.
 */
static enum tenure_status check_nameless(const struct tn_kube *h, const json_t *item,
                                         const char *prefix, struct tenure_error *err)
{
    const char *called = tn_kube_meta(item, "name");

    if (!called || !tn_kube_name_under(called, prefix))
        return TENURE_OK;
    return tenure_fail(err, TENURE_CORRUPT,
                       "kube: Lease %s/%s: its annotation tenure/key is lost; it was not touched: "
                       "write it again, with the key that the name was made of (kubectl annotate "
                       "lease)",
                       h->namespace, called);
}

static enum tenure_status take_page(struct listing *l, const json_t *items,
                                    struct tenure_error *err)
{
    const struct tn_kube *h = l->pager.impl;
    const char *prefix = l->pager.prefix;
    json_t *item;
    size_t i;

    json_array_foreach(items, i, item)
    {
        const char *key = tn_kube_key_of(item);

        if (!named(h, item, key)) {
            enum tenure_status status = check_nameless(h, item, prefix, err);

            if (status)
                return status;
            continue;
        }
        if (strncmp(key, prefix, strlen(prefix)) != 0 || strcmp(key, l->pager.last) <= 0)
            continue;
        if (l->n == l->cap) {
            size_t cap = l->cap ? l->cap * 2 : 64;
            struct found *grown = realloc(l->all, cap * sizeof *grown);

            if (!grown)
                return tenure_fail(err, TENURE_NOMEM, "kube: out of memory for a listing");
            l->all = grown;
            l->cap = cap;
        }
        l->all[l->n++] = (struct found){key, json_incref(item)};
    }
    return TENURE_OK;
}

/* A token for the next page is text of the server's: only what a URL may hold. */
static bool is_plain(const char *text)
{
    return strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~") ==
           strlen(text);
}

static enum tenure_status fetch_page(struct tn_kube *h, const char *query, int64_t deadline,
                                     json_t **root, char rv[TN_KUBE_RV_MAX + 1],
                                     struct tenure_error *err)
{
    struct tn_kube_request rq = {.method = "GET", .query = query};
    struct tn_kube_answer answer;
    enum tenure_status status = tn_kube_call(h, &rq, deadline, &answer, err);
    const char *version = status ? NULL : tn_kube_meta(answer.root, "resourceVersion");

    if (!status && answer.code != 200)
        status = tenure_fail(err, TENURE_UNAVAILABLE, "kube: the listing was ended (HTTP %ld)",
                             answer.code);
    else if (!status && (!json_is_array(json_object_get(answer.root, "items")) || !version ||
                         !*version || strlen(version) > TN_KUBE_RV_MAX))
        status = tenure_fail(err, TENURE_UNAVAILABLE, "kube: the listing cannot be understood");
    if (status) {
        json_decref(answer.root);
    } else {
        snprintf(rv, TN_KUBE_RV_MAX + 1, "%s", version);
        *root = answer.root;
    }
    return status;
}

static enum tenure_status collect(struct listing *l, struct tenure_error *err)
{
    struct tn_kube *h = l->pager.impl;
    char query[1500], next[1024] = "", rv[TN_KUBE_RV_MAX + 1];
    enum tenure_status status = TENURE_OK;

    do {
        json_t *root = NULL;

        snprintf(query, sizeof query, "labelSelector=tenure%%2Fscope%%3D%s&limit=" PAGE "%s%s",
                 h->scope, *next ? "&continue=" : "", next);
        status = fetch_page(h, query, l->pager.deadline, &root, rv, err);
        if (status)
            break;
        /* All pages show what the first one did: its version is that of the whole. */
        if (l->pager.mark)
            snprintf(l->pager.mark, TENURE_VERSION_MAX + 1, "%s", rv);
        l->pager.mark = NULL;
        status = take_page(l, json_object_get(root, "items"), err);
        const char *more = tn_kube_meta(root, "continue");
        if (!status && more && (strlen(more) >= sizeof next || !is_plain(more)))
            status = tenure_fail(err, TENURE_UNAVAILABLE, "kube: the listing cannot be continued");
        else
            snprintf(next, sizeof next, "%s", more ? more : "");
        json_decref(root);
    } while (!status && *next);
    return status;
}

static enum tenure_status decode(struct tn_pager *p, const char *key, const void *row,
                                 struct tenure_error *err)
{
    const struct tn_kube *h = p->impl;
    enum tenure_status status = tn_kube_decode(key, row, &p->value, err);

    if (status)
        tenure_fail_context(err, "kube: %s: Lease %s/%s", key, h->namespace,
                            tn_kube_meta(row, "name"));
    return status;
}

static enum tenure_status take_damaged(struct tn_pager *p, const char *key, const void *row,
                                       struct tenure_error *err)
{
    (void)key;
    return tn_kube_take_damaged(row, &p->value, err);
}

/* The server's order is that of the names: all pages are one of ours. */
static enum tenure_status list_page(struct tn_pager *p, struct tenure_error *err)
{
    struct listing *l = (struct listing *)p; /* the pager is its first member */
    enum tenure_status status = collect(l, err);

    if (!status && l->n)
        qsort(l->all, l->n, sizeof *l->all, by_key);
    for (size_t i = 0; i < l->n && !status && !p->stop; i++)
        status = tn_pager_show(p, l->all[i].key, l->all[i].object, err);
    for (size_t i = 0; i < l->n; i++)
        json_decref(l->all[i].object);
    free(l->all);
    return status;
}

enum tenure_status tn_kube_list(void *impl, const char *prefix, const char *after,
                                tenure_visit_fn visit, void *arg, char mark[TENURE_VERSION_MAX + 1],
                                int64_t deadline, struct tenure_error *err)
{
    static const struct tn_pager_ops ops = {list_page, decode, take_damaged};
    const struct tn_kube *h = impl;
    struct listing l = {0};

    return tn_pager_list(&l.pager, &ops, impl, h->repair, prefix, after, visit, arg, mark, deadline,
                         err);
}

enum tenure_status tn_kube_list_version(struct tn_kube *h, int64_t deadline,
                                        char rv[TN_KUBE_RV_MAX + 1], struct tenure_error *err)
{
    char query[100];
    json_t *root = NULL;
    enum tenure_status status;

    snprintf(query, sizeof query, "limit=1&labelSelector=tenure%%2Fscope%%3D%s", h->scope);
    status = fetch_page(h, query, deadline, &root, rv, err);
    json_decref(root);
    return status;
}
