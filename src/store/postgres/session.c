/* Setting a new session up: what it needs, and what we must know, in one query. */
#include <assert.h>
#include <stdio.h>

#include "store/postgres/postgres.h"

/*
 * What this session needs, whatever the role or the database say otherwise:
 * commits that are on disk when they are answered, no stronger isolation (it
 * would only add failures), room for a batch in memory, an end to statements
 * and locks that hang, and a server that notices when we are gone.  Every
 * statement finds its rows by the primary key: no plan reads the whole table,
 * however small the table was when it was made, or how many keys it was made for.
 */
static const char *const settings[][2] = {
    {"default_transaction_isolation", "read committed"},
    {"statement_timeout", "30s"},
    {"lock_timeout", "5s"},
    {"search_path", "pg_catalog, pg_temp"},
    {"jit", "off"},
    {"plan_cache_mode", "force_generic_plan"},
    {"enable_seqscan", "off"},
    {"enable_bitmapscan", "off"},
    {"work_mem", "32MB"},
    {"tcp_keepalives_idle", "5"},
    {"tcp_keepalives_interval", "2"},
    {"tcp_keepalives_count", "3"},
    {"tcp_user_timeout", "10s"},
};

/*
 * The process id, the timeline (-1 on a standby, which shows the past: C1), and
 * the settings; but those only if the process is $1, which the server gave us at
 * the start.  A pooler makes one up, and what is set on a session that it shares
 * would be left to the next user.
 */
static void write_query(const struct tn_pg *pg, char *sql, size_t size)
{
    int used = snprintf(sql, size,
                        "SELECT pg_backend_pid()::int8,"
                        " CASE WHEN pg_is_in_recovery() THEN -1::int8 ELSE %s END,"
                        " CASE WHEN pg_backend_pid() = $1 THEN concat(" TN_PG_SYNC(false),
                        pg->timeless ? "0::int8" : TN_PG_TIMELINE);

    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++)
        used += snprintf(sql + used, size - (size_t)used, ", set_config('%s', '%s', false)",
                         settings[i][0], settings[i][1]);
    /* From 14 on, and only where the kernel can tell; elsewhere it is refused. */
    if (PQserverVersion(pg->conn) >= 140000)
        used += snprintf(sql + used, size - (size_t)used,
                         ", CASE WHEN version() LIKE '%%linux%%' THEN set_config("
                         "'client_connection_check_interval', '2s', false) END");
    used += snprintf(sql + used, size - (size_t)used, ") END");
    assert((size_t)used < size);
}

static enum tenure_status send_query(struct tn_pg *pg, struct tenure_error *err)
{
    const Oid types[] = {TN_PG_INT8};
    const int binary[] = {1};
    struct tn_pg_args args = {0};
    char sql[2048];

    write_query(pg, sql, sizeof sql);
    tn_pg_arg_int8(&args, PQbackendPID(pg->conn));
    if (!PQsendQueryParams(pg->conn, sql, 1, types, args.value, args.len, binary, 1))
        return tn_pg_lost(pg, err);
    pg->phase = TN_PG_SETTING_UP;
    pg->heard_ns = pg->asked_ns = tenure_now();
    return TENURE_OK;
}

enum tenure_status tn_pg_begin_set_up(struct tn_pg *pg, struct tenure_error *err)
{
    pg->pooled = pg->timeless = false;
    return send_query(pg, err);
}

static enum tenure_status take_answer(struct tn_pg *pg, const PGresult *r, struct tenure_error *err)
{
    enum tenure_status status;
    int64_t pid;

    if (PQntuples(r) != 1 || !tn_pg_get_int8(r, 0, 0, &pid))
        return tn_pg_garbled(pg, "the session", err);
    status = tn_pg_timeline(pg, r, 1, &pg->timeline, err);
    if (status)
        return status;
    pg->pooled = pid != PQbackendPID(pg->conn);
    if (pg->pooled && pg->conf.advisory)
        return tenure_fail(err, TENURE_CONFIG,
                           "%s: a connection pooler answers here, and a session lock does not hold "
                           "through it; name the server's own host and port",
                           pg->scheme);
    return tn_pg_sql_fill(pg, err);
}

/* Some servers do not tell their timeline (those that keep their log elsewhere): then 0 it is, for
 * this session alone.  A statement that was cancelled is no answer: a token without the timeline
 * would hide a fail-over (I1). */
static bool tells_no_timeline(const struct tn_pg *pg, enum tenure_status status)
{
    return status && status != TENURE_TIMEOUT && pg->conn && !pg->timeless;
}

enum tenure_status tn_pg_set_up(struct tn_pg *pg, int64_t by, struct tenure_error *err)
{
    PGresult *answer = NULL, *r = NULL;
    enum tenure_status status = tn_pg_collect(pg, by, &answer, err);

    if (status)
        return status;
    status = tn_pg_judge(pg, answer, &r, err);
    if (tells_no_timeline(pg, status)) {
        pg->timeless = true;
        status = send_query(pg, err);
        return status ? status : tn_pg_set_up(pg, by, err);
    }
    if (status == TENURE_UNKNOWN || status == TENURE_TIMEOUT) /* nothing was changed */
        err->code = status = TENURE_UNAVAILABLE;
    if (!status)
        status = take_answer(pg, r, err);
    PQclear(r);
    if (status)
        return status;
    /* Between two calls nobody waits: that time is not the server's. */
    pg->trip_ns = tenure_now() - (pg->asked_ns > pg->called_ns ? pg->asked_ns : pg->called_ns);
    pg->phase = TN_PG_UP;
    return TENURE_OK;
}
