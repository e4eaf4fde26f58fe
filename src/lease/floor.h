/*
 * lease/floor.h - one register for the whole store: the floor of epochs.
 *
 * It keeps the epochs of elections that were removed and whose tombstones were deleted: it is
 * raised before a tombstone is deleted, and read by every candidate after its claim has taken
 * effect and before its term begins (core/elector.h, with_floor).  docs/adr/0024-compaction.md has
 * the proof.
 */
#ifndef TN_LEASE_FLOOR_H
#define TN_LEASE_FLOOR_H

#include "tenure/store.h"

/* CORRUPT, and what a person can do. */
enum tenure_status tn_floor_damaged(struct tenure_error *err);
/* The epoch in a value that was read from TN_KEY_REMOVED; 0 if it was never written.  CORRUPT. */
enum tenure_status tn_floor_see(const struct tenure_value *value, uint64_t *epoch,
                                struct tenure_error *err);
/* Read it; *token is what it was. */
enum tenure_status tn_floor_read(tenure_store *store, uint64_t *epoch, struct tenure_token *token,
                                 int64_t deadline, struct tenure_error *err);
/* Replace what was read.  Only a later read proves that it is there (I6). */
enum tenure_status tn_floor_write(tenure_store *store, const struct tenure_token *expect,
                                  uint64_t epoch, int64_t deadline, struct tenure_error *err);

#endif
