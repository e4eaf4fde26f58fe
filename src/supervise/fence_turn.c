#include "supervise/fence_turn.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/key.h"
#include "core/timing.h"

#define KIND "tenure-fencing 1 "

/* What a record that nobody can read, or that was made to last for ever, counts for. */
#define LIMIT_MAX_MS INT64_C(7200000)

/* A turn lasts longer than its command: that starts later, and others' clocks may be faster. */
#define SPARE_NS (10 * TN_S)

static int64_t limit_of(const struct tenure_value *value)
{
    char text[64];
    int64_t ms;
    size_t n = value->len < sizeof text - 1 ? value->len : sizeof text - 1;

    if (n > 0)
        memcpy(text, value->data, n);
    text[n] = '\0';
    if (sscanf(text, KIND "%" SCNd64 " ", &ms) != 1 || ms < 0 || ms > LIMIT_MAX_MS)
        ms = LIMIT_MAX_MS;
    return ms * TN_MS;
}

/* May what was just read be replaced? */
static bool is_free(struct tn_fence_turn *t, const struct tenure_value *value, int64_t now)
{
    if (tenure_token_absent(&value->token) || value->tombstone ||
        tenure_token_equal(&value->token, &t->ours))
        return true;
    if (!tenure_token_equal(&value->token, &t->seen)) {
        t->seen = value->token;
        t->seen_ns = now;
    }
    return now - t->seen_ns >= limit_of(value);
}

static bool swap(tenure_store *store, const char *key, const struct tenure_token *expect,
                 const char *text, int64_t by_ns, struct tenure_token *token)
{
    struct tenure_swap swap = {.key = key,
                               .expect = *expect,
                               .tombstone = !text,
                               .data = text ? text : "",
                               .len = text ? strlen(text) : 0};

    if (tenure_nonce(swap.nonce, NULL) || tenure_store_swap(store, &swap, by_ns, NULL))
        return false;
    *token = swap.token;
    return true;
}

static bool is_unchanged(tenure_store *store, const char *name, const struct tenure_token *lease,
                         int64_t by_ns)
{
    struct tenure_value value = {0};
    char key[TENURE_KEY_MAX + 1];

    tn_key_of(name, TN_KEY_LEASE, key);
    bool same = tenure_store_read(store, key, &value, by_ns, NULL) == TENURE_OK &&
                tenure_token_equal(&value.token, lease);
    tenure_value_free(&value);
    return same;
}

bool tn_fence_turn_take(struct tn_fence_turn *t, tenure_store *store, const char *name,
                        const char *id, const struct tenure_token *lease, int64_t limit_ns,
                        int64_t by_ns)
{
    int64_t limit_ms = (limit_ns + limit_ns / 4 + SPARE_NS) / TN_MS;
    struct tenure_value value = {0};
    char key[TENURE_KEY_MAX + 1], text[256];

    tn_key_of(name, TN_KEY_FENCING, key);
    snprintf(text, sizeof text, KIND "%" PRId64 " %s\n", limit_ms, id);
    bool taken = tenure_store_read(store, key, &value, by_ns, NULL) == TENURE_OK &&
                 is_free(t, &value, tenure_now()) &&
                 swap(store, key, &value.token, text, by_ns, &t->ours);
    tenure_value_free(&value);
    if (taken && !is_unchanged(store, name, lease, by_ns)) {
        tn_fence_turn_end(t, store, name, by_ns);
        taken = false;
    }
    return taken;
}

void tn_fence_turn_end(struct tn_fence_turn *t, tenure_store *store, const char *name,
                       int64_t by_ns)
{
    char key[TENURE_KEY_MAX + 1];
    struct tenure_token token;

    tn_key_of(name, TN_KEY_FENCING, key);
    if (!tenure_token_absent(&t->ours))
        swap(store, key, &t->ours, NULL, by_ns, &token);
    t->ours = (struct tenure_token){0};
}
