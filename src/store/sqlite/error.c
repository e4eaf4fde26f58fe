#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "store/sqlite/sqlite.h"

enum tenure_status tn_sqlite_fail_errno(const char *path, int code, struct tenure_error *err)
{
    switch (code) {
    case EACCES:
    case EPERM:
        return tenure_fail(err, TENURE_DENIED,
                           "sqlite: %s: %s; give user %u write access to the file and to its "
                           "directory",
                           path, strerror(code), (unsigned)geteuid());
    case EROFS:
        return tenure_fail(err, TENURE_DENIED,
                           "sqlite: %s: %s; name a file on a file system that can be written", path,
                           strerror(code));
    case ENOSPC:
    case EDQUOT:
        return tenure_fail(err, TENURE_UNAVAILABLE,
                           "sqlite: %s: no space left; free some on that file system", path);
    case ENOENT:
    case ENOTDIR:
    case ELOOP:
    case ENAMETOOLONG:
        return tenure_fail(err, TENURE_CONFIG, "sqlite: %s: %s; check the path", path,
                           strerror(code));
    case ENOMEM:
        return tenure_fail(err, TENURE_NOMEM, "sqlite: %s: out of memory", path);
    default:
        return tenure_fail(err, TENURE_UNAVAILABLE, "sqlite: %s: %s", path, strerror(code));
    }
}

enum tenure_status tn_sqlite_fail_readonly(const struct tn_sqlite *h, struct tenure_error *err)
{
    return tn_sqlite_fail_errno(h->path, access(h->path, W_OK) != 0 ? errno : EACCES, err);
}

static enum tenure_status damaged(struct tn_sqlite *h, const char *what, struct tenure_error *err)
{
    return tenure_fail(err, TENURE_CORRUPT,
                       "sqlite: %s: %s; it was not touched: restore it from a backup, or move it "
                       "away to start with an empty store",
                       h->path, what);
}

/* A read or write that failed below SQLite; the system's own reason says more. */
static enum tenure_status fail_io(struct tn_sqlite *h, int rc, const char *what,
                                  struct tenure_error *err)
{
    int code = h->db ? sqlite3_system_errno(h->db) : 0;

    switch (rc) {
    case SQLITE_IOERR_NOMEM:
        return tenure_fail(err, TENURE_NOMEM, "sqlite: %s: out of memory", h->path);
    case SQLITE_IOERR_CORRUPTFS:
    case SQLITE_IOERR_DATA:
        return damaged(h, what, err);
    default:
        if (code && rc != SQLITE_IOERR_SHORT_READ) /* of which errno knows nothing */
            return tn_sqlite_fail_errno(h->path, code, err);
        return tenure_fail(err, TENURE_UNAVAILABLE, "sqlite: %s: %s (code %d)", h->path, what, rc);
    }
}

static enum tenure_status map(struct tn_sqlite *h, int rc, const char *what,
                              struct tenure_error *err)
{
    if (rc == SQLITE_CONSTRAINT_COMMITHOOK)
        return tenure_fail(err, TENURE_TIMEOUT, "sqlite: %s: the deadline passed before the commit",
                           h->path);
    switch (rc & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return tenure_fail(err, TENURE_TIMEOUT,
                           "sqlite: %s: another process held its lock until the deadline; if one "
                           "that uses it is stopped, continue or kill that one",
                           h->path);
    case SQLITE_NOMEM:
        return tenure_fail(err, TENURE_NOMEM, "sqlite: %s: out of memory", h->path);
    /* A record that cannot be read is never taken for an absent one: whatever
     * says that the file is not what we wrote ends here, also a table that is
     * gone (ERROR), a value out of bounds (CONSTRAINT) or far too long. */
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_ERROR:
    case SQLITE_CONSTRAINT:
    case SQLITE_TOOBIG:
    case SQLITE_FORMAT:
    case SQLITE_MISMATCH:
    case SQLITE_SCHEMA:
        return damaged(h, what, err);
    case SQLITE_READONLY:
        if (rc == SQLITE_READONLY_DBMOVED)
            return tenure_fail(err, TENURE_UNAVAILABLE, "sqlite: %s: was moved meanwhile", h->path);
        return tn_sqlite_fail_readonly(h, err);
    case SQLITE_PERM:
    case SQLITE_AUTH:
        return tn_sqlite_fail_readonly(h, err);
    case SQLITE_FULL:
        return tn_sqlite_fail_errno(h->path, ENOSPC, err);
    case SQLITE_CANTOPEN:
    case SQLITE_IOERR:
        return fail_io(h, rc, what, err);
    default:
        return tenure_fail(err, TENURE_UNAVAILABLE, "sqlite: %s: %s (code %d)", h->path, what, rc);
    }
}

enum tenure_status tn_sqlite_fail(struct tn_sqlite *h, int rc, struct tenure_error *err)
{
    enum tenure_status status = map(h, rc, h->db ? sqlite3_errmsg(h->db) : sqlite3_errstr(rc), err);

    /* Pages of a damaged file may be cached: an operator who repairs it in place
     * is noticed only by a fresh connection.  Until then nothing of the log is
     * copied over it. */
    if (status == TENURE_CORRUPT && h->db) {
        sqlite3_db_config(h->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, (int *)NULL);
        tn_sqlite_drop(h);
    }
    return status;
}

enum tenure_status tn_sqlite_no_room(struct tn_sqlite *h, struct tenure_error *err)
{
    static const char sql[] = "SELECT key, version FROM register ORDER BY version DESC LIMIT 1";
    sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(h->db, sql, -1, &stmt, NULL);

    if (rc == SQLITE_OK)
        rc = sqlite3_step(stmt);
    const char *key = rc == SQLITE_ROW ? (const char *)sqlite3_column_text(stmt, 0) : NULL;
    enum tenure_status status =
        rc == SQLITE_ROW
            ? tenure_fail(err, TENURE_CORRUPT,
                          "sqlite: %s: the row of '%.*s' has the version %lld, which leaves none "
                          "for changes: repair what it holds, or renumber it as "
                          "docs/explanation/internals/sqlite.md says",
                          h->path, TENURE_KEY_MAX, key ? key : "?", sqlite3_column_int64(stmt, 1))
            : tenure_fail(err, TENURE_CORRUPT, "sqlite: %s: the versions have run out", h->path);
    sqlite3_finalize(stmt);
    return status;
}

/*
 * What is certain when COMMIT fails, in WAL mode.  A commit writes its pages as
 * frames behind those of the last one, the last frame with a mark; syncs the
 * file; then makes them visible in the shared index.  On any error SQLite rolls
 * back: nobody sees the frames, and the next commit writes over them.  But until
 * then they stay in the file, and if every process ends first, whoever opens it
 * next recovers from the file and may find a good commit there.  So:
 *
 *   BUSY    before any frame was written: certain.
 *   CONSTRAINT_COMMITHOOK  our own hook refused it before that: certain.
 *   IOERR   a sync that failed, or an index that cannot grow, comes after the
 *           marked frame: it may yet take effect (C3, I6).
 *   FULL    the marked frame was not written whole.  Mostly its checksum fails
 *           then, but where a file system can run full on a page that it has
 *           (copy on write), the other half may be an older copy of the same
 *           bytes.  Nearly certain is not certain.
 */
enum tenure_status tn_sqlite_fail_commit(struct tn_sqlite *h, int rc, struct tenure_error *err)
{
    if ((rc & 0xff) == SQLITE_BUSY || rc == SQLITE_CONSTRAINT_COMMITHOOK)
        return tn_sqlite_fail(h, rc, err);
    return tenure_fail(err, TENURE_UNKNOWN,
                       "sqlite: %s: the commit failed and may still take effect: %s", h->path,
                       (rc & 0xff) == SQLITE_FULL ? "no space left; free some on that file system"
                                                  : sqlite3_errmsg(h->db));
}
