/*
 * store/reads.h - many reads, piece by piece, through any back end.
 *
 * A back end with read_many answers as many at once as it likes; every other one is asked for
 * each register.  After a piece that failed the rest is not asked for: the store has trouble.
 */
#ifndef TN_STORE_READS_H
#define TN_STORE_READS_H

#include "tenure/store.h"

enum tenure_status tn_reads_run(const struct tenure_store_ops *ops, void *impl,
                                struct tenure_read *reads, size_t n, int64_t deadline,
                                struct tenure_error *err);

#endif
