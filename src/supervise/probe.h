/*
 * supervise/probe.h - is the program well?  Asked again and again, in the
 * supervisor's loop, without ever blocking it.
 *
 *   exec:COMMAND          a shell command that ends with code 0
 *   http://HOST:PORT/PATH an answer from 200 to 399 (no TLS: it is meant for the
 *                         program on this machine)
 *   tcp:HOST:PORT         a connection
 *   notify                the program itself says WATCHDOG=1 (sd_notify(3))
 */
#ifndef TN_SUPERVISE_PROBE_H
#define TN_SUPERVISE_PROBE_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#include "tenure/status.h"

enum tn_probe_kind { TN_PROBE_NONE, TN_PROBE_EXEC, TN_PROBE_HTTP, TN_PROBE_TCP, TN_PROBE_NOTIFY };

#define TN_PROBE_ADDRESSES 4

struct tn_probe_options {
    const char *spec; /* NULL: none */
    int64_t delay_ns; /* after the start of the program */
    int64_t interval_ns;
    int64_t timeout_ns;
    int threshold; /* so many failures in a row */
};

struct tn_probe {
    struct tn_probe_options o;
    enum tn_probe_kind kind;
    const char *command; /* EXEC */
    char host[128], path[256];
    struct sockaddr_storage addresses[TN_PROBE_ADDRESSES]; /* of the name; tried in turn */
    unsigned address_count, address_at;

    bool on;         /* there is something to probe */
    bool asking;     /* a probe is out */
    int fd;          /* its socket; -1 */
    bool sent;       /* HTTP: the request is out */
    int64_t next_ns; /* ask then; or, if asking, give up then */
    int failures;
    bool failed;  /* at or above the threshold */
    bool trusted; /* it has answered well at least once since it was switched on */
    uint64_t good, bad, told_good, told_bad; /* results, and those that were passed on */
};

/* Understand spec.  May block for the resolution of a name.  CONFIG otherwise. */
enum tenure_status tn_probe_open(struct tn_probe *p, const struct tn_probe_options *o,
                                 struct tenure_error *err);
/* The program has started, or is gone. */
void tn_probe_switch(struct tn_probe *p, bool on, int64_t now);
/* What to poll, and for what; -1 for nothing. */
int tn_probe_fd(const struct tn_probe *p, short *events);
int64_t tn_probe_due(const struct tn_probe *p);
/* Its socket is ready. */
void tn_probe_ready(struct tn_probe *p, int64_t now);
/* Time has passed.  true: run the command of an EXEC probe now, and tell the result. */
bool tn_probe_time(struct tn_probe *p, int64_t now);
/* A result that came from elsewhere: a command that ended, a word of the program. */
void tn_probe_result(struct tn_probe *p, bool well, int64_t now);

#endif
