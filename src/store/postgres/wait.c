/*
 * wait: LISTEN, then compare, then sleep (C6); or, where sessions are shared or
 * notify=off, compare again and again (store/watcher.h).
 *
 * A commit that a read of this session did not show is notified after it, so as
 * long as nothing is notified, nothing has changed: a wait that follows a read
 * asks nothing.  Changes of the state are not notified (sql.c): a wait that they
 * may concern compares again and again as well.  A session that breaks takes its advisory lock with
 * it, so it ends the wait.
 */
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/key.h"
#include "store/postgres/postgres.h"

/* Questions within wait() have less patience than the server, unless the caller has even less. */
static void set_patience(struct tn_pg *pg, int64_t by)
{
    pg->patient = by >= pg->watcher.deadline;
}

/* ---- Listen -------------------------------------------------------------- */

void tn_pg_take_notifications(struct tn_pg *pg)
{
    for (PGnotify *note; (note = PQnotifies(pg->conn)); PQfreemem(note)) {
        if (note->be_pid != PQbackendPID(pg->conn)) /* our own: we know */
            tn_watcher_event(&pg->watcher, note->extra[0] ? note->extra : NULL, NULL);
    }
}

/* Candidates that poll must not do it in step: up to a quarter less. */
static int64_t poll_span(const struct tn_pg *pg)
{
    uint8_t dice[TENURE_NONCE_SIZE] = {0};

    tenure_nonce(dice, NULL);
    return pg->conf.poll_ns - pg->conf.poll_ns / 4 * dice[0] / 255;
}

static bool may_listen(const struct tn_pg *pg)
{
    return pg->conf.notify && !pg->pooled && !pg->unprepared;
}

static enum tenure_status listen_to_all(struct tn_pg *pg, int64_t by, struct tenure_error *err)
{
    char sql[TN_PG_SCHEMA_MAX + 16];
    PGresult *r = NULL;
    enum tenure_status status;

    if (pg->phase == TN_PG_UP && (pg->listening || !may_listen(pg)))
        return TENURE_OK;
    status = tn_pg_ready(pg, by, err);
    if (status || !may_listen(pg))
        return status;
    snprintf(sql, sizeof sql, "LISTEN \"%s\"", pg->conf.schema);
    status = tn_pg_say(pg, sql, NULL, by, &r, err);
    PQclear(r);
    if (!status)
        pg->listening = true;
    return status == TENURE_UNKNOWN ? TENURE_UNAVAILABLE : status;
}

/* Is every change of it notified? */
static bool is_notified(const char *key)
{
    return !tn_key_below(key, TN_KEY_STATE);
}

static bool is_polled(const struct tn_watcher *w)
{
    const struct tn_pg *pg = w->impl;
    bool polled = !pg->listening;

    for (size_t i = 0; i < w->n_watches && !polled; i++)
        polled = w->watches[i].prefix || !is_notified(w->watches[i].key);
    return polled;
}

static enum tenure_status subscribe(struct tn_watcher *w, int64_t by, struct tenure_error *err)
{
    struct tn_pg *pg = w->impl;
    enum tenure_status status;

    set_patience(pg, by);
    status = listen_to_all(pg, by, err);
    w->poll_ns = is_polled(w) ? poll_span(pg) : 0;
    for (unsigned i = 0; !status && pg->listening && i < w->n_followed; i++) {
        if (!w->followed[i].live && is_notified(w->followed[i].key))
            tn_watcher_confirm(&w->followed[i]);
    }
    return status;
}

/* ---- Compare ------------------------------------------------------------- */

static enum tenure_status fetch_token(struct tn_pg *pg, const char *key, int64_t deadline,
                                      struct tenure_token *token, struct tenure_error *err)
{
    struct tn_pg_args args = {0};
    PGresult *r = NULL;
    uint8_t nonce[TENURE_NONCE_SIZE];
    struct tn_pg_version version;
    enum tenure_status status;

    memset(token, 0, sizeof *token);
    tn_pg_arg_text(&args, key);
    status = tn_pg_ask(pg, TN_PG_COMPARE, &args, deadline, &r, err);
    if (!status)
        status = tn_pg_timeline(pg, r, 0, &version.timeline, err);
    if (!status && !PQgetisnull(r, 0, 1)) {
        if (tn_pg_get_int8(r, 0, 1, &version.number) && tn_pg_get_nonce(r, 0, 2, nonce))
            tn_pg_token(&version, nonce, token);
        else
            status = tn_pg_garbled(pg, "a row", err);
    }
    PQclear(r);
    return status;
}

static enum tenure_status compare(struct tn_watcher *w, const struct tenure_watch *const *watches,
                                  size_t n, int64_t by, bool *changed, struct tenure_error *err)
{
    struct tn_pg *pg = w->impl;
    enum tenure_status status = TENURE_OK;

    set_patience(pg, by);
    for (size_t i = 0; i < n && !status && !*changed; i++) {
        char mark[TENURE_VERSION_MAX + 1];
        struct tenure_token token;

        if (watches[i]->prefix) {
            status = tn_pg_mark(pg, watches[i]->key, mark, by, err);
            *changed = !status && strcmp(mark, watches[i]->mark) != 0;
        } else {
            status = fetch_token(pg, watches[i]->key, by, &token, err);
            *changed = !status && !tenure_token_equal(&token, &watches[i]->seen);
        }
    }
    return status;
}

/* ---- Sleep --------------------------------------------------------------- */

/* Sleep until the socket has something to say or `until`.  TIMEOUT: until. */
static enum tenure_status sleep_until(struct tn_pg *pg, int64_t until, struct tenure_error *err)
{
    enum tenure_status status = tn_pg_poll(pg, POLLIN, until, err);

    if (status == TENURE_OK && (!PQconsumeInput(pg->conn) || pg->dying)) {
        tenure_fail(err, TENURE_UNAVAILABLE, "%s: the connection broke while waiting", pg->scheme);
        tn_pg_drop(pg);
        return TENURE_UNAVAILABLE;
    }
    return status;
}

/* Before it sleeps, and when that is due again: is the lock of a lease free although it is held? */
static enum tenure_status check_lock(struct tn_watcher *w, int64_t *until, struct tenure_error *err)
{
    struct tn_pg *pg = w->impl;
    int64_t by = tenure_now() + TN_PG_QUESTION_NS, before = *until;

    if (by > w->deadline)
        by = w->deadline;
    set_patience(pg, by);
    enum tenure_status status = tn_pg_lock_look(pg, w->watches, w->n_watches, by, until, err);
    /* Freed by our own hand, of which nobody notifies us. */
    w->again = w->again || (*until < before && *until < pg->lock.look_at_ns);
    return status;
}

static enum tenure_status next(struct tn_watcher *w, int64_t until, struct tenure_error *err)
{
    struct tn_pg *pg = w->impl;
    int64_t at = until;
    enum tenure_status status = until ? check_lock(w, &at, err) : TENURE_OK;

    if (status)
        return status;
    /* Before every sleep: what came with an answer is in libpq's hands, and
     * the socket will not tell of it again. */
    tn_pg_take_notifications(pg);
    /* A session that was replaced while it compared does not listen yet. */
    w->again = w->again || (!pg->listening && !w->poll_ns);
    if (w->changed || w->again || !until)
        return TENURE_OK;
    status = sleep_until(pg, at, err);
    return status == TENURE_TIMEOUT && at < until ? TENURE_OK : status;
}

static const struct tn_watcher_ops ops = {.subscribe = subscribe, .next = next, .compare = compare};

void tn_pg_watcher_init(struct tn_pg *pg)
{
    pg->wake_fd = -1;
    pg->watcher = (struct tn_watcher){.ops = &ops,
                                      .impl = pg,
                                      .scheme = pg->scheme,
                                      .cancel_fd = &pg->wake_fd,
                                      .attempts = 1,
                                      .attempt_max_ns = TN_PG_QUESTION_NS,
                                      .session = true};
}

enum tenure_status tn_pg_wait(void *impl, const struct tenure_watch *watches, size_t n, int wake_fd,
                              int64_t deadline, struct tenure_error *err)
{
    struct tn_pg *pg = impl;
    enum tenure_status status = tn_watcher_wait(pg, watches, n, wake_fd, deadline, err);

    pg->patient = false;
    return status;
}
