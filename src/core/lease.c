#include "lease.h"

#include <string.h>

bool tn_lease_is_grant(const struct tn_lease *lease, const char *holder,
                       const uint8_t incarnation[TENURE_NONCE_SIZE],
                       const uint8_t grant[TENURE_NONCE_SIZE])
{
    return tn_lease_held(lease) && strcmp(lease->holder, holder) == 0 &&
           memcmp(lease->incarnation, incarnation, TENURE_NONCE_SIZE) == 0 &&
           memcmp(lease->grant, grant, TENURE_NONCE_SIZE) == 0;
}

bool tn_lease_sane(const struct tn_lease *lease)
{
    if (lease->epoch == 0 || lease->epoch >= TN_EPOCH_MAX)
        return false;
    return lease->ttl_ms >= TN_TTL_MIN_MS && lease->ttl_ms <= TN_TTL_MAX_MS;
}

uint64_t tn_epoch_next(uint64_t previous, uint64_t wall_ms, uint64_t floor)
{
    uint64_t least = previous > floor ? previous : floor;

    if (least >= TN_EPOCH_MAX - 1)
        return 0;
    least++;
    /* A wall clock in the last thousandth of the range is broken, not late:
     * believing it would leave no room for the grants that follow. */
    if (wall_ms > least && wall_ms < TN_EPOCH_ROOM)
        return wall_ms;
    return least;
}

struct tn_lease tn_lease_tombstone(const struct tn_lease *last, uint64_t floor, uint64_t wall_ms)
{
    struct tn_lease kept = {.epoch = last->epoch, .ttl_ms = TN_TTL_MIN_MS};

    kept.transitions = last->transitions;
    kept.renewed_ms = wall_ms;
    memcpy(kept.cause, "removed", sizeof "removed");
    kept.checked = last->checked;
    if (floor > kept.epoch)
        kept.epoch = floor;
    return kept;
}

bool tn_lease_leaves_room(const struct tn_lease *lease)
{
    return tn_lease_sane(lease) && lease->epoch < TN_EPOCH_ROOM;
}

bool tn_lease_tombstone_kept(const struct tn_lease *tombstone, uint64_t floor)
{
    return tn_lease_leaves_room(tombstone) && tombstone->epoch <= floor;
}
