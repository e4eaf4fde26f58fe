/*
 * supervise/program/probe.h - is the program well?  Asked again and again, in the
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

#include "os/loop.h"

enum tn_probe_kind { TN_PROBE_NONE, TN_PROBE_EXEC, TN_PROBE_HTTP, TN_PROBE_TCP, TN_PROBE_NOTIFY };

#define TN_PROBE_ADDRESSES 4

struct tn_probe_options {
    const char *spec; /* NULL: none */
    int64_t delay_ns; /* after the start of the program */
    int64_t interval_ns;
    int64_t timeout_ns;
    int threshold; /* so many failures in a row */
};

/* What a specification means. */
struct tn_probe_target {
    struct tn_probe_options o;
    enum tn_probe_kind kind;
    const char *command; /* EXEC */
    char host[128], path[256];
    struct sockaddr_storage addresses[TN_PROBE_ADDRESSES]; /* of the name; tried in turn */
    unsigned address_count;
};

struct tn_probe {
    struct tn_probe_target to;
    unsigned changes; /* of the target, that were asked for */
    unsigned address_at;

    bool on;               /* there is something to probe */
    bool asking;           /* a probe is out */
    struct tn_watch watch; /* its socket */
    bool sent;             /* HTTP: the request is out */
    struct tn_timer timer; /* probe then; or, if asking, give up then */
    int failures;
    bool failed;  /* at or above the threshold */
    bool trusted; /* it has answered well at least once since it was switched on */
    uint64_t good, bad, told_good, told_bad; /* results, and those that were passed on */
};

/* Understand spec.  May block for the resolution of a name.  CONFIG otherwise. */
enum tenure_status tn_probe_parse(struct tn_probe_target *to, const struct tn_probe_options *o,
                                  struct tenure_error *err);
/* Switched off; due: its time has come, tn_probe_time() has to be called. */
void tn_probe_open(struct tn_probe *p, const struct tn_probe_target *to, struct tn_loop *loop,
                   void (*due)(void *arg, int64_t now_ns), void *arg);
/* The program has started, or is gone. */
void tn_probe_switch(struct tn_probe *p, bool on, int64_t now);
/* Time has passed.  true: run the command of an EXEC probe now, and tell the result. */
bool tn_probe_time(struct tn_probe *p, int64_t now);
/* A result that came from elsewhere: a command that ended, a word of the program. */
void tn_probe_result(struct tn_probe *p, bool well, int64_t now);

#endif
