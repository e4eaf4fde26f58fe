/*
 * cron/plan.h - is there something to do?  Pure: the record and the time come in.
 *
 * Asked twice: before anybody contends, to leave without a trace if all is done, and under the
 * lock, where a record that says "running" means that its holder is gone.
 */
#ifndef TN_CRON_PLAN_H
#define TN_CRON_PLAN_H

#include "cron/record.h"
#include "cron/schedule.h"

/* Periods that nobody ran. */
enum tn_catch_up {
    TN_CATCH_UP_ONCE, /* run the current one, late or not: it stands for them all */
    TN_CATCH_UP_SKIP, /* run the current one only if it is not late */
    TN_CATCH_UP_ALL,  /* run them one after the other, the oldest first */
};

/* A period that was begun and did not end well. */
enum tn_retry {
    TN_RETRY_NEVER,  /* at most once */
    TN_RETRY_LOST,   /* again if its holder died, lost the lease or was stopped: at least once */
    TN_RETRY_FAILED, /* and if the command failed */
};

struct tn_cron_rules {
    struct tn_schedule schedule;
    struct tn_zone zone;
    enum tn_catch_up catch_up;
    enum tn_retry retry;
    int64_t window_s; /* so long after its beginning a period is not late */
};

/* Older ones than this many are forgotten by TN_CATCH_UP_ALL. */
#define TN_CATCH_UP_MAX 100

enum tn_plan_kind {
    TN_PLAN_NOTHING, /* the current period was run, or may not be run again */
    TN_PLAN_RUN,
    TN_PLAN_NOTE, /* write it down as `state`, and do not run it */
};

struct tn_plan {
    enum tn_plan_kind kind;
    enum tn_period_state state;
    int64_t at_s; /* of the period */
};

/* last.state NONE: no record yet. */
struct tn_plan tn_plan_cron(const struct tn_cron_rules *rules, const struct tn_period_record *last,
                            int64_t now_s);
/* Of `tenure once`: the record of that very period. */
bool tn_plan_once(enum tn_retry retry, const struct tn_period_record *record);

#endif
