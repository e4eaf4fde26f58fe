/*
 * jobs/operator.h - what an operator does to a group of jobs (JOBS: Registers, Running).
 *
 * Every verb may be made again: one that died between two of its writes, or whose outcome is not
 * known, leaves something that the same verb completes.  The order of the writes:
 *
 *   add      specification, register, catalogue    nobody is planned for what is not there
 *   pause    catalogue, register, then wait        confirmed: no owner is left
 *   resume   register, catalogue
 *   remove   catalogue, register, then wait; then a tombstone that keeps the epoch, and the
 *            number is free
 *   evict    the member's mark, and nothing else: W later it is buried
 */
#ifndef TN_JOBS_OPERATOR_H
#define TN_JOBS_OPERATOR_H

#include "jobs/catalogue.h"

/* A group, and until when the operator has time. */
struct tn_jobs {
    tenure_store *store;
    const char *name;
    int64_t deadline;   /* of the calls of the store */
    int64_t wait_until; /* for owners; before the deadline, so that a last look is possible */
};

/* ---- Members ------------------------------------------------------------- */

struct tn_listed_member {
    struct tn_member_record record;
    struct tenure_token token;
    char key[TENURE_KEY_MAX + 1];
    char damage[160]; /* why it cannot be read; "": it can */
};

struct tn_members {
    struct tn_listed_member *list; /* in the order of their keys */
    uint32_t count, room;
    char mark[TENURE_VERSION_MAX + 1]; /* for a wait on the prefix */
};

enum tenure_status tn_members_load(const struct tn_jobs *g, struct tn_members *members,
                                   struct tenure_error *err);
void tn_members_free(struct tn_members *members);
/* NULL: there is none of that id that can be read. */
const struct tn_listed_member *tn_members_find(const struct tn_members *members, const char *id);

enum tn_member_edit { TN_MEMBER_DRAIN, TN_MEMBER_UNDRAIN, TN_MEMBER_EVICT, TN_MEMBER_ADMIT };
/* INVALID: there is no such worker. */
enum tenure_status tn_jobs_edit_member(const struct tn_jobs *g, const char *id,
                                       enum tn_member_edit edit, struct tenure_error *err);

/*
 * That incarnation of the worker is dead, and so are its programs: one swap to `left` frees its
 * jobs.  Only its guard may know that.  CONFLICT: the record is another's by now, or marked.
 */
enum tenure_status tn_jobs_member_left(const struct tn_jobs *g, const char *id,
                                       const uint8_t incarnation[TENURE_NONCE_SIZE],
                                       struct tenure_error *err);

/* ---- Jobs ---------------------------------------------------------------- */

struct tn_new_job {
    const char *id, *pin, *must, *prefer; /* never NULL; labels sorted */
    uint32_t weight;
    const void *spec;
    size_t spec_len;
    unsigned entry; /* of what was read, from 1 on */
};

/*
 * Add them; those that are there stay as they are.  *added: how many were not there.  INVALID: an
 * id twice, or more than the store holds, with what fits.
 */
enum tenure_status tn_jobs_add(const struct tn_jobs *g, const struct tn_new_job *jobs, size_t n,
                               size_t *added, struct tenure_error *err);

/* A change of the catalogue alone.  weight 0, pin NULL: stays.  INVALID: no such job. */
enum tenure_status tn_jobs_change(const struct tn_jobs *g, const char *const *ids, size_t n,
                                  uint32_t weight, const char *pin, struct tenure_error *err);

/* What a job is now. */
struct tn_job_now {
    const char *id;
    enum tenure_status status; /* of its register; OK also if it is absent */
    bool absent, tombstone;
    struct tenure_token token;
    struct tn_job job;
    size_t checkpoint_len;
    char damage[160];
};

/* Read the registers of these.  A damaged one is told in its own place. */
enum tenure_status tn_jobs_read(const struct tn_jobs *g, const char *const *ids, size_t n,
                                struct tn_job_now *now, struct tenure_error *err);

/*
 * Pause, resume or remove.  `wait`: until nobody owns any of them, or wait_until; *owned is how
 * many still are.  A removal is complete when *owned is 0.
 */
enum tenure_status tn_jobs_want(const struct tn_jobs *g, const char *const *ids, size_t n,
                                enum tn_wanted wanted, bool wait, size_t *owned,
                                struct tenure_error *err);

/* ---- Repair -------------------------------------------------------------- */

/* Called for each thing that was found, with what was done about it. */
typedef void (*tn_repair_fn)(void *arg, const char *key, const char *what);
/*
 * Complete what an operator has left half done, and replace what is damaged or lost: such a job is
 * paused, because nobody can say whether somebody runs it.  A member whose record is damaged gets a
 * placeholder, a damaged history is emptied.  What was there is kept under GROUP/damaged/.
 */
enum tenure_status tn_jobs_repair(const struct tn_jobs *g, tn_repair_fn told, void *arg,
                                  struct tenure_error *err);

/* ---- The plan ------------------------------------------------------------ */

/* The plan as it is: absent is OK with seq 0. */
enum tenure_status tn_jobs_plan(const struct tn_jobs *g, struct tn_plan_register *plan,
                                struct tenure_token *token, struct tenure_error *err);

/* What a plan of now would be, without the member `without` (may be NULL). */
struct tn_preview {
    uint32_t member_count;
    const char **members; /* that count; they point into tn_members */
    uint16_t *slots;      /* by number of a job: into members */
    uint32_t moved, placed, unplaced;
};
enum tenure_status tn_jobs_preview(const struct tn_catalogue *catalogue,
                                   const struct tn_members *members,
                                   const struct tn_plan_register *plan, const char *without,
                                   struct tn_preview *preview, struct tenure_error *err);
void tn_preview_free(struct tn_preview *preview);
/* May a member run this job, by pin, labels and its own word? */
enum tn_fit tn_jobs_fit(const struct tn_row *row, uint32_t number,
                        const struct tn_member_record *member);

#endif
