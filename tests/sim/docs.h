/*
 * sim/docs.h - the store under the product's state code: a few registers
 * behind a network, as tenure/store.h asks for them (C1 to C6), and those who
 * use them, each on a fiber of its own.
 *
 * What runs on the fibers is src/store/state*.c and src/store/store.c, the
 * very objects of the library: they ask tenure_now(), tenure_nonce() and
 * usleep(), which the linker leads here (client.c), and call the store, which
 * is docs_ops.c.  Every call of a client pauses its fiber; the world's queue
 * decides when, and with which answer, it goes on.
 */
#ifndef SIM_DOCS_H
#define SIM_DOCS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/fence.h"
#include "fiber.h"
#include "plan.h"
#include "tenure/state.h"

#define SIM_REGS      8
#define SIM_REG_BYTES 160
#define SIM_TEXT      24
#define SIM_DOC_PARTS 8 /* requests of one call */
#define SIM_DOC_MSGS  256
#define SIM_VISITORS  3
#define SIM_CLIENTS   (SIM_NODES_MAX + SIM_VISITORS)
#define SIM_BACKUPS   4
#define SIM_REG_PAST  8
#define SIM_NONCES    1024

/* ---- Registers ----------------------------------------------------------- */

struct sim_content {
    struct tenure_token token; /* absent if zero */
    uint8_t prev[TENURE_NONCE_SIZE];
    bool tombstone;
    uint16_t len;
    unsigned char data[SIM_REG_BYTES];
};

/* A value as the checkers read it, with a parser of their own. */
struct sim_reading {
    int64_t at_ns; /* since when it stands */
    bool there;
    bool deleted;
    bool edited;
    struct tn_fence fence;
    uint64_t seq;
    uint32_t id;   /* of its content: sealing keeps it; 0: it never had any */
    uint32_t uid;  /* of the client that made it */
    bool restored; /* from a back-up, instead of something else */
    uint8_t len;
    char text[SIM_TEXT];
};

struct sim_reg {
    char key[40];
    bool root; /* of a collection */
    struct sim_content now;
    /* What the checkers remember. */
    struct sim_reading past[SIM_REG_PAST]; /* the last is what stands */
    unsigned n_past;
    struct tn_fence top; /* the latest it has accepted (I3) */
    uint64_t floor;      /* whoever was told that it is sealed had this epoch */
    bool loose;          /* somebody from before a restore has written below the floor */
    uint32_t writes;     /* by anybody */
};

/* ---- Requests ------------------------------------------------------------ */

/* One request on its way: it outlives its client, and the call that sent it. */
struct sim_doc_part {
    uint16_t next;
    bool used;
    bool read;
    bool echo;    /* a duplicate: nobody waits for its answer */
    bool denied;  /* its client was told that it has not, and never will */
    bool granted; /* sent under a grant; else by an operator */
    uint8_t client;
    uint8_t slot; /* which part of the call */
    uint8_t reg;
    uint32_t uid;    /* of the client */
    uint32_t call;   /* of the client's store calls */
    uint32_t serial; /* of the client's calls to the state */
    uint32_t known;
    bool twin;         /* a duplicate of it is on its way */
    uint32_t restores; /* when its client was born */
    int64_t back_ns;
    enum tenure_status status;
    struct tenure_token expect;
    struct sim_content value; /* out: what to write; back: what was found */
};

struct sim_doc_answer {
    bool there;
    enum tenure_status status;
    struct sim_content value;
};

/* ---- Those who use them -------------------------------------------------- */

/* One document of a commit or an edit, while its call lasts. */
struct sim_try {
    uint8_t reg;
    bool remove;
    bool applied;
    uint64_t seq;
    uint32_t id;
    uint8_t len;
    char text[SIM_TEXT];
};

struct sim_world;

struct sim_client {
    struct sim_fiber fiber;
    struct sim_world *w;
    uint8_t index;
    uint8_t node; /* on whose host it runs */
    bool gone;    /* killed: every call fails at once, until it has unwound */
    bool sealing; /* tenure itself; afterwards it is the program */
    bool granted; /* else an operator */
    bool stalled;
    bool time_up;
    uint32_t uid;
    uint32_t drawn; /* numbers drawn so far */
    uint64_t pick;  /* a visitor's */
    uint8_t errand; /* likewise */
    /* Its store call. */
    uint32_t call;
    unsigned left;    /* answers that it waits for */
    int64_t until_ns; /* of its own clock */
    uint32_t timer;
    struct sim_doc_answer answers[SIM_DOC_PARTS];
    /* Its term. */
    struct tenure_grant grant;
    struct tenure_state *state;
    bool loaded;      /* everything is sealed and was read */
    bool begun;       /* its program runs */
    int64_t begin_ns; /* true time of its first save */
    uint8_t says;     /* what it has to tell its elector */
    uint64_t floor;
    /* What the checkers remember. */
    bool fenced; /* it was told so: final */
    uint32_t serial;
    int64_t began_ns; /* true time at which that call to the state began */
    bool calm;        /* and whether the faults, and what they had left, were over */
    uint32_t restores;
    struct sim_try tries[SIM_DOC_PARTS];
    unsigned n_tries;
    uint32_t known[SIM_REGS];   /* the content that it has seen or written last, by its id */
    uint32_t own[SIM_REGS];     /* writes that were its own */
    uint32_t foreign[SIM_REGS]; /* how often others had written when it last loaded it */
};

struct sim_backup {
    unsigned n_regs;
    uint64_t version;
    struct sim_reg regs[SIM_REGS];
};

struct sim_docs {
    bool together; /* with the lease's store: outages and partitions are the same */
    bool batches;  /* many swaps travel together */
    unsigned n_regs;
    struct sim_reg regs[SIM_REGS];
    struct sim_doc_part parts[SIM_DOC_MSGS];
    unsigned n_parts;
    uint16_t free;
    uint64_t version;
    struct sim_backup backups[SIM_BACKUPS];
    unsigned n_backups;
    bool keeps_backups;
    struct sim_client clients[SIM_CLIENTS];
    uint32_t uids;
    uint32_t drawn; /* nonces so far */
    /* What the checkers remember. */
    uint32_t texts; /* documents' contents so far: each is another */
    uint32_t ids;   /* of contents that took effect */
    uint32_t restores;
    struct tn_fence ever; /* the highest that was ever accepted */
    bool ever_two;        /* by two grants */
    uint64_t nonces[SIM_NONCES];
};

/* ---- docs.c: the store --------------------------------------------------- */

void sim_docs_clear(struct sim_world *w);
/* The history is over: whoever is on a fiber unwinds. */
void sim_docs_end(struct sim_world *w);
/* The register of a key; made if it is new. */
struct sim_reg *sim_docs_reg(struct sim_world *w, const char *key);
/* A request reaches the store; an answer reaches its client. */
void sim_docs_arrive(struct sim_world *w, uint32_t part);
void sim_docs_answer(struct sim_world *w, uint32_t part);
/* Send one request of a client's call.  Returns when its answer is due; SIM_NEVER: not. */
int64_t sim_docs_send(struct sim_world *w, struct sim_client *c, unsigned slot, struct sim_reg *reg,
                      const struct tenure_swap *swap);
/* The whole store is as it was some time ago. */
void sim_docs_restore(struct sim_world *w, uint64_t pick);

/* ---- client.c: a fiber that uses the product ----------------------------- */

/* The one that runs just now; NULL: none. */
struct sim_client *sim_client_self(void);
void sim_client_start(struct sim_world *w, struct sim_client *c, void (*main)(void *arg));
/* Its process is gone: it unwinds at once, and nothing that it does counts. */
void sim_client_kill(struct sim_client *c);
/* From inside: until all answers are there, or until_ns of its own clock. */
void sim_client_wait(struct sim_client *c);
/* From inside: do nothing for so long, by its own clock. */
void sim_client_sleep(struct sim_client *c, int64_t span_ns);
/* From outside: something that it waits for is there. */
void sim_client_ready(struct sim_client *c);
/* From outside: no answer will come; it goes on when its time is up. */
void sim_client_unanswered(struct sim_client *c);
void sim_client_timer(struct sim_world *w, uint32_t index, uint32_t gen);
/* Likewise its own clock, and a number of its own. */
int64_t sim_client_now(const struct sim_client *c);
/* So long from now; long ago if it is gone, so that nothing is begun any more. */
int64_t sim_client_by(const struct sim_client *c, int64_t span_ns);
uint64_t sim_client_draw(struct sim_client *c);

/* ---- docs_ops.c ---------------------------------------------------------- */

/* The URL of this store, registered once. */
const char *sim_docs_url(const struct sim_world *w);

#endif
