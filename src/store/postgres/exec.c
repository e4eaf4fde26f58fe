/* One statement, with a deadline. */
#include <endian.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "store/postgres/postgres.h"

static const int binary[TN_PG_PARAMS] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};

#define MISSES 3 /* deadlines in a row after which a session that holds the lock is given up */

/* TLS may hold decrypted bytes that the socket does not tell of: ask now and then. */
#define SLICE INT64_C(100000000)

/* ---- Parameters and fields ----------------------------------------------- */

static int next_arg(struct tn_pg_args *args, const void *value, size_t len)
{
    args->value[args->n] = value;
    args->len[args->n] = (int)len;
    return args->n++;
}

void tn_pg_arg_text(struct tn_pg_args *args, const char *text)
{
    next_arg(args, text, strlen(text));
}

void tn_pg_arg_bytes(struct tn_pg_args *args, const void *data, size_t len)
{
    next_arg(args, len ? data : "", len);
}

void tn_pg_arg_int8(struct tn_pg_args *args, int64_t number)
{
    int i = next_arg(args, NULL, sizeof number);

    args->number[i] = (int64_t)htobe64((uint64_t)number);
    args->value[i] = (const char *)&args->number[i];
}

void tn_pg_arg_bool(struct tn_pg_args *args, bool flag)
{
    next_arg(args, flag ? "\1" : "\0", 1);
}

void tn_pg_arg_null(struct tn_pg_args *args)
{
    next_arg(args, NULL, 0);
}

static bool field(const PGresult *r, int row, int column, int len)
{
    return row < PQntuples(r) && column < PQnfields(r) && !PQgetisnull(r, row, column) &&
           PQgetlength(r, row, column) == len;
}

bool tn_pg_get_int8(const PGresult *r, int row, int column, int64_t *out)
{
    uint64_t raw;

    if (!field(r, row, column, sizeof raw))
        return false;
    memcpy(&raw, PQgetvalue(r, row, column), sizeof raw);
    *out = (int64_t)be64toh(raw);
    return true;
}

bool tn_pg_get_bool(const PGresult *r, int row, int column, bool *out)
{
    if (!field(r, row, column, 1))
        return false;
    *out = *PQgetvalue(r, row, column) != 0;
    return true;
}

bool tn_pg_get_nonce(const PGresult *r, int row, int column, uint8_t out[TENURE_NONCE_SIZE])
{
    if (!field(r, row, column, TENURE_NONCE_SIZE))
        return false;
    memcpy(out, PQgetvalue(r, row, column), TENURE_NONCE_SIZE);
    return true;
}

/* ---- Results ------------------------------------------------------------- */

enum tenure_status tn_pg_lost(struct tn_pg *pg, struct tenure_error *err)
{
    enum tenure_status status = tenure_fail(err, TENURE_UNAVAILABLE, "%s: the connection broke: %s",
                                            pg->scheme, PQerrorMessage(pg->conn));
    tn_pg_drop(pg);
    return status;
}

/* Keep the error, if there is one: a commit that fails comes behind the answer
 * to the statement that it undoes. */
static void keep_error(PGresult **kept, PGresult *next)
{
    if (*kept && PQresultStatus(*kept) == PGRES_FATAL_ERROR) {
        PQclear(next);
        return;
    }
    PQclear(*kept);
    *kept = next;
}

/* The next part of the answer; false: there is none.  A statement that was sent to be prepared and
 * run is answered in two parts, behind each of which libpq pauses, and with a mark at the end.  Two
 * pauses in a row: a libpq that has lost the mark behind an error (fixed in 15.6). */
static bool take_next(struct tn_pg *pg, PGresult **kept, bool *paused)
{
    PGresult *next = PQgetResult(pg->conn);
    bool was_paused = *paused;

    *paused = !next;
    if (!next)
        return !was_paused && PQpipelineStatus(pg->conn) != PQ_PIPELINE_OFF &&
               PQstatus(pg->conn) != CONNECTION_BAD;
    if (PQresultStatus(next) == PGRES_PIPELINE_SYNC) {
        PQclear(next);
        return PQexitPipelineMode(pg->conn); /* libpq has nothing more then */
    }
    if (PQresultStatus(next) == PGRES_COMMAND_OK)
        pg->prepared |= pg->preparing;
    pg->preparing = 0;
    keep_error(kept, next);
    return true;
}

enum tenure_status tn_pg_collect(struct tn_pg *pg, int64_t deadline, PGresult **result,
                                 struct tenure_error *err)
{
    enum tenure_status status = TENURE_OK;
    PGresult *kept = NULL;
    bool paused = false;

    for (;;) {
        int unsent = PQflush(pg->conn);
        if (unsent < 0) {
            status = tn_pg_lost(pg, err);
            break;
        }
        bool quiet = unsent == 0 && !PQisBusy(pg->conn);
        if (quiet && take_next(pg, &kept, &paused))
            continue;
        if (quiet && PQpipelineStatus(pg->conn) == PQ_PIPELINE_OFF)
            break;
        if (PQstatus(pg->conn) == CONNECTION_BAD) {
            /* The last words of the server, if it had any, say more. */
            if (PQresultStatus(kept) != PGRES_FATAL_ERROR || !kept)
                status = tn_pg_lost(pg, err);
            break;
        }
        int64_t until = deadline;
        if (PQsslInUse(pg->conn) && tenure_now() + SLICE < deadline)
            until = tenure_now() + SLICE;
        status = tn_pg_poll(pg, unsent ? POLLIN | POLLOUT : POLLIN, until, err);
        if (status && !(status == TENURE_TIMEOUT && until < deadline))
            break;
        status = TENURE_OK;
        PQconsumeInput(pg->conn); /* a failure shows above */
    }
    if (status) {
        PQclear(kept);
        return status;
    }
    pg->pending = false;
    pg->misses = 0;
    *result = kept;
    return TENURE_OK;
}

/* A statement was sent and nobody waits for it any more.  Its session is given
 * up, because the next one cannot be sent before it ends; but not yet if that
 * would throw away a lock that the server still grants us. */
static void miss(struct tn_pg *pg)
{
    pg->pending = true;
    if (pg->patient)
        return; /* a short wait() ended, which says nothing about the server */
    if (++pg->misses >= (pg->lock.held ? MISSES : 1))
        tn_pg_drop(pg);
}

enum tenure_status tn_pg_judge(struct tn_pg *pg, PGresult *answer, PGresult **result,
                               struct tenure_error *err)
{
    ExecStatusType kind = PQresultStatus(answer);
    enum tenure_status status;
    const char *code = PQresultErrorField(answer, PG_DIAG_SQLSTATE);
    bool fatal = false;

    if (kind == PGRES_TUPLES_OK || kind == PGRES_COMMAND_OK) {
        if (pg->doubt) {
            PQclear(answer);
            return tenure_fail(err, TENURE_UNKNOWN,
                               "%s: the server gave up waiting for its replica: the change is "
                               "there, but may be lost in a fail-over",
                               pg->scheme);
        }
        *result = answer;
        return TENURE_OK;
    }
    status = tn_pg_result_fail(pg, answer, &fatal, err);
    /* Not known, or known already: somebody shares this session with us. */
    bool strange = code && (strcmp(code, "26000") == 0 || strcmp(code, "42P05") == 0);
    /* The table was made again, and the old plans do not fit it. */
    bool stale = code && pg->prepared && strcmp(code, "0A000") == 0;
    pg->missing = code && (strcmp(code, "42P01") == 0 || strcmp(code, "3F000") == 0);
    PQclear(answer);
    if (strange)
        pg->unprepared = true;
    if (fatal || strange || stale)
        tn_pg_drop(pg);
    if (fatal)
        err->code = status = TENURE_UNKNOWN;
    return status;
}

/* Send and wait.  The statement has been handed to libpq: it may be on its way. */
static enum tenure_status finish(struct tn_pg *pg, int64_t deadline, PGresult **result,
                                 struct tenure_error *err)
{
    PGresult *answer = NULL;
    enum tenure_status status = tn_pg_collect(pg, deadline, &answer, err);

    if (status == TENURE_OK)
        return tn_pg_judge(pg, answer, result, err);
    if (status == TENURE_CANCELLED) { /* in wait() alone, which changes nothing */
        pg->pending = true;
        return status;
    }
    if (status == TENURE_TIMEOUT)
        miss(pg);
    if (pg->patient && status == TENURE_TIMEOUT)
        return status;
    return err->code = TENURE_UNKNOWN;
}

/* ---- Statements ---------------------------------------------------------- */

/* A session that came up in this very call is not spent on a statement whose answer would come too
 * late: to give it up then would be to begin all over again. */
static bool too_late(const struct tn_pg *pg, int64_t deadline)
{
    return !pg->patient && deadline - tenure_now() < 2 * pg->trip_ns;
}

/* A session that is up, quiet, and has nothing left to say about earlier statements. */
enum tenure_status tn_pg_ready(struct tn_pg *pg, int64_t deadline, struct tenure_error *err)
{
    for (int fresh = 0;; fresh++) {
        PGresult *old = NULL;
        bool late = pg->phase != TN_PG_UP;
        enum tenure_status status = tn_pg_connect(pg, deadline, err);

        if (status)
            return status;
        if (late && too_late(pg, deadline))
            return tenure_fail(err, TENURE_TIMEOUT,
                               "%s: connected, but too late for the request; the next one has the "
                               "session",
                               pg->scheme);
        if (pg->pending) {
            status = tn_pg_collect(pg, deadline, &old, err);
            PQclear(old);
            if (status == TENURE_TIMEOUT)
                miss(pg);
            if (status == TENURE_TIMEOUT || status == TENURE_CANCELLED)
                return status;
        }
        /* A session that the server has ended meanwhile is seen here, before
         * anything is sent whose outcome would then be unknown. */
        if (pg->conn && PQconsumeInput(pg->conn)) {
            tn_pg_take_notifications(pg);
            pg->doubt = false;
            if (!pg->dying)
                return TENURE_OK;
        }
        tn_pg_drop(pg);
        if (fresh)
            return tenure_fail(err, TENURE_UNAVAILABLE, "%s: the server ends every session",
                               pg->scheme);
    }
}

enum tenure_status tn_pg_say(struct tn_pg *pg, const char *sql, const struct tn_pg_args *args,
                             int64_t deadline, PGresult **result, struct tenure_error *err)
{
    int sent =
        args ? PQsendQueryParams(pg->conn, sql, args->n, NULL, args->value, args->len, binary, 1)
             : PQsendQueryParams(pg->conn, sql, 0, NULL, NULL, NULL, NULL, 1);

    if (!sent) {
        tn_pg_lost(pg, err);
        return err->code = TENURE_UNKNOWN;
    }
    return finish(pg, deadline, result, err);
}

enum tenure_status tn_pg_script(struct tn_pg *pg, const char *sql, int64_t deadline,
                                PGresult **result, struct tenure_error *err)
{
    enum tenure_status status = tn_pg_ready(pg, deadline, err);

    if (status)
        return status;
    if (!PQsendQuery(pg->conn, sql)) {
        tn_pg_lost(pg, err);
        return err->code = TENURE_UNKNOWN;
    }
    return finish(pg, deadline, result, err);
}

static int send_stmt(struct tn_pg *pg, enum tn_pg_stmt stmt, const struct tn_pg_args *args)
{
    const struct tn_pg_sql *s = &tn_pg_sql[stmt];

    if (pg->pooled || pg->unprepared)
        return PQsendQueryParams(pg->conn, pg->sql[stmt], args->n, s->types, args->value, args->len,
                                 binary, 1);
    if (pg->prepared & (1u << stmt))
        return PQsendQueryPrepared(pg->conn, s->name, args->n, args->value, args->len, binary, 1);
    /* Both in one round trip, and one answer: none can be left for later without the other. */
    pg->preparing = 1u << stmt;
    return PQenterPipelineMode(pg->conn) &&
           PQsendPrepare(pg->conn, s->name, pg->sql[stmt], s->n, s->types) &&
           PQsendQueryPrepared(pg->conn, s->name, args->n, args->value, args->len, binary, 1) &&
           PQpipelineSync(pg->conn);
}

enum tenure_status tn_pg_run(struct tn_pg *pg, enum tn_pg_stmt stmt, const struct tn_pg_args *args,
                             int64_t deadline, PGresult **result, struct tenure_error *err)
{
    enum tenure_status status;

    if (tenure_now() >= deadline)
        return tenure_fail(err, TENURE_TIMEOUT, "%s: the deadline has passed", pg->scheme);
    status = tn_pg_ready(pg, deadline, err);
    if (status)
        return status;
    if (!send_stmt(pg, stmt, args)) {
        tn_pg_lost(pg, err);
        return err->code = TENURE_UNKNOWN;
    }
    return finish(pg, deadline, result, err);
}

enum tenure_status tn_pg_ask(struct tn_pg *pg, enum tn_pg_stmt stmt, const struct tn_pg_args *args,
                             int64_t deadline, PGresult **result, struct tenure_error *err)
{
    enum tenure_status status = tn_pg_run(pg, stmt, args, deadline, result, err);

    /* A session that broke is no answer yet: nothing was changed, ask once more. */
    if (status == TENURE_UNKNOWN && !pg->conn && tenure_now() < deadline)
        status = tn_pg_run(pg, stmt, args, deadline, result, err);
    if (status == TENURE_UNKNOWN)
        err->code = status = tenure_now() >= deadline ? TENURE_TIMEOUT : TENURE_UNAVAILABLE;
    return status;
}
