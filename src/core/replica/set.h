/*
 * core/replica/set.h - the set of copies that count: in-sync set arithmetic.
 *
 * A copy is a database or a storage, named by a random id, never a node's name (R3, N8).  The set
 * is a register, changed by swap only, so the one that changes it knows two sets while a swap is
 * out or its outcome is unknown: the one that landed last and the one that may have landed.
 *
 *   waited for  every copy of EITHER set: from before the swap that adds it is sent, until the swap
 *               that removes it has landed (R12, N4, N5, N6)
 *   counted     the copies of BOTH sets: they are in it for certain (R12)
 *
 * A set is established once it has more than k members.  From then on everything that was
 * acknowledged is on all of them, and no change makes it smaller than k + 1 (R13).
 */
#ifndef TN_CORE_REPLICA_SET_H
#define TN_CORE_REPLICA_SET_H

#include <stdbool.h>
#include <stdint.h>

#include "tenure/store.h"

#define TN_SET_MAX 15u

struct tn_set {
    uint32_t k; /* how many copies besides the primary's own an acknowledged change has */
    uint32_t count;
    uint8_t id[TN_SET_MAX][TENURE_NONCE_SIZE];
};

bool tn_set_has(const struct tn_set *set, const uint8_t id[TENURE_NONCE_SIZE]);
bool tn_set_equal(const struct tn_set *a, const struct tn_set *b);
/* Adding a member again, or removing one that is not in it, changes nothing; there must be room. */
void tn_set_add(struct tn_set *set, const uint8_t id[TENURE_NONCE_SIZE]);
void tn_set_remove(struct tn_set *set, const uint8_t id[TENURE_NONCE_SIZE]);

/* Something may have been acknowledged under it: whoever is not in it may lack that. */
static inline bool tn_set_established(const struct tn_set *set)
{
    return set->count > set->k;
}

/* The set as the one that changes it knows it. */
struct tn_set_view {
    struct tn_set landed;
    struct tn_set wanted; /* if in doubt: a swap to this is out, or its outcome is unknown */
    bool doubt;
};

/* What a copy has durably, as it said itself. */
struct tn_set_ack {
    uint8_t id[TENURE_NONCE_SIZE];
    uint64_t n;
    bool lost; /* nothing was heard of it for the fail-over time */
};

/* Its answer is required. */
bool tn_set_waits_for(const struct tn_set_view *view, const uint8_t id[TENURE_NONCE_SIZE]);
/* How many besides `self` are in the set, whatever became of the swap. */
uint32_t tn_set_certain(const struct tn_set_view *view, const uint8_t self[TENURE_NONCE_SIZE]);

/*
 * Up to where changes may be acknowledged: flushed by `self` (own) and by everybody who is waited
 * for, with at least k others in the set for certain; else `before`.  Never below `before`.
 */
uint64_t tn_set_committed(const struct tn_set_view *view, const uint8_t self[TENURE_NONCE_SIZE],
                          uint64_t own, uint32_t k, const struct tn_set_ack *acks, unsigned n,
                          uint64_t before);

/*
 * The next set, if there is a better one: false: none.  Not while in doubt.  Adds one that is not
 * lost and has everything up to `committed`; removes one that is lost if more than k + 1 stay,
 * both at once if it must be (a lost disk is replaced by its new id in one swap); moves k to the
 * one that is wanted as soon as the set is large enough for it.
 */
bool tn_set_propose(const struct tn_set_view *view, const uint8_t self[TENURE_NONCE_SIZE],
                    uint32_t k, const struct tn_set_ack *acks, unsigned n, uint64_t committed,
                    struct tn_set *next);

#endif
