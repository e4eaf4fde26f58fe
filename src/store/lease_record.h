/*
 * store/lease_record.h - the lease record as JSON in a register.
 *
 * It stands below the back ends because two of them look into it: kube: shows the holder in the
 * standard fields of a Lease, postgres+advisory: writes a held lease only under its lock.
 *
 * The nonce of the request and that of its predecessor belong to the register
 * (struct tenure_value), not to the document.  Members that this version does
 * not know are kept: decode hands them out as text, encode puts them back, so
 * that an older candidate does not strip what a newer one wrote.
 */
#ifndef TN_STORE_LEASE_RECORD_H
#define TN_STORE_LEASE_RECORD_H

#include "core/lease.h"

#define TN_LEASE_RECORD_MAX 8192 /* bytes; a longer record is refused */

/*
 * CORRUPT with the reason if the bytes are not a lease record; NOMEM.  On
 * success *extra (free() it) is the unknown members as a JSON object, or NULL
 * if there are none.  Bounds of epoch and ttl are the elector's to judge.
 * Outputs are untouched on failure.  extra may be NULL.
 */
enum tenure_status tn_lease_decode(const void *data, size_t len, struct tn_lease *lease,
                                   char **extra, struct tenure_error *err);

/*
 * The highest number behind an "epoch": in bytes that are not a lease record, or
 * 0 unless every one of them is whole and plausible.  One of its digits may be
 * what is damaged, so it is only ever a floor.
 */
uint64_t tn_lease_legible_epoch(const void *data, size_t len);

/* *text (free() it) is the record, *len its length.  extra may be NULL. */
enum tenure_status tn_lease_encode(const struct tn_lease *lease, const char *extra, char **text,
                                   size_t *len, struct tenure_error *err);

#endif
