/* replica/driver_calls.c - what other threads ask of the driver: begin a term, end it, write. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "replica/driver_inner.h"

static bool is_same(const struct tenure_grant *a, const struct tenure_grant *b)
{
    return a->epoch == b->epoch && memcmp(a->id, b->id, sizeof a->id) == 0;
}

/* ---- Terms ---------------------------------------------------------------------------- */

void tn_node_begin_term(struct tn_replica_driver *d, const struct tenure_grant *grant)
{
    struct tn_replica_event won = {.kind = TN_REPLICA_WON, .n = grant->epoch, .id = grant->id};
    struct tenure_grant now = {.epoch = d->core.epoch};

    if (d->broken)
        return;
    memcpy(now.id, d->core.grant, sizeof now.id);
    if (d->core.phase != TN_REPLICA_STANDBY && is_same(&now, grant))
        return; /* It has begun, or is about to. */
    if (d->core.phase != TN_REPLICA_STANDBY)
        tn_node_event(d, TN_REPLICA_DEMOTE, 0);
    pthread_mutex_lock(&d->lock);
    d->view.refused = *grant;
    d->view.refusal = TENURE_OK;
    pthread_mutex_unlock(&d->lock);
    tn_node_step(d, &won, NULL);
}

void tn_node_end_term(struct tn_replica_driver *d, const struct tenure_grant *grant)
{
    struct tenure_grant now = {.epoch = d->core.epoch};

    memcpy(now.id, d->core.grant, sizeof now.id);
    if (d->core.phase != TN_REPLICA_STANDBY && is_same(&now, grant))
        tn_node_event(d, TN_REPLICA_DEMOTE, 0);
}

static enum tenure_status post_term(struct tn_replica_driver *d, enum tn_item_kind kind,
                                    const struct tenure_grant *grant)
{
    struct tn_item *item = tn_node_item(kind, 0);

    item->grant = *grant;
    tn_node_post(d, item);
    return TENURE_OK;
}

enum tenure_status tn_replica_driver_begin(struct tn_replica_driver *d,
                                           const struct tenure_grant *grant, uint64_t *floor,
                                           int64_t deadline, struct tenure_error *err)
{
    const struct tn_node_view *view = &d->view;
    enum tenure_status status;
    bool in_time = true;

    post_term(d, TN_ITEM_BEGIN, grant);
    pthread_mutex_lock(&d->lock);
    for (;;) {
        if (view->phase == TN_REPLICA_PRIMARY && is_same(&view->grant, grant)) {
            status = TENURE_OK;
            break;
        }
        if (view->refusal && is_same(&view->refused, grant)) {
            *floor = view->heard;
            status = tenure_fail(err, view->refusal, "%s", view->why);
            break;
        }
        if (d->stop || !in_time) {
            status = tenure_fail(err, TENURE_TIMEOUT, "replica: the term has not begun yet%s%s",
                                 view->trouble[0] ? ": " : "", view->trouble);
            break;
        }
        in_time = tn_node_wait(d, &d->changed, deadline);
    }
    pthread_mutex_unlock(&d->lock);
    return status;
}

void tn_replica_driver_end(struct tn_replica_driver *d, const struct tenure_grant *grant)
{
    post_term(d, TN_ITEM_END, grant);
}

enum tenure_status tn_replica_driver_await(struct tn_replica_driver *d,
                                           const struct tenure_grant *grant, uint64_t n,
                                           int64_t deadline, struct tenure_error *err)
{
    const struct tn_node_view *view = &d->view;
    enum tenure_status status = TENURE_OK;
    bool in_time = true;

    pthread_mutex_lock(&d->lock);
    for (;;) {
        bool leads = view->phase == TN_REPLICA_PRIMARY;

        if (grant != NULL && (!leads || !is_same(&view->grant, grant)))
            status = tenure_fail(err, TENURE_FENCED, "replica: this node does not lead any more");
        if (status || !leads || n < view->first || n <= view->acknowledged)
            break;
        if (!in_time) {
            status = tenure_fail(err, TENURE_TIMEOUT,
                                 "replica: not acknowledged yet: too few standbys have the change");
            break;
        }
        in_time = tn_node_wait(d, &d->changed, deadline);
    }
    pthread_mutex_unlock(&d->lock);
    return status;
}

/* ---- Writing --------------------------------------------------------------------------- */

/* Swaps of one call: a copy, because the caller may leave before they are answered. */
struct tn_swap_request {
    struct tn_swap_request *next;
    struct tenure_grant grant;
    bool done;      /* under the lock, like the next */
    bool abandoned; /* its caller has left: the driver frees it */
    uint64_t last;  /* the change that must be acknowledged */
    struct tenure_error err;
    size_t n;
    struct tenure_swap *swaps;
    char *bytes;
};

static void free_request(struct tn_swap_request *r)
{
    free(r->swaps);
    free(r->bytes);
    free(r);
}

static struct tn_swap_request *copy_request(const struct tenure_grant *grant,
                                            const struct tenure_swap *swaps, size_t n)
{
    struct tn_swap_request *r = calloc(1, sizeof *r);
    size_t size = 0;
    char *at;

    for (size_t i = 0; i < n; i++)
        size += strlen(swaps[i].key) + 1 + swaps[i].len;
    if (r == NULL || (r->swaps = malloc(n * sizeof *swaps)) == NULL ||
        (at = r->bytes = malloc(size)) == NULL) {
        if (r != NULL)
            free_request(r);
        return NULL;
    }
    r->grant = *grant;
    r->n = n;
    memcpy(r->swaps, swaps, n * sizeof *swaps);
    for (size_t i = 0; i < n; i++) {
        r->swaps[i].key = strcpy(at, swaps[i].key);
        at += strlen(at) + 1;
        if (swaps[i].len > 0)
            memcpy(at, swaps[i].data, swaps[i].len);
        r->swaps[i].data = at;
        at += swaps[i].len;
        r->swaps[i].status = TENURE_UNKNOWN;
    }
    return r;
}

/* The caller has its answer, or has left. */
static void finish(struct tn_replica_driver *d, struct tn_swap_request *r)
{
    bool abandoned;

    pthread_mutex_lock(&d->lock);
    abandoned = r->abandoned;
    r->done = true;
    pthread_cond_broadcast(&d->changed);
    pthread_mutex_unlock(&d->lock);
    if (abandoned)
        free_request(r);
}

/* Those that are not settled by themselves. */
void tn_node_fail_request(struct tn_replica_driver *d, struct tn_swap_request *r,
                          enum tenure_status status, const char *text)
{
    tenure_fail(&r->err, status, "replica: %s", text);
    for (size_t i = 0; i < r->n; i++)
        if (r->swaps[i].status == TENURE_OK || r->swaps[i].status == TENURE_UNKNOWN)
            r->swaps[i].status = status;
    finish(d, r);
}

/* Compare, and number what takes effect. */
static enum tenure_status compare(struct tn_replica_driver *d, struct tn_swap_request *r,
                                  struct tn_record *records, size_t *count,
                                  struct tenure_error *err)
{
    uint64_t n = d->core.head.chain.n;
    struct tenure_value value = {0};
    enum tenure_status status = TENURE_OK;

    for (size_t i = 0; i < r->n && !status; i++) {
        struct tenure_swap *swap = &r->swaps[i];
        struct tn_record *record = &records[*count];

        status = tn_database_read(d->db, swap->key, &value, err);
        if (status)
            break;
        if (!tenure_token_equal(&value.token, &swap->expect)) {
            swap->status = TENURE_CONFLICT;
            continue;
        }
        *record = (struct tn_record){.key = swap->key,
                                     .n = ++n,
                                     .tombstone = swap->tombstone,
                                     .data = swap->data,
                                     .len = swap->len};
        memcpy(record->nonce, swap->nonce, TENURE_NONCE_SIZE);
        memcpy(record->prev, value.token.nonce, TENURE_NONCE_SIZE);
        memset(&swap->token, 0, sizeof swap->token);
        snprintf(swap->token.version, sizeof swap->token.version, "%llu", (unsigned long long)n);
        memcpy(swap->token.nonce, swap->nonce, TENURE_NONCE_SIZE);
        swap->status = TENURE_OK;
        ++*count;
    }
    tenure_value_free(&value);
    return status;
}

static void write_changes(struct tn_replica_driver *d, struct tn_swap_request *r,
                          const struct tn_record *records, size_t count)
{
    struct tn_cause cause = {.records = records, .count = count};
    struct tn_replica_event write = {.kind = TN_REPLICA_WRITE, .n = count};

    r->last = d->core.head.chain.n + count;
    r->next = NULL;
    *d->waiting_tail = r;
    d->waiting_tail = &r->next;
    tn_node_step(d, &write, &cause);
}

void tn_node_write_request(struct tn_replica_driver *d, struct tn_swap_request *r)
{
    struct tenure_grant now = {.epoch = d->core.epoch};
    struct tenure_error err = {0};
    struct tn_record *records;
    size_t count = 0;
    enum tenure_status status;

    memcpy(now.id, d->core.grant, sizeof now.id);
    if (d->broken || d->core.phase != TN_REPLICA_PRIMARY || !is_same(&now, &r->grant)) {
        tn_node_fail_request(d, r, TENURE_FENCED, "this node does not lead any more");
        return;
    }
    records = calloc(r->n, sizeof *records);
    status = records != NULL ? compare(d, r, records, &count, &err)
                             : tenure_fail(&err, TENURE_NOMEM, "out of memory");
    if (status)
        tn_node_fail_request(d, r, status, err.text);
    else if (count == 0)
        finish(d, r);
    else
        write_changes(d, r, records, count);
    free(records);
}

void tn_node_acknowledge(struct tn_replica_driver *d, uint64_t n)
{
    while (d->waiting != NULL && d->waiting->last <= n) {
        struct tn_swap_request *r = d->waiting;

        d->waiting = r->next;
        if (d->waiting == NULL)
            d->waiting_tail = &d->waiting;
        finish(d, r);
    }
}

void tn_node_abandon(struct tn_replica_driver *d)
{
    while (d->waiting != NULL) {
        struct tn_swap_request *r = d->waiting;

        d->waiting = r->next;
        tn_node_fail_request(d, r, TENURE_UNKNOWN,
                             "the term ended before the change was acknowledged");
    }
    d->waiting_tail = &d->waiting;
}

/* What the driver has not begun with is taken out of its inbox again. */
static bool withdraw(struct tn_replica_driver *d, const struct tn_swap_request *r)
{
    for (struct tn_item **at = &d->inbox; *at != NULL; at = &(*at)->next) {
        struct tn_item *item = *at;

        if (item->request != r)
            continue;
        *at = item->next;
        if (item->next == NULL)
            d->inbox_tail = at;
        free(item);
        return true;
    }
    return false;
}

static enum tenure_status await(struct tn_replica_driver *d, struct tn_swap_request *r,
                                int64_t deadline, struct tenure_error *err)
{
    while (!r->done && tn_node_wait(d, &d->changed, deadline))
        continue;
    if (r->done)
        return TENURE_OK;
    if (withdraw(d, r))
        return tenure_fail(err, TENURE_TIMEOUT,
                           "replica: the deadline passed; nothing was written");
    r->abandoned = true;
    return tenure_fail(err, TENURE_UNKNOWN,
                       "replica: not acknowledged in time: too few standbys have the change");
}

enum tenure_status tn_replica_driver_swap(struct tn_replica_driver *d,
                                          const struct tenure_grant *grant,
                                          struct tenure_swap *swaps, size_t n, int64_t deadline,
                                          struct tenure_error *err)
{
    struct tn_swap_request *r = copy_request(grant, swaps, n);
    struct tn_item *item;
    enum tenure_status status;

    if (r == NULL)
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    item = tn_node_item(TN_ITEM_SWAP, 0);
    item->request = r;
    pthread_mutex_lock(&d->lock);
    tn_node_post_locked(d, item);
    status = await(d, r, deadline, err);
    pthread_mutex_unlock(&d->lock);
    if (status == TENURE_UNKNOWN) { /* The driver has it still. */
        for (size_t i = 0; i < n; i++)
            swaps[i].status = TENURE_UNKNOWN;
        return status;
    }
    for (size_t i = 0; i < n; i++) {
        swaps[i].status = status ? status : r->swaps[i].status;
        swaps[i].token = r->swaps[i].token;
    }
    if (!status && r->err.code)
        status = tenure_fail(err, r->err.code, "%s", r->err.text);
    free_request(r);
    return status;
}
