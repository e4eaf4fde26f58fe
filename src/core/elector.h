/*
 * core/elector.h - one candidate in one election: a pure state machine.
 *
 *     step(elector, event, actions)
 *
 * Events come in with the time, the wall clock and fresh randomness; actions
 * come out.  Nothing here reads a clock, calls the system, allocates or locks,
 * so the same object code runs under `tenure run` and in the simulator.
 *
 * THE CALLER'S DUTIES, in this order, after every step:
 *
 *  1. Publish out->deadline_ns to whatever enforces it (the guard, is-leader)
 *     BEFORE anything else: it may have been lowered.  If the guard answers
 *     that it has fired, send TN_EV_FIRED at once.
 *  2. TN_ACT_STOP: leadership is over in memory (I7).  Tell the program to
 *     stop now and make sure that it is dead by out->stop_by_ns, and by the
 *     published deadline in any case.  When it is dead, and not before, send
 *     TN_EV_STOPPED.  A drain goes on renewing, up to its stop_by_ns: its
 *     deadline keeps being published, and ends it if renewals fail.  A second
 *     STOP (the lease was lost while draining) can only shorten the first.
 *  3. TN_ACT_SEAL: a grant was won.  Seal the state with (epoch, grant), then
 *     send TN_EV_SEALED, or TN_EV_FENCED with the floor found (I4).  While it
 *     fails, send TN_EV_UNSEALED now and then, and go on trying until
 *     TN_ACT_STOP.  Do not start the program yet.
 *  4. TN_ACT_START: the state is sealed, and where tombstones are deleted, the floor of epochs
 *     was read since the win.  Start the program with out->epoch.
 *  5. TN_ACT_LEADER: who leads, as far as this candidate can see, has changed.
 *     For people and callbacks; never for safety.
 *  6. TN_ACT_PROVE: the holder of out->suspect has been silent.  If there is a command that makes
 * sure that its machine is off, or cut off from all that the program writes to, start it now and
 * not earlier, bounded in time, and send TN_EV_PROVED when it has ended. There is one at a time.
 *  7. At most one of TN_ACT_READ, TN_ACT_SWAP, TN_ACT_WAIT, TN_ACT_HALT:
 *     READ   read the register, linearizably, giving up at out->request_by_ns;
 *            send TN_EV_READ with what was found.  With out->with_floor, read the
 *            store's floor of epochs as well, as linearizably; both succeed, or neither.
 *     SWAP   swap out->record in, expecting out->expect, under out->nonce,
 *            giving up at out->request_by_ns; send TN_EV_SWAPPED.
 *     WAIT   wait until out->wait_until_ns or, if out->watch is set, a change
 *            since out->expect; send TN_EV_TIMER or TN_EV_CHANGED.  Other
 *            events may come instead.
 *     HALT   nothing more will come; the elector has ended.
 *     While a request is out, other events may be stepped; they never start a
 *     second request.
 *
 * `now_ns` must be sampled after the event happened, and never goes back.  The
 * request that a step asks for must be sent after the now_ns of that step: a
 * holder's time counts from BEFORE its request, an observer's from AFTER its
 * read (SAFETY: Time).
 */
#ifndef TN_CORE_ELECTOR_H
#define TN_CORE_ELECTOR_H

#include <stdbool.h>
#include <stdint.h>

#include "core/lease.h"
#include "core/timing.h"
#include "tenure/store.h"

enum tn_event_kind {
    TN_EV_START,    /* begin to contend */
    TN_EV_TIMER,    /* the wait is over */
    TN_EV_CHANGED,  /* the store says that the register may have changed */
    TN_EV_READ,     /* a read ended: status, and if OK token, tombstone and record */
    TN_EV_SWAPPED,  /* a swap ended: status, and if OK token */
    TN_EV_SEALED,   /* the state is sealed under the current grant */
    TN_EV_FENCED,   /* the state knows a higher epoch: floor */
    TN_EV_UNSEALED, /* it could not be sealed so far: grant, gained, final */
    TN_EV_STOPPED,  /* the program is dead */
    TN_EV_FIRED,    /* the guard has fired on the current grant */
    TN_EV_YIELD,    /* give leadership up (hand-over, step-down), do not claim before until_ns */
    TN_EV_SHUTDOWN, /* give leadership up and end */
    TN_EV_CONTROL,  /* may_claim, claim_delay_ns: pause, health, priority */
    TN_EV_TIMING,   /* a new ttl: timing */
    TN_EV_PROVED,   /* the command of TN_ACT_PROVE has ended: OK if the holder is dead */
};

/* What a read showed. */
enum tn_seen {
    TN_SEEN_NOTHING, /* not read yet */
    TN_SEEN_ABSENT,  /* never written, or erased */
    TN_SEEN_FREE,    /* released */
    TN_SEEN_HELD,
    TN_SEEN_REFUSED, /* corrupt or not sane: never claimed (an operator resets it) */
};

struct tn_event {
    enum tn_event_kind kind;
    int64_t now_ns;      /* CLOCK_BOOTTIME */
    uint64_t wall_ms;    /* for people, and as a floor of new epochs */
    uint64_t entropy[2]; /* fresh and unpredictable, for EVERY step (nonces, jitter) */

    enum tenure_status status;     /* READ, SWAPPED, PROVED */
    struct tenure_token token;     /* READ, SWAPPED */
    bool tombstone;                /* READ */
    bool corrupt;                  /* READ: OK, but the record could not be decoded */
    const struct tn_lease *record; /* READ: NULL if absent or corrupt; may be NULL on a tombstone */

    uint8_t grant[TENURE_NONCE_SIZE]; /* SEALED, FENCED, UNSEALED: the grant that this is about */
    bool gained;                      /* UNSEALED: but it has got on since the last such event */
    bool final;                       /* UNSEALED, READ that failed: to try again does not help */
    uint64_t floor; /* FENCED: highest sealed epoch known; START: likewise, or 0; READ: of the store
                       if it was asked for (0: there is none) */
    bool floor_damaged;             /* READ: it was asked for, and a person has to repair it */
    int64_t until_ns;               /* YIELD: not before; 0 for at once */
    bool may_claim;                 /* CONTROL */
    int64_t claim_delay_ns;         /* CONTROL: extra wait before claiming what is free */
    const struct tn_timing *timing; /* TIMING */
};

enum tn_action {
    TN_ACT_STOP = 1 << 0,
    TN_ACT_SEAL = 1 << 1,
    TN_ACT_START = 1 << 2,
    TN_ACT_LEADER = 1 << 3,
    TN_ACT_READ = 1 << 4,
    TN_ACT_SWAP = 1 << 5,
    TN_ACT_WAIT = 1 << 6,
    TN_ACT_HALT = 1 << 7,
    TN_ACT_PROVE = 1 << 8,
};

/* Why leadership ended; also the word that people see. */
#define TN_STOP_MAP(X)                                                                             \
    X(NONE, "none")                                                                                \
    X(EXPIRED, "renewals failed until the deadline")                                               \
    X(LOST, "the store no longer shows this grant")                                                \
    X(FENCED, "the state knows a later epoch")                                                     \
    X(FIRED, "the guard fired")                                                                    \
    X(UNSEALED, "the state could not be sealed")                                                   \
    X(UNCHECKED, "the epochs of removed elections could not be read")                              \
    X(YIELD, "asked to step down")                                                                 \
    X(SHUTDOWN, "asked to stop")                                                                   \
    X(PROGRAM, "the program ended")

enum tn_stop {
#define TN_X(name, text) TN_STOP_##name,
    TN_STOP_MAP(TN_X)
#undef TN_X
};

/* What the pending swap is for. */
enum tn_purpose { TN_FOR_NONE, TN_FOR_CLAIM, TN_FOR_RENEW, TN_FOR_RELEASE, TN_FOR_REGRANT };

struct tn_actions {
    unsigned set;        /* of enum tn_action */
    int64_t deadline_ns; /* when the program must be dead; 0: no grant, nothing may run */

    enum tn_stop stop;  /* STOP */
    int64_t stop_by_ns; /* STOP */

    uint64_t epoch;                   /* SEAL, START */
    uint8_t grant[TENURE_NONCE_SIZE]; /* SEAL, START */

    int64_t request_by_ns;            /* READ, SWAP */
    bool with_floor;                  /* READ */
    int64_t wait_until_ns;            /* WAIT */
    bool watch;                       /* WAIT: a change of the register matters */
    struct tenure_token expect;       /* SWAP: expected; WAIT with watch: last seen */
    uint8_t nonce[TENURE_NONCE_SIZE]; /* SWAP */
    enum tn_purpose purpose;          /* SWAP */
    struct tn_lease record;           /* SWAP */
    struct tn_lease suspect;          /* PROVE */
};

enum tn_phase {
    TN_PHASE_NEW,       /* before START */
    TN_PHASE_FOLLOWING, /* contends */
    TN_PHASE_SEALING,   /* holds a grant; state and epoch are made sure of; nothing runs yet */
    TN_PHASE_LEADING,   /* holds a grant; the program runs */
    TN_PHASE_STOPPING,  /* leadership is over; the program is being stopped */
    TN_PHASE_RELEASING, /* the program is dead; the lease is being released */
    TN_PHASE_HALTED,
};

struct tn_elector_config {
    char id[TN_HOLDER_MAX + 1];             /* the candidate; unique among candidates */
    uint8_t incarnation[TENURE_NONCE_SIZE]; /* fresh for every process */
    char address[TN_ADDRESS_MAX + 1];
    char build[TN_BUILD_MAX + 1];
    int32_t priority;
    int64_t drain_ns; /* how long a planned stop may take while renewals succeed */
    int64_t prove_ns; /* a holder that is silent for so long may be proved dead, in whole ms; 0:
                         never */
    bool purges;      /* the store deletes tombstones: a grant is checked against its floor, unless
                         it replaces a record that was */
    struct tn_timing timing;
};

/* A request of ours whose outcome is not known yet (I6). */
struct tn_attempt {
    uint8_t nonce[TENURE_NONCE_SIZE];
    uint8_t grant[TENURE_NONCE_SIZE];
    uint64_t epoch;
    int64_t renew_at_ns;   /* these three count from before it was sent, */
    int64_t stop_at_ns;    /* by the timing that it was sent with: the grace before D, */
    int64_t hold_until_ns; /* and D: how long it entitles us, if it took effect */
};
#define TN_ATTEMPTS 4

/* The layout is the caller's to allocate and nobody else's to touch. */
struct tn_elector {
    struct tn_elector_config cfg;
    enum tn_phase phase;
    int64_t now_ns;

    /* The register, as last seen by a read or left by a swap of our own. */
    enum tn_seen seen;
    struct tenure_token token;
    struct tn_lease lease;  /* if FREE or HELD; if ABSENT only its epoch and transitions count */
    int64_t observed_ns;    /* when this token was first seen: after that read */
    int64_t looked_ns;      /* when it was last read, whatever that showed */
    bool unanswered;        /* the last try to read it failed */
    int64_t answered_ns;    /* the first read after that succeeded */
    int64_t poll_at_ns;     /* read again then, if nothing was notified before */
    int64_t spare_ns;       /* the record went back: who held it may act until then */
    struct tn_lease spared; /* that holder's last record; incarnation zero: of several grants */

    /* The proof that the holder is dead. */
    bool proving;              /* the command runs */
    struct tenure_token proof; /* what was seen before it began: it proves nothing of any other */
    bool proved;               /* it has succeeded, and that is what is still seen */
    int64_t prove_again_ns;    /* it has failed: not before this */

    /* The grant in hand; meaningful from SEALING to RELEASING. */
    uint8_t grant[TENURE_NONCE_SIZE];
    uint64_t epoch;
    int64_t deadline_ns; /* D: from before the last acknowledged request */
    int64_t stop_at_ns;  /* the grace before D: TERM, unless it is renewed until then */
    int64_t renew_at_ns;
    int64_t stop_by_ns;       /* STOPPING: the drain ends here, or at the deadline */
    int64_t release_until_ns; /* RELEASING: nobody gains from a release after this */
    bool lost;                /* another grant was seen: nothing is left to renew or release */
    bool over;                /* D has passed or the guard fired: never renewed again (I6b) */
    bool draining;            /* STOPPING on request: renewals go on */
    bool regrant;             /* the seal was refused: take a higher epoch (I4) */
    bool sealed;              /* SEALING: the state is */
    bool unchecked;     /* the floor of epochs was not read since the win, and the claim was on
                           a record that is not checked (I2); true where nothing is held */
    int64_t seal_by_ns; /* SEALING: a seal that has failed until then is given up */
    unsigned unsealed;  /* so many terms in a row ended by a seal that fails for good */

    /* Requests of ours whose outcome is unknown; the newest overwrites the oldest. */
    struct tn_attempt attempts[TN_ATTEMPTS];
    unsigned attempt_next;

    enum tn_purpose out;    /* the swap that is out, or NONE */
    struct tn_lease draft;  /* what it writes */
    bool reading;           /* a read is out */
    enum tn_phase asked_in; /* the phase that asked for what is out */
    bool must_read;         /* read before anything else */
    bool conflicted;        /* the last swap met a conflict */
    int64_t retry_at_ns;    /* no request before this */

    uint64_t floor; /* highest epoch known, sealed or seen: it only rises */
    bool may_claim;
    int64_t claim_delay_ns;
    int64_t not_before_ns; /* no claim before this */
    bool ending;           /* SHUTDOWN was asked */
};

/* cfg is copied.  It must hold a planned timing, a non-empty id and incarnation. */
void tn_elector_init(struct tn_elector *e, const struct tn_elector_config *cfg);

/* One step.  Of *out it writes set, deadline_ns and the members that set names. */
void tn_elector_step(struct tn_elector *e, const struct tn_event *ev, struct tn_actions *out);

/* Leads, at now_ns: phase and time agree.  The time alone can end it. */
bool tn_elector_leads(const struct tn_elector *e, int64_t now_ns);

/* "following", "leading", ... */
const char *tn_phase_word(enum tn_phase phase);
/* "the guard fired", ... */
const char *tn_stop_text(enum tn_stop stop);

#endif
