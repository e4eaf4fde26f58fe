/*
 * Opening: the connection and its settings, and the schema, which any number of
 * processes may find missing at once.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "os/fs.h"
#include "os/known.h"
#include "store/sqlite/sqlite.h"

#define APPLICATION_ID 0x74656e75 /* "tenu" */
#define SCHEMA_VERSION 1
#define SQLITE_OLDEST  3037000 /* STRICT tables */

/*
 * synchronous = FULL: a commit is on the disk before it is answered (C3).  The
 * cache is small (64 KiB) because an idle candidate should be; a batch may
 * exceed it, and is then kept in memory instead of being written early.  The
 * checks of the schema are for others: what we bind has been looked at.
 */
static const char settings[] = TN_SQLITE_SMALL_CACHE "PRAGMA cache_spill = OFF;"
                                                     "PRAGMA mmap_size = 0;"
                                                     "PRAGMA synchronous = FULL;"
                                                     "PRAGMA cell_size_check = ON;"
                                                     "PRAGMA ignore_check_constraints = ON;"
                                                     "PRAGMA journal_size_limit = 8388608;";

static const char *const sql[TN_SQL_COUNT] = {
    [TN_SQL_BEGIN] = "BEGIN IMMEDIATE",
    [TN_SQL_COMMIT] = "COMMIT",
    [TN_SQL_ROLLBACK] = "ROLLBACK",
    [TN_SQL_READ] = "SELECT version, nonce, prev, tombstone, data FROM register WHERE key = ?1",
    [TN_SQL_TOKEN] = "SELECT version, nonce FROM register WHERE key = ?1",
    [TN_SQL_NEWEST] = "SELECT coalesce(max(version), 0) FROM register",
    [TN_SQL_INSERT] = "INSERT INTO register (key, version, nonce, prev, tombstone, data)"
                      " VALUES (?1, ?2, ?3, zeroblob(16), ?4, ?5) ON CONFLICT (key) DO NOTHING",
    [TN_SQL_UPDATE] = "UPDATE register SET version = ?2, prev = nonce, nonce = ?3, tombstone = ?4,"
                      " data = ?5 WHERE key = ?1 AND version = ?6 AND nonce = ?7",
    /* ?2: the version that is expected; a statement that commits by itself. */
    [TN_SQL_UPDATE_ALONE] =
        "UPDATE register SET version = tenure_take((SELECT max(version) FROM register)),"
        " prev = nonce, nonce = ?3, tombstone = ?4, data = ?5"
        " WHERE key = ?1 AND version = ?2 AND nonce = ?6",
    [TN_SQL_LIST] = "SELECT version, nonce, prev, tombstone, data, key FROM register"
                    " WHERE key >= ?1 AND key < ?2 ORDER BY key",
    /* The plus keeps SQLite from walking along the keys instead of the versions. */
    [TN_SQL_SINCE] = "SELECT 1 FROM register WHERE version > ?3 AND +key >= ?1 AND +key < ?2"
                     " LIMIT 1",
    /* Never the newest row: its version is what later ones, and marks, are counted from. */
    [TN_SQL_PURGE] = "DELETE FROM register WHERE key = ?1 AND version = ?2 AND nonce = ?3"
                     " AND tombstone AND version < (SELECT max(version) FROM register)",
};

/* ---- The connection ------------------------------------------------------ */

static void sleep_ns(int64_t ns)
{
    struct timespec ts = {.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)};

    nanosleep(&ts, NULL);
}

/* SQLite asks what to do about a lock: wait a little, until the deadline (C5). */
static int busy(void *arg, int tries)
{
    const struct tn_sqlite *h = arg;
    int64_t left = h->deadline - tenure_now();
    int64_t pause = INT64_C(100000) << (tries < 4 ? tries : 4);

    if (left <= 0)
        return 0;
    sleep_ns(pause < left ? pause : left);
    return 1;
}

int tn_sqlite_connect(struct tn_sqlite *h, sqlite3 **db)
{
    /* "unix" by name: POSIX locks and shared memory, whatever default the rest
     * of this process may have chosen. */
    int rc = sqlite3_open_v2(h->path, db,
                             SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX |
                                 SQLITE_OPEN_PRIVATECACHE | SQLITE_OPEN_EXRESCODE,
                             "unix");

    if (rc == SQLITE_OK)
        sqlite3_busy_handler(*db, busy, h);
    return rc;
}

void tn_sqlite_drop(struct tn_sqlite *h)
{
    tn_sqlite_unsubscribe(h);
    for (size_t i = 0; i < TN_SQL_COUNT; i++) {
        sqlite3_finalize(h->stmts[i]);
        h->stmts[i] = NULL;
    }
    sqlite3_close(h->db);
    h->db = NULL;
    h->wal = NULL;
    free(h->shm);
    h->shm = NULL;
    h->listing = h->roomy = false;
}

sqlite3_stmt *tn_sqlite_stmt(struct tn_sqlite *h, enum tn_sqlite_stmt which, int *rc)
{
    *rc = SQLITE_OK;
    if (!h->stmts[which])
        *rc = sqlite3_prepare_v3(h->db, sql[which], -1, SQLITE_PREPARE_PERSISTENT, &h->stmts[which],
                                 NULL);
    return h->stmts[which];
}

/* The first column of the first row, as text. */
static int query_text(sqlite3 *db, const char *question, char answer[32])
{
    sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(db, question, -1, &stmt, NULL);

    if (rc == SQLITE_OK)
        rc = sqlite3_step(stmt);
    if (rc == SQLITE_ROW) {
        const char *text = (const char *)sqlite3_column_text(stmt, 0);

        snprintf(answer, 32, "%s", text ? text : "");
        rc = text ? SQLITE_OK : SQLITE_NOMEM;
    } else if (rc == SQLITE_DONE) {
        rc = SQLITE_CORRUPT;
    }
    sqlite3_finalize(stmt);
    return rc;
}

static int ask_number(sqlite3 *db, const char *question, long *number)
{
    char answer[32];
    int rc = query_text(db, question, answer);

    if (rc == SQLITE_OK)
        *number = strtol(answer, NULL, 10);
    return rc;
}

/* A file may hold anything: its schema runs no code of its own, and a value that
 * is far larger than what we write is not read; one that is larger is, so that
 * it is its row alone that makes no sense. */
static void distrust(sqlite3 *db)
{
    static const int off[] = {SQLITE_DBCONFIG_ENABLE_TRIGGER, SQLITE_DBCONFIG_ENABLE_VIEW,
                              SQLITE_DBCONFIG_TRUSTED_SCHEMA,
                              SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION};

    for (size_t i = 0; i < sizeof off / sizeof off[0]; i++)
        sqlite3_db_config(db, off[i], 0, (int *)NULL);
    sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, (int *)NULL);
    sqlite3_limit(db, SQLITE_LIMIT_LENGTH, 8 * (int)TENURE_DATA_MAX);
    sqlite3_limit(db, SQLITE_LIMIT_ATTACHED, 0);
}

/* ---- The schema ---------------------------------------------------------- */

/* How far a database is. */
enum stage {
    EMPTY, /* nobody's yet */
    MADE,  /* ours, and nothing was ever committed to it: what place.c makes */
    BEGUN,
};

/*
 * Is this database ours?  CONFIG if it is another's.  To be called in a transaction: somebody
 * may be making it right now, and the three answers must be of one moment.
 */
static enum tenure_status identify(struct tn_sqlite *h, enum stage *stage, struct tenure_error *err)
{
    long id = 0, version = 0, tables = 0;
    int rc = ask_number(h->db, "PRAGMA application_id", &id);

    if (rc == SQLITE_OK)
        rc = ask_number(h->db, "PRAGMA user_version", &version);
    if (rc == SQLITE_OK && id == 0)
        rc = ask_number(h->db, "SELECT count(*) FROM sqlite_schema", &tables);
    if (rc != SQLITE_OK)
        return tn_sqlite_fail(h, rc, err);
    bool ours = id == APPLICATION_ID;
    *stage = ours && version ? BEGUN : ours ? MADE : EMPTY;
    if ((ours && (version == 0 || version == SCHEMA_VERSION)) ||
        (id == 0 && version == 0 && tables == 0))
        return TENURE_OK;
    if (ours)
        return tenure_fail(err, TENURE_CONFIG,
                           "sqlite: %s: written by another version of tenure (schema %ld, this one "
                           "knows %d); use that version, or another file",
                           h->path, version, SCHEMA_VERSION);
    return tenure_fail(err, TENURE_CONFIG,
                       "sqlite: %s: a database of some other program; name another file", h->path);
}

/*
 * Everything in one transaction, so that nobody ever sees half of it.  Several
 * processes may arrive here at once; those who come late find it done.
 */
static enum tenure_status create_schema(struct tn_sqlite *h, struct tenure_error *err)
{
    enum tenure_status status = TENURE_OK;
    enum stage stage = EMPTY;
    int rc = sqlite3_exec(h->db, "BEGIN IMMEDIATE", NULL, NULL, NULL);

    if (rc == SQLITE_OK) {
        status = identify(h, &stage, err);
        if (status)
            return status;
        if (stage == EMPTY)
            rc = sqlite3_exec(h->db, tn_sqlite_schema, NULL, NULL, NULL);
        if (rc == SQLITE_OK && stage != BEGUN)
            rc = sqlite3_exec(h->db, "PRAGMA user_version = 1", NULL, NULL, NULL);
        if (rc == SQLITE_OK)
            rc = sqlite3_exec(h->db, "COMMIT", NULL, NULL, NULL);
    }
    return rc == SQLITE_OK ? TENURE_OK : tn_sqlite_fail(h, rc, err);
}

/*
 * The file of an empty database on the disk.  That must come before the first
 * commit there, because SQLite throws a log away whose database is empty.
 */
static int flush_database(sqlite3 *db)
{
    sqlite3_file *file = NULL;
    int rc = sqlite3_file_control(db, "main", SQLITE_FCNTL_FILE_POINTER, &file);

    return rc == SQLITE_OK ? file->pMethods->xSync(file, SQLITE_SYNC_NORMAL) : rc;
}

/*
 * Begin a database: the log, then the schema if it is empty, and the mark that
 * it is begun, which stands in the log: a file without it whose log is gone is
 * known by that.  Nobody is told of any of these, so of all the syncs until the
 * first lease only this one is made, and that of an empty file only: the first
 * commit flushes the whole log, with its directory, and they are in front of it
 * there (C3), as is the beginning of the log, which SQLite would else sync by
 * itself.  Pages are small: a commit writes two, the row's
 * and the index's, and both together are then one of the usual size.  Smaller
 * ones are hardly faster for one commit, and dearer for a batch.
 */
static enum tenure_status create(struct tn_sqlite *h, bool empty, char mode[32],
                                 struct tenure_error *err)
{
    enum tenure_status status;
    /* Nor may it copy the log, which others may have been told of, when it is closed meanwhile. */
    sqlite3_db_config(h->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, (int *)NULL);
    int rc =
        sqlite3_exec(h->db, "PRAGMA synchronous = OFF; PRAGMA page_size = 2048;", NULL, NULL, NULL);

    if (rc == SQLITE_OK)
        rc = query_text(h->db, "PRAGMA journal_mode = WAL", mode);
    if (rc == SQLITE_OK && empty)
        rc = flush_database(h->db);
    if (rc != SQLITE_OK)
        return tn_sqlite_fail(h, rc, err);
    if (strcmp(mode, "wal") != 0)
        return TENURE_OK;
    status = create_schema(h, err);
    if (status)
        return status;
    rc = sqlite3_exec(h->db, "PRAGMA synchronous = FULL", NULL, NULL, NULL);
    if (rc != SQLITE_OK)
        return tn_sqlite_fail(h, rc, err);
    sqlite3_db_config(h->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, (int *)NULL);
    return TENURE_OK;
}

/* The database as it should be.  Nothing is written to one that is not ours. */
static enum tenure_status prepare(struct tn_sqlite *h, bool make, struct tenure_error *err)
{
    enum tenure_status status;
    enum stage stage = EMPTY;
    char mode[32];
    long page = 0;
    int rc = sqlite3_exec(h->db, settings, NULL, NULL, NULL);

    if (rc == SQLITE_OK)
        rc = sqlite3_exec(h->db, "BEGIN", NULL, NULL, NULL);
    if (rc != SQLITE_OK)
        return tn_sqlite_fail(h, rc, err);
    status = identify(h, &stage, err);
    if (status)
        return status;
    if (stage != BEGUN && !make)
        return tenure_fail(err, TENURE_UNAVAILABLE,
                           "sqlite: %s was emptied while in use; put it back with its log, or "
                           "restart to start with an empty store",
                           h->path);
    rc = sqlite3_exec(h->db, "COMMIT", NULL, NULL, NULL);
    if (rc == SQLITE_OK && stage == BEGUN)
        rc = query_text(h->db, "PRAGMA journal_mode = WAL", mode); /* which stays so for ever */
    if (rc != SQLITE_OK)
        return tn_sqlite_fail(h, rc, err);
    if (stage != BEGUN)
        status = create(h, stage == EMPTY, mode, err);
    if (status)
        return status;
    rc = ask_number(h->db, "PRAGMA page_size", &page);
    if (rc != SQLITE_OK)
        return tn_sqlite_fail(h, rc, err);
    tn_sqlite_checkpoint_page(h, page);
    if (strcmp(mode, "wal") != 0)
        return tenure_fail(err, TENURE_CONFIG,
                           "sqlite: %s: this file system has no shared memory for SQLite; name a "
                           "file on a local disk, or use file:",
                           h->path);
    return TENURE_OK;
}

static enum tenure_status remember_one(const char *path, struct tn_sqlite_file *file,
                                       struct tenure_error *err)
{
    struct stat st;

    if (stat(path, &st) != 0)
        return tn_sqlite_fail_errno(path, errno, err);
    *file = (struct tn_sqlite_file){st.st_dev, st.st_ino};
    return TENURE_OK;
}

/* Remember which files are ours: see moved().  The database is the one that is open, if
 * SQLite finds nothing else at its path after we have looked. */
static enum tenure_status remember(struct tn_sqlite *h, struct tenure_error *err)
{
    int elsewhere = 0;
    enum tenure_status status = remember_one(h->path, &h->db_file, err);

    if (status)
        return status;
    if (sqlite3_file_control(h->db, "main", SQLITE_FCNTL_HAS_MOVED, &elsewhere) == SQLITE_OK &&
        elsewhere)
        return tenure_fail(err, TENURE_TIMEOUT, "sqlite: %s: is being replaced", h->path);
    h->wal = sqlite3_filename_wal(sqlite3_db_filename(h->db, "main"));
    if (asprintf(&h->shm, "%.*s-shm", (int)(strlen(h->wal) - 4), h->wal) < 0) {
        h->shm = NULL;
        return tenure_fail(err, TENURE_NOMEM, "sqlite: out of memory");
    }
    status = remember_one(h->wal, &h->wal_file, err);
    return status ? status : remember_one(h->shm, &h->shm_file, err);
}

/* ---- Connecting --------------------------------------------------------- */

static enum tenure_status connect_once(struct tn_sqlite *h, bool create, struct tenure_error *err)
{
    enum tenure_status status = tn_sqlite_place(h->path, create, err);

    if (status)
        return status;
    int rc = tn_sqlite_connect(h, &h->db);
    if (rc != SQLITE_OK) {
        status = tn_sqlite_fail(h, rc, err);
        goto done;
    }
    if (sqlite3_db_readonly(h->db, "main") == 1) {
        status = tn_sqlite_fail_readonly(h, err);
        goto done;
    }
    distrust(h->db);
    tn_sqlite_checkpoint_init(h);
    rc = tn_sqlite_swap_init(h);
    status = rc == SQLITE_OK ? prepare(h, create, err) : tn_sqlite_fail(h, rc, err);
    if (!status)
        status = remember(h, err);
done:
    if (status)
        tn_sqlite_drop(h);
    return status;
}

/*
 * Connect until the deadline.  SQLite does not always call the busy handler
 * while the journal mode changes or the last user of the file is closing it,
 * so being locked out is tried again here.
 */
static enum tenure_status connect(struct tn_sqlite *h, bool create, struct tenure_error *err)
{
    enum tenure_status status;

    for (;;) {
        status = connect_once(h, create, err);
        if (status != TENURE_TIMEOUT || tenure_now() >= h->deadline)
            return status;
        sleep_ns(500000);
    }
}

/*
 * Has somebody replaced the database, its log or its locks under us?  Then what we
 * write is seen by nobody who came later.
 */
static bool moved(const struct tn_sqlite *h)
{
    return tn_fs_is(h->path, h->db_file.dev, h->db_file.ino) != 1 ||
           tn_fs_is(h->wal, h->wal_file.dev, h->wal_file.ino) != 1 ||
           tn_fs_is(h->shm, h->shm_file.dev, h->shm_file.ino) != 1;
}

enum tenure_status tn_sqlite_ready(struct tn_sqlite *h, int64_t deadline, struct tenure_error *err)
{
    h->deadline = deadline;
    if (tenure_now() >= deadline)
        return tenure_fail(err, TENURE_TIMEOUT, "sqlite: %s: the deadline has passed", h->path);
    if (h->listing) {
        sqlite3_reset(h->stmts[TN_SQL_LIST]);
        h->listing = false;
    }
    if (h->db && moved(h))
        tn_sqlite_drop(h);
    return h->db ? TENURE_OK : connect(h, false, err);
}

/* ---- Open and close ------------------------------------------------------ */

enum tenure_status tn_sqlite_open(const char *url, int64_t deadline, void **impl,
                                  struct tenure_error *err)
{
    enum tenure_status status;
    struct tn_sqlite *h;
    bool create;

    if (!sqlite3_threadsafe() || sqlite3_libversion_number() < SQLITE_OLDEST)
        return tenure_fail(err, TENURE_UNSUPPORTED,
                           "sqlite: needs a thread-safe SQLite 3.37 or later; this one is %s",
                           sqlite3_libversion());
    if (tenure_now() >= deadline)
        return tenure_fail(err, TENURE_TIMEOUT, "sqlite: the deadline has passed");
    h = calloc(1, sizeof *h);
    if (!h)
        return tenure_fail(err, TENURE_NOMEM, "sqlite: out of memory");
    h->notify_fd = -1;
    h->deadline = deadline;
    status = tn_sqlite_path(url, &h->path, &h->repair, &create, err);
    bool used = !status && tn_known_identity(h->path);
    if (!status && !used && !create)
        status = tn_sqlite_there(h->path, err);
    if (!status)
        status = connect(h, create && !used, err);
    if (!status && !tn_known_add(h->path, ""))
        status = tenure_fail(err, TENURE_NOMEM, "sqlite: out of memory");
    if (status) {
        tn_sqlite_close(h);
        return status;
    }
    *impl = h;
    return TENURE_OK;
}

void tn_sqlite_close(void *impl)
{
    struct tn_sqlite *h = impl;

    tn_sqlite_drop(h);
    free(h->path);
    free(h);
}
