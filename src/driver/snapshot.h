/*
 * driver/snapshot.h - one election as its candidate knows it.
 *
 * The driver writes it after each step, before anything of that step is carried
 * out or traced (I7: what was dropped is not shown any more); everybody else
 * reads it with tn_driver_snapshot().  Nothing in it points anywhere, so it can
 * be sent to another process of the same build as it is.
 *
 * Whether it leads is a matter of time, and the reader's to compare:
 * tn_snapshot_leads().  A process that is stopped leads no longer than its
 * deadline, whatever its last snapshot says.
 */
#ifndef TN_DRIVER_SNAPSHOT_H
#define TN_DRIVER_SNAPSHOT_H

#include "core/elector.h"
#include "tenure/control.h"
#include "tenure/elector.h"

struct tn_snapshot {
    char name[TENURE_NAME_MAX + 1]; /* of the election */
    char id[TENURE_ID_MAX + 1];     /* of this candidate */
    uint8_t incarnation[TENURE_NONCE_SIZE];
    enum tn_phase phase;

    /* The grant, from SEALING to STOPPING. */
    struct tenure_grant grant; /* epoch 0: none */
    int64_t deadline_ns;       /* CLOCK_BOOTTIME: the work must have ended by then; 0: no grant */
    bool owes;                 /* a claim of ours holds the lease, or may */

    /* What the last grant was taken over from: for the history. */
    uint64_t heard_ms; /* wall clock: when its holder was last heard of; 0: unknown */
    bool crashed;      /* its guard released it */

    /* The lease, as this candidate last saw it. */
    enum tn_seen seen;
    struct tn_lease lease;
    int64_t observed_ns;      /* when it was first seen like that */
    bool may_claim;           /* false: it holds back: a pause, its health, a duplicate */
    int64_t not_before_ns;    /* it stepped down, and does not claim before this */
    int64_t ttl_ns, renew_ns; /* our own, as planned; 0 until the store is open */

    /* What operators ask, as last read; damaged counts as paused.  Only with a control hook. */
    struct tenure_control control;

    uint64_t renewals;  /* acknowledged */
    uint64_t troubles;  /* store requests that failed */
    char trouble[256];  /* the last one; "" if the last request was fine */
    char weakness[160]; /* of the store: what a restart of it may forget; "" */
};

static inline bool tn_snapshot_leads(const struct tn_snapshot *s, int64_t now_ns)
{
    return s->phase == TN_PHASE_LEADING && now_ns < s->deadline_ns;
}

/* The epoch that it leads in; 0 if it does not. */
static inline uint64_t tn_snapshot_epoch(const struct tn_snapshot *s, int64_t now_ns)
{
    return tn_snapshot_leads(s, now_ns) ? s->grant.epoch : 0;
}

/* Nanoseconds until the work must have ended, whether or not it leads already. */
static inline int64_t tn_snapshot_left(const struct tn_snapshot *s, int64_t now_ns)
{
    return s->deadline_ns > now_ns ? s->deadline_ns - now_ns : 0;
}

void tn_driver_snapshot(tenure_elector *elector, struct tn_snapshot *snapshot);

#endif
