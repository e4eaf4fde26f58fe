/* swap_many and read_many: thousands in one statement, each with its own answer. */
#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "base/key.h"
#include "store/postgres/postgres.h"

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

struct member {
    struct tenure_swap *swap;
    int64_t version; /* that it expects */
};

/* Swaps that go into one statement: either all create or none does, and all
 * expect versions of one timeline. */
struct batch {
    bool create;
    int64_t timeline;
    struct array arrays[ARRAYS];
    struct member *members; /* sorted by key */
    size_t n;
};

static void element64(struct array *a, int64_t number)
{
    uint64_t raw = htobe64((uint64_t)number);

    element(a, &raw, sizeof raw);
}

static void add(struct batch *b, struct tenure_swap *swap, const struct tn_pg_version *expect)
{
    char tombstone = swap->tombstone ? 1 : 0;

    element(&b->arrays[KEYS], swap->key, strlen(swap->key));
    if (!b->create) {
        element64(&b->arrays[VERSIONS], expect->number);
        element(&b->arrays[EXPECTS], swap->expect.nonce, TENURE_NONCE_SIZE);
    }
    element(&b->arrays[NONCES], swap->nonce, TENURE_NONCE_SIZE);
    element(&b->arrays[TOMBSTONES], &tombstone, 1);
    element(&b->arrays[DATA], swap->data, swap->len);
    b->timeline = expect->timeline;
    b->members[b->n++] = (struct member){swap, expect->number};
}

static int by_key(const void *key, const void *member)
{
    return strcmp(key, ((const struct member *)member)->swap->key);
}

static void set_all(struct batch *b, enum tenure_status status)
{
    for (size_t i = 0; i < b->n; i++)
        b->members[i].swap->status = status;
}

static void took_effect(const struct member *m, int64_t timeline)
{
    struct tn_pg_version version = {.number = m->version + 1, .timeline = timeline};

    m->swap->status = TENURE_OK;
    tn_pg_token(&version, m->swap->nonce, &m->swap->token);
}

/* The answer says how many took effect, and, unless all did, which. */
static enum tenure_status spread(struct tn_pg *pg, struct batch *b, const PGresult *r,
                                 struct tenure_error *err)
{
    int64_t changed, timeline;

    set_all(b, TENURE_UNKNOWN);
    if (!tn_pg_get_int8(r, 0, 0, &changed) || !tn_pg_get_int8(r, 0, 2, &timeline))
        return tn_pg_garbled(pg, "a batch", err);
    if (changed == (int64_t)b->n) {
        for (size_t i = 0; i < b->n; i++)
            took_effect(&b->members[i], timeline);
        return TENURE_OK;
    }
    set_all(b, TENURE_CONFLICT);
    for (int row = 0; row < changed; row++) {
        const struct member *found = NULL;
        if (row < PQntuples(r) && !PQgetisnull(r, row, 1))
            found = bsearch(PQgetvalue(r, row, 1), b->members, b->n, sizeof *b->members, by_key);
        if (!found) {
            set_all(b, TENURE_UNKNOWN);
            return tn_pg_garbled(pg, "a batch", err);
        }
        took_effect(found, timeline);
    }
    return TENURE_OK;
}

/* The election whose state a key is of ("NAME/state/..."), or else its first part: how long that
 * is. */
static size_t election(const char *key)
{
    size_t name = tn_key_below(key, TN_KEY_STATE);

    return name ? name : strcspn(key, "/");
}

/* The one election of a batch; or null. */
static void arg_election(const struct batch *b, struct tn_pg_args *args)
{
    const char *first = b->members[0].swap->key;
    size_t len = election(first);

    for (size_t i = 1; i < b->n; i++) {
        const char *key = b->members[i].swap->key;

        if (election(key) != len || memcmp(key, first, len) != 0) {
            tn_pg_arg_null(args);
            return;
        }
    }
    tn_pg_arg_bytes(args, first, len);
}

static enum tenure_status send_batch(struct tn_pg *pg, struct batch *b, int64_t deadline,
                                     PGresult **r, struct tenure_error *err)
{
    struct tn_pg_args args = {0};

    for (int i = 0; i < ARRAYS; i++) {
        if (b->arrays[i].failed)
            return tenure_fail(err, TENURE_NOMEM, "out of memory for a batch of %zu", b->n);
        if (b->arrays[i].n)
            end(&b->arrays[i], &args);
    }
    tn_pg_arg_int8(&args, (int64_t)b->n);
    arg_election(b, &args);
    if (!b->create)
        tn_pg_arg_int8(&args, b->timeline);
    tn_watcher_forget(&pg->watcher, NULL);
    return tn_pg_run(pg, b->create ? TN_PG_CREATE_MANY : TN_PG_SWAP_MANY, &args, deadline, r, err);
}

static void restart(struct batch *b)
{
    b->n = 0;
    for (int i = 0; i < ARRAYS; i++)
        begin(&b->arrays[i], types[i]);
}

static enum tenure_status flush(struct tn_pg *pg, struct batch *b, int64_t deadline,
                                struct tenure_error *err)
{
    PGresult *r = NULL;
    enum tenure_status status;

    if (b->n == 0)
        return TENURE_OK;
    status = send_batch(pg, b, deadline, &r, err);
    if (status) {
        set_all(b, status);
        tenure_fail_context(err, "changing %zu registers from %s on", b->n,
                            b->members[0].swap->key);
    } else {
        status = spread(pg, b, r, err);
    }
    PQclear(r);
    restart(b);
    return status;
}

/* ---- All of them --------------------------------------------------------- */

/* After a statement that failed the others are not sent: the store has trouble. */
static enum tenure_status distribute(struct tn_pg *pg, struct batch two[2],
                                     struct tenure_swap *swaps, size_t n,
                                     bool (*skip)(const char *key), int64_t deadline,
                                     struct tenure_error *err)
{
    enum tenure_status status = TENURE_OK;

    for (size_t i = 0; i < n && !status; i++) {
        struct tn_pg_version expect;

        if (skip && skip(swaps[i].key))
            continue;
        if (!tn_pg_version(&swaps[i].expect, &expect)) {
            swaps[i].status = TENURE_CONFLICT; /* no version of ours */
            continue;
        }
        struct batch *b = &two[expect.number == 0];
        if (b->n && b->timeline != expect.timeline)
            status = flush(pg, b, deadline, err);
        if (!status)
            add(b, &swaps[i], &expect);
    }
    for (int i = 0; i < 2 && !status; i++)
        status = flush(pg, &two[i], deadline, err);
    return status;
}

enum tenure_status tn_pg_batch(struct tn_pg *pg, struct tenure_swap *swaps, size_t n,
                               bool (*skip)(const char *key), int64_t deadline,
                               struct tenure_error *err)
{
    struct batch two[2] = {{.create = false}, {.create = true}};
    enum tenure_status status;

    for (size_t i = 0; i < n; i++) {
        if (!skip || !skip(swaps[i].key))
            swaps[i].status = TENURE_UNAVAILABLE; /* until it is sent */
    }
    for (int i = 0; i < 2; i++) {
        two[i].members = calloc(n, sizeof *two[i].members);
        restart(&two[i]);
    }
    if (two[0].members && two[1].members)
        status = distribute(pg, two, swaps, n, skip, deadline, err);
    else
        status = tenure_fail(err, TENURE_NOMEM, "out of memory for a batch of %zu", n);
    for (int i = 0; i < 2; i++) {
        for (int j = 0; j < ARRAYS; j++)
            free(two[i].arrays[j].bytes);
        free(two[i].members);
    }
    return status;
}

/* ---- Reads --------------------------------------------------------------- */

#define READS_BYTES (4u << 20) /* where the server cuts */

/* The rows of an answer tell their places in the array, which rise: what is missing between them
 * is absent; what is missing behind the last may also have been cut off. */
static enum tenure_status take_reads(const struct tn_pg *pg, const PGresult *r, int64_t timeline,
                                     struct tenure_read *reads, size_t n, size_t *done,
                                     struct tenure_error *err)
{
    int rows = PQgetisnull(r, 0, 6) ? 0 : PQntuples(r);
    enum tenure_status status = TENURE_OK;
    size_t bytes = 0, at = 0;

    for (int row = 0; row <= rows && !status; row++) {
        int64_t place = (int64_t)n + 1;

        if (row < rows &&
            (!tn_pg_get_int8(r, row, 6, &place) || place <= (int64_t)at || place > (int64_t)n))
            return tn_pg_garbled(pg, "a batch", err);
        if (row == rows && bytes >= READS_BYTES)
            break;
        for (; (int64_t)at + 1 < place && !status; at++)
            status = reads[at].status = tenure_value_absent(&reads[at].value, err);
        if (row == rows || status)
            break;
        bytes += (size_t)PQgetlength(r, row, 5);
        reads[at].status =
            tn_pg_take_value(pg, reads[at].key, r, row, 1, timeline, &reads[at].value, err);
        status = reads[at].status == TENURE_CORRUPT ? TENURE_OK : reads[at].status;
        at++;
    }
    *done = at;
    return status;
}

enum tenure_status tn_pg_read_many(struct tn_pg *pg, struct tenure_read *reads, size_t n,
                                   size_t *done, int64_t deadline, struct tenure_error *err)
{
    size_t most = n < TN_PG_BATCH_ROWS ? n : TN_PG_BATCH_ROWS;
    struct array keys = {0};
    struct tn_pg_args args = {0};
    PGresult *r = NULL;
    int64_t timeline;
    enum tenure_status status;

    begin(&keys, TN_PG_TEXT);
    for (size_t i = 0; i < most; i++)
        element(&keys, reads[i].key, strlen(reads[i].key));
    end(&keys, &args);
    status = keys.failed ? tenure_fail(err, TENURE_NOMEM, "out of memory for %zu reads", most)
                         : tn_pg_ask(pg, TN_PG_READ_MANY, &args, deadline, &r, err);
    if (!status)
        status = tn_pg_timeline(pg, r, 0, &timeline, err);
    if (!status)
        status = take_reads(pg, r, timeline, reads, most, done, err);
    if (status)
        tenure_fail_context(err, "reading %zu registers from %s on", most, reads[0].key);
    PQclear(r);
    free(keys.bytes);
    return status;
}
