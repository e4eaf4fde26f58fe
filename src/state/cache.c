/* What a handle remembers: the token of every register it has sealed. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/sum.h"
#include "state/inner.h"

static size_t bucket(const char *key)
{
    return (size_t)(tn_sum(TN_SUM_START, key, strlen(key)) % TN_STATE_BUCKETS);
}

struct tn_entry *tn_entry_find(tenure_state *s, const char *key)
{
    for (struct tn_entry *e = s->entries[bucket(key)]; e; e = e->next) {
        if (strcmp(e->key, key) == 0)
            return e;
    }
    return NULL;
}

struct tn_entry *tn_entry_get(tenure_state *s, const char *key)
{
    struct tn_entry *e = tn_entry_find(s, key);
    size_t n = strlen(key) + 1;

    if (e || !(e = calloc(1, sizeof *e + n)))
        return e;
    memcpy(e->key, key, n);
    e->next = s->entries[bucket(key)];
    s->entries[bucket(key)] = e;
    return e;
}

void tn_state_free_cache(tenure_state *s)
{
    for (size_t i = 0; i < TN_STATE_BUCKETS; i++) {
        while (s->entries[i]) {
            struct tn_entry *e = s->entries[i];

            s->entries[i] = e->next;
            free(e);
        }
    }
    while (s->roots) {
        struct tn_root *root = s->roots;

        s->roots = root->next;
        tn_root_free(root);
    }
}

#define NUMBER_SIZE 6

uint64_t tn_state_nonce(tenure_state *s, uint8_t nonce[TENURE_NONCE_SIZE])
{
    uint64_t number = ++s->nonces;

    memcpy(nonce, s->nonce_base, TENURE_NONCE_SIZE - NUMBER_SIZE);
    for (int i = 0; i < NUMBER_SIZE; i++)
        nonce[TENURE_NONCE_SIZE - 1 - i] = (uint8_t)(number >> (8 * i));
    return number;
}

uint64_t tn_state_ours(const tenure_state *s, const uint8_t nonce[TENURE_NONCE_SIZE])
{
    uint64_t number = 0;

    if (memcmp(nonce, s->nonce_base, TENURE_NONCE_SIZE - NUMBER_SIZE) != 0)
        return 0;
    for (int i = TENURE_NONCE_SIZE - NUMBER_SIZE; i < TENURE_NONCE_SIZE; i++)
        number = number << 8 | nonce[i];
    return number;
}

void tn_entry_holds(tenure_state *s, struct tn_entry *entry, const struct tenure_token *token)
{
    if (tenure_token_equal(&entry->token, token))
        return;
    entry->token = *token;
    entry->open = false;
    entry->tried = s->nonces;
}

bool tn_entry_known(const struct tn_entry *entry, const struct tenure_token *token)
{
    return entry->sealed && !entry->doubt && tenure_token_equal(&entry->token, token);
}

bool tn_entry_restored(const tenure_state *s, const struct tn_entry *entry,
                       const struct tenure_token *token)
{
    uint64_t number = tn_state_ours(s, token->nonce);

    /* The same value under another version is no other value. */
    return number && number <= entry->tried &&
           memcmp(entry->token.nonce, token->nonce, TENURE_NONCE_SIZE) != 0;
}

void tn_entry_saw(tenure_state *s, struct tn_entry *entry, const struct tenure_token *token)
{
    if (entry->sealed && !tenure_token_equal(&entry->token, token) &&
        (!tn_state_ours(s, token->nonce) || tn_entry_restored(s, entry, token)))
        entry->doubt = true;
    tn_entry_holds(s, entry, token);
}

void tn_state_note(tenure_state *s, uint64_t epoch)
{
    if (epoch > s->floor)
        s->floor = epoch;
}

enum tenure_status tn_state_fenced(tenure_state *s, const char *key, struct tenure_error *err)
{
    s->fenced = true;
    return tenure_fail(err, TENURE_FENCED,
                       "%s: epoch %" PRIu64 " was here; this leader's %" PRIu64
                       " is over, and final",
                       key, s->floor, s->fence.epoch);
}
