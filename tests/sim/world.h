/*
 * sim/world.h - everything that exists in one simulated history.
 *
 * The electors are the shipped ones.  All the rest (drivers, guards, programs,
 * clocks, network, stores, the state) is modelled here, obeys the duties that
 * core/elector.h lists, and runs on one true time that nobody inside can see.
 */
#ifndef SIM_WORLD_H
#define SIM_WORLD_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "docs.h"
#include "parts.h"
#include "prng.h"
#include "queue.h"

#define SIM_GRANTS_MAX 256
#define SIM_FIRED_MAX  4096

enum sim_what {
    SIM_Q_OP,        /* arg: index of the op */
    SIM_Q_WAKE,      /* a candidate's wait is over */
    SIM_Q_GIVE_UP,   /* a request's time is up; gen: its number */
    SIM_Q_ARRIVE,    /* arg: a message reaches the store */
    SIM_Q_ANSWER,    /* an answer reaches its candidate; gen: the request's number */
    SIM_Q_NOTICE,    /* a candidate is told of a change */
    SIM_Q_RESUME,    /* a paused candidate goes on */
    SIM_Q_BOOT,      /* a candidate's process starts (again) */
    SIM_Q_GUARD,     /* a guard's timer; arg: 1 for the ghost's */
    SIM_Q_DEAD,      /* a program has died; arg: likewise */
    SIM_Q_SAVE,      /* a leader's program has something to save; gen: its saver's */
    SIM_Q_DOC,       /* arg: a message reaches the state's store */
    SIM_Q_SAVED,     /* the answer to it; gen: the saver's request */
    SIM_Q_FILE,      /* a saver's next step on its file; gen: the saver's */
    SIM_Q_CLOCK,     /* a noisy clock changes its rate */
    SIM_Q_LATER,     /* arg: index of an op whose second half is due */
    SIM_Q_RECHECK,   /* an exemption has ended */
    SIM_Q_CALM,      /* the calm after the faults; arg: which part of it */
    SIM_Q_FAMILY,    /* a family's own event */
    SIM_Q_RELEASER,  /* arg: a message of a guard's releaser reaches the store */
    SIM_Q_PART,      /* arg: a request reaches the store under the product's state */
    SIM_Q_PART_BACK, /* arg: its answer reaches who sent it */
    SIM_Q_CLIENT,    /* arg: a client's timer; gen: which */
    SIM_Q_SAYS,      /* arg: a client tells its elector; gen: who it was */
    SIM_Q_PROVER,    /* arg: the next step of a candidate's prover; gen: its life */
    SIM_Q_COMPACT,   /* arg: the next step of a compaction */
    SIM_Q_UNSEALED,  /* a candidate that could not seal tries again; gen: its saver's */
};

/* ---- The world ----------------------------------------------------------- */

/* A grant that was made: its claim took effect in the register. */
struct sim_grant {
    uint8_t grant[TENURE_NONCE_SIZE];
    uint32_t serial;
    uint32_t claim_no;
    uint64_t epoch;
    uint8_t node;
    bool used;          /* its candidate has won by it */
    uint32_t age;       /* how many times the register had been deleted when it was made, ... */
    uint64_t above;     /* ... and the highest epoch of all grants before it, that is not lost */
    uint32_t ttl_ms;    /* as it was written last ... */
    int64_t applied_ns; /* ... and when, in true time */
};

/* The calm after the faults: a leader must come up, again and again. */
struct sim_calm {
    bool waiting;
    uint32_t part;
    uint32_t gen;
    int64_t since_ns;
    int64_t bound_ns;
    int not_this;              /* the candidate that must not be the one; -1: any will do */
    int loser;                 /* the record was deleted under this one */
    struct sim_node *unsealed; /* could not seal its state when it was last tried; NULL: none */
    int64_t yield_until_ns;    /* true time: nobody keeps back from claiming after this */
};

struct sim_counts {
    uint64_t events, steps, faults, grants, starts, stops, commits, takeovers;
    uint32_t bound_permille; /* slowest take-over, of what was allowed */
};

struct sim_trace {
    uint64_t hash;
    FILE *to; /* NULL: not told */
};

/* Which faults may happen: all of them, or (minimising, replaying) those listed. */
struct sim_keep {
    bool only;
    const uint64_t *ids;
    unsigned n;
    bool record;
    uint64_t fired[SIM_FIRED_MAX];
    unsigned n_fired;
    uint16_t without;   /* candidates that never boot, as bits */
    const char *ignore; /* promises that are not judged, ",I6,I12,"; NULL: all are */
};

struct sim_world {
    struct sim_plan plan;
    struct sim_queue queue;
    int64_t now_ns;
    bool quiet; /* the faults are over */
    bool done;  /* nothing is left to check */
    struct sim_node nodes[SIM_NODES_MAX];
    struct sim_store store;
    struct sim_msg msgs[SIM_MSGS_MAX];
    uint16_t free_msg;
    struct sim_state state;
    struct sim_docs docs;
    struct sim_grant grants[SIM_GRANTS_MAX];
    uint32_t n_grants;
    uint32_t exempt_serial; /* exclusion is not promised for grants up to this one */
    uint32_t edited_serial; /* nor is a holder up to this one known by what was read */
    uint64_t top_epoch;     /* of all grants since the record was last lost (I2) */
    uint64_t age_epoch;     /* likewise, and since its tombstone was last deleted */
    struct sim_calm calm;
    struct sim_counts counts;
    struct sim_trace trace;
    struct sim_keep keep;
    bool failed;
    char invariant[8];
    char why[400];
};

/* A kind of store: what it may do to a request, and what it promises all the same. */
struct sim_family {
    const char *name;
    const char *promise;
    bool linear;     /* reads show what was answered before: I9, I12 and I10 are checked */
    bool keeps;      /* what was answered is not lost */
    unsigned weight; /* of 100, in a campaign over all models */
    /* A candidate sends a request; msg is the family's now.  Returns the true time at
     * which its answer is due, or SIM_NEVER. */
    int64_t (*send)(struct sim_world *w, struct sim_node *n, struct sim_msg *msg);
    /* It reaches the store. */
    void (*arrive)(struct sim_world *w, struct sim_msg *msg);
    /* OPTIONAL: an event of the family's own. */
    void (*event)(struct sim_world *w, const struct sim_item *item);
    /* OPTIONAL: lives the whole plan, without the electors. */
    void (*run)(struct sim_world *w);
};

extern const struct sim_family *const sim_families[];
/* NULL if there is none of that name. */
const struct sim_family *sim_family_find(const char *name);

/* Live the plan in w->plan.  w->keep and w->trace.to are the caller's; all else is reset. */
void sim_world_run(struct sim_world *w);

/* ---- Shared by the parts ------------------------------------------------- */

static inline void sim_at(struct sim_world *w, int64_t at_ns, enum sim_what what, unsigned node,
                          uint32_t gen, uint32_t arg)
{
    if (at_ns >= SIM_NEVER)
        return;
    sim_queue_push(
        &w->queue,
        (struct sim_item){
            .at_ns = at_ns, .what = (uint8_t)what, .node = (uint8_t)node, .gen = gen, .arg = arg});
}

static inline int64_t sim_local(const struct sim_world *w, const struct sim_node *n)
{
    return n->frozen ? n->frozen_ns : sim_clock_local(&n->clock, w->now_ns);
}

/*
 * A fault with this name is about to happen.  False: it must not (the minimiser
 * took it away, or the calm has begun); then the harmless thing happens.
 */
bool sim_fault(struct sim_world *w, enum sim_stream stream, unsigned node, uint64_t number);

/* The history has broken a promise.  Only the first is kept. */
void sim_fail(struct sim_world *w, const char *invariant, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Into the hash: always.  Into the timeline: if somebody reads it. */
static inline void sim_hash(struct sim_world *w, uint64_t a, uint64_t b)
{
    w->trace.hash = (w->trace.hash ^ a) * UINT64_C(0x9fb21c651e98df25);
    w->trace.hash = ((w->trace.hash >> 29) ^ w->trace.hash ^ b) * UINT64_C(0xc2b2ae3d27d4eb4f);
}
void sim_say_at(struct sim_world *w, int node, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
#define sim_say(w, node, ...)                                                                      \
    do {                                                                                           \
        if ((w)->trace.to)                                                                         \
            sim_say_at((w), (node), __VA_ARGS__);                                                  \
    } while (0)

#endif
