/*
 * core/elector_inner.h - what the elector's files share.
 *
 *   elector.c       each event, and the answers of the store: what follows from them
 *   elector_view.c  what is known of the register, and of requests that may still land
 *   elector_term.c  the grant in hand: won, extended, dropped, lost, given back
 *   elector_plan.c  what to ask of the store next
 */
#ifndef TN_CORE_ELECTOR_INNER_H
#define TN_CORE_ELECTOR_INNER_H

#include <string.h>

#include "core/elector.h"

#define TN_FOREVER (INT64_MAX / 2)

/* A candidate whose seals fail for good keeps back for at most 2^3 ttls. */
#define TN_UNSEALED_MAX 3

/* Holds a grant, or still did a moment ago, and the program may be alive. */
static inline bool tn_holding(const struct tn_elector *e)
{
    return e->phase == TN_PHASE_SEALING || e->phase == TN_PHASE_LEADING ||
           e->phase == TN_PHASE_STOPPING;
}

static inline int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static inline bool nonce_equal(const uint8_t *a, const uint8_t *b)
{
    return memcmp(a, b, TENURE_NONCE_SIZE) == 0;
}

static inline bool nonce_zero(const uint8_t *nonce)
{
    static const uint8_t zero[TENURE_NONCE_SIZE];

    return nonce_equal(nonce, zero);
}

/* span, less up to a quarter: candidates must not move in step. */
static inline int64_t jitter(const struct tn_event *ev, int64_t span)
{
    return span - (int64_t)(ev->entropy[0] % (uint64_t)(span / 4 + 1));
}

/* ---- elector_view.c ------------------------------------------------------ */

/* The register shows the grant in hand. */
bool tn_sees_own_grant(const struct tn_elector *e);
/* The register shows a grant of this process, in hand or not. */
bool tn_sees_own_process(const struct tn_elector *e);

/* Take in a read; true if it shows something new. */
bool tn_view_observe(struct tn_elector *e, const struct tn_event *ev, struct tn_actions *out);
/* Take in a swap of our own that took effect. */
void tn_view_observe_own(struct tn_elector *e, const struct tn_event *ev);
/* New epochs will be above this one, too. */
void tn_view_know_epoch(struct tn_elector *e, uint64_t epoch);

/* The attempt that the register now shows to have taken effect, or NULL (I6). */
const struct tn_attempt *tn_attempt_landed(const struct tn_elector *e);
/* The swap that was sent last. */
struct tn_attempt *tn_attempt_last(struct tn_elector *e);
/* It definitely did not take effect. */
void tn_attempt_void(struct tn_elector *e);
/* None of them will land any more, or matter if it does. */
void tn_attempts_settle(struct tn_elector *e);
/* Some outcome is unknown. */
bool tn_attempts_open(const struct tn_elector *e);

/* ---- elector_term.c ------------------------------------------------------ */

/* A claim of ours took effect. */
void tn_term_win(struct tn_elector *e, const struct tn_attempt *won, struct tn_actions *out);
/* A renewal did. */
void tn_term_extend(struct tn_elector *e, const struct tn_attempt *renewal);
/* A higher epoch for the grant in hand did. */
void tn_term_regranted(struct tn_elector *e, const struct tn_attempt *won, struct tn_actions *out);
/* Leadership ends in memory; the program is to be dead at by_ns. */
void tn_term_drop(struct tn_elector *e, enum tn_stop why, int64_t by_ns, struct tn_actions *out);
/* Another grant was read. */
void tn_term_lose(struct tn_elector *e, struct tn_actions *out);
/* It could not begin where others may: no claim for a while. */
void tn_term_hold_back(struct tn_elector *e);
/* Drop what time has ended. */
void tn_term_expire(struct tn_elector *e, struct tn_actions *out);
/* The program is dead. */
void tn_term_stopped(struct tn_elector *e);
/* Contend anew, or halt if that was asked. */
void tn_term_follow(struct tn_elector *e);
/* Give up whatever is in hand, then end. */
void tn_term_shut_down(struct tn_elector *e, struct tn_actions *out);

/* ---- elector_plan.c ------------------------------------------------------ */

/* Decide the one request or wait that follows.  Does nothing while a request is out. */
void tn_elector_plan(struct tn_elector *e, const struct tn_event *ev, struct tn_actions *out);

#endif
