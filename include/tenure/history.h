/*
 * tenure/history.h - who led, when, and why it changed.
 *
 * The register NAME/history holds the last terms of an election.  It is written
 * by who began or ended a term, after the fact and beside the lease: nothing
 * about leadership depends on it, and a term whose writer died early may be
 * missing.  Times are wall-clock times of the machines that wrote them.
 */
#ifndef TENURE_HISTORY_H
#define TENURE_HISTORY_H

#include "store.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TENURE_TERMS_MAX 64

struct tenure_term_record {
    uint64_t epoch;
    char holder[128];
    uint64_t from_ms; /* Unix time */
    uint64_t to_ms;   /* 0: not ended, as far as anybody wrote */
    bool estimated;   /* nobody saw it end: to_ms is when it was last heard of */
    /* Why it began: "first", "handover", "released", "expired", "reclaimed"; "crashed": the guard
     * of the leader before released, which had died. */
    char cause[32];
    char end[96];   /* why it ended, in words; "" */
    int64_t gap_ms; /* from the end of the term before; -1: unknown */
};

struct tenure_history {
    uint32_t size; /* set by TENURE_HISTORY */
    uint32_t n;
    struct tenure_term_record terms[TENURE_TERMS_MAX]; /* by epoch, the newest last */
};

#define TENURE_HISTORY                                                                             \
    {                                                                                              \
        .size = sizeof(struct tenure_history)                                                      \
    }

/* A register that was never written is OK and empty; CORRUPT is told as such.  May block. */
TENURE_API enum tenure_status tenure_history_look(tenure_store *store, const char *name,
                                                  struct tenure_history *history, int64_t deadline,
                                                  struct tenure_error *err);
/*
 * Write a term down, or add to it: a member that is 0 or "" leaves what is
 * there, and an estimate never replaces what somebody saw.  Earlier terms that
 * nobody has ended are ended at heard_ms (0: when this one began), as an
 * estimate.  Terms beyond the last TENURE_TERMS_MAX are forgotten.  What cannot
 * be read is replaced.  May block.
 */
TENURE_CHECKED enum tenure_status tenure_history_note(tenure_store *store, const char *name,
                                                      const struct tenure_term_record *term,
                                                      uint64_t heard_ms, int64_t deadline,
                                                      struct tenure_error *err);

#ifdef __cplusplus
}
#endif
#endif
