/*
 * sqlite:PATH - registers in one file on one host.
 *
 * One row a register, one transaction a swap, on the disk before it is
 * answered.  Linearizable, because SQLite has one writer at a time and a read
 * begins with the newest commit (C1, C2).  A process that is stopped in the
 * middle of a transaction blocks the others until it goes on or is killed.
 */
#include <stdio.h>
#include <string.h>

#include "base/decimal.h"
#include "store/sqlite/sqlite.h"

#define READS_MAX 4096 /* rows in one transaction: a checkpoint waits for it */

/* ---- Rows ---------------------------------------------------------------- */

bool tn_sqlite_version(const char *text, sqlite3_int64 *version)
{
    int64_t number;

    if (!tn_take_number(&text, &number) || *text)
        return false;
    *version = number;
    return true;
}

/* The columns of TN_SQL_READ.  What the schema forbids is CORRUPT, not a guess. */
static enum tenure_status take_row(struct tn_sqlite *h, sqlite3_stmt *row, const char *key,
                                   struct tenure_value *value, struct tenure_error *err)
{
    if (!tn_sqlite_sane(row)) {
        tenure_fail(err, TENURE_CORRUPT,
                    "sqlite: %s: row '%s' is malformed; it was left unchanged: restore the "
                    "file from a backup, or repair what the row holds",
                    h->path, key);
        return h->repair ? tn_sqlite_take_damaged(row, value, err) : TENURE_CORRUPT;
    }
    sqlite3_int64 version = sqlite3_column_int64(row, 0);
    const void *nonce = sqlite3_column_blob(row, 1), *prev = sqlite3_column_blob(row, 2);
    const void *data = sqlite3_column_blob(row, 4);
    size_t len = (size_t)sqlite3_column_bytes(row, 4);

    if (!nonce || !prev || (!data && len))
        return tenure_fail(err, TENURE_NOMEM, "sqlite: out of memory");
    enum tenure_status status = tenure_value_set(value, data, len, err);
    if (status)
        return status;
    memset(&value->token, 0, sizeof value->token);
    *tn_put_number(value->token.version, (uint64_t)version) = '\0';
    memcpy(value->token.nonce, nonce, TENURE_NONCE_SIZE);
    memcpy(value->prev, prev, TENURE_NONCE_SIZE);
    value->tombstone = sqlite3_column_int(row, 3) != 0;
    return TENURE_OK;
}

/* On a connection that is ready. */
static enum tenure_status read_row(struct tn_sqlite *h, const char *key, struct tenure_value *value,
                                   struct tenure_error *err)
{
    enum tenure_status status;
    int rc;
    sqlite3_stmt *stmt = tn_sqlite_stmt(h, TN_SQL_READ, &rc);

    if (!stmt)
        return tn_sqlite_fail(h, rc, err);
    rc = sqlite3_bind_text(stmt, 1, key, -1, SQLITE_STATIC);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(stmt);
    if (rc == SQLITE_ROW)
        status = take_row(h, stmt, key, value, err);
    else if (rc == SQLITE_DONE)
        status = tenure_value_absent(value, err);
    else
        status = tn_sqlite_fail(h, rc, err);
    if (h->db)
        sqlite3_reset(stmt);
    return status;
}

enum tenure_status tn_sqlite_read(void *impl, const char *key, struct tenure_value *value,
                                  int64_t deadline, struct tenure_error *err)
{
    enum tenure_status status = tn_sqlite_ready(impl, deadline, err);

    return status ? status : read_row(impl, key, value, err);
}

/*
 * A piece is one transaction: it costs the locks once, and shows one instant.  A damaged row is
 * that read's own; any other failure is the connection's, and ends the piece.
 */
static enum tenure_status sqlite_read_many(void *impl, struct tenure_read *reads, size_t n,
                                           size_t *done, int64_t deadline, struct tenure_error *err)
{
    struct tn_sqlite *h = impl;
    enum tenure_status status = tn_sqlite_ready(h, deadline, err);
    size_t most = n < READS_MAX ? n : READS_MAX;

    if (status)
        return status;
    if (sqlite3_exec(h->db, "BEGIN", NULL, NULL, NULL) != SQLITE_OK)
        return tn_sqlite_fail(h, sqlite3_errcode(h->db), err);
    for (*done = 0; *done < most && !status; ++*done) {
        struct tenure_read *read = &reads[*done];

        read->status = read_row(h, read->key, &read->value, err);
        /* A damaged database, unlike a damaged row, has cost the connection. */
        status = read->status == TENURE_CORRUPT && h->db ? TENURE_OK : read->status;
    }
    if (h->db && !sqlite3_get_autocommit(h->db) &&
        sqlite3_exec(h->db, "ROLLBACK", NULL, NULL, NULL) != SQLITE_OK)
        tn_sqlite_drop(h);
    return status;
}

int tn_sqlite_newest(struct tn_sqlite *h, sqlite3_int64 *version)
{
    int rc;
    sqlite3_stmt *stmt = tn_sqlite_stmt(h, TN_SQL_NEWEST, &rc);

    if (!stmt)
        return rc;
    rc = sqlite3_step(stmt);
    if (rc == SQLITE_ROW)
        *version = sqlite3_column_int64(stmt, 0);
    sqlite3_reset(stmt);
    return rc == SQLITE_ROW ? SQLITE_OK : rc;
}

/* ---- List ---------------------------------------------------------------- */

/* Begin the listing at `from`, which may be another time: see sqlite_list(). */
static int start_listing(struct tn_sqlite *h, const char *from, const char *end)
{
    int rc;
    sqlite3_stmt *stmt = tn_sqlite_stmt(h, TN_SQL_LIST, &rc);

    if (!stmt)
        return rc;
    /* Copied, because the listing outlives this call; a bound that was not
     * bound would match nothing, which is not the same as an empty listing. */
    rc = sqlite3_bind_text(stmt, 1, from, -1, SQLITE_TRANSIENT);
    if (rc == SQLITE_OK)
        rc = sqlite3_bind_text(stmt, 2, end, -1, SQLITE_TRANSIENT);
    h->listing = rc == SQLITE_OK;
    return rc;
}

static void stop_listing(struct tn_sqlite *h)
{
    if (h->listing)
        sqlite3_reset(h->stmts[TN_SQL_LIST]);
    h->listing = false;
}

/* The row that the listing stands on, and its key. */
static enum tenure_status take_listed(struct tn_sqlite *h, char key[TENURE_KEY_MAX + 1],
                                      struct tenure_value *value, struct tenure_error *err)
{
    sqlite3_stmt *row = h->stmts[TN_SQL_LIST];
    const char *text = (const char *)sqlite3_column_text(row, 5);
    size_t len = (size_t)sqlite3_column_bytes(row, 5);

    if (!text)
        return tenure_fail(err, TENURE_NOMEM, "sqlite: out of memory");
    if (strlen(text) != len || !tenure_key_valid(text))
        return tenure_fail(err, TENURE_CORRUPT,
                           "sqlite: %s: a row has an invalid key; remove the row", h->path);
    memcpy(key, text, len + 1);
    enum tenure_status status = take_row(h, row, key, value, err);
    if (status != TENURE_CORRUPT)
        return status;
    /* A damaged row does not end the listing: what a visitor sees of it is not a record of
     * anything, and read() tells why. */
    struct tenure_error why = *err;
    status = tn_sqlite_take_damaged(row, value, err);
    return status ? status : tenure_value_set(value, why.text, strlen(why.text), err);
}

/*
 * The rows are streamed, and visit() may use this handle meanwhile: then the
 * statement is reset (tn_sqlite_ready) and begun again behind the last key, so
 * that no call sees the old snapshot of the listing.
 */
static enum tenure_status sqlite_list(void *impl, const char *prefix, const char *after,
                                      tenure_visit_fn visit, void *arg,
                                      char mark[TENURE_VERSION_MAX + 1], int64_t deadline,
                                      struct tenure_error *err)
{
    struct tn_sqlite *h = impl;
    struct tenure_value value = {0};
    char key[TENURE_KEY_MAX + 1], from[TENURE_KEY_MAX + 2], end[TENURE_KEY_MAX + 2];
    sqlite3_int64 newest = 0;
    enum tenure_status status = tn_sqlite_ready(h, deadline, err);
    int rc = SQLITE_OK;

    if (status)
        return status;
    /* No key holds a byte below '-' or above 'z': these lie right behind a key
     * and behind all that begins with the prefix. */
    snprintf(end, sizeof end, "%s\x7f", prefix);
    if (after && strcmp(after, prefix) >= 0)
        snprintf(from, sizeof from, "%s\x01", after);
    else
        snprintf(from, sizeof from, "%s", prefix);
    if (mark)
        rc = tn_sqlite_newest(h, &newest);
    for (bool more = true; more && rc == SQLITE_OK && !status;) {
        if (!h->listing && !(status = tn_sqlite_ready(h, deadline, err)))
            rc = start_listing(h, from, end);
        if (status || rc != SQLITE_OK)
            break;
        rc = sqlite3_step(h->stmts[TN_SQL_LIST]);
        if (rc != SQLITE_ROW)
            break;
        rc = SQLITE_OK;
        status = take_listed(h, key, &value, err);
        snprintf(from, sizeof from, "%s\x01", key);
        more = !status && visit(arg, key, &value);
        if (more && tenure_now() >= deadline)
            status = tenure_fail(err, TENURE_TIMEOUT, "sqlite: %s: the deadline passed at '%s'",
                                 h->path, key);
    }
    stop_listing(h);
    if (!status && rc != SQLITE_OK && rc != SQLITE_DONE)
        status = tn_sqlite_fail(h, rc, err);
    if (!status && mark)
        snprintf(mark, TENURE_VERSION_MAX + 1, "%lld", newest);
    tenure_value_free(&value);
    return status;
}

/* ---- Who repairs ----------------------------------------------------------- */

static enum tenure_status sqlite_swap(void *impl, struct tenure_swap *swap, int64_t deadline,
                                      struct tenure_error *err)
{
    struct tn_sqlite *h = impl;

    if (!h->repair)
        return tn_sqlite_swap(impl, swap, deadline, err);
    swap->status = tn_sqlite_repair(h, swap, deadline, err);
    return swap->status;
}

static enum tenure_status sqlite_swap_many(void *impl, struct tenure_swap *swaps, size_t n,
                                           int64_t deadline, struct tenure_error *err)
{
    const struct tn_sqlite *h = impl;

    if (!h->repair)
        return tn_sqlite_swap_many(impl, swaps, n, deadline, err);
    for (size_t i = 0; i < n; i++)
        sqlite_swap(impl, &swaps[i], deadline, err);
    return TENURE_OK;
}

/* ---- The table ----------------------------------------------------------- */

static void sqlite_info(void *impl, struct tenure_store_info *info)
{
    (void)impl;
    info->scheme = "sqlite";
    info->promise = "one host: survives a crash or power loss at any moment, on a disk that keeps "
                    "what it has synced";
    info->notifies = true;
    info->shared = true;
    info->atomic_batch = false;
    info->batch_max = TN_SQLITE_BATCH_MAX;
}

static const struct tenure_store_ops ops = {
    .abi = TENURE_STORE_ABI,
    .scheme = "sqlite",
    .open = tn_sqlite_open,
    .close = tn_sqlite_close,
    .info = sqlite_info,
    .read = tn_sqlite_read,
    .swap = sqlite_swap,
    .swap_many = sqlite_swap_many,
    .wait = tn_sqlite_wait,
    .list = sqlite_list,
    .options = tn_sqlite_options,
    .read_many = sqlite_read_many,
    .purge = tn_sqlite_purge,
};

extern const struct tenure_store_ops *const tenure_store_module[];
TENURE_API const struct tenure_store_ops *const tenure_store_module[] = {&ops, NULL};
