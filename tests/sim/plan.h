/*
 * sim/plan.h - one history, before it is lived: who takes part, with which
 * timings and clocks, how the network behaves, and the list of what befalls
 * them.  Made from a model and a seed; the same pair makes the same plan.
 */
#ifndef SIM_PLAN_H
#define SIM_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "core/timing.h"

#define SIM_NODES_MAX 9
#define SIM_OPS_MAX   768

/*
 * X(NAME, word, breaks, text): one thing that can befall the world.  `breaks`
 * says what it takes away: 0 nothing; 1 exclusion is not promised over it
 * (SAFETY, I1), so that it appears only in plans that allow for that.
 */
#define SIM_OP_MAP(X)                                                                              \
    X(PAUSE, "pause", 0, "tenure is stopped; its guard is not")                                    \
    X(PAUSE_ALL, "pause-all", 1, "tenure and guard are stopped, the program is not")               \
    X(SUSPEND, "suspend", 1, "the host sleeps; its boot clock counts")                             \
    X(FREEZE, "freeze", 1, "the virtual machine is paused; its clock stands still")                \
    X(KILL, "kill", 0, "tenure is killed, and started again later")                                \
    X(REBOOT, "reboot", 0, "the host restarts: everything dies, the clock begins anew")            \
    X(EXIT, "exit", 0, "the program ends by itself")                                               \
    X(GUARD_DIES, "guard-dies", 0, "the guard is killed; tenure ends the program")                 \
    X(RATE, "rate", 0, "the boot clock changes its rate, within rho")                              \
    X(WALL, "wall", 0, "the wall clock steps")                                                     \
    X(OUTAGE, "outage", 0, "the store answers nobody")                                             \
    X(PARTITION, "partition", 0, "the store and one candidate cannot talk")                        \
    X(DELETE, "delete", 1, "the lease record is lost")                                             \
    X(RESTORE, "restore", 1, "the lease record is restored from a back-up")                        \
    X(EDIT, "edit", 1, "an operator writes into the lease record")                                 \
    X(ERASE, "erase", 1, "an operator erases the lease: a tombstone")                              \
    X(CORRUPT, "corrupt", 0, "somebody writes what no candidate can use")                          \
    X(ROT, "rot", 0, "the record's bytes rot; version and nonce stay")                             \
    X(YIELD, "yield", 0, "a candidate is asked to step down")                                      \
    X(SHUTDOWN, "shutdown", 0, "a candidate is asked to end, and started again later")             \
    X(CONTROL, "control", 0, "claims are suppressed or delayed")                                   \
    X(TIMING, "timing", 0, "a candidate gets another ttl")                                         \
    X(SPURIOUS, "spurious", 0, "everybody is notified of nothing")                                 \
    X(ROGUE, "rogue", 0, "a writer without a grant commits with epoch 0")                          \
    X(FENCE, "fence", 0, "the state learns of a far higher epoch")                                 \
    X(FAILOVER, "failover", 0, "the server fails over; the last writes may be lost")               \
    X(UNLOCK, "unlock", 0, "the session lock vanishes")                                            \
    X(STRANGER, "stranger", 0, "a stranger takes the session lock, if it is free")                 \
    X(AMEND, "amend", 0, "an operator edits a document of the state")                              \
    X(STATE_BACK, "state-back", 0, "the state's store is restored from a back-up")                 \
    X(UNSEAL, "unseal", 0, "a candidate cannot seal the state; the others can")                    \
    X(REMOVE, "remove", 0, "the election is removed, once it is free")

enum sim_op_kind {
#define SIM_X(name, word, breaks, text) SIM_OP_##name,
    SIM_OP_MAP(SIM_X)
#undef SIM_X
        SIM_OP_KINDS
};

struct sim_op {
    int64_t at_ns;
    enum sim_op_kind kind;
    uint8_t node;
    int64_t span_ns; /* how long it lasts, or how long until the candidate is back */
    uint64_t pick;   /* what exactly; each kind reads it in its own way */
};

/* How often, in 65536, each thing happens to a request. */
struct sim_odds {
    uint16_t any; /* one of those below happens at all */
    uint16_t lost, deaf, late, twice, slow, cut, refused;
    uint16_t notice_lost, notice_late, notice_twice;
    uint16_t stall;       /* a pause between two duties of one step */
    uint16_t stale;       /* a read shows an older value, where the family allows it */
    uint16_t slow_start;  /* a start callback that takes its time */
    uint16_t state_fault; /* a request to the state's store meets one of the above */
};

struct sim_plan {
    uint64_t seed;
    const struct sim_family *family;
    bool lasting;  /* a long calm history, not a short hostile one */
    bool loose;    /* holds what exclusion is not promised over */
    bool wild;     /* clocks beyond rho: exclusion and liveness are not promised */
    bool guarded;  /* programs under a guard; else a library user, where belief counts */
    bool notifies; /* the store wakes who waits */
    bool blocking; /* while a request is out, nothing else is stepped */
    bool noisy;    /* clocks change their rate all the time */
    bool releaser; /* a guard frees the lease of a dead tenure */
    bool commits;  /* leaders save state */
    bool files;    /* the state is a file per epoch, not a register per document */
    bool product;  /* the state is kept by the product's own code */
    bool purges;   /* what is removed is compacted as well, and its candidates forget it */
    bool swift;    /* as soon as it is free, and again and again */
    bool unsealed; /* the candidate of the last UNSEAL cannot seal it in the calm either, ... */
                   /* ... until somebody leads */
    unsigned nodes;
    uint32_t rho_ppm;
    int64_t hostile_ns; /* faults end here */
    int64_t latency_ns; /* one way, at most, when nothing is wrong */
    unsigned trips;     /* round trips that a lost session takes to be set up again; 0: none */
    int64_t wall_ms;    /* what wall clocks show at the beginning */
    int64_t drain_ns;
    int64_t prove_ns;  /* a silent holder is proved dead after this; 0: never */
    int64_t commit_ns; /* from one commit of a leader to the next */
    struct sim_odds odds;
    struct tn_timing timing[SIM_NODES_MAX]; /* at first */
    struct tn_timing other;                 /* what TIMING changes to, and back */
    int64_t kill_ns[SIM_NODES_MAX];         /* K that holds under either timing */
    int32_t ppm[SIM_NODES_MAX];
    int64_t wall_off_ms[SIM_NODES_MAX];
    unsigned n_ops;
    struct sim_op ops[SIM_OPS_MAX];
};

/* A short hostile history.  family may be NULL: the seed chooses. */
void sim_plan_hostile(struct sim_plan *p, const struct sim_family *family, uint64_t seed);
/* A long one: three candidates, ttl 15 s, days of calm between faults. */
void sim_plan_lasting(struct sim_plan *p, uint64_t seed, int64_t span_ns);

const char *sim_op_word(enum sim_op_kind kind);
const char *sim_op_text(enum sim_op_kind kind);

#endif
