/* core/jobs/job.c - claims, releases, and what the answers of the store mean. */
#include "core/jobs/job.h"

#include <assert.h>
#include <string.h>

static bool same_nonce(const uint8_t *a, const uint8_t *b)
{
    return memcmp(a, b, TENURE_NONCE_SIZE) == 0;
}

bool tn_owner_equal(const struct tn_owner *a, const struct tn_owner *b)
{
    return strcmp(a->id, b->id) == 0 && tn_identity_equal(&a->identity, &b->identity);
}

enum tn_job_state tn_job_state(const struct tn_job *job, const struct tn_owner *own,
                               const struct tn_member *record)
{
    if (job->wanted != TN_WANTED_RUNNING)
        return TN_JOB_UNWANTED;
    if (!tn_job_owned(job))
        return TN_JOB_CLAIMABLE;
    if (tn_owner_equal(&job->owner, own))
        return TN_JOB_OURS;
    switch (tn_owner_fate(&job->owner.identity, record)) {
    case TN_OWNER_GONE:
        return TN_JOB_CLAIMABLE;
    case TN_OWNER_ALIVE:
        return TN_JOB_HELD;
    default:
        return TN_JOB_ORPHANED;
    }
}

bool tn_job_claim(struct tn_job *job, const struct tn_owner *own, uint32_t ttl_ms,
                  const uint8_t grant[TENURE_NONCE_SIZE], uint64_t wall_ms)
{
    uint64_t epoch = tn_epoch_next(job->epoch, wall_ms, 0);

    assert(own->id[0] != '\0' && job->wanted == TN_WANTED_RUNNING);
    if (epoch == 0)
        return false;
    job->owner = *own;
    job->ttl_ms = ttl_ms;
    job->epoch = epoch;
    memcpy(job->grant, grant, sizeof job->grant);
    return true;
}

bool tn_job_is_run(const struct tn_job *job, const struct tn_run *run)
{
    return job->epoch == run->epoch && same_nonce(job->grant, run->grant) &&
           tn_owner_equal(&job->owner, &run->owner);
}

bool tn_job_release(struct tn_job *job, const struct tn_run *run)
{
    if (!tn_job_is_run(job, run))
        return false;
    memset(&job->owner, 0, sizeof job->owner);
    job->ttl_ms = 0;
    return true;
}

enum tn_swap_fate tn_commit_fate(const struct tn_swap_attempt *attempt,
                                 const struct tenure_token *token,
                                 const uint8_t prev[TENURE_NONCE_SIZE], const struct tn_job *job,
                                 const struct tn_run *run)
{
    /* Only owner and incarnation AND epoch tell an operator's edit from a later run of ours. */
    if (!tn_job_is_run(job, run))
        return TN_SWAP_LOST;
    if (same_nonce(token->nonce, attempt->nonce) || same_nonce(prev, attempt->nonce))
        return TN_SWAP_DONE;
    if (!attempt->answered && tenure_token_equal(token, &attempt->base))
        return TN_SWAP_PENDING;
    return TN_SWAP_ADOPT;
}

enum tn_swap_fate tn_claim_fate(const struct tn_swap_attempt *attempt,
                                const struct tenure_token *token, const struct tn_job *job,
                                const struct tn_owner *own)
{
    if (same_nonce(token->nonce, attempt->nonce))
        return TN_SWAP_DONE;
    if (!attempt->answered && tenure_token_equal(token, &attempt->base))
        return TN_SWAP_PENDING;
    return tn_owner_equal(&job->owner, own) ? TN_SWAP_AGAIN : TN_SWAP_LOST;
}
