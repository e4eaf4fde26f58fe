/* read, swap and list: one row a register. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/decimal.h"
#include "store/damaged.h"
#include "store/pager.h"
#include "store/postgres/postgres.h"

#define PAGE_ROWS  1000
#define PAGE_BYTES (4u << 20)

/* ---- Tokens -------------------------------------------------------------- */

bool tn_pg_version(const struct tenure_token *token, struct tn_pg_version *version)
{
    struct tn_pg_version v = {0};
    const char *rest = token->version;

    if (!tenure_token_absent(token) &&
        (!tn_take_number(&rest, &v.number) || v.number < 1 || *rest++ != '@' ||
         !tn_take_number(&rest, &v.timeline) || *rest))
        return false;
    *version = v;
    return true;
}

void tn_pg_token(const struct tn_pg_version *version, const uint8_t nonce[TENURE_NONCE_SIZE],
                 struct tenure_token *token)
{
    char *end = token->version;

    memset(token, 0, sizeof *token);
    end = tn_put_text(tn_put_number(end, (uint64_t)version->number), "@");
    tn_put_number(end, (uint64_t)version->timeline);
    memcpy(token->nonce, nonce, TENURE_NONCE_SIZE);
}

enum tenure_status tn_pg_timeline(const struct tn_pg *pg, const PGresult *r, int column,
                                  int64_t *timeline, struct tenure_error *err)
{
    if (!tn_pg_get_int8(r, 0, column, timeline))
        return tn_pg_garbled(pg, "itself", err);
    return *timeline < 0 ? tn_pg_standby(pg, err) : TENURE_OK;
}

/* ---- Read ---------------------------------------------------------------- */

enum tenure_status tn_pg_take_value(const struct tn_pg *pg, const char *key, const PGresult *r,
                                    int row, int c, int64_t timeline, struct tenure_value *value,
                                    struct tenure_error *err)
{
    uint8_t nonce[TENURE_NONCE_SIZE], prev[TENURE_NONCE_SIZE] = {0};
    struct tn_pg_version version = {.timeline = timeline};
    bool tombstone;
    enum tenure_status status = tn_pg_row_sane(pg, key, r, row, c, err);

    if (status)
        return pg->conf.repair ? tn_pg_take_damaged(r, row, c, value, err) : status;
    if (!tn_pg_get_int8(r, row, c, &version.number) || !tn_pg_get_nonce(r, row, c + 1, nonce) ||
        (!PQgetisnull(r, row, c + 2) && !tn_pg_get_nonce(r, row, c + 2, prev)) ||
        !tn_pg_get_bool(r, row, c + 3, &tombstone))
        return tn_pg_garbled(pg, "a row", err);
    status =
        tenure_value_set(value, PQgetvalue(r, row, c + 4), (size_t)PQgetlength(r, row, c + 4), err);
    if (status)
        return status;
    tn_pg_token(&version, nonce, &value->token);
    memcpy(value->prev, prev, sizeof prev);
    value->tombstone = tombstone;
    return TENURE_OK;
}

enum tenure_status tn_pg_row_read(struct tn_pg *pg, const char *key, struct tenure_value *value,
                                  int64_t deadline, struct tenure_error *err)
{
    struct tn_pg_args args = {0};
    PGresult *r = NULL;
    int64_t timeline;
    enum tenure_status status;

    tn_pg_arg_text(&args, key);
    status = tn_pg_ask(pg, TN_PG_READ, &args, deadline, &r, err);
    if (!status)
        status = tn_pg_timeline(pg, r, 0, &timeline, err);
    if (status)
        goto done;
    bool there;
    if (!tn_pg_get_bool(r, 0, TN_PG_THERE, &there))
        status = tn_pg_garbled(pg, "a row", err);
    else if (!there)
        status = tenure_value_absent(value, err);
    else
        status = tn_pg_take_value(pg, key, r, 0, 1, timeline, value, err);
    if (!status)
        tn_watcher_learn(&pg->watcher, key, &value->token);
done:
    PQclear(r);
    if (status)
        tenure_fail_context(err, "reading %s", key);
    return status;
}

/* ---- Swap ---------------------------------------------------------------- */

enum tenure_status tn_pg_swap_bad(const struct tn_pg *pg, struct tenure_swap *swap,
                                  struct tenure_error *err)
{
    return swap->status =
               tenure_fail(err, TENURE_CONFLICT, "%s: %s has changed", pg->scheme, swap->key);
}

void tn_pg_swap_args(const struct tenure_swap *swap, const struct tn_pg_version *expect,
                     struct tn_pg_args *args)
{
    tn_pg_arg_text(args, swap->key);
    tn_pg_arg_int8(args, expect->number);
    tn_pg_arg_bytes(args, swap->expect.nonce, TENURE_NONCE_SIZE);
    tn_pg_arg_bytes(args, swap->nonce, TENURE_NONCE_SIZE);
    tn_pg_arg_bool(args, swap->tombstone);
    tn_pg_arg_bytes(args, swap->data, swap->len);
    tn_pg_arg_int8(args, expect->timeline);
}

void tn_pg_swap_done(struct tn_pg *pg, struct tenure_swap *swap, const struct tn_pg_version *expect)
{
    struct tn_pg_version now = {expect->number + 1, expect->timeline};

    tn_pg_token(&now, swap->nonce, &swap->token);
    tn_watcher_learn(&pg->watcher, swap->key, &swap->token);
    swap->status = TENURE_OK;
}

static void create_args(const struct tenure_swap *swap, struct tn_pg_args *args)
{
    tn_pg_arg_text(args, swap->key);
    tn_pg_arg_bytes(args, swap->nonce, TENURE_NONCE_SIZE);
    tn_pg_arg_bool(args, swap->tombstone);
    tn_pg_arg_bytes(args, swap->data, swap->len);
}

enum tenure_status tn_pg_row_swap(struct tn_pg *pg, struct tenure_swap *swap, int64_t deadline,
                                  struct tenure_error *err)
{
    struct tn_pg_args args = {0};
    struct tn_pg_version expect;
    PGresult *r = NULL;

    if (pg->conf.repair && tn_damaged(&swap->expect))
        return tn_pg_repair(pg, swap, deadline, err);
    if (!tn_pg_version(&swap->expect, &expect))
        return tn_pg_swap_bad(pg, swap, err); /* no version of ours */
    bool create = expect.number == 0;
    if (create)
        create_args(swap, &args);
    else
        tn_pg_swap_args(swap, &expect, &args);
    tn_watcher_forget(&pg->watcher, swap->key);
    swap->status = tn_pg_run(pg, create ? TN_PG_CREATE : TN_PG_SWAP, &args, deadline, &r, err);
    if (swap->status) {
        tenure_fail_context(err, "changing %s", swap->key);
    } else if (PQntuples(r) == 0) {
        tn_pg_swap_bad(pg, swap, err);
    } else if (create && !tn_pg_get_int8(r, 0, 0, &expect.timeline)) {
        tn_pg_garbled(pg, "itself", err);
        err->code = swap->status = TENURE_UNKNOWN;
    } else {
        tn_pg_swap_done(pg, swap, &expect);
    }
    PQclear(r);
    return swap->status;
}

enum tenure_status tn_pg_row_purge(struct tn_pg *pg, struct tenure_swap *swap, int64_t deadline,
                                   struct tenure_error *err)
{
    struct tn_pg_version expect;
    struct tn_pg_args args = {0};
    PGresult *r = NULL;

    if (!tn_pg_version(&swap->expect, &expect))
        return tn_pg_swap_bad(pg, swap, err);
    tn_pg_arg_text(&args, swap->key);
    tn_pg_arg_int8(&args, expect.number);
    tn_pg_arg_bytes(&args, swap->expect.nonce, TENURE_NONCE_SIZE);
    tn_pg_arg_int8(&args, expect.timeline);
    tn_watcher_forget(&pg->watcher, swap->key);
    swap->status = tn_pg_run(pg, TN_PG_PURGE, &args, deadline, &r, err);
    if (swap->status)
        tenure_fail_context(err, "deleting %s", swap->key);
    else if (PQntuples(r) == 0)
        tn_pg_swap_bad(pg, swap, err);
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
    int64_t timeline;
    enum tenure_status status;

    above(prefix, end);
    tn_pg_arg_text(&args, prefix);
    tn_pg_arg_text(&args, end);
    status = tn_pg_ask(pg, TN_PG_MARK, &args, deadline, &r, err);
    if (!status)
        status = tn_pg_timeline(pg, r, 0, &timeline, err);
    if (!status && (PQgetisnull(r, 0, 1) || PQgetlength(r, 0, 1) > TENURE_VERSION_MAX))
        status = tn_pg_garbled(pg, "a mark", err);
    if (!status)
        snprintf(mark, TENURE_VERSION_MAX + 1, "%s", PQgetvalue(r, 0, 1));
    PQclear(r);
    return status;
}

/* A page, and the row of it that is shown. */
struct page {
    const PGresult *r;
    int64_t timeline;
    int row;
};

static enum tenure_status fetch(struct tn_pager *p, PGresult **r, int64_t *timeline,
                                struct tenure_error *err)
{
    struct tn_pg_args args = {0};
    char end[TENURE_KEY_MAX + 2];
    enum tenure_status status;

    above(p->prefix, end);
    tn_pg_arg_text(&args, p->last);
    tn_pg_arg_text(&args, p->prefix);
    tn_pg_arg_text(&args, end);
    status = tn_pg_ask(p->impl, TN_PG_LIST, &args, p->deadline, r, err);
    return status ? status : tn_pg_timeline(p->impl, *r, 0, timeline, err);
}

static enum tenure_status decode(struct tn_pager *p, const char *key, const void *row,
                                 struct tenure_error *err)
{
    const struct page *page = row;

    return tn_pg_take_value(p->impl, key, page->r, page->row, 2, page->timeline, &p->value, err);
}

static enum tenure_status take_damaged(struct tn_pager *p, const char *key, const void *row,
                                       struct tenure_error *err)
{
    const struct page *page = row;

    (void)key;
    return tn_pg_take_damaged(page->r, page->row, 2, &p->value, err);
}

/* Visit one page.  It is held here as a whole, so that visit() may use the handle. */
static enum tenure_status show(struct tn_pager *p, struct page *page, struct tenure_error *err)
{
    const struct tn_pg *pg = p->impl;
    int rows = PQgetisnull(page->r, 0, 1) ? 0 : PQntuples(page->r);
    enum tenure_status status = TENURE_OK;
    size_t bytes = 0;

    for (; page->row < rows && !status && !p->stop; page->row++) {
        const char *key = PQgetvalue(page->r, page->row, 1);

        if (!tenure_key_valid(key) || strcmp(key, p->last) <= 0)
            return tenure_fail(err, TENURE_CORRUPT,
                               "%s: \"%s\".register: a row has an invalid key; remove the row",
                               pg->scheme, pg->conf.schema);
        bytes += (size_t)PQgetlength(page->r, page->row, 6); /* as the server has counted them */
        status = tn_pager_show(p, key, page, err);
    }
    p->more = rows == PAGE_ROWS || bytes >= PAGE_BYTES;
    return status;
}

static enum tenure_status list_page(struct tn_pager *p, struct tenure_error *err)
{
    struct page page = {0};
    PGresult *r = NULL;
    enum tenure_status status = TENURE_OK;

    /* The mark first: what changes while we list is then told by wait(). */
    if (p->mark)
        status = tn_pg_mark(p->impl, p->prefix, p->mark, p->deadline, err);
    p->mark = NULL;
    if (!status)
        status = fetch(p, &r, &page.timeline, err);
    page.r = r;
    if (!status)
        status = show(p, &page, err);
    PQclear(r);
    return status;
}

enum tenure_status tn_pg_row_list(struct tn_pg *pg, const char *prefix, const char *after,
                                  tenure_visit_fn visit, void *arg,
                                  char mark[TENURE_VERSION_MAX + 1], int64_t deadline,
                                  struct tenure_error *err)
{
    static const struct tn_pager_ops ops = {list_page, decode, take_damaged};
    struct tn_pager p = {0};
    enum tenure_status status = tn_pager_list(&p, &ops, pg, pg->conf.repair, prefix, after, visit,
                                              arg, mark, deadline, err);

    if (status)
        tenure_fail_context(err, "listing %s", prefix[0] ? prefix : "everything");
    return status;
}
