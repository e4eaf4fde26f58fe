/*
 * tenure/elections.h - every election of a store, at one look.
 *
 * One listing, nothing else: an election is what has a lease, or candidates; not
 * one that was removed.
 * Nothing here takes part, and what is seen may be over when it is shown.
 */
#ifndef TENURE_ELECTIONS_H
#define TENURE_ELECTIONS_H

#include "control.h"
#include "lease.h"

#ifdef __cplusplus
extern "C" {
#endif

struct tenure_election {
    uint32_t size; /* of this struct, as the library knows it */
    char name[TENURE_KEY_MAX + 1];
    struct tenure_lease_view lease;
    struct tenure_control control; /* one that cannot be read: paused, as the candidates take it */
    uint32_t candidates;           /* that announced themselves and did not take leave */
    uint32_t healthy;              /* of these */
    uint32_t troubled;             /* of these, those that say what is wrong with them; */
    char trouble_of[128];          /* the first of them, */
    char trouble[160];             /* and what it says */
};

/* Called for each election, by name.  It is the library's until the call returns.  false: enough.
 */
typedef bool (*tenure_election_fn)(void *arg, const struct tenure_election *election);

/*
 * Lists the whole store.  mark (may be NULL) is what tenure_store_wait() on the
 * empty prefix needs.  Fails as tenure_store_list() does, or with NOMEM.  May
 * block.
 */
TENURE_CHECKED enum tenure_status tenure_elections(tenure_store *store, tenure_election_fn visit,
                                                   void *arg, char mark[TENURE_VERSION_MAX + 1],
                                                   int64_t deadline, struct tenure_error *err);

#ifdef __cplusplus
}
#endif
#endif
