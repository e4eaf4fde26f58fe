/*
 * supervise/once.h - a command that runs once: `tenure lock`, `tenure once`, `tenure cron`.
 *
 * As `tenure run`, but for three things.  The command is requested once in the life of the
 * supervisor: whatever ends its term ends the supervisor too.  The wait for the lease has an end.
 * And the owner may look, under the new grant and before anything starts, whether there is still
 * something to do, and write down how it went before the lease is released.
 */
#ifndef TN_SUPERVISE_ONCE_H
#define TN_SUPERVISE_ONCE_H

#include "tenure/store.h"

struct tn_once {
    bool try_only; /* give up as soon as another candidate is seen to hold the lease */
    bool quiet;    /* that it is held is no news */
    bool
        must_return; /* the caller has more to do: a slow store is waited for, unless asked to go */
    int64_t until_ns; /* CLOCK_BOOTTIME: give up if the lease is not ours by then; TN_NEVER */
    int code_taken;   /* the exit code if the lease was not to be had */

    void *arg;
    /*
     * OPTIONAL, on a worker's thread: a term has begun with this grant.  *wanted false: the
     * lease is released and the exit code is 0.  FENCED with *floor set; other failures are tried
     * again, perhaps with another grant.  May block.
     */
    enum tenure_status (*begin)(void *arg, const struct tenure_grant *grant, bool *wanted,
                                uint64_t *floor, struct tenure_error *err);
    /*
     * OPTIONAL, after begin() and with nothing of the command left, before the lease is released:
     * its exit code, and whether it ended by itself.  May block until by_ns.
     */
    void (*ended)(void *arg, int code, bool by_itself, int64_t by_ns);
    /*
     * OPTIONAL, after a begin() that wanted the command: it was not started in this term, and the
     * lease is about to be released.  May block until by_ns.
     */
    void (*not_run)(void *arg, int64_t by_ns);
    /* "NAME=value" for the command's environment, read after begin(); ends with NULL; may be NULL
     */
    const char *const *env;

    /* Filled by the supervisor. */
    bool taken; /* it gave up waiting */
    bool asked; /* it was asked to go */
    bool ran;   /* the command was started: the exit code is its own, or that of a lost lease */
};

#endif
