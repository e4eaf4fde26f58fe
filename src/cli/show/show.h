/*
 * cli/show/show.h - an election, or all of a store, as JSON and as tables: what
 * `status`, `watch`, `history` and `candidates` have in common.
 */
#ifndef TN_CLI_SHOW_H
#define TN_CLI_SHOW_H

#include <jansson.h>
#include <stdio.h>

#include "cli/cli.h"
#include "tenure/control.h"
#include "tenure/elections.h"
#include "tenure/history.h"
#include "tenure/lease.h"

#define CLI_CANDIDATES_MAX 64

/* ---- What is known ------------------------------------------------------- */

/* One election.  Some 30 KB. */
struct cli_look {
    struct tenure_lease_view lease;
    struct tenure_control control;
    struct tenure_history history;
    struct tenure_candidate candidates[CLI_CANDIDATES_MAX];
    unsigned n_candidates;
    int64_t renewed_ns; /* on our own clock, if we saw it happen; else 0 */
    char partly[256];   /* what of it could not be read; "" */
};

/* All elections of a store. */
struct cli_row {
    struct tenure_election election;
    int64_t renewed_ns; /* as above */
};
struct cli_rows {
    struct cli_row *row;
    size_t n, room;
};

/* For those who go on looking: may it be otherwise later?  Damage may: somebody repairs it. */
bool cli_may_pass(enum tenure_status status);
/* malloc'ed, or NULL. */
struct cli_look *cli_look_new(void);
/* The lease.  A record that the store itself cannot read is a refused one: no failure, somebody may
 * repair it.  May block. */
enum tenure_status cli_lease_look(tenure_store *store, const char *name,
                                  struct tenure_lease_view *view, int64_t deadline,
                                  struct tenure_error *err);
/* Look again.  A failure is one of the lease; l is untouched then.  May block. */
enum tenure_status cli_look_again(struct cli_look *l, tenure_store *store, const char *name,
                                  int64_t deadline, struct tenure_error *err);
/* The same for all.  mark may be NULL. */
enum tenure_status cli_rows_again(struct cli_rows *rows, tenure_store *store,
                                  char mark[TENURE_VERSION_MAX + 1], int64_t deadline,
                                  struct tenure_error *err);
void cli_rows_free(struct cli_rows *rows);

/*
 * What a candidate is.  Who leads is the lease's to say: what a candidate wrote of itself is older,
 * and who was killed has written nothing since.  "former": it thought that it led.
 */
const char *cli_role(const struct tenure_candidate *candidate,
                     const struct tenure_lease_view *lease);
/* Why the term began: as its leader wrote, who knows more than the record does, or else that. */
const char *cli_cause(const struct cli_look *l);
/* The epoch of the term that goes on; 0: none does, or nobody can say. */
uint64_t cli_current(const struct tenure_lease_view *lease);

#define CLI_LEFT_UNKNOWN INT64_MIN

/*
 * What is left of a lease that is held, in ms; 0 or less: it has run out.
 * renewed_ns 0: by the holder's wall clock and ours, which is an estimate.
 */
int64_t cli_left_ms(const struct tenure_lease_view *lease, int64_t renewed_ns);
/* Since it was acquired, by the wall clocks; -1: unknown. */
int64_t cli_age_ms(const struct tenure_lease_view *lease);

/* A wall-clock time, as everywhere: RFC 3339 in UTC; of a table without fractions; 0 is unknown: -.
 */
#define CLI_TIME_SIZE 40
void cli_time(uint64_t unix_ms, char out[CLI_TIME_SIZE]);

/* ---- JSON ---------------------------------------------------------------- */

/* control may be NULL. */
json_t *cli_lease_json(const char *name, const struct tenure_lease_view *lease,
                       const struct tenure_control *control);
json_t *cli_candidate_json(const struct tenure_candidate *candidate,
                           const struct tenure_lease_view *lease);
/* current: the epoch of the lease, if it is held. */
json_t *cli_term_json(const struct tenure_term_record *term, uint64_t current);
/* Print it as one line, and free it.  CLI_OK or CLI_FAILED. */
int cli_print_json(json_t *object);

/* ---- Tables -------------------------------------------------------------- */

/* width: of the terminal; 0: as wide as it takes. */
void cli_table_rows(FILE *to, const struct cli_rows *rows, int width);
void cli_table_candidates(FILE *to, const struct cli_look *l, int width);
/* The newest first, at most so many. */
void cli_table_terms(FILE *to, const struct cli_look *l, unsigned most, int width);
/* Its times as people read them; "-": nobody knows. */
struct cli_term_words {
    bool now;          /* it goes on */
    char lasted[24];   /* "now", or how long */
    char gap[24];      /* how long nobody led before it; "~": by an estimate */
    const char *alarm; /* the colour of gap; "" */
};
void cli_term_words(const struct tenure_history *history, uint32_t i, uint64_t current,
                    struct cli_term_words *out);
/* One line: by whom, since when, why. */
void cli_show_pause(FILE *to, const struct tenure_control *control);

/* 950 ms, 12.3 s, 4.5 min: three figures and a unit. */
void cli_span(int64_t ms, char out[24]);
/* The width of the terminal that stdout is, or 0. */
int cli_width(void);

#endif
