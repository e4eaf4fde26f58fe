/* jobs/assigned.h - the jobs that a worker has been given, by id and by number. */
#ifndef TN_JOBS_ASSIGNED_H
#define TN_JOBS_ASSIGNED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tenure/store.h"

struct tn_assigned {
    struct tn_assigned *next_of_id, *next_of_number;
    void *own;             /* the owner's of the table: NULL at first, not freed */
    int64_t revoked_by_ns; /* the deadline that revoked() gives, or is about to; 0: none */
    uint64_t epoch;
    uint32_t number;
    bool told : 1; /* assigned() was called, or is being called */
    bool lost : 1; /* ... because the membership is over */
    char id[];
};

struct tn_assigned_table {
    struct tn_assigned **by_id, **by_number;
    size_t buckets, count;
};

/* Add a job; NULL: no memory. */
struct tn_assigned *tn_assigned_add(struct tn_assigned_table *t, const char *id, uint32_t number,
                                    uint64_t epoch);
/* NULL: it is not there. */
struct tn_assigned *tn_assigned_find(const struct tn_assigned_table *t, const char *id);
struct tn_assigned *tn_assigned_of_number(const struct tn_assigned_table *t, uint32_t number);
/* Takes it out, and frees it. */
void tn_assigned_drop(struct tn_assigned_table *t, struct tn_assigned *job);
void tn_assigned_free(struct tn_assigned_table *t);

/* Each of them: for (size_t i = 0; (job = tn_assigned_next(t, &i, job));) */
struct tn_assigned *tn_assigned_next(const struct tn_assigned_table *t, size_t *bucket,
                                     const struct tn_assigned *job);

#endif
