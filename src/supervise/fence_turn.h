/*
 * supervise/fence_turn.h - whose turn it is to run the fence command: one standby at a time.
 *
 * NAME/fencing is a lease without renewals: "tenure-fencing 1 LIMIT_MS ID\n".  Who finds somebody
 * else's there waits until it has stood unchanged for that limit, by the finder's own clock, from
 * after the read.  Exclusion does not rest on this: the claim does, on the version of the lease
 * that was read before the command began.  It keeps two standbys from switching machines off
 * side by side.
 */
#ifndef TN_SUPERVISE_FENCE_TURN_H
#define TN_SUPERVISE_FENCE_TURN_H

#include <stdbool.h>

#include "tenure/store.h"

struct tn_fence_turn {
    struct tenure_token seen; /* somebody else's */
    int64_t seen_ns;          /* when it was first seen */
    struct tenure_token ours; /* absent: it is not our turn */
};

/*
 * Take it for a command that may take limit_ns, if the lease still has that token: whoever has
 * renewed meanwhile is not switched off.  false: it has another, somebody else's turn it is, or the
 * store does not answer.
 */
bool tn_fence_turn_take(struct tn_fence_turn *t, tenure_store *store, const char *name,
                        const char *id, const struct tenure_token *lease, int64_t limit_ns,
                        int64_t by_ns);
/* The command has ended. */
void tn_fence_turn_end(struct tn_fence_turn *t, tenure_store *store, const char *name,
                       int64_t by_ns);

#endif
