/*
 * jobs/driver_inner.h - the handle behind tn_jobs_driver.
 *
 *   driver.c           life, and what others ask
 *   driver_beat.c      the heartbeat's thread
 *   driver_work.c      the work's thread: steps, and the duties after each
 *   driver_requests.c  its requests to the store: plan, members, catalogue
 *   driver_registers.c the registers of jobs
 *   driver_commits.c   checkpoints on their way
 *   driver_table.c     its memory: ids, requirements, checkpoints
 *   driver_moves.c     what a new plan moves, and why: for people
 *   driver_history.c   what was done to the jobs, written down: for people
 *   view.c             what it knows, for people
 */
#ifndef TN_JOBS_DRIVER_INNER_H
#define TN_JOBS_DRIVER_INNER_H

#include <pthread.h>
#include <stdatomic.h>

#include "core/jobs/worker.h"
#include "jobs/catalogue.h"
#include "jobs/driver.h"

/* A checkpoint that is to be stored. */
struct tn_commit {
    struct tn_commit *next;
    uint64_t ticket, epoch;
    uint32_t job;
    bool sent, answered;
    size_t len;
    unsigned char data[];
};

/* Beside what the core keeps of a job that is held (struct tn_held).  There is none if the register
 * has no checkpoint, and nothing else is to be kept. */
struct tn_side {
    struct tn_commit *commits; /* in their order; the first is the one that is due or out */
    uint32_t taken_from;       /* whose job it was: 1 + its place in former_owners; 0: no owner */
    uint32_t checkpoint_len;
    unsigned char checkpoint[]; /* of the register, under the token that the worker has */
};

/* The ids of a page's rows. */
struct tn_id_page {
    uint64_t revision; /* as the page said; 0: not read yet */
    uint32_t count;
    uint32_t *at; /* of each row: where its id begins; the highest bit: it has a specification */
    char *ids;
};
#define TN_ID_SPEC UINT32_C(0x80000000)

/* A start that waits for its specification. */
struct tn_due_start {
    struct tn_start start;
    struct tn_identity identity;
    bool damaged; /* its specification, and that was reported */
};

/* The end of a run, as its owner reports it. */
struct tn_stopped {
    uint32_t job;
    uint64_t epoch;
};

/* What others ask of the work's thread. */
struct tn_inbox {
    struct tn_stopped *stopped;
    size_t stopped_count, stopped_room;
    struct tn_commit *commits, **commits_end;
    bool all_stopped; /* nothing runs: of every job */
};

/* A job that a new plan gives to another member.  Why is known when the members and the catalogue
 * were read too. */
struct tn_pending_move {
    uint32_t job;
    uint32_t from, to; /* places in ids; UINT32_MAX: nobody */
};

/* Moves of one plan that have a cause in common, and the worker that it is about. */
struct tn_move {
    int64_t at_ms;
    uint64_t plan;
    enum tn_move_cause cause;
    uint32_t count;
    bool from_several, to_several;
    char from[TN_MEMBER_ID_MAX + 1], to[TN_MEMBER_ID_MAX + 1]; /* "": nobody */
    char jobs[3][TN_JOB_ID_MAX + 1];                           /* the first of them */
};
#define TN_MOVES_KEPT 128u

struct tn_observed {
    bool on;
    int64_t *since_ms; /* by number of a job: when its program was started here */
    uint32_t since_room;
    struct tn_pending_move *pending;
    size_t pending_count, pending_room;
    char (*ids)[TN_MEMBER_ID_MAX + 1];
    uint32_t id_count;
    uint64_t plan;        /* of what is pending */
    struct tn_move *kept; /* the last ones: a ring */
    uint64_t kept_count;
};

/* What happened and is not written down yet. */
struct tn_record {
    struct tn_recorded *events;
    uint32_t count, room;
    int64_t due_ns;
    bool leaving;               /* that the worker leaves is among them, or was */
    enum tenure_status failing; /* it cannot be written, and that was reported */
};

struct tn_jobs_driver {
    char group[TENURE_KEY_MAX + 1];
    char id[TN_MEMBER_ID_MAX + 1];
    struct tn_member_record self; /* host and build */
    struct tn_jobs_hooks hooks;
    struct tn_timing timing;
    int64_t drain_ns;
    uint32_t data_max;

    pthread_t beat_thread, work_thread;
    bool beat_runs, work_runs;
    int beat_fd, work_fd;                          /* eventfds: something was left */
    enum tenure_status beat_failing, work_failing; /* the last answer */

    /* The heartbeat's thread's own. */
    tenure_store *beat_store;
    struct tenure_value beat_value;
    char beat_key[TENURE_KEY_MAX + 1];

    /* The work's thread's own. */
    tenure_store *work_store;
    struct tn_worker worker;
    struct tn_work_actions actions; /* its request is to be carried out, or being so */
    struct tn_work_actions beside;  /* of a step meanwhile, which asks nothing */
    uint32_t members_max, jobs_max, class_max;
    struct tn_requirements *requirements;
    uint32_t requirement_count, requirement_room;
    uint32_t unfit_total;
    struct tn_id_page *pages;
    uint32_t page_count;
    struct tn_side **sides; /* by number of a job */
    char **former_owners;
    uint32_t former_owner_count;
    uint64_t entropy[64]; /* drawn together; of the last `entropy_left` nobody has seen any */
    unsigned entropy_left;
    struct tn_due_start *due;
    size_t due_count, due_room;
    int64_t due_at_ns;
    struct tenure_watch watches[3];
    char watch_keys[3][TENURE_KEY_MAX + 1];
    bool joined;                 /* as the work's thread knows it */
    struct tn_identity identity; /* ... and as whom */
    bool ring;                   /* the bell is to be rung */
    bool changed;                /* what the status shows of the jobs */
    bool batched;                /* the memory of the batches was used since the last wait */
    struct tenure_read *reads;   /* of the last batch of them, until the next wait */
    unsigned reads_used;
    void *spares[8]; /* arrays of the last batches: the next one needs the same */
    uint32_t *again; /* jobs with a commit that the worker was not told of yet */
    size_t again_count, again_room;
    int64_t oldest_ns;
    struct tn_record record;

    /* Held by the work's thread while it changes worker, requirements, pages or observed, and by
     * whoever else reads them. */
    pthread_mutex_t table_lock;
    struct tn_observed observed;

    pthread_mutex_t hook_lock; /* around start() and stop_all(): no start after a stop of all */
    bool may_start;
    struct tn_identity may_start_as;

    pthread_mutex_t lock;
    bool leave, fired, reaped, halted;
    bool stopped_to_leave, stopped_as_lost, stopped_as_evicted; /* why all was stopped last */
    bool closed;              /* the work's thread has ended: nothing is committed any more */
    struct tn_heartbeat beat; /* the work's thread reads it, and writes the profile */
    struct tn_inbox inbox;
    struct tn_jobs_status status;
};

void tn_jobs_wake(int fd);
void tn_jobs_drain(int fd);
void tn_jobs_trace(tn_jobs_driver *d, struct tn_jobs_trace trace);
/* A request was answered, or not; trouble, another trouble, and its end are told once. */
void tn_jobs_answered(tn_jobs_driver *d, enum tenure_status *failing, const char *doing,
                      enum tenure_status status, const struct tenure_error *err);
void tn_jobs_entropy(uint64_t entropy[2]);

void *tn_jobs_beat_main(void *driver);
void *tn_jobs_work_main(void *driver);

/* ---- driver_requests.c --------------------------------------------------- */

/* What a request came to: the event, and what it points to until the next one. */
struct tn_answer {
    struct tn_work_event event;
    struct tenure_value value;
    struct tn_plan_register plan;
    struct tn_plan_record plan_record;
    struct tn_listed *listed;
    void *members; /* struct tn_members */
    struct tn_entry *entries;
    struct tn_read *reads;
    enum tenure_status *statuses;
    struct tenure_token *tokens;
};
/* Carry out d->actions.request. */
void tn_jobs_request(tn_jobs_driver *d, struct tn_answer *answer);
void tn_answer_free(tn_jobs_driver *d, struct tn_answer *answer);
/* Zeroed, and never of no size; NULL: no memory.  A large one leaves nothing behind when it is
 * freed: what a batch of 10,000 needs is not kept for the next. */
void *tn_jobs_array(size_t n, size_t size);
/* As those two, from and for the spare ones of a driver; what is borrowed may hold anything.  There
 * is always memory, or the process ends: the worker would wait for an answer for ever. */
void *tn_jobs_borrow(tn_jobs_driver *d, size_t n, size_t size);
void tn_jobs_return(tn_jobs_driver *d, void *array);
void tn_jobs_free_spares(tn_jobs_driver *d);
void tn_jobs_array_free(void *array);
/* Nothing in it is needed any more, but it will be used again: a large one gives its memory back.
 */
void tn_jobs_array_clear(void *array);

/* ---- driver_registers.c -------------------------------------------------- */

enum tenure_status tn_jobs_read_registers(tn_jobs_driver *d, struct tn_answer *answer,
                                          struct tenure_error *err);
enum tenure_status tn_jobs_swap_registers(tn_jobs_driver *d, struct tn_answer *answer,
                                          struct tenure_error *err);
void tn_jobs_free_reads(tn_jobs_driver *d);
/* Read specifications: the values are the caller's, empty if there is none. */
enum tenure_status tn_jobs_read_specs(tn_jobs_driver *d, struct tenure_read *reads, size_t n);

/* ---- driver_commits.c ---------------------------------------------------- */

/* Take what was left for the work's thread: it is due with the others in d->again. */
void tn_jobs_add_commit(tn_jobs_driver *d, struct tn_commit *commit);
/* The first commit of a job is stored: say so, and the next one is due. */
void tn_jobs_committed(tn_jobs_driver *d, uint32_t number);
/* The bytes of the first commit are those of the register now. */
void tn_jobs_keep_commit(tn_jobs_driver *d, uint32_t number);
/* Nothing comes of those that wait: UNKNOWN for one that was sent, else FENCED. */
void tn_jobs_fail_commits(tn_jobs_driver *d, uint32_t number, const char *why);

/* ---- driver_work.c ------------------------------------------------------- */

/* Step the worker with this event, and do the duties. */
void tn_jobs_feed(tn_jobs_driver *d, struct tn_work_event *ev);

/* ---- driver_moves.c: under the table's lock ------------------------------ */

/* Before and after the step of an event: what does a new plan move? */
void tn_jobs_moves_before(tn_jobs_driver *d, const struct tn_work_event *ev);
void tn_jobs_moves_after(tn_jobs_driver *d, const struct tn_work_event *ev);
void tn_jobs_moves_started(tn_jobs_driver *d, uint32_t number);
void tn_jobs_moves_free(tn_jobs_driver *d);
/* The place of a member in the worker's table; UINT32_MAX: it is not there. */
uint32_t tn_jobs_peer(const tn_jobs_driver *d, const char *id);

/* Why jobs of this worker are free, by its record. */
enum tn_move_cause tn_jobs_owner_cause(const tn_jobs_driver *d, const char *id);

/* ---- driver_history.c: on the work's thread ------------------------------ */

void tn_jobs_record_started(tn_jobs_driver *d, const struct tn_start *start);
/* Before it is stopped, and before the core knows that it was released. */
void tn_jobs_record_stop(tn_jobs_driver *d, uint32_t job, bool fenced);
void tn_jobs_record_released(tn_jobs_driver *d, uint32_t job, uint64_t epoch);
void tn_jobs_record_buried(tn_jobs_driver *d, const char *id, const struct tn_member *member);
/* Before the step with this event: does the membership end, or the worker begin to leave? */
void tn_jobs_record_membership(tn_jobs_driver *d, const struct tn_work_event *ev);
/* When it is to be written; INT64_MAX: there is nothing. */
int64_t tn_jobs_record_due(const tn_jobs_driver *d);
/* May block for a second, but not after `until`; the last one, of a worker that has left, for five.
 */
void tn_jobs_record_write(tn_jobs_driver *d, int64_t until, bool last);
void tn_jobs_record_free(tn_jobs_driver *d);

/* ---- driver_table.c ------------------------------------------------------ */

/* Room for so many; false: no memory, nothing has changed. */
bool tn_jobs_grow(tn_jobs_driver *d, uint32_t members, uint32_t jobs, uint32_t held,
                  uint32_t classes);
/* Room for versions of so many bytes in those of the jobs that are held. */
void tn_jobs_widen_versions(tn_jobs_driver *d, size_t len);
#define TN_JOBS_VERSION_MIN 16u /* bytes: of most stores they fit, and have room for their NUL */
void tn_jobs_table_free(tn_jobs_driver *d);
/* The id of a job; NULL: no page has named it. */
const char *tn_jobs_id_of(const tn_jobs_driver *d, uint32_t number, bool *has_spec);
/* Its page was read, and names no job of this number (any more). */
bool tn_jobs_is_free(const tn_jobs_driver *d, uint32_t number);
/* Keep the ids of a page, and append its entries. */
bool tn_jobs_keep_page(tn_jobs_driver *d, uint32_t number, const struct tn_page *page,
                       struct tn_entry *entries, unsigned *n);
/* The side record of a job, made if there is none; NULL: no memory. */
struct tn_side *tn_jobs_side(tn_jobs_driver *d, uint32_t number);
/* An array of numbers that grows; there is always room, or the process ends: a job that is not told
 * as dead would never be released. */
void tn_jobs_push(uint32_t **array, size_t *count, size_t *room, uint32_t number);
/* Under the lock. */
void tn_jobs_push_stopped(struct tn_inbox *inbox, uint32_t job, uint64_t epoch);
/* The checkpoint of a job, beside it; false: no memory, nothing has changed. */
bool tn_jobs_set_checkpoint(tn_jobs_driver *d, uint32_t number, const void *checkpoint, size_t len);
/* Whose job it was; "": it had no owner. */
bool tn_jobs_set_former_owner(tn_jobs_driver *d, uint32_t number, const char *id);
/* Without it if there is nothing in it. */
void tn_jobs_trim_side(tn_jobs_driver *d, uint32_t number);
void tn_jobs_drop_side(tn_jobs_driver *d, uint32_t number);

#endif
