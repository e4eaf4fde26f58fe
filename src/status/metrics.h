/* status/metrics.h - what an agent counts, as Prometheus text or OpenMetrics. */
#ifndef TN_STATUS_METRICS_H
#define TN_STATUS_METRICS_H

#include "http/module.h"
#include "status/snapshot.h"

/* malloc'ed text, or NULL. */
char *tn_metrics_text(struct tn_election_snapshot *const *snapshots, size_t n,
                      const struct tn_http_counts *http, bool openmetrics, size_t *len);

#endif
