/*
 * replica/driver.h - one node of a replicated state: the machine of core/replica on a real disk,
 * real links and a real register.
 *
 * One thread owns machine and database; another one asks the store of the lease, which may block.
 * A writer leaves a request and waits until it is acknowledged.
 */
#ifndef TN_REPLICA_DRIVER_H
#define TN_REPLICA_DRIVER_H

#include "replica/conf.h"
#include "replica/module.h"

/* The module's start() and stop(). */
enum tenure_status tn_replica_driver_start(const struct tn_replica_host *host, const char *url,
                                           const char *store, const char *name, const char *node,
                                           struct tn_replica_driver **driver,
                                           struct tenure_error *err);
void tn_replica_driver_stop(struct tn_replica_driver *driver);

/* The driver of that file in this process; NULL: there is none.  To be released. */
struct tn_replica_driver *tn_replica_driver_find(const char *path);
void tn_replica_driver_release(struct tn_replica_driver *driver);

/*
 * The lease was won: begin its term (R15).  Blocks.  OK: this node leads, and what it wrote or took
 * before is what it has.  FENCED: somebody with the epoch *floor was here.  DENIED: this copy may
 * lack what was acknowledged, and the text says what.  TIMEOUT: not yet; ask again.
 */
enum tenure_status tn_replica_driver_begin(struct tn_replica_driver *driver,
                                           const struct tenure_grant *grant, uint64_t *floor,
                                           int64_t deadline, struct tenure_error *err);
/* That term is over: nothing more is acknowledged in it.  Does not block. */
void tn_replica_driver_end(struct tn_replica_driver *driver, const struct tenure_grant *grant);

/*
 * swap_many() of a store, in that term.  FENCED: it is over.  UNKNOWN: not acknowledged in time, or
 * the term ended before: the change may be kept.
 */
enum tenure_status tn_replica_driver_swap(struct tn_replica_driver *driver,
                                          const struct tenure_grant *grant,
                                          struct tenure_swap *swaps, size_t n, int64_t deadline,
                                          struct tenure_error *err);

/*
 * Change n was read: may it be shown?  Blocks while it is one of this term that is not acknowledged
 * yet: it could still be lost.  OK also if this node does not lead: then it shows the copy that it
 * has; but FENCED if grant (may be NULL) is a term that is over.
 */
enum tenure_status tn_replica_driver_await(struct tn_replica_driver *driver,
                                           const struct tenure_grant *grant, uint64_t n,
                                           int64_t deadline, struct tenure_error *err);

#endif
