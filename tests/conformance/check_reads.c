/* Many reads at once: what each shows is what a single read shows, in the order asked for. */
#include <stdlib.h>

#include "harness.h"

static void ask(struct tenure_read *read, const char *key)
{
    read->key = key;
    read->status = TENURE_UNKNOWN; /* so that a forgotten answer shows */
}

static enum tenure_status read_many(struct cf *c, struct tenure_read *reads, size_t n)
{
    return tenure_store_read_many(c->a, reads, n, cf_deadline(c), &c->err);
}

static void free_reads(struct tenure_read *reads, size_t n)
{
    for (size_t i = 0; i < n; i++)
        tenure_value_free(&reads[i].value);
}

/* Is the read what a single one shows? */
static bool told_truly(struct cf *c, const struct tenure_read *read)
{
    if (cf_read(c, c->a, read->key) != TENURE_OK) {
        cf_fail(c, "read of '%s': %s", read->key, c->err.text);
        return false;
    }
    if (read->status != TENURE_OK) {
        cf_fail_status(c, read->key, TENURE_OK, read->status);
        return false;
    }
    if (memcmp(c->v.prev, read->value.prev, sizeof c->v.prev) != 0) {
        cf_fail(c, "'%s': another predecessor than in a single read", read->key);
        return false;
    }
    return cf_value_is(c, read->key, &read->value.token, read->value.data, read->value.len,
                       read->value.tombstone);
}

static void told_all_truly(struct cf *c, enum tenure_status status, const struct tenure_read *reads,
                           size_t n)
{
    if (status)
        cf_fail_status(c, "many reads", TENURE_OK, status);
    for (size_t i = 0; i < n && !c->failure[0]; i++)
        told_truly(c, &reads[i]);
}

/* Made before the reads, so that a failure leaves nothing to free. */
static void make_some(struct cf *c, struct tenure_token *erased)
{
    struct tenure_token token;

    CF_STATUS(c, cf_put(c, c->a, cf_key(c, "a"), NULL, "one", 3, &token), TENURE_OK, "create");
    CF_STATUS(c, cf_put(c, c->a, cf_key(c, "a"), &token, "two", 3, NULL), TENURE_OK, "swap");
    CF_STATUS(c, cf_put(c, c->a, cf_key(c, "b"), NULL, "", 0, NULL), TENURE_OK, "create empty");
    CF_STATUS(c, cf_put(c, c->a, cf_key(c, "d"), NULL, "gone", 4, &token), TENURE_OK, "create");
    CF_STATUS(c, cf_erase(c, c->a, cf_key(c, "d"), &token, erased), TENURE_OK, "erase");
    CF_STATUS(c, cf_put(c, c->a, cf_key(c, "e"), NULL, "\0\xff", 2, NULL), TENURE_OK, "binary");
}

static void reads_mixed(struct cf *c)
{
    /* Not sorted, one twice, two absent. */
    static const char *const names[] = {"e", "nobody", "a", "d", "a", "b", "zz"};
    enum { N = sizeof names / sizeof names[0] };
    struct tenure_read reads[N] = {0};
    struct tenure_token erased;

    CF_STATUS(c, read_many(c, reads, 0), TENURE_OK, "no reads at all");
    make_some(c, &erased);
    for (size_t i = 0; i < N; i++)
        ask(&reads[i], cf_key(c, "%s", names[i]));
    if (!c->failure[0])
        told_all_truly(c, read_many(c, reads, N), reads, N);
    free_reads(reads, N);
}

/* The same values are used again: nothing of what they held shows through. */
static void reads_again(struct cf *c)
{
    struct tenure_read reads[4] = {0};
    struct tenure_token erased;

    make_some(c, &erased);
    for (unsigned round = 0; round < 4 && !c->failure[0]; round++) {
        for (unsigned i = 0; i < 4; i++)
            ask(&reads[(i + round) % 4], cf_key(c, "%c", "abde"[i]));
        if (round % 2)
            ask(&reads[round], cf_key(c, "absent"));
        told_all_truly(c, read_many(c, reads, 4), reads, 4);
    }
    free_reads(reads, 4);
}

static void reads_refused(struct cf *c)
{
    struct tenure_read reads[2] = {0};

    ask(&reads[0], cf_key(c, "a"));
    ask(&reads[1], "not//a key");
    CF_STATUS(c, read_many(c, reads, 2), TENURE_INVALID, "a bad key among the reads");
    CF_WANT(c, reads[0].status != TENURE_OK && reads[1].status != TENURE_OK,
            "a refused read is told 'ok'");
}

/* Every fiftieth is there, and some of them are large: absent ones may not hide a piece's end. */
static void fill_some(struct cf *c, char (*keys)[TENURE_KEY_MAX + 1], unsigned n)
{
    size_t large = c->info.data_max < 300000 ? c->info.data_max / 2 : 300000;
    char *data = calloc(1, large);

    for (unsigned i = 0; data && i < 40 && i * 50 + 49 < n && !c->failure[0]; i++) {
        size_t len = i % 10 == 3 ? large : i;
        enum tenure_status status = cf_put(c, c->a, keys[i * 50 + 49], NULL, data, len, NULL);

        if (status)
            cf_fail_status(c, "create", TENURE_OK, status);
    }
    free(data);
}

static void reads_many(struct cf *c)
{
    /* A store on which each of them is a request of its own is asked for fewer. */
    unsigned n = c->info.batch_max > 8 ? 10000 : 200, there = 0;
    struct tenure_read *reads = calloc(n, sizeof *reads);
    char(*keys)[TENURE_KEY_MAX + 1] = calloc(n, sizeof *keys);

    for (unsigned i = 0; reads && keys && i < n; i++) {
        snprintf(keys[i], sizeof keys[i], "%s", cf_key(c, "k%05u", i * 7919 % n));
        ask(&reads[i], keys[i]);
    }
    if (reads && keys)
        fill_some(c, keys, n);
    if (reads && keys && !c->failure[0]) {
        enum tenure_status status = read_many(c, reads, n);

        if (status)
            cf_fail_status(c, "many reads", TENURE_OK, status);
        for (unsigned i = 0; i < n && !c->failure[0]; i++) {
            bool absent = tenure_token_absent(&reads[i].value.token);

            there += !absent;
            if (reads[i].status)
                cf_fail_status(c, reads[i].key, TENURE_OK, reads[i].status);
            else if (!absent || i % 500 == 0)
                told_truly(c, &reads[i]);
        }
    }
    unsigned made = n / 50 < 40 ? n / 50 : 40;
    if (!c->failure[0] && there != made)
        cf_fail(c, "%u registers are there, %u were shown", made, there);
    cf_note(c, "%u reads", n);
    free_reads(reads, reads ? n : 0);
    free(reads);
    free(keys);
}

static void reads_deadline_past(struct cf *c)
{
    struct tenure_read reads[3] = {0};

    for (unsigned i = 0; i < 3; i++)
        ask(&reads[i], cf_key(c, "k%u", i));
    enum tenure_status status = tenure_store_read_many(c->a, reads, 3, 1, &c->err);
    for (unsigned i = 0; i < 3 && !c->failure[0]; i++) {
        if (reads[i].status != TENURE_OK && reads[i].status != status)
            cf_fail(c, "after its deadline: a read is told '%s', all of them '%s'",
                    tenure_status_word(reads[i].status), tenure_status_word(status));
    }
    if (!c->failure[0] && status != TENURE_OK && status != TENURE_TIMEOUT &&
        status != TENURE_UNAVAILABLE)
        cf_fail_status(c, "after their deadline", TENURE_TIMEOUT, status);
    free_reads(reads, 3);
}

const struct cf_check cf_checks_reads[] = {
    {"reads-mixed", reads_mixed, 0},
    {"reads-again", reads_again, 0},
    {"reads-refused", reads_refused, 0},
    {"reads-many", reads_many, 0},
    {"reads-deadline-past", reads_deadline_past, 0},
    {NULL, NULL, 0},
};
