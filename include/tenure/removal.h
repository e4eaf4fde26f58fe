/*
 * tenure/removal.h - an election goes, with all that is kept of it.
 *
 * A removal is a term of leadership whose work is to erase.  It waits until the
 * lease can be claimed, as every candidate does, so it cannot take anything away
 * from somebody who acts; it seals the state, so that nobody who led before can
 * write to it any more (I3, I4); it erases; and it leaves a tombstone in place
 * of the lease, which keeps the last epoch.  Whoever uses the name again, at
 * once or after sleeping through all this, gets a higher one (I2).
 * docs/adr/0020-removal.md has the reasons.
 */
#ifndef TENURE_REMOVAL_H
#define TENURE_REMOVAL_H

#include "store.h"

#ifdef __cplusplus
extern "C" {
#endif

struct tenure_removal_options {
    uint32_t size;     /* set by TENURE_REMOVAL_OPTIONS */
    const char *store; /* REQUIRED: the URL */
    const char *state; /* URL of the state; NULL: in the same store */
    const char *name;  /* REQUIRED: the election */
    bool dry_run;      /* only tell whether it would be refused, and what would go */
};

#define TENURE_REMOVAL_OPTIONS                                                                     \
    {                                                                                              \
        .size = sizeof(struct tenure_removal_options)                                              \
    }

struct tenure_removal {
    uint32_t size;       /* set by TENURE_REMOVAL */
    uint64_t epoch;      /* that the tombstone keeps; with dry_run the last one */
    uint64_t candidates; /* records that were erased (would be, with dry_run) */
    uint64_t documents;  /* of the state, likewise */
    bool history;        /* there was one */
    bool control;        /* there was a control record */
};

#define TENURE_REMOVAL                                                                             \
    {                                                                                              \
        .size = sizeof(struct tenure_removal)                                                      \
    }

/*
 * Remove an election.  NOT_LEADER: there is none of that name.  CONFLICT:
 * refused, because a candidate contends or the lease is held; nothing was
 * erased, unless the text says so.  TIMEOUT: likewise, or it was not finished;
 * call it again.  Else what the stores say.
 *
 * A lease whose holder does not renew it is waited out, which takes as long as
 * its ttl; candidates are asked, and those that do not answer within three seconds
 * are taken for gone.  May block until deadline.
 */
TENURE_CHECKED enum tenure_status tenure_remove(const struct tenure_removal_options *options,
                                                struct tenure_removal *result, int64_t deadline,
                                                struct tenure_error *err);

struct tenure_compaction {
    uint32_t size;      /* set by TENURE_COMPACTION */
    uint64_t elections; /* whose last records were deleted */
    uint64_t registers; /* that was, in all */
    uint64_t waiting; /* removed elections that are kept: not old enough, or not sure to be gone, or
                         with an epoch near the end of the range */
};

#define TENURE_COMPACTION                                                                          \
    {                                                                                              \
        .size = sizeof(struct tenure_compaction)                                                   \
    }

/*
 * Delete what `tenure_remove` has left of elections that were removed at least older_than_ms ago,
 * but for the tombstones of their states.  Their epochs are kept in one register of the store, so
 * that a name that is used again begins above them (I2), no matter who runs this, how often, and
 * when. UNSUPPORTED: this store keeps tombstones for ever.  DENIED: this user may not delete.  Once
 * the store is open, *result says what was deleted also if the call fails.  Every candidate of the
 * store must be of a version that has this call.
 */
TENURE_CHECKED enum tenure_status tenure_compact(const char *store, int64_t older_than_ms,
                                                 struct tenure_compaction *result, int64_t deadline,
                                                 struct tenure_error *err);

/*
 * The register that keeps those epochs: CORRUPT if it is damaged, and then no candidate of the
 * store begins a term; OK with *epoch 0 if nothing was compacted yet.
 */
TENURE_CHECKED enum tenure_status tenure_compaction_check(tenure_store *store, uint64_t *epoch,
                                                          int64_t deadline,
                                                          struct tenure_error *err);
/*
 * Replace it if it is damaged (INVALID if it is not), by the highest of at_least, the wall clock's
 * milliseconds and every epoch that the store still shows; *epoch is which.  Nothing else knows the
 * epochs that were deleted: at_least is the highest that a resource or a person has seen, and only
 * if a clock was ahead, or an operator has raised an epoch, the wall clock does not cover it.
 */
TENURE_CHECKED enum tenure_status tenure_compaction_repair(tenure_store *store, uint64_t at_least,
                                                           uint64_t *epoch, int64_t deadline,
                                                           struct tenure_error *err);

#ifdef __cplusplus
}
#endif
#endif
