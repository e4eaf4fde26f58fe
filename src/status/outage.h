/*
 * status/outage.h - what the log has said of a store that fails.
 *
 * A store that is gone is asked again many times a second, in turns for the
 * lease, for a change of it and for orders.  People want to read once what is
 * wrong, again when it is something else, and that it is over.
 */
#ifndef TN_STATUS_OUTAGE_H
#define TN_STATUS_OUTAGE_H

#include <stdbool.h>
#include <stdint.h>

#define TN_OUTAGE_REASONS 8
#define TN_OUTAGE_TEXT    256

/* Zeroed: the store is well. */
struct tn_outage {
    char told[TN_OUTAGE_REASONS][TN_OUTAGE_TEXT];
    unsigned n;
    int64_t told_ns; /* when the last line was written */
};

/* "reading the lease: the server is gone": the part that says why, whatever was tried. */
const char *tn_outage_reason(const char *text);
/* True if this is to be said: a reason that this outage has not had.  One with more reasons than
 * are kept (a text that differs each time) is told of once a minute. */
bool tn_outage_news(struct tn_outage *o, const char *text, int64_t now_ns);
/* The store is well.  True if that is to be said. */
bool tn_outage_over(struct tn_outage *o);

#endif
