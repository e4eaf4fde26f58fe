/*
 * Rows that are not what this store writes.  Everybody is told CORRUPT, but an
 * operator who repairs (repair=yes) reads such a row as it is: a line that quotes
 * its columns, and its data.  It is replaced by one statement that compares every
 * column with what was read, so only if it is still what was kept (C2).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/postgres/postgres.h"
#include "store/raw.h"

enum { VERSION, NONCE, PREV, TOMBSTONE, DATA, COLUMNS };

/* ---- What a row says ----------------------------------------------------- */

/* What is wrong with it; NULL if nothing is. */
static const char *wrong(const PGresult *r, int row, int c)
{
    static const uint8_t none[TENURE_NONCE_SIZE];
    uint8_t nonce[TENURE_NONCE_SIZE];
    int64_t number;
    bool tombstone;

    if (!tn_pg_get_int8(r, row, c + VERSION, &number) || number < 1 || number > TN_PG_VERSION_MAX)
        return "its version";
    if (!tn_pg_get_nonce(r, row, c + NONCE, nonce) || memcmp(nonce, none, sizeof none) == 0)
        return "its nonce";
    if (!PQgetisnull(r, row, c + PREV) && !tn_pg_get_nonce(r, row, c + PREV, nonce))
        return "its prev";
    if (!tn_pg_get_bool(r, row, c + TOMBSTONE, &tombstone))
        return "its tombstone";
    if (PQgetisnull(r, row, c + DATA))
        return "its data is NULL";
    if ((unsigned)PQgetlength(r, row, c + DATA) > TENURE_DATA_MAX)
        return "its data is too long";
    return NULL;
}

enum tenure_status tn_pg_row_sane(const struct tn_pg *pg, const char *key, const PGresult *r,
                                  int row, int c, struct tenure_error *err)
{
    const char *what = wrong(r, row, c);

    if (!what)
        return TENURE_OK;
    return tenure_fail(err, TENURE_CORRUPT,
                       "%s: \"%s\".register: row '%s' is malformed: %s; it was not "
                       "touched: restore it, or repair what it holds",
                       pg->scheme, pg->conf.schema, key, what);
}

static void quote(FILE *to, const char *name, const PGresult *r, int row, int column)
{
    int64_t number;

    fprintf(to, "%s=", name);
    if (PQgetisnull(r, row, column)) {
        fputs("NULL ", to);
    } else if (tn_pg_get_int8(r, row, column, &number)) {
        fprintf(to, "%lld ", (long long)number);
    } else {
        tn_damaged_quote(to, PQgetvalue(r, row, column), (size_t)PQgetlength(r, row, column));
        fputs(" ", to);
    }
}

enum tenure_status tn_pg_take_damaged(const PGresult *r, int row, int c, struct tenure_value *value,
                                      struct tenure_error *err)
{
    size_t len = (size_t)PQgetlength(r, row, c + DATA), size = 0;
    char *bytes = NULL;

    if (len > TN_DAMAGED_MAX)
        return tenure_fail_context(err, "it is too large to be kept: copy it and cut it first");
    FILE *to = open_memstream(&bytes, &size);
    if (!to)
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    quote(to, "postgres-row 1 version", r, row, c + VERSION);
    quote(to, "nonce", r, row, c + NONCE);
    quote(to, "prev", r, row, c + PREV);
    quote(to, "tombstone", r, row, c + TOMBSTONE);
    fputs(PQgetisnull(r, row, c + DATA) ? "null\n" : "bytea\n", to);
    fwrite(PQgetvalue(r, row, c + DATA), 1, len, to);
    return tn_damaged_stream(value, to, &bytes, &size, err);
}

/* ---- Replacing ----------------------------------------------------------- */

/* Just as the server sent it. */
static void arg_column(struct tn_pg_args *args, const PGresult *r, int column)
{
    if (PQgetisnull(r, 0, column))
        tn_pg_arg_null(args);
    else
        tn_pg_arg_bytes(args, PQgetvalue(r, 0, column), (size_t)PQgetlength(r, 0, column));
}

static enum tenure_status read_raw(void *impl, const char *key, int64_t deadline, void **raw,
                                   struct tenure_error *err)
{
    struct tn_pg_args args = {0};
    PGresult *r = NULL;
    bool there = false;

    tn_pg_arg_text(&args, key);
    enum tenure_status status = tn_pg_ask(impl, TN_PG_READ, &args, deadline, &r, err);
    if (!status && tn_pg_get_bool(r, 0, TN_PG_THERE, &there) && there)
        *raw = r;
    else
        PQclear(r);
    return status;
}

static void free_raw(void *raw)
{
    PQclear(raw);
}

/* A row that is sane is not what was expected, whatever it holds. */
static enum tenure_status decode(void *impl, const char *key, const void *raw,
                                 struct tenure_value *value, struct tenure_error *err)
{
    (void)value;
    return tn_pg_row_sane(impl, key, raw, 0, 1, err);
}

static enum tenure_status take_damaged(void *impl, const char *key, const void *raw,
                                       struct tenure_value *value, struct tenure_error *err)
{
    (void)impl;
    (void)key;
    return tn_pg_take_damaged(raw, 0, 1, value, err);
}

/* The row that was read is in columns 1.. of raw. */
static enum tenure_status replace(void *impl, struct tenure_swap *swap, const void *raw,
                                  int64_t deadline, struct tenure_error *err)
{
    struct tn_pg *pg = impl;
    struct tn_pg_version version = {0};
    struct tn_pg_args args = {0};
    PGresult *r = NULL;
    enum tenure_status status = tn_pg_timeline(pg, raw, 0, &version.timeline, err);

    if (status)
        return status;
    tn_pg_arg_text(&args, swap->key);
    for (int i = 0; i < COLUMNS; i++)
        arg_column(&args, raw, 1 + i);
    tn_pg_arg_bytes(&args, swap->nonce, TENURE_NONCE_SIZE);
    tn_pg_arg_bytes(&args, swap->expect.nonce, TENURE_NONCE_SIZE);
    tn_pg_arg_bool(&args, swap->tombstone);
    tn_pg_arg_bytes(&args, swap->data, swap->len);
    tn_pg_arg_int8(&args, version.timeline);
    tn_watcher_forget(&pg->watcher, swap->key);
    status = tn_pg_run(pg, TN_PG_REPAIR, &args, deadline, &r, err);
    if (status) {
        tenure_fail_context(err, "changing %s", swap->key);
    } else if (PQntuples(r) == 0) {
        status = tn_pg_swap_bad(pg, swap, err);
    } else if (!tn_pg_get_int8(r, 0, 0, &version.number)) {
        tn_pg_garbled(pg, "a row", err);
        err->code = status = TENURE_UNKNOWN;
    } else {
        tn_pg_token(&version, swap->nonce, &swap->token);
    }
    PQclear(r);
    return status;
}

enum tenure_status tn_pg_repair(struct tn_pg *pg, struct tenure_swap *swap, int64_t deadline,
                                struct tenure_error *err)
{
    static const struct tn_raw_ops ops = {read_raw, free_raw, decode, take_damaged, replace};

    return tn_raw_swap(&ops, pg, swap, deadline, err);
}
