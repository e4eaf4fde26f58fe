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

#include "http/module.h"
#include "status/leader_page.h"
#include "tenure/control.h"
#include "tenure/elector.h"

struct tn_election;
struct tn_election_snapshot; /* status/snapshot.h */

struct tn_election_options {
    const char *name;
    const char *store;   /* URL; where candidates, history and orders are kept */
    const char *address; /* of this candidate; may be NULL */
    const char *build;   /* may be NULL */
    int32_t priority;
    int64_t answer_ns;        /* an answer that we lead holds so long at most; 0: until D */
    int64_t ttl_ms, renew_ms; /* 0: what the elector chooses by default */
    /* What an agent is shown; its times are the driver's; may be NULL. */
    struct tn_leader_page *leader_page;
    /* Others can see that store.  false (noop:, memory:): nothing is written. */
    bool shared;
};

/*
 * An election of another process (agent/proxy.h): who is asked instead of us.  Each may be
 * called on any thread, and none blocks.
 */
struct tn_election_remote {
    /* Who leads, from the page, by our own clock. */
    void (*leader)(void *arg, struct tn_leader_view *view);
    bool (*stopping)(void *arg);
    bool (*fresh)(void *arg, uint64_t *ping);
    struct tn_election_snapshot *(*snapshot)(void *arg, bool lists, uint64_t ping);
};
/* Of such a one only the asking calls below may be used, and free().  NULL: out of memory. */
struct tn_election *tn_election_new_remote(const char *name,
                                           const struct tn_election_remote *remote, void *arg);

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
/* Why the current term could begin, in words that live on. */
const char *tn_election_cause(struct tn_election *e);
/* Its program runs, or does not; for /readyz. */
void tn_election_running(struct tn_election *e, bool running);
/* It is over and its program has ended; why is a sentence; lost: nobody had asked for it. */
void tn_election_ended(struct tn_election *e, uint64_t epoch, const char *why, bool lost);
/* This process is on its way out. */
void tn_election_stopping(struct tn_election *e);
/* May this machine lead?  why (may be NULL) is shown. */
void tn_election_healthy(struct tn_election *e, bool healthy, const char *why);
/* How the program is held together; NULL: there is none. */
void tn_election_contain(struct tn_election *e, const char *containment);
/* The guard ended the program. */
void tn_election_killed(struct tn_election *e);
/* The program ended by itself. */
void tn_election_exited(struct tn_election *e);
/* A warning, until it is taken back with "".  true: it is another one than before. */
bool tn_election_warn(struct tn_election *e, unsigned warning, const char *text);
enum tn_probe_of { TN_PROBE_OF_PROGRAM, TN_PROBE_OF_CANDIDATE };
void tn_election_probed(struct tn_election *e, enum tn_probe_of which, bool healthy);
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
/* Called after each change, on the thread that reported it; must not block.  NULL: nobody.  The
 * program's socket hears of changes that a long poll waits for alone: not of its own commits. */
enum tn_watcher { TN_WATCHER_API, TN_WATCHER_LINK, TN_WATCHER_SOCKET, TN_WATCHERS };
void tn_election_on_change(struct tn_election *e, enum tn_watcher who, void (*changed)(void *arg),
                           void *arg);

/* ---- Asking -------------------------------------------------------------- */

const char *tn_election_name(const struct tn_election *e);
/* Atomics alone; for probes that come by the thousand. */
bool tn_election_leads(const struct tn_election *e);
bool tn_election_ready(const struct tn_election *e);
/*
 * false: news of its process are under way; ask again after the next change.  *ping 0: a new
 * question is put to it, whose number *ping becomes, and its answer is waited for; ping NULL:
 * what it last said is enough, unless leadership has changed since.
 */
bool tn_election_is_fresh(const struct tn_election *e, uint64_t *ping);
/* Is it of another process?  Then this is what new_remote() was given; else NULL. */
void *tn_election_remote(const struct tn_election *e);
bool tn_election_is_stopping(const struct tn_election *e);
/* One sentence on why it leads or does not. */
void tn_election_reason(struct tn_election *e, char *out, size_t size);
/*
 * Everything at one moment; malloc'ed, NULL: out of memory.  lists: with candidates and history,
 * which are then read again soon if they are old.  ping: of is_fresh(); without an answer to that
 * its process is unresponsive.  0: none.
 */
struct tn_election_snapshot *tn_election_snapshot(struct tn_election *e, bool lists, uint64_t ping);

/* Answers /v1/state/... for this election; false: it has none. */
bool tn_election_answer_state(struct tn_election *e, const struct tn_http_request *request,
                              struct tn_http_reply *reply);
/* The store that requests are written to. */
const char *tn_election_store(const struct tn_election *e);

/* Read candidates and history again, soon, on a thread of its own. */
void tn_election_refresh(struct tn_election *e);
/* True once after something changed that a refresh would show. */
bool tn_election_wants_refresh(struct tn_election *e);

#endif
