/*
 * harness.h - what the checks share: a run, its helpers, and a crew of threads
 * or processes with a piece of shared memory.
 *
 * A check is a function that returns at its first failure.  Values, keys and
 * extra handles belong to the run and are freed after the check, so a check may
 * return anywhere.
 */
#ifndef CF_HARNESS_H
#define CF_HARNESS_H

#include <stdatomic.h>
#include <string.h>

#include "conformance.h"
#include "history.h"

#define CF_JOBS_MAX 16
#define CF_OPS_MAX  16384 /* recorded operations of one job */
#define CF_KEYS_MAX 64
#define CF_TEXT     400

enum cf_needs {
    CF_TWO = 1 << 0,       /* two handles that see the same registers */
    CF_PROCESSES = 1 << 1, /* several processes that do */
    CF_PRIVATE = 1 << 2,   /* handles that do not */
};

struct cf;

struct cf_check {
    const char *name; /* NULL ends a table */
    void (*run)(struct cf *c);
    unsigned needs; /* of enum cf_needs */
};

extern const struct cf_check cf_checks_register[], cf_checks_value[], cf_checks_list[],
    cf_checks_wait[], cf_checks_batch[], cf_checks_reads[], cf_checks_purge[], cf_checks_handle[],
    cf_checks_race[];

/* One thread or process of a crew.  Lives in shared memory. */
struct cf_job {
    unsigned index;
    unsigned total;
    struct cf_shared *shared;
    tenure_store *store; /* its own handle, open while the job runs */
    struct tenure_error err;
    char failure[CF_TEXT]; /* "": it went well */
    uint64_t seed;
    size_t n_ops;
    struct cf_op *ops; /* CF_OPS_MAX of them */
};

typedef void (*cf_job_fn)(struct cf_job *job);

/*
 * Seen by the whole crew.  A process of the crew is a copy of this one as it
 * was before the first check, so whatever a check wants to tell it stands here.
 */
struct cf_shared {
    _Atomic unsigned ready, go, stop, arrived, turn;
    _Atomic uint64_t count[4];
    char key[TENURE_KEY_MAX + 1];
    char prefix[TENURE_KEY_MAX + 1];
    struct tenure_token token;
    uint64_t rounds;
    int64_t until; /* a long check ends about here */
    int64_t call_ns;
    char url[2048];
    cf_job_fn fn;
    struct cf_job jobs[CF_JOBS_MAX];
    struct {
        enum tenure_status status;
        uint8_t nonce[TENURE_NONCE_SIZE];
        struct tenure_token token;
    } answers[CF_JOBS_MAX];
    struct cf_op ops[CF_JOBS_MAX][CF_OPS_MAX];
};

enum cf_mode { CF_THREADS, CF_FORKED };

struct cf {
    const char *url;
    struct tenure_conformance_options opts;
    FILE *out;
    const struct cf_check *check; /* that runs */
    char base[TENURE_KEY_MAX + 1];
    unsigned number; /* of the check */

    tenure_store *a, *b; /* two handles; b is NULL if handles are private */
    struct tenure_store_info info;
    struct tenure_value v, w; /* scratch, freed after each check */
    struct tenure_error err;
    char keys[CF_KEYS_MAX][TENURE_KEY_MAX + 1];
    unsigned n_keys;
    char failure[2 * CF_TEXT];
    char note[120]; /* shown behind "ok" */

    struct cf_shared *shared;
    struct cf_crew *crew;
};

/* ---- Failing ------------------------------------------------------------- */

/* Records the first failure of the check. */
void cf_fail(struct cf *c, const char *format, ...) TENURE_PRINTF(2, 3);
/* "what: expected X, saw Y (text)". */
void cf_fail_status(struct cf *c, const char *what, enum tenure_status want,
                    enum tenure_status seen);
/* The same for a job. */
void cf_job_fail(struct cf_job *job, const char *format, ...) TENURE_PRINTF(2, 3);
void cf_note(struct cf *c, const char *format, ...) TENURE_PRINTF(2, 3);

#define CF_WANT(c, condition, ...)                                                                 \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            cf_fail(c, __VA_ARGS__);                                                               \
            return;                                                                                \
        }                                                                                          \
    } while (0)

#define CF_STATUS(c, call, want, what)                                                             \
    do {                                                                                           \
        enum tenure_status seen_ = (call);                                                         \
        if (seen_ != (want)) {                                                                     \
            cf_fail_status(c, what, want, seen_);                                                  \
            return;                                                                                \
        }                                                                                          \
    } while (0)

/* ---- Calls --------------------------------------------------------------- */

/* A key of this check's own, until the check ends. */
const char *cf_key(struct cf *c, const char *format, ...) TENURE_PRINTF(2, 3);
/* Now plus the time that one call may take. */
int64_t cf_deadline(const struct cf *c);
int64_t cf_after_ms(int64_t ms);
int64_t cf_call_ns(const struct cf *c);

/* A fresh nonce; the process aborts if the system has no random numbers. */
void cf_nonce(uint8_t nonce[TENURE_NONCE_SIZE]);
/*
 * UNKNOWN is an honest answer at any time (C3), so checks of anything else
 * settle it as a client does (I6): the own nonce read back is success, else the
 * swap is sent again under a fresh nonce.  Returns swap->status.
 */
enum tenure_status cf_settle(tenure_store *store, struct tenure_swap *swap, int64_t call_ns,
                             struct tenure_error *err);
/* Swaps and settles. */
enum tenure_status cf_swap(tenure_store *store, struct tenure_swap *swap, int64_t call_ns,
                           struct tenure_error *err);
/* Reads into c->v. */
enum tenure_status cf_read(struct cf *c, tenure_store *store, const char *key);
/* cf_swap() under a fresh nonce; expect NULL creates.  *token (may be NULL) is set if OK. */
enum tenure_status cf_put(struct cf *c, tenure_store *store, const char *key,
                          const struct tenure_token *expect, const void *data, size_t len,
                          struct tenure_token *token);
enum tenure_status cf_erase(struct cf *c, tenure_store *store, const char *key,
                            const struct tenure_token *expect, struct tenure_token *token);
/* c->v is this value, else a failure that says how it differs. */
bool cf_value_is(struct cf *c, const char *what, const struct tenure_token *token, const void *data,
                 size_t len, bool tombstone);
/* A watch of one register. */
struct tenure_watch cf_watch(const char *key, const struct tenure_token *seen);
/* Waits on one register with c->a. */
enum tenure_status cf_wait(struct cf *c, const char *key, const struct tenure_token *seen,
                           int wake_fd, int64_t deadline);

/* A long check: until rounds or time are used up, whichever comes first. */
bool cf_more(const struct cf *c, unsigned done, int64_t until);
int64_t cf_until(const struct cf *c);

void cf_sleep_us(unsigned us);
/* A small fast generator for delays; not for nonces. */
uint32_t cf_random(uint64_t *seed);

/* ---- Crew ---------------------------------------------------------------- */

/* Called before any thread exists.  NULL if the system refuses. */
struct cf_crew *cf_crew_new(struct cf_shared *shared);
void cf_crew_free(struct cf_crew *crew);

/* Clears what the crew shares, and fills in key, rounds, until and call_ns. */
struct cf_shared *cf_crew_prepare(struct cf *c, const char *key);
/* Starts total jobs, each with a handle of its own; they begin together. */
bool cf_crew_start(struct cf *c, enum cf_mode mode, unsigned total, cf_job_fn fn);
/* Waits for all of them; false, and the check fails, if any of them failed. */
bool cf_crew_wait(struct cf *c);
/* Kills the one process of a crew of one with SIGKILL, and reaps it. */
bool cf_crew_kill(struct cf *c);
bool cf_crew_run(struct cf *c, enum cf_mode mode, unsigned total, cf_job_fn fn);

/* For jobs: wait for the others; false if the crew stops. */
bool cf_job_meet(struct cf_job *job);
int64_t cf_job_deadline(const struct cf_job *job);
/* For jobs: a recorded read or swap; NULL if the record is full or the call failed badly. */
struct cf_op *cf_job_read(struct cf_job *job, struct tenure_value *value);
struct cf_op *cf_job_swap(struct cf_job *job, const struct tenure_token *expect,
                          struct tenure_token *token);

#endif
