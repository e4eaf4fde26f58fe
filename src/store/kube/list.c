/* Listings: everything in scope, put into the order of the keys. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/damaged.h"
#include "store/kube/kube.h"

#define PAGE "100"

struct found {
    const char *key; /* in object */
    json_t *object;
};

struct listing {
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

static enum tenure_status take_page(const struct tn_kube *h, struct listing *l, const json_t *items,
                                    const char *prefix, const char *after, struct tenure_error *err)
{
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
        if (strncmp(key, prefix, strlen(prefix)) != 0 || (after && strcmp(key, after) <= 0))
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

static enum tenure_status ask(struct tn_kube *h, const char *query, int64_t deadline, json_t **root,
                              char rv[TN_KUBE_RV_MAX + 1], struct tenure_error *err)
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

static enum tenure_status collect(struct tn_kube *h, struct listing *l, const char *prefix,
                                  const char *after, char *mark, int64_t deadline,
                                  struct tenure_error *err)
{
    char query[1500], next[1024] = "", rv[TN_KUBE_RV_MAX + 1];
    enum tenure_status status = TENURE_OK;
    bool first = true;

    do {
        json_t *root = NULL;

        snprintf(query, sizeof query, "labelSelector=tenure%%2Fscope%%3D%s&limit=" PAGE "%s%s",
                 h->scope, *next ? "&continue=" : "", next);
        status = ask(h, query, deadline, &root, rv, err);
        if (status)
            break;
        /* All pages show what the first one did: its version is that of the whole. */
        if (first && mark)
            snprintf(mark, TENURE_VERSION_MAX + 1, "%s", rv);
        first = false;
        status = take_page(h, l, json_object_get(root, "items"), prefix, after, err);
        const char *more = tn_kube_meta(root, "continue");
        if (!status && more && (strlen(more) >= sizeof next || !is_plain(more)))
            status = tenure_fail(err, TENURE_UNAVAILABLE, "kube: the listing cannot be continued");
        else
            snprintf(next, sizeof next, "%s", more ? more : "");
        json_decref(root);
    } while (!status && *next);
    return status;
}

/* What is damaged does not end the listing; read() tells why. */
static enum tenure_status take(const struct tn_kube *h, const struct found *found,
                               struct tenure_value *value, struct tenure_error *err)
{
    enum tenure_status status = tn_kube_decode(found->key, found->object, value, err);

    if (!status)
        return TENURE_OK;
    tenure_fail_context(err, "kube: %s: Lease %s/%s", found->key, h->namespace,
                        tn_kube_meta(found->object, "name"));
    if (status != TENURE_CORRUPT)
        return status;
    struct tenure_error why = *err;
    status = tn_kube_take_damaged(found->object, value, err);
    return status || h->repair ? status : tn_damaged_listed(value, &why, err);
}

static enum tenure_status show(struct tn_kube *h, const struct listing *l, tenure_visit_fn visit,
                               void *arg, struct tenure_error *err)
{
    struct tenure_value value = {0};
    enum tenure_status status = TENURE_OK;

    for (size_t i = 0; i < l->n && !status; i++) {
        status = take(h, &l->all[i], &value, err);
        if (!status && !visit(arg, l->all[i].key, &value))
            break;
    }
    tenure_value_free(&value);
    return status;
}

enum tenure_status tn_kube_list(void *impl, const char *prefix, const char *after,
                                tenure_visit_fn visit, void *arg, char mark[TENURE_VERSION_MAX + 1],
                                int64_t deadline, struct tenure_error *err)
{
    struct listing l = {0};
    enum tenure_status status = collect(impl, &l, prefix, after, mark, deadline, err);

    if (!status && l.n) {
        qsort(l.all, l.n, sizeof *l.all, by_key);
        status = show(impl, &l, visit, arg, err);
    }
    for (size_t i = 0; i < l.n; i++)
        json_decref(l.all[i].object);
    free(l.all);
    return status;
}

enum tenure_status tn_kube_list_version(struct tn_kube *h, int64_t deadline,
                                        char rv[TN_KUBE_RV_MAX + 1], struct tenure_error *err)
{
    char query[100];
    json_t *root = NULL;
    enum tenure_status status;

    snprintf(query, sizeof query, "limit=1&labelSelector=tenure%%2Fscope%%3D%s", h->scope);
    status = ask(h, query, deadline, &root, rv, err);
    json_decref(root);
    return status;
}
