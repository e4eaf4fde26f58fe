/*
 * work/listen.h - `tenure work --listen`: probes, metrics, /v1/jobs and the page of a worker.
 *
 * The listener is the one of elections (api/api.h), with the same rules of tokens, names and
 * certificates.  It answers from what the worker knows; nothing of it asks the store.
 */
#ifndef TN_WORK_LISTEN_H
#define TN_WORK_LISTEN_H

#include "api/api.h"
#include "jobs/driver.h"

struct tn_work_listener;

/* Listen, if an address is given; else *listener is NULL.  As tn_api_start(). */
enum tenure_status tn_work_listen(const struct tn_api_options *options, const char *group,
                                  const char *id, struct tn_work_listener **listener,
                                  struct tenure_error *err);
/* From here on it answers for that worker, which must outlive it.  These accept NULL. */
void tn_work_listen_for(struct tn_work_listener *listener, tn_jobs_driver *driver);
/* Those who watch are told.  From any thread; never blocks. */
void tn_work_listen_notify(struct tn_work_listener *listener);
void tn_work_listen_close(struct tn_work_listener *listener);

/* metrics.c: everything that is counted of a worker. */
void tn_work_metrics(tn_jobs_driver *driver, const char *group, const char *id, FILE *out,
                     bool openmetrics);

#endif
