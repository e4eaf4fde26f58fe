/* Listings: order, prefixes, the cursor, tombstones. */
#include <stdlib.h>

#include "harness.h"

struct listing {
    char keys[64][TENURE_KEY_MAX + 1];
    struct tenure_token tokens[64];
    bool tombstones[64];
    size_t n;
    size_t stop_after; /* 0: never */
    size_t lost;       /* visits beyond what fits */
    const char *only;  /* stop at keys that do not start with it; or NULL */
};

static bool visit(void *arg, const char *key, const struct tenure_value *value)
{
    struct listing *l = arg;

    if (l->only && strncmp(key, l->only, strlen(l->only)) != 0)
        return false;
    if (l->n == 64) {
        l->lost++;
        return true;
    }
    snprintf(l->keys[l->n], sizeof l->keys[0], "%s", key);
    l->tokens[l->n] = value->token;
    l->tombstones[l->n] = value->tombstone;
    l->n++;
    return l->n != l->stop_after;
}

static enum tenure_status list(struct cf *c, const char *prefix, const char *after,
                               struct listing *l)
{
    l->n = l->lost = 0;
    return tenure_store_list(c->a, prefix, after, visit, l, NULL, cf_deadline(c), &c->err);
}

/* The listing holds exactly these keys, given without the check's base. */
static bool listing_is(struct cf *c, const char *what, const struct listing *l,
                       const char *const *names, size_t n)
{
    for (size_t i = 0; i < n && i < l->n; i++) {
        const char *want = cf_key(c, "%s", names[i]);

        if (strcmp(l->keys[i], want) != 0) {
            cf_fail(c, "%s: expected '%s' at place %zu, saw '%s'", what, want, i + 1, l->keys[i]);
            return false;
        }
    }
    if (l->n + l->lost != n)
        cf_fail(c, "%s: expected %zu keys, saw %zu", what, n, l->n + l->lost);
    return l->n + l->lost == n;
}

/* In byte order, where '-' and '.' come before '/', digits before capitals. */
static const char *const all[] = {"a",  "a-b", "a.b", "a/b", "a/b-c", "a/b/c", "a/bc",
                                  "a0", "aB",  "a_b", "ab",  "b/x",   "b/y",   "b/y/z"};
#define ALL (sizeof all / sizeof all[0])

static bool make_all(struct cf *c)
{
    /* Written in another order than they are listed in. */
    for (size_t i = 0; i < ALL; i++) {
        const char *name = all[i * 5 % ALL];

        if (cf_put(c, c->a, cf_key(c, "%s", name), NULL, name, strlen(name), NULL) != TENURE_OK) {
            cf_fail(c, "create '%s': %s", name, c->err.text);
            return false;
        }
    }
    return true;
}

static void list_order(struct cf *c)
{
    struct listing l = {0};

    if (!make_all(c))
        return;
    CF_STATUS(c, list(c, cf_key(c, "%s", ""), NULL, &l), TENURE_OK, "list");
    if (!listing_is(c, "everything", &l, all, ALL))
        return;
    for (size_t i = 0; i < ALL; i++) {
        CF_STATUS(c, cf_read(c, c->a, l.keys[i]), TENURE_OK, "read");
        CF_WANT(c, tenure_token_equal(&l.tokens[i], &c->v.token),
                "the token of '%s' in the listing is not the one that a read shows", l.keys[i]);
    }
}

static void list_prefix(struct cf *c)
{
    const struct {
        const char *prefix;
        size_t from, n;
    } rows[] = {{"a", 0, 11},   {"a/", 3, 4}, {"a/b", 3, 4},   {"a/b/", 5, 1},
                {"a/bc", 6, 1}, {"a.", 2, 1}, {"ab", 10, 1},   {"b", 11, 3},
                {"b/y", 12, 2}, {"c", 0, 0},  {"a/b/c", 5, 1}, {"a/b/c/", 0, 0}};
    struct listing l = {0};

    if (!make_all(c))
        return;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        CF_STATUS(c, list(c, cf_key(c, "%s", rows[i].prefix), NULL, &l), TENURE_OK, "list");
        if (!listing_is(c, rows[i].prefix, &l, all + rows[i].from, rows[i].n))
            return;
    }
    CF_STATUS(c, list(c, "/", NULL, &l), TENURE_INVALID, "the prefix '/'");
    CF_STATUS(c, list(c, "a//b", NULL, &l), TENURE_INVALID, "the prefix 'a//b'");
    CF_STATUS(c, list(c, "a b", NULL, &l), TENURE_INVALID, "the prefix 'a b'");
}

static void list_cursor(struct cf *c)
{
    char prefix[TENURE_KEY_MAX + 1];
    struct listing l = {0};

    if (!make_all(c))
        return;
    snprintf(prefix, sizeof prefix, "%s", cf_key(c, "%s", ""));
    for (size_t page = 1; page <= 4; page += 3) {
        char after[TENURE_KEY_MAX + 1] = "";
        size_t seen = 0;

        l.stop_after = page;
        while (seen < ALL) {
            CF_STATUS(c, list(c, prefix, seen ? after : NULL, &l), TENURE_OK, "list a page");
            size_t want = ALL - seen < page ? ALL - seen : page;
            if (!listing_is(c, "a page", &l, all + seen, want))
                return;
            seen += l.n;
            snprintf(after, sizeof after, "%s", l.keys[l.n - 1]);
        }
        CF_STATUS(c, list(c, prefix, after, &l), TENURE_OK, "list after the last key");
        CF_WANT(c, l.n == 0, "expected nothing after the last key, saw '%s'", l.keys[0]);
    }
    l.stop_after = 0;
    CF_STATUS(c, list(c, prefix, cf_key(c, "a/b0"), &l), TENURE_OK, "list after no key");
    if (!listing_is(c, "after a key that does not exist", &l, all + 6, ALL - 6))
        return;
    CF_STATUS(c, list(c, cf_key(c, "b"), cf_key(c, "a"), &l), TENURE_OK, "list");
    if (!listing_is(c, "after a key below the prefix", &l, all + 11, 3))
        return;
    CF_STATUS(c, list(c, cf_key(c, "a"), cf_key(c, "b"), &l), TENURE_OK, "list");
    listing_is(c, "after a key beyond the prefix", &l, all, 0);
}

static void list_empty_prefix(struct cf *c)
{
    struct listing l = {.only = cf_key(c, "%s", "")};
    char after[TENURE_KEY_MAX + 1];

    if (!make_all(c))
        return;
    /* The store may hold much else, so begin right before what is ours. */
    snprintf(after, sizeof after, "%s", l.only);
    after[strlen(after) - 1] = '\0';
    CF_STATUS(c, list(c, "", after, &l), TENURE_OK, "list with an empty prefix");
    listing_is(c, "an empty prefix", &l, all, ALL);
}

static void list_tombstones(struct cf *c)
{
    struct listing l = {0};
    struct tenure_token token, dead;

    CF_STATUS(c, cf_put(c, c->a, cf_key(c, "k/a"), NULL, "x", 1, NULL), TENURE_OK, "create");
    CF_STATUS(c, cf_put(c, c->a, cf_key(c, "k/b"), NULL, "x", 1, &token), TENURE_OK, "create");
    CF_STATUS(c, cf_erase(c, c->a, cf_key(c, "k/b"), &token, &dead), TENURE_OK, "erase");
    CF_STATUS(c, list(c, cf_key(c, "k/"), NULL, &l), TENURE_OK, "list");
    CF_WANT(c, l.n == 2, "expected 2 keys, the tombstone too, saw %zu", l.n);
    CF_WANT(c, !l.tombstones[0] && l.tombstones[1], "the wrong one is told as a tombstone");
    CF_WANT(c, tenure_token_equal(&l.tokens[1], &dead), "the tombstone has another token");
}

struct counting {
    char last[TENURE_KEY_MAX + 1];
    unsigned n;
    bool disorder;
};

static bool count(void *arg, const char *key, const struct tenure_value *value)
{
    struct counting *s = arg;

    (void)value;
    s->disorder = s->disorder || strcmp(key, s->last) <= 0;
    snprintf(s->last, sizeof s->last, "%s", key);
    s->n++;
    return true;
}

/* More registers than a server sends at once. */
static void list_many(struct cf *c)
{
    struct counting s = {0};
    unsigned total = c->opts.rounds < 300 ? c->opts.rounds : 300;
    const char *prefix;

    for (unsigned i = 0; i < total; i++)
        CF_STATUS(c, cf_put(c, c->a, cf_key(c, "%u", i), NULL, &i, sizeof i, NULL), TENURE_OK,
                  "create");
    prefix = cf_key(c, "%s", "");
    CF_STATUS(c, tenure_store_list(c->a, prefix, NULL, count, &s, NULL, cf_deadline(c), &c->err),
              TENURE_OK, "list");
    CF_WANT(c, s.n == total, "expected %u keys, saw %u", total, s.n);
    CF_WANT(c, !s.disorder, "the listing is not in order, or has a key twice");
    cf_note(c, "%u keys", total);
}

static void list_after_swap(struct cf *c)
{
    struct listing l = {0};
    struct tenure_token token;

    CF_STATUS(c, cf_put(c, c->b, cf_key(c, "k/a"), NULL, "x", 1, &token), TENURE_OK, "create");
    CF_STATUS(c, list(c, cf_key(c, "k/"), NULL, &l), TENURE_OK, "list");
    CF_WANT(c, l.n == 1, "a create by another handle is not in the listing");
    CF_STATUS(c, cf_put(c, c->b, cf_key(c, "k/a"), &token, "y", 1, &token), TENURE_OK, "swap");
    CF_STATUS(c, list(c, cf_key(c, "k/"), NULL, &l), TENURE_OK, "list");
    CF_WANT(c, l.n == 1 && tenure_token_equal(&l.tokens[0], &token),
            "a swap by another handle is not in the listing");
}

/* Swaps registers under the prefix until told to stop. */
static void churn_job(struct cf_job *job)
{
    struct cf_shared *s = job->shared;
    struct tenure_token tokens[8] = {0};
    char key[TENURE_KEY_MAX + 8];

    for (unsigned i = 0; !atomic_load(&s->stop); i++) {
        struct tenure_swap swap = {.key = key, .data = &i, .len = sizeof i};

        snprintf(key, sizeof key, "%sk%u", s->prefix, i % 8);
        swap.expect = tokens[i % 8];
        cf_nonce(swap.nonce);
        if (cf_swap(job->store, &swap, s->call_ns, &job->err) != TENURE_OK) {
            cf_job_fail(job, "swap: %s", job->err.text);
            return;
        }
        tokens[i % 8] = swap.token;
        if (i >= 8)
            atomic_fetch_add(&s->count[0], 1);
    }
}

/* A register that exists throughout a listing is in it, once. */
static void list_while_changing(struct cf *c)
{
    int64_t until;
    unsigned done = 0;

    cf_crew_prepare(c, cf_key(c, "%s", ""));
    if (!cf_crew_start(c, CF_THREADS, 1, churn_job))
        return;
    while (!atomic_load(&c->shared->count[0]) && !atomic_load(&c->shared->stop))
        cf_sleep_us(100);
    until = cf_after_ms(1000);
    for (; done < 500 && (done < 5 || tenure_now() < until) && !c->failure[0]; done++) {
        struct counting s = {0};
        enum tenure_status status = tenure_store_list(c->a, c->shared->prefix, NULL, count, &s,
                                                      NULL, cf_deadline(c), &c->err);

        if (status)
            cf_fail_status(c, "list", TENURE_OK, status);
        else if (s.n != 8 || s.disorder)
            cf_fail(c, "expected 8 keys in order while they are swapped, saw %u%s", s.n,
                    s.disorder ? ", not in order" : "");
    }
    atomic_store(&c->shared->stop, 1);
    cf_crew_wait(c);
    cf_note(c, "%u listings, %llu swaps", done,
            (unsigned long long)atomic_load(&c->shared->count[0]));
}

const struct cf_check cf_checks_list[] = {
    {"list-order", list_order, 0},
    {"list-prefix", list_prefix, 0},
    {"list-cursor", list_cursor, 0},
    {"list-empty-prefix", list_empty_prefix, 0},
    {"list-tombstones", list_tombstones, 0},
    {"list-many", list_many, 0},
    {"list-after-swap", list_after_swap, CF_TWO},
    {"list-while-changing", list_while_changing, CF_TWO},
    {NULL, NULL, 0},
};
