/* Connect, set the session up, let it go. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "os/poll.h"
#include "store/postgres.h"

#define OLDEST_SERVER 120000

void tn_pg_drop(struct tn_pg *pg)
{
    /* Does not block: the goodbye is sent only if the socket takes it. */
    PQfinish(pg->conn);
    pg->conn = NULL;
    pg->listening = pg->pending = pg->doubt = pg->dying = false;
    pg->misses = 0;
    pg->prepared = 0;
    memset(pg->seen, 0, sizeof pg->seen);
    pg->lock.held = false; /* a lock of the session ends with it */
}

enum tenure_status tn_pg_poll(struct tn_pg *pg, short events, int64_t deadline,
                              struct tenure_error *err)
{
    struct pollfd fds[2] = {{.fd = PQsocket(pg->conn), .events = events},
                            {.fd = pg->wake_fd, .events = POLLIN}};
    int ready = tn_poll_with(pg->timer_fd, fds, 2, deadline);

    if (ready < 0)
        return tenure_fail(err, TENURE_UNAVAILABLE, "%s: poll: %s", pg->scheme, strerror(errno));
    if (ready == 0)
        return tenure_fail(err, TENURE_TIMEOUT, "%s: no answer in time", pg->scheme);
    if (fds[1].revents)
        return tenure_fail(err, TENURE_CANCELLED, "%s: interrupted", pg->scheme);
    return TENURE_OK;
}

/* The server speaks out of turn: warnings, and the announcement of its end. */
static void on_notice(void *arg, const PGresult *result)
{
    struct tn_pg *pg = arg;
    const char *severity = PQresultErrorField(result, PG_DIAG_SEVERITY_NONLOCALIZED);
    const char *function = PQresultErrorField(result, PG_DIAG_SOURCE_FUNCTION);

    if (severity && (strcmp(severity, "FATAL") == 0 || strcmp(severity, "PANIC") == 0))
        pg->dying = true;
    /* A commit whose wait for the replica was cancelled is told as success with
     * a warning.  The text is translated; the name of the function is not. */
    if (function && strcmp(function, "SyncRepWaitForLSN") == 0)
        pg->doubt = true;
}

/* ---- Connect ------------------------------------------------------------- */

struct words {
    const char *name[16];
    const char *value[16];
    unsigned n;
};

static void word(struct words *w, const char *name, const char *value)
{
    w->name[w->n] = name;
    w->value[w->n] = value;
    w->n++;
}

/* Later words win over those in the URL. */
static void choose_words(const struct tn_pg *pg, const struct tn_pg_plan *plan,
                         const struct tn_pg_target *t, struct words *w)
{
    word(w, "dbname", pg->conf.uri);
    word(w, "host", t->host);
    word(w, "hostaddr", t->address);
    word(w, "port", t->port);
    word(w, "client_encoding", "UTF8");
    word(w, "fallback_application_name", "tenure");
    if (plan->strict)
        word(w, "sslmode", "verify-full");
    if (!plan->gss_given)
        word(w, "gssencmode", "disable");
    if (!plan->quick_given) {
        /* A peer that is gone is noticed in seconds, not hours. */
        word(w, "keepalives_idle", "5");
        word(w, "keepalives_interval", "2");
        word(w, "keepalives_count", "3");
        word(w, "tcp_user_timeout", "10000");
    }
    if (plan->n > 1 && !plan->attrs_given)
        word(w, "target_session_attrs", "read-write");
    word(w, NULL, NULL);
}

static enum tenure_status handshake(struct tn_pg *pg, const struct tn_pg_target *t,
                                    int64_t deadline, struct tenure_error *err)
{
    PostgresPollingStatusType next = PGRES_POLLING_WRITING;

    while (next != PGRES_POLLING_OK) {
        if (next == PGRES_POLLING_FAILED || PQstatus(pg->conn) == CONNECTION_BAD)
            return tn_pg_connect_fail(pg, t, err);
        enum tenure_status status =
            tn_pg_poll(pg, next == PGRES_POLLING_READING ? POLLIN : POLLOUT, deadline, err);
        if (status == TENURE_TIMEOUT)
            return tenure_fail(err, TENURE_TIMEOUT,
                               "%s: %s%sport %s did not answer in time; is the server up, and does "
                               "the network let this host reach it?",
                               pg->scheme, t->host, t->host[0] ? " " : "",
                               t->port[0] ? t->port : "5432");
        if (status)
            return status;
        next = PQconnectPoll(pg->conn);
    }
    return TENURE_OK;
}

static enum tenure_status connect_one(struct tn_pg *pg, const struct tn_pg_plan *plan,
                                      const struct tn_pg_target *t, int64_t deadline,
                                      struct tenure_error *err)
{
    struct words w = {0};
    enum tenure_status status;

    choose_words(pg, plan, t, &w);
    pg->conn = PQconnectStartParams(w.name, w.value, 1);
    if (!pg->conn)
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    /* With the code in the message: libpq shows it nowhere else. */
    PQsetErrorVerbosity(pg->conn, PQERRORS_VERBOSE);
    PQsetNoticeReceiver(pg->conn, on_notice, pg);
    status = handshake(pg, t, deadline, err);
    if (!status && PQsetnonblocking(pg->conn, 1) != 0)
        status = tenure_fail(err, TENURE_UNAVAILABLE, "%s: the socket cannot be used", pg->scheme);
    if (!status && PQserverVersion(pg->conn) < OLDEST_SERVER)
        status = tenure_fail(
            err, TENURE_CONFIG, "%s: the server is version %d.%d; PostgreSQL 12 or later is needed",
            pg->scheme, PQserverVersion(pg->conn) / 10000, PQserverVersion(pg->conn) / 100 % 100);
    if (status)
        tn_pg_drop(pg);
    return status;
}

/* ---- The session --------------------------------------------------------- */

/* A pooler makes up the process id that it hands out at the start. */
static enum tenure_status same_process(struct tn_pg *pg, const PGresult *r,
                                       struct tenure_error *err)
{
    int64_t pid;

    if (PQntuples(r) != 1 || !tn_pg_get_int8(r, 0, 0, &pid))
        return tn_pg_garbled(pg, "the session", err);
    if (pid == PQbackendPID(pg->conn))
        return TENURE_OK;
    pg->pooled = true;
    if (pg->conf.advisory)
        return tenure_fail(err, TENURE_CONFIG,
                           "%s: a connection pooler answers here, and a session lock does not hold "
                           "through it; name the server's own host and port",
                           pg->scheme);
    return TENURE_OK;
}

/*
 * What this session needs, whatever the role or the database say otherwise:
 * commits that are on disk when they are answered, no stronger isolation (it
 * would only add failures), room for a batch in memory, an end to statements
 * and locks that hang, and a server that notices when we are gone.
 */
static const char *const settings[][2] = {
    {"default_transaction_isolation", "read committed"},
    {"statement_timeout", "30s"},
    {"lock_timeout", "5s"},
    {"search_path", "pg_catalog, pg_temp"},
    {"jit", "off"},
    {"work_mem", "32MB"},
    {"tcp_keepalives_idle", "5"},
    {"tcp_keepalives_interval", "2"},
    {"tcp_keepalives_count", "3"},
    {"tcp_user_timeout", "10s"},
};

static enum tenure_status apply_settings(struct tn_pg *pg, int64_t deadline,
                                         struct tenure_error *err)
{
    char sql[2048];
    PGresult *r = NULL;
    int used = snprintf(sql, sizeof sql, "SELECT pg_backend_pid()::int8, " TN_PG_SYNC(false));

    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++)
        used += snprintf(sql + used, sizeof sql - (size_t)used, ", set_config('%s', '%s', false)",
                         settings[i][0], settings[i][1]);
    /* From 14 on, and only where the kernel can tell; elsewhere it is refused. */
    if (PQserverVersion(pg->conn) >= 140000)
        used += snprintf(sql + used, sizeof sql - (size_t)used,
                         ", CASE WHEN version() LIKE '%%linux%%' THEN set_config("
                         "'client_connection_check_interval', '2s', false) END");
    assert((size_t)used < sizeof sql);
    enum tenure_status status = tn_pg_say(pg, sql, NULL, deadline, &r, err);
    if (!status)
        status = same_process(pg, r, err);
    PQclear(r);
    return status;
}

/* Some servers do not tell (those that keep their log elsewhere): then 0 it is, for this session
 * alone.  A statement that was cancelled is no answer, nor is a standby's that a pooler has asked:
 * a token without the timeline would hide a fail-over (I1). */
static enum tenure_status learn_timeline(struct tn_pg *pg, int64_t deadline,
                                         struct tenure_error *err)
{
    PGresult *r = NULL;
    enum tenure_status status;

    pg->timeline = 0;
    pg->timeless = false;
    status = tn_pg_say(
        pg, "SELECT CASE WHEN pg_is_in_recovery() THEN -1::int8 ELSE " TN_PG_TIMELINE " END", NULL,
        deadline, &r, err);
    if (status == TENURE_OK && !tn_pg_get_int8(r, 0, 0, &pg->timeline))
        status = tn_pg_garbled(pg, "itself", err);
    else if (status == TENURE_OK)
        status = pg->timeline < 0 ? tn_pg_standby(pg, err) : TENURE_OK;
    else
        pg->timeless = pg->conn && !pg->pending && status != TENURE_TIMEOUT;
    PQclear(r);
    return pg->timeless ? TENURE_OK : status;
}

static enum tenure_status set_up(struct tn_pg *pg, int64_t deadline, struct tenure_error *err)
{
    PGresult *r = NULL;
    bool standby = false;
    enum tenure_status status;

    pg->pooled = false;
    status = tn_pg_say(pg, "SELECT pg_backend_pid()::int8, pg_is_in_recovery()", NULL, deadline, &r,
                       err);
    if (!status)
        status = same_process(pg, r, err);
    if (!status && (!tn_pg_get_bool(r, 0, 1, &standby) || standby))
        status = tn_pg_standby(pg, err);
    PQclear(r);
    /* What is set on a shared session would be left to its next user. */
    if (!status && !pg->pooled)
        status = apply_settings(pg, deadline, err);
    if (!status)
        status = learn_timeline(pg, deadline, err);
    if (!status)
        status = tn_pg_sql_fill(pg, err);
    if (status == TENURE_UNKNOWN) /* of questions: nothing was changed */
        err->code = status = tenure_now() >= deadline ? TENURE_TIMEOUT : TENURE_UNAVAILABLE;
    return status;
}

static int64_t share(int64_t now, int64_t deadline, unsigned left)
{
    return now + (deadline - now) / (int64_t)left;
}

enum tenure_status tn_pg_connect(struct tn_pg *pg, int64_t deadline, struct tenure_error *err)
{
    struct tn_pg_plan plan;
    enum tenure_status status;

    if (pg->conn)
        return TENURE_OK;
    status = tn_pg_plan(pg, deadline, &plan, err);
    if (status)
        return status;
    /* Each gets its share of the time, so that one that swallows packets does
     * not keep us from the next; who answered last is asked first. */
    for (unsigned i = 0; i < plan.n; i++) {
        unsigned which = (pg->turn + i) % plan.n;
        int64_t by = share(tenure_now(), deadline, plan.n - i);

        status = connect_one(pg, &plan, &plan.targets[which], by, err);
        if (!status) {
            status = set_up(pg, by, err);
            if (status)
                tn_pg_drop(pg);
        }
        if (!status)
            pg->turn = which;
        /* Who was let in and told no would be told no by the others too. */
        if (!status || status == TENURE_CANCELLED || tenure_now() >= deadline ||
            tenure_status_class(status) == TENURE_CLASS_PERMANENT)
            break;
    }
    if (status && plan.n > 1)
        pg->turn++;
    return status;
}
