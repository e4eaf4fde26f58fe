/*
 * guard/launcher.h - many programs under one guard.
 *
 *     tenure ── tenure-guard ── init ── launcher ─┬─ init ── program ── ...
 *                                                 └─ init ── program ── ...
 *
 * The launcher is what the guard runs as its program when there is one for each
 * job (`tenure work`).  Each program hangs from an init of its own, so that one
 * of them can be stopped and be known to be dead while the others go on.  It
 * knows no deadline: the guard has one for all of them, and ends the launcher's
 * whole tree.
 *
 * Descriptor 3 is a socket (SOCK_SEQPACKET) to tenure.  When it ends, so do the
 * launcher and all that it runs.
 */
#ifndef TN_GUARD_LAUNCHER_H
#define TN_GUARD_LAUNCHER_H

#include <stdint.h>

#define TN_LAUNCHER_FD  3
#define TN_LAUNCHER_ARG "launcher" /* of tenure-guard */

/*
 * kind is one of protocol.h's: SPAWN, with the memfd that describes the program,
 * SIGNAL and STOP.  The number names a program: it is free again after DEAD, but a command that
 * crosses the DEAD would reach the next one of that number, so who sends commands uses each once.
 */
struct tn_launcher_command {
    uint32_t kind;
    uint32_t number;
    int32_t signal;
    int64_t by_ns; /* STOP: KILL then */
};

/*
 * As the guard reports them: SPAWNED or FAILED, EXITED, and DEAD, which comes last, and once for
 * each SPAWN: a STOP of a number that is free is not answered.  REFUSED: the number is in use, and
 * nothing has changed.
 */
struct tn_launcher_report {
    uint32_t kind;
    uint32_t number;
    int32_t pid;
    int32_t status; /* EXITED: of wait(2) */
    int32_t error;  /* FAILED: errno */
    uint32_t stage; /* FAILED: enum tn_guard_stage */
};

/* The launcher's life; returns when tenure has hung up and nothing is left. */
int tn_launcher_main(void);

#endif
