/* swap_many: thousands of swaps in one statement, each with its own answer. */
#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "store/postgres.h"

/* ---- Arrays on the wire -------------------------------------------------- */

/* An array in binary form: dimensions, has-nulls, type, length, lower bound;
 * then length and bytes of each element. */
struct array {
    unsigned char *bytes;
    size_t used, cap;
    uint32_t n;
    bool failed;
};

static void put(struct array *a, const void *data, size_t len)
{
    if (a->used + len > a->cap) {
        size_t cap = (a->used + len) * 2 + 256;
        unsigned char *grown = a->failed ? NULL : realloc(a->bytes, cap);

        if (!grown) {
            a->failed = true;
            return;
        }
        a->bytes = grown;
        a->cap = cap;
    }
    if (len)
        memcpy(a->bytes + a->used, data, len);
    a->used += len;
}

static void put32(struct array *a, uint32_t number)
{
    uint32_t raw = htobe32(number);

    put(a, &raw, sizeof raw);
}

static void begin(struct array *a, uint32_t type)
{
    a->used = 0;
    a->n = 0;
    put32(a, 1);
    put32(a, 0);
    put32(a, type);
    put32(a, 0); /* the length: end() knows it */
    put32(a, 1);
}

static void element(struct array *a, const void *data, size_t len)
{
    put32(a, (uint32_t)len);
    put(a, data, len);
    a->n++;
}

static void end(struct array *a, struct tn_pg_args *args)
{
    uint32_t raw = htobe32(a->n);

    if (a->failed)
        return;
    memcpy(a->bytes + 12, &raw, sizeof raw);
    tn_pg_arg_bytes(args, a->bytes, a->used);
}

/* ---- One statement ------------------------------------------------------- */

enum { KEYS, VERSIONS, EXPECTS, NONCES, TOMBSTONES, DATA, ARRAYS };
static const uint32_t types[ARRAYS] = {TN_PG_TEXT, TN_PG_INT8, TN_PG_UUID,
                                       TN_PG_UUID, TN_PG_BOOL, TN_PG_BYTEA};

struct batch {
    struct array arrays[ARRAYS];
    struct tenure_swap **members; /* those of the statement at hand, sorted by key */
    size_t n;
};

static void add(struct batch *b, struct tenure_swap *swap, int64_t version)
{
    int64_t raw = (int64_t)htobe64((uint64_t)version);
    char tombstone = swap->tombstone ? 1 : 0;

    element(&b->arrays[KEYS], swap->key, strlen(swap->key));
    element(&b->arrays[VERSIONS], &raw, sizeof raw);
    element(&b->arrays[EXPECTS], swap->expect.nonce, TENURE_NONCE_SIZE);
    element(&b->arrays[NONCES], swap->nonce, TENURE_NONCE_SIZE);
    element(&b->arrays[TOMBSTONES], &tombstone, 1);
    element(&b->arrays[DATA], swap->data, swap->len);
    b->members[b->n++] = swap;
}

static int by_key(const void *key, const void *member)
{
    return strcmp(key, (*(struct tenure_swap *const *)member)->key);
}

/* Who is in the answer took effect; who is not, did not. */
static enum tenure_status spread(struct tn_pg *pg, struct batch *b, const PGresult *r,
                                 struct tenure_error *err)
{
    for (size_t i = 0; i < b->n; i++)
        b->members[i]->status = TENURE_CONFLICT;
    for (int row = 0; row < PQntuples(r); row++) {
        struct tenure_swap **found =
            bsearch(PQgetvalue(r, row, 0), b->members, b->n, sizeof *b->members, by_key);
        int64_t version = 0;

        if (!found) {
            for (size_t i = 0; i < b->n; i++)
                b->members[i]->status = TENURE_UNKNOWN;
            return tn_pg_garbled(pg, "a batch", err);
        }
        tn_pg_version(&(*found)->expect, &version);
        (*found)->status = TENURE_OK;
        tn_pg_token(version + 1, (*found)->nonce, &(*found)->token);
    }
    return TENURE_OK;
}

static enum tenure_status flush(struct tn_pg *pg, struct batch *b, int64_t deadline,
                                struct tenure_error *err)
{
    struct tn_pg_args args = {0};
    PGresult *r = NULL;
    enum tenure_status status = TENURE_OK;

    if (b->n == 0)
        return TENURE_OK;
    for (int i = 0; i < ARRAYS; i++) {
        end(&b->arrays[i], &args);
        if (b->arrays[i].failed)
            status = TENURE_NOMEM;
    }
    if (status)
        tenure_fail(err, status, "out of memory for a batch of %zu", b->n);
    else
        status = tn_pg_run(pg, TN_PG_BATCH, &args, deadline, &r, err);
    tn_pg_forget(pg, NULL);
    if (status) {
        for (size_t i = 0; i < b->n; i++)
            b->members[i]->status = status;
        tenure_fail_context(err, "changing %zu registers from %s on", b->n, b->members[0]->key);
    } else {
        status = spread(pg, b, r, err);
    }
    PQclear(r);
    return status;
}

static void restart(struct batch *b)
{
    b->n = 0;
    for (int i = 0; i < ARRAYS; i++)
        begin(&b->arrays[i], types[i]);
}

static bool full(const struct batch *b)
{
    return b->n >= TN_PG_BATCH_ROWS || b->arrays[DATA].used >= TN_PG_BATCH_BYTES;
}

enum tenure_status tn_pg_batch(struct tn_pg *pg, struct tenure_swap *swaps, size_t n,
                               bool (*skip)(const char *key), int64_t deadline,
                               struct tenure_error *err)
{
    struct batch b = {0};
    enum tenure_status status = TENURE_OK, last = TENURE_OK;

    for (size_t i = 0; i < n; i++) {
        if (!skip || !skip(swaps[i].key))
            swaps[i].status = TENURE_UNAVAILABLE; /* until it is sent */
    }
    b.members = calloc(n < TN_PG_BATCH_ROWS ? n : TN_PG_BATCH_ROWS, sizeof(void *));
    if (!b.members)
        return tenure_fail(err, TENURE_NOMEM, "out of memory for a batch of %zu", n);
    restart(&b);
    /* After a statement that failed the others are not sent: the store has trouble. */
    for (size_t i = 0; i < n && !status; i++) {
        int64_t version = 0;

        if (skip && skip(swaps[i].key))
            continue;
        if (!tenure_token_absent(&swaps[i].expect) && !tn_pg_version(&swaps[i].expect, &version)) {
            swaps[i].status = TENURE_CONFLICT; /* no version of ours */
            continue;
        }
        add(&b, &swaps[i], version);
        if (full(&b)) {
            status = flush(pg, &b, deadline, err);
            restart(&b);
        }
    }
    if (!status)
        last = flush(pg, &b, deadline, err);
    for (int i = 0; i < ARRAYS; i++)
        free(b.arrays[i].bytes);
    free(b.members);
    return status ? status : last;
}
