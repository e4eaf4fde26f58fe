/*
 * golden_world.h - a tiny world for the timelines: one clock, one register,
 * and a few candidates that run the shipped elector.
 *
 * golden_world.c steps the electors and answers their requests from the
 * register, golden_print.c says what happened and checks each step against
 * the duties in core/elector.h, golden_command.c is the language of the scripts.
 */
#ifndef GOLDEN_WORLD_H
#define GOLDEN_WORLD_H

#include <stdio.h>

#include "core/elector.h"

#define CANDIDATES 4
#define VERSIONS   256 /* values of the register in one script */
#define LIMBO      16  /* requests on their way, of unknown outcome */
#define NAMES      512

/* A value of the register; all zero: absent. */
struct value {
    struct tenure_token token;
    bool tombstone, corrupt, bare; /* bare: a tombstone without a record */
    struct tn_lease record;
};

/* What a candidate asked of the store last. */
struct request {
    bool out, read;
    bool with_floor;
    int64_t sent_ns, by_ns;
    struct tenure_token expect;
    struct value value; /* a swap's; its token holds the nonce */
};

struct candidate {
    char name[16];
    struct tn_elector elector;
    struct tn_elector_config config;
    struct tn_actions last;
    unsigned lives, swaps;
    struct request request;
    bool running;        /* its program is alive */
    bool frozen;         /* takes no step in `run`: a stopped process */
    bool cut;            /* the store cannot be reached in `run` */
    int64_t dies_ns;     /* how long its program takes to stop, in `run` */
    bool sealing;        /* for `run`: the state is to be sealed */
    bool dying;          /* for `run`: its program was told to stop, */
    int64_t death_at_ns; /* and will have stopped by then */
    int64_t shown_ns;    /* the deadline that was printed last */
};

struct world {
    FILE *out;
    unsigned faults; /* lines that began with "!!": --update does not take them */
    int64_t now_ns;
    uint64_t wall_ms;
    uint64_t dice; /* entropy[0] of every step: the jitter */
    uint64_t steps;
    uint64_t floor; /* of the store's epochs */
    bool floor_damaged;
    struct value now;
    struct value past[VERSIONS];
    unsigned versions;
    unsigned edits;
    struct request limbo[LIMBO];
    struct candidate candidates[CANDIDATES];
    unsigned n;
    struct {
        uint8_t nonce[TENURE_NONCE_SIZE];
        char name[24];
    } names[NAMES]; /* of the nonces, in the order of their first use */
    unsigned n_names;
};

/* golden_command.c: obey one line of a script; what happened goes to w->out. */
void world_obey(struct world *w, const char *line);

/* golden_world.c */
void world_event(struct world *w, struct candidate *c, struct tn_event *ev);
void world_wake(struct world *w, struct candidate *c, enum tn_event_kind kind);
/* Answer the request that is out, truthfully. */
void world_answer(struct world *w, struct candidate *c);
/* Answer with status; `applied` says whether a swap takes effect nevertheless. */
void world_answer_as(struct world *w, struct candidate *c, enum tenure_status status, bool applied);
/* A swap of unknown outcome arrives at the store. */
void world_land(struct world *w, const char *name);
/* Somebody else writes the register, under a nonce of that name or (NULL) a fresh one. */
void world_put(struct world *w, const struct value *value, const char *nonce);
void world_run(struct world *w, int64_t until_ns, int64_t latency_ns);
void world_name_nonce(struct world *w, const uint8_t nonce[TENURE_NONCE_SIZE], const char *name);
/* The nonce of that name. */
void world_nonce(struct world *w, const char *name, uint8_t nonce[TENURE_NONCE_SIZE]);

/* golden_print.c */
#define TEXT 64
const char *show_time(int64_t ns, char text[TEXT]);
const char *show_nonce(struct world *w, const uint8_t nonce[TENURE_NONCE_SIZE]);
void print_value(struct world *w, const struct value *value);
void print_line(struct world *w, const char *who, const char *format, ...) TENURE_PRINTF(3, 4);
void print_fault(struct world *w, const char *format, ...) TENURE_PRINTF(2, 3);
void print_actions(struct world *w, struct candidate *c, const struct tn_actions *out);
void check_actions(struct world *w, struct candidate *c, const struct tn_actions *out);

#endif
