#include "cron/schedule.h"

#include <assert.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define DAY_S    INT64_C(86400)
/* From one 29 February to the next over a year such as 2100. */
#define DAYS_MAX (9 * 366)

/* ---- Days ---------------------------------------------------------------- */

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

struct day {
    int month, day, weekday; /* 1 to 12, 1 to 31, 0 is Sunday */
};

/* Of the proleptic Gregorian calendar, by days since 1970-01-01, counted from a first of March: the
 * leap day is the last of such a year. */
static struct day day_of(int64_t days)
{
    int64_t z = days + 719468, era = floor_div(z, 146097), doe = z - era * 146097;
    int64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
    int64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100), mp = (5 * doy + 2) / 153;

    return (struct day){.month = (int)(mp < 10 ? mp + 3 : mp - 9),
                        .day = (int)(doy - (153 * mp + 2) / 5 + 1),
                        .weekday = (int)(((days + 4) % 7 + 7) % 7)};
}

static bool has(uint64_t bits, int n)
{
    return bits >> n & 1;
}

static bool is_day(const struct tn_schedule *s, int64_t days)
{
    struct day d = day_of(days);
    bool day = has(s->days, d.day), weekday = has(s->weekdays, d.weekday);

    if (!has(s->months, d.month))
        return false;
    return s->any_day || s->any_weekday ? day && weekday : day || weekday;
}

/* ---- Parse --------------------------------------------------------------- */

static const char *const months[] = {"jan", "feb", "mar", "apr", "may", "jun", "jul",
                                     "aug", "sep", "oct", "nov", "dec", NULL};
static const char *const weekdays[] = {"sun", "mon", "tue", "wed", "thu", "fri", "sat", NULL};

struct field {
    const char *what;
    int min, max;
    const char *const *names;
};

static const struct field fields[] = {{"minute", 0, 59, NULL},
                                      {"hour", 0, 23, NULL},
                                      {"day of the month", 1, 31, NULL},
                                      {"month", 1, 12, months},
                                      {"day of the week", 0, 7, weekdays}};
enum { FIELDS = sizeof fields / sizeof fields[0] };

static bool parse_number(const struct field *f, const char **p, int *out)
{
    int n = 0, digits = 0;

    for (int i = 0; f->names && f->names[i]; i++) {
        if (strncasecmp(*p, f->names[i], 3) == 0 && !isalnum((unsigned char)(*p)[3])) {
            *p += 3;
            *out = i + (f->min == 1);
            return true;
        }
    }
    for (; isdigit((unsigned char)**p) && digits < 3; digits++)
        n = n * 10 + *(*p)++ - '0';
    *out = n;
    return digits > 0 && n >= f->min && n <= f->max;
}

/* One member of a list: a star, a number or a range, the first and the last with a step. */
static bool parse_member(const struct field *f, const char **p, uint64_t *bits)
{
    int from = f->min, to = f->max, step = 1;
    bool range = true;

    if (f->max == 7 && **p == '*')
        to = 6;
    if (**p == '*') {
        (*p)++;
    } else {
        if (!parse_number(f, p, &from))
            return false;
        to = from;
        range = **p == '-';
        if (range && (++*p, !parse_number(f, p, &to)))
            return false;
        if (f->max == 7 && to == 0 && from > 0)
            to = 7; /* until Sunday */
    }
    if (**p == '/') {
        const struct field steps = {"step", 1, f->max ? f->max : 1, NULL};

        ++*p;
        if (!range || !parse_number(&steps, p, &step))
            return false;
    }
    for (int n = from; n <= to; n += step)
        *bits |= UINT64_C(1) << (f->max == 7 ? n % 7 : n);
    return from <= to;
}

static bool parse_field(const struct field *f, const char **p, uint64_t *bits, bool *star)
{
    *bits = 0;
    *star = **p == '*';
    for (;;) {
        if (!parse_member(f, p, bits))
            return false;
        if (**p != ',')
            return !**p || isspace((unsigned char)**p);
        ++*p;
    }
}

static const char *skip_spaces(const char *p)
{
    while (isspace((unsigned char)*p))
        p++;
    return p;
}

static const char *long_form(const char *text)
{
    static const char *const words[][2] = {
        {"@hourly", "0 * * * *"},   {"@daily", "0 0 * * *"},   {"@midnight", "0 0 * * *"},
        {"@weekly", "0 0 * * 0"},   {"@monthly", "0 0 1 * *"}, {"@yearly", "0 0 1 1 *"},
        {"@annually", "0 0 1 1 *"},
    };

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcmp(text, words[i][0]) == 0)
            return words[i][1];
    }
    return text;
}

static bool ever(const struct tn_schedule *s)
{
    for (int64_t d = 0; d < DAYS_MAX; d++) {
        if (is_day(s, d))
            return true;
    }
    return false;
}

enum tenure_status tn_schedule_parse(const char *text, struct tn_schedule *s,
                                     struct tenure_error *err)
{
    uint64_t bits[FIELDS];
    bool star[FIELDS];
    const char *p = skip_spaces(long_form(text));

    for (int i = 0; i < FIELDS; i++) {
        if (!*p)
            return tenure_fail(err, TENURE_INVALID,
                               "'%.60s' has no field for the %s: give minute, hour, day of the "
                               "month, month and day of the week",
                               text, fields[i].what);
        const char *begin = p;
        if (!parse_field(&fields[i], &p, &bits[i], &star[i]))
            return tenure_fail(err, TENURE_INVALID, "'%.*s' is not a %s (%d to %d)",
                               (int)strcspn(begin, " \t"), begin, fields[i].what, fields[i].min,
                               fields[i].max);
        p = skip_spaces(p);
    }
    if (*p)
        return tenure_fail(err, TENURE_INVALID, "'%.40s' is one field too many: there are five", p);
    struct tn_schedule parsed = {.minutes = bits[0],
                                 .hours = bits[1],
                                 .days = bits[2],
                                 .months = bits[3],
                                 .weekdays = bits[4],
                                 .any_hour = star[1],
                                 .any_day = star[2],
                                 .any_weekday = star[4]};
    if (!ever(&parsed))
        return tenure_fail(err, TENURE_INVALID, "no day is ever like '%.60s'", text);
    *s = parsed;
    return TENURE_OK;
}

void tn_schedule_every(struct tn_schedule *s, int64_t every_s)
{
    assert(every_s >= 1);
    *s = (struct tn_schedule){.every_s = every_s};
}

/* ---- Times --------------------------------------------------------------- */

/* The times at which local clocks show `local` (seconds since 1970 as if it were UTC): 0 to 2. */
static int times_of(const struct tn_schedule *s, const struct tn_zone *zone, int64_t local,
                    int64_t out[2])
{
    int64_t before = zone->offset(zone->arg, local - DAY_S);
    int64_t after = zone->offset(zone->arg, local + DAY_S);
    int64_t first = local - before, second = local - after;

    if (before == after) {
        out[0] = first;
        return 1;
    }
    bool is_first = zone->offset(zone->arg, first) == before;
    bool is_second = zone->offset(zone->arg, second) == after;
    out[0] = is_first || !is_second ? first : second;
    if (!is_first && !is_second) /* skipped: so much later, by the clock of before */
        return s->any_hour ? 0 : 1;
    out[1] = second;
    return is_first && is_second && s->any_hour ? 2 : 1;
}

/* Of one local day: the latest time in [from, to], or the first one; false: none. */
static bool find_in_day(const struct tn_schedule *s, const struct tn_zone *zone, int64_t day,
                        int64_t from, int64_t to, bool latest, int64_t *best)
{
    bool found = false;

    if (!is_day(s, day))
        return false;
    for (int minute = 0; minute < 24 * 60; minute++) {
        int64_t times[2];

        if (!has(s->hours, minute / 60) || !has(s->minutes, minute % 60))
            continue;
        int n = times_of(s, zone, day * DAY_S + minute * 60, times);
        for (int i = 0; i < n; i++) {
            if (times[i] < from || times[i] > to ||
                (found && (latest ? times[i] <= *best : times[i] >= *best)))
                continue;
            *best = times[i];
            found = true;
        }
    }
    return found;
}

/* A skipped time may be later than one of the next day, so that one day more is looked at. */
static int64_t find(const struct tn_schedule *s, const struct tn_zone *zone, int64_t from,
                    int64_t to, bool latest)
{
    int64_t at = latest ? to : from, step = latest ? -1 : 1, best = at;
    int64_t day = floor_div(at + zone->offset(zone->arg, at), DAY_S) - step;
    bool found = false;

    for (int i = 0; i < DAYS_MAX; i++, day += step) {
        int64_t other;
        bool before = found;

        if (find_in_day(s, zone, day, from, to, latest, &other)) {
            if (!found || (latest ? other > best : other < best))
                best = other;
            found = true;
        }
        if (before)
            break;
    }
    assert(found); /* tn_schedule_parse() has found a day */
    return best;
}

int64_t tn_schedule_last(const struct tn_schedule *s, const struct tn_zone *zone, int64_t at_s)
{
    if (s->every_s)
        return floor_div(at_s, s->every_s) * s->every_s;
    return find(s, zone, INT64_MIN, at_s, true);
}

int64_t tn_schedule_next(const struct tn_schedule *s, const struct tn_zone *zone, int64_t at_s)
{
    if (s->every_s)
        return (floor_div(at_s, s->every_s) + 1) * s->every_s;
    return find(s, zone, at_s + 1, INT64_MAX, false);
}
