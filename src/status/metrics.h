/* status/metrics.h - what an agent counts, as Prometheus text or OpenMetrics. */
#ifndef TN_STATUS_METRICS_H
#define TN_STATUS_METRICS_H

#include <stdio.h>

#include "status/election.h"

/* malloc'ed text, or NULL.  Never blocks for longer than a copy. */
char *tn_metrics_text(struct tn_election *const *elections, size_t n,
                      const struct tn_http_counts *http, bool openmetrics, size_t *len);

/* A label's value, escaped; cut at size. */
void tn_metrics_label(const char *text, char *out, size_t size);

/* What the agent itself counts, likewise, without the end of the text. */
void tn_metrics_agent(FILE *out, const struct tn_http_counts *http, bool openmetrics);

#endif
