/*
 * model/world.h - a small closed world around the shipped elector: two or three
 * candidates, one register, clocks at the edge of the drift bound.
 *
 * Nothing here is random.  Where the world could go several ways it asks
 * choose(), and explore.c walks every way.
 */
#ifndef TN_MODEL_WORLD_H
#define TN_MODEL_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "core/elector.h"

#define NODES_MAX 3
#define LATE_MAX  2

/*
 * The bound is tight: (D + K) / (1 - rho) == W / (1 + rho).  All spans of local
 * time are multiples of 99 ms, so that in true time, at nine or eleven tenths of
 * the rate, all instants fall on one grid of 10 ms: a coarser time would not be
 * exact, a finer one would only have more states.
 */
#define MODEL_GRID (10 * TN_MS)
#define MODEL_UNIT (99 * TN_MS)
#define MODEL_W    (11 * MODEL_UNIT)
#define MODEL_D    (8 * MODEL_UNIT)
#define MODEL_K    MODEL_UNIT

enum pending { NOTHING, ANSWER, WAIT };

struct program {
    bool alive;
    int64_t dies_at; /* true time; at the latest, as far as is decided */
    uint64_t epoch;
};

struct node {
    bool up;  /* the process of tenure runs */
    int rate; /* tenths: 9 or 11; its clock shows true time * rate / 10 */
    bool cut; /* from the store */
    int64_t cut_until;
    bool paused;
    int64_t paused_until;
    bool may_crash;
    unsigned incarnation;

    struct tn_elector e;
    enum pending pending;
    int64_t due; /* true time of what is pending */
    bool watch;
    struct tenure_token seen;
    /* ANSWER: */
    enum tn_event_kind kind;
    enum tenure_status status;
    struct tenure_token token;
    bool has_record;
    struct tn_lease record;

    int64_t deadline_ns; /* as published; local */
    bool must_tell;      /* the elector waits for STOPPED */
    struct program program;
    struct program orphan; /* of the process before the crash */
};

struct late {
    bool used;
    int64_t at;
    struct tenure_token expect;
    uint8_t nonce[TENURE_NONCE_SIZE];
    struct tn_lease record;
};

struct world {
    int n;
    int64_t now; /* true nanoseconds */
    struct node node[NODES_MAX];
    struct tenure_token token;
    bool present;
    struct tn_lease lease;
    unsigned version, nonces;
    struct late late[LATE_MAX];
    int faults; /* that may still happen */
    bool notifies;
    uint64_t last_epoch; /* of the last START */
    const char *broken;  /* the invariant that was violated, or NULL */
};

/* How a choice is made: returns 0 .. n-1.  Set by explore.c. */
typedef int (*choose_fn)(void *arg, int n);

void world_init(struct world *w, int n, unsigned rates, int faults, bool notifies);
/* One event.  false: nothing can happen any more. */
bool world_step(struct world *w, choose_fn choose, void *arg);
/* Check what must hold at this instant; sets w->broken. */
void world_check(struct world *w);

#endif
