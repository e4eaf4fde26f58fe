/*
 * tenure/control.h - an operator's hand on an election: pause, hand over, list.
 *
 * Nothing here touches the lease record.  The register NAME/control holds what
 * is asked of the candidates; each candidate that `tenure run` starts announces
 * itself in NAME/candidates/ID.  Candidates watch the one and answer in the
 * other; so an operator needs the store and nothing else, and no candidate
 * sends heartbeats for the sake of a list.
 *
 *   PAUSE suppresses claims.  Who leads goes on leading for as long as it
 *   renews; nobody takes over.  It never extends a deadline.
 *
 *   A HAND-OVER first CALLS the candidates.  Who stands by and is healthy
 *   answers, so that nobody is chosen who is not there.  Then the leader is
 *   asked to YIELD, to one of them: it drains its program, releases, and the
 *   others hold back for a moment.  If the chosen one dies in between, they
 *   take over all the same.
 *
 * All calls may block until their deadline (CLOCK_BOOTTIME).
 */
#ifndef TENURE_CONTROL_H
#define TENURE_CONTROL_H

#include "store.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a candidate said of itself when it last changed; it may be gone since. */
struct tenure_candidate {
    uint32_t size; /* set by TENURE_CANDIDATE */
    char id[128];
    char state[16]; /* "standby", "leading", "unhealthy", "stopping"; "sealing": it holds the lease,
                     * and cannot seal its state so far; "held-back": it does not contend, because
                     * it stepped down or because another process has its id */
    bool healthy;
    int32_t priority;
    char build[32];
    char address[128];
    char contain[48];       /* how its program is held together */
    char since[40];         /* RFC 3339: when it began to contend */
    char trouble[160];      /* why it does not lead, or gave up; "" */
    char answer[33];        /* the last call that it answered */
    char boot[40];          /* which machine, and which start of it */
    uint64_t started_epoch; /* the last term in which its program was started */
    int64_t started_ns;     /* then, on CLOCK_BOOTTIME of that boot */
    uint64_t started_ms;    /* then, on its wall clock */
    uint64_t ended_epoch;   /* the last term in which its program ended */
    int64_t ended_ns;
    uint64_t ended_ms;
    char page[192];       /* the URL of its page, for people; "": it has none, or not for others */
    char incarnation[33]; /* of its process, in hex: another one under the same id is a duplicate */
};

#define TENURE_CANDIDATE                                                                           \
    {                                                                                              \
        .size = sizeof(struct tenure_candidate)                                                    \
    }

/* Called for each candidate, in the order of their keys.  false: enough. */
typedef bool (*tenure_candidate_fn)(void *arg, const struct tenure_candidate *candidate);

TENURE_API enum tenure_status tenure_candidates(tenure_store *store, const char *name,
                                                tenure_candidate_fn visit, void *arg,
                                                int64_t deadline, struct tenure_error *err);

/* What is asked of the candidates. */
struct tenure_control {
    uint32_t size; /* set by TENURE_CONTROL */
    bool paused;
    char paused_by[128];
    char paused_at[40];
    char reason[160];
    char request[33]; /* the last request's own name; "" if there never was one */
    char kind[16];    /* "call", "yield" */
    char to[128];     /* for whom: a candidate; "" for any */
    uint64_t epoch;   /* yield: the term that is to end */
    int64_t for_ms;   /* yield: do not contend for so long */
    uint64_t roll;    /* rises when a candidate comes, goes or falls ill */
    struct tenure_token token;
};

#define TENURE_CONTROL                                                                             \
    {                                                                                              \
        .size = sizeof(struct tenure_control)                                                      \
    }

/* A register that was never written is OK: nothing is asked.  CORRUPT is told as such. */
TENURE_CHECKED enum tenure_status tenure_control_look(tenure_store *store, const char *name,
                                                      struct tenure_control *control,
                                                      int64_t deadline, struct tenure_error *err);
/* by and reason are for people, and cut to what tenure_control holds; may be NULL. */
TENURE_CHECKED enum tenure_status tenure_control_pause(tenure_store *store, const char *name,
                                                       const char *by, const char *reason,
                                                       int64_t deadline, struct tenure_error *err);
TENURE_CHECKED enum tenure_status tenure_control_resume(tenure_store *store, const char *name,
                                                        int64_t deadline, struct tenure_error *err);
/* An operator's repair: a register that cannot be read, or has no room for a change, is replaced by
 * an empty one.  Any other stays as it is. */
TENURE_CHECKED enum tenure_status tenure_control_reset(tenure_store *store, const char *name,
                                                       int64_t deadline, struct tenure_error *err);

/*
 * Call the candidates (to NULL: all of them) and wait for who answers: the one
 * that was called; or, of all that answer soon after the first, the one with
 * the highest priority.  UNAVAILABLE if none does.
 */
TENURE_CHECKED enum tenure_status tenure_control_call(tenure_store *store, const char *name,
                                                      const char *to,
                                                      struct tenure_candidate *found,
                                                      int64_t deadline, struct tenure_error *err);
/*
 * Ask everybody, the leader too, and give them until deadline; request receives
 * what those who are there have answered (tenure_candidate.answer).
 */
TENURE_CHECKED enum tenure_status tenure_control_ping(tenure_store *store, const char *name,
                                                      int64_t deadline, char request[33],
                                                      struct tenure_error *err);
/* Ask the leader of that epoch to give leadership up: to a candidate (may be NULL: to anyone). */
TENURE_API enum tenure_status tenure_control_yield(tenure_store *store, const char *name,
                                                   uint64_t epoch, const char *to, int64_t for_ms,
                                                   int64_t deadline, struct tenure_error *err);

struct tenure_handover {
    uint32_t size; /* set by TENURE_HANDOVER */
    char from[128];
    char to[128]; /* who leads now */
    uint64_t epoch;
    int64_t gap_ns;  /* from the end of the old program to the start of the new one; -1: unknown */
    bool same_clock; /* both on one machine: the gap is exact */
    bool as_asked;   /* it is the candidate that was chosen */
};

#define TENURE_HANDOVER                                                                            \
    {                                                                                              \
        .size = sizeof(struct tenure_handover)                                                     \
    }

/*
 * The whole of it: call, yield, and wait until another one leads.  to NULL: the
 * best one that waits.  NOT_LEADER if nobody leads; UNAVAILABLE if nobody
 * waits, and then nothing was changed; CONFLICT if it is paused.
 */
TENURE_CHECKED enum tenure_status tenure_handover(tenure_store *store, const char *name,
                                                  const char *to, struct tenure_handover *result,
                                                  int64_t deadline, struct tenure_error *err);

#ifdef __cplusplus
}
#endif
#endif
