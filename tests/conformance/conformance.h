/*
 * conformance.h - does a store keep the contract of tenure/store.h (C1 to C6)?
 *
 * The suite drives a store through its public calls only, with several
 * handles, threads and processes, so it serves whoever writes a store outside
 * this project just as well.  Three ways to use it:
 *
 *   tenure-conformance URL                      a store that tenure knows
 *   tenure-conformance --dir DIR scheme:...     a store in tenure-store-scheme.so
 *   tenure_conformance_run(url, &options)       a store in your own program,
 *                                               made known by options.setup
 *
 * It prints a line for each check and "N passed, N failed" at the end.  The
 * registers that it writes stay behind, as tombstones and small values under
 * one prefix: nothing is ever removed (C4).  Use a store made for tests.
 */
#ifndef TENURE_CONFORMANCE_H
#define TENURE_CONFORMANCE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <tenure/store.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TENURE_CONFORMANCE_OPTIONS 1

/* Zero it, set `version`, set what you need: zero always means the default. */
struct tenure_conformance_options {
    uint32_t version; /* TENURE_CONFORMANCE_OPTIONS */

    const char *prefix;     /* where registers are written; default: a fresh one */
    const char *filter;     /* only checks whose name holds this text */
    const char *module_dir; /* handed to tenure_store_module_dir() */
    /*
     * Called once, before the first open and before any process is forked: the
     * place for tenure_store_register().  Anything but OK ends the run.
     */
    enum tenure_status (*setup)(void *arg, struct tenure_error *err);
    void *arg;

    bool list;            /* only print the names of the checks */
    bool private_handles; /* each handle has registers of its own (as noop: does): the checks
                           * that need two handles do not apply.  Not with info.shared. */
    bool no_processes;    /* do not fork, even if info.shared is true */
    unsigned processes;   /* in the races; default 8, at most 16 */
    unsigned rounds;      /* at most so many in the long checks; default 2000 */
    unsigned seconds;     /* about so long in each long check; default 4 */
    unsigned call_ms;     /* the deadline of one call; default 120000: a machine may be
                           * stopped for longer than any store needs */
    unsigned limit_s;     /* a check that takes longer hangs, which ends the run; default 500 */
    FILE *out;            /* default: stdout */
};

/*
 * Runs the suite.  0: every check passed, or does not apply to this store; 1: at least one
 * failed; 2: the suite could not run (the store does not open, bad options).
 * opts may be NULL.  Forks: call it while the process has one thread.  Uses
 * SIGALRM and alarm(2) to notice a hang.
 */
int tenure_conformance_run(const char *url, const struct tenure_conformance_options *opts);

#ifdef __cplusplus
}
#endif
#endif
