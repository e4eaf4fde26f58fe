/* The text of every statement. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/key.h"
#include "store/postgres/postgres.h"

/*
 * @S is the schema; @T the server's timeline, -1 on a standby; @N and @M notify
 * of one key, or of each of many, or do not.
 *
 * Whatever reads says the timeline, in the same snapshot and even if there is
 * no row: a standby shows the past (C1).
 *
 * A commit is on disk when it is answered, also on a session that a pooler
 * shares, where nothing but the transaction is ours: SYNC.
 */
#define TIME     "(SELECT @T AS timeline) t"
#define SYNC     TN_PG_SYNC(true) " IS NOT NULL"
#define REGISTER "\"@S\".register"
#define NEW_ROW  REGISTER " (key, version, nonce, tombstone, data)"
#define KEY      "key COLLATE \"C\"" /* by byte, whatever the table says */
#define CHANGE   "version = r.version + 1, prev = r.nonce"
#define SIZE     "coalesce(octet_length(data), 0)" /* also of what nobody may have written */

/* The compare-and-swap: version AND nonce (C2).  Parameters $1 to $7. */
#define SWAP                                                                                       \
    "UPDATE " REGISTER " r SET " CHANGE ", nonce = $4, tombstone = $5, data = $6"                  \
    " WHERE key = $1 AND version = $2 AND nonce = $3 AND @T = $7 AND " SYNC
#define SWAP_TYPES                                                                                 \
    TN_PG_TEXT, TN_PG_INT8, TN_PG_UUID, TN_PG_UUID, TN_PG_BOOL, TN_PG_BYTEA, TN_PG_INT8

/* The session that holds the lock says this of itself. */
#define MARKER "current_setting('tenure.session', true)"

/* Batches of one election go one after the other, so that no two of them wait for
 * each other's rows; a batch over several (it names none) goes alone.  The arrays
 * are taken apart on top of the one row that this gives: the locks come before the
 * first of them, once, whatever the planner thinks.  (Not FROM unnest($1, $2, ...):
 * that keeps each array as a table first.) */
#define EVERYBODY "hashtextextended('tenure batch @S', 0)"
#define ONE(name) "hashtextextended('tenure batch @S ' || " name ", 0)"
#define IN_TURN(name)                                                                              \
    "(SELECT CASE WHEN " name " IS NULL THEN pg_advisory_xact_lock(" EVERYBODY ") IS NOT NULL"     \
    " ELSE pg_advisory_xact_lock_shared(" EVERYBODY ") IS NOT NULL"                                \
    " AND pg_advisory_xact_lock(" ONE(name) ") IS NOT NULL END, @T AS timeline WHERE " SYNC ") l"
/*
 * Not of the state: a commit that notifies holds a lock of the whole server until it is on disk, so
 * that those of all elections would go one after the other.  A wait that is about documents
 * compares from time to time (wait.c).
 */
#define NOTIFIED "strpos(key, '" TN_KEY_STATE "') = 0"
/* How many changed; and which, unless it was all of them. */
#define CHANGED(all)                                                                               \
    ", c AS (SELECT count(*) AS n, count(*) FILTER (WHERE " NOTIFIED ") AS notified FROM d)"       \
    " SELECT c.n, k.key, @T, @M FROM c"                                                            \
    " LEFT JOIN LATERAL (SELECT key FROM d WHERE c.n < " all " OR c.n <= 32) k ON true"
enum { TEXTS = 1009, INT8S = 1016, UUIDS = 2951, BOOLS = 1000, BYTEAS = 1001 }; /* arrays */

/* How pg_locks shows the lock with the 64-bit key $1. */
#define IS_LOCK                                                                                    \
    "l.locktype = 'advisory' AND l.granted AND l.objsubid = 1"                                     \
    " AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())"           \
    " AND l.classid = (($1 >> 32) & 4294967295)::oid AND l.objid = ($1 & 4294967295)::oid"

const struct tn_pg_sql tn_pg_sql[TN_PG_STATEMENTS] = {
    [TN_PG_READ] = {"tn_read",
                    "SELECT t.timeline, r.version, r.nonce, r.prev, r.tombstone, r.data,"
                    " r.key IS NOT NULL FROM " TIME " LEFT JOIN " REGISTER " r ON r.key = $1",
                    1,
                    {TN_PG_TEXT}},
    /* Those of the keys $1 that are there, in order, cut at about 4 MiB, with their places. */
    [TN_PG_READ_MANY] = {"tn_read_many",
                         "SELECT t.timeline, p.* FROM " TIME " LEFT JOIN LATERAL"
                         " (SELECT version, nonce, prev, tombstone, data, place FROM"
                         " (SELECT r.*, k.place, sum(" SIZE ") OVER (ORDER BY k.place"
                         " ROWS UNBOUNDED PRECEDING) AS total"
                         " FROM unnest($1) WITH ORDINALITY k (wanted, place)"
                         " JOIN " REGISTER " r ON r.key = k.wanted) w"
                         " WHERE total - " SIZE " < 4194304) p ON true ORDER BY p.place",
                         1,
                         {TEXTS}},
    [TN_PG_COMPARE] = {"tn_compare",
                       "SELECT t.timeline, r.version, r.nonce FROM " TIME " LEFT JOIN " REGISTER
                       " r ON r.key = $1",
                       1,
                       {TN_PG_TEXT}},
    [TN_PG_CREATE] = {"tn_create",
                      "INSERT INTO " NEW_ROW " SELECT $1, 1, $2, $3, $4 WHERE " SYNC
                      " ON CONFLICT (key) DO NOTHING RETURNING @T, @N",
                      4,
                      {TN_PG_TEXT, TN_PG_UUID, TN_PG_BOOL, TN_PG_BYTEA}},
    [TN_PG_SWAP] = {"tn_swap", SWAP " RETURNING @N", 7, {SWAP_TYPES}},
    /* Arrays: keys, expected versions, expected nonces, new nonces, tombstones,
     * data.  $7 is how many, $8 the election, $9 the timeline of all. */
    [TN_PG_SWAP_MANY] =
        {"tn_swap_many",
         "WITH d AS (UPDATE " REGISTER " r SET " CHANGE
         ", nonce = s.nonce, tombstone = s.tombstone, data = s.data"
         " FROM (SELECT unnest($1) AS key, unnest($2) AS version, unnest($3) AS"
         " expect, unnest($4) AS nonce, unnest($5) AS tombstone, unnest($6) AS data"
         " FROM " IN_TURN(
             "$8") " WHERE l.timeline = $9) s"
                   " WHERE r.key = s.key AND r.version = s.version AND r.nonce = s.expect"
                   " RETURNING r.key)" CHANGED("$7"),
         9,
         {TEXTS, INT8S, UUIDS, UUIDS, BOOLS, BYTEAS, TN_PG_INT8, TN_PG_TEXT, TN_PG_INT8}},
    [TN_PG_PURGE] = {"tn_purge",
                     "DELETE FROM " REGISTER " r WHERE key = $1 AND version = $2 AND nonce = $3"
                     " AND tombstone AND @T = $4 AND " SYNC " RETURNING 1",
                     4,
                     {TN_PG_TEXT, TN_PG_INT8, TN_PG_UUID, TN_PG_INT8}},
    [TN_PG_CREATE_MANY] = {"tn_create_many",
                           "WITH d AS (INSERT INTO " NEW_ROW
                           " SELECT t.key, 1, t.nonce, t.tombstone, t.data"
                           " FROM (SELECT unnest($1) AS key, unnest($2) AS nonce,"
                           " unnest($3) AS tombstone, unnest($4) AS data FROM " IN_TURN(
                               "$6") ") t"
                                     " ON CONFLICT (key) DO NOTHING RETURNING key)" CHANGED("$5"),
                           6,
                           {TEXTS, UUIDS, BOOLS, BYTEAS, TN_PG_INT8, TN_PG_TEXT}},
    /* Keys above $1, from $2 to below $3, cut at 1000 rows or about 4 MiB. */
    [TN_PG_LIST] = {"tn_list",
                    "SELECT t.timeline, p.* FROM " TIME " LEFT JOIN LATERAL"
                    " (SELECT key, version, nonce, prev, tombstone, data FROM"
                    " (SELECT *, sum(" SIZE ") OVER (ORDER BY " KEY ") AS total FROM"
                    " (SELECT * FROM " REGISTER " WHERE " KEY " > $1 AND " KEY " >= $2 AND " KEY
                    " < $3"
                    " ORDER BY " KEY " LIMIT 1000) t) w"
                    " WHERE total - " SIZE " < 4194304) p ON true ORDER BY p." KEY,
                    3,
                    {TN_PG_TEXT, TN_PG_TEXT, TN_PG_TEXT}},
    /* A sum over hashes of (key, nonce) does not depend on their order. */
    [TN_PG_MARK] = {"tn_mark",
                    "SELECT @T, @T::text || '.' || count(*)::text || '.' ||"
                    " coalesce(sum(hashtextextended(key || nonce::text, 0)), 0)::text"
                    " FROM " REGISTER " WHERE " KEY " >= $1 AND " KEY " < $2",
                    2,
                    {TN_PG_TEXT, TN_PG_TEXT}},
    /* $1: the key of the lock, or null: $2 hashed.  $3 marks the session as
     * ours; $4 = $5 is the setting that ends it when it falls silent. */
    [TN_PG_LOCK] = {"tn_lock",
                    "SELECT k.id, pg_try_advisory_lock(k.id), set_config('tenure.session', $3,"
                    " false), set_config($4, $5, false),"
                    " (SELECT backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid())"
                    " FROM (SELECT coalesce($1, ('x' || encode(substring(sha256("
                    "convert_to($2, 'UTF8')) FROM 1 FOR 8), 'hex'))::bit(64)::int8) AS id"
                    " OFFSET 0) k",
                    5,
                    {TN_PG_INT8, TN_PG_TEXT, TN_PG_TEXT, TN_PG_TEXT, TN_PG_TEXT}},
    [TN_PG_UNLOCK] = {"tn_unlock",
                      "SELECT pg_advisory_unlock($1), set_config('tenure.session', '', false),"
                      " set_config($2, '0', false)",
                      2,
                      {TN_PG_INT8, TN_PG_TEXT}},
    /* Swap or create ($2 is 0), but only in the session that $8 marks.  $9 = $10 as above. */
    [TN_PG_LOCKED_SWAP] = {"tn_locked_swap",
                           "WITH u AS (" SWAP " AND " MARKER " = $8 RETURNING @N),"
                           " i AS (INSERT INTO " NEW_ROW
                           " SELECT $1, 1, $4, $5, $6 WHERE $2 = 0 AND " MARKER " = $8 AND " SYNC
                           " ON CONFLICT (key) DO NOTHING RETURNING @N)"
                           " SELECT " MARKER " IS NOT DISTINCT FROM $8,"
                           " EXISTS (SELECT FROM u) OR EXISTS (SELECT FROM i), @T,"
                           " set_config($9, $10, false)",
                           10,
                           {SWAP_TYPES, TN_PG_TEXT, TN_PG_TEXT, TN_PG_TEXT}},
    /* Swap, and let go of the lock $8 before the commit can be seen: whoever is
     * notified finds it free. */
    [TN_PG_FREE_SWAP] = {"tn_free_swap",
                         "WITH u AS (" SWAP " RETURNING @N)"
                         " SELECT EXISTS (SELECT FROM u), pg_advisory_unlock($8),"
                         " set_config('tenure.session', '', false), set_config($9, '0', false)",
                         9,
                         {SWAP_TYPES, TN_PG_INT8, TN_PG_TEXT}},
    /* Who holds the lock $1, as far as this role may see. */
    [TN_PG_HOLDER] = {"tn_holder",
                      "SELECT 'process ' || l.pid || coalesce(' (' || nullif(a.application_name,"
                      " '') || ')', '') || coalesce(' of ' || a.usename, '')"
                      " || coalesce(' from ' || host(a.client_addr), '')"
                      " FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid"
                      " WHERE " IS_LOCK " LIMIT 1",
                      1,
                      {TN_PG_INT8}},
    /* End the session of process $2, begun at $3, if it is that which holds the lock $1. */
    [TN_PG_END_FORMER] = {"tn_end_former",
                          "SELECT pg_terminate_backend(l.pid) FROM pg_locks l"
                          " JOIN pg_stat_activity a ON a.pid = l.pid WHERE " IS_LOCK
                          " AND l.pid = $2 AND a.backend_start = $3",
                          3,
                          {TN_PG_INT8, TN_PG_INT8, TN_PG_TIME}},
    /* Replace a row that is damaged, if each column is what was read ($2 to $6).  Where its number
     * is lost the time in milliseconds takes its place, to which no row was ever counted. */
    [TN_PG_REPAIR] = {"tn_repair",
                      "UPDATE " REGISTER " r SET version = CASE WHEN r.version > 0 AND r.version <"
                      " 4611686018427387904 THEN r.version + 1"
                      " ELSE (extract(epoch FROM clock_timestamp()) * 1000)::int8 END,"
                      " nonce = $7, prev = $8, tombstone = $9, data = $10"
                      " WHERE key = $1 AND version IS NOT DISTINCT FROM $2"
                      " AND nonce IS NOT DISTINCT FROM $3 AND prev IS NOT DISTINCT FROM $4"
                      " AND tombstone IS NOT DISTINCT FROM $5 AND data IS NOT DISTINCT FROM $6"
                      " AND @T = $11 AND " SYNC " RETURNING r.version, @N",
                      11,
                      {TN_PG_TEXT, TN_PG_INT8, TN_PG_UUID, TN_PG_UUID, TN_PG_BOOL, TN_PG_BYTEA,
                       TN_PG_UUID, TN_PG_UUID, TN_PG_BOOL, TN_PG_BYTEA, TN_PG_INT8}},
};

#define PIECE_MAX 256 /* bytes of what stands for @N, @M or @T */

/* Writers notify in the very statement that writes, and only if it wrote.  A
 * large batch says '', which means: look at everything. */
static void notices(const struct tn_pg *pg, char one[PIECE_MAX], char many[PIECE_MAX])
{
    const char *schema = pg->conf.schema;

    if (pg->conf.notify) {
        snprintf(one, PIECE_MAX, "CASE WHEN " NOTIFIED " THEN pg_notify('%s', key) END", schema);
        snprintf(many, PIECE_MAX,
                 "CASE WHEN notified > 0 AND (n > 32 OR " NOTIFIED
                 ") THEN pg_notify('%s', CASE WHEN n > 32"
                 " THEN '' ELSE key END) END",
                 schema);
    } else {
        snprintf(one, PIECE_MAX, "NULL");
        snprintf(many, PIECE_MAX, "NULL");
    }
}

/* A primary stays on its timeline for as long as it runs, so on a session of our
 * own it is a constant.  Behind a pooler every statement has to ask. */
static void timeline(const struct tn_pg *pg, char out[PIECE_MAX])
{
    if (!pg->pooled && !pg->unprepared)
        snprintf(out, PIECE_MAX, "%lld::int8", (long long)pg->timeline);
    else
        snprintf(out, PIECE_MAX, "CASE WHEN pg_is_in_recovery() THEN -1::int8 ELSE %s END",
                 pg->timeless ? "0::int8" : TN_PG_TIMELINE);
}

enum tenure_status tn_pg_sql_fill(struct tn_pg *pg, struct tenure_error *err)
{
    char one[PIECE_MAX], many[PIECE_MAX], time[PIECE_MAX];
    const char *const with[TN_PG_WORDS] = {pg->conf.schema, one, many, time};

    notices(pg, one, many);
    timeline(pg, time);
    for (int i = 0; i < TN_PG_STATEMENTS; i++) {
        free(pg->sql[i]);
        pg->sql[i] = tn_pg_fill(tn_pg_sql[i].text, with);
        if (!pg->sql[i])
            return tenure_fail(err, TENURE_NOMEM, "out of memory");
    }
    return TENURE_OK;
}
