/* replica/database.c - see database.h. */
#include "replica/database.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "os/fs.h"
#include "replica/schema.h"

#define BUSY_MS    10000
#define LINK_BYTES (2 * sizeof(uint64_t) + TENURE_NONCE_SIZE)
#define FIELDS     "key, n, nonce, prev, tombstone, data"
#define PUT_INTO   "INSERT OR REPLACE INTO "

enum stmt {
    GET_HEAD,
    SET_HEAD,
    FIND,
    SINCE,
    RANGE,
    CHANGED,
    PUT,
    REMOVE,
    PUT_STAGED,
    DROP_STAGED,
    PUT_ASIDE,
    REMOVE_ALL,
    TAKE_STAGED,
    TAKE_STAGED_ABSENT,
    FORGET,
    COUNT,
    STMTS,
};

static const char *const sql[STMTS] = {
    [GET_HEAD] = "SELECT database, epoch, n, links, floor, committed_epoch, committed_n, "
                 "committed_grant, staging, staging_begun, staging_floor, staging_to, "
                 "staging_epoch, staging_n, staging_grant, led FROM head",
    [SET_HEAD] = PUT_INTO "head VALUES (1, ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, "
                          "?13, ?14, ?15, coalesce(?16, (SELECT led FROM head), zeroblob(16)))",
    [FIND] = "SELECT " FIELDS " FROM document WHERE key = ?1",
    [SINCE] = "SELECT " FIELDS " FROM document WHERE n > ?1 ORDER BY n",
    [RANGE] = "SELECT " FIELDS " FROM document WHERE key >= ?1 AND key < ?2 ORDER BY key",
    [CHANGED] = "SELECT 1 FROM document WHERE n > ?3 AND key >= ?1 AND key < ?2 LIMIT 1",
    [PUT] = PUT_INTO "document (" FIELDS ") VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    [REMOVE] = "DELETE FROM document WHERE key = ?1",
    [PUT_STAGED] = PUT_INTO "staged (" FIELDS ") VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    [DROP_STAGED] = "DELETE FROM staged",
    [PUT_ASIDE] = "INSERT INTO conflict (key, epoch, n, tombstone, data, kept_at) SELECT key, ?2, "
                  "n, tombstone, data, datetime('now') FROM document WHERE n > ?1",
    [REMOVE_ALL] = "DELETE FROM document",
    [TAKE_STAGED] = PUT_INTO "document (" FIELDS ") SELECT " FIELDS " FROM staged WHERE n > 0",
    [TAKE_STAGED_ABSENT] = "DELETE FROM document WHERE key IN (SELECT key FROM staged WHERE n = 0)",
    [FORGET] = "DELETE FROM document WHERE tombstone = 1 AND n <= ?1",
    [COUNT] = "SELECT (SELECT count(*) FROM document WHERE tombstone = 0), "
              "(SELECT count(*) FROM conflict)",
};

struct tn_database {
    sqlite3 *db;
    char *path;
    sqlite3_stmt *stmts[STMTS];
};

/* ---- Failures and statements ------------------------------------------------ */

static enum tenure_status fail(const struct tn_database *d, struct tenure_error *err)
{
    int rc = sqlite3_errcode(d->db) & 0xff;
    enum tenure_status status = TENURE_UNAVAILABLE;

    if (rc == SQLITE_CORRUPT || rc == SQLITE_NOTADB || rc == SQLITE_ERROR || rc == SQLITE_MISMATCH)
        status = TENURE_CORRUPT;
    else if (rc == SQLITE_NOMEM)
        status = TENURE_NOMEM;
    else if (rc == SQLITE_PERM || rc == SQLITE_READONLY || rc == SQLITE_AUTH)
        status = TENURE_DENIED;
    return tenure_fail(err, status, "replica: %s: %s", d->path, sqlite3_errmsg(d->db));
}

static enum tenure_status malformed(const struct tn_database *d, const char *what,
                                    struct tenure_error *err)
{
    return tenure_fail(err, TENURE_CORRUPT, "replica: %s: %s is malformed; left unchanged", d->path,
                       what);
}

static enum tenure_status execute(struct tn_database *d, const char *text, struct tenure_error *err)
{
    return sqlite3_exec(d->db, text, NULL, NULL, NULL) == SQLITE_OK ? TENURE_OK : fail(d, err);
}

static sqlite3_stmt *prepare(struct tn_database *d, enum stmt which)
{
    if (d->stmts[which] == NULL &&
        sqlite3_prepare_v3(d->db, sql[which], -1, SQLITE_PREPARE_PERSISTENT, &d->stmts[which],
                           NULL) != SQLITE_OK)
        return NULL;
    return d->stmts[which];
}

/* A statement that returns nothing, with its arguments bound. */
static enum tenure_status run(struct tn_database *d, sqlite3_stmt *stmt, struct tenure_error *err)
{
    enum tenure_status status =
        stmt != NULL && sqlite3_step(stmt) == SQLITE_DONE ? TENURE_OK : fail(d, err);

    sqlite3_reset(stmt);
    return status;
}

/* ---- Open and close ---------------------------------------------------------- */

static bool is_empty(struct tn_database *d)
{
    sqlite3_stmt *stmt = NULL;
    bool empty =
        sqlite3_prepare_v2(d->db, "SELECT 1 FROM sqlite_schema", -1, &stmt, NULL) == SQLITE_OK &&
        sqlite3_step(stmt) == SQLITE_DONE;

    sqlite3_finalize(stmt);
    return empty;
}

static enum tenure_status make_tables(struct tn_database *d, struct tenure_error *err)
{
    struct tn_copy_head head = {0};
    struct tn_database_write first = {.write = TN_WRITE_HEAD, .head = &head};
    enum tenure_status status = tenure_nonce(head.database, err);

    if (status == TENURE_OK)
        status = execute(d, TN_DATABASE_SCHEMA, err);
    return status ? status : tn_database_write(d, &first, err);
}

static enum tenure_status check_mark(struct tn_database *d, struct tenure_error *err)
{
    sqlite3_stmt *stmt = NULL;
    long mark = 0;

    if (sqlite3_prepare_v2(d->db, "PRAGMA application_id", -1, &stmt, NULL) != SQLITE_OK ||
        sqlite3_step(stmt) != SQLITE_ROW) {
        sqlite3_finalize(stmt);
        return fail(d, err);
    }
    mark = (long)sqlite3_column_int64(stmt, 0);
    sqlite3_finalize(stmt);
    if (mark == strtol(TN_DATABASE_MARK, NULL, 0))
        return TENURE_OK;
    return tenure_fail(err, TENURE_CONFIG,
                       "replica: %s is not a replicated state; name another file", d->path);
}

static enum tenure_status open_file(struct tn_database *d, bool create, struct tenure_error *err)
{
    int flags = create ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE : SQLITE_OPEN_READWRITE;
    enum tenure_status status = TENURE_OK;

    if (create) { /* SQLite would let others read it; what is there keeps its mode */
        int fd = open(d->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

        if (fd >= 0)
            close(fd);
    }
    if (sqlite3_open_v2(d->path, &d->db, flags | SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK)
        return d->db != NULL ? fail(d, err) : tenure_fail(err, TENURE_NOMEM, "out of memory");
    sqlite3_extended_result_codes(d->db, 1);
    sqlite3_busy_timeout(d->db, BUSY_MS);
    if (create) /* Readers do not hold up the writer, and every commit is on the disk (R2). */
        status = execute(d, "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL", err);
    if (status == TENURE_OK && create && is_empty(d))
        status = make_tables(d, err);
    return status ? status : check_mark(d, err);
}

enum tenure_status tn_database_open(const char *path, bool create, struct tn_database **out,
                                    struct tenure_error *err)
{
    struct tn_database *d = calloc(1, sizeof *d);
    const char *system = NULL;
    enum tenure_status status;

    if (d == NULL || (d->path = strdup(path)) == NULL) {
        free(d);
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    }
    status = open_file(d, create, err);
    if (status == TENURE_OK && tn_fs_network(path, &system) == 1)
        status = tenure_fail(err, TENURE_CONFIG,
                             "replica: %s is on %s: each node needs a copy on a disk of its own",
                             path, system);
    if (status == TENURE_OK)
        *out = d;
    else
        tn_database_close(d);
    return status;
}

void tn_database_close(struct tn_database *d)
{
    if (d == NULL)
        return;
    for (unsigned i = 0; i < STMTS; i++)
        sqlite3_finalize(d->stmts[i]);
    sqlite3_close(d->db);
    free(d->path);
    free(d);
}

enum tenure_status tn_database_lock(const char *path, int *fd, struct tenure_error *err)
{
    char name[4200];
    int made;

    snprintf(name, sizeof name, "%s-lock", path);
    made = open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (made < 0)
        return tenure_fail(err, errno == EACCES ? TENURE_DENIED : TENURE_UNAVAILABLE,
                           "replica: %s: %s", name, strerror(errno));
    if (flock(made, LOCK_EX | LOCK_NB) != 0) {
        close(made);
        return tenure_fail(err, TENURE_CONFIG,
                           "replica: %s is used by another process: give each its own file", path);
    }
    *fd = made;
    return TENURE_OK;
}

/* ---- The head ---------------------------------------------------------------- */

static size_t encode_links(const struct tn_chain *chain, uint8_t *out)
{
    for (uint32_t i = 0; i < chain->count; i++) {
        uint8_t *at = out + i * LINK_BYTES;

        memcpy(at, &chain->link[i].epoch, sizeof(uint64_t));
        memcpy(at + 8, &chain->link[i].first, sizeof(uint64_t));
        memcpy(at + 16, chain->link[i].grant, TENURE_NONCE_SIZE);
    }
    return chain->count * LINK_BYTES;
}

static bool decode_links(sqlite3_stmt *row, int column, struct tn_chain *chain)
{
    const uint8_t *bytes = sqlite3_column_blob(row, column);
    size_t size = (size_t)sqlite3_column_bytes(row, column);

    if (size % LINK_BYTES != 0 || size / LINK_BYTES > TN_CHAIN_MAX)
        return false;
    chain->count = (uint32_t)(size / LINK_BYTES);
    for (uint32_t i = 0; i < chain->count; i++) {
        const uint8_t *at = bytes + i * LINK_BYTES;

        memcpy(&chain->link[i].epoch, at, sizeof(uint64_t));
        memcpy(&chain->link[i].first, at + 8, sizeof(uint64_t));
        memcpy(chain->link[i].grant, at + 16, TENURE_NONCE_SIZE);
    }
    return tn_chain_valid(chain);
}

static bool column_nonce(sqlite3_stmt *row, int column, uint8_t *nonce)
{
    const void *bytes = sqlite3_column_blob(row, column);

    if (bytes == NULL || sqlite3_column_bytes(row, column) != TENURE_NONCE_SIZE)
        return false;
    memcpy(nonce, bytes, TENURE_NONCE_SIZE);
    return true;
}

static uint64_t column_number(sqlite3_stmt *row, int column)
{
    return (uint64_t)sqlite3_column_int64(row, column);
}

static bool decode_head(sqlite3_stmt *row, struct tn_copy_head *head, uint8_t *led)
{
    struct tn_staging *staging = &head->staging;

    memset(head, 0, sizeof *head);
    head->epoch = column_number(row, 1);
    head->chain.n = column_number(row, 2);
    head->floor = column_number(row, 4);
    head->committed.epoch = column_number(row, 5);
    head->committed.n = column_number(row, 6);
    staging->taking = (enum tn_taking)sqlite3_column_int(row, 8);
    staging->begun = column_number(row, 9);
    staging->floor = column_number(row, 10);
    staging->to = column_number(row, 11);
    staging->far.epoch = column_number(row, 12);
    staging->far.n = column_number(row, 13);
    return column_nonce(row, 0, head->database) && decode_links(row, 3, &head->chain) &&
           column_nonce(row, 7, head->committed.grant) &&
           column_nonce(row, 14, staging->far.grant) && column_nonce(row, 15, led) &&
           staging->taking >= TN_TAKE_NOTHING && staging->taking <= TN_TAKE_SNAPSHOT &&
           head->epoch >= tn_chain_epoch(&head->chain);
}

enum tenure_status tn_database_head(struct tn_database *d, struct tn_copy_head *head,
                                    uint8_t led[TENURE_NONCE_SIZE], struct tenure_error *err)
{
    sqlite3_stmt *stmt = prepare(d, GET_HEAD);
    uint8_t unused[TENURE_NONCE_SIZE];
    enum tenure_status status = TENURE_OK;
    int rc = stmt != NULL ? sqlite3_step(stmt) : SQLITE_ERROR;

    if (rc != SQLITE_ROW)
        status = rc == SQLITE_DONE ? malformed(d, "the head", err) : fail(d, err);
    else if (!decode_head(stmt, head, led != NULL ? led : unused))
        status = malformed(d, "the head", err);
    sqlite3_reset(stmt);
    return status;
}

static enum tenure_status set_head(struct tn_database *d, const struct tn_database_write *w,
                                   struct tenure_error *err)
{
    const struct tn_copy_head *head = w->head;
    const struct tn_staging *staging = &head->staging;
    const uint64_t numbers[][2] = {
        {2, head->epoch},           {3, head->chain.n},     {5, head->floor},
        {6, head->committed.epoch}, {7, head->committed.n}, {9, (uint64_t)staging->taking},
        {10, staging->begun},       {11, staging->floor},   {12, staging->to},
        {13, staging->far.epoch},   {14, staging->far.n}};
    uint8_t links[TN_CHAIN_MAX * LINK_BYTES];
    sqlite3_stmt *s = prepare(d, SET_HEAD);
    int rc;

    if (s == NULL)
        return fail(d, err);
    assert(tn_chain_valid(&head->chain));
    rc = sqlite3_bind_blob(s, 1, head->database, TENURE_NONCE_SIZE, SQLITE_TRANSIENT);
    rc |= sqlite3_bind_blob(s, 4, links, (int)encode_links(&head->chain, links), SQLITE_TRANSIENT);
    rc |= sqlite3_bind_blob(s, 8, head->committed.grant, TENURE_NONCE_SIZE, SQLITE_TRANSIENT);
    rc |= sqlite3_bind_blob(s, 15, staging->far.grant, TENURE_NONCE_SIZE, SQLITE_TRANSIENT);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        rc |= sqlite3_bind_int64(s, (int)numbers[i][0], (sqlite3_int64)numbers[i][1]);
    if (w->write == TN_WRITE_BEGIN)
        rc |= sqlite3_bind_blob(s, 16, head->chain.link[head->chain.count - 1].grant,
                                TENURE_NONCE_SIZE, SQLITE_TRANSIENT);
    else
        rc |= sqlite3_bind_null(s, 16);
    return rc == SQLITE_OK ? run(d, s, err) : fail(d, err);
}

/* ---- Writing ------------------------------------------------------------------ */

static enum tenure_status put(struct tn_database *d, enum stmt which, const struct tn_record *r,
                              struct tenure_error *err)
{
    sqlite3_stmt *s = prepare(d, which);
    int rc;

    if (s == NULL)
        return fail(d, err);
    rc = sqlite3_bind_text(s, 1, r->key, -1, SQLITE_STATIC);
    if (which != REMOVE) {
        rc |= sqlite3_bind_int64(s, 2, (sqlite3_int64)r->n);
        rc |= sqlite3_bind_blob(s, 3, r->nonce, TENURE_NONCE_SIZE, SQLITE_STATIC);
        rc |= sqlite3_bind_blob(s, 4, r->prev, TENURE_NONCE_SIZE, SQLITE_STATIC);
        rc |= sqlite3_bind_int(s, 5, r->tombstone);
        rc |= r->len > 0 ? sqlite3_bind_blob64(s, 6, r->data, r->len, SQLITE_STATIC)
                         : sqlite3_bind_zeroblob(s, 6, 0);
    }
    return rc == SQLITE_OK ? run(d, s, err) : fail(d, err);
}

static enum tenure_status put_all(struct tn_database *d, const struct tn_database_write *w,
                                  struct tenure_error *err)
{
    enum tenure_status status = TENURE_OK;

    for (size_t i = 0; i < w->count && status == TENURE_OK; i++)
        status = put(d, w->records[i].n > 0 ? PUT : REMOVE, &w->records[i], err);
    return status;
}

static enum tenure_status run_with(struct tn_database *d, enum stmt which, uint64_t first,
                                   uint64_t second, struct tenure_error *err)
{
    sqlite3_stmt *s = prepare(d, which);

    if (s == NULL)
        return fail(d, err);
    if (sqlite3_bind_parameter_count(s) > 0)
        sqlite3_bind_int64(s, 1, (sqlite3_int64)first);
    if (sqlite3_bind_parameter_count(s) > 1)
        sqlite3_bind_int64(s, 2, (sqlite3_int64)second);
    return run(d, s, err);
}

static enum tenure_status stage(struct tn_database *d, const struct tn_database_write *w,
                                struct tenure_error *err)
{
    enum tenure_status status = w->fresh ? run_with(d, DROP_STAGED, 0, 0, err) : TENURE_OK;

    for (size_t i = 0; i < w->count && status == TENURE_OK; i++)
        status = put(d, PUT_STAGED, &w->records[i], err);
    return status;
}

/* What is given up is put aside first (R11); then everything takes effect together (R5). */
static enum tenure_status apply(struct tn_database *d, const struct tn_database_write *w,
                                struct tenure_error *err)
{
    enum tenure_status status = run_with(d, PUT_ASIDE, w->common, w->epoch, err);

    if (!status && w->taking == TN_TAKE_SNAPSHOT)
        status = run_with(d, REMOVE_ALL, 0, 0, err);
    if (!status && !w->fresh) {
        status = run_with(d, TAKE_STAGED_ABSENT, 0, 0, err);
        if (!status)
            status = run_with(d, TAKE_STAGED, 0, 0, err);
    }
    if (!status)
        status = put_all(d, w, err);
    if (!status)
        status = run_with(d, DROP_STAGED, 0, 0, err);
    if (!status && w->head->floor > 0)
        status = run_with(d, FORGET, w->head->floor, 0, err);
    return status;
}

static enum tenure_status write_documents(struct tn_database *d, const struct tn_database_write *w,
                                          struct tenure_error *err)
{
    switch (w->write) {
    case TN_WRITE_DROP:
    case TN_WRITE_BEGIN:
        return run_with(d, DROP_STAGED, 0, 0, err);
    case TN_WRITE_CHANGES:
        return put_all(d, w, err);
    case TN_WRITE_FORGET:
        return run_with(d, FORGET, w->head->floor, 0, err);
    case TN_WRITE_STAGE:
        return stage(d, w, err);
    case TN_WRITE_APPLY:
        return apply(d, w, err);
    default:
        return TENURE_OK;
    }
}

enum tenure_status tn_database_write(struct tn_database *d, const struct tn_database_write *w,
                                     struct tenure_error *err)
{
    enum tenure_status status = execute(d, "BEGIN IMMEDIATE", err);

    if (status)
        return status;
    status = write_documents(d, w, err);
    if (!status)
        status = set_head(d, w, err);
    if (!status)
        status = execute(d, "COMMIT", err);
    if (status && !sqlite3_get_autocommit(d->db))
        sqlite3_exec(d->db, "ROLLBACK", NULL, NULL, NULL);
    return status;
}

/* ---- Reading ------------------------------------------------------------------ */

static bool decode_record(sqlite3_stmt *row, struct tn_record *r)
{
    r->key = (const char *)sqlite3_column_text(row, 0);
    r->n = column_number(row, 1);
    r->tombstone = sqlite3_column_int(row, 4) != 0;
    r->data = sqlite3_column_blob(row, 5);
    r->len = (size_t)sqlite3_column_bytes(row, 5);
    return r->key != NULL && r->n > 0 && column_nonce(row, 2, r->nonce) &&
           column_nonce(row, 3, r->prev) && r->len <= TENURE_DATA_MAX &&
           (r->data != NULL || r->len == 0);
}

enum tenure_status tn_record_value(const struct tn_record *record, struct tenure_value *value,
                                   struct tenure_error *err)
{
    enum tenure_status status = tenure_value_set(value, record->data, record->len, err);

    if (status)
        return status;
    memset(&value->token, 0, sizeof value->token);
    snprintf(value->token.version, sizeof value->token.version, "%" PRIu64, record->n);
    memcpy(value->token.nonce, record->nonce, TENURE_NONCE_SIZE);
    memcpy(value->prev, record->prev, TENURE_NONCE_SIZE);
    value->tombstone = record->tombstone;
    return TENURE_OK;
}

enum tenure_status tn_database_read(struct tn_database *d, const char *key,
                                    struct tenure_value *value, struct tenure_error *err)
{
    sqlite3_stmt *s = prepare(d, FIND);
    enum tenure_status status = TENURE_OK;
    struct tn_record record;
    int rc = s != NULL ? sqlite3_bind_text(s, 1, key, -1, SQLITE_STATIC) : SQLITE_ERROR;

    if (rc == SQLITE_OK)
        rc = sqlite3_step(s);
    if (rc == SQLITE_DONE)
        status = tenure_value_absent(value, err);
    else if (rc != SQLITE_ROW)
        status = fail(d, err);
    else if (!decode_record(s, &record))
        status = malformed(d, key, err);
    else
        status = tn_record_value(&record, value, err);
    sqlite3_reset(s); /* Else the next call would see the same state. */
    return status;
}

static enum tenure_status visit_rows(struct tn_database *d, sqlite3_stmt *s, tn_record_fn *visit,
                                     void *arg, struct tenure_error *err)
{
    enum tenure_status status = TENURE_OK;
    struct tn_record record;
    int rc;

    while ((rc = sqlite3_step(s)) == SQLITE_ROW) {
        if (!decode_record(s, &record)) {
            status = malformed(d, record.key != NULL ? record.key : "a row", err);
            break;
        }
        if (!visit(arg, &record))
            break;
    }
    if (rc != SQLITE_ROW && rc != SQLITE_DONE)
        status = fail(d, err);
    sqlite3_reset(s);
    return status;
}

enum tenure_status tn_database_since(struct tn_database *d, uint64_t from, tn_record_fn *visit,
                                     void *arg, struct tenure_error *err)
{
    sqlite3_stmt *s = prepare(d, SINCE);

    if (s == NULL || sqlite3_bind_int64(s, 1, (sqlite3_int64)from) != SQLITE_OK)
        return fail(d, err);
    return visit_rows(d, s, visit, arg, err);
}

static sqlite3_stmt *bind_range(struct tn_database *d, enum stmt which, const char *from,
                                const char *end)
{
    sqlite3_stmt *s = prepare(d, which);

    if (s == NULL || sqlite3_bind_text(s, 1, from, -1, SQLITE_TRANSIENT) != SQLITE_OK ||
        sqlite3_bind_text(s, 2, end, -1, SQLITE_TRANSIENT) != SQLITE_OK)
        return NULL;
    return s;
}

enum tenure_status tn_database_range(struct tn_database *d, const char *from, const char *end,
                                     tn_record_fn *visit, void *arg, struct tenure_error *err)
{
    sqlite3_stmt *s = bind_range(d, RANGE, from, end);

    return s == NULL ? fail(d, err) : visit_rows(d, s, visit, arg, err);
}

enum tenure_status tn_database_changed(struct tn_database *d, const char *from, const char *end,
                                       uint64_t n, bool *changed, struct tenure_error *err)
{
    sqlite3_stmt *s = bind_range(d, CHANGED, from, end);
    int rc;

    if (s == NULL || sqlite3_bind_int64(s, 3, (sqlite3_int64)n) != SQLITE_OK)
        return fail(d, err);
    rc = sqlite3_step(s);
    *changed = rc == SQLITE_ROW;
    sqlite3_reset(s);
    return rc == SQLITE_ROW || rc == SQLITE_DONE ? TENURE_OK : fail(d, err);
}

enum tenure_status tn_database_count(struct tn_database *d, uint64_t *documents,
                                     uint64_t *conflicts, struct tenure_error *err)
{
    sqlite3_stmt *s = prepare(d, COUNT);
    enum tenure_status status = TENURE_OK;

    if (s == NULL || sqlite3_step(s) != SQLITE_ROW) {
        status = fail(d, err);
    } else {
        *documents = column_number(s, 0);
        *conflicts = column_number(s, 1);
    }
    sqlite3_reset(s);
    return status;
}
