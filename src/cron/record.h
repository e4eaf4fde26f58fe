/*
 * cron/record.h - what is kept of a period: that it was begun, by whom, and how it went.
 *
 * A document of the state of NAME, so that only the holder of the lock changes it (I3):
 * "cron/last", the latest period of `tenure cron`, and "once/PERIOD" for each of `tenure once`.
 */
#ifndef TN_CRON_RECORD_H
#define TN_CRON_RECORD_H

#include <stddef.h>
#include <stdint.h>

#include "tenure/status.h"

#define TN_CRON_COLLECTION "cron"
#define TN_CRON_LAST       "last"
#define TN_ONCE_COLLECTION "once"

#define TN_PERIOD_MAX 100

enum tn_period_state {
    TN_PERIOD_NONE,        /* nothing is known */
    TN_PERIOD_FIRST,       /* not run: it had begun before anybody asked for the first time */
    TN_PERIOD_SKIPPED,     /* not run: too late */
    TN_PERIOD_RUNNING,     /* begun; if its holder is gone, it did not end */
    TN_PERIOD_INTERRUPTED, /* begun, and stopped on request */
    TN_PERIOD_FAILED,      /* ended, with a code other than 0 */
    TN_PERIOD_DONE,
    TN_PERIOD_STATES,
};

struct tn_period_record {
    enum tn_period_state state;
    char period[TN_PERIOD_MAX + 1];
    int64_t at_s;   /* `cron`: when the period began, seconds since 1970 */
    int code;       /* of the command, if it has ended */
    uint32_t tries; /* of this period */
    uint64_t epoch;
    uint64_t started_ms, ended_ms; /* 0: not yet */
    char by[128];                  /* the candidate */
    char schedule[128];            /* as it was given there; for people */
};

/* "done", "failed", ... */
const char *tn_period_state_word(enum tn_period_state state);
/* "2026-11-17T03:00:00Z" */
void tn_period_name(int64_t at_s, char out[TN_PERIOD_MAX + 1]);

/* JSON, free() it; NULL: out of memory. */
char *tn_period_record_encode(const struct tn_period_record *r, size_t *len);
/* CORRUPT if it is not one. */
TENURE_CHECKED enum tenure_status tn_period_record_decode(const void *data, size_t len,
                                                          struct tn_period_record *r,
                                                          struct tenure_error *err);

#endif
