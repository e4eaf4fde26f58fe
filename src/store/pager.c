#include "store/pager.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "store/damaged.h"

enum tenure_status tn_pager_list(struct tn_pager *p, const struct tn_pager_ops *ops, void *impl,
                                 bool repair, const char *prefix, const char *after,
                                 tenure_visit_fn visit, void *arg, char *mark, int64_t deadline,
                                 struct tenure_error *err)
{
    enum tenure_status status;

    p->ops = ops;
    p->impl = impl;
    p->prefix = prefix;
    p->visit = visit;
    p->arg = arg;
    p->mark = mark;
    p->repair = repair;
    p->deadline = deadline;
    if (after)
        snprintf(p->last, sizeof p->last, "%s", after);
    do {
        p->more = false;
        status = p->ops->page(p, err);
    } while (!status && p->more && !p->stop);
    while (p->n_keys)
        free(p->keys[--p->n_keys]);
    free(p->keys);
    tenure_value_free(&p->value);
    return status;
}

enum tenure_status tn_pager_push_key(struct tn_pager *p, const char *key, struct tenure_error *err)
{
    char *copy = tn_grow(&p->keys, &p->keys_cap, p->n_keys, sizeof(char *)) ? strdup(key) : NULL;

    if (!copy)
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    p->keys[p->n_keys++] = copy;
    return TENURE_OK;
}

static int backwards(const void *a, const void *b)
{
    return -strcmp(*(char *const *)a, *(char *const *)b);
}

void tn_pager_sort_keys(struct tn_pager *p, size_t from)
{
    if (p->n_keys > from)
        qsort(p->keys + from, p->n_keys - from, sizeof *p->keys, backwards);
}

static enum tenure_status take_damaged(struct tn_pager *p, const char *key, const void *row,
                                       struct tenure_error *err)
{
    struct tenure_error why = *err;
    enum tenure_status status = p->ops->take_damaged(p, key, row, err);

    if (status == TENURE_CORRUPT)
        return tn_damaged_value(&p->value, why.text, strlen(why.text), err);
    return status || p->repair ? status : tn_damaged_listed(&p->value, &why, err);
}

enum tenure_status tn_pager_show(struct tn_pager *p, const char *key, const void *row,
                                 struct tenure_error *err)
{
    enum tenure_status status;

    assert(!p->stop);
    if (!tenure_key_valid(key) || strncmp(key, p->prefix, strlen(p->prefix)) != 0)
        return TENURE_OK; /* anybody may write beside us */
    status = p->ops->decode(p, key, row, err);
    if (status == TENURE_CORRUPT)
        status = take_damaged(p, key, row, err);
    if (status || tenure_token_absent(&p->value.token))
        return status;
    snprintf(p->last, sizeof p->last, "%s", key);
    p->stop = !p->visit(p->arg, key, &p->value);
    return TENURE_OK;
}
