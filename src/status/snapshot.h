/*
 * status/snapshot.h - all that is known of one election at one moment.
 *
 * Taken from a struct tn_election of this process, or received from the process
 * of that election (docs/adr/0017-agent-protocol.md).  JSON, metrics, reasons and
 * health are functions of it.  Nothing in it points anywhere, so it travels as it is;
 * what was received is checked before it is read.
 */
#ifndef TN_STATUS_SNAPSHOT_H
#define TN_STATUS_SNAPSHOT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "driver/snapshot.h"
#include "tenure/history.h"

#define TN_RECENT      60 /* renewals whose time is kept one by one */
#define TN_BUCKETS     13 /* of the histogram, without the last, which holds all */
#define TN_COMMITS     8  /* last commits that are shown */
#define TN_COLLECTIONS 16
#define TN_CANDIDATES  64
#define TN_STATUSES    16

/* Why terms of ours began; the words are in snapshot.c. */
enum tn_cause {
    TN_CAUSE_FIRST,
    TN_CAUSE_HANDOVER,
    TN_CAUSE_RELEASED,
    TN_CAUSE_EXPIRED,
    TN_CAUSE_RECLAIMED,
    TN_CAUSE_CRASHED,
    TN_CAUSE_STEP_DOWN,
    TN_CAUSE_PROVED,
    TN_CAUSES
};
const char *tn_cause_word(enum tn_cause cause);
/* Why a term could begin, as a sentence: beside a leader, "crashed" would be read as said of it. */
const char *tn_cause_text(enum tn_cause cause);

/* What somebody should do something about; the words are in snapshot.c. */
enum tn_warning {
    TN_WARNING_DUPLICATE_ID,
    TN_WARNING_CRASH_LOOP,
    TN_WARNING_PROGRAM_MISSING, /* or cannot be started for another reason */
    TN_WARNING_STORE_FORGOT,
    TN_WARNING_TTL_DIFFERS,
    TN_WARNING_STORE_VOLATILE,
    TN_WARNING_STORE_UNAVAILABLE, /* seen by the driver; the others are reported */
    TN_WARNINGS
};
const char *tn_warning_word(enum tn_warning warning);

/* Upper bounds in nanoseconds. */
extern const int64_t tn_buckets_ns[TN_BUCKETS];

struct tn_commit_record {
    char collection[64], id[96];
    uint64_t seq, at_ms;
};

/* What an election's owner reports: counted and kept under its lock. */
struct tn_election_record {
    uint64_t renewals, failures[TN_STATUSES];
    uint64_t buckets[TN_BUCKETS + 1];
    int64_t renew_sum_ns;
    int64_t recent_ns[TN_RECENT];
    uint32_t recent_n, recent_at; /* how many, and where the next goes */
    uint64_t takeovers[TN_CAUSES];
    uint64_t losses; /* terms of ours that ended unasked */
    char trouble[256];

    uint64_t leader_epoch; /* as last seen */
    uint64_t began_epoch;  /* the last term of ours that began */
    uint64_t ended_epoch;  /* the last that ended */
    char end[96];          /* why */

    uint8_t cause; /* of the current grant */
    uint8_t healthy, has_guard, has_state;
    char unhealthy[160];
    char containment[48];
    uint64_t kills;
    uint64_t exits;                  /* of the program, by itself */
    char warnings[TN_WARNINGS][160]; /* "": nothing to warn of */
    struct {
        uint8_t asked, healthy;
        uint64_t good, bad;
    } probes[2];

    uint64_t commits, fenced;
    char unsealed[160]; /* why the last try to seal it failed; "" if it did not */
    uint64_t unsealed_terms;
    struct tn_commit_record last[TN_COMMITS];
    uint32_t last_n, last_at;
    char collections[TN_COLLECTIONS][64];
    uint32_t n_collections;
};

/* How the reader came by it; not sent. */
enum tn_reach {
    TN_REACH_HERE,         /* it is as recent as it can be */
    TN_REACH_BEHIND,       /* leadership has changed since */
    TN_REACH_UNKNOWN,      /* its process has not answered yet */
    TN_REACH_UNRESPONSIVE, /* its process does not answer */
    TN_REACH_ENDED,        /* there is no process: see fate */
};

struct tn_election_snapshot {
    struct tn_snapshot driver;    /* its name, its id, the lease as it last saw it */
    uint64_t started_ms, changes; /* rises with every change that somebody may wait for */
    int64_t now_ns;               /* CLOCK_BOOTTIME */

    uint8_t leads, running, stopping;
    uint64_t epoch;   /* 0: does not lead */
    int64_t grant_ns; /* until the work must have ended; 0: no grant */
    int64_t left_ns;  /* so long an answer that it leads holds: at most that */
    struct tn_election_record record;
    uint32_t n_candidates, n_healthy; /* known, and those of them that said they are healthy */
    int64_t gap_ms;                   /* before the last term; -1: unknown */
    uint32_t n_listed, n_terms;       /* what follows the struct: candidates, then terms */

    /* Of the reader. */
    uint8_t reach; /* enum tn_reach */
    uint8_t remote;
    uint64_t news; /* changes that its process cannot report itself */
    char fate[200];
};

/* The bytes that it has, with what follows it. */
size_t tn_snapshot_size(uint32_t n_candidates, uint32_t n_terms);
#define TN_SNAPSHOT_MAX                                                                            \
    (sizeof(struct tn_election_snapshot) + TN_CANDIDATES * sizeof(struct tenure_candidate) +       \
     TENURE_TERMS_MAX * sizeof(struct tenure_term_record))
struct tenure_candidate *tn_snapshot_candidates(struct tn_election_snapshot *s);
struct tenure_term_record *tn_snapshot_terms(struct tn_election_snapshot *s);

/* Received from another process.  false: it is no snapshot; else whatever it holds is bounded and
 * can be read, and it says nothing about the reader. */
bool tn_snapshot_check(struct tn_election_snapshot *s, size_t len);

/* Does somebody lead, as far as it has seen? */
bool tn_snapshot_has_leader(const struct tn_election_snapshot *s);
/* "": nothing to warn of. */
const char *tn_snapshot_warning(const struct tn_election_snapshot *s, enum tn_warning warning);
const char *tn_snapshot_role(const struct tn_election_snapshot *s);
/* One sentence on why it leads or does not. */
void tn_snapshot_reason(const struct tn_election_snapshot *s, char *out, size_t size);
/* false: why says what is wrong with it. */
bool tn_snapshot_is_healthy(const struct tn_election_snapshot *s, char *why, size_t size);

/* What docs/reference/openapi.yaml calls Election, Leadership, Terms, Candidates; NULL: out of
 * memory. */
json_t *tn_snapshot_json(struct tn_election_snapshot *s);
json_t *tn_snapshot_json_leadership(const struct tn_election_snapshot *s);
json_t *tn_snapshot_json_history(struct tn_election_snapshot *s);
json_t *tn_snapshot_json_candidates(struct tn_election_snapshot *s);

#endif
