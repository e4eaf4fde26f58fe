/*
 * cli/doctor/doctor.h - what the parts of `tenure doctor` share.
 *
 * A check looks at one promise and leaves one finding: a verdict and a sentence
 * for people.  Everything happens on throw-away registers below a prefix of its
 * own; at the end each of them is a tombstone, for a register is never removed
 * (C4 of tenure/store.h).
 */
#ifndef TN_CLI_DOCTOR_H
#define TN_CLI_DOCTOR_H

#include <jansson.h>

#include "cli/cli.h"
#include "cli/doctor/crew.h"
#include "core/timing.h"

enum doctor_verdict {
    DOCTOR_OK,
    DOCTOR_WEAK,     /* it works, with less than one might count on */
    DOCTOR_UNTESTED, /* the store did not let us find out */
    DOCTOR_BROKEN,
};

struct doctor_finding {
    const char *name;
    enum doctor_verdict verdict;
    char text[512];
};

#define DOCTOR_FINDINGS_MAX 24
#define DOCTOR_KEYS_MAX     32
#define DOCTOR_SAMPLES_MAX  400

/* How long something took, again and again. */
struct doctor_samples {
    unsigned n;
    int64_t ns[DOCTOR_SAMPLES_MAX];
};

struct doctor_spread {
    int64_t min_ns, p50_ns, p99_ns, max_ns;
};

/* The clocks at one instant. */
struct doctor_clocks {
    int64_t boot_ns, monotonic_ns, raw_ns, wall_ns;
};

struct doctor {
    const struct cli_verb *verb;
    struct cli_common common;
    const char *url;
    char shown[600]; /* the URL without its secrets */
    bool quick;
    bool strict;

    tenure_store *store;
    struct tenure_store_info info;
    struct tenure_error err; /* of the last call */
    struct tenure_value value;
    struct doctor_crew crew;
    bool misnamed; /* no store can be as the URL says */

    char prefix[48];
    char keys[DOCTOR_KEYS_MAX][96]; /* those that were used */
    unsigned n_keys;
    unsigned left; /* tombstones that stay */

    struct tn_timing timing;
    int64_t margin_ns; /* KILL goes out this long before D; the guard's check finds it out */
    struct doctor_samples swaps, reads, notes;
    struct doctor_clocks start;

    struct doctor_finding findings[DOCTOR_FINDINGS_MAX];
    unsigned n_findings;
    json_t *facts; /* what --json tells besides the findings */
};

/* ---- report.c ------------------------------------------------------------ */

/* The check `name` begins.  It is ok until somebody says otherwise. */
void doctor_begin(struct doctor *d, const char *name);
/* What it did or found.  The worse verdict wins, and keeps its first sentence. */
void doctor_say(struct doctor *d, enum doctor_verdict verdict, const char *format, ...)
    TENURE_PRINTF(3, 4);
/* The last call answered `status`, which no store that can be used would: says so. */
void doctor_say_error(struct doctor *d, const char *what, enum tenure_status status);
/* Is the check that runs still ok? */
bool doctor_well(const struct doctor *d);
/* It is over: print it. */
void doctor_end(struct doctor *d);
/* A paragraph at 80 columns, its first line behind `used` columns that stand there already. */
void doctor_wrap(const char *text, unsigned indent, unsigned used);
/* The last line, or the whole JSON object.  Returns the exit code. */
int doctor_conclude(struct doctor *d);
/* "412 us", "3.1 ms", "2.5 s". */
const char *doctor_time(int64_t ns, char out[24]);

/* ---- register.c: single registers ---------------------------------------- */

/* prefix + name, remembered for the end.  Lives as long as d. */
const char *doctor_key(struct doctor *d, const char *name);
/*
 * A swap with a definite answer: one that is unknown is read back and, if it
 * has not landed, sent again.  token: what is expected, and what is there then.
 */
enum tenure_status doctor_put(struct doctor *d, const char *key, struct tenure_token *token,
                              const char *text, bool tombstone);
/* Into d->value. */
enum tenure_status doctor_read(struct doctor *d, const char *key);
int64_t doctor_by(const struct doctor *d);

void doctor_check_rights(struct doctor *d);
void doctor_check_durability(struct doctor *d);
void doctor_check_price(struct doctor *d);
void doctor_check_conditions(struct doctor *d);
void doctor_check_tombstones(struct doctor *d);
void doctor_check_deadlines(struct doctor *d);
/* Make tombstones of what was used. */
void doctor_tidy(struct doctor *d);

/* ---- many.c: several registers ------------------------------------------- */

void doctor_check_batch(struct doctor *d);
void doctor_check_list(struct doctor *d);

/* ---- race.c, wait.c: several connections ---------------------------------- */

void doctor_check_reads(struct doctor *d);
void doctor_check_contest(struct doctor *d);
void doctor_check_count(struct doctor *d);
void doctor_check_wait(struct doctor *d);
void doctor_check_notify(struct doctor *d);

/* ---- time.c, clock.c, guard.c: time, and this machine ---------------------- */

void doctor_sample(struct doctor_samples *s, int64_t ns);
/* Sorts the samples.  All zero if there are none. */
struct doctor_spread doctor_spread_of(struct doctor_samples *s);
void doctor_check_latency(struct doctor *d);
void doctor_check_session(struct doctor *d);
void doctor_clocks_read(struct doctor_clocks *out);
void doctor_check_clock(struct doctor *d);
void doctor_check_timers(struct doctor *d);
void doctor_check_guard(struct doctor *d);

/* ---- limits.c ------------------------------------------------------------- */

/* What no check can show: what this kind of store cannot promise.  Ends with NULL. */
const char *const *doctor_limits(const char *scheme);

#endif
