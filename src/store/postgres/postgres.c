/*
 * postgres://…           - registers are rows; see docs/reference/stores/postgres.md.
 * postgres+advisory://…  - the same, and a lease is written only under a lock.
 */
#include "store/postgres/postgres.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "os/poll.h"
#include "store/open.h"

/* ---- Open ---------------------------------------------------------------- */

static void pg_close(void *impl)
{
    struct tn_pg *pg = impl;

    tn_pg_drop(pg);
    tn_watcher_free(&pg->watcher);
    if (pg->timer_fd >= 0)
        close(pg->timer_fd);
    for (int i = 0; i < TN_PG_STATEMENTS; i++)
        free(pg->sql[i]);
    tn_pg_conf_free(&pg->conf);
    free(pg);
}

/* Is the table there?  Any read of it tells. */
static enum tenure_status check_table(struct tn_pg *pg, bool *missing, int64_t deadline,
                                      struct tenure_error *err)
{
    struct tn_pg_args args = {0};
    PGresult *r = NULL;
    int64_t timeline;
    enum tenure_status status;

    tn_pg_arg_text(&args, "-");
    pg->missing = false;
    status = tn_pg_ask(pg, TN_PG_READ, &args, deadline, &r, err);
    if (!status)
        status = tn_pg_timeline(pg, r, 0, &timeline, err);
    PQclear(r);
    *missing = pg->missing;
    return status;
}

static enum tenure_status create_table(struct tn_pg *pg, int64_t deadline, struct tenure_error *err)
{
    char *sql = NULL;
    PGresult *r = NULL;
    enum tenure_status status = tn_pg_schema_sql(pg->conf.schema, &sql, err);

    if (!status)
        status = tn_pg_script(pg, sql, deadline, &r, err);
    PQclear(r);
    free(sql);
    if (status == TENURE_UNKNOWN)
        err->code = status = TENURE_UNAVAILABLE;
    if (status == TENURE_DENIED)
        return tenure_fail(err, TENURE_CONFIG,
                           "%s: the table \"%s\".register is missing, and this role may not create "
                           "it; let an owner run what `tenure store schema` prints",
                           pg->scheme, pg->conf.schema);
    return status;
}

/* Only when a store is opened: a table that vanishes later has taken the epochs
 * with it, and a person must know. */
static enum tenure_status ensure_table(struct tn_pg *pg, int64_t deadline, struct tenure_error *err)
{
    bool missing;
    enum tenure_status status = check_table(pg, &missing, deadline, err);

    if (!missing || !pg->conf.create)
        return status;
    status = create_table(pg, deadline, err);
    return status ? status : check_table(pg, &missing, deadline, err);
}

static enum tenure_status configure(void *impl, const char *url, struct tenure_error *err)
{
    struct tn_pg *pg = impl;
    enum tenure_status status;

    pg->timer_fd = tn_poll_timer();
    status = tn_pg_conf_parse(url, &pg->conf, err);
    pg->scheme = pg->conf.advisory ? "postgres+advisory" : "postgres";
    tn_pg_watcher_init(pg);
    return status;
}

/* After a crash it takes a while to replay its log. */
static enum tenure_status reach(void *impl, int64_t deadline, bool *unready,
                                struct tenure_error *err)
{
    struct tn_pg *pg = impl;
    enum tenure_status status;

    pg->unready = false;
    status = ensure_table(pg, deadline, err);
    *unready = status && pg->unready;
    return status;
}

static enum tenure_status pg_open(const char *url, int64_t deadline, void **impl,
                                  struct tenure_error *err)
{
    static const struct tn_opener opener = {sizeof(struct tn_pg), configure, reach, pg_close};

    return tn_open(&opener, url, deadline, impl, err);
}

/* ---- The calls ----------------------------------------------------------- */

static void pg_info(void *impl, struct tenure_store_info *info)
{
    const struct tn_pg *pg = impl;

    info->scheme = pg->scheme;
    info->promise =
        pg->conf.advisory
            ? "rows in PostgreSQL, on disk before they are answered, and a session lock that also "
              "excludes other programs; a fail-over to an asynchronous replica may lose the last "
              "writes"
            : "rows in PostgreSQL, on disk before they are answered (synchronous_commit=on); a "
              "fail-over to an asynchronous replica may lose the last writes";
    info->notifies = pg->conf.notify && !pg->pooled;
    info->shared = true;
    info->atomic_batch = false;
    info->batch_max = TN_PG_BATCH_ROWS;
    info->batch_bytes = TN_PG_BATCH_BYTES;
}

static enum tenure_status row_read(void *impl, const char *key, struct tenure_value *value,
                                   int64_t deadline, struct tenure_error *err)
{
    return tn_pg_row_read(impl, key, value, deadline, err);
}

static enum tenure_status row_swap(void *impl, struct tenure_swap *swap, int64_t deadline,
                                   struct tenure_error *err)
{
    return tn_pg_row_swap(impl, swap, deadline, err);
}

static enum tenure_status row_swap_many(void *impl, struct tenure_swap *swaps, size_t n,
                                        int64_t deadline, struct tenure_error *err)
{
    return tn_pg_batch(impl, swaps, n, NULL, deadline, err);
}

static enum tenure_status row_purge(void *impl, struct tenure_swap *swap, int64_t deadline,
                                    struct tenure_error *err)
{
    return tn_pg_row_purge(impl, swap, deadline, err);
}

static enum tenure_status row_read_many(void *impl, struct tenure_read *reads, size_t n,
                                        size_t *done, int64_t deadline, struct tenure_error *err)
{
    return tn_pg_read_many(impl, reads, n, done, deadline, err);
}

static enum tenure_status pg_list(void *impl, const char *prefix, const char *after,
                                  tenure_visit_fn visit, void *arg,
                                  char mark[TENURE_VERSION_MAX + 1], int64_t deadline,
                                  struct tenure_error *err)
{
    return tn_pg_row_list(impl, prefix, after, visit, arg, mark, deadline, err);
}

static enum tenure_status advisory_read(void *impl, const char *key, struct tenure_value *value,
                                        int64_t deadline, struct tenure_error *err)
{
    enum tenure_status status = tn_pg_row_read(impl, key, value, deadline, err);

    if (status == TENURE_OK && tn_pg_is_lease(key))
        tn_pg_lock_check(impl, key, value->token.nonce, deadline);
    return status;
}

/* Leases go one by one, everything else in one query. */
static enum tenure_status advisory_read_many(void *impl, struct tenure_read *reads, size_t n,
                                             size_t *done, int64_t deadline,
                                             struct tenure_error *err)
{
    size_t plain = 0;

    while (plain < n && !tn_pg_is_lease(reads[plain].key))
        plain++;
    if (plain)
        return tn_pg_read_many(impl, reads, plain, done, deadline, err);
    reads->status = advisory_read(impl, reads->key, &reads->value, deadline, err);
    *done = 1;
    return reads->status == TENURE_CORRUPT ? TENURE_OK : reads->status;
}

static enum tenure_status advisory_swap(void *impl, struct tenure_swap *swap, int64_t deadline,
                                        struct tenure_error *err)
{
    return tn_pg_is_lease(swap->key) ? tn_pg_lock_swap(impl, swap, deadline, err)
                                     : tn_pg_row_swap(impl, swap, deadline, err);
}

/* Leases go one by one, everything else in one statement. */
static enum tenure_status advisory_swap_many(void *impl, struct tenure_swap *swaps, size_t n,
                                             int64_t deadline, struct tenure_error *err)
{
    enum tenure_status status = tn_pg_batch(impl, swaps, n, tn_pg_is_lease, deadline, err);

    for (size_t i = 0; i < n; i++) {
        if (!tn_pg_is_lease(swaps[i].key))
            continue;
        swaps[i].status = status ? TENURE_UNAVAILABLE : TENURE_OK;
        if (!status)
            tn_pg_lock_swap(impl, &swaps[i], deadline, err);
    }
    return status;
}

#define TABLE(symbol, name, how)                                                                   \
    static const struct tenure_store_ops symbol = {                                                \
        .abi = TENURE_STORE_ABI,                                                                   \
        .scheme = name,                                                                            \
        .open = pg_open,                                                                           \
        .close = pg_close,                                                                         \
        .info = pg_info,                                                                           \
        .read = how##_read,                                                                        \
        .swap = how##_swap,                                                                        \
        .swap_many = how##_swap_many,                                                              \
        .wait = tn_pg_wait,                                                                        \
        .list = pg_list,                                                                           \
        .options = tn_pg_options,                                                                  \
        .read_many = how##_read_many,                                                              \
        .purge = row_purge,                                                                        \
    }

TABLE(row_ops, "postgres", row);
TABLE(postgresql_ops, "postgresql", row); /* libpq's other spelling */
TABLE(advisory_ops, "postgres+advisory", advisory);

TENURE_API extern const struct tenure_store_ops *const tenure_store_module[];
const struct tenure_store_ops *const tenure_store_module[] = {&row_ops, &postgresql_ops,
                                                              &advisory_ops, NULL};
