/*
 * sim/replica/world.h - the nodes of a replicated state in a modelled world.
 *
 * The nodes are the product's: src/core/replica, unchanged.  The world has no time: at every step
 * one of all the things that may happen happens, so a message, a flush or a swap may be early, late
 * or overtaken by anything.  Everything follows from the seed.
 *
 *   world.c   the history: what happens next; faults; the calm after them
 *   node.c    a node's driver: its links, its requests, its process
 *   disk.c    a node's database: transactions that take effect whole or not at all
 *   check.c   the promises, each named by its rule
 */
#ifndef SIM_REPLICA_WORLD_H
#define SIM_REPLICA_WORLD_H

#include "core/replica/replica.h"
#include "tests/sim/prng.h"

#define NODES  5
#define DOCS   7
#define MSGS   48
#define N_MAX  512
#define STATES 1024
#define TERMS  96
#define VALUES 4096

/* A document, or its deletion; n 0: there is none, and nothing is known of one. */
struct doc {
    uint64_t n, epoch;
    uint32_t value; /* one of a kind */
    bool deleted;
};

/* A document in a group: as it is, or that there is none. */
struct carried {
    bool present;
    struct doc doc;
};

struct disk {
    struct tn_copy_head head;
    struct doc doc[DOCS];
    struct carried staged[DOCS];
    bool aside[VALUES / 4]; /* given up by a rewind, and kept: by value */
};

enum what { M_HELLO, M_GROUP, M_ACK, M_REFUSE };

struct msg {
    bool used;
    uint64_t order;
    unsigned from, to;
    enum what what;
    struct tn_hello hello;
    bool wants[DOCS];
    struct tn_group group;
    struct carried docs[DOCS];
    struct tn_replica_ack ack;
    uint64_t epoch;
};

/* The transaction that is being flushed. */
struct flush {
    enum tn_write write;
    struct tn_copy_head head;
    bool fresh;
    enum tn_taking taking;
    uint64_t common;
    struct carried docs[DOCS];
};

struct request {
    enum tn_replica_request kind;
    bool executed;
    struct tenure_token expect;
    uint8_t nonce[TENURE_NONCE_SIZE];
    struct tn_replica_set set;
    bool present;
    enum tenure_status status;
    struct tenure_token token;
};

struct node {
    unsigned index;
    bool up, stopped, hub;
    bool cut;          /* off from the store */
    unsigned upstream; /* NODES: none */
    struct disk disk, backup;
    bool backed_up;
    struct tn_replica core;
    struct flush flush;
    struct request request;
    struct tn_hello asked[NODES]; /* the last hello of each receiver ... */
    bool wants[NODES][DOCS];      /* ... and what it wants */
    uint64_t won;                 /* a lease that the machine has not been told of yet */
    uint64_t acknowledged;
};

/* A state that a primary had. */
struct state {
    uint64_t epoch, n;
    struct doc doc[DOCS];
};

struct term {
    uint64_t epoch;
    struct tn_chain chain; /* when it began */
    uint64_t acknowledged;
};

struct world {
    uint64_t seed;
    struct sim_rng rng;
    uint64_t steps, order;
    bool verbose, failed, calm;
    char promise[8], why[200];

    unsigned nodes; /* with the hub */
    bool hub;
    struct tn_replica_config cfg;
    unsigned chunk; /* documents in a group */
    unsigned loss;  /* percent */
    unsigned trouble;
    struct node node[NODES];
    struct msg msg[MSGS];

    uint64_t lease; /* the last epoch */
    unsigned holder;
    bool held;
    bool outage;
    bool present;
    struct tenure_token token;
    struct tn_replica_set set;
    struct request late; /* a swap that got no answer, and may still land */

    struct state state[STATES];
    unsigned states;
    struct term term[TERMS];
    unsigned terms;
    uint32_t values;
    uint64_t acks, terms_begun, rewinds, snapshots, applied, staged, released;
};

/* ---- world.c ------------------------------------------------------------- */
void rep_run(struct world *w, uint64_t seed, bool verbose);
void rep_say(struct world *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
void rep_fail(struct world *w, const char *promise, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
struct msg *rep_msg(struct world *w, unsigned from, unsigned to, enum what what);
void rep_nonce(struct world *w, uint8_t nonce[TENURE_NONCE_SIZE]);

static inline bool rep_chance(struct world *w, unsigned percent)
{
    return sim_rng_chance(&w->rng, percent);
}
static inline unsigned rep_below(struct world *w, unsigned n)
{
    return (unsigned)sim_rng_below(&w->rng, n);
}

/* ---- node.c -------------------------------------------------------------- */
void rep_boot(struct world *w, struct node *n);
void rep_crash(struct world *w, struct node *n);
void rep_connect(struct world *w, struct node *n, unsigned upstream);
void rep_deliver(struct world *w, struct msg *m);
void rep_flush(struct world *w, struct node *n);
void rep_change(struct world *w, struct node *n);
/* The request reaches the store; its answer reaches the node. */
void rep_execute(struct world *w, struct request *request);
void rep_answer(struct world *w, struct node *n, bool lost);
/* An event without arguments, or with a number. */
void rep_event(struct world *w, struct node *n, enum tn_replica_kind kind, uint64_t number);
void rep_won(struct world *w, struct node *n);
void rep_lost(struct world *w, struct node *n, const uint8_t *id);
static inline bool rep_busy(const struct node *n)
{
    return n->flush.write != TN_WRITE_NOTHING;
}

/* ---- disk.c -------------------------------------------------------------- */
void disk_make(struct world *w, struct disk *d);
/* Read a group: the documents after answer->from, at most `chunk` of them. */
void disk_read(const struct disk *d, const struct tn_answer *answer, const bool *wants,
               unsigned chunk, struct tn_group *group, struct carried docs[DOCS]);
void disk_commit(struct world *w, struct node *n, struct disk *d, const struct flush *f);

/* ---- check.c ------------------------------------------------------------- */
void check_state_made(struct world *w, const struct tn_chain *chain, const struct doc *doc);
void check_copy(struct world *w, const struct node *n);
void check_given_up(struct world *w, const struct disk *before, const struct disk *after);
void check_began(struct world *w, const struct node *n);
void check_acknowledged(struct world *w, const struct node *n, uint64_t to);
void check_register(struct world *w, const struct tn_replica_set *before);
void check_converged(struct world *w);

#endif
