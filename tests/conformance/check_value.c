/* What a register may hold, and what a key may be. */
#include <stdlib.h>

#include "harness.h"

static const struct tenure_token absent;

/* Writes data over what is there, reads it back. */
static bool round_trip(struct cf *c, const char *key, struct tenure_token *token, const void *data,
                       size_t len, const char *what)
{
    enum tenure_status status = cf_put(c, c->a, key, token, data, len, token);

    if (!status)
        status = cf_read(c, c->a, key);
    if (status)
        cf_fail_status(c, what, TENURE_OK, status);
    return !status && cf_value_is(c, what, token, data, len, false);
}

static void data_empty(struct cf *c)
{
    struct tenure_token token = absent;
    const char *key = cf_key(c, "k");

    if (round_trip(c, key, &token, NULL, 0, "empty data, NULL") &&
        round_trip(c, key, &token, "x", 1, "one byte") &&
        round_trip(c, key, &token, "", 0, "empty data"))
        CF_WANT(c, !tenure_token_absent(&c->v.token), "empty data were taken for absence");
}

static void data_binary(struct cf *c)
{
    struct tenure_token token = absent;
    const char *key = cf_key(c, "k");
    unsigned char bytes[1024];

    for (unsigned i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i < 256 ? i : i * 7);
    round_trip(c, key, &token, bytes, sizeof bytes, "every byte");
    round_trip(c, key, &token, "\0", 1, "one NUL");
    round_trip(c, key, &token, "a\0b\0", 4, "NULs inside");
    round_trip(c, key, &token, "'\"\\\n\r{}[]$1?%s", 15, "quotes and line breaks");
    round_trip(c, key, &token, "\xff\xfe\xc3\x28", 4, "bytes that are not UTF-8");
}

static void data_max(struct cf *c)
{
    struct tenure_token token = absent;
    const char *key = cf_key(c, "k");
    size_t max = c->info.data_max;
    unsigned char *bytes = malloc(max + 1);

    CF_WANT(c, bytes, "out of memory");
    for (size_t i = 0; i <= max; i++)
        bytes[i] = (unsigned char)(i * 31 + i / 251);
    cf_note(c, "%zu bytes", max);
    if (round_trip(c, key, &token, bytes, max, "the largest value") &&
        round_trip(c, key, &token, "small", 5, "a small value after it")) {
        enum tenure_status status = cf_put(c, c->a, key, &token, bytes, max + 1, NULL);
        if (status != TENURE_INVALID)
            cf_fail_status(c, "one byte more than the largest value", TENURE_INVALID, status);
        if (cf_read(c, c->a, key) == TENURE_OK)
            cf_value_is(c, "after the refused value", &token, "small", 5, false);
    }
    free(bytes);
}

static void swap_arguments(struct cf *c)
{
    const char *key = cf_key(c, "k");
    struct tenure_swap swap = {.key = key, .data = "x", .len = 1};

    CF_STATUS(c, tenure_store_swap(c->a, &swap, cf_deadline(c), &c->err), TENURE_INVALID,
              "swap under a zero nonce");
    cf_nonce(swap.nonce);
    memset(swap.expect.version, 'v', sizeof swap.expect.version);
    CF_STATUS(c, tenure_store_swap(c->a, &swap, cf_deadline(c), &c->err), TENURE_INVALID,
              "a version without an end");
    CF_STATUS(c, cf_read(c, c->a, key), TENURE_OK, "read");
    CF_WANT(c, tenure_token_absent(&c->v.token), "a refused swap wrote the register");
}

/* Fills the key up to `length` bytes, in one segment or in many. */
static void long_key(struct cf *c, char *key, size_t length, bool segments)
{
    size_t used = (size_t)snprintf(key, TENURE_KEY_MAX + 2, "%s", cf_key(c, "x"));

    for (; used < length; used++)
        key[used] = segments && used % 2 && used + 1 < length ? '/' : 'y';
    key[used] = '\0';
    /* The base has an odd or even length: repair a doubled slash. */
    for (size_t i = 1; i < used; i++) {
        if (key[i] == '/' && key[i - 1] == '/')
            key[i] = 'z';
    }
}

static void key_long(struct cf *c)
{
    char key[TENURE_KEY_MAX + 2];

    for (unsigned i = 0; i < 2; i++) {
        struct tenure_token token = absent;

        long_key(c, key, TENURE_KEY_MAX, i == 1);
        if (!round_trip(c, key, &token, key, strlen(key), "a key of 255 bytes"))
            return;
        /* The last byte counts. */
        key[TENURE_KEY_MAX - 1] = 'w';
        CF_STATUS(c, cf_read(c, c->a, key), TENURE_OK, "read");
        CF_WANT(c, tenure_token_absent(&c->v.token), "two long keys share a register");
        long_key(c, key, TENURE_KEY_MAX + 1, i == 1);
        CF_STATUS(c, cf_read(c, c->a, key), TENURE_INVALID, "read of a key of 256 bytes");
    }
}

static void key_bad(struct cf *c)
{
    static const char *const keys[] = {"",    "/",    "/a",       "a/",  "a//b", ".",   "..",
                                       ".a",  "a/.b", "a/../b",   "a b", "a\nb", "a:b", "a\\b",
                                       "a%b", "a*b",  "\xc3\xa4", "a'b", "a\tb", "a+b", "a@b"};

    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        char what[40];
        struct tenure_watch watch = {.key = keys[i]};

        snprintf(what, sizeof what, "the key '%s'", keys[i]);
        CF_STATUS(c, cf_read(c, c->a, keys[i]), TENURE_INVALID, what);
        CF_STATUS(c, cf_put(c, c->a, keys[i], NULL, "x", 1, NULL), TENURE_INVALID, what);
        CF_STATUS(c, tenure_store_wait(c->a, &watch, 1, -1, cf_deadline(c), &c->err),
                  TENURE_INVALID, what);
    }
}

static void key_case(struct cf *c)
{
    struct tenure_token lower, upper;

    CF_STATUS(c, cf_put(c, c->a, cf_key(c, "case"), NULL, "l", 1, &lower), TENURE_OK, "create");
    CF_STATUS(c, cf_put(c, c->a, cf_key(c, "CASE"), NULL, "U", 1, &upper), TENURE_OK,
              "create of a key that differs in case");
    CF_STATUS(c, cf_read(c, c->a, cf_key(c, "case")), TENURE_OK, "read");
    cf_value_is(c, "the lower one", &lower, "l", 1, false);
}

static void info(struct cf *c)
{
    const struct tenure_store_info *i = &c->info;
    struct tenure_store_info again;

    CF_WANT(c, i->scheme && i->scheme[0], "info has no scheme");
    CF_WANT(c, strncmp(i->scheme, c->url, strlen(i->scheme)) == 0,
            "expected the scheme of the URL, saw '%s'", i->scheme);
    CF_WANT(c, i->promise && i->promise[0] && !strchr(i->promise, '\n'),
            "expected a promise of one line");
    CF_WANT(c, i->data_max >= 1024 && i->data_max <= TENURE_DATA_MAX,
            "expected data_max from 1024 to %u, saw %u", TENURE_DATA_MAX, i->data_max);
    CF_WANT(c, i->batch_max >= 1, "batch_max is 0");
    CF_WANT(c, i->ttl_min_ms <= 3600000, "ttl_min_ms of %u is longer than any lease",
            i->ttl_min_ms);
    again = *tenure_store_info(c->a);
    CF_WANT(c, again.shared == i->shared && again.data_max == i->data_max, "info is not constant");
}

const struct cf_check cf_checks_value[] = {
    {"info", info, 0},
    {"data-empty", data_empty, 0},
    {"data-binary", data_binary, 0},
    {"data-max", data_max, 0},
    {"swap-arguments", swap_arguments, 0},
    {"key-long", key_long, 0},
    {"key-bad", key_bad, 0},
    {"key-case", key_case, 0},
    {NULL, NULL, 0},
};
