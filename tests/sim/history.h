/*
 * sim/history.h - one history by its name: model, seed, and (shortened) which
 * of its faults happen.  The same name in the same build is the same history.
 */
#ifndef SIM_HISTORY_H
#define SIM_HISTORY_H

#include "world.h"

#define SIM_LASTING_NS (30 * INT64_C(86400) * TN_S)

struct sim_history {
    const struct sim_family *model; /* NULL: the seed chooses */
    bool lasting;
    uint64_t seed;
    bool only; /* just the faults in ids */
    uint64_t ids[SIM_FIRED_MAX];
    unsigned n_ids;
    uint16_t without;   /* candidates that never start, as bits */
    const char *ignore; /* promises that are not judged, ",I6,I12,"; NULL: all are */
};

/* Live it.  trace may be NULL.  record: note in w->keep.fired which faults happened. */
void sim_history_live(struct sim_world *w, const struct sim_history *h, FILE *trace, bool record);

/* The arguments that live it again: "--seed 7 --only op3,n1r17". */
void sim_history_args(const struct sim_history *h, char *out, size_t size);

/* "op3", "n1r17": a fault's name, and back.  false: not a name. */
void sim_fault_name(uint64_t id, char *out, size_t size);
bool sim_fault_parse(const char *text, uint64_t *id);
/* A list with commas, into h->ids.  NULL, or the first that is not a fault's name. */
const char *sim_history_only(struct sim_history *h, char *list);

/*
 * Take faults and candidates away as long as the same promise is broken.
 * false: the history breaks none.
 */
bool sim_history_minimise(struct sim_world *w, struct sim_history *h);

/*
 * A history in a file: its name, its build, its hash and its timeline.  Reading
 * one of another build is an error, because there it is another history.
 */
bool sim_history_save(struct sim_world *w, const struct sim_history *h, const char *path, char *err,
                      size_t size);
bool sim_history_load(struct sim_history *h, uint64_t *hash, const char *path, char *err,
                      size_t size);

/* Names the sources that this program was built from. */
const char *sim_build(void);

#endif
