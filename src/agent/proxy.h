/*
 * agent/proxy.h - one HTTP listener for the elections of several processes.
 *
 * Of `tenure agent`.  Each election's process shows who leads in a page that is
 * shared (status/leader_page.h), and says the rest over a socket pair (api/wire.h).
 * The routes are those of api/api.h.  docs/adr/0014-one-listener.md and 0017.
 *
 * THREADS.  The calls below are for one thread, the one that starts the processes.
 */
#ifndef TN_AGENT_PROXY_H
#define TN_AGENT_PROXY_H

#include <sys/types.h>

#include "api/api.h"

struct tn_proxy;

/* Listen.  Statuses as tn_api_start(). */
enum tenure_status tn_proxy_open(const struct tn_api_options *options, struct tn_proxy **proxy,
                                 struct tenure_error *err);
/* Accepts NULL. */
void tn_proxy_close(struct tn_proxy *proxy);
/* Which elections there are, in that order. */
enum tenure_status tn_proxy_set(struct tn_proxy *proxy, const char *const *names, size_t n,
                                struct tenure_error *err);

/* How many have descriptors once these are set: an election that was removed keeps its own. */
size_t tn_proxy_count(struct tn_proxy *proxy, const char *const *names, size_t n);

/* What a process inherits; close-on-exec here. */
struct tn_proxy_ends {
    int page;   /* the proxy's: to be passed on, not to be closed */
    int socket; /* to be closed once it was passed on; -1: none */
};
/* Before the process of that election is started.  false: it is not known, or no descriptors. */
bool tn_proxy_prepare(struct tn_proxy *proxy, const char *name, struct tn_proxy_ends *ends);
void tn_proxy_started(struct tn_proxy *proxy, const char *name, pid_t pid);
/* It has ended, or could not be started; fate is a sentence for people. */
void tn_proxy_ended(struct tn_proxy *proxy, const char *name, const char *fate);

#endif
