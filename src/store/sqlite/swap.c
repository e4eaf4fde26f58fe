/*
 * Swaps: one in one statement, many in one transaction.
 *
 * A swap alone is an UPDATE that commits by itself.  It takes the writer's lock
 * before it looks at anything, as BEGIN IMMEDIATE does, so what it compares
 * with is what it replaces (C2).  Two things are needed from inside it: the
 * version that it took, which a function of ours hands out; and whether a
 * failure came before its commit, when nothing has changed for certain, or
 * after, which the commit hook tells (C3).
 */
#include "base/decimal.h"
#include "store/sqlite/sqlite.h"

#define BATCH_LARGE 64
#define LOOK_EVERY  64 /* rows: at the clock */

/* ---- One statement ------------------------------------------------------- */

/* tenure_take(max): the next version, noted. */
static void take_version(sqlite3_context *context, int n, sqlite3_value **values)
{
    struct tn_sqlite *h = sqlite3_user_data(context);
    sqlite3_int64 newest = n == 1 ? sqlite3_value_int64(values[0]) : INT64_MAX;

    if (newest >= TN_SQLITE_VERSION_MAX) {
        h->no_room = true;
        sqlite3_result_error(context, "the versions have run out", -1);
        return;
    }
    h->taken = newest + 1;
    sqlite3_result_int64(context, h->taken);
}

/* Asked before each commit (C5).  Not 0: roll back instead. */
static int before_commit(void *arg)
{
    struct tn_sqlite *h = arg;

    if (tenure_now() >= h->deadline)
        return 1;
    h->committing = true;
    return 0;
}

int tn_sqlite_swap_init(struct tn_sqlite *h)
{
    sqlite3_commit_hook(h->db, before_commit, h);
    return sqlite3_create_function_v2(h->db, "tenure_take", 1, SQLITE_UTF8 | SQLITE_DIRECTONLY, h,
                                      take_version, NULL, NULL, NULL);
}

/* ---- Transactions -------------------------------------------------------- */

/* One of the statements that take and give nothing. */
static int run(struct tn_sqlite *h, enum tn_sqlite_stmt which)
{
    int rc;
    sqlite3_stmt *stmt = tn_sqlite_stmt(h, which, &rc);

    if (!stmt)
        return rc;
    rc = sqlite3_step(stmt);
    sqlite3_reset(stmt);
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* After some errors SQLite has rolled back by itself; after a drop there is nothing. */
static void roll_back(struct tn_sqlite *h)
{
    if (h->db && !sqlite3_get_autocommit(h->db) && run(h, TN_SQL_ROLLBACK) != SQLITE_OK)
        tn_sqlite_drop(h);
}

/* Take the writer's lock before looking at anything: what a swap compares with
 * is then what it replaces (C2), and nothing has to be retried. */
static enum tenure_status begin(struct tn_sqlite *h, int64_t deadline, struct tenure_error *err)
{
    enum tenure_status status = tn_sqlite_ready(h, deadline, err);

    if (status)
        return status;
    int rc = run(h, TN_SQL_BEGIN);
    return rc == SQLITE_OK ? TENURE_OK : tn_sqlite_fail(h, rc, err);
}

static enum tenure_status commit(struct tn_sqlite *h, struct tenure_error *err)
{
    int rc = run(h, TN_SQL_COMMIT);
    if (rc != SQLITE_OK)
        return tn_sqlite_fail_commit(h, rc, err);
    tn_sqlite_ring(h);
    tn_sqlite_checkpoint(h);
    return TENURE_OK;
}

/* ---- Swaps --------------------------------------------------------------- */

/* What INSERT and UPDATE have in common. */
static int bind_swap(sqlite3_stmt *stmt, const struct tenure_swap *swap, sqlite3_int64 version)
{
    int rc = sqlite3_bind_text(stmt, 1, swap->key, -1, SQLITE_STATIC);

    if (rc == SQLITE_OK)
        rc = sqlite3_bind_int64(stmt, 2, version);
    if (rc == SQLITE_OK)
        rc = sqlite3_bind_blob(stmt, 3, swap->nonce, TENURE_NONCE_SIZE, SQLITE_STATIC);
    if (rc == SQLITE_OK)
        rc = sqlite3_bind_int(stmt, 4, swap->tombstone);
    if (rc == SQLITE_OK)
        rc = sqlite3_bind_blob(stmt, 5, swap->len ? swap->data : "", (int)swap->len, SQLITE_STATIC);
    return rc;
}

/* Write one register inside a transaction.  *written tells a match from a conflict. */
static int write_row(struct tn_sqlite *h, const struct tenure_swap *swap, sqlite3_int64 version,
                     bool *written)
{
    bool create = tenure_token_absent(&swap->expect);
    sqlite3_int64 expect = 0;
    int rc;

    *written = false;
    if (!create && !tn_sqlite_version(swap->expect.version, &expect))
        return SQLITE_OK; /* not a token of this store: it matches nothing */
    sqlite3_stmt *stmt = tn_sqlite_stmt(h, create ? TN_SQL_INSERT : TN_SQL_UPDATE, &rc);
    if (!stmt)
        return rc;
    rc = bind_swap(stmt, swap, version);
    if (rc == SQLITE_OK && !create)
        rc = sqlite3_bind_int64(stmt, 6, expect);
    if (rc == SQLITE_OK && !create)
        rc = sqlite3_bind_blob(stmt, 7, swap->expect.nonce, TENURE_NONCE_SIZE, SQLITE_STATIC);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(stmt);
    *written = rc == SQLITE_DONE && sqlite3_changes(h->db) == 1;
    sqlite3_reset(stmt);
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

void tn_sqlite_tell(struct tenure_swap *swap, sqlite3_int64 version)
{
    swap->status = TENURE_OK;
    memset(&swap->token, 0, sizeof swap->token);
    *tn_put_number(swap->token.version, (uint64_t)version) = '\0';
    memcpy(swap->token.nonce, swap->nonce, TENURE_NONCE_SIZE);
}

/* Apply swaps in the transaction under way; sets the status and token of each.
 * OK if each was either written or found in conflict. */
static enum tenure_status apply(struct tn_sqlite *h, struct tenure_swap *swaps, size_t n,
                                size_t *n_written, struct tenure_error *err)
{
    sqlite3_int64 version = 0;
    int rc = tn_sqlite_newest(h, &version);

    *n_written = 0;
    for (size_t i = 0; i < n && rc == SQLITE_OK; i++) {
        bool written;

        if (i % LOOK_EVERY == 0 && tenure_now() >= h->deadline)
            return tenure_fail(err, TENURE_TIMEOUT, "sqlite: %s: the deadline passed at '%s'",
                               h->path, swaps[i].key);
        if (version >= TN_SQLITE_VERSION_MAX)
            return tn_sqlite_no_room(h, err);
        rc = write_row(h, &swaps[i], version + 1, &written);
        if (rc != SQLITE_OK)
            break;
        swaps[i].status = TENURE_CONFLICT;
        if (!written)
            continue;
        ++*n_written;
        tn_sqlite_tell(&swaps[i], ++version);
    }
    return rc == SQLITE_OK ? TENURE_OK : tn_sqlite_fail(h, rc, err);
}

/* Who writes many rows together does so again and again, and reads them before: they stay in
 * memory. */
static void make_room(struct tn_sqlite *h)
{
    if (h->db && !h->roomy)
        h->roomy = sqlite3_exec(h->db, "PRAGMA cache_size = -4096", NULL, NULL, NULL) == SQLITE_OK;
}

void tn_sqlite_give_room(struct tn_sqlite *h)
{
    if (h->db && h->roomy)
        h->roomy = sqlite3_exec(h->db, TN_SQLITE_SMALL_CACHE, NULL, NULL, NULL) != SQLITE_OK;
}

/*
 * A batch is one transaction: what of it takes effect does so at one instant,
 * and survives a crash as a whole.  It is not atomic in the contract's sense,
 * because a conflict in one register does not hold back the others.
 */
enum tenure_status tn_sqlite_swap_many(void *impl, struct tenure_swap *swaps, size_t n,
                                       int64_t deadline, struct tenure_error *err)
{
    struct tn_sqlite *h = impl;
    enum tenure_status status;
    size_t n_written = 0;

    for (size_t i = 0; i < n; i++)
        swaps[i].status = TENURE_OK; /* until answered otherwise */
    if (n >= BATCH_LARGE)
        make_room(h);
    status = begin(h, deadline, err);
    if (!status)
        status = apply(h, swaps, n, &n_written, err);
    if (!status && n_written)
        status = commit(h, err);
    if (status || !n_written)
        roll_back(h);
    /* A conflict stays one: it was found under the lock (C3). */
    for (size_t i = 0; status && i < n; i++) {
        if (swaps[i].status == TENURE_OK)
            swaps[i].status = status;
    }
    return status;
}

/* ---- Alone --------------------------------------------------------------- */

static enum tenure_status update_alone(struct tn_sqlite *h, struct tenure_swap *swap,
                                       sqlite3_int64 expect, struct tenure_error *err)
{
    int rc;
    sqlite3_stmt *stmt = tn_sqlite_stmt(h, TN_SQL_UPDATE_ALONE, &rc);

    if (!stmt)
        return tn_sqlite_fail(h, rc, err);
    h->committing = h->no_room = false;
    rc = bind_swap(stmt, swap, expect);
    if (rc == SQLITE_OK)
        rc = sqlite3_bind_blob(stmt, 6, swap->expect.nonce, TENURE_NONCE_SIZE, SQLITE_STATIC);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(stmt);
    bool written = rc == SQLITE_DONE && sqlite3_changes(h->db) == 1;
    sqlite3_reset(stmt);
    if (h->no_room)
        return tn_sqlite_no_room(h, err);
    if (rc != SQLITE_DONE)
        return h->committing ? tn_sqlite_fail_commit(h, rc, err) : tn_sqlite_fail(h, rc, err);
    if (!written)
        return tenure_fail(err, TENURE_CONFLICT, "sqlite: %s has changed", swap->key);
    tn_sqlite_tell(swap, h->taken);
    tn_sqlite_ring(h);
    tn_sqlite_checkpoint(h);
    return TENURE_OK;
}

enum tenure_status tn_sqlite_swap(void *impl, struct tenure_swap *swap, int64_t deadline,
                                  struct tenure_error *err)
{
    struct tn_sqlite *h = impl;
    sqlite3_int64 expect;

    /* A create is rare; a token that is not ours finds its conflict there. */
    if (tenure_token_absent(&swap->expect) || !tn_sqlite_version(swap->expect.version, &expect)) {
        enum tenure_status status = tn_sqlite_swap_many(impl, swap, 1, deadline, err);

        if (!status && swap->status == TENURE_CONFLICT)
            tenure_fail(err, TENURE_CONFLICT, "sqlite: %s has changed", swap->key);
        return swap->status;
    }
    swap->status = tn_sqlite_ready(h, deadline, err);
    if (!swap->status)
        swap->status = update_alone(h, swap, expect, err);
    return swap->status;
}

/* ---- Purging ------------------------------------------------------------- */

static enum tenure_status delete_row(struct tn_sqlite *h, const struct tenure_swap *swap,
                                     sqlite3_int64 expect, struct tenure_error *err)
{
    int rc;
    sqlite3_stmt *stmt = tn_sqlite_stmt(h, TN_SQL_PURGE, &rc);

    if (!stmt)
        return tn_sqlite_fail(h, rc, err);
    h->committing = false;
    rc = sqlite3_bind_text(stmt, 1, swap->key, -1, SQLITE_STATIC);
    if (rc == SQLITE_OK)
        rc = sqlite3_bind_int64(stmt, 2, expect);
    if (rc == SQLITE_OK)
        rc = sqlite3_bind_blob(stmt, 3, swap->expect.nonce, TENURE_NONCE_SIZE, SQLITE_STATIC);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(stmt);
    bool deleted = rc == SQLITE_DONE && sqlite3_changes(h->db) == 1;
    sqlite3_reset(stmt);
    if (rc != SQLITE_DONE)
        return h->committing ? tn_sqlite_fail_commit(h, rc, err) : tn_sqlite_fail(h, rc, err);
    if (!deleted)
        return tenure_fail(err, TENURE_CONFLICT, "sqlite: %s has changed", swap->key);
    tn_sqlite_checkpoint(h);
    return TENURE_OK;
}

enum tenure_status tn_sqlite_purge(void *impl, struct tenure_swap *swap, int64_t deadline,
                                   struct tenure_error *err)
{
    sqlite3_int64 expect;

    swap->status = tn_sqlite_ready(impl, deadline, err);
    if (!swap->status && !tn_sqlite_version(swap->expect.version, &expect))
        swap->status = tenure_fail(err, TENURE_CONFLICT, "sqlite: %s has changed", swap->key);
    if (!swap->status)
        swap->status = delete_row(impl, swap, expect, err);
    return swap->status;
}
