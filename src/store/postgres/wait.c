/*
 * wait: LISTEN, then compare, then sleep (C6); or, where sessions are shared or
 * notify=off, compare again and again.
 *
 * What this session has read while it listens is remembered.  A commit that
 * such a read did not show is notified after it, so as long as nothing is
 * notified, nothing has changed: a wait that follows a read asks nothing.
 *
 * Changes of the state are not notified (sql.c): a wait that they may concern
 * compares again and again as well.
 */
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/key.h"
#include "store/postgres/postgres.h"

/* ---- What was seen ------------------------------------------------------- */

static struct tn_pg_seen *seen_find(struct tn_pg *pg, const char *key)
{
    for (int i = 0; i < TENURE_WATCH_MAX; i++) {
        if (pg->seen[i].clean && strcmp(pg->seen[i].key, key) == 0)
            return &pg->seen[i];
    }
    return NULL;
}

/* Is every change of it notified? */
static bool is_notified(const char *key)
{
    return !tn_key_below(key, TN_KEY_STATE);
}

void tn_pg_remember(struct tn_pg *pg, const char *key, const struct tenure_token *token)
{
    struct tn_pg_seen *s = seen_find(pg, key);

    if (!pg->listening || !is_notified(key))
        return;
    if (!s) {
        s = &pg->seen[pg->seen_next];
        pg->seen_next = (pg->seen_next + 1) % TENURE_WATCH_MAX;
        snprintf(s->key, sizeof s->key, "%s", key);
    }
    s->token = *token;
    s->clean = true;
}

void tn_pg_forget(struct tn_pg *pg, const char *key)
{
    for (int i = 0; i < TENURE_WATCH_MAX; i++) {
        if (!key || strcmp(pg->seen[i].key, key) == 0)
            pg->seen[i].clean = false;
    }
}

static bool concerns(const struct tenure_watch *watch, const char *key)
{
    if (key[0] == '\0') /* a large batch */
        return true;
    return watch->prefix ? strncmp(key, watch->key, strlen(watch->key)) == 0
                         : strcmp(key, watch->key) == 0;
}

bool tn_pg_notified(struct tn_pg *pg, const struct tenure_watch *watches, size_t n)
{
    bool any = false;

    for (PGnotify *note; (note = PQnotifies(pg->conn)); PQfreemem(note)) {
        if (note->be_pid == PQbackendPID(pg->conn))
            continue; /* our own: we know */
        tn_pg_forget(pg, note->extra[0] ? note->extra : NULL);
        for (size_t i = 0; i < n && !any; i++)
            any = concerns(&watches[i], note->extra);
    }
    return any;
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
    if (!status)
        tn_pg_remember(pg, key, token);
    PQclear(r);
    return status;
}

static enum tenure_status changed(struct tn_pg *pg, const struct tenure_watch *watch,
                                  int64_t deadline, bool *any, struct tenure_error *err)
{
    const struct tn_pg_seen *s = watch->prefix ? NULL : seen_find(pg, watch->key);
    char mark[TENURE_VERSION_MAX + 1];
    struct tenure_token token;
    enum tenure_status status;

    if (s) {
        *any = !tenure_token_equal(&s->token, &watch->seen);
        return TENURE_OK;
    }
    if (watch->prefix) {
        status = tn_pg_mark(pg, watch->key, mark, deadline, err);
        if (!status)
            *any = strcmp(mark, watch->mark) != 0;
        return status;
    }
    status = fetch_token(pg, watch->key, deadline, &token, err);
    if (!status)
        *any = !tenure_token_equal(&token, &watch->seen);
    return status;
}

/* ---- Sleep --------------------------------------------------------------- */

static bool may_listen(const struct tn_pg *pg)
{
    return pg->conf.notify && !pg->pooled && !pg->unprepared;
}

static enum tenure_status subscribe(struct tn_pg *pg, int64_t deadline, struct tenure_error *err)
{
    char sql[TN_PG_SCHEMA_MAX + 16];
    PGresult *r = NULL;
    enum tenure_status status;

    if (pg->phase == TN_PG_UP && (pg->listening || !may_listen(pg)))
        return TENURE_OK;
    status = tn_pg_ready(pg, deadline, err);
    if (status || !may_listen(pg))
        return status;
    snprintf(sql, sizeof sql, "LISTEN \"%s\"", pg->conf.schema);
    status = tn_pg_say(pg, sql, NULL, deadline, &r, err);
    PQclear(r);
    if (!status)
        pg->listening = true;
    return status == TENURE_UNKNOWN ? TENURE_UNAVAILABLE : status;
}

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

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Candidates that poll must not do it in step: up to a quarter less. */
static int64_t poll_span(const struct tn_pg *pg)
{
    uint8_t dice[TENURE_NONCE_SIZE] = {0};

    tenure_nonce(dice, NULL);
    return pg->conf.poll_ns - pg->conf.poll_ns / 4 * dice[0] / 255;
}

/* One round: subscribe, compare, sleep.  TIMEOUT: nothing yet, go on. */
static enum tenure_status wait_once(struct tn_pg *pg, const struct tenure_watch *watches, size_t n,
                                    int64_t deadline, struct tenure_error *err)
{
    int64_t by = min64(deadline, tenure_now() + TN_PG_QUESTION);
    int64_t until = deadline;
    bool any = false;
    enum tenure_status status;

    pg->patient = by == deadline;
    status = subscribe(pg, by, err);

    if (!status && tn_pg_notified(pg, watches, n))
        return TENURE_OK;
    for (size_t i = 0; i < n && !status && !any; i++)
        status = changed(pg, &watches[i], by, &any, err);
    if (status == TENURE_TIMEOUT && tenure_now() < deadline)
        return err->code = TENURE_UNAVAILABLE; /* the server, not our time, is up */
    if (status || any)
        return status;
    bool poll = !pg->listening;
    for (size_t i = 0; i < n && !poll; i++)
        poll = watches[i].prefix || !is_notified(watches[i].key);
    if (poll)
        until = min64(until, tenure_now() + poll_span(pg));
    status = tn_pg_lock_look(pg, watches, n, by, &until, err);
    while (!status) {
        /* Before every sleep: what came with an answer is in libpq's hands, and
         * the socket will not tell of it again. */
        if (tn_pg_notified(pg, watches, n))
            return TENURE_OK;
        status = sleep_until(pg, until, err);
    }
    return status;
}

enum tenure_status tn_pg_wait(struct tn_pg *pg, const struct tenure_watch *watches, size_t n,
                              int wake_fd, int64_t deadline, struct tenure_error *err)
{
    enum tenure_status status;

    pg->wake_fd = wake_fd;
    do {
        status =
            tenure_now() < deadline ? wait_once(pg, watches, n, deadline, err) : TENURE_TIMEOUT;
    } while (status == TENURE_TIMEOUT && tenure_now() < deadline);
    pg->wake_fd = -1;
    pg->patient = false;
    if (status == TENURE_TIMEOUT)
        tenure_fail(err, TENURE_TIMEOUT, "%s: nothing changed", pg->scheme);
    return status;
}
