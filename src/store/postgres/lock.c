/*
 * postgres+advisory: - the row protocol, with one more condition.
 *
 * Whoever writes a lease that is held, by a claim or by a renewal, must hold an
 * advisory lock of the server in the very session that writes.  That keeps out
 * other programs that use the key, and is kept out by them.  Between tenure's
 * own candidates the row decides as it does everywhere: the lock may vanish at
 * any instant, so nothing is concluded from it (docs/adr/0006-postgres.md).
 * Writing a lease free needs no lock, and gives it back.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hex.h"
#include "base/key.h"
#include "store/damaged.h"
#include "store/lease_record.h"
#include "store/postgres/postgres.h"

#define FIRST_RETRY INT64_C(250000000)

bool tn_pg_is_lease(const char *key)
{
    return tn_key_is(key, TN_KEY_LEASE, NULL);
}

/* The server ends a session that has been silent for so long; from version 14 on. */
static const char *idle_setting(const struct tn_pg *pg)
{
    return PQserverVersion(pg->conn) >= 140000 ? "idle_session_timeout" : "tenure.idle";
}

/* ---- Whose value is it? -------------------------------------------------- */

static bool is_own(const struct tn_pg *pg, const uint8_t nonce[TENURE_NONCE_SIZE])
{
    for (int i = 0; i < TN_PG_OWN; i++) {
        if (memcmp(pg->lock.own[i], nonce, TENURE_NONCE_SIZE) == 0)
            return true;
    }
    return false;
}

static void add_own(struct tn_pg *pg, const uint8_t nonce[TENURE_NONCE_SIZE])
{
    memcpy(pg->lock.own[pg->lock.own_next], nonce, TENURE_NONCE_SIZE);
    pg->lock.own_next = (pg->lock.own_next + 1) % TN_PG_OWN;
}

/* What is not a lease record counts as held: nothing is let go of by mistake. */
static bool says_held(const struct tenure_swap *swap, uint32_t *ttl_ms)
{
    struct tn_lease lease;
    struct tenure_error err;

    *ttl_ms = 0;
    if (swap->tombstone)
        return false;
    if (tn_lease_decode(swap->data, swap->len, &lease, NULL, &err))
        return true;
    *ttl_ms = lease.ttl_ms;
    return tn_lease_held(&lease);
}

/* ---- The lock ------------------------------------------------------------ */

static void unlock(struct tn_pg *pg, int64_t deadline)
{
    struct tn_pg_args args = {0};
    struct tenure_error err;
    PGresult *r = NULL;

    if (!pg->lock.held)
        return;
    tn_pg_arg_int8(&args, pg->lock.id);
    tn_pg_arg_text(&args, idle_setting(pg));
    pg->lock.held = false;
    pg->lock.pid = 0;
    if (tn_pg_ask(pg, TN_PG_UNLOCK, &args, deadline, &r, &err))
        tn_pg_drop(pg); /* the lock ends with the session */
    PQclear(r);
}

/* Who has it, for the message; best effort. */
static void find_holder(struct tn_pg *pg, int64_t deadline)
{
    struct tn_pg_args args = {0};
    struct tenure_error err;
    PGresult *r = NULL;

    snprintf(pg->lock.refused_by, sizeof pg->lock.refused_by, "another session");
    tn_pg_arg_int8(&args, pg->lock.id);
    if (tn_pg_ask(pg, TN_PG_HOLDER, &args, deadline, &r, &err) == TENURE_OK && PQntuples(r) == 1 &&
        !PQgetisnull(r, 0, 0))
        snprintf(pg->lock.refused_by, sizeof pg->lock.refused_by, "%s", PQgetvalue(r, 0, 0));
    PQclear(r);
}

/*
 * The holder may be a former session of our own, whose end the server has not
 * noticed: the network swallowed it.  Our role may end it.  One with the same
 * process id that began at another time is somebody else's: the ids of a server
 * in a container repeat after a restart.
 */
static void end_former(struct tn_pg *pg, int64_t deadline)
{
    struct tn_pg_args args = {0};
    struct tenure_error err;
    PGresult *r = NULL;

    if (!pg->lock.pid || pg->lock.pid == PQbackendPID(pg->conn))
        return;
    tn_pg_arg_int8(&args, pg->lock.id);
    tn_pg_arg_int8(&args, pg->lock.pid);
    tn_pg_arg_int8(&args, pg->lock.begun);
    tn_pg_ask(pg, TN_PG_END_FORMER, &args, deadline, &r, &err);
    PQclear(r);
    pg->lock.pid = 0;
}

static enum tenure_status tell_refused(const struct tn_pg *pg, struct tenure_error *err)
{
    return tenure_fail(err, TENURE_UNAVAILABLE,
                       "%s: the advisory lock %lld is held by %s; it is tried again until it is "
                       "free",
                       pg->scheme, (long long)pg->lock.id, pg->lock.refused_by);
}

/* Ask ever more rarely, up to the interval that was set; a new value of the
 * register, such as a release, starts over. */
static void refuse(struct tn_pg *pg, const struct tenure_token *expect)
{
    struct tn_pg_lock *l = &pg->lock;
    int64_t span = FIRST_RETRY << (l->refusals < 10 ? l->refusals : 10);

    l->refused = *expect;
    l->refusals++;
    l->refused_until_ns = tenure_now() + (span < pg->conf.retry_ns ? span : pg->conf.retry_ns);
}

static bool refused_lately(struct tn_pg *pg, const struct tenure_token *expect)
{
    struct tn_pg_lock *l = &pg->lock;

    if (l->refusals && !tenure_token_equal(&l->refused, expect))
        l->refusals = 0;
    /* Who has the lease and must renew it does not wait. */
    return l->refusals && tenure_now() < l->refused_until_ns && !is_own(pg, expect->nonce);
}

static void lock_args(struct tn_pg *pg, const char *lease, char name[TENURE_KEY_MAX + 1],
                      const char *idle, struct tn_pg_args *args)
{
    const struct tn_pg_conf *c = &pg->conf;

    if (c->key_kind == TN_PG_KEY_NUMBER)
        tn_pg_arg_int8(args, c->key);
    else
        tn_pg_arg_null(args);
    snprintf(name, TENURE_KEY_MAX + 1, "%.*s", (int)(strlen(lease) - strlen(TN_KEY_LEASE)), lease);
    tn_pg_arg_text(args, c->key_kind == TN_PG_KEY_NAME ? c->key_name : name);
    tn_pg_arg_text(args, pg->lock.session);
    tn_pg_arg_text(args, idle_setting(pg));
    tn_pg_arg_text(args, idle);
}

/* Take the lock in this session.  UNAVAILABLE if somebody else has it. */
static enum tenure_status lock(struct tn_pg *pg, const char *lease, const char *idle,
                               int64_t deadline, struct tenure_error *err)
{
    struct tn_pg_args args = {0};
    uint8_t fresh[TENURE_NONCE_SIZE];
    char name[TENURE_KEY_MAX + 1];
    PGresult *r = NULL;
    bool got = false;
    int64_t begun = 0; /* 0, unknown: then it is never ended by us */
    enum tenure_status status;

    status = tenure_nonce(fresh, err);
    if (!status)
        status = tn_pg_ready(pg, deadline, err); /* the arguments depend on the server */
    if (status)
        return status;
    tn_hex_encode(fresh, sizeof fresh, pg->lock.session);
    lock_args(pg, lease, name, idle, &args);
    status = tn_pg_ask(pg, TN_PG_LOCK, &args, deadline, &r, err);
    if (!status && (!tn_pg_get_int8(r, 0, 0, &pg->lock.id) || !tn_pg_get_bool(r, 0, 1, &got)))
        status = tn_pg_garbled(pg, "the lock", err);
    tn_pg_get_int8(r, 0, 4, &begun);
    PQclear(r);
    if (status) {
        tn_pg_drop(pg); /* it may have been granted all the same */
        return status;
    }
    if (!got) {
        find_holder(pg, deadline);
        end_former(pg, deadline);
        return tell_refused(pg, err);
    }
    pg->lock.held = true;
    pg->lock.pid = PQbackendPID(pg->conn);
    pg->lock.begun = begun;
    snprintf(pg->lock.lease, sizeof pg->lock.lease, "%s", lease);
    return TENURE_OK;
}

void tn_pg_lock_check(struct tn_pg *pg, const char *key, const uint8_t nonce[TENURE_NONCE_SIZE],
                      int64_t deadline)
{
    if (pg->lock.held && strcmp(pg->lock.lease, key) == 0 && !is_own(pg, nonce))
        unlock(pg, deadline);
}

/* ---- Swaps --------------------------------------------------------------- */

/* Mark the lease free and give the lock back, in one statement. */
static enum tenure_status free_swap(struct tn_pg *pg, struct tenure_swap *swap,
                                    const struct tn_pg_version *expect, int64_t deadline,
                                    struct tenure_error *err)
{
    struct tn_pg_args args = {0};
    PGresult *r = NULL;
    bool done;

    tn_pg_swap_args(swap, expect, &args);
    tn_pg_arg_int8(&args, pg->lock.id);
    tn_pg_arg_text(&args, idle_setting(pg));
    tn_watcher_forget(&pg->watcher, swap->key);
    swap->status = tn_pg_run(pg, TN_PG_FREE_SWAP, &args, deadline, &r, err);
    if (swap->status == TENURE_OK && !tn_pg_get_bool(r, 0, 0, &done)) {
        tn_pg_garbled(pg, "a release", err);
        err->code = swap->status = TENURE_UNKNOWN;
    }
    PQclear(r);
    if (swap->status) {
        tn_pg_drop(pg); /* whether the lock is gone is as unknown as the rest */
        tenure_fail_context(err, "releasing %s", swap->key);
        return swap->status;
    }
    pg->lock.held = false;
    pg->lock.pid = 0;
    if (!done)
        return tn_pg_swap_bad(pg, swap, err);
    tn_pg_swap_done(pg, swap, expect);
    return TENURE_OK;
}

/* What the answer to a locked swap says: is it our session, did it take effect,
 * and on which timeline (for one that creates, which expected none). */
static enum tenure_status locked_answer(struct tn_pg *pg, struct tenure_swap *swap,
                                        struct tn_pg_version expect, const PGresult *r,
                                        struct tenure_error *err)
{
    bool ours, done;

    if (!tn_pg_get_bool(r, 0, 0, &ours) || !tn_pg_get_bool(r, 0, 1, &done) ||
        !tn_pg_get_int8(r, 0, 2, &expect.timeline)) {
        tn_pg_garbled(pg, "a swap", err);
        return err->code = TENURE_UNKNOWN;
    }
    if (!ours) {
        /* Reset under us, or another session altogether: the lock means nothing. */
        tn_pg_drop(pg);
        return tenure_fail(err, TENURE_UNAVAILABLE,
                           "%s: the session was changed on the way, and with it the lock; is there "
                           "a pooler in between?",
                           pg->scheme);
    }
    if (!done)
        return tn_pg_swap_bad(pg, swap, err);
    tn_pg_swap_done(pg, swap, &expect);
    return TENURE_OK;
}

/* Write a held lease, in the session that has the lock. */
static enum tenure_status locked_swap(struct tn_pg *pg, struct tenure_swap *swap,
                                      const struct tn_pg_version *expect, const char *idle,
                                      int64_t deadline, struct tenure_error *err)
{
    struct tn_pg_args args = {0};
    PGresult *r = NULL;
    enum tenure_status status;

    tn_pg_swap_args(swap, expect, &args);
    tn_pg_arg_text(&args, pg->lock.session);
    tn_pg_arg_text(&args, idle_setting(pg));
    tn_pg_arg_text(&args, idle);
    tn_watcher_forget(&pg->watcher, swap->key);
    status = tn_pg_run(pg, TN_PG_LOCKED_SWAP, &args, deadline, &r, err);
    if (status)
        tenure_fail_context(err, "changing %s", swap->key);
    else
        status = locked_answer(pg, swap, *expect, r, err);
    PQclear(r);
    return status;
}

static enum tenure_status held_swap(struct tn_pg *pg, struct tenure_swap *swap,
                                    const struct tn_pg_version *expect, uint32_t ttl_ms,
                                    int64_t deadline, struct tenure_error *err)
{
    enum tenure_status status = TENURE_OK;
    char idle[16]; /* milliseconds: who is silent for longer has lost the lease long since */
    bool fresh;

    snprintf(idle, sizeof idle, "%u", ttl_ms);
    /* A lost session is noticed before it is relied on; then the lock is taken again. */
    if (pg->lock.held)
        status = tn_pg_ready(pg, deadline, err);
    if (status)
        return status;
    if (pg->lock.held && strcmp(pg->lock.lease, swap->key) != 0)
        return tenure_fail(err, TENURE_UNSUPPORTED,
                           "%s: this handle holds its lock for %s; open another one for %s",
                           pg->scheme, pg->lock.lease, swap->key);
    fresh = !pg->lock.held;
    if (fresh && refused_lately(pg, &swap->expect))
        return tell_refused(pg, err);
    if (fresh)
        status = lock(pg, swap->key, idle, deadline, err);
    if (status) {
        if (status == TENURE_UNAVAILABLE && pg->phase == TN_PG_UP)
            refuse(pg, &swap->expect);
        return status;
    }
    pg->lock.refusals = 0;
    add_own(pg, swap->nonce);
    status = locked_swap(pg, swap, expect, idle, deadline, err);
    /* A claim that did not succeed leaves nothing to hold the lock for.  After a
     * renewal that did not, the read that follows tells (tn_pg_lock_check). */
    if (fresh && status != TENURE_OK && status != TENURE_UNKNOWN)
        unlock(pg, deadline);
    return status;
}

enum tenure_status tn_pg_lock_swap(struct tn_pg *pg, struct tenure_swap *swap, int64_t deadline,
                                   struct tenure_error *err)
{
    struct tn_pg_version expect;
    uint32_t ttl_ms;

    if (pg->conf.repair && tn_damaged(&swap->expect) && !says_held(swap, &ttl_ms))
        return tn_pg_repair(pg, swap, deadline, err); /* a reset: nobody holds it then */
    if (!tn_pg_version(&swap->expect, &expect))
        return tn_pg_swap_bad(pg, swap, err); /* no version of ours */
    if (says_held(swap, &ttl_ms))
        swap->status = held_swap(pg, swap, &expect, ttl_ms, deadline, err);
    else if (expect.number && pg->lock.held && strcmp(pg->lock.lease, swap->key) == 0)
        free_swap(pg, swap, &expect, deadline, err);
    else
        tn_pg_row_swap(pg, swap, deadline, err);
    return swap->status;
}

/* ---- takeover_delay=0 ---------------------------------------------------- */

/* The record, with nobody holding it.  free() *text. */
static bool freed(const struct tenure_value *value, char **text, size_t *len)
{
    struct tn_lease lease;
    struct tenure_error err;
    char *extra = NULL;

    if (value->tombstone || tn_lease_decode(value->data, value->len, &lease, &extra, &err))
        return false;
    bool held = tn_lease_held(&lease);
    if (held) {
        lease.holder[0] = '\0';
        snprintf(lease.cause, sizeof lease.cause, "session ended");
        held = tn_lease_encode(&lease, extra, text, len, &err) == TENURE_OK;
    }
    free(extra);
    return held;
}

/* The lease says that it is held, and its lock can be had: the session of its
 * holder is over.  Say so in the row; whoever wants it then claims it. */
static bool free_dead(struct tn_pg *pg, const char *key, int64_t deadline, struct tenure_error *err)
{
    struct tenure_value value = {0};
    struct tenure_swap swap = {.key = key};
    char *text = NULL;
    bool done = false;

    if (tn_pg_row_read(pg, key, &value, deadline, err) || !freed(&value, &text, &swap.len))
        goto done;
    swap.data = text;
    swap.expect = value.token;
    if (tenure_nonce(swap.nonce, err) || lock(pg, key, "10000", deadline, err))
        goto done;
    done = tn_pg_lock_swap(pg, &swap, deadline, err) == TENURE_OK;
    unlock(pg, deadline);
done:
    free(text);
    tenure_value_free(&value);
    return done;
}

enum tenure_status tn_pg_lock_look(struct tn_pg *pg, const struct tenure_watch *watches, size_t n,
                                   int64_t deadline, int64_t *until, struct tenure_error *err)
{
    int64_t now = tenure_now();

    if (!pg->conf.takeover_now || pg->lock.held)
        return TENURE_OK;
    if (now >= pg->lock.look_at_ns) {
        pg->lock.look_at_ns = now + pg->conf.retry_ns;
        for (size_t i = 0; i < n; i++) {
            if (!watches[i].prefix && tn_pg_is_lease(watches[i].key) &&
                free_dead(pg, watches[i].key, deadline, err))
                *until = now; /* it changed, by our own hand: nobody else will tell us */
        }
    }
    if (pg->lock.look_at_ns < *until)
        *until = pg->lock.look_at_ns;
    return pg->phase == TN_PG_UP
               ? TENURE_OK
               : tenure_fail(err, TENURE_UNAVAILABLE, "%s: the connection broke", pg->scheme);
}
