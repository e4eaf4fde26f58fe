/*
 * store/batch.h - how many swaps go to a back end at once.
 *
 * A batch is cut here, once for all: a back end never sees more than it said is worth sending
 * together (batch_max, batch_bytes), nor a piece that would last longer than a tenth of the time
 * that the caller has, at the pace of the pieces before.  After a piece that failed the rest is
 * not sent: the store has trouble.
 */
#ifndef TN_STORE_BATCH_H
#define TN_STORE_BATCH_H

#include "tenure/store.h"

/* The pace of one handle; zeroed: not measured yet. */
struct tn_batch_pace {
    size_t swaps; /* that fit into the time, as far as is known; 0: as many as the store takes */
};

/* How many of the swaps go into the next piece: at least one. */
size_t tn_batch_cut(const struct tenure_store_info *info, const struct tn_batch_pace *pace,
                    const struct tenure_swap *swaps, size_t n);
/* A piece of n swaps took so long; a tenth of the caller's time is share_ns. */
void tn_batch_measure(const struct tenure_store_info *info, struct tn_batch_pace *pace, size_t n,
                      int64_t took_ns, int64_t share_ns);

typedef enum tenure_status (*tn_batch_send_fn)(void *impl, struct tenure_swap *swaps, size_t n,
                                               int64_t deadline, struct tenure_error *err);
/* Send all of them, piece by piece; as swap_many of struct tenure_store_ops. */
enum tenure_status tn_batch_run(const struct tenure_store_info *info, struct tn_batch_pace *pace,
                                tn_batch_send_fn send, void *impl, struct tenure_swap *swaps,
                                size_t n, int64_t deadline, struct tenure_error *err);

#endif
