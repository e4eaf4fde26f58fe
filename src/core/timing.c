#include "timing.h"

#include "lease.h"

#define PPM 1000000

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

int64_t tn_timing_hold(int64_t ttl_ns, int64_t kill_ns, uint32_t rho_ppm)
{
    /* In microseconds: 3.6e9 * 1e6 stays far below 2^63, and the division
     * rounds down, which is the safe direction (rounding up broke I1). */
    int64_t ttl_us = ttl_ns / 1000;
    int64_t wait_us = ttl_us * (PPM - (int64_t)rho_ppm) / (PPM + (int64_t)rho_ppm);
    int64_t hold_ns = wait_us * 1000 - kill_ns;

    return hold_ns > 0 ? hold_ns : 0;
}

int64_t tn_timing_renew_max(const struct tn_timing *t)
{
    if (t->request_ns <= 0 || t->request_ns > t->hold_ns)
        return 0;
    int64_t most_ns = min64(t->ttl_ns / 2 - 1, t->hold_ns - 2 * t->request_ns);
    return most_ns > 0 ? most_ns / TN_MS * TN_MS : 0;
}

int64_t tn_timing_beside(const struct tn_timing *t)
{
    return min64(t->request_ns, min64(t->renew_ns, t->poll_ns) / 2);
}

int64_t tn_timing_contend(const struct tn_timing *t)
{
    int64_t most_ns = min64(t->renew_ns, 2 * TN_S);

    return most_ns > t->request_ns ? most_ns : t->request_ns;
}

enum tn_timing_fault tn_timing_plan(const struct tn_timing_wish *wish, struct tn_timing *out)
{
    struct tn_timing t = {0};

    t.ttl_ns = wish->ttl_ns ? wish->ttl_ns : 15 * TN_S;
    t.rho_ppm = wish->rho_ppm ? wish->rho_ppm : TN_RHO_DEFAULT_PPM;
    *out = t;
    if (t.ttl_ns < TN_TTL_MIN_MS * TN_MS || t.ttl_ns > TN_TTL_MAX_MS * TN_MS ||
        t.ttl_ns % TN_MS != 0)
        return TN_TIMING_TTL;
    if (t.rho_ppm > TN_RHO_MAX_PPM)
        return TN_TIMING_RHO;

    t.kill_ns = wish->kill_ns ? wish->kill_ns : min64(t.ttl_ns / 10, TN_S);
    t.hold_ns = t.kill_ns > 0 ? tn_timing_hold(t.ttl_ns, t.kill_ns, t.rho_ppm) : 0;
    *out = t;
    if (t.hold_ns == 0)
        return TN_TIMING_KILL;

    t.renew_ns = wish->renew_ns ? wish->renew_ns : t.ttl_ns / 3;
    t.request_ns = wish->request_ns ? wish->request_ns : min64(t.hold_ns / 5, 2 * TN_S);
    *out = t;
    if (t.renew_ns < TN_MS || t.renew_ns >= t.ttl_ns / 2)
        return TN_TIMING_RENEW;

    /* One renewal may fail and its retry must still fit, or a single lost
     * packet costs leadership (I12). */
    if (t.request_ns <= 0 || t.request_ns > t.hold_ns || t.renew_ns + 2 * t.request_ns > t.hold_ns)
        return TN_TIMING_REQUEST;

    t.retry_ns = min64(t.request_ns / 4, TN_S);
    if (t.retry_ns < TN_MS)
        t.retry_ns = TN_MS; /* a wish for tiny requests must not become a hot loop */
    t.poll_ns = wish->poll_ns ? wish->poll_ns : (wish->notifies ? t.ttl_ns / 2 : t.renew_ns);
    *out = t;
    if (t.poll_ns < TN_MS || t.poll_ns > TN_TTL_MAX_MS * TN_MS)
        return TN_TIMING_POLL;

    t.grace_ns = min64(wish->grace_ns ? wish->grace_ns : 8 * TN_S,
                       t.hold_ns - t.renew_ns - 2 * t.request_ns);
    *out = t;
    if (t.grace_ns < 0)
        return TN_TIMING_GRACE;
    return TN_TIMING_OK;
}
