#include "cron/plan.h"

static bool to_be_repeated(enum tn_retry retry, enum tn_period_state state)
{
    if (state == TN_PERIOD_RUNNING || state == TN_PERIOD_INTERRUPTED)
        return retry != TN_RETRY_NEVER;
    return state == TN_PERIOD_FAILED && retry == TN_RETRY_FAILED;
}

bool tn_plan_once(enum tn_retry retry, const struct tn_period_record *record)
{
    return record->state == TN_PERIOD_NONE || to_be_repeated(retry, record->state);
}

/* The oldest period after done_s, or the oldest of the last TN_CATCH_UP_MAX. */
static int64_t oldest_after(const struct tn_cron_rules *r, int64_t done_s, int64_t current_s)
{
    int64_t oldest = current_s;

    for (int i = 1; i < TN_CATCH_UP_MAX; i++) {
        int64_t before = tn_schedule_last(&r->schedule, &r->zone, oldest - 1);

        if (before <= done_s)
            break;
        oldest = before;
    }
    return oldest;
}

struct tn_plan tn_plan_cron(const struct tn_cron_rules *r, const struct tn_period_record *last,
                            int64_t now_s)
{
    int64_t current = tn_schedule_last(&r->schedule, &r->zone, now_s);
    bool late = now_s - current > r->window_s;
    struct tn_plan run = {.kind = TN_PLAN_RUN, .at_s = current};
    bool again = to_be_repeated(r->retry, last->state);

    if (last->state == TN_PERIOD_NONE)
        return late ? (struct tn_plan){TN_PLAN_NOTE, TN_PERIOD_FIRST, current} : run;
    if (again && (last->at_s == current || r->catch_up == TN_CATCH_UP_ALL)) {
        run.at_s = last->at_s;
        return run;
    }
    if (last->at_s >= current)
        return (struct tn_plan){.kind = TN_PLAN_NOTHING, .at_s = last->at_s};
    if (late && r->catch_up == TN_CATCH_UP_SKIP)
        return (struct tn_plan){TN_PLAN_NOTE, TN_PERIOD_SKIPPED, current};
    if (r->catch_up == TN_CATCH_UP_ALL)
        run.at_s = oldest_after(r, last->at_s, current);
    return run;
}
