/*
 * sim/parts.h - what a simulated world is made of: the register, messages, a
 * candidate with its driver, program and guard, the state's store.
 */
#ifndef SIM_PARTS_H
#define SIM_PARTS_H

#include <stdbool.h>
#include <stdint.h>

#include "clock.h"
#include "core/elector.h"
#include "plan.h"

#define SIM_MSGS_MAX 512
#define SIM_MAIL_MAX 48
#define SIM_PAST_MAX 8
#define SIM_DOCS     3

/* ---- The lease's register, as it really is ------------------------------- */

struct sim_value {
    struct tenure_token token; /* absent if zero */
    bool tombstone;
    bool corrupt;
    bool has_record;
    struct tn_lease lease;
    /* What no candidate can see. */
    uint32_t serial; /* of the grant it shows; 0: none */
    int64_t sent_ns; /* the writer's clock when it asked for this */
    int64_t hold_ns; /* D of the timing it was written under */
};

#define SIM_NOBODY   0xff /* has the advisory lock */
#define SIM_STRANGER 0xfe

/* One `tenure remove --compact`: the tombstone that it has found. */
struct sim_compaction {
    struct tenure_token token;
    struct tn_lease tombstone;
    unsigned steps;
};
#define SIM_COMPACTIONS_MAX 32

struct sim_store {
    struct sim_value now;
    struct sim_value past[SIM_PAST_MAX]; /* kept only if the plan may need it */
    unsigned n_past;
    uint64_t version;
    int64_t down_until_ns;
    bool down_refuses; /* else it is silent */
    uint64_t removal;  /* asked for: as soon as the lease is free; 0: none is */
    uint64_t floor;    /* of epochs: those of tombstones that were deleted are not above it */
    uint32_t age;      /* so many were */
    struct sim_compaction compactions[SIM_COMPACTIONS_MAX];
    unsigned n_compactions;
    /* After a fail-over some candidates still talk to the old server. */
    struct sim_value split;
    uint16_t split_nodes;
    int64_t split_until_ns;
    /* Numbered slots: those from low to the highest are there. */
    uint64_t low;
    uint64_t noted; /* was the highest ... */
    int64_t noted_ns;
    /* The advisory lock, and the session that has it. */
    uint8_t lock_owner;
    uint32_t lock_life;
};

/* ---- Messages ------------------------------------------------------------ */

struct sim_msg {
    uint16_t next; /* free list */
    uint8_t node;
    bool read;
    bool echo; /* a duplicate: nobody waits for its answer */
    uint32_t life;
    uint32_t no;
    int64_t wait_ns; /* until it leaves: its session is being set up */
    int64_t back_ns; /* until its answer arrives; -1: the answer is lost */
    uint8_t stage;   /* the family's: how far it has come */
    bool made;       /* likewise: what the server did */
    bool follows;
    int64_t seen_ns;
    int64_t link_ns;
    enum tn_purpose purpose;
    int64_t sent_ns;
    int64_t hold_ns;
    struct tenure_token expect;
    uint8_t nonce[TENURE_NONCE_SIZE];
    uint8_t incarnation[TENURE_NONCE_SIZE]; /* RELEASE: of which process ... */
    uint8_t grant[TENURE_NONCE_SIZE];       /* ... and of which grant */
    struct tn_lease record;
};

/* What befalls one request. */
struct sim_fate {
    bool hostile;
    int64_t out_ns;   /* until it reaches the store; -1: never */
    int64_t back_ns;  /* until the answer is back; -1: never */
    int64_t twice_ns; /* a second copy arrives then; -1: none */
    int64_t cut_ns;   /* the connection breaks then, outcome unknown; -1: it does not */
    bool refused;     /* answered at once: not applied, never will be */
};

/* ---- A candidate --------------------------------------------------------- */

enum sim_run { SIM_DOWN, SIM_UP, SIM_PAUSED };

/* The one request that a driver has out. */
struct sim_request {
    bool out;
    bool read;
    bool answered; /* the members below hold what the store said */
    uint32_t no;
    enum tn_purpose purpose;
    int64_t sent_ns; /* the elector's now when it asked */
    int64_t hold_ns;
    int64_t grace_ns;
    int64_t by_ns;
    int64_t answer_ns; /* true time at which the answer is there; if answered */
    bool late;         /* a session was set up first: no answer in time says nothing about it */
    enum tenure_status status;
    struct sim_value seen;
    uint64_t floor; /* of epochs, read with it */
};

/* Something that waits to be stepped. */
struct sim_mail {
    enum tn_event_kind kind;
    uint32_t tag; /* READ, SWAPPED: the request; TIMER, CHANGED: the wait */
    enum tenure_status status;
    uint8_t grant[TENURE_NONCE_SIZE];
    uint64_t floor;
    int64_t until_ns;
    bool may_claim;
    bool final;
    const struct tn_timing *timing;
};

enum sim_prog { SIM_PROG_NONE, SIM_PROG_ALIVE, SIM_PROG_DYING };

/* A program and the guard over it.  It may outlive the tenure that started it. */
struct sim_body {
    enum sim_prog prog;
    bool fired;
    bool told;    /* tenure knows that it fired */
    bool orphan;  /* tenure is dead */
    bool stopped; /* (guard) SIGSTOP: it acts when it is continued */
    uint32_t serial;
    uint8_t grant[TENURE_NONCE_SIZE];
    uint8_t incarnation[TENURE_NONCE_SIZE];
    int64_t deadline_ns; /* what the guard enforces; 0: nothing may run */
    int64_t alarm_ns;    /* true time of the timer that is set; 0: none */
    uint32_t alarm_gen;
    int64_t dead_ns; /* true time at which it will be dead; 0: not known */
    uint32_t dead_gen;
    int64_t kill_ns; /* K: it dies within this of a KILL */
};

/* A leader's side of the fenced state. */
struct sim_saver {
    bool active;
    bool sealing;
    bool reading;
    bool waiting; /* a request is out */
    uint8_t doc;
    uint32_t no;  /* of its requests, over all lives */
    uint32_t gen; /* of this term */
    uint64_t epoch;
    uint8_t grant[TENURE_NONCE_SIZE];
    uint64_t version[SIM_DOCS]; /* as last seen */
    uint64_t nonce[SIM_DOCS];
    uint64_t data[SIM_DOCS];
    uint64_t tried; /* nonce of the request that is out or unknown */
    uint64_t tried_data;
    uint8_t stage;             /* files: what it does next */
    uint8_t turn;              /* files: which half of its file was written last */
    int64_t unsealed_until_ns; /* true time: until then it cannot seal ... */
    bool unsealed_final;       /* ... and says that nobody but a person can help */
};

/* A holder whose record a candidate has read in this life. */
#define SIM_KNOWN_MAX 4
struct sim_known {
    struct tenure_token token;
    uint32_t serial; /* of its grant; 0: nobody */
    uint32_t ttl_ms;
    uint64_t epoch;
    uint8_t incarnation[TENURE_NONCE_SIZE];
    int64_t lost_ns; /* true time of the look that found its record to have gone back; 0: none */
};

/* What the checkers remember of a candidate. */
struct sim_facts {
    uint32_t serial;         /* of the grant in hand; 0: none */
    uint32_t claim_no;       /* the request that made it */
    int64_t believed_ns;     /* the model's own D, from what was acknowledged (I12) */
    int64_t stop_ns;         /* when renewals that fail lead to a stop, likewise */
    int64_t excuse_ns;       /* true time of the last thing that may cost leadership */
    int64_t acked_ns;        /* true time at which the last acknowledged request was sent */
    int64_t request_ns;      /* true time of the step that asked for the current request */
    int64_t exempt_until_ns; /* true time: exclusion is not promised for it before */
    uint32_t exempt_no;      /* nor for grants whose claim is not later than this request */
    int64_t published_ns;    /* the deadline after the last step */
    enum tn_phase phase;     /* after the last step */
    uint64_t nonces[8];      /* of its last requests (I6) */
    bool ordered;            /* asked to yield, or its program ended */
    bool ending;             /* asked to end */
    bool unsealed_final;     /* it was told that its state cannot be sealed, and never will be */
    int64_t seal_by_ns;      /* a ttl after it won: before that, no other seal is given up */
    struct sim_known known[SIM_KNOWN_MAX];
    unsigned n_known; /* the newest overwrites the oldest */
};

struct sim_node {
    uint8_t index;
    enum sim_run run;
    bool ended;    /* halted: by its own choice */
    bool busy;     /* inside pump */
    bool stalled;  /* paused between two duties */
    uint32_t life; /* how many processes it has been */
    uint32_t steps;
    int64_t step_ns; /* true time of the last one */
    uint32_t notices;
    uint32_t pauses;
    int64_t resume_ns;
    bool frozen; /* its clock stands still while paused */
    int64_t frozen_ns;
    bool suspended;
    bool cut; /* partitioned from the store */
    bool may_claim;
    bool proving;      /* a command of this life is under way */
    bool switched_off; /* and has done its work */
    uint32_t proofs;
    struct sim_clock clock;
    int32_t ppm;
    int64_t wall_off_ms;
    const struct tn_timing *timing;
    struct tn_elector elector;
    struct tn_actions out;
    unsigned duty; /* the next one of the last step; SIM_DUTIES: all done */
    unsigned stall_duty;
    int64_t stall_ns;
    struct sim_request req;
    bool session;       /* with the store; kept by plans that have them */
    int64_t session_ns; /* true time at which the one that is being set up stands; 0: none is */
    uint64_t hint;      /* highest slot it knows of */
    bool waiting;
    uint32_t wait_gen;
    int64_t wake_ns; /* true time of the timer that is set; 0: none */
    uint32_t wake_gen;
    unsigned n_mail;
    struct sim_mail mail[SIM_MAIL_MAX];
    struct sim_body body;
    struct sim_body ghost; /* of the process before */
    struct sim_saver saver;
    struct sim_facts facts;
};
#define SIM_DUTIES 6

/* ---- The fenced state's own store ---------------------------------------- */

struct sim_doc {
    uint64_t version; /* 0: absent */
    uint64_t nonce;
    uint64_t epoch;
    uint8_t grant[TENURE_NONCE_SIZE];
    uint64_t data; /* how many commits it holds */
    bool tombstone;
};

struct sim_doc_msg {
    uint16_t next;
    uint8_t node;
    uint8_t doc;
    bool read;
    uint32_t no;
    int64_t back_ns;
    uint64_t expect_version, expect_nonce;
    struct sim_doc value; /* out: what to write; back: what was found */
    enum tenure_status status;
};

/* The state as a file per epoch, on one disk (SAFETY: State). */
#define SIM_FILES_MAX 256
struct sim_file {
    uint64_t epoch;
    uint8_t grant[TENURE_NONCE_SIZE];
    uint64_t data[2]; /* two halves, written in turn */
    bool whole[2];
};

struct sim_state {
    struct sim_file files[SIM_FILES_MAX]; /* epochs rise */
    unsigned n_files;
    struct sim_doc docs[SIM_DOCS];
    struct sim_doc_msg msgs[SIM_MSGS_MAX];
    uint16_t free;
    uint64_t version;
    /* The checkers' memory: the highest (epoch, grant) that each has accepted (I3). */
    uint64_t top_epoch[SIM_DOCS];
    uint8_t top_grant[SIM_DOCS][TENURE_NONCE_SIZE];
    uint64_t acked_epoch[SIM_DOCS];
    uint64_t acked_data[SIM_DOCS];
};

#endif
