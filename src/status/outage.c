#include "status/outage.h"

#include <stdio.h>
#include <string.h>

#include "core/timing.h"

#define SELDOM_NS (60 * TN_S)

const char *tn_outage_reason(const char *text)
{
    const char *colon = strstr(text, ": ");

    return colon ? colon + 2 : text;
}

bool tn_outage_news(struct tn_outage *o, const char *text, int64_t now_ns)
{
    const char *reason = tn_outage_reason(text);

    for (unsigned i = 0; i < o->n; i++) {
        if (strncmp(o->told[i], reason, TN_OUTAGE_TEXT - 1) == 0)
            return false;
    }
    if (o->n < TN_OUTAGE_REASONS)
        snprintf(o->told[o->n++], TN_OUTAGE_TEXT, "%s", reason);
    else if (now_ns - o->told_ns < SELDOM_NS)
        return false;
    o->told_ns = now_ns;
    return true;
}

bool tn_outage_over(struct tn_outage *o)
{
    bool told = o->n > 0;

    o->n = 0;
    return told;
}
