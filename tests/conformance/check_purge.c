/* A tombstone is deleted, by a store that does that: exactly that one, and nothing of before
 * returns. */
#include <stdio.h>
#include <string.h>

#include "harness.h"

static enum tenure_status purge(struct cf *c, const char *key, const struct tenure_token *token)
{
    return tenure_store_purge(c->a, key, token, tenure_now() + cf_call_ns(c), &c->err);
}

/* What was written last may be refused: so something else is. */
static enum tenure_status make_tombstone(struct cf *c, const char *key, struct tenure_token *one,
                                         struct tenure_token *dead)
{
    enum tenure_status status = cf_put(c, c->a, key, NULL, "one", 3, one);
    struct tenure_token token;

    if (!status)
        status = cf_erase(c, c->a, key, one, dead);
    if (!status)
        status = cf_read(c, c->a, cf_key(c, "last"));
    token = c->v.token;
    return status ? status : cf_put(c, c->a, cf_key(c, "last"), &token, "x", 1, &token);
}

static bool stays(struct cf *c, const char *key, const struct tenure_token *wrong, const char *what,
                  const struct tenure_token *token, bool tombstone)
{
    enum tenure_status status = purge(c, key, wrong);

    if (status != TENURE_CONFLICT) {
        cf_fail_status(c, what, TENURE_CONFLICT, status);
        return false;
    }
    return cf_read(c, c->a, key) == TENURE_OK &&
           cf_value_is(c, what, token, tombstone ? NULL : "one", tombstone ? 0 : 3, tombstone);
}

static void purge_refused(struct cf *c)
{
    const char *key = cf_key(c, "k"), *living = cf_key(c, "living");
    struct tenure_token one, dead, alive, wrong;

    if (!tenure_store_purges(c->a)) {
        cf_note(c, "keeps its tombstones");
        return;
    }
    CF_STATUS(c, cf_put(c, c->a, living, NULL, "one", 3, &alive), TENURE_OK, "create");
    CF_STATUS(c, make_tombstone(c, key, &one, &dead), TENURE_OK, "a tombstone");
    if (!stays(c, living, &alive, "a purge of what is no tombstone", &alive, false) ||
        !stays(c, key, &one, "a purge on the token from before the erase", &dead, true))
        return;
    wrong = dead;
    wrong.nonce[0] ^= 1;
    if (!stays(c, key, &wrong, "a purge with another nonce", &dead, true))
        return;
    wrong = alive;
    memcpy(wrong.nonce, dead.nonce, sizeof wrong.nonce);
    if (strcmp(wrong.version, dead.version) != 0)
        stays(c, key, &wrong, "a purge with another version", &dead, true);
}

static bool count(void *arg, const char *key, const struct tenure_value *value)
{
    (void)key;
    (void)value;
    ++*(unsigned *)arg;
    return true;
}

static void purge_deletes(struct cf *c)
{
    const char *key = cf_key(c, "p/k"), *beside = cf_key(c, "p/k/beside");
    struct tenure_token one, dead, other, again;
    unsigned n = 0;

    if (!tenure_store_purges(c->a)) {
        cf_note(c, "keeps its tombstones");
        return;
    }
    CF_STATUS(c, cf_put(c, c->a, beside, NULL, "one", 3, &other), TENURE_OK, "create");
    CF_STATUS(c, make_tombstone(c, key, &one, &dead), TENURE_OK, "a tombstone");
    CF_STATUS(c, purge(c, key, &dead), TENURE_OK, "a purge of exactly that tombstone");
    CF_STATUS(c, cf_read(c, c->a, key), TENURE_OK, "read");
    CF_WANT(c, tenure_token_absent(&c->v.token) && !c->v.tombstone && c->v.len == 0,
            "a register that was purged must be absent");
    CF_STATUS(c,
              tenure_store_list(c->a, cf_key(c, "p/"), NULL, count, &n, NULL,
                                tenure_now() + cf_call_ns(c), &c->err),
              TENURE_OK, "list");
    CF_WANT(c, n == 1, "expected the register beside it alone in the listing, saw %u", n);
    CF_STATUS(c, purge(c, key, &dead), TENURE_CONFLICT, "a second purge");
    CF_STATUS(c, cf_put(c, c->a, key, &dead, "two", 3, NULL), TENURE_CONFLICT,
              "a swap on the tombstone that was purged");
    CF_STATUS(c, cf_put(c, c->a, key, NULL, "one", 3, &again), TENURE_OK, "create again");
    CF_STATUS(c, cf_put(c, c->a, key, &one, "two", 3, NULL), TENURE_CONFLICT,
              "a swap on a token from before the purge");
    CF_STATUS(c, purge(c, key, &dead), TENURE_CONFLICT, "a purge of what was created since");
    CF_STATUS(c, cf_read(c, c->a, key), TENURE_OK, "read");
    if (!cf_value_is(c, "created after the purge", &again, "one", 3, false))
        return;
    CF_STATUS(c, cf_read(c, c->a, beside), TENURE_OK, "read");
    cf_value_is(c, "the register beside it", &other, "one", 3, false);
}

const struct cf_check cf_checks_purge[] = {
    {"purge-refused", purge_refused, 0},
    {"purge-deletes", purge_deletes, 0},
    {NULL, NULL, 0},
};
