/*
 * agent/fleet.h - `tenure agent`: several elections, each a process of its own.
 *
 * An election is a supervisor (supervise/supervisor.h), which owns its process: its
 * signals, its orphans, and a guard that kills it if it hangs.  So each runs in a
 * child that executes this binary again, and what happens to one happens to no
 * other.  The agent itself holds no lease.  It starts the children, starts them
 * again, passes stops and reloads on, and ends when they have all ended.
 * docs/adr/0013-config.md has the reasons.
 *
 * The child finds the text of the configuration, as the agent checked it, in the
 * descriptor TN_FLEET_FD: no secret is in its arguments or its environment, and
 * it cannot see another version of the file.
 */
#ifndef TN_AGENT_FLEET_H
#define TN_AGENT_FLEET_H

#include <signal.h>
#include <stddef.h>
#include <sys/types.h>

#include "api/api.h"
#include "supervise/program/notify.h"
#include "tenure/status.h"

#define TN_FLEET_FD     3
/* Stores that a child has used: one that is started in its place makes none of them again. */
#define TN_FLEET_KNOWN  4
/* Where there is a listener for all (--inner): the leader page, and the socket to the agent. */
#define TN_FLEET_PAGE   5
#define TN_FLEET_SOCKET 6

/* Exit codes of a child that mean something to us. */
struct tn_fleet_codes {
    int again; /* the store refused, or something broke: try again later */
    int usage; /* the settings cannot work */
};

struct tn_fleet_options {
    const char *config; /* the file's name, which children put into their messages */
    const char *log;    /* --log of the children; NULL: what the file says */
    const char *level;  /* --log-level, the same */
    const char *stamp;  /* --log-time, the same */
    struct tn_fleet_codes codes;
    /* SIGHUP: read the file again and say which elections there are now (tn_fleet_set()).
     * false: it cannot be used, and was told; nothing changes. */
    bool (*reload)(void *arg);
    void *arg;
};

struct tn_fleet;

/* text is copied.  UNAVAILABLE without descriptors or memory. */
enum tenure_status tn_fleet_open(const struct tn_fleet_options *options, struct tn_fleet **fleet,
                                 struct tenure_error *err);
/* One address for all elections, told by this process; before the first set().  Statuses as
 * tn_api_start(). */
enum tenure_status tn_fleet_listen(struct tn_fleet *fleet, const struct tn_api_options *options,
                                   struct tenure_error *err);
/* One election as it should be. */
struct tn_fleet_election {
    const char *name;
    bool restart; /* it cannot change as it runs: its process is stopped and started again */
};

/* What the children read from now on, and the elections there should be.  Those that run go on, and
 * are told to read it again. */
enum tenure_status tn_fleet_set(struct tn_fleet *fleet, const char *text, size_t len,
                                const struct tn_fleet_election *elections, size_t n,
                                struct tenure_error *err);
/* Runs until it is asked to stop, or every election has ended.  Returns the exit code: the
 * highest of those that ended by themselves. */
int tn_fleet_run(struct tn_fleet *fleet);
/* Accepts NULL. */
void tn_fleet_close(struct tn_fleet *fleet);

/* In a child: the text as it is now, malloc'ed and NUL-terminated; NULL with err. */
char *tn_fleet_text(size_t *len, struct tenure_error *err);
/* In a child: the signals that are blocked, as its programs should find them.  A SIGHUP of ours is
 * held back until the child can take it. */
void tn_fleet_mask(sigset_t *mask);

#endif
