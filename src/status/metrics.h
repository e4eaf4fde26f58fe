/* status/metrics.h - what an agent counts, as Prometheus text or OpenMetrics. */
#ifndef TN_STATUS_METRICS_H
#define TN_STATUS_METRICS_H

#include <stdio.h>

#include "http/module.h"
#include "status/snapshot.h"

/* malloc'ed text, or NULL. */
char *tn_metrics_text(struct tn_election_snapshot *const *snapshots, size_t n,
                      const struct tn_http_counts *http, bool openmetrics, size_t *len);

/* ---- Parts, for whoever counts something else ------------------------------ */

/* The lines before the samples of a metric.  In OpenMetrics a counter's family has no _total. */
void tn_metrics_family(FILE *out, bool openmetrics, const char *name, const char *type,
                       const char *help);
/* Its content type. */
const char *tn_metrics_type(bool openmetrics);
/* The value of a label, as it is printed between quotes. */
void tn_metrics_escape(const char *text, char *out, size_t size);
/* What every listener counts: the version, its requests, its process; and the end of the text. */
void tn_metrics_end(FILE *out, bool openmetrics, const struct tn_http_counts *http);

#endif
