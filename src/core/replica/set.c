/* core/replica/set.c - see set.h. */
#include "core/replica/set.h"

#include <assert.h>
#include <string.h>

static uint32_t find(const struct tn_set *set, const uint8_t *id)
{
    uint32_t i = 0;

    while (i < set->count && memcmp(set->id[i], id, TENURE_NONCE_SIZE) != 0)
        i++;
    return i;
}

bool tn_set_has(const struct tn_set *set, const uint8_t id[TENURE_NONCE_SIZE])
{
    return find(set, id) < set->count;
}

bool tn_set_equal(const struct tn_set *a, const struct tn_set *b)
{
    if (a->k != b->k || a->count != b->count)
        return false;
    for (uint32_t i = 0; i < a->count; i++)
        if (!tn_set_has(b, a->id[i]))
            return false;
    return true;
}

void tn_set_add(struct tn_set *set, const uint8_t id[TENURE_NONCE_SIZE])
{
    if (tn_set_has(set, id))
        return;
    assert(set->count < TN_SET_MAX);
    memcpy(set->id[set->count++], id, TENURE_NONCE_SIZE);
}

void tn_set_remove(struct tn_set *set, const uint8_t id[TENURE_NONCE_SIZE])
{
    uint32_t i = find(set, id);

    if (i == set->count)
        return;
    set->count--;
    memmove(set->id[i], set->id[i + 1], (set->count - i) * sizeof set->id[0]);
}

bool tn_set_waits_for(const struct tn_set_view *view, const uint8_t id[TENURE_NONCE_SIZE])
{
    return tn_set_has(&view->landed, id) || (view->doubt && tn_set_has(&view->wanted, id));
}

uint32_t tn_set_certain(const struct tn_set_view *view, const uint8_t self[TENURE_NONCE_SIZE])
{
    uint32_t certain = 0;

    for (uint32_t i = 0; i < view->landed.count; i++) {
        const uint8_t *id = view->landed.id[i];

        if (memcmp(id, self, TENURE_NONCE_SIZE) != 0 &&
            (!view->doubt || tn_set_has(&view->wanted, id)))
            certain++;
    }
    return certain;
}

/* The lowest of `least` and what the members besides `self` have; who said nothing has nothing. */
static uint64_t least_of(const struct tn_set *set, const uint8_t *self,
                         const struct tn_set_ack *acks, unsigned n, uint64_t least)
{
    for (uint32_t i = 0; i < set->count; i++) {
        uint64_t has = 0;

        if (memcmp(set->id[i], self, TENURE_NONCE_SIZE) == 0)
            continue;
        for (unsigned a = 0; a < n; a++)
            if (memcmp(acks[a].id, set->id[i], TENURE_NONCE_SIZE) == 0)
                has = acks[a].n;
        if (has < least)
            least = has;
    }
    return least;
}

uint64_t tn_set_committed(const struct tn_set_view *view, const uint8_t self[TENURE_NONCE_SIZE],
                          uint64_t own, uint32_t k, const struct tn_set_ack *acks, unsigned n,
                          uint64_t before)
{
    uint64_t least;

    if (!tn_set_established(&view->landed) || tn_set_certain(view, self) < k)
        return before;
    least = least_of(&view->landed, self, acks, n, own);
    if (view->doubt)
        least = least_of(&view->wanted, self, acks, n, least);
    return least > before ? least : before;
}

bool tn_set_propose(const struct tn_set_view *view, const uint8_t self[TENURE_NONCE_SIZE],
                    uint32_t k, const struct tn_set_ack *acks, unsigned n, uint64_t committed,
                    struct tn_set *next)
{
    struct tn_set made = view->landed;

    assert(!view->doubt && tn_set_has(&made, self) && k < TN_SET_MAX);
    if (k < made.k || !tn_set_established(&made))
        made.k = k;
    for (unsigned a = 0; a < n && made.count < TN_SET_MAX; a++)
        if (!acks[a].lost && acks[a].n >= committed && !tn_set_has(&made, acks[a].id)) {
            tn_set_add(&made, acks[a].id);
            break;
        }
    for (unsigned a = 0; a < n && made.count > made.k + 1; a++)
        if (acks[a].lost && memcmp(acks[a].id, self, TENURE_NONCE_SIZE) != 0)
            tn_set_remove(&made, acks[a].id);
    if (made.count > k)
        made.k = k;
    if (tn_set_equal(&made, &view->landed))
        return false;
    *next = made;
    return true;
}
