/*
 * core/jobs/worker.h - the work of one worker: a pure state machine.
 *
 *     step(worker, event, actions)
 *
 * The heartbeat (core/jobs/heartbeat.h) keeps the membership; this lane does everything else.  In
 * rounds, one an interval or when the bell rings, it reads the plan, THEN lists the members, THEN
 * reads the catalogue, and from these, in this order, buries the silent, puts placeholders for the
 * lost, plans if the inputs of the plan have changed, reads the registers of newly planned jobs,
 * claims and releases in batches, starts and stops programs.  Commits travel in the same batches.
 *
 * THE CALLER'S DUTIES, after every step:
 *
 *  1. out->stops: tell the program of each job to stop; it must be dead by its out->stop_by_ns.
 *     When it is dead send TN_WORK_STOPPED.  out->fenced says which of them lost their job.  More
 *     than a batch of them come in the steps that follow: out->wake_ns is now.
 *  2. out->starts: start the program of each job with this epoch and grant, unless the guard has
 *     fired.
 *  3. out->committed: tell the program that its checkpoint is stored.  One TN_WORK_COMMIT a job at
 *     a time: the next is sent after this, or never if the job is stopped before.  Those of many
 *     jobs come in one event: they travel in one batch.
 *  4. Copy out->profile (asks, applied) into the heartbeat's.  out->ring: ring the bell.
 *  5. One request at most, giving up at out->request_by_ns; an answer that did not come by then
 *     is TENURE_UNKNOWN for swaps, TENURE_UNAVAILABLE for reads.  A register that is absent is
 *     read as OK with an absent token.
 *  6. TN_WORK_TIMER at out->wake_ns.
 *  7. Before TN_WORK_READ and TN_WORK_SWAPPED: the configuration's versions are wide enough for
 *     each token in it.
 *
 * Every event carries the membership as the heartbeat knows it at now_ns.  What *out points to
 * is the memory of the configuration: jobs, swaps and plan are valid until the request is
 * answered, the other lists until the next step.
 */
#ifndef TN_CORE_JOBS_WORKER_H
#define TN_CORE_JOBS_WORKER_H

#include "core/jobs/job.h"
#include "core/jobs/plan.h"
#include "core/timing.h"

#define TN_WORK_BATCH_MAX   10000u
#define TN_WORK_BATCH_FIRST 1000u /* jobs in the first request, until the pace is known */
#define TN_WORK_BATCH_MIN   64u   /* however slow the store: a request costs more than its jobs */

/* What a job asks of its members; the catalogue's jobs name one of these. */
struct tn_requirements {
    char must[TN_MEMBER_LABELS_MAX + 1];   /* "k=v,k=v": all of these */
    char prefer[TN_MEMBER_LABELS_MAX + 1]; /* better with all of these */
    char pin[TN_MEMBER_ID_MAX + 1];        /* only this member; "": any */
};

/* A job of the catalogue, as its page has it. */
struct tn_entry {
    uint32_t number; /* stable */
    uint32_t weight;
    uint16_t requirements;
    enum tn_wanted wanted;
};

/* The plan register. */
struct tn_plan_record {
    uint64_t seq;
    uint64_t catalogue; /* revision */
    uint64_t digest;    /* of its inputs */
    bool cut;           /* fairer is possible: plan again */
    uint32_t member_count;
    uint32_t job_count;
    const char (*members)[TN_MEMBER_ID_MAX + 1];
    const uint16_t *slots; /* by job number: an index into members, or TN_SLOT_NONE */
};

/* A member as the list showed it, and a job's register as it was read. */
struct tn_listed {
    const char *id;
    struct tenure_token token;
    const struct tn_member *record; /* NULL: it could not be decoded */
};
struct tn_read {
    uint32_t job;
    enum tenure_status status;
    struct tenure_token token;
    uint8_t prev[TENURE_NONCE_SIZE];
    struct tn_job record;
};

enum tn_work_kind {
    TN_WORK_TIMER,
    TN_WORK_BELL,
    TN_WORK_PLAN,      /* status, token, plan (NULL: absent, or it cannot be decoded) */
    TN_WORK_MEMBERS,   /* status, listed[n], in the byte order of their ids */
    TN_WORK_CATALOGUE, /* status, revision, active, job_count, and the changed entries[n] */
    TN_WORK_READ,      /* reads[n] */
    TN_WORK_SWAPPED,   /* statuses and tokens [n] of the batch, in its order */
    TN_WORK_MEMBER_SWAPPED,
    TN_WORK_PLAN_SWAPPED,
    TN_WORK_STOPPED, /* job: its program is dead */
    TN_WORK_COMMIT,  /* jobs[n]: their programs want to commit a checkpoint each */
};

struct tn_work_event {
    enum tn_work_kind kind;
    int64_t now_ns;
    uint64_t wall_ms;
    uint64_t entropy[2];

    bool in;                     /* a member, before its deadline */
    bool leaving;                /* ... that ends its programs, in order to leave */
    int64_t deadline_ns;         /* if in: D, when the guard ends every program */
    struct tn_identity identity; /* if in */

    enum tenure_status status;
    struct tenure_token token;
    unsigned n;
    const struct tn_plan_record *plan;
    const struct tn_listed *listed;
    uint64_t revision;
    uint32_t active;
    uint32_t job_count;
    const struct tn_entry *entries;
    const struct tn_read *reads;
    const enum tenure_status *statuses;
    const struct tenure_token *tokens;
    uint32_t job;
    const uint32_t *jobs;
};

enum tn_work_request {
    TN_WORK_NOTHING,
    TN_WORK_READ_PLAN,
    TN_WORK_LIST_MEMBERS,
    TN_WORK_READ_CATALOGUE,
    TN_WORK_SWAP_MEMBER, /* member_id, expect, nonce, member */
    TN_WORK_SWAP_PLAN,   /* expect, nonce, plan: valid until the next step */
    TN_WORK_READ_JOBS,   /* jobs[n] */
    TN_WORK_SWAP_JOBS,   /* swaps[n] */
};

enum tn_swap_purpose { TN_SWAP_CLAIM, TN_SWAP_COMMIT, TN_SWAP_RELEASE };

struct tn_job_swap {
    uint32_t job;
    enum tn_swap_purpose purpose;
    struct tenure_token expect;
    uint8_t nonce[TENURE_NONCE_SIZE];
    struct tn_job record;
};

struct tn_start {
    uint32_t job;
    uint64_t epoch;
    uint8_t grant[TENURE_NONCE_SIZE];
};

struct tn_work_actions {
    enum tn_work_request request;
    int64_t request_by_ns;
    int64_t wake_ns;
    bool ring;
    unsigned n;
    const uint32_t *jobs;
    const struct tn_job_swap *swaps;
    struct tenure_token expect;
    uint8_t nonce[TENURE_NONCE_SIZE];
    char member_id[TN_MEMBER_ID_MAX + 1];
    struct tn_member member;
    struct tn_plan_record plan;

    unsigned start_count, stop_count, committed_count;
    const struct tn_start *starts;
    const uint32_t *stops;
    const bool *fenced;
    const int64_t *stop_by_ns; /* beside stops: when each must be dead, never after D */
    const uint32_t *committed;
};

/* A job that the catalogue names: 16 bytes. */
struct tn_known {
    uint32_t weight;
    uint32_t held; /* its place in held, and 1; 0: none */
    uint16_t slot; /* planned for this member of the table, or TN_SLOT_NONE */
    uint16_t requirements;
    uint8_t wanted; /* enum tn_wanted */
    bool listed;    /* the catalogue names it */
};

enum tn_program { TN_PROGRAM_NONE, TN_PROGRAM_RUNNING, TN_PROGRAM_STOPPING };

enum tn_request {
    TN_REQUEST_NONE,
    TN_REQUEST_READ, /* due */
    TN_REQUEST_READING,
    TN_REQUEST_SWAP, /* due */
    TN_REQUEST_SWAPPING,
    TN_REQUEST_LATER, /* read it again in the next round */
};

/* A job that this worker owns, claims, or waits for: 88 bytes, and its version beside it. */
struct tn_held {
    uint8_t expect[TENURE_NONCE_SIZE]; /* of the token that the next swap expects */
    uint8_t nonce[TENURE_NONCE_SIZE];  /* of the swap that is out or in doubt */
    uint8_t grant[TENURE_NONCE_SIZE];
    uint64_t epoch;
    uint64_t seq;
    uint64_t number; /* of the incarnation that claims or owns it */
    uint32_t job;
    uint8_t request;  /* enum tn_request */
    uint8_t purpose;  /* enum tn_swap_purpose: of the swap that is due, out or in doubt */
    uint8_t program;  /* enum tn_program */
    uint8_t wanted;   /* enum tn_wanted, by the register */
    bool doubt : 1;   /* a swap under `nonce` may have landed, or may still land */
    bool refused : 1; /* ... but its answer was a conflict */
    bool asked : 1;   /* its owner lives */
    bool commit : 1;  /* the program waits for a commit */
    bool fenced : 1;  /* the register is another's */
    bool stop : 1;    /* its program is to be stopped, and was not told yet */
};

/* The members' table, in the order of their ids; `records` runs beside it. */
struct tn_peer {
    char id[TN_MEMBER_ID_MAX + 1];
    struct tenure_token token;
    int64_t seen_ns; /* when this token was first seen: after that list */
    bool present;
    bool damaged; /* its record cannot be decoded: nobody touches it, or frees its jobs */
};

struct tn_worker_config {
    char id[TN_MEMBER_ID_MAX + 1];
    struct tn_timing timing;
    uint32_t ttl_ms;
    uint32_t members_max, jobs_max, held_max;
    uint32_t class_max;    /* different requirements, and jobs that somebody is unfit for */
    uint32_t version_size; /* the store's versions fit in, with their NUL */
    uint32_t batch_max;    /* jobs in one request, 1 .. TN_WORK_BATCH_MAX, if the store is quick */
    uint32_t batch_min;    /* ... and however slow it is, 1 .. batch_max */
    int64_t drain_ns;      /* how long a planned stop may take */
    const struct tn_requirements *requirements;
    /* The caller's memory. */
    struct tn_peer *peers;
    struct tn_member *records;
    bool *counts;
    struct tn_known *known;
    struct tn_held *held;
    char *versions; /* of held, version_size bytes each: of the token that the next swap expects */
    void *scratch;  /* tn_worker_scratch_size() bytes, aligned for uint64_t */
    void *batch;    /* tn_worker_batch_size() bytes, aligned for uint64_t */
};

enum tn_work_stage {
    TN_STAGE_IDLE,
    TN_STAGE_PLAN,
    TN_STAGE_MEMBERS,
    TN_STAGE_CATALOGUE,
    TN_STAGE_ACT
};

/* The memory of a batch: what the actions point to, and the jobs of the batch that is out. */
struct tn_work_lists {
    struct tn_job_swap *swaps;
    struct tn_start *starts;
    uint32_t *jobs, *stops, *committed, *batch;
    int64_t *stop_by_ns;
    bool *fenced;
};

struct tn_worker {
    struct tn_worker_config cfg;
    int64_t now_ns;
    enum tn_work_stage stage;
    enum tn_work_request out; /* the request that is out */
    bool bell;                /* rung since the round began */
    int64_t round_at_ns;
    int64_t round_began_ns;
    bool served; /* a batch was asked for since the view of this round */

    bool in, leaving;
    int64_t deadline_ns; /* if in */
    struct tn_identity identity;

    uint32_t peer_count;
    uint32_t own; /* the place of its own id in the members' table; peer_count: not there */
    uint32_t job_count;
    uint32_t held_count;
    uint64_t catalogue;
    uint32_t active;

    bool planned; /* the plan was read: there is none, or it could be decoded */
    struct tenure_token plan_token;
    uint64_t plan_seq, plan_digest;
    bool plan_cut;
    uint64_t applied;
    bool needed; /* a plan is needed since need_ns */
    int64_t need_ns;
    bool plan_tried; /* in this round */

    bool orphaned;          /* a job's owner has no record, or too old a one: */
    struct tn_owner orphan; /* it gets a placeholder, with the longest ttl that it may have had */
    uint32_t orphan_ttl_ms;
    uint32_t ask_next;  /* the asks of the profile begin here */
    bool swaps_first;   /* the last request read registers: now swap those that are claimable */
    uint32_t swap_next; /* ... and the next batch of swaps here: nobody is served twice in turn */
    struct tn_member profile;

    uint32_t stops_due; /* programs that are to be stopped, and were not told yet */
    bool reads_due;     /* some register may be due to be read: look for it */
    struct tn_work_lists lists;
    unsigned batch_n; /* the batch that is out */

    uint32_t pace;             /* jobs in the next request: what the store does in good time */
    unsigned asked_n;          /* jobs in the request that is out, */
    int64_t asked_ns, good_ns; /* when it was sent, and its good time */
};

size_t tn_worker_scratch_size(const struct tn_worker_config *cfg);
size_t tn_worker_batch_size(uint32_t batch_max);
void tn_worker_init(struct tn_worker *w, const struct tn_worker_config *cfg);
void tn_worker_step(struct tn_worker *w, const struct tn_work_event *ev,
                    struct tn_work_actions *out);

/* Some program runs, or is being stopped. */
bool tn_worker_busy(const struct tn_worker *w);

#endif
