/*
 * guard/protocol.h - what tenure and its guard say to each other.
 *
 * Three things are shared: a page with one word that holds the deadline, a
 * timer that is armed for it, and a socket for commands and reports.  Nothing
 * here needs a C library beyond the system calls, because the guard is a small
 * static program of its own.
 *
 * THE WORD.  Bits 0 to 62 are the deadline, in nanoseconds on CLOCK_BOOTTIME;
 * 0 means that there is no grant and nothing may run.  Bit 63 is FIRED.  Every
 * change of it is a compare-and-swap, so a renewal and the firing exclude each
 * other: once FIRED, that grant is never renewed (SAFETY: Guard).  Tenure says
 * that the grant is over by making the word 0, which also clears FIRED: then
 * nothing may run, and what still does is killed.  A tenure that does not say
 * so in time is taken for hung, and is killed too.
 *
 * THE TIMER (timerfd, CLOCK_BOOTTIME) is shared too: tenure moves it forward
 * when it raises the deadline, so that the guard sleeps on.  A timer that is
 * early only wakes the guard for nothing.  One that is late would be a danger,
 * so the deadline is never lowered by tenure alone: it sends LOWER, and the
 * guard, who reads its commands one after the other, sets the timer itself.
 * Whenever the guard has set it, it looks at the word again: tenure may have
 * changed it in between, and have set the timer first.
 */
#ifndef TN_GUARD_PROTOCOL_H
#define TN_GUARD_PROTOCOL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define TN_GUARD_ABI 3u

#define TN_WORD_FIRED    (UINT64_C(1) << 63)
#define TN_WORD_DEADLINE (TN_WORD_FIRED - 1)

/* The descriptors that the guard is started with; everything above is closed. */
enum tn_guard_fd {
    TN_GUARD_FD_SOCKET = 3, /* SOCK_SEQPACKET to tenure */
    TN_GUARD_FD_PAGE,       /* memfd: struct tn_guard_page */
    TN_GUARD_FD_TIMER,      /* timerfd: the deadline */
    TN_GUARD_FD_BUSY,       /* timerfd: a standby's store request lasts too long */
    TN_GUARD_FD_TENURE,     /* pidfd of tenure */
    TN_GUARD_FD_TICKET,     /* memfd: what the releaser needs to know */
    TN_GUARD_FD_EXE,        /* tenure's own executable, for the releaser */
    TN_GUARD_FD_END,
};

/* How much of a tree can be reached for certain. */
enum tn_contain {
    TN_CONTAIN_AUTO,   /* the strongest that works */
    TN_CONTAIN_GROUP,  /* process group, sub-reaper, parent-death signal */
    TN_CONTAIN_CGROUP, /* the same, and a cgroup v2 of its own, which is killed as a whole */
    TN_CONTAIN_PIDNS,  /* a PID namespace: it ends with its first process, whatever happens */
    TN_CONTAIN_USERNS, /* the same for users without privileges, within a user namespace */
    /* Never wished for: these two where a /proc of their own cannot be mounted. */
    TN_CONTAIN_PIDNS_HOST,
    TN_CONTAIN_USERNS_HOST,
};

#define TN_GUARD_PATH_MAX 120

/* Mapped by both.  The settings are written before the guard starts. */
struct tn_guard_page {
    uint32_t abi;
    uint32_t contain;                 /* enum tn_contain wished for */
    _Atomic uint64_t word;            /* the deadline and FIRED; see above */
    _Atomic uint64_t busy_ns;         /* tenure is in a store request, to end by then; 0: not */
    _Atomic int64_t grace_ns;         /* TERM goes out this long before the deadline */
    int64_t margin_ns;                /* KILL goes out this long before the deadline */
    int64_t orphan_grace_ns;          /* from tenure's death to KILL; 0: KILL at once */
    int64_t hang_ns;                  /* tenure must clear the word this soon after firing */
    int64_t release_delay_ns;         /* from the tree's death to the release */
    int32_t stop_signal;              /* what "TERM" means */
    uint32_t watchdog_s;              /* the device's timeout */
    char watchdog[TN_GUARD_PATH_MAX]; /* "": none */
    _Atomic int64_t kept_ns;   /* tenure keeps a grant that has fired until then, on purpose */
    _Atomic int32_t tree_init; /* by the guard: the init of the tree, or of the last one */
};

/* ---- Commands ------------------------------------------------------------ */

enum tn_guard_command_kind {
    /* Run the program that the attached memfd describes; a second descriptor is its number 3.
     * Answered at once by ACCEPTED or REFUSED, then by SPAWNED or FAILED, later by EXITED and DEAD.
     */
    TN_GUARD_SPAWN = 1,
    TN_GUARD_SIGNAL, /* signal to the program itself */
    /* End the tree: signal to the program's process group now, KILL at by_ns, or at
     * the deadline if that is earlier.  May be repeated to hasten.  DEAD follows,
     * also if nothing was running. */
    TN_GUARD_STOP,
    TN_GUARD_LOWER, /* if the word is still expect, the deadline is by_ns now */
    TN_GUARD_QUIT,  /* end the tree, if there is one, and exit: tenure releases */
    /* The attached socket leads to a prepared releaser (see below), which replaces
     * the one before.  Not answered. */
    TN_GUARD_PREPARED,
    /* Run the hook that the attached memfd describes, and end it at by_ns.  Beside a program
     * it ends when that is told to stop, and with its tree; without one it is the tree, under the
     * same deadline.  One at a time.  HOOKED follows, before the DEAD of a program's tree. */
    TN_GUARD_HOOK,
};

struct tn_guard_command {
    uint32_t kind;
    int32_t signal;
    int64_t by_ns;
    uint64_t expect;
};

/* ---- The prepared releaser ----------------------------------------------- */

/*
 * A child of tenure's that has opened the store already and sleeps on a socket
 * (SOCK_SEQPACKET) of which the guard has the only other end.  GO is said when
 * the tree is dead and tenure too, and by the guard alone: nothing else makes
 * the releaser write (I8).  It answers DONE when the lease is free, or not ours
 * any more.  The end of the socket, on either side, means that the other one is
 * gone: the releaser just ends then, and the guard executes one of its own.
 */
enum tn_releaser_word { TN_RELEASER_GO = 'g', TN_RELEASER_DONE = 'd' };

/* ---- Reports ------------------------------------------------------------- */

enum tn_guard_report_kind {
    TN_GUARD_HELLO = 1, /* contain: what works here; error and stage: a wish that cannot be met */
    TN_GUARD_ACCEPTED,  /* SPAWN is being done */
    TN_GUARD_SPAWNED,   /* pid; contain: what is in force */
    TN_GUARD_FAILED,    /* error: errno; stage: what could not be done.  DEAD follows */
    TN_GUARD_REFUSED,   /* no grant, too late for this grant, or something runs already */
    TN_GUARD_EXITED,    /* status: of wait(2); its descendants may still be there */
    TN_GUARD_FIRED,     /* the deadline has come */
    TN_GUARD_KILLS,     /* KILL has gone out */
    TN_GUARD_DEAD,      /* nothing of the tree is left */
    /* The hook has ended, status: of wait(2); or, error: errno, there was none.  Without a program
     * nothing is left of what it started either. */
    TN_GUARD_HOOKED,
};

/* What a new program could not do before it ran. */
enum tn_guard_stage {
    TN_STAGE_NONE,
    TN_STAGE_WATCHDOG,
    TN_STAGE_CONTAIN,
    TN_STAGE_FORK,
    TN_STAGE_BLOCK, /* the description does not hold together */
    TN_STAGE_USER,
    TN_STAGE_CWD,
    TN_STAGE_EXEC,
};

struct tn_guard_report {
    uint32_t kind;
    int32_t pid;
    int32_t status;
    int32_t error;
    uint32_t stage;
    uint32_t contain;
    int64_t at_ns;
};

/* ---- The description of a program ---------------------------------------- */

/*
 * At the start of the memfd that comes with SPAWN.  Behind it stand n_groups
 * numbers of 32 bits, and then strings, each with its NUL: the file, the
 * directory ("" for tenure's own), n_args arguments, n_env variables.
 */
struct tn_guard_block {
    uint32_t size; /* of everything */
    uint32_t n_groups;
    uint32_t n_args;
    uint32_t n_env;
    uint32_t flags;
    uint32_t uid;
    uint32_t gid;
    uint32_t ignored; /* a signal that it starts with ignored; 0: none */
    uint64_t mask;    /* signals to block, bit n-1 for signal n */
};

enum tn_guard_block_flag {
    TN_BLOCK_USER = 1,  /* change to uid, gid and the groups */
    TN_BLOCK_PRIVS = 2, /* may gain privileges (no no_new_privs) */
    TN_BLOCK_WARM = 4,  /* may run without a grant */
};

#define TN_BLOCK_MAX (16u << 20)

#endif
