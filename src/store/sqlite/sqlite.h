/*
 * store/sqlite/sqlite.h - what the files of the sqlite: store share.
 *
 *   sqlite.c             the table: read, list
 *   swap.c          swap, batch
 *   repair.c        rows that are not what we wrote
 *   place.c         the path, and whether it will do
 *   open.c          the connection, the schema
 *   checkpoint.c    keeping the write-ahead log short
 *   wait.c          waiting for somebody else's commit
 *   error.c         SQLite's codes as statuses, with what to do about them
 *
 * docs/explanation/internals/sqlite.md tells how they work together.
 */
#ifndef TN_STORE_SQLITE_SQLITE_H
#define TN_STORE_SQLITE_SQLITE_H

#include <sqlite3.h>
#include <sys/types.h>

#include "base/options.h"
#include "tenure/store.h"

/*
 * Nobody has counted to here: a row beyond is an operator's slip, and damaged.
 * While there is one nobody writes, because the number that it had is lost, and
 * must not be given out again.
 */
#define TN_SQLITE_VERSION_MAX  (INT64_MAX / 2)
/* More than any row was ever changed: so far above those that make sense goes on who repairs. */
#define TN_SQLITE_VERSION_JUMP (INT64_C(1) << 42)

/* Swaps in one transaction.  Others wait for it meanwhile, some 15 ms; its sync is a small part. */
#define TN_SQLITE_BATCH_MAX 2048

#define TN_SQLITE_SMALL_CACHE "PRAGMA cache_size = -64;"

/* Prepared when first used, kept with the connection. */
enum tn_sqlite_stmt {
    TN_SQL_BEGIN,
    TN_SQL_COMMIT,
    TN_SQL_ROLLBACK,
    TN_SQL_READ,
    TN_SQL_TOKEN,
    TN_SQL_NEWEST,
    TN_SQL_INSERT,
    TN_SQL_UPDATE,
    TN_SQL_UPDATE_ALONE,
    TN_SQL_LIST,
    TN_SQL_SINCE,
    TN_SQL_PURGE,
    TN_SQL_COUNT,
};

struct tn_sqlite {
    char *path;  /* absolute: a later chdir() changes nothing */
    sqlite3 *db; /* NULL: dropped after a failure; the next call connects again */
    sqlite3_stmt *stmts[TN_SQL_COUNT];
    int64_t deadline; /* of the call under way, for the busy handler */
    bool repair;      /* a damaged row is read as it is, and may be replaced */
    bool listing;     /* TN_SQL_LIST is in the middle of its rows */
    bool roomy;       /* the cache has grown for batches, until the next wait */

    /* Of a swap in one statement: see swap.c. */
    bool committing;     /* it has come to its commit */
    sqlite3_int64 taken; /* the version that it took */
    bool no_room;        /* it could not take any */

    const char *wal; /* the path of the -wal file; belongs to db */
    char *shm;       /* and of the -shm file, where the locks are */
    struct tn_sqlite_file {
        dev_t dev;
        ino_t ino;
    } db_file, wal_file, shm_file; /* what was there when we connected */
    int frames;                    /* in the -wal file after our last commit */
    int frames_most;               /* of a log that is long enough */
    int checkpoint_due;            /* try when frames reaches this */

    int notify_fd; /* inotify; -1 until the first wait on this connection */
    bool deaf;     /* inotify is used up: look at intervals instead */
};

/* ---- The schema, which scripts/sqlite-image makes of schema.sql ---------- */

/* As SQL, and as the file of a database that has it and no rows. */
extern const char tn_sqlite_schema[];
extern const unsigned char tn_sqlite_image[];
extern const size_t tn_sqlite_image_size;

/* ---- place.c ------------------------------------------------------------- */

extern const struct tn_option tn_sqlite_options[];
/* The absolute path that url names, in *path for the caller to free; and what it asks for. */
enum tenure_status tn_sqlite_path(const char *url, char **path, bool *repair, bool *create,
                                  struct tenure_error *err);
/* OK if something is at path, which create=no asks for. */
enum tenure_status tn_sqlite_there(const char *path, struct tenure_error *err);
/* OK if a database is at path or, with create, has been made there, or an empty file. */
enum tenure_status tn_sqlite_place(const char *path, bool create, struct tenure_error *err);

/* ---- open.c -------------------------------------------------------------- */

enum tenure_status tn_sqlite_open(const char *url, int64_t deadline, void **impl,
                                  struct tenure_error *err);
void tn_sqlite_close(void *impl);
/*
 * To be called first by every operation: takes the deadline, ends a listing
 * that is under way, and connects if need be, also when the file at the path
 * is no longer the one that is open.  OK, or why not.
 */
enum tenure_status tn_sqlite_ready(struct tn_sqlite *h, int64_t deadline, struct tenure_error *err);
/* Close the connection but keep the handle. */
void tn_sqlite_drop(struct tn_sqlite *h);
/* A connection to h->path that waits for locks until h->deadline.  An SQLite code. */
int tn_sqlite_connect(struct tn_sqlite *h, sqlite3 **db);
/* The statement, ready to be bound; NULL after a failure, which *rc tells. */
sqlite3_stmt *tn_sqlite_stmt(struct tn_sqlite *h, enum tn_sqlite_stmt which, int *rc);

/* ---- sqlite.c ------------------------------------------------------------ */

enum tenure_status tn_sqlite_read(void *impl, const char *key, struct tenure_value *value,
                                  int64_t deadline, struct tenure_error *err);
/* The largest version, 0 if there is none.  An SQLite code. */
int tn_sqlite_newest(struct tn_sqlite *h, sqlite3_int64 *version);
/* Is text a version that this store could have written?  If so, its number. */
bool tn_sqlite_version(const char *text, sqlite3_int64 *version);

/* ---- repair.c -------------------------------------------------------------- */

/* Are the columns of TN_SQL_READ what the schema asks for? */
bool tn_sqlite_sane(sqlite3_stmt *row);
/* A row that is not sane, as it is, under a token that only such a row has. */
enum tenure_status tn_sqlite_take_damaged(sqlite3_stmt *row, struct tenure_value *value,
                                          struct tenure_error *err);
/* A swap that also replaces such a row; returns its status. */
enum tenure_status tn_sqlite_repair(struct tn_sqlite *h, struct tenure_swap *swap, int64_t deadline,
                                    struct tenure_error *err);

/* ---- swap.c -------------------------------------------------------------- */

/* What a swap in one statement needs of a new connection.  An SQLite code. */
int tn_sqlite_swap_init(struct tn_sqlite *h);
/* It took effect, under this version. */
void tn_sqlite_tell(struct tenure_swap *swap, sqlite3_int64 version);
enum tenure_status tn_sqlite_swap(void *impl, struct tenure_swap *swap, int64_t deadline,
                                  struct tenure_error *err);
enum tenure_status tn_sqlite_purge(void *impl, struct tenure_swap *swap, int64_t deadline,
                                   struct tenure_error *err);
enum tenure_status tn_sqlite_swap_many(void *impl, struct tenure_swap *swaps, size_t n,
                                       int64_t deadline, struct tenure_error *err);

/* Who waits has no batch under way: the cache is small again. */
void tn_sqlite_give_room(struct tn_sqlite *h);

/* ---- checkpoint.c -------------------------------------------------------- */

/* Register for the size of the log after each commit. */
void tn_sqlite_checkpoint_init(struct tn_sqlite *h);
/* A page has this many bytes: so many make a log long enough. */
void tn_sqlite_checkpoint_page(struct tn_sqlite *h, long page);
/* After a commit: copy the log into the database if it has grown long enough. */
void tn_sqlite_checkpoint(struct tn_sqlite *h);

/* ---- wait.c -------------------------------------------------------------- */

/* After a commit: wake whoever waits on this database. */
void tn_sqlite_ring(struct tn_sqlite *h);
/* Forget the subscription, which belongs to a connection. */
void tn_sqlite_unsubscribe(struct tn_sqlite *h);
enum tenure_status tn_sqlite_wait(void *impl, const struct tenure_watch *watches, size_t n,
                                  int wake_fd, int64_t deadline, struct tenure_error *err);

/* ---- error.c ------------------------------------------------------------- */

/*
 * What SQLite's code means when nothing was changed: sets err, and drops the
 * connection if it cannot be used any more.  Never OK and never UNKNOWN.
 */
enum tenure_status tn_sqlite_fail(struct tn_sqlite *h, int rc, struct tenure_error *err);
/* What it means when COMMIT answered it; see there. */
enum tenure_status tn_sqlite_fail_commit(struct tn_sqlite *h, int rc, struct tenure_error *err);
/* There is no version left: CORRUPT, with the row that is to blame. */
enum tenure_status tn_sqlite_no_room(struct tn_sqlite *h, struct tenure_error *err);
/* The same as tn_sqlite_fail() for a system call that failed on path. */
enum tenure_status tn_sqlite_fail_errno(const char *path, int code, struct tenure_error *err);
/* SQLite may only read the file: whether the rights or the file system are to blame it does not
 * say. */
enum tenure_status tn_sqlite_fail_readonly(const struct tn_sqlite *h, struct tenure_error *err);

#endif
