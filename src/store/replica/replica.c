/*
 * replica:///PATH - a copy of a replicated state, in a file of this node.
 *
 * Reads are of the copy.  Swaps go to the driver of the file, which `tenure run` starts in its own
 * process: they are numbered, written, sent to the standbys and answered when enough of these have
 * them (R12).  Whoever opens the file elsewhere may look.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/timing.h"
#include "replica/database.h"
#include "replica/driver.h"
#include "replica/status.h"
#include "store/sleep.h"
#include "store/term.h"

#define LOOK_NS (20 * TN_MS) /* between two looks of a wait */

struct tn_replica_store {
    struct tn_database *db;
    struct tn_replica_driver *driver; /* NULL: in another process, or nowhere */
    bool begun;
    struct tenure_grant grant;
};

/* ---- Open and close -------------------------------------------------------------------- */

static void replica_close(void *impl)
{
    struct tn_replica_store *h = impl;

    if (h->begun)
        tn_replica_driver_end(h->driver, &h->grant);
    tn_replica_driver_release(h->driver);
    tn_database_close(h->db);
    free(h);
}

static enum tenure_status replica_open(const char *url, int64_t deadline, void **impl,
                                       struct tenure_error *err)
{
    struct tn_replica_conf conf = {0};
    struct tn_replica_store *h = calloc(1, sizeof *h);
    enum tenure_status status = h != NULL ? tn_replica_conf_read(url, &conf, err)
                                          : tenure_fail(err, TENURE_NOMEM, "out of memory");

    (void)deadline;
    if (!status) {
        h->driver = tn_replica_driver_find(conf.path);
        status = tn_database_open(conf.path, false, &h->db, err);
    }
    if (!status)
        *impl = h;
    else if (h != NULL)
        replica_close(h);
    tn_replica_conf_free(&conf);
    return status;
}

static void replica_info(void *impl, struct tenure_store_info *info)
{
    (void)impl;
    info->scheme = "replica";
    info->promise = "a copy on each node: what is acknowledged survives the loss of as many disks "
                    "as standbys were asked for";
    info->notifies = false;
    info->poll_ms = LOOK_NS / TN_MS;
    info->shared = true;
    info->batch_max = 1000;
    info->batch_bytes = 8u << 20;
}

static enum tenure_status replica_begin(void *impl, const struct tenure_grant *grant,
                                        uint64_t *floor, int64_t deadline, struct tenure_error *err)
{
    struct tn_replica_store *h = impl;
    enum tenure_status status;

    if (h->driver == NULL)
        return tenure_fail(err, TENURE_CONFIG,
                           "replica: no driver runs in this process: `tenure run` starts it");
    status = tn_replica_driver_begin(h->driver, grant, floor, deadline, err);
    h->begun = status == TENURE_OK;
    h->grant = *grant;
    return status;
}

/* ---- Reading ----------------------------------------------------------------------------- */

/* What was read is shown only if it cannot be lost any more; see tn_replica_driver_await(). */
static enum tenure_status may_show(struct tn_replica_store *h, uint64_t n, int64_t deadline,
                                   struct tenure_error *err)
{
    if (h->driver == NULL)
        return TENURE_OK;
    return tn_replica_driver_await(h->driver, h->begun ? &h->grant : NULL, n, deadline, err);
}

static uint64_t number_of(const struct tenure_token *token)
{
    return strtoull(token->version, NULL, 10);
}

static enum tenure_status replica_read(void *impl, const char *key, struct tenure_value *value,
                                       int64_t deadline, struct tenure_error *err)
{
    struct tn_replica_store *h = impl;
    enum tenure_status status = tn_database_read(h->db, key, value, err);

    return status ? status : may_show(h, number_of(&value->token), deadline, err);
}

struct listing {
    struct tn_replica_store *h;
    tenure_visit_fn visit;
    void *arg;
    int64_t deadline;
    char last[TENURE_KEY_MAX + 2];
    struct tenure_value *page; /* visit() may use the handle, so it gets copies, a page at a time */
    char (*keys)[TENURE_KEY_MAX + 1];
    size_t n, bytes;
    bool more;
    enum tenure_status status;
    struct tenure_error *err;
};

#define PAGE_ROWS  256
#define PAGE_BYTES (1u << 20)

static bool collect(void *arg, const struct tn_record *record)
{
    struct listing *l = arg;

    l->more = l->n == PAGE_ROWS || l->bytes > PAGE_BYTES;
    if (l->more || strlen(record->key) > TENURE_KEY_MAX)
        return !l->more;
    l->status = tn_record_value(record, &l->page[l->n], l->err);
    if (l->status)
        return false;
    strcpy(l->keys[l->n], record->key);
    snprintf(l->last, sizeof l->last, "%s\x01", record->key);
    l->bytes += record->len;
    l->n++;
    return true;
}

/* One page.  *stop: the visitor has seen enough. */
static enum tenure_status show_page(struct listing *l, const char *end, bool *stop)
{
    enum tenure_status status;

    l->n = l->bytes = 0;
    l->more = false;
    status = tn_database_range(l->h->db, l->last, end, collect, l, l->err);
    if (!status)
        status = l->status;
    for (size_t i = 0; i < l->n && !status && !*stop; i++) {
        status = may_show(l->h, number_of(&l->page[i].token), l->deadline, l->err);
        if (!status)
            *stop = !l->visit(l->arg, l->keys[i], &l->page[i]);
        if (!status && !*stop && tenure_now() >= l->deadline)
            status = tenure_fail(l->err, TENURE_TIMEOUT, "replica: the deadline passed at '%s'",
                                 l->keys[i]);
    }
    return status;
}

static enum tenure_status list_pages(struct listing *l, const char *prefix, const char *after)
{
    char end[TENURE_KEY_MAX + 2];
    enum tenure_status status;
    bool stop = false;

    /* No key holds a byte below '-' or above 'z'. */
    snprintf(end, sizeof end, "%s\x7f", prefix);
    if (after != NULL && strcmp(after, prefix) >= 0)
        snprintf(l->last, sizeof l->last, "%s\x01", after);
    else
        snprintf(l->last, sizeof l->last, "%s", prefix);
    do {
        status = show_page(l, end, &stop);
    } while (!status && !stop && l->more);
    return status;
}

static enum tenure_status replica_list(void *impl, const char *prefix, const char *after,
                                       tenure_visit_fn visit, void *arg,
                                       char mark[TENURE_VERSION_MAX + 1], int64_t deadline,
                                       struct tenure_error *err)
{
    struct tn_replica_store *h = impl;
    struct listing l = {.h = h, .visit = visit, .arg = arg, .deadline = deadline, .err = err};
    struct tn_copy_head head = {0};
    enum tenure_status status =
        mark != NULL ? tn_database_head(h->db, &head, NULL, err) : TENURE_OK;

    l.page = calloc(PAGE_ROWS, sizeof *l.page);
    l.keys = calloc(PAGE_ROWS, sizeof *l.keys);
    if (!status && (l.page == NULL || l.keys == NULL))
        status = tenure_fail(err, TENURE_NOMEM, "out of memory");
    if (!status)
        status = list_pages(&l, prefix, after);
    for (size_t i = 0; l.page != NULL && i < PAGE_ROWS; i++)
        tenure_value_free(&l.page[i]);
    free(l.page);
    free(l.keys);
    if (!status && mark != NULL)
        snprintf(mark, TENURE_VERSION_MAX + 1, "%llu", (unsigned long long)head.chain.n);
    return status;
}

/* ---- Waiting ------------------------------------------------------------------------------- */

static enum tenure_status is_changed(struct tn_replica_store *h, const struct tenure_watch *watch,
                                     struct tenure_value *value, bool *changed,
                                     struct tenure_error *err)
{
    char end[TENURE_KEY_MAX + 2];
    struct tn_copy_head head;
    uint64_t mark = strtoull(watch->mark, NULL, 10);
    enum tenure_status status;

    if (!watch->prefix) {
        status = tn_database_read(h->db, watch->key, value, err);
        *changed = !status && !tenure_token_equal(&value->token, &watch->seen);
        return status;
    }
    status = tn_database_head(h->db, &head, NULL, err);
    if (status)
        return status;
    *changed = head.chain.n < mark; /* A rewind: all of it is news. */
    snprintf(end, sizeof end, "%s\x7f", watch->key);
    return *changed ? TENURE_OK : tn_database_changed(h->db, watch->key, end, mark, changed, err);
}

static enum tenure_status replica_wait(void *impl, const struct tenure_watch *watches, size_t n,
                                       int wake_fd, int64_t deadline, struct tenure_error *err)
{
    struct tenure_value value = {0};
    enum tenure_status status = TENURE_OK;
    bool changed = false;

    while (!status) {
        for (size_t i = 0; i < n && !status && !changed; i++)
            status = is_changed(impl, &watches[i], &value, &changed, err);
        if (status || changed)
            break;
        status = tn_store_sleep("replica", -1, wake_fd, tenure_now() + LOOK_NS, deadline, err);
    }
    tenure_value_free(&value);
    return status;
}

/* ---- Writing ------------------------------------------------------------------------------- */

static enum tenure_status replica_swap_many(void *impl, struct tenure_swap *swaps, size_t n,
                                            int64_t deadline, struct tenure_error *err)
{
    struct tn_replica_store *h = impl;
    enum tenure_status status;

    if (h->begun)
        return tn_replica_driver_swap(h->driver, &h->grant, swaps, n, deadline, err);
    status = tenure_fail(err, TENURE_UNSUPPORTED,
                         "replica: only the program of the leader writes; edits from elsewhere are "
                         "not supported yet");
    for (size_t i = 0; i < n; i++)
        swaps[i].status = status;
    return status;
}

static enum tenure_status replica_swap(void *impl, struct tenure_swap *swap, int64_t deadline,
                                       struct tenure_error *err)
{
    enum tenure_status status = replica_swap_many(impl, swap, 1, deadline, err);

    return status ? status : swap->status;
}

/* ---- The tables ----------------------------------------------------------------------------- */

static const struct tn_term_ops ops = {
    .store = {.abi = TENURE_STORE_ABI,
              .scheme = TN_TERM_SCHEME,
              .open = replica_open,
              .close = replica_close,
              .info = replica_info,
              .read = replica_read,
              .swap = replica_swap,
              .swap_many = replica_swap_many,
              .wait = replica_wait,
              .list = replica_list,
              .options = tn_replica_options},
    .begin = replica_begin,
};

extern const struct tenure_store_ops *const tenure_store_module[];
TENURE_API const struct tenure_store_ops *const tenure_store_module[] = {&ops.store, NULL};

extern const struct tn_replica_module tenure_replica_module;
TENURE_API const struct tn_replica_module tenure_replica_module = {
    .abi = TN_REPLICA_ABI,
    .start = tn_replica_driver_start,
    .stop = tn_replica_driver_stop,
    .status = tn_replica_status,
};
