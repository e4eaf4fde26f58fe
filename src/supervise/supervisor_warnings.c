/* What somebody should do something about: logged once, and shown to everybody until it is over. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/timing.h"
#include "status/snapshot.h"
#include "supervise/supervisor_inner.h"

/* Ends in a row, each soon after its start, that are a loop. */
#define LOOP 3

void tn_supervisor_warn(struct tn_supervisor *s, unsigned warning, const char *format, ...)
{
    char text[sizeof s->warnings[0]];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    snprintf(s->warnings[warning], sizeof s->warnings[0], "%s", text);
    if (!tn_election_warn(s->election, warning, text))
        return;
    if (text[0] && warning != TN_WARNING_PROGRAM_MISSING) /* each try is logged */
        tn_log("warning", "%s", text);
    else if (!text[0])
        tn_log("cleared", "no longer: %s", tn_warning_word((enum tn_warning)warning));
    tn_supervisor_sync(s, TN_PEER_ANNOUNCE);
}

const char *tn_supervisor_warning(const struct tn_supervisor *s)
{
    for (int i = 0; i < TN_WARNINGS; i++) {
        if (s->warnings[i][0])
            return s->warnings[i];
    }
    return "";
}

/* The count is not in the text, which is logged whenever it changes. */
void tn_supervisor_exited(struct tn_supervisor *s, unsigned in_a_row)
{
    tn_election_exited(s->election);
    if (in_a_row >= LOOP)
        tn_supervisor_warn(s, TN_WARNING_CRASH_LOOP,
                           "crash loop: the program keeps ending within a minute of its start");
}

/* How the lease and its store compare with what this candidate was told. */
void tn_supervisor_compare_lease(struct tn_supervisor *s)
{
    struct tn_snapshot now;

    tn_driver_snapshot(s->elector, &now);
    if (now.weakness[0])
        tn_supervisor_warn(s, TN_WARNING_STORE_VOLATILE, "%s", now.weakness);
    int64_t ours_ms = now.ttl_ns / TN_MS, theirs_ms = now.lease.ttl_ms;
    if (now.seen == TN_SEEN_HELD && now.phase == TN_PHASE_FOLLOWING && ours_ms > 0 &&
        ours_ms != theirs_ms)
        tn_supervisor_warn(s, TN_WARNING_TTL_DIFFERS,
                           "ttls differ: %.100s leads with %.3g s, this candidate has %.3g s",
                           now.lease.holder, (double)theirs_ms / 1e3, (double)ours_ms / 1e3);
    else
        tn_supervisor_warn(s, TN_WARNING_TTL_DIFFERS, "%s", "");
}

/* was: the highest epoch that was seen before, if the record is gone or older now; 0: neither. */
void tn_supervisor_forgot(struct tn_supervisor *s, uint64_t was)
{
    if (was)
        tn_supervisor_warn(s, TN_WARNING_STORE_FORGOT,
                           "the store forgot what it held: the lease of epoch %" PRIu64
                           " is gone, and perhaps the state with it",
                           was);
    else
        tn_supervisor_warn(s, TN_WARNING_STORE_FORGOT, "%s", "");
}
