/*
 * store/pager.h - list() of a store, page by page.
 *
 * What is stated once, for all back ends: a damaged value never ends a listing.  A visitor sees
 * the reason instead, under a token that no value has which the store wrote (store/damaged.h);
 * who repairs sees the bytes as they are.  Only what is none of ours, or has vanished meanwhile,
 * is passed over.
 */
#ifndef TN_STORE_PAGER_H
#define TN_STORE_PAGER_H

#include "tenure/store.h"

struct tn_pager;

struct tn_pager_ops {
    /* Fetch what stands behind p->last, tn_pager_show() each, and say whether there is p->more. */
    enum tenure_status (*page)(struct tn_pager *p, struct tenure_error *err);
    /* A row of a page into p->value; CORRUPT leaves the reason in err. */
    enum tenure_status (*decode)(struct tn_pager *p, const char *key, const void *row,
                                 struct tenure_error *err);
    /* One that is CORRUPT as it is, by tn_damaged_value(); CORRUPT: too large even for that. */
    enum tenure_status (*take_damaged)(struct tn_pager *p, const char *key, const void *row,
                                       struct tenure_error *err);
};

/* One listing; a back end that needs more keeps it as the first member of its own. */
struct tn_pager {
    const struct tn_pager_ops *ops;
    void *impl;
    const char *prefix;
    tenure_visit_fn visit;
    void *arg;
    char *mark;  /* for page() to fill once, and then to set to NULL; or NULL */
    bool repair; /* the visitor repairs */
    int64_t deadline;
    char last[TENURE_KEY_MAX + 1]; /* the page behind this key comes next; "": the first one */
    bool more;
    bool stop; /* the visitor has seen enough */
    struct tenure_value value;
    char **keys; /* a stack of names, for a back end that is told them before the values */
    size_t n_keys, keys_cap;
};

/* list() of struct tenure_store_ops, with a zeroed pager. */
enum tenure_status tn_pager_list(struct tn_pager *p, const struct tn_pager_ops *ops, void *impl,
                                 bool repair, const char *prefix, const char *after,
                                 tenure_visit_fn visit, void *arg, char *mark, int64_t deadline,
                                 struct tenure_error *err);
/* Show a row to the visitor.  Nothing more is shown if p->stop is set behind it. */
enum tenure_status tn_pager_show(struct tn_pager *p, const char *key, const void *row,
                                 struct tenure_error *err);
/* Put a copy of a key on the stack, which ends with the listing. */
enum tenure_status tn_pager_push_key(struct tn_pager *p, const char *key, struct tenure_error *err);
/* Order the stack from a height on: its first key is the top. */
void tn_pager_sort_keys(struct tn_pager *p, size_t from);

#endif
