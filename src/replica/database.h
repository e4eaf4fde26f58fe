/*
 * replica/database.h - one copy of a replicated state in a file: documents, head, staging (R2).
 *
 * A document is a register (tenure/store.h): its key, its bytes, its nonces.  Its version is the
 * number of its last change, which is the same in every copy.  Every write is one transaction, on
 * the disk when it returns.
 *
 * Threads: one handle is used by one thread at a time.  One process writes to a file, which
 * tn_database_lock() sees to; any number of handles read.
 */
#ifndef TN_REPLICA_DATABASE_H
#define TN_REPLICA_DATABASE_H

#include "core/replica/replica.h"
#include "tenure/store.h"

struct tn_database;

/* The caller's; n 0: there is no such document. */
struct tn_record {
    const char *key;
    uint64_t n;
    uint8_t nonce[TENURE_NONCE_SIZE], prev[TENURE_NONCE_SIZE];
    bool tombstone;
    const void *data;
    size_t len;
};

/*
 * Open the file; with `create`, make it if there is none, with a fresh database id (R3).
 * UNAVAILABLE, CONFIG (not such a file; a network file system), CORRUPT, NOMEM.
 */
enum tenure_status tn_database_open(const char *path, bool create, struct tn_database **db,
                                    struct tenure_error *err);
/* Accepts NULL. */
void tn_database_close(struct tn_database *db);

/* Be the process that writes to this file: *fd is the lock, to close.  CONFIG: another one is. */
enum tenure_status tn_database_lock(const char *path, int *fd, struct tenure_error *err);

/* led (may be NULL): the grant of the last term that began in this copy; zero: none. */
enum tenure_status tn_database_head(struct tn_database *db, struct tn_copy_head *head,
                                    uint8_t led[TENURE_NONCE_SIZE], struct tenure_error *err);

/* One transaction, as enum tn_write says.  records: what changes, is staged, or is in the group. */
struct tn_database_write {
    enum tn_write write;
    const struct tn_copy_head *head;
    bool fresh;
    enum tn_taking taking;
    uint64_t common;
    uint64_t epoch; /* of the chain before: what is put aside was written in it at the latest */
    const struct tn_record *records;
    size_t count;
};
enum tenure_status tn_database_write(struct tn_database *db, const struct tn_database_write *w,
                                     struct tenure_error *err);

/* As read() of a store: absent is a zero token.  The version is n, in decimal digits. */
enum tenure_status tn_database_read(struct tn_database *db, const char *key,
                                    struct tenure_value *value, struct tenure_error *err);
enum tenure_status tn_record_value(const struct tn_record *record, struct tenure_value *value,
                                   struct tenure_error *err);
/* Return false to stop. */
typedef bool tn_record_fn(void *arg, const struct tn_record *record);
/* What was changed after `from`, by n. */
enum tenure_status tn_database_since(struct tn_database *db, uint64_t from, tn_record_fn *visit,
                                     void *arg, struct tenure_error *err);
/* Keys from `from` to below `end`, in their order.  visit() must not use db. */
enum tenure_status tn_database_range(struct tn_database *db, const char *from, const char *end,
                                     tn_record_fn *visit, void *arg, struct tenure_error *err);
/* Was any key in that range changed after n? */
enum tenure_status tn_database_changed(struct tn_database *db, const char *from, const char *end,
                                       uint64_t n, bool *changed, struct tenure_error *err);
/* How many documents there are, and how many were put aside by rewinds (R11). */
enum tenure_status tn_database_count(struct tn_database *db, uint64_t *documents,
                                     uint64_t *conflicts, struct tenure_error *err);

#endif
