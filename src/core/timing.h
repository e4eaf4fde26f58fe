/*
 * core/timing.h - the arithmetic of a lease, in one place.
 *
 *   W  how long an observer waits, counted from AFTER the read that first
 *      showed the current version: the RECORDED holder's ttl.
 *   D  how long a holder may act, counted from BEFORE it sent the last request
 *      that was acknowledged.
 *   K  the longest time from D until the program is dead and what it sent has
 *      drained; counted on the same local clock as D, so it drifts with D.
 *
 * Every clock runs at a rate within 1 +- rho.  Two holders cannot overlap when
 *
 *      (D + K) / (1 - rho)  <=  W / (1 + rho)
 *
 * so D = W (1 - rho) / (1 + rho) - K, rounded down.  W = 15 s, K = 1 s and
 * rho = 0.10 give D = 11.272 s.  docs/explanation/timing.md works it second by second.
 */
#ifndef TN_CORE_TIMING_H
#define TN_CORE_TIMING_H

#include <stdbool.h>
#include <stdint.h>

#define TN_MS INT64_C(1000000)
#define TN_S  INT64_C(1000000000)

#define TN_RHO_DEFAULT_PPM 100000u /* 10 %: chrony may slew by 8.3 % */
#define TN_RHO_MAX_PPM     500000u

struct tn_timing {
    int64_t ttl_ns;     /* W as recorded; a whole number of milliseconds */
    int64_t hold_ns;    /* D */
    int64_t kill_ns;    /* K */
    int64_t renew_ns;   /* from one renewal to the next */
    int64_t request_ns; /* the longest that one store request may take */
    int64_t retry_ns;   /* after an ambiguous or transient answer; jittered */
    int64_t poll_ns;    /* a standby's fallback when nothing is notified; jittered */
    int64_t grace_ns;   /* TERM is sent this long before D when renewals fail */
    uint32_t rho_ppm;
};

/* What a person asked for; 0 means "choose". */
struct tn_timing_wish {
    int64_t ttl_ns;   /* default 15 s */
    int64_t renew_ns; /* default ttl / 3 */
    int64_t kill_ns;  /* default ttl / 10, at most 1 s */
    int64_t grace_ns; /* default 8 s; cut to what D leaves on loss */
    int64_t request_ns;
    int64_t poll_ns;
    uint32_t rho_ppm;
    bool notifies; /* the store wakes us up: poll rarely */
};

/*
 * D for W, K and rho, rounded down; 0 if nothing is left.  Multiplications are
 * in range for every ttl up to TN_TTL_MAX_MS.
 */
int64_t tn_timing_hold(int64_t ttl_ns, int64_t kill_ns, uint32_t rho_ppm);

enum tn_timing_fault {
    TN_TIMING_OK,
    TN_TIMING_TTL,     /* ttl outside 1 s .. 1 h, or not whole milliseconds */
    TN_TIMING_RHO,     /* rho outside 0 .. 50 % */
    TN_TIMING_KILL,    /* K leaves no D */
    TN_TIMING_RENEW,   /* renew is not less than ttl / 2, or less than 1 ms */
    TN_TIMING_REQUEST, /* renew + two requests do not fit into D */
    TN_TIMING_POLL,    /* poll outside 1 ms .. 1 h */
    TN_TIMING_GRACE,   /* grace is negative: TERM would fall behind D */
};

/*
 * The longest renew that fits the others, in whole milliseconds: less than
 * ttl / 2, and with two requests behind it not more than D.  0: none does.
 */
int64_t tn_timing_renew_max(const struct tn_timing *t);

/*
 * A request beside the elector's own, for the control register, is begun only if so much time is
 * left before the elector wants something: one that is cut short may cost the connection that the
 * renewal needs.  A whole request; but where renewals or polls come so often that this much is
 * never left, half of what lies between two of them.  A store whose answers take longer than that
 * is not asked.
 */
int64_t tn_timing_beside(const struct tn_timing *t);

/*
 * The longest that a standby's read or claim may take.  It holds nothing that runs out, and may
 * have to build its session first; so it gets what a claim can spend and still be renewed like
 * any other, the time to the first renewal, but no more than 2 s: orders wait for it.
 */
int64_t tn_timing_contend(const struct tn_timing *t);

/* Fill out from wish, or say what cannot work; out then holds the numbers for the message. */
enum tn_timing_fault tn_timing_plan(const struct tn_timing_wish *wish, struct tn_timing *out);

#endif
