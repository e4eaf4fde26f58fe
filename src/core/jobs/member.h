/*
 * core/jobs/member.h - the members of a group, the owners of its jobs, and the
 * facts that free a job (JOBS: Members, Claims).
 *
 * One lease a worker, its member record, vouches for every job that it owns.
 * What is decided here is decided from records alone, and every fact that frees
 * a job is final: a stale read cannot make it wrong.
 */
#ifndef TN_CORE_JOBS_MEMBER_H
#define TN_CORE_JOBS_MEMBER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/lease.h"

enum tn_member_state { TN_MEMBER_ALIVE, TN_MEMBER_DEAD, TN_MEMBER_LEFT };

enum tn_member_mark {
    TN_MARK_NONE,
    TN_MARK_EVICTED,     /* by an operator: it cannot renew, and is buried W later */
    TN_MARK_PLACEHOLDER, /* stands for a record that was lost, so that W can pass */
};

/* The number orders the incarnations of one id; the incarnation identifies. */
struct tn_identity {
    uint64_t number;
    uint8_t incarnation[TENURE_NONCE_SIZE];
};

#define TN_MEMBER_ID_MAX     TN_HOLDER_MAX
#define TN_MEMBER_LABELS_MAX 255
#define TN_MEMBER_ASKS_MAX   32u

struct tn_member {
    struct tn_identity identity;
    enum tn_member_state state;
    enum tn_member_mark mark;
    uint32_t ttl_ms;
    uint32_t renewals; /* since it joined */
    uint32_t flaps;    /* joins, halved every TN_FLAPS_HALVED renewals */
    bool draining;
    bool standby;
    uint32_t linger_ms; /* after it has left, its jobs stay planned for it for so long */
    uint32_t format;    /* the highest format of records that it reads */
    uint32_t share;     /* its part of the whole, 1 .. TN_PLAN_SHARE_MAX */
    uint32_t limit;     /* the most weight that it takes; UINT32_MAX: any */
    uint64_t applied;   /* the sequence number of the plan that it has applied */
    uint32_t ask_count;
    uint32_t unfit_count;
    uint32_t asks[TN_MEMBER_ASKS_MAX];     /* jobs planned for it that a living member owns */
    uint32_t unfit[TN_MEMBER_ASKS_MAX];    /* jobs that it cannot run; both by number, ascending */
    char labels[TN_MEMBER_LABELS_MAX + 1]; /* "k=v,k=v", sorted */
};

#define TN_FLAPS_HALVED      100u
#define TN_SETTLED_MAX       64u
#define TN_MEMBER_NUMBER_MAX TN_EPOCH_MAX

bool tn_identity_equal(const struct tn_identity *a, const struct tn_identity *b);

/*
 * The number of the next attempt to join: above the one seen in the record, above those that this
 * process has tried, and not below the wall clock.  0: there is none left, an operator must help.
 */
uint64_t tn_member_number(uint64_t seen, uint64_t tried, uint64_t wall_ms);

/* What a worker that wants to join may do about the record under its id. */
enum tn_join {
    TN_JOIN_NOW,     /* replace it, on the exact version */
    TN_JOIN_WAIT,    /* alive: another process under this id, or our own with programs to reap */
    TN_JOIN_EVICTED, /* an operator wants it out, until he admits it again */
};

/*
 * `record` is NULL if there is none.  `own` is the identity under which this very process last
 * wrote it, or NULL; `reaped`: nothing that ran under it is left; `silent`: tn_member_silent().
 */
enum tn_join tn_member_may_join(const struct tn_member *record, const struct tn_identity *own,
                                bool reaped, bool silent);

/*
 * Unchanged for its recorded ttl: it was first read in this version at seen_ns, a time sampled
 * AFTER that read.  Only then may it be swapped to dead, on that version.  Never with a ttl
 * outside 1 s .. 1 h: an operator resets such a record.
 */
bool tn_member_silent(const struct tn_member *record, int64_t seen_ns, int64_t now_ns);

/* What stands between a claimant and a job that has an owner. */
enum tn_owner_fate {
    TN_OWNER_GONE,    /* the job may be claimed, by one swap on its exact version */
    TN_OWNER_ALIVE,   /* as far as anybody knows: nobody takes a job from the living */
    TN_OWNER_MISSING, /* its record is absent, or older than the job: put a placeholder there */
};

/* `record`: the member record of the owner's id, NULL if there is none. */
enum tn_owner_fate tn_owner_fate(const struct tn_identity *owner, const struct tn_member *record);

/* The placeholder over a record (NULL: absent) that is too old for `owner`. */
struct tn_member tn_member_placeholder(const struct tn_member *record,
                                       const struct tn_identity *owner,
                                       const uint8_t incarnation[TENURE_NONCE_SIZE],
                                       uint32_t ttl_ms);

/* It has renewed often enough since it joined: once, or 2^flaps times if it comes and goes. */
bool tn_member_settled(const struct tn_member *member);

/* The flaps to record: one more at a join, half of them after many renewals. */
uint32_t tn_member_flaps_joined(const struct tn_member *before);
uint32_t tn_member_flaps_renewed(uint32_t flaps, uint32_t renewals);

/*
 * Who counts in a plan: alive, unmarked, not draining, settled, and of the standbys, in the order
 * given, as many as `active` (0: one) has room for.  If nobody does, those who have not settled
 * count at once.  Fills counts[n]; returns how many are true.
 */
unsigned tn_members_count(const struct tn_member *members, unsigned n, unsigned active,
                          bool *counts);

#endif
