/* os/log.h - what `tenure run` tells people, on stderr, a line at a time. */
#ifndef TN_OS_LOG_H
#define TN_OS_LOG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "tenure/status.h"

/* AUTO: text on a terminal, JSON elsewhere. */
enum tn_log_format { TN_LOG_AUTO, TN_LOG_TEXT, TN_LOG_JSON, TN_LOG_NONE };

/* How much of it.  The level of a line follows from its event. */
enum tn_log_level { TN_LEVEL_ERROR, TN_LEVEL_WARN, TN_LEVEL_INFO, TN_LEVEL_DEBUG };

/* When a line of text begins with the time; one of JSON always has it.  AUTO: unless stderr goes to
 * the journal, which keeps the time itself (JOURNAL_STREAM). */
enum tn_log_stamp { TN_LOG_STAMP_AUTO, TN_LOG_STAMP_ALWAYS, TN_LOG_STAMP_NEVER };
void tn_log_stamp(enum tn_log_stamp when);

/* Lines up to that level are told.  Default: INFO. */
void tn_log_limit(enum tn_log_level level);
/* Would such a line be told?  For what is not free to find out. */
bool tn_log_wants(enum tn_log_level level);
/* name and id stand in every line.  Copied. */
void tn_log_setup(enum tn_log_format format, const char *name, const char *id);
/* "tenure VERB:" in front of a line of text; a string that lives on.  Default: "run". */
void tn_log_as(const char *verb);
/* event is one word for programs ("leading", "stopped"); the rest is for people.  One write(2),
 * so that lines of several processes do not mix. */
void tn_log(const char *event, const char *format, ...) TENURE_PRINTF(2, 3);

/* For lines that strangers can cause: one in so long a time.  Starts as zeros. */
struct tn_log_gate {
    _Atomic int64_t next_ns; /* CLOCK_BOOTTIME */
    _Atomic unsigned skipped;
};
/* May one be told now?  Then *skipped is how many were not, since the last one. */
bool tn_log_pass(struct tn_log_gate *gate, int64_t now_ns, int64_t span_ns, unsigned *skipped);

#endif
