/*
 * cron/schedule.h - when a job is due: a pure function of the wall clock.
 *
 * Every machine that asks at the same time gets the same answer, if it has the same zone.  Nothing
 * here reads a clock or TZ: the zone comes in as a function.
 *
 *   EVERY    periods begin at the whole multiples of a length since 1970-01-01T00:00:00Z.
 *   FIELDS   five, as in crontab(5): minute, hour, day of the month, month, day of the week. Lists,
 *            ranges and steps (1,15  9-17  0-59/10), names (jan, mon); 7 is Sunday too.
 *            Two days that are both restricted are an "or", as there.  Also @hourly, @daily,
 *            @midnight, @weekly, @monthly, @yearly and @annually.
 *
 * When clocks are set forward, a time that does not exist counts as that much later; when they are
 * set back, a time that comes twice counts once, the first time.  Hours that begin with a star are
 * different: every real hour counts, as often as it comes.
 */
#ifndef TN_CRON_SCHEDULE_H
#define TN_CRON_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

#include "tenure/status.h"

struct tn_schedule {
    int64_t every_s; /* 0: by the fields, as bits */
    uint64_t minutes, hours, days, months, weekdays;
    bool any_day, any_weekday; /* the field begins with a star */
    bool any_hour;
};

/* Seconds that local time is ahead of UTC at that time (seconds since 1970, UTC). */
struct tn_zone {
    int64_t (*offset)(void *arg, int64_t at_s);
    void *arg;
};

/* every_s >= 1. */
void tn_schedule_every(struct tn_schedule *s, int64_t every_s);
/* INVALID with the field that cannot be read, or if no day ever matches.  *s is untouched then. */
TENURE_CHECKED enum tenure_status tn_schedule_parse(const char *text, struct tn_schedule *s,
                                                    struct tenure_error *err);

/* The latest time that is not after at_s. */
int64_t tn_schedule_last(const struct tn_schedule *s, const struct tn_zone *zone, int64_t at_s);
/* The first time after at_s. */
int64_t tn_schedule_next(const struct tn_schedule *s, const struct tn_zone *zone, int64_t at_s);

#endif
