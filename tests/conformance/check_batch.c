/* Batches: a status for each key, whether or not the store sends them together. */
#include <stdlib.h>

#include "harness.h"

static void fill(struct tenure_swap *swap, const char *key, const struct tenure_token *expect,
                 const char *data)
{
    *swap = (struct tenure_swap){.key = key, .data = data, .len = strlen(data)};
    if (expect)
        swap->expect = *expect;
    swap->status = TENURE_CORRUPT; /* so that a forgotten answer shows */
    cf_nonce(swap->nonce);
}

/* A batch of which a member is unknown may say so: a connection broke.  That member is settled. */
static enum tenure_status batch(struct cf *c, struct tenure_swap *swaps, size_t n)
{
    enum tenure_status status = tenure_store_swap_many(c->a, swaps, n, cf_deadline(c), &c->err);
    size_t unknown = 0;

    if (status == TENURE_UNKNOWN)
        status = TENURE_OK;

    for (size_t i = 0; i < n && status == TENURE_OK; i++) {
        unknown += swaps[i].status == TENURE_UNKNOWN;
        cf_settle(c->a, &swaps[i], cf_call_ns(c), &c->err);
    }
    cf_note(c, "%zu swaps, %zu unknown", n, unknown);
    return status;
}

/* What the status says is what a read shows. */
static bool told_truly(struct cf *c, const struct tenure_swap *swap)
{
    if (cf_read(c, c->a, swap->key) != TENURE_OK) {
        cf_fail(c, "read of '%s': %s", swap->key, c->err.text);
        return false;
    }
    bool applied = memcmp(c->v.token.nonce, swap->nonce, TENURE_NONCE_SIZE) == 0;
    if (applied != (swap->status == TENURE_OK)) {
        cf_fail(c, "'%s' was answered '%s' but was%s applied", swap->key,
                tenure_status_word(swap->status), applied ? "" : " not");
        return false;
    }
    if (!applied)
        return true;
    return cf_value_is(c, swap->key, &swap->token, swap->data, swap->len, swap->tombstone);
}

static void batch_all_well(struct cf *c)
{
    struct tenure_swap swaps[5];
    struct tenure_token one, two;

    CF_STATUS(c, batch(c, swaps, 0), TENURE_OK, "an empty batch");
    CF_STATUS(c, cf_put(c, c->a, cf_key(c, "b"), NULL, "1", 1, &one), TENURE_OK, "create");
    CF_STATUS(c, cf_put(c, c->a, cf_key(c, "d"), NULL, "1", 1, &two), TENURE_OK, "create");
    CF_STATUS(c, cf_erase(c, c->a, cf_key(c, "d"), &two, &two), TENURE_OK, "erase");
    /* Not sorted: the call sorts. */
    fill(&swaps[0], cf_key(c, "e"), NULL, "create");
    fill(&swaps[1], cf_key(c, "b"), &one, "");
    swaps[1].tombstone = true;
    fill(&swaps[2], cf_key(c, "a"), NULL, "");
    fill(&swaps[3], cf_key(c, "d"), &two, "over a tombstone");
    fill(&swaps[4], cf_key(c, "c"), NULL, "create too");
    CF_STATUS(c, batch(c, swaps, 5), TENURE_OK, "a batch");
    for (unsigned i = 0; i < 5; i++) {
        CF_WANT(c, i == 0 || strcmp(swaps[i - 1].key, swaps[i].key) < 0, "it is not sorted");
        CF_STATUS(c, swaps[i].status, TENURE_OK, swaps[i].key);
        if (!told_truly(c, &swaps[i]))
            return;
    }
}

/* A version of which only the last character is another one. */
static void falsify(struct tenure_token *token)
{
    char *last = token->version + strlen(token->version) - 1;

    *last = *last == '1' ? '2' : '1';
}

static void batch_mixed(struct cf *c)
{
    struct tenure_swap swaps[8];
    struct tenure_token one, two, wrong;

    CF_STATUS(c, cf_put(c, c->a, cf_key(c, "b"), NULL, "1", 1, &one), TENURE_OK, "create");
    CF_STATUS(c, cf_put(c, c->a, cf_key(c, "b"), &one, "2", 1, &two), TENURE_OK, "swap");
    fill(&swaps[0], cf_key(c, "a"), NULL, "create");
    fill(&swaps[1], cf_key(c, "b"), &one, "stale");
    CF_STATUS(c, cf_put(c, c->a, cf_key(c, "c"), NULL, "1", 1, &one), TENURE_OK, "create");
    fill(&swaps[2], cf_key(c, "c"), &one, "current");
    CF_STATUS(c, cf_put(c, c->a, cf_key(c, "d"), NULL, "1", 1, NULL), TENURE_OK, "create");
    fill(&swaps[3], cf_key(c, "d"), NULL, "create what is there");
    CF_STATUS(c, cf_put(c, c->a, cf_key(c, "e"), NULL, "1", 1, &wrong), TENURE_OK, "create");
    wrong.nonce[3] ^= 1;
    fill(&swaps[4], cf_key(c, "e"), &wrong, "another nonce");
    fill(&swaps[5], cf_key(c, "f"), NULL, "create too");
    CF_STATUS(c, cf_put(c, c->a, cf_key(c, "g"), NULL, "1", 1, &wrong), TENURE_OK, "create");
    falsify(&wrong);
    fill(&swaps[6], cf_key(c, "g"), &wrong, "another version");
    CF_STATUS(c, cf_put(c, c->a, cf_key(c, "h"), NULL, "1", 1, &one), TENURE_OK, "create");
    fill(&swaps[7], cf_key(c, "h"), &one, "current too");
    CF_STATUS(c, batch(c, swaps, 8), TENURE_OK, "a batch with conflicts");
    for (unsigned i = 0; i < 8; i++) {
        bool well = i == 0 || i == 2 || i == 5 || i == 7;

        /* In an atomic batch one conflict holds back all the others. */
        if (!well)
            CF_STATUS(c, swaps[i].status, TENURE_CONFLICT, swaps[i].key);
        else if (!c->info.atomic_batch)
            CF_STATUS(c, swaps[i].status, TENURE_OK, swaps[i].key);
        else
            CF_WANT(c, swaps[i].status != TENURE_OK, "part of an atomic batch took effect");
        if (!told_truly(c, &swaps[i]))
            return;
    }
}

static void batch_refused(struct cf *c)
{
    struct tenure_swap swaps[3];

    fill(&swaps[0], cf_key(c, "b"), NULL, "1");
    fill(&swaps[1], cf_key(c, "a"), NULL, "2");
    fill(&swaps[2], cf_key(c, "b"), NULL, "3");
    CF_STATUS(c, batch(c, swaps, 3), TENURE_INVALID, "a key twice in one batch");
    for (unsigned i = 0; i < 3; i++)
        CF_WANT(c, swaps[i].status != TENURE_OK, "a member of a refused batch is told 'ok'");
    fill(&swaps[0], cf_key(c, "a"), NULL, "1");
    fill(&swaps[1], "not//a key", NULL, "2");
    CF_STATUS(c, batch(c, swaps, 2), TENURE_INVALID, "a bad key in a batch");
    CF_WANT(c, swaps[0].status != TENURE_OK, "a member of a refused batch is told 'ok'");
    for (const char *name = "ab"; *name; name++) {
        CF_STATUS(c, cf_read(c, c->a, cf_key(c, "%c", *name)), TENURE_OK, "read");
        CF_WANT(c, tenure_token_absent(&c->v.token), "part of a refused batch was applied");
    }
}

static void batch_large(struct cf *c)
{
    enum { MAX = 207 };
    unsigned n = c->info.batch_max + 7 < MAX ? c->info.batch_max + 7 : MAX;
    struct tenure_swap *swaps = calloc(n, sizeof *swaps);
    char(*keys)[TENURE_KEY_MAX + 1] = calloc(n, sizeof *keys);

    for (unsigned round = 0; swaps && keys && round < 2 && !c->failure[0]; round++) {
        for (unsigned i = 0; i < n; i++) {
            struct tenure_token before = swaps[i].token;

            /* The second round swaps on the tokens of the first, sorted by then. */
            if (round == 0)
                snprintf(keys[i], sizeof keys[i], "%s", cf_key(c, "k%u", i * 101 % n));
            fill(&swaps[i], round ? swaps[i].key : keys[i], &before, round ? "two" : "one");
        }
        enum tenure_status status = batch(c, swaps, n);
        if (status)
            cf_fail_status(c, "a large batch", TENURE_OK, status);
        for (unsigned i = 0; i < n && !c->failure[0]; i++) {
            if (swaps[i].status)
                cf_fail_status(c, swaps[i].key, TENURE_OK, swaps[i].status);
            else
                told_truly(c, &swaps[i]);
        }
    }
    free(swaps);
    free(keys);
}

static void batch_deadline_past(struct cf *c)
{
    struct tenure_swap swaps[3];

    for (unsigned i = 0; i < 3; i++)
        fill(&swaps[i], cf_key(c, "k%u", i), NULL, "x");
    tenure_store_swap_many(c->a, swaps, 3, 1, &c->err);
    for (unsigned i = 0; i < 3; i++) {
        CF_WANT(c,
                swaps[i].status == TENURE_OK || swaps[i].status == TENURE_TIMEOUT ||
                    swaps[i].status == TENURE_UNKNOWN || swaps[i].status == TENURE_UNAVAILABLE,
                "after its deadline: expected 'timeout', 'unknown' or 'ok', saw '%s'",
                tenure_status_word(swaps[i].status));
        if (swaps[i].status != TENURE_UNKNOWN && !told_truly(c, &swaps[i]))
            return;
    }
}

const struct cf_check cf_checks_batch[] = {
    {"batch-all-well", batch_all_well, 0},
    {"batch-mixed", batch_mixed, 0},
    {"batch-refused", batch_refused, 0},
    {"batch-large", batch_large, 0},
    {"batch-deadline-past", batch_deadline_past, 0},
    {NULL, NULL, 0},
};
