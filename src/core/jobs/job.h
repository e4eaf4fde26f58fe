/*
 * core/jobs/job.h - the register of a job: who owns it, when it may be claimed, and what a
 * swap's answer means (JOBS: Claims; Running, commit, release).
 *
 * The register is the truth about a job: its claim is its seal.  Every change is one swap on the
 * exact token that was read, and carries the checkpoint's bytes as they were read; they stay
 * outside of this struct.
 */
#ifndef TN_CORE_JOBS_JOB_H
#define TN_CORE_JOBS_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "core/jobs/member.h"

enum tn_wanted { TN_WANTED_RUNNING, TN_WANTED_PAUSED, TN_WANTED_REMOVED };

/* A member by its id, and which of its incarnations. */
struct tn_owner {
    char id[TN_MEMBER_ID_MAX + 1]; /* "": nobody */
    struct tn_identity identity;
};

struct tn_job {
    struct tn_owner owner;
    uint32_t ttl_ms; /* of its lease: how long it may live on if its record is lost */
    uint64_t epoch;  /* of the latest claim; a release and a removal keep it */
    uint8_t grant[TENURE_NONCE_SIZE]; /* one per claim */
    uint64_t seq;                     /* how many checkpoints were committed */
    enum tn_wanted wanted;
};

static inline bool tn_job_owned(const struct tn_job *job)
{
    return job->owner.id[0] != '\0';
}

bool tn_owner_equal(const struct tn_owner *a, const struct tn_owner *b);

/* What a worker that is planned for a job, and does not run it, finds in its register. */
enum tn_job_state {
    TN_JOB_CLAIMABLE, /* by one swap on its exact token */
    TN_JOB_OURS,      /* a claim of this incarnation that nothing runs under: claim it again */
    TN_JOB_UNWANTED,  /* paused or removed */
    TN_JOB_HELD,      /* its owner lives, as far as is known: ask for it, never take it */
    TN_JOB_ORPHANED,  /* its owner's record is absent or too old: put a placeholder there */
};

/* `record`: the member record of the owner's id, NULL if there is none. */
enum tn_job_state tn_job_state(const struct tn_job *job, const struct tn_owner *own,
                               const struct tn_member *record);

/*
 * Make `job`, as read, the next claim: epoch max(stored + 1, wall-clock ms), a fresh grant.
 * False: no epoch is left, an operator must help; job is untouched.
 */
bool tn_job_claim(struct tn_job *job, const struct tn_owner *own, uint32_t ttl_ms,
                  const uint8_t grant[TENURE_NONCE_SIZE], uint64_t wall_ms);

/* One run of a job by this worker. */
struct tn_run {
    struct tn_owner owner;
    uint64_t epoch;
    uint8_t grant[TENURE_NONCE_SIZE];
};

/* The register shows this very run: owner, incarnation, epoch and grant. */
bool tn_job_is_run(const struct tn_job *job, const struct tn_run *run);

/*
 * Make `job`, as read, the release of `run`: no owner, epoch and checkpoint stay.  Only after the
 * program is dead, and by a swap on the token read.  False: it is not that run's any more.
 */
bool tn_job_release(struct tn_job *job, const struct tn_run *run);

/* What a swap that did not answer OK, or not at all, has come to, by a read after it. */
enum tn_swap_fate {
    TN_SWAP_DONE,    /* it took effect */
    TN_SWAP_PENDING, /* the register is unchanged: it may still land; only a swap on it decides */
    TN_SWAP_ADOPT,   /* an operator's edit came between: go on with what was read */
    TN_SWAP_LOST,    /* a commit is FENCED; a claim was superseded */
    TN_SWAP_AGAIN,   /* a claim: of this incarnation, but under no pending nonce: a new epoch */
};

/*
 * A swap of ours: the token that it expected and the nonce that it wrote.  `answered`: with a
 * conflict, so that it cannot land any more; otherwise its outcome is unknown.
 */
struct tn_swap_attempt {
    struct tenure_token base;
    uint8_t nonce[TENURE_NONCE_SIZE];
    bool answered;
};

/*
 * A commit by `run`.  `prev` is the nonce that the register's value replaced: it recognises a
 * commit that an operator's edit has overwritten since.
 */
enum tn_swap_fate tn_commit_fate(const struct tn_swap_attempt *attempt,
                                 const struct tenure_token *token,
                                 const uint8_t prev[TENURE_NONCE_SIZE], const struct tn_job *job,
                                 const struct tn_run *run);

/* A claim by `own`, which nothing runs under yet. */
enum tn_swap_fate tn_claim_fate(const struct tn_swap_attempt *attempt,
                                const struct tenure_token *token, const struct tn_job *job,
                                const struct tn_owner *own);

#endif
