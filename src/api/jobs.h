/* api/jobs.h - one request that may block, while it is worked on. */
#ifndef TN_API_JOBS_H
#define TN_API_JOBS_H

#include "api/inner.h"

/* The answer's headers are kept with the job: their values belong to the thread. */
#define TN_JOB_HEADERS 4

struct tn_job {
    struct tn_jobs *jobs;
    tn_job_fn run;
    struct tn_election *election; /* of state requests alone; others work on copies */
    char name[TENURE_NAME_MAX + 1];
    char *store, *method, *path, *epoch; /* epoch: the header Tenure-Epoch, or NULL */
    unsigned char *body;
    size_t len;
    bool shared;
    char peer[TN_PEER_MAX]; /* who asked */

    struct tn_http_reply reply;
    char values[TN_JOB_HEADERS][32];
    bool done, forgotten; /* under the lock of jobs */
};

#endif
