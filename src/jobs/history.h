/*
 * jobs/history.h - who owned a job when, why it moved, and at which epoch.
 *
 * Each worker has a register of its own, GROUP/history/ID, with the last of what it did:
 *
 *   tenure-history 1 COUNT\n
 *   AT_MS KIND CAUSE EPOCH JOBS NUMBERS OTHER\n        COUNT times, the oldest first
 *
 * One line tells of all jobs to which the same happened together: how many (JOBS), and their
 * numbers as ascending ranges ("0-989,1200"; "-" if there is none; ",+" at the end if they were too
 * many for the line).  EPOCH is 0 if it is about no run, or about runs of several epochs.  OTHER is
 * the worker that had the job, that gets it, or that was buried; it may be empty.
 *
 * For people only: no rule reads it.  Lost or damaged it stops nobody; the next write replaces it.
 */
#ifndef TN_JOBS_HISTORY_H
#define TN_JOBS_HISTORY_H

#include "jobs/driver.h"
#include "jobs/operator.h"

#define TN_HISTORY_KIND       "tenure-history"
#define TN_HISTORY_EVENTS_MAX 256u
#define TN_HISTORY_BYTES_MAX  32768u
#define TN_HISTORY_JOBS_MAX   4096u /* bytes of the numbers in one event */

enum tn_jobs_history_kind {
    TN_HISTORY_CLAIMED,  /* OTHER had it; "": nobody */
    TN_HISTORY_REVOKED,  /* its program was told to end; OTHER gets it */
    TN_HISTORY_RELEASED, /* OTHER gets it */
    TN_HISTORY_LOST,     /* the membership ended, and with it these runs */
    TN_HISTORY_LEAVING,  /* these runs end, because the worker leaves */
    TN_HISTORY_BURIED,   /* the worker OTHER */
    TN_HISTORY_KINDS,
};

/* Those of a plan (enum tn_move_cause), and some more. */
enum tn_jobs_history_cause {
    TN_HISTORY_PINNED = TN_MOVE_CAUSES, /* an operator wants it on OTHER */
    TN_HISTORY_REMOVED,
    TN_HISTORY_FENCED,  /* its register is another's */
    TN_HISTORY_ENDED,   /* its program has ended by itself */
    TN_HISTORY_EXPIRED, /* no renewal was acknowledged in time */
    TN_HISTORY_CAUSES,
};

struct tn_jobs_history_event {
    int64_t at_ms; /* the wall clock of the worker */
    enum tn_jobs_history_kind kind;
    unsigned cause; /* enum tn_move_cause or enum tn_jobs_history_cause */
    uint64_t epoch;
    uint32_t jobs;
    char *numbers; /* malloc'ed text */
    char other[TN_MEMBER_ID_MAX + 1];
};

/* What one register has. */
struct tn_jobs_history {
    struct tn_jobs_history_event *events; /* the oldest first */
    uint32_t count, room;
};

const char *tn_jobs_history_kind_word(enum tn_jobs_history_kind kind);
const char *tn_jobs_history_cause_word(unsigned cause);
/* Append a copy; event->numbers becomes the history's.  false: no memory, numbers are freed. */
bool tn_jobs_history_append(struct tn_jobs_history *history,
                            const struct tn_jobs_history_event *event);
void tn_jobs_history_free(struct tn_jobs_history *history);
/* CORRUPT, UNSUPPORTED: *history untouched. */
enum tenure_status tn_jobs_history_read(const void *data, size_t len,
                                        struct tn_jobs_history *history, struct tenure_error *err);
/* malloc'ed text, or NULL: as many of the last events as `bytes` hold. */
char *tn_jobs_history_text(const struct tn_jobs_history *history, size_t bytes);

/* The ranges one after the other: *at is the numbers at first; false: there is no more. */
bool tn_jobs_history_next_range(const char **at, uint32_t *first, uint32_t *last);
/* Is the job one of them?  Of those that had no room nobody knows. */
enum tn_jobs_history_has { TN_HISTORY_NO, TN_HISTORY_MAYBE, TN_HISTORY_YES };
enum tn_jobs_history_has tn_jobs_history_has(const char *numbers, uint32_t job);

/* ---- Of a group ---------------------------------------------------------- */

struct tn_worker_history {
    char worker[TN_MEMBER_ID_MAX + 1];
    char key[TENURE_KEY_MAX + 1];
    char damage[160]; /* why it cannot be read; "": it can */
    enum tenure_status status;
    struct tn_jobs_history history;
};
struct tn_histories {
    struct tn_worker_history *list;
    uint32_t count, room;
};
enum tenure_status tn_histories_load(const struct tn_jobs *g, struct tn_histories *all,
                                     struct tenure_error *err);
void tn_histories_free(struct tn_histories *all);

#endif
