/*
 * tenure/lease.h - look at an election from outside: who leads, since when.
 *
 * Nothing here takes part.  What is seen may be over when it is shown; whoever
 * needs certainty fences by epoch.
 */
#ifndef TENURE_LEASE_H
#define TENURE_LEASE_H

#include "store.h"

#ifdef __cplusplus
extern "C" {
#endif

enum tenure_lease_state {
    TENURE_LEASE_ABSENT,  /* nobody has ever led, or the record was erased */
    TENURE_LEASE_FREE,    /* released */
    TENURE_LEASE_HELD,    /* held; whether its holder lives, only time tells */
    TENURE_LEASE_REFUSED, /* there is a record, but it cannot be used; see trouble */
};

struct tenure_lease_view {
    uint32_t size; /* set by TENURE_LEASE_VIEW */
    enum tenure_lease_state state;
    char holder[128]; /* "" unless held */
    uint64_t epoch;   /* of the last grant; 0 if absent; if refused, what is legible of it, or 0 */
    uint32_t ttl_ms;  /* what observers wait by */
    int32_t priority;
    uint64_t transitions;
    char address[128];
    char build[32];
    char cause[32];       /* of the last change: "first", "released", "expired", "reclaimed", ... */
    char acquired_at[40]; /* RFC 3339, the holder's wall clock; "" if unknown */
    char renewed_at[40];
    char incarnation[33]; /* hex */
    char grant[33];
    char nonce[33]; /* of the last change */
    char prev[33];  /* of the one before */
    char trouble[256];
    struct tenure_token token; /* to wait on */
};

#define TENURE_LEASE_VIEW                                                                          \
    {                                                                                              \
        .size = sizeof(struct tenure_lease_view)                                                   \
    }

/* "held", "free", "absent", "refused". */
TENURE_API const char *tenure_lease_state_word(enum tenure_lease_state state);

/* Read the lease of an election.  OK for every state; else what the store says. */
TENURE_CHECKED enum tenure_status tenure_lease_look(tenure_store *store, const char *name,
                                                    struct tenure_lease_view *view,
                                                    int64_t deadline, struct tenure_error *err);
/* Wait for a change since view was filled; as tenure_store_wait(). */
TENURE_API enum tenure_status tenure_lease_wait(tenure_store *store, const char *name,
                                                const struct tenure_lease_view *view, int wake_fd,
                                                int64_t deadline, struct tenure_error *err);
/*
 * An operator's repair of a record that no candidate will touch (corrupt, or
 * an epoch or ttl out of bounds), or of one whose holder is known to be gone:
 * writes a free record with an epoch above at_least and above what can still
 * be read (view->epoch; if that is 0 or out of bounds, only the wall clock and
 * at_least keep epochs from going back).  Refused (CONFLICT) if the record
 * changed since view was filled.  *epoch (may be NULL) is what was written.
 */
TENURE_CHECKED enum tenure_status tenure_lease_reset(tenure_store *store, const char *name,
                                                     const struct tenure_lease_view *view,
                                                     uint64_t at_least, uint64_t *epoch,
                                                     int64_t deadline, struct tenure_error *err);

#ifdef __cplusplus
}
#endif
#endif
