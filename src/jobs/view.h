/*
 * jobs/view.h - what a worker knows of its group, for people: members with their load, its own
 * jobs, those that cannot be placed, and what moved.
 *
 * From any thread.  Nothing here asks the store, and no renewal waits for it: the tables are read
 * under the lock that the work's thread takes when it changes them.
 */
#ifndef TN_JOBS_VIEW_H
#define TN_JOBS_VIEW_H

#include <jansson.h>

#include "jobs/driver.h"

const char *tn_move_cause_word(enum tn_move_cause cause);

/* What GET /v1/jobs answers (docs/reference/http.md), with at most `limit` of its own jobs.  NULL:
 * out of memory. */
json_t *tn_jobs_view(tn_jobs_driver *driver, uint32_t limit);
/* Jobs of the group whose id contains the text, at most `limit` of them.  NULL likewise. */
json_t *tn_jobs_find(tn_jobs_driver *driver, const char *text, uint32_t limit);
/* The weight that would be fair for this worker, by shares and limits; 0: it does not count. */
uint64_t tn_jobs_fair(tn_jobs_driver *driver);

#endif
