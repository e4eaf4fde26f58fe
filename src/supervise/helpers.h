/*
 * supervise/helpers.h - short-lived commands with a time limit: probes, and hooks about others'
 * terms.
 *
 * They are our own children, in process groups of their own, and end with us.
 * The supervisor's loop reaps them and keeps their time, so none can delay
 * anything.
 */
#ifndef TN_SUPERVISE_HELPERS_H
#define TN_SUPERVISE_HELPERS_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "os/loop.h"

#define TN_HELPERS_MAX 16

enum tn_helper_kind {
    TN_HELPER_NEW_LEADER,
    TN_HELPER_PROBE,
    TN_HELPER_CANDIDATE_PROBE,
    TN_HELPER_FENCE,
    TN_HELPER_DROPPED, /* killed, and nobody waits for its result */
};

struct tn_helpers {
    struct {
        pid_t pid; /* 0: none */
        enum tn_helper_kind kind;
        struct tn_timer kill;
    } list[TN_HELPERS_MAX];
    sigset_t mask; /* that they get */
};

void tn_helpers_open(struct tn_helpers *h, struct tn_loop *loop, const sigset_t *mask);
/* Run `sh -c command`.  false: too many at once, or no process to be had. */
bool tn_helpers_run(struct tn_helpers *h, enum tn_helper_kind kind, const char *command,
                    char *const *env, int64_t limit_ns);
/* A child was reaped: true if it was one of these. */
bool tn_helpers_reaped(struct tn_helpers *h, pid_t pid, enum tn_helper_kind *kind);
/* Kill those of that kind; what they end with is no result any more. */
void tn_helpers_drop(struct tn_helpers *h, enum tn_helper_kind kind);
void tn_helpers_kill_all(struct tn_helpers *h);
/* Their numbers, for whoever kills all other children.  Returns how many. */
unsigned tn_helpers_pids(const struct tn_helpers *h, pid_t out[TN_HELPERS_MAX]);

#endif
