/* Listings: the names first, which are one answer, then the registers page by page. */
#include <stdio.h>
#include <string.h>

#include "store/consul/consul.h"
#include "store/pager.h"

#define LARGE (256u << 10) /* bytes of a page: the next one is shorter */

struct listing {
    struct tn_pager pager;
    json_t *names; /* NULL: not asked for yet */
    size_t next;   /* the first name that has not been looked at */
    size_t page;   /* registers in the next page */
    const json_t *answer;
};

void tn_consul_mark(const json_t *names, unsigned long long index,
                    char mark[TENURE_VERSION_MAX + 1])
{
    uint64_t sum = TN_SUM_START;
    const json_t *name;
    size_t i;

    json_array_foreach(names, i, name)
    {
        sum = tn_sum(sum, json_string_value(name), json_string_length(name) + 1);
    }
    /* The index of what is not there is that of everything else. */
    snprintf(mark, TENURE_VERSION_MAX + 1, "%llu.%016llx", json_array_size(names) ? index : 0,
             (unsigned long long)sum);
}

static enum tenure_status decode(struct tn_pager *p, const char *key, const void *row,
                                 struct tenure_error *err)
{
    return tn_consul_decode(p->impl, key, row, &p->value, err);
}

static enum tenure_status take_damaged(struct tn_pager *p, const char *key, const void *row,
                                       struct tenure_error *err)
{
    const struct listing *l = (const struct listing *)p;

    (void)row;
    return tn_consul_take_damaged(p->impl, key, l->answer, &p->value, err);
}

/* Names that the token may not read are left out: an empty answer proves nothing. */
static enum tenure_status begin(struct listing *l, struct tenure_error *err)
{
    struct tn_pager *p = &l->pager;
    struct tn_consul *h = p->impl;
    char name[TN_CONSUL_NAME_MAX];
    unsigned long long index;
    json_t *answer = NULL;
    enum tenure_status status;

    snprintf(name, sizeof name, "%s%s", h->conf.base, p->prefix);
    status = tn_consul_names(h, name, p->deadline, &l->names, &index, err);
    if (!status && !json_array_size(l->names)) {
        const char *const keys[] = {p->prefix};

        status = tn_consul_fetch(h, keys, 1, p->deadline, &answer, err);
        json_decref(answer);
    }
    if (!status && p->mark)
        tn_consul_mark(l->names, index, p->mark);
    p->mark = NULL;
    return status;
}

/* The keys of the next page: false when there are none. */
static size_t choose(struct listing *l, char keys[][TENURE_KEY_MAX + 1])
{
    const struct tn_consul *h = l->pager.impl;
    const char *last = l->pager.last;
    size_t n = 0;

    for (; l->next < json_array_size(l->names); l->next++) {
        char key[TENURE_KEY_MAX + 1];
        const char *name = json_string_value(json_array_get(l->names, l->next)), *suffix;

        if (!tn_consul_split(h, name, key, &suffix) || strcmp(key, n ? keys[n - 1] : last) <= 0)
            continue;
        if (n == l->page)
            break;
        memcpy(keys[n++], key, sizeof key);
    }
    return n;
}

static size_t size_of(const json_t *answer)
{
    const json_t *one;
    size_t i, bytes = 0;

    json_array_foreach(json_object_get(answer, "Results"), i, one)
    {
        bytes += json_string_length(json_object_get(json_object_get(one, "KV"), "Value"));
    }
    return bytes;
}

static enum tenure_status list_page(struct tn_pager *p, struct tenure_error *err)
{
    struct listing *l = (struct listing *)p; /* the pager is its first member */
    struct tn_consul *h = p->impl;
    char keys[TN_CONSUL_READS_MAX][TENURE_KEY_MAX + 1];
    const char *names[TN_CONSUL_READS_MAX];
    json_t *answer = NULL;
    enum tenure_status status = l->names ? TENURE_OK : begin(l, err);
    size_t n = status ? 0 : choose(l, keys);

    if (status || !n)
        return status;
    for (size_t i = 0; i < n; i++)
        names[i] = keys[i];
    status = tn_consul_fetch(h, names, n, p->deadline, &answer, err);
    l->answer = answer;
    for (size_t i = 0; !status && !p->stop && i < n; i++) {
        struct tn_consul_register r = tn_consul_gather(h, answer, keys[i]);

        status = tn_pager_show(p, keys[i], &r, err);
    }
    snprintf(p->last, sizeof p->last, "%s", keys[n - 1]);
    p->more = l->next < json_array_size(l->names);
    if (size_of(answer) > LARGE && l->page > 1)
        l->page /= 2;
    else if (size_of(answer) < LARGE / 4 && l->page < TN_CONSUL_READS_MAX)
        l->page *= 2;
    json_decref(answer);
    return status;
}

enum tenure_status tn_consul_list(void *impl, const char *prefix, const char *after,
                                  tenure_visit_fn visit, void *arg,
                                  char mark[TENURE_VERSION_MAX + 1], int64_t deadline,
                                  struct tenure_error *err)
{
    static const struct tn_pager_ops ops = {list_page, decode, take_damaged};
    struct tn_consul *h = impl;
    struct listing l = {.page = TN_CONSUL_READS_MAX};
    enum tenure_status status = tn_pager_list(&l.pager, &ops, impl, h->conf.repair, prefix, after,
                                              visit, arg, mark, deadline, err);

    json_decref(l.names);
    return status;
}
