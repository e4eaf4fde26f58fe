#include "driver/timing_text.h"

#include <stdio.h>

#include "base/duration.h"

enum tenure_status tn_timing_explain(enum tn_timing_fault fault, const struct tn_timing *t,
                                     struct tenure_error *err)
{
    char ttl[TN_DURATION_TEXT], hold[TN_DURATION_TEXT], kill[TN_DURATION_TEXT];
    char renew[TN_DURATION_TEXT], request[TN_DURATION_TEXT], half[TN_DURATION_TEXT];
    char poll[TN_DURATION_TEXT], most[TN_DURATION_TEXT], advice[48];
    int64_t most_ns = tn_timing_renew_max(t);

    tn_duration_format(t->ttl_ns, ttl);
    tn_duration_format(t->ttl_ns / 2, half);
    tn_duration_format(t->hold_ns / TN_MS * TN_MS, hold);
    tn_duration_format(t->kill_ns, kill);
    tn_duration_format(t->renew_ns, renew);
    tn_duration_format(t->request_ns / TN_MS * TN_MS, request);
    tn_duration_format(t->poll_ns, poll);
    tn_duration_format(most_ns, most);
    snprintf(advice, sizeof advice, most_ns ? "a renew of 1ms to %s" : "shorter requests", most);
    switch (fault) {
    case TN_TIMING_OK:
        break;
    case TN_TIMING_TTL:
        return tenure_fail(err, TENURE_CONFIG,
                           "ttl %s cannot work: give 1s to 1h in whole milliseconds", ttl);
    case TN_TIMING_RHO:
        return tenure_fail(err, TENURE_CONFIG,
                           "clock drift of %u ppm cannot work: give at most %u (50 %%)", t->rho_ppm,
                           TN_RHO_MAX_PPM);
    case TN_TIMING_KILL:
        return tenure_fail(err, TENURE_CONFIG,
                           "ttl %s with a kill time of %s leaves no time to lead: D = ttl x (1 - "
                           "rho) / (1 + rho) - kill must be positive; raise ttl or lower kill",
                           ttl, kill);
    case TN_TIMING_RENEW:
        return tenure_fail(
            err, TENURE_CONFIG,
            "renewing every %s is not safe with ttl %s: give %s; it must be less than "
            "ttl / 2 = %s, and with 2 x request %s not more than D = %s",
            renew, ttl, advice, half, request, hold);
    case TN_TIMING_REQUEST:
        return tenure_fail(err, TENURE_CONFIG,
                           "renew %s + 2 x request %s do not fit into D = %s (of ttl %s): a single "
                           "lost request would end leadership; give %s, or raise ttl",
                           renew, request, hold, ttl, advice);
    case TN_TIMING_POLL:
        return tenure_fail(err, TENURE_CONFIG, "polling every %s cannot work: give 1ms to 1h",
                           poll);
    case TN_TIMING_GRACE:
        return tenure_fail(err, TENURE_CONFIG,
                           "a negative grace would ask the program to stop after its deadline: "
                           "give 0 or more");
    }
    return TENURE_OK;
}

enum tenure_status tn_timing_settle(const struct tn_timing_ms *ms,
                                    const struct tenure_store_info *info, struct tn_timing *out,
                                    struct tenure_error *err)
{
    struct tn_timing_wish wish = {
        .rho_ppm = ms->rho_ppm,
        .notifies = info->notifies && !ms->poll_as_renew,
    };
    const struct {
        int64_t ms;
        int64_t *ns;
    } spans[] = {{ms->ttl_ms, &wish.ttl_ns},
                 {ms->renew_ms, &wish.renew_ns},
                 {ms->grace_ms, &wish.grace_ns},
                 {ms->kill_ms, &wish.kill_ns}};

    for (size_t i = 0; i < sizeof spans / sizeof spans[0]; i++) {
        if (spans[i].ms < 0 || spans[i].ms > 86400000)
            return tenure_fail(err, TENURE_CONFIG,
                               "a time of %lld ms is out of range: give 0 (choose) to a day",
                               (long long)spans[i].ms);
        *spans[i].ns = spans[i].ms * TN_MS;
    }
    enum tenure_status status = tn_timing_explain(tn_timing_plan(&wish, out), out, err);
    if (!status && out->ttl_ns < (int64_t)info->ttl_min_ms * TN_MS)
        status = tenure_fail(err, TENURE_CONFIG, "ttl is too short for %s: give at least %u ms",
                             info->scheme, info->ttl_min_ms);
    if (!status && info->ttl_step_ms && out->ttl_ns % ((int64_t)info->ttl_step_ms * TN_MS) != 0)
        status = tenure_fail(err, TENURE_CONFIG,
                             "ttl %lld ms cannot be kept by %s: give a whole number of seconds, "
                             "such as %llds",
                             (long long)(out->ttl_ns / TN_MS), info->scheme,
                             (long long)(out->ttl_ns / TN_S + 1));
    return status;
}

enum tenure_status tn_timing_explain_fence(const struct tn_timing *t, int64_t after_ns,
                                           struct tenure_error *err)
{
    char after[TN_DURATION_TEXT], renew[TN_DURATION_TEXT], request[TN_DURATION_TEXT];
    char retry[TN_DURATION_TEXT], least[TN_DURATION_TEXT];
    int64_t least_ns = t->renew_ns + 2 * t->request_ns + t->retry_ns;

    if (after_ns > least_ns)
        return TENURE_OK;
    tn_duration_format(after_ns, after);
    tn_duration_format(t->renew_ns, renew);
    tn_duration_format(t->request_ns / TN_MS * TN_MS, request);
    tn_duration_format(t->retry_ns / TN_MS * TN_MS, retry);
    tn_duration_format(least_ns / TN_MS * TN_MS, least);
    return tenure_fail(err, TENURE_CONFIG,
                       "after %s a leader would be switched off that has lost one packet: it is "
                       "silent for renew %s + 2 x request %s + retry %s; give more than %s, or "
                       "renew more often",
                       after, renew, request, retry, least);
}
