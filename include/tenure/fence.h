/*
 * tenure/fence.h - for what is written to: refuse a leader that was succeeded.
 *
 * A data node, a service or a device keeps one fence.  Every request carries
 * the epoch of the leader that sent it (TENURE_EPOCH, the Tenure-Epoch header);
 * ask the fence before the request takes effect.  The highest epoch accepted
 * is on the disk before it is acted on, so it outlives a restart (I3).
 *
 * Epoch 0 is nobody's: there is no way around the check.  A fence that cannot
 * remember refuses.
 *
 * The check and the write that it guards must be one step for whoever writes:
 * hold your own lock over both, or let the store compare (docs/how-to/fencing.md has
 * the predicates for SQL, Redis and object stores).
 *
 * Threads: a handle may be used by any number of threads.  One process a file.
 */
#ifndef TENURE_FENCE_H
#define TENURE_FENCE_H

#include <stdint.h>

#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tenure_fence tenure_fence;

/*
 * Open or make the fence in the file `path`.  CORRUPT if it cannot be read:
 * the file is left as it is, and nothing is accepted until a person has
 * looked.  CONFIG if the directory is missing; UNAVAILABLE if another process
 * has it.
 */
TENURE_CHECKED enum tenure_status tenure_fence_open(const char *path, tenure_fence **fence,
                                                    struct tenure_error *err);
/* Accepts NULL. */
TENURE_API void tenure_fence_close(tenure_fence *fence);

/*
 * May a request of (epoch, grant) take effect?  OK: yes.  FENCED: a later one
 * was here, or an equal epoch under another grant.  INVALID: epoch 0, or
 * beyond 2^53 - 1.  UNAVAILABLE: it would be the highest, but cannot be
 * remembered.  grant (16 bytes) may be NULL: then epochs alone are compared.
 * Blocks only when the epoch rises: one durable write.
 */
TENURE_CHECKED enum tenure_status tenure_fence_check(tenure_fence *fence, uint64_t epoch,
                                                     const uint8_t *grant,
                                                     struct tenure_error *err);

/*
 * The same for the text of a Tenure-Epoch header: "EPOCH" or "EPOCH GRANT",
 * GRANT being 32 hexadecimal digits.  INVALID if it is NULL or anything else.
 */
TENURE_CHECKED enum tenure_status tenure_fence_check_text(tenure_fence *fence, const char *text,
                                                          struct tenure_error *err);

/* The highest epoch accepted; 0 if none yet. */
TENURE_API uint64_t tenure_fence_highest(tenure_fence *fence);

#ifdef __cplusplus
}
#endif
#endif
