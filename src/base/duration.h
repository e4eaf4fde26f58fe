/* base/duration.h - lengths of time as people write them: "150s", "1.5s", "1h30m", "200ms". */
#ifndef TN_BASE_DURATION_H
#define TN_BASE_DURATION_H

#include <stdbool.h>
#include <stdint.h>

#define TN_DURATION_TEXT 32 /* bytes that tn_duration_format() writes at most, with the NUL */

#define TN_NEVER (INT64_MAX / 2) /* a time that does not come, and can be added to */

/* Of two times or lengths, the one that comes first or last. */
static inline int64_t tn_min_ns(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t tn_max_ns(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/*
 * Parse one or more "number unit" in a row; units are ns, us, ms, s, m, h, d.
 * A unit is always needed, except behind a lone 0.  Negative, empty and
 * overlong ones are refused.  On failure *ns is untouched.
 */
bool tn_duration_parse(const char *text, int64_t *ns);
/* The shortest form that parses back to the same: "90s", "1500ms". */
void tn_duration_format(int64_t ns, char out[TN_DURATION_TEXT]);

#endif
