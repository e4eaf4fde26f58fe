/*
 * status/election.h - what one election looks like from this process.
 *
 * Its owner (the supervisor of `tenure run`, or `tenure agent`) tells what
 * happens; the HTTP server, the metrics and the history read it.  One listener
 * (api/api.h) serves any number of these.
 *
 * HOW AN OWNER USES IT
 *   1. new() before the elector; in the elector's options let `trace` call
 *      tn_election_trace(), and in the driver's control hook call
 *      tn_election_control().
 *   2. attach() the elector when it has started.
 *   3. began() and ended() from started() and stopped(), or later.
 *   4. attach(NULL) after the API was stopped and before tenure_elector_stop();
 *      free() last.
 *
 * THREADS.  Every call may come from any thread.  None of the telling calls
 * does I/O or waits for more than a copy in memory, so the driver's thread may
 * make them: whoever asks over HTTP cannot delay a renewal.
 */
#ifndef TN_STATUS_ELECTION_H
#define TN_STATUS_ELECTION_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "http/module.h"
#include "status/facts.h"
#include "tenure/control.h"
#include "tenure/elector.h"
#include "tenure/history.h"

struct tn_election;

struct tn_election_options {
    const char *name;
    const char *store;   /* URL; where candidates, history and orders are kept */
    const char *address; /* of this candidate; may be NULL */
    const char *build;   /* may be NULL */
    int32_t priority;
    int64_t answer_ns;        /* an answer that we lead holds so long at most; 0: until D */
    int64_t ttl_ms, renew_ms; /* 0: what the elector chooses by default */
    struct tn_facts *facts;   /* what an agent is shown; its times are the driver's; may be NULL */
    /* Others can see that store.  false (noop:, memory:): nothing is written. */
    bool shared;
};

/*
 * An election of another process (agent/hub.h): who is asked instead of us.  Each may be
 * called on any thread, and none blocks.
 */
struct tn_election_far {
    bool (*leads)(void *arg);
    bool (*ready)(void *arg);
    bool (*stopping)(void *arg);
    bool (*fresh)(void *arg); /* false: its news are under way; they will be told as a change */
    void (*reason)(void *arg, char *out, size_t size);
    json_t *(*json)(void *arg);
    json_t *(*leadership)(void *arg);
};
/* Of such a one only the asking calls below may be used, and free().  NULL: out of memory. */
struct tn_election *tn_election_new_far(const char *name, const struct tn_election_far *far,
                                        void *arg);

/* Copies all it needs.  NULL: out of memory. */
struct tn_election *tn_election_new(const struct tn_election_options *options);
/* Waits for what is being written, a few seconds at most.  Accepts NULL. */
void tn_election_free(struct tn_election *e);

/* ---- Telling ------------------------------------------------------------- */

/* Who answers whether it leads.  NULL: nobody any more. */
void tn_election_attach(struct tn_election *e, tenure_elector *elector);
/* The elector's trace callback. */
void tn_election_trace(struct tn_election *e, const struct tenure_trace *trace);
/* The driver's snapshot shows another control register. */
void tn_election_control(struct tn_election *e);
/* A term began: counted, and written into the history, a little later.  Again: nothing. */
void tn_election_began(struct tn_election *e, uint64_t epoch);
/* Why the term in hand could begin, in words that live on. */
const char *tn_election_cause(struct tn_election *e);
/* Its program runs, or does not; for /readyz. */
void tn_election_running(struct tn_election *e, bool running);
/* It is over and its program has ended; why is a sentence. */
void tn_election_ended(struct tn_election *e, uint64_t epoch, const char *why);
/* This process is on its way out. */
void tn_election_stopping(struct tn_election *e);
/* May this machine lead?  why (may be NULL) is shown. */
void tn_election_healthy(struct tn_election *e, bool healthy, const char *why);
/* How the program is held together; NULL: there is none. */
void tn_election_contain(struct tn_election *e, const char *containment);
/* The guard ended the program. */
void tn_election_killed(struct tn_election *e);
enum tn_probe_of { TN_PROBE_OF_PROGRAM, TN_PROBE_OF_CANDIDATE };
void tn_election_probed(struct tn_election *e, enum tn_probe_of which, bool well);
/* The state: a commit succeeded, or met a later leader. */
void tn_election_committed(struct tn_election *e, const char *collection, const char *id,
                           uint64_t seq);
void tn_election_fenced(struct tn_election *e);
/* The state cannot be sealed so far; "": it could. */
void tn_election_unsealed(struct tn_election *e, const char *why);
/* Who answers /v1/state/...; may block; never called on the server's thread. */
typedef void (*tn_election_state_fn)(void *arg, const struct tn_http_request *request,
                                     struct tn_http_reply *reply);
void tn_election_state(struct tn_election *e, tn_election_state_fn answer, void *arg);
/* Called after each change, on the thread that told it; must not block.  NULL: nobody. */
void tn_election_on_change(struct tn_election *e, void (*changed)(void *arg), void *arg);

/* ---- Asking -------------------------------------------------------------- */

const char *tn_election_name(const struct tn_election *e);
/* Atomics alone; for probes that come by the thousand. */
bool tn_election_leads(const struct tn_election *e);
bool tn_election_ready(const struct tn_election *e);
/* false: what is known of it is old; ask again after the next change. */
bool tn_election_is_fresh(const struct tn_election *e);
/* Is it of another process?  Then this is what new_far() was given; else NULL. */
void *tn_election_far(const struct tn_election *e);
bool tn_election_is_stopping(const struct tn_election *e);
/* Rises with every change that somebody may wait for. */
uint64_t tn_election_version(const struct tn_election *e);
/* One sentence on why it leads or does not.  "" and true: nothing is wrong with it. */
void tn_election_reason(struct tn_election *e, char *out, size_t size);
bool tn_election_is_well(struct tn_election *e, char *why, size_t size);

/* What docs/reference/openapi.yaml calls Election, Leadership, Terms, Candidates; NULL: out of
 * memory. */
json_t *tn_election_json(struct tn_election *e);
json_t *tn_election_json_leadership(struct tn_election *e);
json_t *tn_election_json_history(struct tn_election *e);
json_t *tn_election_json_candidates(struct tn_election *e);

/* Answers /v1/state/... for this election; false: it has none. */
bool tn_election_answer_state(struct tn_election *e, const struct tn_http_request *request,
                              struct tn_http_reply *reply);
/* The store of its orders. */
const char *tn_election_store(const struct tn_election *e);

/* Read candidates and history again, soon, on a thread of its own. */
void tn_election_refresh(struct tn_election *e);
/* True once after something changed that a refresh would show. */
bool tn_election_wants_refresh(struct tn_election *e);

#endif
