#include "rfc3339.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void tn_rfc3339_format(uint64_t unix_ms, char out[TN_RFC3339_SIZE])
{
    time_t seconds = (time_t)(unix_ms / 1000);
    struct tm tm;
    size_t n = 0;

    /* Beyond year 9999 the text would not parse again. */
    if (unix_ms < UINT64_C(253402300800000) && gmtime_r(&seconds, &tm))
        n = strftime(out, TN_RFC3339_SIZE, "%Y-%m-%dT%H:%M:%S", &tm);
    if (n)
        snprintf(out + n, TN_RFC3339_SIZE - n, ".%03uZ", (unsigned)(unix_ms % 1000));
    else
        out[0] = 0;
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
