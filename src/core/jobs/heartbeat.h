/*
 * core/jobs/heartbeat.h - one worker's membership of a group: a pure state machine.
 *
 *     step(heartbeat, event, actions)
 *
 * The member record is a lease, timed like any other (core/timing.h), that vouches for all jobs
 * of its worker.  This lane joins, renews, leaves, and knows the deadline D at which the guard ends
 * every program; it is never held up by the work on the jobs (core/jobs/worker.h), which uses
 * another handle of the store.
 *
 * THE CALLER'S DUTIES, in this order, after every step:
 *
 *  1. Publish out->deadline_ns to the guard; 0: nothing may run.
 *  2. TN_BEAT_STOP: end all programs, by out->stop_by_ns and by the deadline in any case.  When
 *     the last is dead, and not before, send TN_BEAT_REAPED.
 *  3. TN_BEAT_READ or TN_BEAT_SWAP: at most one, on member/ID, giving up at out->request_by_ns.
 *     A swap that got no answer by then is sent as TENURE_UNKNOWN.
 *  4. Send TN_BEAT_TIMER at out->wake_ns, also while a request is out.
 *  5. TN_BEAT_HALT: the worker has left.
 */
#ifndef TN_CORE_JOBS_HEARTBEAT_H
#define TN_CORE_JOBS_HEARTBEAT_H

#include "core/jobs/job.h"
#include "core/timing.h"

enum tn_beat_kind {
    TN_BEAT_EV_TIMER,
    TN_BEAT_EV_READ,    /* status, and if OK token and record (NULL: absent) */
    TN_BEAT_EV_SWAPPED, /* status, and if OK token */
    TN_BEAT_EV_REAPED,  /* no program is left */
    TN_BEAT_EV_FIRED,   /* the guard has fired */
    TN_BEAT_EV_LEAVE,   /* stop everything, leave, halt */
};

struct tn_beat_event {
    enum tn_beat_kind kind;
    int64_t now_ns;
    uint64_t wall_ms;
    uint64_t entropy[2]; /* fresh and unpredictable, for EVERY step */
    enum tenure_status status;
    struct tenure_token token;
    const struct tn_member *record;
};

enum tn_beat_action {
    TN_BEAT_STOP = 1 << 0,
    TN_BEAT_READ = 1 << 1,
    TN_BEAT_SWAP = 1 << 2,
    TN_BEAT_HALT = 1 << 3,
};

struct tn_beat_actions {
    unsigned set;
    int64_t deadline_ns;
    int64_t stop_by_ns;
    int64_t request_by_ns;
    int64_t wake_ns;
    struct tenure_token expect;
    uint8_t nonce[TENURE_NONCE_SIZE];
    struct tn_member record;
};

enum tn_beat_phase {
    TN_BEAT_OUT,      /* wants to join */
    TN_BEAT_IN,       /* a member: its jobs may run before the deadline */
    TN_BEAT_DRAINING, /* asked to leave: renews until its programs are dead */
    TN_BEAT_LOST,     /* the record is not ours any more, or D has passed: programs are ended */
    TN_BEAT_LEAVING,  /* everything is dead: one swap to `left` frees every job */
    TN_BEAT_HALTED,
};

/* A swap of ours whose outcome is not known yet, or not yet seen. */
struct tn_beat_attempt {
    uint8_t nonce[TENURE_NONCE_SIZE];
    struct tn_identity identity;
    int64_t sent_ns;
};
#define TN_BEAT_ATTEMPTS 4

struct tn_heartbeat {
    struct tn_timing timing;
    struct tn_member profile; /* what the worker says of itself: the caller's to change, but for
                                 draining, which an operator's edit of the record changes too */
    int64_t drain_ns;         /* how long a planned stop may take */
    enum tn_beat_phase phase;
    int64_t now_ns;

    bool seen, present; /* read at least once; there is a record */
    bool namesake;      /* there was one of another process, alive, and it is lost */
    struct tenure_token token;
    struct tn_member record;
    struct tn_member draft; /* what the swap that is out writes */
    int64_t seen_ns;        /* when this token was first seen: after that read */

    struct tn_identity identity; /* from IN to LEAVING */
    int64_t deadline_ns;
    int64_t renew_at_ns;
    int64_t stop_by_ns;
    uint64_t tried; /* the highest number of an attempt to join */

    struct tn_beat_attempt attempts[TN_BEAT_ATTEMPTS];
    unsigned attempt_next;
    bool reading, swapping, must_read;
    bool reaped; /* no program of this worker is left */
    bool leave;
    int64_t retry_at_ns;
};

/* `profile`: share, limit, labels, standby, format, ttl_ms. */
void tn_heartbeat_init(struct tn_heartbeat *h, const struct tn_timing *timing,
                       const struct tn_member *profile, int64_t drain_ns);

/* One step.  Of *out it writes set, deadline_ns, wake_ns and what set names. */
void tn_heartbeat_step(struct tn_heartbeat *h, const struct tn_beat_event *ev,
                       struct tn_beat_actions *out);

/* May act for its jobs: a member, and D has not passed. */
static inline bool tn_heartbeat_holds(const struct tn_heartbeat *h, int64_t now_ns)
{
    return (h->phase == TN_BEAT_IN || h->phase == TN_BEAT_DRAINING) && now_ns < h->deadline_ns;
}

#endif
