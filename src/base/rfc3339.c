#include "rfc3339.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The day that many days after 1970-01-01, in years that begin in March: then the leap day is the
 * last one.  gmtime_r() reads the zone file of the machine first, 40 us before the first lease. */
static void civil(uint64_t days, unsigned *year, unsigned *month, unsigned *day)
{
    uint64_t since = days + 719468; /* since 0000-03-01; an era has 400 years, 146,097 days */
    uint64_t era = since / 146097, of_era = since % 146097;
    uint64_t y = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    uint64_t of_year = of_era - (365 * y + y / 4 - y / 100);
    uint64_t m = (5 * of_year + 2) / 153; /* 0: March; five months have 153 days */

    *day = (unsigned)(of_year - (153 * m + 2) / 5 + 1);
    *month = (unsigned)(m < 10 ? m + 3 : m - 9);
    *year = (unsigned)(era * 400 + y + (*month <= 2));
}

void tn_rfc3339_format(uint64_t unix_ms, char out[TN_RFC3339_SIZE])
{
    unsigned year, month, day, of_day = (unsigned)(unix_ms % 86400000);

    out[0] = 0;
    if (unix_ms >= UINT64_C(253402300800000))
        return; /* beyond year 9999 the text would not parse again */
    civil(unix_ms / 86400000, &year, &month, &day);
    snprintf(out, TN_RFC3339_SIZE, "%04u-%02u-%02uT%02u:%02u:%02u.%03uZ", year, month, day,
             of_day / 3600000, of_day / 60000 % 60, of_day / 1000 % 60, of_day % 1000);
}

bool tn_rfc3339_parse(const char *text, uint64_t *unix_ms)
{
    struct tm tm = {0};
    unsigned ms = 0;
    int end = 0;
    const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);

    if (!rest || sscanf(rest, ".%3uZ%n", &ms, &end) != 1 || end != 5 || rest[end])
        return false;
    time_t seconds = timegm(&tm);
    if (seconds < 0)
        return false;
    *unix_ms = (uint64_t)seconds * 1000 + ms;
    return true;
}

int64_t tn_wall_span_ms(uint64_t from_ms, uint64_t to_ms)
{
    const uint64_t set_ms = UINT64_C(1577836800000); /* 2020: no machine of ours was up before */

    if (from_ms == 0 || to_ms == 0 || (from_ms < set_ms) != (to_ms < set_ms))
        return -1;
    return to_ms > from_ms ? (int64_t)(to_ms - from_ms) : 0;
}
