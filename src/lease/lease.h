/*
 * lease/lease.h - a lease over a register: read and swap with the JSON done.
 */
#ifndef TN_LEASE_LEASE_H
#define TN_LEASE_LEASE_H

#include "core/lease.h"
#include "tenure/lease.h"

/* What a read of a lease found. */
struct tn_lease_seen {
    struct tenure_token token;
    bool tombstone;
    bool present; /* lease is filled */
    bool corrupt; /* bytes are there, but not a lease record */
    bool refused; /* it is corrupt or out of bounds, and nobody claims it; why says more */
    struct tn_lease lease;
    char *extra; /* members we do not know; free with tn_lease_seen_free */
    struct tenure_error why;
};

/* Read.  buffer is a value to reuse.  *seen must be zeroed or come from an earlier call. */
enum tenure_status tn_lease_read(tenure_store *store, const char *name, struct tenure_value *buffer,
                                 struct tn_lease_seen *seen, int64_t deadline,
                                 struct tenure_error *err);
/* The same of a value that was read already. */
enum tenure_status tn_lease_see(const struct tenure_value *value, struct tn_lease_seen *seen,
                                struct tenure_error *err);
/* And as people see it; view->size says how much of it is filled.  NOMEM. */
enum tenure_status tn_lease_view_fill(const struct tenure_value *value,
                                      struct tenure_lease_view *view, struct tenure_error *err);
/* Swap.  extra may be NULL.  *token is set on OK only. */
enum tenure_status tn_lease_swap(tenure_store *store, const char *name,
                                 const struct tenure_token *expect,
                                 const uint8_t nonce[TENURE_NONCE_SIZE],
                                 const struct tn_lease *lease, const char *extra,
                                 struct tenure_token *token, int64_t deadline,
                                 struct tenure_error *err);
void tn_lease_seen_free(struct tn_lease_seen *seen);

#endif
