/* One register, one client: read, create, swap, erase. */
#include <stdlib.h>

#include "harness.h"

static const uint8_t zero[TENURE_NONCE_SIZE];
static const struct tenure_token absent;

static void read_absent(struct cf *c)
{
    const char *key = cf_key(c, "never");

    /* A value that held something before must not keep any of it. */
    CF_STATUS(c, cf_put(c, c->a, cf_key(c, "other"), NULL, "full", 4, NULL), TENURE_OK, "create");
    CF_STATUS(c, cf_read(c, c->a, cf_key(c, "other")), TENURE_OK, "read");
    CF_STATUS(c, cf_read(c, c->a, key), TENURE_OK, "read of an absent register");
    CF_WANT(c, tenure_token_absent(&c->v.token), "expected a zero token, saw version '%s'",
            c->v.token.version);
    CF_WANT(c, c->v.len == 0 && !c->v.tombstone, "expected no data and no tombstone");
    CF_WANT(c, memcmp(c->v.prev, zero, sizeof zero) == 0, "expected a zero predecessor");
}

static void create(struct cf *c)
{
    const char *key = cf_key(c, "k");
    struct tenure_swap swap = {.key = key, .data = "one", .len = 3, .status = TENURE_UNKNOWN};
    struct tenure_token token;

    /* Unknown is honest, but a store that never says 'ok' is of no use. */
    for (unsigned i = 0; i < 5 && swap.status == TENURE_UNKNOWN; i++) {
        swap.key = key = cf_key(c, "k%u", i);
        cf_nonce(swap.nonce);
        tenure_store_swap(c->a, &swap, cf_deadline(c), &c->err);
    }
    CF_STATUS(c, swap.status, TENURE_OK, "create");
    token = swap.token;
    CF_WANT(c, token.version[0] && strlen(token.version) <= TENURE_VERSION_MAX,
            "expected a version, saw '%s'", token.version);
    for (const char *p = token.version; *p; p++)
        CF_WANT(c, *p > ' ' && *p < 127, "the version '%s' is not printable", token.version);
    CF_STATUS(c, cf_read(c, c->a, key), TENURE_OK, "read");
    if (!cf_value_is(c, "after create", &token, "one", 3, false))
        return;
    CF_WANT(c, memcmp(c->v.prev, zero, sizeof zero) == 0,
            "the predecessor of a first value must be zero");
}

static void create_twice(struct cf *c)
{
    const char *key = cf_key(c, "k");
    struct tenure_token token;

    CF_STATUS(c, cf_put(c, c->a, key, NULL, "one", 3, &token), TENURE_OK, "create");
    CF_STATUS(c, cf_put(c, c->a, key, NULL, "two", 3, NULL), TENURE_CONFLICT, "second create");
    CF_STATUS(c, cf_read(c, c->a, key), TENURE_OK, "read");
    cf_value_is(c, "after the refused create", &token, "one", 3, false);
}

static void swap_current(struct cf *c)
{
    const char *key = cf_key(c, "k");
    struct tenure_token one, two;

    CF_STATUS(c, cf_put(c, c->a, key, NULL, "one", 3, &one), TENURE_OK, "create");
    CF_STATUS(c, cf_put(c, c->a, key, &one, "two!", 4, &two), TENURE_OK, "swap on the token");
    CF_STATUS(c, cf_read(c, c->a, key), TENURE_OK, "read");
    if (!cf_value_is(c, "after the swap", &two, "two!", 4, false))
        return;
    CF_WANT(c, memcmp(c->v.prev, one.nonce, sizeof zero) == 0,
            "the predecessor must be the nonce of the value before");
}

/* Swaps that expect `wrong` must conflict and leave the register alone. */
static void refuse(struct cf *c, const char *key, const struct tenure_token *wrong,
                   const char *what)
{
    struct tenure_value before = {0};

    CF_STATUS(c, tenure_store_read(c->a, key, &before, cf_deadline(c), &c->err), TENURE_OK, "read");
    enum tenure_status status = cf_put(c, c->a, key, wrong, "WRONG", 5, NULL);
    if (status != TENURE_CONFLICT)
        cf_fail_status(c, what, TENURE_CONFLICT, status);
    status = cf_erase(c, c->a, key, wrong, NULL);
    if (status != TENURE_CONFLICT)
        cf_fail_status(c, "erase likewise", TENURE_CONFLICT, status);
    status = cf_read(c, c->a, key);
    if (status)
        cf_fail_status(c, "read", TENURE_OK, status);
    else
        cf_value_is(c, what, &before.token, before.data, before.len, before.tombstone);
    tenure_value_free(&before);
}

static void swap_stale(struct cf *c)
{
    const char *key = cf_key(c, "k");
    struct tenure_token one, two;

    CF_STATUS(c, cf_put(c, c->a, key, NULL, "one", 3, &one), TENURE_OK, "create");
    CF_STATUS(c, cf_put(c, c->a, key, &one, "two", 3, &two), TENURE_OK, "swap");
    refuse(c, key, &one, "swap on a stale token");
}

/* Versions repeat after a restore, so the nonce counts too (C2). */
static void swap_wrong_nonce(struct cf *c)
{
    const char *key = cf_key(c, "k");
    struct tenure_token token, wrong;

    CF_STATUS(c, cf_put(c, c->a, key, NULL, "one", 3, &token), TENURE_OK, "create");
    wrong = token;
    wrong.nonce[TENURE_NONCE_SIZE - 1] ^= 1;
    refuse(c, key, &wrong, "swap on the right version with another nonce");
    wrong = token;
    memset(wrong.nonce, 0, sizeof wrong.nonce);
    refuse(c, key, &wrong, "swap on the right version with a zero nonce");
}

static void swap_wrong_version(struct cf *c)
{
    const char *key = cf_key(c, "k");
    const char *versions[3] = {""};
    struct tenure_token one, two, wrong;

    CF_STATUS(c, cf_put(c, c->a, key, NULL, "one", 3, &one), TENURE_OK, "create");
    CF_STATUS(c, cf_put(c, c->a, key, &one, "two", 3, &two), TENURE_OK, "swap");
    versions[1] = one.version;
    versions[2] = "nonsense'\"\\ ;%";
    for (size_t i = 0; i < 3; i++) {
        wrong = two;
        snprintf(wrong.version, sizeof wrong.version, "%s", versions[i]);
        refuse(c, key, &wrong, "swap on the right nonce with another version");
    }
}

static void swap_absent(struct cf *c)
{
    const char *key = cf_key(c, "never");
    struct tenure_token wrong = {0}, other;

    CF_STATUS(c, cf_put(c, c->a, cf_key(c, "other"), NULL, "x", 1, &other), TENURE_OK, "create");
    refuse(c, key, &other, "swap of an absent register on another one's token");
    memcpy(wrong.nonce, other.nonce, sizeof wrong.nonce);
    refuse(c, key, &wrong, "swap of an absent register on a nonce without a version");
}

static int by_text(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* Over swaps, tombstones and re-creations no version comes twice. */
static void versions_unique(struct cf *c)
{
    char(*versions)[TENURE_VERSION_MAX + 1] = calloc(c->opts.rounds, sizeof *versions);
    const char *key = cf_key(c, "k");
    struct tenure_token token = absent, before = absent;
    int64_t until = cf_until(c);
    unsigned n = 0;

    for (; versions && cf_more(c, n, until) && !c->failure[0]; n++) {
        enum tenure_status status = n % 10 == 9
                                        ? cf_erase(c, c->a, key, &token, &token)
                                        : cf_put(c, c->a, key, &token, &n, sizeof n, &token);
        if (status)
            cf_fail_status(c, "swap on the token that the last one returned", TENURE_OK, status);
        status = status || n % 7 ? status : cf_read(c, c->a, key);
        if (!status && n % 7 == 0 && memcmp(c->v.prev, before.nonce, sizeof zero) != 0)
            cf_fail(c, "after %u swaps the predecessor is not the value before", n + 1);
        before = token;
        memcpy(versions[n], token.version, sizeof *versions);
    }
    cf_note(c, "%u swaps", n);
    qsort(versions, n, sizeof *versions, by_text);
    for (unsigned i = 1; i < n; i++) {
        if (strcmp(versions[i - 1], versions[i]) == 0)
            cf_fail(c, "version '%s' came twice in %u swaps", versions[i], n);
    }
    free(versions);
}

static void tombstone(struct cf *c)
{
    const char *key = cf_key(c, "k");
    struct tenure_token one, dead, again;

    CF_STATUS(c, cf_put(c, c->a, key, NULL, "one", 3, &one), TENURE_OK, "create");
    CF_STATUS(c, cf_erase(c, c->a, key, &one, &dead), TENURE_OK, "erase");
    CF_STATUS(c, cf_read(c, c->a, key), TENURE_OK, "read of a tombstone");
    if (!cf_value_is(c, "after erase", &dead, NULL, 0, true))
        return;
    CF_WANT(c, memcmp(c->v.prev, one.nonce, sizeof zero) == 0,
            "a tombstone must keep the nonce of the value that it replaced");
    refuse(c, key, &absent, "create over a tombstone");
    refuse(c, key, &one, "swap on the token from before the erase");
    CF_STATUS(c, cf_put(c, c->a, key, &dead, "new", 3, &again), TENURE_OK,
              "swap on the token of a tombstone");
    CF_STATUS(c, cf_read(c, c->a, key), TENURE_OK, "read");
    if (!cf_value_is(c, "after the re-creation", &again, "new", 3, false))
        return;
    CF_WANT(c, memcmp(c->v.prev, dead.nonce, sizeof zero) == 0,
            "the predecessor must be the nonce of the tombstone");
    refuse(c, key, &dead, "swap on the token of a tombstone that is gone");
}

static void tombstone_twice(struct cf *c)
{
    const char *key = cf_key(c, "k");
    struct tenure_token one, two;

    CF_STATUS(c, cf_erase(c, c->a, key, NULL, &one), TENURE_OK, "erase of an absent register");
    CF_STATUS(c, cf_read(c, c->a, key), TENURE_OK, "read");
    if (!cf_value_is(c, "a register that began as a tombstone", &one, NULL, 0, true))
        return;
    CF_STATUS(c, cf_erase(c, c->a, key, NULL, NULL), TENURE_CONFLICT, "erase as if absent");
    CF_STATUS(c, cf_erase(c, c->a, key, &one, &two), TENURE_OK, "erase of a tombstone");
    CF_WANT(c, !tenure_token_equal(&one, &two), "a second erase must have a token of its own");
    CF_STATUS(c, cf_read(c, c->a, key), TENURE_OK, "read");
    cf_value_is(c, "a tombstone over a tombstone", &two, NULL, 0, true);
}

/* An eraser may leave data behind, such as the epoch that must outlive the value. */
static void tombstone_data(struct cf *c)
{
    const char *key = cf_key(c, "k");
    struct tenure_swap swap = {.key = key, .tombstone = true, .data = "epoch\0 7", .len = 8};
    struct tenure_token token;

    CF_STATUS(c, cf_put(c, c->a, key, NULL, "one", 3, &swap.expect), TENURE_OK, "create");
    cf_nonce(swap.nonce);
    CF_STATUS(c, cf_swap(c->a, &swap, cf_call_ns(c), &c->err), TENURE_OK, "a tombstone with data");
    CF_STATUS(c, cf_read(c, c->a, key), TENURE_OK, "read");
    if (!cf_value_is(c, "a tombstone with data", &swap.token, swap.data, swap.len, true))
        return;
    CF_STATUS(c, cf_put(c, c->a, key, &swap.token, "", 0, &token), TENURE_OK, "swap");
    CF_STATUS(c, cf_read(c, c->a, key), TENURE_OK, "read");
    cf_value_is(c, "empty data over a tombstone with data", &token, "", 0, false);
}

static void registers_apart(struct cf *c)
{
    const char *names[] = {"a", "a/b", "a/b/c", "a-b", "a.b", "A", "b"};
    struct tenure_token tokens[7];

    for (unsigned i = 0; i < 7; i++)
        CF_STATUS(c,
                  cf_put(c, c->a, cf_key(c, "%s", names[i]), NULL, names[i], strlen(names[i]),
                         &tokens[i]),
                  TENURE_OK, "create beside others");
    CF_STATUS(c, cf_erase(c, c->a, cf_key(c, "a/b"), &tokens[1], &tokens[1]), TENURE_OK, "erase");
    for (unsigned i = 0; i < 7; i++) {
        CF_STATUS(c, cf_read(c, c->a, cf_key(c, "%s", names[i])), TENURE_OK, "read");
        if (!cf_value_is(c, names[i], &tokens[i], names[i], i == 1 ? 0 : strlen(names[i]), i == 1))
            return;
    }
}

/* A call whose deadline has passed may still succeed; what it says must be true (C3, C5). */
static void deadline_past(struct cf *c)
{
    const int64_t deadlines[] = {0, 1, tenure_now() - 1000000000};
    const char *key = cf_key(c, "k");
    struct tenure_token token;

    CF_STATUS(c, cf_put(c, c->a, key, NULL, "one", 3, &token), TENURE_OK, "create");
    for (unsigned i = 0; i < 3; i++) {
        struct tenure_swap swap = {.key = key, .expect = token, .data = "two", .len = 3};
        enum tenure_status status = tenure_store_read(c->a, key, &c->v, deadlines[i], &c->err);

        CF_WANT(c, status == TENURE_OK || status == TENURE_TIMEOUT || status == TENURE_UNAVAILABLE,
                "read after its deadline: expected 'timeout' or 'ok', saw '%s': %s",
                tenure_status_word(status), c->err.text);
        cf_nonce(swap.nonce);
        status = tenure_store_swap(c->a, &swap, deadlines[i], &c->err);
        CF_WANT(c,
                status == TENURE_OK || status == TENURE_TIMEOUT || status == TENURE_UNKNOWN ||
                    status == TENURE_UNAVAILABLE,
                "swap after its deadline: expected 'timeout', 'unknown' or 'ok', saw '%s': %s",
                tenure_status_word(status), c->err.text);
        CF_STATUS(c, cf_read(c, c->a, key), TENURE_OK, "read");
        bool applied = memcmp(c->v.token.nonce, swap.nonce, sizeof zero) == 0;
        CF_WANT(c, status == TENURE_UNKNOWN || applied == (status == TENURE_OK),
                "a swap after its deadline was answered '%s' but was%s applied (C3)",
                tenure_status_word(status), applied ? "" : " not");
        token = c->v.token;
    }
    enum tenure_status status = cf_wait(c, key, &token, -1, 1);
    CF_WANT(c, status == TENURE_TIMEOUT || status == TENURE_OK,
            "wait after its deadline: expected 'timeout', saw '%s'", tenure_status_word(status));
}

const struct cf_check cf_checks_register[] = {
    {"read-absent", read_absent, 0},
    {"create", create, 0},
    {"create-twice", create_twice, 0},
    {"swap-current", swap_current, 0},
    {"swap-stale", swap_stale, 0},
    {"swap-wrong-nonce", swap_wrong_nonce, 0},
    {"swap-wrong-version", swap_wrong_version, 0},
    {"swap-absent", swap_absent, 0},
    {"versions-unique", versions_unique, 0},
    {"tombstone", tombstone, 0},
    {"tombstone-twice", tombstone_twice, 0},
    {"tombstone-data", tombstone_data, 0},
    {"registers-apart", registers_apart, 0},
    {"deadline-past", deadline_past, 0},
    {NULL, NULL, 0},
};
