/*
 * store/term.h - terms, of back ends of our own that fence these as a whole.
 *
 * Not part of the contract of stores (tenure/store.h): such a back end has this table, which begins
 * with the public one, and is known by its scheme.
 */
#ifndef TN_STORE_TERM_H
#define TN_STORE_TERM_H

#include "tenure/store.h"

#define TN_TERM_SCHEME "replica"

struct tn_term_ops {
    struct tenure_store_ops store;
    /*
     * May block.  From now on the swaps of this handle belong to grant, and no swap of an earlier
     * one takes effect any more, whoever makes it.  FENCED: the epoch *floor was here before, or
     * is now; swap() and read() answer that too, once the term is over.
     */
    enum tenure_status (*begin)(void *impl, const struct tenure_grant *grant, uint64_t *floor,
                                int64_t deadline, struct tenure_error *err);
};

/* UNSUPPORTED: this store does not, and a state seals its documents itself. */
enum tenure_status tn_store_begin(tenure_store *store, const struct tenure_grant *grant,
                                  uint64_t *floor, int64_t deadline, struct tenure_error *err);

#endif
