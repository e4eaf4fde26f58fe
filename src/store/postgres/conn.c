/* Connect, over as many calls as it takes; let go. */
#include <errno.h>
#include <string.h>

#include "base/duration.h"
#include "os/poll.h"
#include "store/postgres/postgres.h"

#define OLDEST_SERVER 120000

/* A call that is shorter than this does not judge a server by its silence. */
#define LEAST_PATIENCE INT64_C(100000000)

void tn_pg_drop(struct tn_pg *pg)
{
    /* Does not block: the goodbye is sent only if the socket takes it. */
    PQfinish(pg->conn);
    pg->conn = NULL;
    pg->phase = TN_PG_DOWN;
    pg->listening = pg->pending = pg->doubt = pg->dying = false;
    pg->misses = 0;
    pg->prepared = pg->preparing = 0;
    tn_watcher_drop(&pg->watcher);
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
    pg->heard_ns = tenure_now();
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
static void choose_words(const struct tn_pg *pg, const struct tn_pg_target *t, struct words *w)
{
    const struct tn_pg_plan *plan = &pg->plan;

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

static unsigned which(const struct tn_pg *pg)
{
    return (pg->turn + pg->tried) % pg->plan.n;
}

/* Begin with the next server, or with another round over all of them. */
static enum tenure_status begin(struct tn_pg *pg, int64_t deadline, struct tenure_error *err)
{
    struct words w = {0};
    enum tenure_status status = TENURE_OK;

    if (pg->tried == pg->plan.n) {
        pg->tried = 0;
        status = tn_pg_plan(pg, deadline, &pg->plan, err);
    }
    if (status) {
        pg->plan.n = 0;
        return status;
    }
    choose_words(pg, &pg->plan.targets[which(pg)], &w);
    pg->conn = PQconnectStartParams(w.name, w.value, 1);
    if (!pg->conn)
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    /* With the code in the message: libpq shows it nowhere else. */
    PQsetErrorVerbosity(pg->conn, PQERRORS_VERBOSE);
    PQsetNoticeReceiver(pg->conn, on_notice, pg);
    pg->phase = TN_PG_GREETING;
    pg->next = PGRES_POLLING_WRITING;
    pg->heard_ns = tenure_now();
    return TENURE_OK;
}

static enum tenure_status finish_login(struct tn_pg *pg, int64_t by, struct tenure_error *err)
{
    const struct tn_pg_target *t = &pg->plan.targets[which(pg)];

    while (pg->next != PGRES_POLLING_OK) {
        if (pg->next == PGRES_POLLING_FAILED || PQstatus(pg->conn) == CONNECTION_BAD)
            return tn_pg_connect_fail(pg, t, err);
        enum tenure_status status =
            tn_pg_poll(pg, pg->next == PGRES_POLLING_READING ? POLLIN : POLLOUT, by, err);
        if (status == TENURE_TIMEOUT)
            return tenure_fail(err, TENURE_TIMEOUT,
                               "%s: %s%sport %s did not answer in time; is the server up, and does "
                               "the network let this host reach it?",
                               pg->scheme, t->host, t->host[0] ? " " : "",
                               t->port[0] ? t->port : "5432");
        if (status)
            return status;
        pg->next = PQconnectPoll(pg->conn);
    }
    if (PQsetnonblocking(pg->conn, 1) != 0)
        return tenure_fail(err, TENURE_UNAVAILABLE, "%s: the socket cannot be used", pg->scheme);
    if (PQserverVersion(pg->conn) < OLDEST_SERVER)
        return tenure_fail(
            err, TENURE_CONFIG, "%s: the server is version %d.%d; PostgreSQL 12 or later is needed",
            pg->scheme, PQserverVersion(pg->conn) / 10000, PQserverVersion(pg->conn) / 100 % 100);
    return tn_pg_begin_set_up(pg, err);
}

/* ---- Over as many calls as it takes --------------------------------------- */

/*
 * How long a server may be silent in a call of this span.  Each has its share, so that one that
 * swallows packets does not keep us from the next.  If none answered within that, twice as much in
 * the next round, up to all of it: an answer may take as long as a request.
 */
static int64_t patience(const struct tn_pg *pg, int64_t span)
{
    int64_t whole = pg->patient ? TN_PG_QUESTION_NS : span;
    int64_t share = tn_min_ns((whole / pg->plan.n) << tn_min_ns(pg->rounds, 4), whole);

    return share > LEAST_PATIENCE ? share : LEAST_PATIENCE;
}

/* As far as this server comes by the deadline.  Its failure, or its silence, drops it. */
static enum tenure_status advance(struct tn_pg *pg, int64_t deadline, int64_t silence,
                                  struct tenure_error *err)
{
    enum tenure_status status;
    int64_t by;

    do {
        by = tn_min_ns(deadline, pg->heard_ns + silence);
        status = pg->phase == TN_PG_GREETING ? finish_login(pg, by, err) : TENURE_OK;
        if (!status)
            status = tn_pg_set_up(pg, by, err);
    } while (status == TENURE_TIMEOUT && by < deadline && by < pg->heard_ns + silence);
    if (status == TENURE_TIMEOUT ? by < deadline : status && status != TENURE_CANCELLED)
        tn_pg_drop(pg);
    return status;
}

/* A server did not answer, or refused.  false: in this call nobody else is asked. */
static bool ask_next(struct tn_pg *pg, enum tenure_status status, unsigned failed, int64_t deadline)
{
    pg->tried++;
    if (pg->tried == pg->plan.n)
        pg->rounds++;
    /* What one refuses for good the others would refuse too. */
    if (tenure_status_class(status) == TENURE_CLASS_PERMANENT) {
        pg->tried = pg->plan.n;
        return false;
    }
    return failed < pg->plan.n && tenure_now() < deadline;
}

enum tenure_status tn_pg_connect(struct tn_pg *pg, int64_t deadline, struct tenure_error *err)
{
    int64_t span = deadline - tenure_now();
    unsigned failed = 0;
    enum tenure_status status = TENURE_OK;

    if (pg->phase == TN_PG_UP)
        return TENURE_OK;
    pg->called_ns = tenure_now();
    do {
        if (pg->phase == TN_PG_DOWN)
            status = begin(pg, deadline, err);
        if (status)
            return status;
        status = advance(pg, deadline, patience(pg, span), err);
        if (status == TENURE_OK) { /* who answered last is asked first */
            pg->turn = which(pg);
            pg->tried = pg->plan.n = pg->rounds = 0;
            return TENURE_OK;
        }
    } while (pg->phase == TN_PG_DOWN && ask_next(pg, status, ++failed, deadline));
    return status;
}
