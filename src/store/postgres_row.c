/* read, swap and list: one row a register. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/postgres.h"

#define PAGE_ROWS  1000
#define PAGE_BYTES (4u << 20)

/* ---- Tokens -------------------------------------------------------------- */

bool tn_pg_version(const struct tenure_token *token, int64_t *number)
{
    const char *text = token->version;
    char *end;

    if (text[0] < '1' || text[0] > '9')
        return false;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno || *end)
        return false;
    *number = value;
    return true;
}

void tn_pg_token(int64_t number, const uint8_t nonce[TENURE_NONCE_SIZE], struct tenure_token *token)
{
    memset(token, 0, sizeof *token);
    snprintf(token->version, sizeof token->version, "%" PRId64, number);
    memcpy(token->nonce, nonce, TENURE_NONCE_SIZE);
}

enum tenure_status tn_pg_check_primary(const struct tn_pg *pg, const PGresult *r,
                                       struct tenure_error *err)
{
    bool standby;

    if (!tn_pg_get_bool(r, 0, 0, &standby))
        return tn_pg_garbled(pg, "itself", err);
    return standby ? tn_pg_standby(pg, err) : TENURE_OK;
}

/* ---- Read ---------------------------------------------------------------- */

/* The value in columns c.. of a row: version, nonce, prev, tombstone, data. */
static enum tenure_status take_value(const struct tn_pg *pg, const PGresult *r, int row, int c,
                                     struct tenure_value *value, struct tenure_error *err)
{
    static const uint8_t none[TENURE_NONCE_SIZE];
    uint8_t nonce[TENURE_NONCE_SIZE], prev[TENURE_NONCE_SIZE] = {0};
    int64_t number;
    bool tombstone;
    enum tenure_status status;

    if (!tn_pg_get_int8(r, row, c, &number) || number < 1 ||
        !tn_pg_get_nonce(r, row, c + 1, nonce) || memcmp(nonce, none, sizeof none) == 0 ||
        (!PQgetisnull(r, row, c + 2) && !tn_pg_get_nonce(r, row, c + 2, prev)) ||
        !tn_pg_get_bool(r, row, c + 3, &tombstone) || PQgetisnull(r, row, c + 4) ||
        (unsigned)PQgetlength(r, row, c + 4) > TENURE_DATA_MAX)
        return tn_pg_garbled(pg, "a row", err);
    status =
        tenure_value_set(value, PQgetvalue(r, row, c + 4), (size_t)PQgetlength(r, row, c + 4), err);
    if (status)
        return status;
    tn_pg_token(number, nonce, &value->token);
    memcpy(value->prev, prev, sizeof prev);
    value->tombstone = tombstone;
    return TENURE_OK;
}

static enum tenure_status take_absent(struct tenure_value *value, struct tenure_error *err)
{
    enum tenure_status status = tenure_value_set(value, NULL, 0, err);

    if (status)
        return status;
    memset(&value->token, 0, sizeof value->token);
    memset(value->prev, 0, sizeof value->prev);
    value->tombstone = false;
    return TENURE_OK;
}

enum tenure_status tn_pg_row_read(struct tn_pg *pg, const char *key, struct tenure_value *value,
                                  int64_t deadline, struct tenure_error *err)
{
    struct tn_pg_args args = {0};
    PGresult *r = NULL;
    enum tenure_status status;

    tn_pg_arg_text(&args, key);
    status = tn_pg_ask(pg, TN_PG_READ, &args, deadline, &r, err);
    if (!status)
        status = tn_pg_check_primary(pg, r, err);
    if (status)
        goto done;
    if (PQgetisnull(r, 0, 1))
        status = take_absent(value, err);
    else
        status = take_value(pg, r, 0, 1, value, err);
    if (!status)
        tn_pg_remember(pg, key, &value->token);
done:
    PQclear(r);
    if (status)
        tenure_fail_context(err, "reading %s", key);
    return status;
}

/* ---- Swap ---------------------------------------------------------------- */

enum tenure_status tn_pg_row_swap(struct tn_pg *pg, struct tenure_swap *swap, int64_t deadline,
                                  struct tenure_error *err)
{
    bool create = tenure_token_absent(&swap->expect);
    struct tn_pg_args args = {0};
    int64_t number = 0;
    PGresult *r = NULL;

    if (!create && !tn_pg_version(&swap->expect, &number))
        return swap->status = tenure_fail(err, TENURE_CONFLICT,
                                          "%s: %s has changed: no version of it reads '%.20s'",
                                          pg->scheme, swap->key, swap->expect.version);
    tn_pg_arg_text(&args, swap->key);
    if (!create) {
        tn_pg_arg_int8(&args, number);
        tn_pg_arg_bytes(&args, swap->expect.nonce, TENURE_NONCE_SIZE);
    }
    tn_pg_arg_bytes(&args, swap->nonce, TENURE_NONCE_SIZE);
    tn_pg_arg_bool(&args, swap->tombstone);
    tn_pg_arg_bytes(&args, swap->data, swap->len);
    tn_pg_forget(pg, swap->key);
    swap->status = tn_pg_run(pg, create ? TN_PG_CREATE : TN_PG_SWAP, &args, deadline, &r, err);
    if (swap->status == TENURE_OK && PQntuples(r) == 0) {
        swap->status =
            tenure_fail(err, TENURE_CONFLICT, "%s: %s has changed", pg->scheme, swap->key);
    } else if (swap->status == TENURE_OK) {
        tn_pg_token(number + 1, swap->nonce, &swap->token);
        tn_pg_remember(pg, swap->key, &swap->token);
    } else {
        tenure_fail_context(err, "changing %s", swap->key);
    }
    PQclear(r);
    return swap->status;
}

/* ---- List ---------------------------------------------------------------- */

/* Keys are ASCII below 0x7f: everything under prefix is below prefix + 0x7f. */
static void above(const char *prefix, char out[TENURE_KEY_MAX + 2])
{
    snprintf(out, TENURE_KEY_MAX + 2, "%s\x7f", prefix);
}

enum tenure_status tn_pg_mark(struct tn_pg *pg, const char *prefix,
                              char mark[TENURE_VERSION_MAX + 1], int64_t deadline,
                              struct tenure_error *err)
{
    struct tn_pg_args args = {0};
    char end[TENURE_KEY_MAX + 2];
    PGresult *r = NULL;
    enum tenure_status status;

    above(prefix, end);
    tn_pg_arg_text(&args, prefix);
    tn_pg_arg_text(&args, end);
    status = tn_pg_ask(pg, TN_PG_MARK, &args, deadline, &r, err);
    if (!status)
        status = tn_pg_check_primary(pg, r, err);
    if (!status && (PQgetisnull(r, 0, 1) || PQgetlength(r, 0, 1) > TENURE_VERSION_MAX))
        status = tn_pg_garbled(pg, "a mark", err);
    if (!status)
        snprintf(mark, TENURE_VERSION_MAX + 1, "%s", PQgetvalue(r, 0, 1));
    PQclear(r);
    return status;
}

struct page {
    const char *prefix;
    char after[TENURE_KEY_MAX + 1];
    char end[TENURE_KEY_MAX + 2];
    bool more;
};

static enum tenure_status fetch(struct tn_pg *pg, const struct page *page, int64_t deadline,
                                PGresult **r, struct tenure_error *err)
{
    struct tn_pg_args args = {0};
    enum tenure_status status;

    tn_pg_arg_text(&args, page->after);
    tn_pg_arg_text(&args, page->prefix);
    tn_pg_arg_text(&args, page->end);
    status = tn_pg_ask(pg, TN_PG_LIST, &args, deadline, r, err);
    return status ? status : tn_pg_check_primary(pg, *r, err);
}

/* Visit one page.  It is held here as a whole, so that visit() may use the handle. */
static enum tenure_status show(struct tn_pg *pg, struct page *page, const PGresult *r,
                               tenure_visit_fn visit, void *arg, struct tenure_value *value,
                               struct tenure_error *err)
{
    int rows = PQgetisnull(r, 0, 1) ? 0 : PQntuples(r);
    size_t bytes = 0;

    for (int i = 0; i < rows; i++) {
        const char *key = PQgetvalue(r, i, 1);
        enum tenure_status status = take_value(pg, r, i, 2, value, err);

        if (status)
            return status;
        if (!tenure_key_valid(key) || strcmp(key, page->after) <= 0)
            return tn_pg_garbled(pg, "a key", err);
        bytes += value->len;
        snprintf(page->after, sizeof page->after, "%s", key);
        if (!visit(arg, key, value)) {
            page->more = false;
            return TENURE_OK;
        }
    }
    page->more = rows == PAGE_ROWS || bytes >= PAGE_BYTES;
    return TENURE_OK;
}

enum tenure_status tn_pg_row_list(struct tn_pg *pg, const char *prefix, const char *after,
                                  tenure_visit_fn visit, void *arg,
                                  char mark[TENURE_VERSION_MAX + 1], int64_t deadline,
                                  struct tenure_error *err)
{
    struct page page = {.prefix = prefix, .more = true};
    struct tenure_value value = {0};
    enum tenure_status status = TENURE_OK;

    above(prefix, page.end);
    if (after)
        snprintf(page.after, sizeof page.after, "%s", after);
    /* The mark first: what changes while we list is then told by wait(). */
    if (mark)
        status = tn_pg_mark(pg, prefix, mark, deadline, err);
    while (!status && page.more) {
        PGresult *r = NULL;

        status = fetch(pg, &page, deadline, &r, err);
        if (!status)
            status = show(pg, &page, r, visit, arg, &value, err);
        PQclear(r);
    }
    tenure_value_free(&value);
    if (status)
        tenure_fail_context(err, "listing %s", prefix[0] ? prefix : "everything");
    return status;
}
