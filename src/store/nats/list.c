/* Listings: the names of all subjects under the prefix, and then their last messages. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/nats/nats.h"
#include "store/pager.h"

#define NAMES_MAX 1000000 /* more are not believed */

struct listing {
    struct tn_pager pager;
    bool begun;
    json_int_t offset; /* of the names that come next */
};

/* ---- Names --------------------------------------------------------------- */

static void send_names(struct tn_nats *h, struct tn_nats_call *calls, size_t n, const void *arg)
{
    const struct listing *l = arg;
    char body[TN_NATS_SUBJECT + 64], wildcard[TN_NATS_SUBJECT];

    (void)n;
    tn_nats_wildcard(h, l->pager.prefix, wildcard);
    snprintf(body, sizeof body, "{\"subjects_filter\":\"%s\",\"offset\":%lld}", wildcard,
             (long long)l->offset);
    tn_nats_send_api(h, &calls[0], "STREAM.INFO", body);
}

static enum tenure_status take_names(struct listing *l, json_t *root, bool *more,
                                     struct tenure_error *err)
{
    const struct tn_nats *h = l->pager.impl;
    json_t *subjects = json_object_get(json_object_get(root, "state"), "subjects");
    json_int_t total = json_integer_value(json_object_get(root, "total"));
    enum tenure_status status = TENURE_OK;
    const char *subject;
    json_t *count;

    json_object_foreach(subjects, subject, count)
    {
        char key[TENURE_KEY_MAX + 1];

        l->offset++;
        if (!status && tn_nats_key(h, subject, key) && strcmp(key, l->pager.last) > 0 &&
            strncmp(key, l->pager.prefix, strlen(l->pager.prefix)) == 0)
            status = tn_pager_push_key(&l->pager, key, err);
    }
    *more = json_object_size(subjects) > 0 && l->offset < total && l->offset < NAMES_MAX;
    return status;
}

static enum tenure_status fetch_names(struct listing *l, bool *more, struct tenure_error *err)
{
    struct tn_nats *h = l->pager.impl;
    struct tn_nats_call call = {0};
    json_t *root = NULL;
    int code;
    enum tenure_status status = tn_nats_ask(h, &call, 1, send_names, l, l->pager.deadline, err);

    if (!status)
        status = tn_nats_answer(h, &call, &root, &code, err);
    if (!status && code)
        status = tn_nats_explain(h, root, code, err);
    if (!status)
        status = take_names(l, root, more, err);
    json_decref(root);
    tn_nats_call_free(&call);
    return status;
}

static void send_mark(struct tn_nats *h, struct tn_nats_call *calls, size_t n, const void *arg)
{
    char wildcard[TN_NATS_SUBJECT];

    (void)n;
    tn_nats_wildcard(h, arg, wildcard);
    tn_nats_send_last(h, &calls[0], wildcard);
}

/* The mark is taken before anything is read: what changes behind it shows. */
static enum tenure_status fetch_mark(struct tn_pager *p, struct tenure_error *err)
{
    struct tn_nats_call call = {0};
    struct tn_nats_message last = {0};
    enum tenure_status status =
        tn_nats_ask(p->impl, &call, 1, send_mark, p->prefix, p->deadline, err);

    if (!status)
        status = tn_nats_message(p->impl, &call, &last, err);
    if (!status)
        tn_nats_mark(&last, p->mark);
    p->mark = NULL;
    tn_nats_message_free(&last);
    tn_nats_call_free(&call);
    return status;
}

static enum tenure_status begin(struct listing *l, struct tenure_error *err)
{
    enum tenure_status status = l->pager.mark ? fetch_mark(&l->pager, err) : TENURE_OK;
    bool more = true;

    l->begun = true;
    while (!status && more)
        status = fetch_names(l, &more, err);
    tn_pager_sort_keys(&l->pager, 0);
    return status;
}

/* ---- Values -------------------------------------------------------------- */

static enum tenure_status decode(struct tn_pager *p, const char *key, const void *row,
                                 struct tenure_error *err)
{
    return tn_nats_decode(key, row, &p->value, err);
}

static enum tenure_status take_damaged(struct tn_pager *p, const char *key, const void *row,
                                       struct tenure_error *err)
{
    return tn_nats_raw.take_damaged(p->impl, key, row, &p->value, err);
}

static void send_values(struct tn_nats *h, struct tn_nats_call *calls, size_t n, const void *arg)
{
    const struct tn_pager *p = arg;
    char subject[TN_NATS_SUBJECT];

    for (size_t i = 0; i < n; i++) {
        tn_nats_subject(h, p->keys[p->n_keys - 1 - i], subject);
        tn_nats_send_last(h, &calls[i], subject);
    }
}

static enum tenure_status list_page(struct tn_pager *p, struct tenure_error *err)
{
    struct listing *l = (struct listing *)p; /* the pager is its first member */
    struct tn_nats_call calls[TN_NATS_READS_MAX] = {0};
    enum tenure_status status = l->begun ? TENURE_OK : begin(l, err);
    size_t n = p->n_keys < TN_NATS_READS_MAX ? p->n_keys : TN_NATS_READS_MAX;

    if (status || !n)
        return status;
    status = tn_nats_ask(p->impl, calls, n, send_values, p, p->deadline, err);
    for (size_t i = 0; i < n; i++) {
        struct tn_nats_message message = {0};
        char *key = p->keys[--p->n_keys];

        if (!status && !p->stop)
            status = tn_nats_message(p->impl, &calls[i], &message, err);
        if (!status && !p->stop && message.seq)
            status = tn_pager_show(p, key, &message, err);
        free(key);
        tn_nats_message_free(&message);
        tn_nats_call_free(&calls[i]);
    }
    p->more = p->n_keys > 0;
    return status;
}

enum tenure_status tn_nats_list(void *impl, const char *prefix, const char *after,
                                tenure_visit_fn visit, void *arg, char mark[TENURE_VERSION_MAX + 1],
                                int64_t deadline, struct tenure_error *err)
{
    static const struct tn_pager_ops ops = {list_page, decode, take_damaged};
    struct tn_nats *h = impl;
    struct listing l = {0};

    return tn_pager_list(&l.pager, &ops, impl, h->conf.repair, prefix, after, visit, arg, mark,
                         deadline, err);
}
