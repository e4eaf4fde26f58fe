/* What a handle remembers: the token of every register it has sealed. */
#include <assert.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/sum.h"
#include "state/inner.h"

#define BUCKETS_MIN 64

static struct tn_entry **bucket(const tenure_state *s, const char *key)
{
    return &s->buckets[tn_sum(TN_SUM_START, key, strlen(key)) & (s->n_buckets - 1)];
}

struct tn_entry *tn_entry_find(tenure_state *s, const char *key)
{
    struct tn_entry *e = s->n_buckets ? *bucket(s, key) : NULL;

    while (e && strcmp(e->key, key) != 0)
        e = e->next;
    return e;
}

/* Without memory for more buckets the chains get longer, which only costs time. */
static void grow(tenure_state *s)
{
    struct tn_entry **old = s->buckets;
    size_t n = s->n_buckets, more = n ? 4 * n : BUCKETS_MIN;
    struct tn_entry **buckets = calloc(more, sizeof(struct tn_entry *));

    if (!buckets)
        return;
    s->buckets = buckets;
    s->n_buckets = more;
    for (size_t i = 0; i < n; i++) {
        for (struct tn_entry *e = old[i], *next; e; e = next) {
            struct tn_entry **to = bucket(s, e->key);

            next = e->next;
            e->next = *to;
            *to = e;
        }
    }
    free(old);
}

struct tn_entry *tn_entry_get(tenure_state *s, const char *key)
{
    struct tn_entry *e = tn_entry_find(s, key), **to;
    size_t n = strlen(key) + 1;

    if (e)
        return e;
    if (s->n_entries >= s->n_buckets)
        grow(s);
    if (!s->n_buckets || !(e = calloc(1, sizeof *e + n)))
        return NULL;
    memcpy(e->key, key, n);
    to = bucket(s, key);
    e->next = *to;
    *to = e;
    s->n_entries++;
    return e;
}

void tn_state_free_cache(tenure_state *s)
{
    for (size_t i = 0; i < s->n_buckets; i++) {
        while (s->buckets[i]) {
            struct tn_entry *e = s->buckets[i];

            s->buckets[i] = e->next;
            free(e);
        }
    }
    free(s->buckets);
    while (s->roots) {
        struct tn_root *root = s->roots;

        s->roots = root->next;
        tn_root_free(root);
    }
}

#define NUMBER_SIZE 6

uint64_t tn_state_new_nonce(tenure_state *s, uint8_t nonce[TENURE_NONCE_SIZE])
{
    uint64_t number = ++s->nonces;

    memcpy(nonce, s->nonce_base, TENURE_NONCE_SIZE - NUMBER_SIZE);
    for (int i = 0; i < NUMBER_SIZE; i++)
        nonce[TENURE_NONCE_SIZE - 1 - i] = (uint8_t)(number >> (8 * i));
    return number;
}

uint64_t tn_state_nonce_number(const tenure_state *s, const uint8_t nonce[TENURE_NONCE_SIZE])
{
    uint64_t number = 0;

    if (memcmp(nonce, s->nonce_base, TENURE_NONCE_SIZE - NUMBER_SIZE) != 0)
        return 0;
    for (int i = TENURE_NONCE_SIZE - NUMBER_SIZE; i < TENURE_NONCE_SIZE; i++)
        number = number << 8 | nonce[i];
    return number;
}

void tn_entry_mark(tenure_state *s, struct tn_entry *entry, bool *flag, bool value)
{
    assert(value || !*flag || entry->root || s->unsettled > 0);
    if (*flag != value && !entry->root)
        s->unsettled += value ? 1 : -1;
    *flag = value;
}

void tn_entry_set_token(tenure_state *s, struct tn_entry *entry, const struct tenure_token *token)
{
    if (tenure_token_equal(&entry->token, token))
        return;
    entry->token = *token;
    tn_entry_mark(s, entry, &entry->open, false);
    entry->tried = s->nonces;
}

bool tn_entry_is_known(const struct tn_entry *entry, const struct tenure_token *token)
{
    return entry->sealed && !entry->doubt && tenure_token_equal(&entry->token, token);
}

bool tn_entry_is_restored(const tenure_state *s, const struct tn_entry *entry,
                          const struct tenure_token *token)
{
    uint64_t number = tn_state_nonce_number(s, token->nonce);

    /* The same value under another version is no other value. */
    return number && number <= entry->tried &&
           memcmp(entry->token.nonce, token->nonce, TENURE_NONCE_SIZE) != 0;
}

void tn_entry_observe(tenure_state *s, struct tn_entry *entry, const struct tenure_token *token)
{
    if (entry->sealed && !tenure_token_equal(&entry->token, token) &&
        (!tn_state_nonce_number(s, token->nonce) || tn_entry_is_restored(s, entry, token)))
        tn_entry_mark(s, entry, &entry->doubt, true);
    tn_entry_set_token(s, entry, token);
}

void tn_state_raise_floor(tenure_state *s, uint64_t epoch)
{
    uint64_t floor = s->floor;

    while (epoch > floor && !atomic_compare_exchange_weak(&s->floor, &floor, epoch))
        continue;
}

enum tenure_status tn_state_set_fenced(tenure_state *s, const char *key, struct tenure_error *err)
{
    assert(s->leads && s->floor <= TN_EPOCH_MAX);
    s->fenced = true;
    return tenure_fail(err, TENURE_FENCED,
                       "%s: epoch %" PRIu64 " has been stored since; epoch %" PRIu64
                       " of this leader has ended",
                       key, s->floor, s->fence.epoch);
}
