/*
 * store/postgres/postgres.h - what the files of the PostgreSQL stores share.
 *
 *   conf.c          the URL, split into what is ours and what is libpq's
 *   target.c        which servers to try, and how strictly TLS is checked
 *   conn.c          connect, over as many calls as it takes; let go
 *   session.c       set a new session up
 *   sql.c           the text of every statement
 *   exec.c          one statement, with a deadline
 *   error.c         what a failure means
 *   schema.c        the table, as SQL text (no libpq)
 *   row.c           read, swap, list
 *   repair.c        rows that are not what we wrote
 *   batch.c         swap_many
 *   wait.c          subscribe, next and compare for store/watcher.h
 *   lock.c          the advisory lock of postgres+advisory:
 *   postgres.c         open, close, and the tables of functions
 *
 * docs/adr/0006-postgres.md has the reasons.
 */
#ifndef TN_STORE_POSTGRES_POSTGRES_H
#define TN_STORE_POSTGRES_POSTGRES_H

#include <libpq-fe.h>

#include "base/options.h"
#include "store/postgres/schema.h"
#include "store/watcher.h"
#include "tenure/store.h"

/* Types of the wire protocol (pg_type.dat); parameters and results are binary. */
enum {
    TN_PG_BOOL = 16,
    TN_PG_BYTEA = 17,
    TN_PG_INT8 = 20,
    TN_PG_TEXT = 25,
    TN_PG_TIME = 1184, /* timestamptz: an int8 of microseconds */
    TN_PG_UUID = 2950,
};

#define TN_PG_PARAMS 11

/* Raise synchronous_commit to "on" if it is weaker, for the session or this transaction alone. */
#define TN_PG_SYNC(local)                                                                          \
    "set_config('synchronous_commit', CASE WHEN current_setting('synchronous_commit') IN "         \
    "('off', 'local', 'remote_write') THEN 'on' ELSE current_setting('synchronous_commit') "       \
    "END, " #local ")"

/* What one statement takes. */
#define TN_PG_BATCH_ROWS  10000
#define TN_PG_BATCH_BYTES (16u << 20)

/* The timeline of the server's log: it changes when a standby is promoted and
 * when a server is restored to a point in time. */
#define TN_PG_TIMELINE "('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int8"

/* ---- The URL ------------------------------------------------------------- */

enum tn_pg_key { TN_PG_KEY_LEASE, TN_PG_KEY_NUMBER, TN_PG_KEY_NAME };

struct tn_pg_conf {
    char *uri; /* for libpq, without our own parameters; may hold a password */
    char schema[TN_PG_SCHEMA_MAX + 1];
    bool create;     /* make the schema if it is not there */
    bool notify;     /* NOTIFY on a change, and LISTEN */
    int64_t poll_ns; /* how often wait() looks when it cannot listen */
    bool repair;     /* a damaged row is read as it is, and may be replaced */

    bool advisory;
    enum tn_pg_key key_kind;
    int64_t key;                       /* NUMBER */
    char key_name[TENURE_KEY_MAX + 1]; /* NAME */
    int64_t retry_ns;                  /* from one try of the lock to the next */
    bool takeover_now;                 /* takeover_delay=0 */
};

extern const struct tn_option tn_pg_options[];

/* CONFIG with the fix.  On success tn_pg_conf_free() it. */
enum tenure_status tn_pg_conf_parse(const char *url, struct tn_pg_conf *conf,
                                    struct tenure_error *err);
/* Accepts a zeroed struct. */
void tn_pg_conf_free(struct tn_pg_conf *conf);

/* ---- Statements ---------------------------------------------------------- */

enum tn_pg_stmt {
    TN_PG_READ,
    TN_PG_READ_MANY,
    TN_PG_CREATE,
    TN_PG_SWAP,
    TN_PG_SWAP_MANY,
    TN_PG_PURGE,
    TN_PG_CREATE_MANY,
    TN_PG_LIST,
    TN_PG_MARK,
    TN_PG_COMPARE,
    TN_PG_LOCK,
    TN_PG_UNLOCK,
    TN_PG_LOCKED_SWAP,
    TN_PG_FREE_SWAP,
    TN_PG_HOLDER,
    TN_PG_END_FORMER,
    TN_PG_REPAIR,
    TN_PG_STATEMENTS,
};

/* Where TN_PG_READ says whether there is a row at all. */
#define TN_PG_THERE 6

struct tn_pg_sql {
    const char *name; /* under which the server keeps it prepared */
    const char *text; /* before the schema is put in */
    int n;
    Oid types[TN_PG_PARAMS];
};
extern const struct tn_pg_sql tn_pg_sql[TN_PG_STATEMENTS];

/* Parameters of one statement; what the pointers point at is the caller's. */
struct tn_pg_args {
    int n;
    const char *value[TN_PG_PARAMS];
    int len[TN_PG_PARAMS];
    int64_t number[TN_PG_PARAMS]; /* room for integers in network order */
};

/* ---- The handle ---------------------------------------------------------- */

#define TN_PG_OWN 4

/* The advisory lock of this session; lock.c. */
struct tn_pg_lock {
    bool held;
    int64_t id;                     /* the 64-bit key, as the server computed it */
    int pid;                        /* of the server process that was granted it last, or 0, */
    int64_t begun;                  /* and when that began: process ids repeat */
    char lease[TENURE_KEY_MAX + 1]; /* the register that it is held for */
    char session[2 * TENURE_NONCE_SIZE + 1];   /* what the session's marker must say */
    uint8_t own[TN_PG_OWN][TENURE_NONCE_SIZE]; /* of what we wrote under it, or may have */
    unsigned own_next;

    struct tenure_token refused; /* what the claim expected that was refused last */
    unsigned refusals;           /* in a row, on that token */
    int64_t refused_until_ns;    /* until then the server is not asked again */
    char refused_by[160];
    int64_t look_at_ns; /* takeover_delay=0: when to look for a dead leader again */
};

/* One server to try. */
struct tn_pg_target {
    char host[256];
    char address[64]; /* "": a Unix socket, or left to libpq */
    char port[8];
};

#define TN_PG_TARGETS 16

struct tn_pg_plan {
    struct tn_pg_target targets[TN_PG_TARGETS];
    unsigned n;
    bool strict;      /* sslmode=verify-full: a remote host, and nobody said otherwise */
    bool gss_given;   /* the user chose a gssencmode */
    bool quick_given; /* the user chose keepalives or tcp_user_timeout */
    bool attrs_given; /* the user chose target_session_attrs */
};

/* How far a session is.  What was reached is kept when the time of a call is up. */
enum tn_pg_phase { TN_PG_DOWN, TN_PG_GREETING, TN_PG_SETTING_UP, TN_PG_UP };

struct tn_pg {
    struct tn_watcher watcher; /* first (store/watcher.h) */
    struct tn_pg_conf conf;
    char *sql[TN_PG_STATEMENTS];
    const char *scheme;

    enum tn_pg_phase phase;
    PGconn *conn;                   /* NULL if it is DOWN: the next call connects */
    PostgresPollingStatusType next; /* GREETING: what libpq waits for */
    struct tn_pg_plan plan;         /* of the round over the targets that is under way */
    unsigned tried;                 /* targets of this round that are done with */
    unsigned rounds;                /* in a row that came to nothing */
    int64_t heard_ns;               /* when the server last sent anything, or was first asked */
    int64_t called_ns;              /* when the present call began to connect */
    int64_t asked_ns;               /* when the set-up was sent, */
    int64_t trip_ns;                /* and how long its answer was waited for, in one call */

    unsigned turn;      /* which target comes first */
    bool pooled;        /* something between us and the server shares its sessions */
    bool timeless;      /* the server does not say on which timeline it is */
    int64_t timeline;   /* of this session's server; unless it is pooled */
    bool unprepared;    /* it does not keep prepared statements either */
    bool listening;     /* LISTEN is in force */
    bool pending;       /* a statement was sent whose result nobody waits for any more */
    bool doubt;         /* the server warned that a commit is not replicated as it should be */
    bool missing;       /* the last failure was that the table is not there */
    bool unready;       /* ... or that the server starts up or shuts down */
    bool dying;         /* the server said that it ends this session */
    unsigned misses;    /* deadlines that passed on this connection, in a row */
    uint32_t prepared;  /* which statements the server knows, by bit */
    uint32_t preparing; /* which one was sent to be prepared and run, and is not answered yet */
    bool patient;       /* in wait(), and the caller's deadline is nearer than that of a request */
    int timer_fd;
    int wake_fd; /* during wait(): -1 otherwise */
    struct tn_pg_lock lock;
};

/* ---- Connections --------------------------------------------------------- */

/* Merge URL, service file and environment as libpq does, and resolve the names. */
enum tenure_status tn_pg_plan(struct tn_pg *pg, int64_t deadline, struct tn_pg_plan *plan,
                              struct tenure_error *err);

/*
 * Be connected, by deadline.  Nothing is sent that changes a register.  What is under way at the
 * deadline goes on in the next call, unless the server was silent for all the time of this one.
 */
enum tenure_status tn_pg_connect(struct tn_pg *pg, int64_t deadline, struct tenure_error *err);
/* End the session; the next call makes a new one. */
void tn_pg_drop(struct tn_pg *pg);
/* Wait for the socket, the deadline, or wake_fd: OK, TIMEOUT, CANCELLED, UNAVAILABLE. */
enum tenure_status tn_pg_poll(struct tn_pg *pg, short events, int64_t deadline,
                              struct tenure_error *err);

/* Send what sets the session up; then take the answer by that time.  TIMEOUT, CANCELLED: not yet.
 */
enum tenure_status tn_pg_begin_set_up(struct tn_pg *pg, struct tenure_error *err);
enum tenure_status tn_pg_set_up(struct tn_pg *pg, int64_t by, struct tenure_error *err);

/* ---- Statements ---------------------------------------------------------- */

void tn_pg_arg_text(struct tn_pg_args *args, const char *text);
void tn_pg_arg_bytes(struct tn_pg_args *args, const void *data, size_t len);
void tn_pg_arg_int8(struct tn_pg_args *args, int64_t number);
void tn_pg_arg_bool(struct tn_pg_args *args, bool flag);
void tn_pg_arg_null(struct tn_pg_args *args);

/* Fill pg->sql for this schema and the session at hand; close() frees each. */
enum tenure_status tn_pg_sql_fill(struct tn_pg *pg, struct tenure_error *err);

/*
 * Run a statement, connecting first if need be.  OK: *result holds rows (the
 * caller clears it), and what it did is committed.  UNKNOWN: it was sent, and
 * whether it took effect, or still will, cannot be told.  Any other status: it
 * did not and will not.
 */
enum tenure_status tn_pg_run(struct tn_pg *pg, enum tn_pg_stmt stmt, const struct tn_pg_args *args,
                             int64_t deadline, PGresult **result, struct tenure_error *err);
/* The same for statements that change nothing: TIMEOUT or UNAVAILABLE instead of UNKNOWN. */
enum tenure_status tn_pg_ask(struct tn_pg *pg, enum tn_pg_stmt stmt, const struct tn_pg_args *args,
                             int64_t deadline, PGresult **result, struct tenure_error *err);
/* Be connected and quiet: nothing is left to be said about earlier statements. */
enum tenure_status tn_pg_ready(struct tn_pg *pg, int64_t deadline, struct tenure_error *err);
/* As run, for SQL of the moment; args may be NULL.  Only after tn_pg_ready(). */
enum tenure_status tn_pg_say(struct tn_pg *pg, const char *sql, const struct tn_pg_args *args,
                             int64_t deadline, PGresult **result, struct tenure_error *err);

/* As say, for several statements at once, without parameters. */
enum tenure_status tn_pg_script(struct tn_pg *pg, const char *sql, int64_t deadline,
                                PGresult **result, struct tenure_error *err);

/*
 * Everything that the server answers, until it is ready for the next statement: the commit is done
 * only then.  TIMEOUT and CANCELLED leave the rest to come; UNAVAILABLE has dropped the connection.
 */
enum tenure_status tn_pg_collect(struct tn_pg *pg, int64_t deadline, PGresult **result,
                                 struct tenure_error *err);
/* What an answer means.  *result is the answer if that is OK; else it was cleared. */
enum tenure_status tn_pg_judge(struct tn_pg *pg, PGresult *answer, PGresult **result,
                               struct tenure_error *err);
/* The connection broke: dropped, and UNAVAILABLE. */
enum tenure_status tn_pg_lost(struct tn_pg *pg, struct tenure_error *err);

/* Fields of a binary result, checked: false if the server sent something else. */
bool tn_pg_get_int8(const PGresult *r, int row, int column, int64_t *out);
bool tn_pg_get_bool(const PGresult *r, int row, int column, bool *out);
bool tn_pg_get_nonce(const PGresult *r, int row, int column, uint8_t out[TENURE_NONCE_SIZE]);

/* ---- Failures ------------------------------------------------------------ */

/* What a result that is an error means.  *fatal: the session is over. */
enum tenure_status tn_pg_result_fail(struct tn_pg *pg, const PGresult *result, bool *fatal,
                                     struct tenure_error *err);
/* What a connection that could not be made means. */
enum tenure_status tn_pg_connect_fail(struct tn_pg *pg, const struct tn_pg_target *target,
                                      struct tenure_error *err);
enum tenure_status tn_pg_garbled(const struct tn_pg *pg, const char *what,
                                 struct tenure_error *err);
/* The server is a standby: what it shows may be old (C1). */
enum tenure_status tn_pg_standby(const struct tn_pg *pg, struct tenure_error *err);

/* ---- Registers ----------------------------------------------------------- */

enum tenure_status tn_pg_row_read(struct tn_pg *pg, const char *key, struct tenure_value *value,
                                  int64_t deadline, struct tenure_error *err);
enum tenure_status tn_pg_row_swap(struct tn_pg *pg, struct tenure_swap *swap, int64_t deadline,
                                  struct tenure_error *err);
enum tenure_status tn_pg_row_purge(struct tn_pg *pg, struct tenure_swap *swap, int64_t deadline,
                                   struct tenure_error *err);
enum tenure_status tn_pg_row_list(struct tn_pg *pg, const char *prefix, const char *after,
                                  tenure_visit_fn visit, void *arg,
                                  char mark[TENURE_VERSION_MAX + 1], int64_t deadline,
                                  struct tenure_error *err);
/*
 * A version is the row's number and the server's timeline, "17@2".  A server
 * that was promoted, or restored to an earlier point, is on another timeline:
 * all tokens have changed, whoever waits starts over, and whoever holds looks
 * before it renews.  So a renewal that a fail-over lost costs nobody anything.
 */
struct tn_pg_version {
    int64_t number; /* 0: absent */
    int64_t timeline;
};
/* Nobody has counted to here, and there must be room above what somebody wrote by hand. */
#define TN_PG_VERSION_MAX (INT64_MAX / 2)
/* false if it cannot be one of ours.  An absent token is number 0. */
bool tn_pg_version(const struct tenure_token *token, struct tn_pg_version *version);
void tn_pg_token(const struct tn_pg_version *version, const uint8_t nonce[TENURE_NONCE_SIZE],
                 struct tenure_token *token);
/* The timeline in a column; UNAVAILABLE if the server is a standby (C1). */
enum tenure_status tn_pg_timeline(const struct tn_pg *pg, const PGresult *r, int column,
                                  int64_t *timeline, struct tenure_error *err);
/* For single swaps: the parameters $1 to $7; a conflict; a success. */
void tn_pg_swap_args(const struct tenure_swap *swap, const struct tn_pg_version *expect,
                     struct tn_pg_args *args);
enum tenure_status tn_pg_swap_bad(const struct tn_pg *pg, struct tenure_swap *swap,
                                  struct tenure_error *err);
void tn_pg_swap_done(struct tn_pg *pg, struct tenure_swap *swap,
                     const struct tn_pg_version *expect);
/* The mark of a prefix. */
enum tenure_status tn_pg_mark(struct tn_pg *pg, const char *prefix,
                              char mark[TENURE_VERSION_MAX + 1], int64_t deadline,
                              struct tenure_error *err);

/*
 * Are the columns c.. of a row (version, nonce, prev, tombstone, data) what this store writes? Else
 * CORRUPT, and err says which is not.
 */
enum tenure_status tn_pg_row_sane(const struct tn_pg *pg, const char *key, const PGresult *r,
                                  int row, int c, struct tenure_error *err);
/* A row that is not sane, as it is; err is what tn_pg_row_sane() said. */
enum tenure_status tn_pg_take_damaged(const PGresult *r, int row, int c, struct tenure_value *value,
                                      struct tenure_error *err);
/* A swap that expects such a row. */
enum tenure_status tn_pg_repair(struct tn_pg *pg, struct tenure_swap *swap, int64_t deadline,
                                struct tenure_error *err);

/*
 * The value in columns c.. of a row: version, nonce, prev, tombstone, data.  One that is not sane
 * is CORRUPT; a repair gets it as it is.
 */
enum tenure_status tn_pg_take_value(const struct tn_pg *pg, const char *key, const PGresult *r,
                                    int row, int c, int64_t timeline, struct tenure_value *value,
                                    struct tenure_error *err);
/* read_many of struct tenure_store_ops. */
enum tenure_status tn_pg_read_many(struct tn_pg *pg, struct tenure_read *reads, size_t n,
                                   size_t *done, int64_t deadline, struct tenure_error *err);
/* Swaps whose key skip() names (NULL: none) are left alone. */
enum tenure_status tn_pg_batch(struct tn_pg *pg, struct tenure_swap *swaps, size_t n,
                               bool (*skip)(const char *key), int64_t deadline,
                               struct tenure_error *err);

/* ---- Waiting ------------------------------------------------------------- */

#define TN_PG_QUESTION_NS INT64_C(2000000000) /* how long one question within wait() may take */

void tn_pg_watcher_init(struct tn_pg *pg);
enum tenure_status tn_pg_wait(void *impl, const struct tenure_watch *watches, size_t n, int wake_fd,
                              int64_t deadline, struct tenure_error *err);
/* Take in what the server has notified so far. */
void tn_pg_take_notifications(struct tn_pg *pg);

/* ---- The advisory lock --------------------------------------------------- */

/* "…/lease": the registers that the lock guards. */
bool tn_pg_is_lease(const char *key);
enum tenure_status tn_pg_lock_swap(struct tn_pg *pg, struct tenure_swap *swap, int64_t deadline,
                                   struct tenure_error *err);
/* A read of key showed this nonce: let go of a lock that is no longer ours to hold. */
void tn_pg_lock_check(struct tn_pg *pg, const char *key, const uint8_t nonce[TENURE_NONCE_SIZE],
                      int64_t deadline);
/*
 * During wait(), with takeover_delay=0: if a watched lease is held but its lock
 * is not, mark it free.  Lowers *until to when to look again.
 */
enum tenure_status tn_pg_lock_look(struct tn_pg *pg, const struct tenure_watch *watches, size_t n,
                                   int64_t deadline, int64_t *until, struct tenure_error *err);

#endif
