/*
 * Rows that are not what this store writes.  Everybody is told CORRUPT, but an
 * operator who repairs (repair=yes) reads such a row as it is: a line that quotes
 * its columns, and its data.  Its token is a sum of just that, so it can be
 * kept, and then replaced if it is still what was kept (C2).
 *
 * Other rows' versions may be damaged too, so whatever a repairer writes is
 * numbered by those that make sense, one transaction a swap.  See next_version().
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/damaged.h"
#include "store/sqlite/sqlite.h"

/* ---- What a row says ----------------------------------------------------- */

bool tn_sqlite_sane(sqlite3_stmt *row)
{
    return sqlite3_column_type(row, 0) == SQLITE_INTEGER && sqlite3_column_int64(row, 0) > 0 &&
           sqlite3_column_int64(row, 0) <= TN_SQLITE_VERSION_MAX &&
           sqlite3_column_type(row, 1) == SQLITE_BLOB &&
           sqlite3_column_bytes(row, 1) == TENURE_NONCE_SIZE &&
           sqlite3_column_type(row, 2) == SQLITE_BLOB &&
           sqlite3_column_bytes(row, 2) == TENURE_NONCE_SIZE &&
           sqlite3_column_type(row, 3) == SQLITE_INTEGER &&
           (sqlite3_column_int64(row, 3) & ~INT64_C(1)) == 0 &&
           sqlite3_column_type(row, 4) == SQLITE_BLOB &&
           (size_t)sqlite3_column_bytes(row, 4) <= TENURE_DATA_MAX;
}

static void quote(sqlite3_str *to, const char *name, sqlite3_stmt *row, int column)
{
    sqlite3_str_appendf(to, "%s=", name);
    switch (sqlite3_column_type(row, column)) {
    case SQLITE_NULL:
        sqlite3_str_appendall(to, "NULL ");
        break;
    case SQLITE_INTEGER:
        sqlite3_str_appendf(to, "%lld ", sqlite3_column_int64(row, column));
        break;
    case SQLITE_FLOAT:
        sqlite3_str_appendf(to, "%!.17g ", sqlite3_column_double(row, column));
        break;
    default: {
        bool text = sqlite3_column_type(row, column) == SQLITE_TEXT;
        const unsigned char *bytes = sqlite3_column_blob(row, column);
        int n = sqlite3_column_bytes(row, column);

        sqlite3_str_appendall(to, text ? "TEXT x'" : "x'");
        for (int i = 0; i < n; i++)
            sqlite3_str_appendf(to, "%02x", bytes[i]);
        sqlite3_str_appendall(to, "' ");
    }
    }
}

enum tenure_status tn_sqlite_take_damaged(sqlite3_stmt *row, struct tenure_value *value,
                                          struct tenure_error *err)
{
    static const char *const kinds[] = {"", "integer", "real", "text", "blob", "null"};
    sqlite3_str *text = sqlite3_str_new(NULL);

    quote(text, "sqlite-row 1 version", row, 0);
    quote(text, "nonce", row, 1);
    quote(text, "prev", row, 2);
    quote(text, "tombstone", row, 3);
    sqlite3_str_appendf(text, "%s\n", kinds[sqlite3_column_type(row, 4)]);
    sqlite3_str_append(text, sqlite3_column_blob(row, 4), sqlite3_column_bytes(row, 4));
    bool failed = sqlite3_str_errcode(text) != SQLITE_OK;
    size_t len = (size_t)sqlite3_str_length(text);
    char *bytes = sqlite3_str_finish(text);
    enum tenure_status status = failed || !bytes
                                    ? tenure_fail(err, TENURE_NOMEM, "sqlite: out of memory")
                                    : tn_damaged_value(value, bytes, len, err);
    sqlite3_free(bytes);
    return status;
}

/* ---- Replacing ----------------------------------------------------------- */

/*
 * The version to write: above all that make sense.  Where one makes none, what it
 * was is lost, and may have been the highest: far above then, so that it does not
 * come back (whoever waits for versions above a mark would miss it, C6).
 */
static int next_version(struct tn_sqlite *h, sqlite3_int64 *version)
{
    static const char sql[] =
        "SELECT coalesce(max(version) FILTER (WHERE sane), 0), coalesce(min(sane), 1) FROM (SELECT"
        " version, typeof(version) = 'integer' AND version > 0 AND version <= ?1 AS sane"
        " FROM register)";
    sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(h->db, sql, -1, &stmt, NULL);

    if (rc == SQLITE_OK)
        rc = sqlite3_bind_int64(stmt, 1, TN_SQLITE_VERSION_MAX);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(stmt);
    if (rc == SQLITE_ROW)
        *version = sqlite3_column_int64(stmt, 0) +
                   (sqlite3_column_int(stmt, 1) ? 1 : TN_SQLITE_VERSION_JUMP);
    sqlite3_finalize(stmt);
    return rc == SQLITE_ROW ? SQLITE_OK : rc;
}

/* Whatever the columns hold. */
static int put_row(struct tn_sqlite *h, const struct tenure_swap *swap, sqlite3_int64 version)
{
    sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(h->db,
                                "INSERT INTO register (key, version, nonce, prev, tombstone, data)"
                                " VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (key) DO UPDATE SET"
                                " version = excluded.version, nonce = excluded.nonce,"
                                " prev = excluded.prev, tombstone = excluded.tombstone,"
                                " data = excluded.data",
                                -1, &stmt, NULL);

    if (rc == SQLITE_OK)
        rc = sqlite3_bind_text(stmt, 1, swap->key, -1, SQLITE_STATIC);
    if (rc == SQLITE_OK)
        rc = sqlite3_bind_int64(stmt, 2, version);
    if (rc == SQLITE_OK)
        rc = sqlite3_bind_blob(stmt, 3, swap->nonce, TENURE_NONCE_SIZE, SQLITE_STATIC);
    if (rc == SQLITE_OK)
        rc = sqlite3_bind_blob(stmt, 4, swap->expect.nonce, TENURE_NONCE_SIZE, SQLITE_STATIC);
    if (rc == SQLITE_OK)
        rc = sqlite3_bind_int(stmt, 5, swap->tombstone);
    if (rc == SQLITE_OK)
        rc = sqlite3_bind_blob(stmt, 6, swap->len ? swap->data : "", (int)swap->len, SQLITE_STATIC);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(stmt);
    sqlite3_finalize(stmt);
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* In a transaction: compare and write.  CONFLICT: nothing was written. */
static enum tenure_status replace(struct tn_sqlite *h, struct tenure_swap *swap,
                                  sqlite3_int64 *version, struct tenure_error *err)
{
    struct tenure_value value = {0};
    enum tenure_status status = tn_sqlite_read(h, swap->key, &value, h->deadline, err);
    bool same = tenure_token_equal(&value.token, &swap->expect);
    int rc;

    tenure_value_free(&value);
    if (status)
        return status;
    if (!same || sqlite3_get_autocommit(h->db)) /* or the file itself has, just now */
        return tenure_fail(err, TENURE_CONFLICT, "sqlite: %s has changed", swap->key);
    rc = next_version(h, version);
    if (rc == SQLITE_OK && *version > TN_SQLITE_VERSION_MAX)
        return tn_sqlite_no_room(h, err);
    if (rc == SQLITE_OK)
        rc = put_row(h, swap, *version);
    /* The row does not agree with the index of its version any more: make that again. */
    if (rc == SQLITE_CORRUPT_INDEX) {
        rc = sqlite3_exec(h->db, "REINDEX register", NULL, NULL, NULL);
        if (rc == SQLITE_OK)
            rc = put_row(h, swap, *version);
    }
    return rc == SQLITE_OK ? TENURE_OK : tn_sqlite_fail(h, rc, err);
}

enum tenure_status tn_sqlite_repair(struct tn_sqlite *h, struct tenure_swap *swap, int64_t deadline,
                                    struct tenure_error *err)
{
    sqlite3_int64 version = 0;
    enum tenure_status status = tn_sqlite_ready(h, deadline, err);
    int rc;

    if (status)
        return status;
    rc = sqlite3_exec(h->db, "BEGIN IMMEDIATE", NULL, NULL, NULL);
    if (rc != SQLITE_OK)
        return tn_sqlite_fail(h, rc, err);
    status = replace(h, swap, &version, err);
    if (!status) {
        rc = sqlite3_exec(h->db, "COMMIT", NULL, NULL, NULL);
        status = rc == SQLITE_OK ? TENURE_OK : tn_sqlite_fail_commit(h, rc, err);
    }
    if (status) { /* a connection that is dropped rolls back */
        if (h->db && !sqlite3_get_autocommit(h->db))
            tn_sqlite_drop(h);
        return status;
    }
    tn_sqlite_tell(swap, version);
    tn_sqlite_ring(h);
    return TENURE_OK;
}
