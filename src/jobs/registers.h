/* jobs/registers.h - the registers of many jobs, read and changed in batches. */
#ifndef TN_JOBS_REGISTERS_H
#define TN_JOBS_REGISTERS_H

#include "jobs/operator.h"

#define TN_REGISTERS_AT_ONCE 5000u

/* What is to become of a job's register. */
enum tn_register_edit {
    TN_REGISTER_STAYS,
    TN_REGISTER_CHANGES,
    TN_REGISTER_ENDS /* a tombstone */
};

/*
 * Decide about one: *job is what was read, and what is to be written.  `now` tells the rest.
 * A failure ends all of it.
 */
typedef enum tenure_status (*tn_register_fn)(void *arg, const struct tn_job_now *now,
                                             struct tn_job *job, enum tn_register_edit *edit,
                                             struct tenure_error *err);

/*
 * Read, decide and swap until each is done; what somebody else has changed meanwhile is read
 * again.  A register that is absent is created if it changes.  The checkpoint stays as it was read,
 * but a tombstone has none.
 */
enum tenure_status tn_registers_edit(const struct tn_jobs *g, const char *const *ids, size_t n,
                                     tn_register_fn decide, void *arg, struct tenure_error *err);

/* "GROUP/job/ID is lost", or damaged and how: the words for it. */
enum tenure_status tn_register_fault(const struct tn_jobs *g, const struct tn_job_now *now,
                                     struct tenure_error *err);

#endif
