/*
 * From a history of hundreds of faults to the few that matter.
 *
 * Every fault has a name that does not depend on the others, so any of them
 * can be taken away: first candidates, then faults, by halves, then one by
 * one, as long as the same promise is broken.
 */
#include <string.h>

#include "history.h"

static bool same(struct sim_world *w, const struct sim_history *h, const char *invariant)
{
    sim_history_live(w, h, NULL, false);
    return w->failed && strcmp(w->invariant, invariant) == 0;
}

static void drop_candidates(struct sim_world *w, struct sim_history *h, const char *invariant)
{
    unsigned nodes = w->plan.nodes;

    for (unsigned i = 0; i < nodes; i++) {
        h->without |= (uint16_t)(1u << i);
        if (!same(w, h, invariant))
            h->without &= (uint16_t) ~(1u << i);
    }
}

/* Without ids[from .. from + n).  True, and kept, if it still breaks. */
static bool drop(struct sim_world *w, struct sim_history *h, unsigned from, unsigned n,
                 const char *invariant)
{
    static uint64_t saved[SIM_FIRED_MAX];
    unsigned count = h->n_ids;

    memcpy(saved, h->ids, count * sizeof saved[0]);
    memmove(&h->ids[from], &h->ids[from + n], (count - from - n) * sizeof saved[0]);
    h->n_ids = count - n;
    if (same(w, h, invariant))
        return true;
    memcpy(h->ids, saved, count * sizeof saved[0]);
    h->n_ids = count;
    return false;
}

static void drop_faults(struct sim_world *w, struct sim_history *h, const char *invariant)
{
    for (unsigned n = h->n_ids; n > 0; n = n > 1 ? (n + 1) / 2 : 0) {
        for (unsigned from = 0; from < h->n_ids;) {
            unsigned some = n < h->n_ids - from ? n : h->n_ids - from;

            if (!drop(w, h, from, some, invariant))
                from += some;
        }
    }
}

bool sim_history_minimise(struct sim_world *w, struct sim_history *h)
{
    char invariant[sizeof w->invariant];
    unsigned before;

    sim_history_live(w, h, NULL, true);
    if (!w->failed)
        return false;
    memcpy(invariant, w->invariant, sizeof invariant);
    h->only = true;
    h->n_ids = w->keep.n_fired;
    memcpy(h->ids, w->keep.fired, h->n_ids * sizeof h->ids[0]);
    do {
        before = h->n_ids;
        drop_candidates(w, h, invariant);
        drop_faults(w, h, invariant);
    } while (h->n_ids < before);
    return same(w, h, invariant);
}
