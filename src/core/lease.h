/*
 * core/lease.h - the lease record as the elector sees it.
 *
 * A plain value: no pointers, no allocation.  store/lease_record.c turns it
 * into JSON and back; members of the JSON that we do not know travel beside it.
 */
#ifndef TN_CORE_LEASE_H
#define TN_CORE_LEASE_H

#include <stdbool.h>
#include <stdint.h>

#include "tenure/store.h"

#define TN_HOLDER_MAX  127
#define TN_ADDRESS_MAX 127
#define TN_BUILD_MAX   31
#define TN_CAUSE_MAX   31

/* Epochs fit a double exactly, because Redis scripts compute in doubles (I2). */
#define TN_EPOCH_MAX ((UINT64_C(1) << 53) - 1)

/* From here on, the last thousandth of the range, epochs are an operator's to say. */
#define TN_EPOCH_ROOM (TN_EPOCH_MAX - (TN_EPOCH_MAX >> 10))

#define TN_TTL_MIN_MS 1000u
#define TN_TTL_MAX_MS 3600000u

struct tn_lease {
    char holder[TN_HOLDER_MAX + 1];         /* "": free, somebody released it */
    uint8_t incarnation[TENURE_NONCE_SIZE]; /* one per process of the holder */
    uint8_t grant[TENURE_NONCE_SIZE];       /* one per win */
    uint64_t epoch;                         /* the fencing token */
    uint64_t transitions;                   /* how many times a candidate won; for people */
    uint64_t acquired_ms;                   /* wall clock, for people; never read back */
    uint64_t renewed_ms;                    /* likewise */
    bool checked; /* its epoch is above those of everything that was deleted in its place */
    uint32_t ttl_ms;
    int32_t priority;
    char address[TN_ADDRESS_MAX + 1]; /* where the holder can be reached, if it says so */
    char build[TN_BUILD_MAX + 1];     /* version of the holder's program */
    char cause[TN_CAUSE_MAX + 1];     /* why it changed hands last; for people */
};

/* Holder, incarnation and grant are those given: the same term of the same process (I6b, I8). */
bool tn_lease_is_grant(const struct tn_lease *lease, const char *holder,
                       const uint8_t incarnation[TENURE_NONCE_SIZE],
                       const uint8_t grant[TENURE_NONCE_SIZE]);

/* Somebody holds it. */
static inline bool tn_lease_held(const struct tn_lease *lease)
{
    return lease->holder[0] != '\0';
}

/*
 * The epoch is within 1 .. TN_EPOCH_MAX - 1 and the ttl within its bounds.  A
 * record that is not sane is hostile or a mistake: never claimed by time, an
 * operator resets it.
 */
bool tn_lease_sane(const struct tn_lease *lease);

/*
 * The epoch of the next grant: max(previous + 1, wall_ms, floor + 1) (I2).
 * Returns 0 when that would not be sane; a wall clock beyond the range is
 * ignored, because the wall clock may only ever raise the epoch.
 */
uint64_t tn_epoch_next(uint64_t previous, uint64_t wall_ms, uint64_t floor);

/*
 * What stays in place of the record of an election that is removed: nobody
 * holds it, and its epoch is not below that of the last record nor below floor, so that the next
 * grant is above both (I2).  wall_ms is for people.
 */
struct tn_lease tn_lease_tombstone(const struct tn_lease *last, uint64_t floor, uint64_t wall_ms);
/*
 * Sane, and its epoch may become the floor of a whole store: one election that was raised to the
 * end of the range must not take all others there.
 */
bool tn_lease_leaves_room(const struct tn_lease *lease);
/*
 * May this tombstone be deleted?  Only when the store's floor of epochs, as it was READ (what was
 * only asked for may never be written, I6), keeps its epoch: whoever is granted the register after
 * it is gone reads that floor before it begins (core/elector.h, with_floor).
 */
bool tn_lease_tombstone_kept(const struct tn_lease *tombstone, uint64_t floor);

#endif
