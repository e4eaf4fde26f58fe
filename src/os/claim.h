/*
 * os/claim.h - names that one process of this machine can have at a time.
 *
 * The kernel gives a claim back when its process ends, however that happens.  It reaches as far as
 * a network namespace does: other machines, and containers with a network of their own, are not
 * seen.  Every user of the machine sees the sum of its words (/proc/net/unix), and can guess them
 * from it: they must not be secret.
 */
#ifndef TN_OS_CLAIM_H
#define TN_OS_CLAIM_H

#include <stdbool.h>

/* Claim these words together: *fd is the claim, to close().  false: another one has it.  Where the
 * machine cannot tell, true and *fd is -1. */
bool tn_claim(const char *const words[], int *fd);

#endif
