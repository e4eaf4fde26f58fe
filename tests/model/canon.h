/* model/canon.h - two worlds that can only behave alike have one canonical form. */
#ifndef TN_MODEL_CANON_H
#define TN_MODEL_CANON_H

#include "model/world.h"

struct canon {
    uint64_t hash[2];
};

/* Times relative to now, nonces numbered in the order met, epochs by their distance from the
 * highest, candidates in an order that does not depend on their names. */
void canon_of(const struct world *w, struct canon *out);

#endif
