/*
 * sim/jobs/world.h - a group of workers in a modelled world.
 *
 * The workers are the product's: core/jobs/heartbeat.c and core/jobs/worker.c, unchanged.  The
 * world has true time, clocks that drift within rho, a store of registers behind a network that
 * loses, delays and doubles, guards, programs that commit checkpoints, operators, and faults.
 * Everything follows from the seed.
 *
 *   world.c   time, the queue, the history
 *   store.c   the registers, requests and their fate
 *   node.c    a worker's two lanes, its guard, its programs
 *   chaos.c   faults and operators
 *   check.c   J1 to J6
 *   family.c  the model `jobs` of the simulator
 */
#ifndef SIM_JOBS_WORLD_H
#define SIM_JOBS_WORLD_H

#include <stdarg.h>

#include "core/jobs/heartbeat.h"
#include "core/jobs/worker.h"
#include "tests/sim/prng.h"

#define NODES    5
#define IDS      5
#define JOBS     12
#define PAGE     4
#define PAGES    (JOBS / PAGE)
#define KINDS    4 /* requirements */
#define PAST     4 /* values of a register that a restore may bring back */
#define MSGS     160
#define CLASSES  (KINDS + JOBS)
#define NOBODY   UINT32_MAX
#define DRAIN_NS (600 * TN_MS)
#define FOREVER  (INT64_MAX / 4)

struct stamp {
    bool present;
    uint64_t version;
    uint8_t nonce[TENURE_NONCE_SIZE];
    uint8_t prev[TENURE_NONCE_SIZE];
};

struct member_reg {
    struct stamp s;
    struct tn_member m;
};

struct job_reg {
    struct stamp s;
    struct tn_job j;
    uint64_t value; /* the checkpoint: a counter that each commit advances */
};

struct plan_reg {
    struct stamp s;
    struct tn_plan_record p;
    char ids[IDS][TN_MEMBER_ID_MAX + 1];
    uint16_t slots[JOBS];
};

struct catalogue_reg {
    struct stamp s;
    uint64_t revision;
    uint32_t active;
    uint32_t page_revision[PAGES];
};

struct page_reg {
    uint32_t revision;
    struct tn_entry entries[PAGE];
};

enum lane { BEAT, WORK, RELEASER, OPERATOR };
enum what { R_MEMBER, W_MEMBER, LIST, R_PLAN, W_PLAN, R_CATALOGUE, R_JOBS, W_JOBS };

struct msg {
    bool used, echo;
    enum lane lane;
    enum what what;
    unsigned node, life;
    uint32_t no;
    int64_t back_ns; /* below 0: the answer is lost */
    unsigned id;     /* of the member */
    struct tenure_token expect;
    uint8_t nonce[TENURE_NONCE_SIZE];
    struct member_reg member;
    struct plan_reg plan;
    unsigned n;
    uint32_t jobs[JOBS];
    struct tn_job_swap swaps[JOBS];
    uint64_t values[JOBS];
    /* The answer. */
    enum tenure_status status;
    struct tenure_token token;
    enum tenure_status statuses[JOBS];
    struct tenure_token tokens[JOBS];
    struct member_reg members[IDS];
    struct catalogue_reg catalogue;
    struct page_reg pages[PAGES];
    struct job_reg reads[JOBS];
};

struct program {
    bool runs;
    bool strange; /* its register was lost or restored, or its machine froze: beyond J1 */
    uint64_t epoch;
    uint64_t value;     /* the last that it wrote or read */
    int64_t started_ns; /* true time */
    uint32_t gen;
    bool stopping;
    bool committing;
};

enum life { DOWN, UP, STALLED };

struct node {
    unsigned index, id;
    enum life run;
    unsigned life;
    bool guarded, frozen, cut;
    int64_t resume_ns;
    int64_t rate_ppm, offset_ns;
    struct tn_timing timing;
    uint32_t ttl_ms;
    struct tn_heartbeat beat;
    struct tn_worker worker;
    struct tn_peer peers[IDS + 1];
    struct tn_member records[IDS + 1];
    bool counts[IDS + 1];
    struct tn_known known[JOBS];
    struct tn_held held[JOBS];
    char versions[JOBS][24];
    uint64_t scratch[2048];
    uint64_t batch[1024];
    struct program programs[JOBS];
    uint64_t seen_value[JOBS]; /* of the register under the worker's token */
    uint64_t draft_value[JOBS];
    uint32_t page_seen[PAGES];
    uint32_t no, beat_no, work_no;
    bool beat_out, work_out;
    uint32_t beat_timer, work_timer;
    enum tn_work_request asked;
    int64_t guard_ns; /* the published deadline, on the local clock; 0: nothing may run */
    uint32_t guard_gen;
    bool fired;
    bool reaping;                /* the heartbeat waits for REAPED */
    struct tn_identity identity; /* as the guard knows it */
};

enum item_kind {
    I_BEAT_TIMER,
    I_WORK_TIMER,
    I_ARRIVE,
    I_ANSWER,
    I_GIVE_UP,
    I_BELL,
    I_GUARD,
    I_DEATH,
    I_COMMIT,
    I_FAULT,
    I_BOOT,
    I_RESUME,
    I_HEAL,
    I_OPERATOR,
    I_RELEASER,
    I_CALM,
    I_TAIL,
};

struct item {
    int64_t at_ns;
    uint64_t order;
    enum item_kind kind;
    unsigned node;
    uint32_t gen, arg;
};

/* A pause from its first write until it is lifted. */
struct pause {
    uint8_t step;   /* 0: none, 1: catalogue, 2: register, 3: waiting, 4: confirmed */
    uint8_t wanted; /* paused or removed */
    bool lifting;
};

struct world {
    uint64_t seed;
    struct sim_rng rng;
    int64_t now_ns;
    uint64_t events, order;
    bool verbose, failed, calm, done, wild;
    char promise[8], why[200];
    struct item *queue;
    unsigned queue_n, queue_max;

    unsigned nodes, jobs;
    bool fast;          /* a network that leaves little time between two steps */
    bool no_wall;       /* wall clocks that stand still: numbers and epochs rise by one */
    uint32_t batch_max; /* jobs in a request */
    uint32_t batch_min; /* ... and in one to a store that is too slow for them */
    int64_t job_ns;     /* what each job of a request costs the store, until the calm */
    bool labels, limits, twins, weights, shares, standbys, lingers;
    int64_t chaos_ns, longest_ttl_ns, bound_ns, end_ns;
    bool member_lost;
    struct node node[NODES];
    struct member_reg member[IDS], member_past[IDS][PAST];
    struct job_reg job[JOBS], job_past[JOBS][PAST];
    struct plan_reg plan, plan_past[PAST];
    struct catalogue_reg catalogue;
    struct page_reg page[PAGES];
    struct tn_requirements kinds[KINDS];

    /* What was promised. */
    uint64_t last_epoch[JOBS]; /* of the latest start */
    uint64_t acked[JOBS];
    int64_t restored_ns[JOBS]; /* when its register was last lost or restored */
    int64_t member_restored_ns[IDS];
    struct tn_identity lost[IDS]; /* its record was lost, and a namesake does not know of it */
    int64_t admitted_ns[IDS];     /* it may have read before that it was evicted */
    int64_t waits_ns[JOBS];       /* since when it runs nowhere, although it could */
    struct pause pauses[JOBS];
    bool alive_since_plan[IDS];
    bool quiet;      /* J5: nothing moves */
    bool leave_only; /* J5: only the leaver's jobs move */
    unsigned leaver;
    bool leavers[JOBS];
    unsigned settled_s; /* for so many seconds everybody has been settled */
    uint64_t starts, commits, plans, burials;

    struct msg msg[MSGS]; /* the last: only `used` is cleared before a history */
};

/* ---- world.c ------------------------------------------------------------- */
void at(struct world *w, int64_t ns, enum item_kind kind, unsigned node, uint32_t gen,
        uint32_t arg);
int64_t local_of(const struct world *w, const struct node *n);
int64_t true_of(const struct node *n, int64_t local_ns);
uint64_t wall_ms(const struct world *w);
void say(struct world *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
void fail(struct world *w, const char *promise, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Live the history of a seed. */
void world_run(struct world *w, uint64_t seed, bool verbose);
/* Where the lines of a verbose history go; NULL: standard output. */
extern void (*world_line)(int64_t now_ns, const char *line);

static inline bool chance(struct world *w, unsigned percent)
{
    return sim_rng_chance(&w->rng, percent);
}
static inline int64_t span(struct world *w, int64_t low, int64_t high)
{
    return sim_rng_span(&w->rng, low, high);
}
static inline unsigned below(struct world *w, unsigned n)
{
    return (unsigned)sim_rng_below(&w->rng, n);
}
void fresh(struct world *w, uint64_t entropy[2]);

/* ---- store.c ------------------------------------------------------------- */
struct tenure_token token_of(const struct stamp *s);
unsigned id_index(const char *id);
struct msg *msg_new(struct world *w, const struct node *n, enum lane lane, enum what what);
void msg_send(struct world *w, struct msg *m);
void msg_arrive(struct world *w, unsigned index);
bool swap_member(struct world *w, unsigned id, const struct tenure_token *expect,
                 const uint8_t *nonce, const struct tn_member *m);
bool swap_job(struct world *w, unsigned job, const struct tenure_token *expect,
              const uint8_t *nonce, const struct tn_job *j, uint64_t value);
void ring(struct world *w, const struct node *by);

/* ---- node.c -------------------------------------------------------------- */
void node_boot(struct world *w, struct node *n);
void node_crash(struct world *w, struct node *n, bool guarded);
void node_answer(struct world *w, struct msg *m);
void node_item(struct world *w, const struct item *it);
void node_leave(struct world *w, struct node *n);
void node_resume(struct world *w, struct node *n);
bool programs_left(const struct node *n);

/* ---- chaos.c ------------------------------------------------------------- */
void chaos_plan(struct world *w);
void chaos_fault(struct world *w);
void chaos_operate(struct world *w, unsigned job);
void chaos_calm(struct world *w);
void chaos_tail(struct world *w);
void operate_page(struct world *w, unsigned job, const struct tn_entry *e, bool dies);

/* ---- check.c ------------------------------------------------------------- */
void check_start(struct world *w, unsigned node, unsigned job);
void check_stop(struct world *w, unsigned node, unsigned job, bool fenced, int64_t by_ns);
void check_job(struct world *w, unsigned job, const struct job_reg *before);
void check_plan(struct world *w, const struct plan_reg *before);
void check_ack(struct world *w, unsigned job, uint64_t value);
void check_needless(struct world *w, const struct node *n, const char *what);
void check_running(struct world *w);
void check_fair(struct world *w);

#endif
