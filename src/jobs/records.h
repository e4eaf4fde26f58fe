/*
 * jobs/records.h - the registers of a group of jobs (docs/explanation/jobs.md).
 *
 *   GROUP/job/ID      tenure-job 1 EPOCH GRANT SEQ WANTED NUMBER INCARNATION TTL OWNER\n, then the
 *                     checkpoint; TTL is that of the owner's lease in ms, 0 without an owner
 *   GROUP/member/ID   JSON, as candidates are
 *   GROUP/plan        tenure-plan 1 SEQ CATALOGUE DIGEST CUT MEMBERS JOBS WIDTH\n, a line a member,
 *                     then WIDTH bytes (1 or 2, the low one first) for each number of a job
 *   GROUP/bell        tenure-bell 1 COUNT\n
 *   GROUP/spec/ID     the specification, as it was given
 *
 * WANTED is r (running), p (paused) or x (removed).  The catalogue has a header of its own
 * (jobs/catalogue.h).
 */
#ifndef TN_JOBS_RECORDS_H
#define TN_JOBS_RECORDS_H

#include "core/jobs/job.h"
#include "core/jobs/plan.h"
#include "jobs/line.h"

#define TN_JOB_KIND  "tenure-job"
#define TN_PLAN_KIND "tenure-plan"
#define TN_BELL_KIND "tenure-bell"

/* ---- Ids and labels ------------------------------------------------------ */

#define TN_JOB_ID_MAX 127

/* Why it cannot be the id of a job or a member; NULL: it can. */
const char *tn_jobs_id_fault(const char *id);
/* Make "k=v,k=v" of it, sorted, each key once.  INVALID with words. */
enum tenure_status tn_labels_sort(const char *text, char out[TN_MEMBER_LABELS_MAX + 1],
                                  struct tenure_error *err);
/* Every label of `wanted` is one of `labels`. */
bool tn_labels_have(const char *labels, const char *wanted);

/*
 * Is it the record of something else: of an election, or a line of another kind?  Whose NAME is
 * GROUP/member or GROUP/history has keys among ours, and those are neither read nor replaced.
 * kind: of our first line; "": ours is JSON.
 */
bool tn_jobs_is_foreign(const void *data, size_t len, const char *kind);

/* ---- A job --------------------------------------------------------------- */

#define TN_JOB_HEADER_MAX (TN_MEMBER_ID_MAX + 200)

/* The checkpoint points into data.  CORRUPT, UNSUPPORTED: outputs untouched. */
enum tenure_status tn_job_decode(const void *data, size_t len, struct tn_job *job,
                                 const unsigned char **checkpoint, size_t *checkpoint_len,
                                 struct tenure_error *err);
/* Into out, which has room for TN_JOB_HEADER_MAX and the checkpoint; returns the length. */
size_t tn_job_put(const struct tn_job *job, const void *checkpoint, size_t checkpoint_len,
                  unsigned char *out);

/* ---- A member ------------------------------------------------------------ */

#define TN_MEMBER_RECORD_MAX 4096

/* Beside what the rules need, what people see. */
struct tn_member_record {
    struct tn_member member;
    char id[TN_MEMBER_ID_MAX + 1];
    char host[128];
    char build[32];
    uint64_t renewed_ms; /* the wall clock of its last renewal; for people, never read back */
};

enum tenure_status tn_member_decode(const void *data, size_t len, struct tn_member_record *record,
                                    struct tenure_error *err);
/* malloc'ed JSON, or NULL. */
char *tn_member_encode(const struct tn_member_record *record);

/* ---- The plan ------------------------------------------------------------ */

struct tn_plan_register {
    uint64_t seq;
    uint64_t catalogue; /* its revision */
    uint64_t digest;    /* of the inputs */
    bool cut;           /* fairer is possible: plan again */
    uint32_t member_count;
    uint32_t job_count;
    char (*members)[TN_MEMBER_ID_MAX + 1];
    uint16_t *slots; /* by number of a job: an index into members, or TN_SLOT_NONE */
};

/* *plan is the caller's, for tn_plan_free().  Untouched on failure. */
enum tenure_status tn_plan_decode(const void *data, size_t len, struct tn_plan_register *plan,
                                  struct tenure_error *err);
/* malloc'ed, or NULL; *len bytes. */
unsigned char *tn_plan_encode(const struct tn_plan_register *plan, size_t *len);
void tn_plan_free(struct tn_plan_register *plan);
/* How many bytes a plan of so many jobs and members takes at most. */
size_t tn_plan_size(uint32_t jobs, uint32_t members);

/* ---- The bell ------------------------------------------------------------ */

/* Something has changed: those who wait look again.  A hint: losing it costs one interval. */
void tn_bell_ring(tenure_store *store, const char *group, int64_t deadline);

#endif
