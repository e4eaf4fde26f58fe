/* replica/schema.h - the tables of a replicated state's database. */
#ifndef TN_REPLICA_SCHEMA_H
#define TN_REPLICA_SCHEMA_H

#define TN_DATABASE_MARK "0x74656e72" /* "tenr" */

/* A document has its last change only: n says when it was made, so there is no log to grow. */
#define TN_DATABASE_COLUMNS                                                                        \
    "key TEXT PRIMARY KEY NOT NULL, n INTEGER NOT NULL, nonce BLOB NOT NULL, prev BLOB NOT NULL, " \
    "tombstone INTEGER NOT NULL, data BLOB NOT NULL"

#define TN_DATABASE_SCHEMA                                                                         \
    "CREATE TABLE head (one INTEGER PRIMARY KEY CHECK (one = 1), database BLOB NOT NULL, "         \
    "epoch INTEGER NOT NULL, n INTEGER NOT NULL, links BLOB NOT NULL, floor INTEGER NOT NULL, "    \
    "committed_epoch INTEGER NOT NULL, committed_n INTEGER NOT NULL, "                             \
    "committed_grant BLOB NOT NULL, staging INTEGER NOT NULL, staging_begun INTEGER NOT NULL, "    \
    "staging_floor INTEGER NOT NULL, staging_to INTEGER NOT NULL, staging_epoch INTEGER NOT NULL," \
    " staging_n INTEGER NOT NULL, staging_grant BLOB NOT NULL, led BLOB NOT NULL) STRICT;"         \
    "CREATE TABLE document (" TN_DATABASE_COLUMNS ") STRICT;"                                      \
    "CREATE INDEX document_n ON document (n);"                                                     \
    "CREATE TABLE staged (" TN_DATABASE_COLUMNS ") STRICT;"                                        \
    "CREATE TABLE conflict (number INTEGER PRIMARY KEY, key TEXT NOT NULL, epoch INTEGER NOT "     \
    "NULL, n INTEGER NOT NULL, tombstone INTEGER NOT NULL, data BLOB NOT NULL, "                   \
    "kept_at TEXT NOT NULL) STRICT;"                                                               \
    "PRAGMA application_id = " TN_DATABASE_MARK ";"                                                \
    "PRAGMA user_version = 1;"

#endif
