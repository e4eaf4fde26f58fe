/* Listings: names and tags come by pages, in byte order; what the registers hold, some at once. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "base/sum.h"
#include "store/object/object.h"
#include "store/pager.h"

struct listing {
    struct tn_pager pager;
    struct tn_object_page page; /* what was listed last */
    bool listed;                /* ... and has not been shown yet */
};

/* ---- Pages --------------------------------------------------------------- */

void tn_object_page_free(struct tn_object_page *page)
{
    free(page->rows);
    free(page->next);
    memset(page, 0, sizeof *page);
}

bool tn_object_page_add(struct tn_object_page *page, const char *name, const char *tag)
{
    if (strlen(name) > TN_OBJECT_NAME_MAX || strlen(tag) > TN_OBJECT_TAG_MAX)
        return true;
    if (!tn_grow(&page->rows, &page->cap, page->n, sizeof *page->rows))
        return false;
    snprintf(page->rows[page->n].name, sizeof page->rows[0].name, "%s", name);
    snprintf(page->rows[page->n].tag, sizeof page->rows[0].tag, "%s", tag);
    page->n++;
    return true;
}

/* The page behind this one; the first one of a page that is zeroed. */
static enum tenure_status fetch(struct tn_object *h, const char *prefix, const char *after,
                                struct tn_object_page *page, int64_t deadline,
                                struct tenure_error *err)
{
    struct tn_object_exchange x = {.verb = TN_OBJECT_LIST};
    struct tn_object_page fresh = {0};
    char behind[TN_OBJECT_NAME_MAX + 1];
    enum tenure_status status;

    snprintf(x.name, sizeof x.name, "%s%s", h->conf.base, prefix);
    if (after) {
        snprintf(behind, sizeof behind, "%s%s" TN_OBJECT_END, h->conf.base, after);
        x.after = behind;
    }
    x.next = page->next;
    tn_object_send(h, &x, 1, deadline);
    status = x.status;
    if (status)
        *err = x.err;
    else if ((status = h->vendor->page(x.answer.body, x.answer.len, &fresh, err)))
        tenure_fail_context(err, "%s: %s", h->vendor->scheme, h->server);
    /* A server that says the same again and again would keep us here. */
    if (!status && fresh.next && page->next && strcmp(fresh.next, page->next) == 0)
        status = tenure_fail(err, TENURE_UNAVAILABLE, "%s: %s: the listing does not go on",
                             h->vendor->scheme, h->server);
    tn_object_release(&x, 1);
    tn_object_page_free(page);
    *page = fresh;
    return status;
}

/* The key of a row.  False: it is not ours. */
static bool key_of(const struct tn_object *h, const char *name, char key[TENURE_KEY_MAX + 1])
{
    size_t base = strlen(h->conf.base), n = strlen(name);

    if (n <= base + 1 || n - base - 1 > TENURE_KEY_MAX || strncmp(name, h->conf.base, base) != 0 ||
        name[n - 1] != TN_OBJECT_END[0])
        return false;
    memcpy(key, name + base, n - base - 1);
    key[n - base - 1] = '\0';
    return tenure_key_valid(key);
}

/* ---- Marks --------------------------------------------------------------- */

struct sum {
    uint64_t value;
    size_t rows;
};

static void add_page(const struct tn_object *h, const struct tn_object_page *page, struct sum *sum)
{
    char key[TENURE_KEY_MAX + 1];

    for (size_t i = 0; i < page->n; i++) {
        if (!key_of(h, page->rows[i].name, key))
            continue;
        sum->value = tn_sum(sum->value, page->rows[i].name, strlen(page->rows[i].name) + 1);
        sum->value = tn_sum(sum->value, page->rows[i].tag, strlen(page->rows[i].tag) + 1);
        sum->rows++;
    }
}

/* Of everything behind the page too, which is read for that and then is the last one. */
static enum tenure_status sum_up(struct tn_object *h, const char *prefix,
                                 struct tn_object_page *page, int64_t deadline,
                                 char mark[TENURE_VERSION_MAX + 1], struct tenure_error *err)
{
    struct sum sum = {TN_SUM_START, 0};
    enum tenure_status status = TENURE_OK;

    add_page(h, page, &sum);
    while (!status && page->next) {
        status = fetch(h, prefix, NULL, page, deadline, err);
        add_page(h, page, &sum);
    }
    snprintf(mark, TENURE_VERSION_MAX + 1, "%zu.%016llx", sum.rows, (unsigned long long)sum.value);
    return status;
}

enum tenure_status tn_object_mark(struct tn_object *h, const char *prefix, int64_t deadline,
                                  char mark[TENURE_VERSION_MAX + 1], struct tenure_error *err)
{
    struct tn_object_page page = {0};
    enum tenure_status status = fetch(h, prefix, NULL, &page, deadline, err);

    if (!status)
        status = sum_up(h, prefix, &page, deadline, mark, err);
    tn_object_page_free(&page);
    return status;
}

/* ---- Registers ----------------------------------------------------------- */

static enum tenure_status decode(struct tn_pager *p, const char *key, const void *row,
                                 struct tenure_error *err)
{
    const struct tn_object_exchange *x = row;

    if (x->outcome != TN_OBJECT_DONE) /* it has vanished meanwhile */
        return tenure_value_absent(&p->value, err);
    return tn_object_raw.decode(p->impl, key, row, &p->value, err);
}

static enum tenure_status take_damaged(struct tn_pager *p, const char *key, const void *row,
                                       struct tenure_error *err)
{
    return tn_object_raw.take_damaged(p->impl, key, row, &p->value, err);
}

/* The next registers of the page, from row *i on. */
static enum tenure_status show_some(struct listing *l, size_t *i, const char *after,
                                    struct tenure_error *err)
{
    struct tn_object *h = l->pager.impl;
    struct tn_object_exchange xs[TN_OBJECT_CALLS] = {0};
    char keys[TN_OBJECT_CALLS][TENURE_KEY_MAX + 1];
    enum tenure_status status = TENURE_OK;
    size_t n = 0;

    for (; *i < l->page.n && n < TN_OBJECT_CALLS; ++*i) {
        if (!key_of(h, l->page.rows[*i].name, keys[n]) || strcmp(keys[n], after) <= 0)
            continue;
        xs[n].verb = TN_OBJECT_GET;
        tn_object_name(h, keys[n], &xs[n]);
        n++;
    }
    if (n)
        tn_object_send(h, xs, n, l->pager.deadline);
    for (size_t k = 0; k < n && !status && !l->pager.stop; k++) {
        status = xs[k].status;
        if (status)
            *err = xs[k].err;
        else
            status = tn_pager_show(&l->pager, keys[k], &xs[k], err);
    }
    tn_object_release(xs, n);
    return status;
}

static enum tenure_status list_page(struct tn_pager *p, struct tenure_error *err)
{
    struct listing *l = (struct listing *)p; /* the pager is its first member */
    char after[TENURE_KEY_MAX + 1];
    enum tenure_status status = TENURE_OK;

    memcpy(after, p->last, sizeof after);
    if (p->mark) { /* of the whole prefix, whatever is shown of it */
        status = fetch(p->impl, p->prefix, NULL, &l->page, p->deadline, err);
        l->listed = !status && !l->page.next;
        if (!status)
            status = sum_up(p->impl, p->prefix, &l->page, p->deadline, p->mark, err);
        p->mark = NULL;
        if (!l->listed)
            tn_object_page_free(&l->page);
    }
    if (!status && !l->listed)
        status = fetch(p->impl, p->prefix, after[0] && !l->page.next ? after : NULL, &l->page,
                       p->deadline, err);
    l->listed = false;
    for (size_t i = 0; !status && i < l->page.n && !p->stop;)
        status = show_some(l, &i, after, err);
    p->more = l->page.next != NULL;
    return status;
}

enum tenure_status tn_object_list(void *impl, const char *prefix, const char *after,
                                  tenure_visit_fn visit, void *arg,
                                  char mark[TENURE_VERSION_MAX + 1], int64_t deadline,
                                  struct tenure_error *err)
{
    static const struct tn_pager_ops ops = {list_page, decode, take_damaged};
    struct tn_object *h = impl;
    struct listing l = {0};
    enum tenure_status status = tn_pager_list(&l.pager, &ops, impl, h->conf.repair, prefix, after,
                                              visit, arg, mark, deadline, err);

    tn_object_page_free(&l.page);
    return status;
}
