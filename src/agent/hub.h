/*
 * agent/hub.h - one HTTP listener for the elections of several processes.
 *
 * Of `tenure agent`.  Each election's process shows who leads in a page that is
 * shared (status/facts.h), and tells the rest over HTTP on connections that it
 * is handed, over a socket pair.  The routes are those of api/api.h.
 * docs/adr/0014-one-listener.md.
 *
 * THREADS.  The calls below are for one thread, the one that starts the processes.
 */
#ifndef TN_AGENT_HUB_H
#define TN_AGENT_HUB_H

#include <sys/types.h>

#include "api/api.h"

struct tn_hub;

/* Listen.  Statuses as tn_api_start(). */
enum tenure_status tn_hub_open(const struct tn_api_options *options, struct tn_hub **hub,
                               struct tenure_error *err);
/* Accepts NULL. */
void tn_hub_close(struct tn_hub *hub);
/* Which elections there are, in that order.  CONFIG: more names than it can keep, over time. */
enum tenure_status tn_hub_set(struct tn_hub *hub, const char *const *names, size_t n,
                              struct tenure_error *err);

/* What a process inherits; close-on-exec here. */
struct tn_hub_seat {
    int facts; /* the hub's: to be passed on, not to be closed */
    int pair;  /* to be closed once it was passed on; -1: could not be made */
};
/* Before the process of that election is started.  false: it is not known, or no descriptors. */
bool tn_hub_prepare(struct tn_hub *hub, const char *name, struct tn_hub_seat *seat);
void tn_hub_started(struct tn_hub *hub, const char *name, pid_t pid);
/* It has ended, or could not be started; fate is a sentence for people. */
void tn_hub_ended(struct tn_hub *hub, const char *name, const char *fate);

#endif
