/*
 * guard/guard.h - the guard's own state, and what its files do for each other.
 *
 *     tenure ── tenure-guard ── init ── program ── ...
 *
 * The guard decides (guard.c): it knows the deadline, tenure's health and what
 * was ordered.  The tree's init (tree_init.c) is a fork of it that starts the program,
 * reaps, and passes signals on; it is the first process of the PID namespace
 * or else the nearest sub-reaper, so it is what the tree hangs from.  Nothing
 * allocates after the start, and nobody wakes up while nothing is due.
 */
#ifndef TN_GUARD_GUARD_H
#define TN_GUARD_GUARD_H

#include <sys/types.h>
#include <time.h>

#include "guard/protocol.h"

#define TN_GUARD_NEVER (INT64_MAX / 2)

enum tn_guard_phase {
    TN_GUARD_IDLE,     /* nothing of the program is left */
    TN_GUARD_RUNNING,  /* it runs, or is about to */
    TN_GUARD_STOPPING, /* it was told to stop; KILL comes at stop_by */
    TN_GUARD_KILLING,  /* KILL went out and is repeated until nothing is left */
};

/* See alarm.c. */
struct tn_alarm {
    int id;
    int64_t at_ns;
};

/* What must be undone in a new program that the guard did to itself. */
struct tn_guard_origin {
    int nice;
    int oom_score_adj;
    bool oom_known;
    uint64_t files; /* the soft limit of descriptors; 0: as it is */
};

/* What a tree's init has to do. */
struct tn_tree_init_orders {
    struct tn_guard_page *page;
    int socket;  /* to the guard */
    int block;   /* memfd */
    int pass;    /* the program's descriptor 3; -1: it has none */
    int cgroup;  /* put the program there; -1 */
    bool warm;   /* the program may run without a grant */
    bool pidns;  /* the tree's init is the first process of a namespace */
    bool proc;   /* which gets a /proc of its own */
    bool userns; /* and lies within a user namespace, where we are who we are outside: */
    uid_t uid;
    gid_t gid;
    pid_t same;      /* try to give the program this number, inside and outside; 0: any */
    pid_t tree_init; /* filled in by the tree's init itself: its own number */
    struct tn_guard_origin origin;
};

/* A command of tenure's that belongs to the term (hook.c). */
struct tn_hook {
    pid_t pid;     /* 0: none runs */
    bool ended;    /* and was not reported yet */
    bool alone;    /* there is no program: it is the tree */
    int status;    /* of wait(2) */
    int64_t by_ns; /* KILL then */
};

/* The tree and what holds it together. */
struct tn_tree {
    enum tn_contain contain; /* in force, never AUTO */
    pid_t tree_init;         /* 0: none */
    int socket;              /* SOCK_SEQPACKET to the tree's init; -1 */
    int cgroup;              /* its directory; -1 */
    char cgroup_path[512];   /* "" if none was made */
    bool used;               /* a program was born in it */
    struct tn_hook hook;
};

struct tn_guard {
    struct tn_guard_page *page;
    struct tn_guard_origin origin;
    struct tn_tree tree;
    int signals;           /* signalfd: SIGCHLD, and SIGCONT: the alarm, or tenure's death */
    struct tn_alarm alarm; /* everything that is due; of the deadline, KILL */
    int watchdog;          /* -1 */
    int releaser;          /* socket to the one that is prepared; -1: none */
    bool told;             /* it has been told to release */

    enum tn_guard_phase phase;
    bool warm;        /* what runs may run without a grant */
    bool exited;      /* the program itself has ended */
    bool granted;     /* there is a deadline */
    bool fired;       /* this grant is over, and was reported as such */
    bool killed;      /* KILL has gone out, and was reported */
    bool quit;        /* QUIT came */
    bool tenure_gone; /* dead, or it has hung up */
    bool tenure_dead; /* its pidfd says so */
    bool tenure_shot; /* SIGKILL was sent to it */

    int64_t stop_by_ns;    /* STOPPING: KILL then */
    int64_t kill_again_ns; /* KILLING: look again then */
    int64_t hang_by_ns;    /* tenure must have answered by then */
    int64_t release_at_ns; /* the lease is released then; once told: a releaser is executed */
    int64_t ping_at_ns;    /* the watchdog wants to hear from us then */
};

/* CLOCK_BOOTTIME in nanoseconds. */
int64_t tn_guard_now(void);
/* Arm a timerfd at an absolute time; TN_GUARD_NEVER disarms. */
void tn_guard_arm(int timer, int64_t at_ns);

/* Receive a message, and up to two descriptors with it, or -1, which tn_guard_discard() closes.
 * Never blocks; returns what recvmsg(2) does. */
ssize_t tn_guard_receive(int socket, void *message, size_t size, int fds[2]);
void tn_guard_discard(const int fds[2]);

/* ---- alarm.c: a timer that continues us if we were stopped ---------------- */

/* 0 or errno.  Forks have to make their own. */
int tn_alarm_make(struct tn_alarm *alarm);
/* Have SIGCONT at that time, or never. */
void tn_alarm_set(struct tn_alarm *alarm, int64_t at_ns, int64_t now);
/* An absolute time as a timer takes it. */
struct itimerspec tn_guard_when(int64_t at_ns);

/* ---- tree.c: what can be reached, and killing it ------------------------- */

/* Find out what works, given what was wished for.  0, or errno if the wish cannot be met. */
int tn_tree_probe(struct tn_tree *tree, enum tn_contain wish);
/* The same, where no /proc of its own could be mounted. */
enum tn_contain tn_tree_without_proc(enum tn_contain contain);
/* Start a tree's init for the block, with the page, the block, its flags and the origin as ordered.
 * 0 or errno; *stage says what failed. */
int tn_tree_start(struct tn_tree *tree, struct tn_tree_init_orders orders,
                  enum tn_guard_stage *stage);
/* Pass a signal on: to the program, or to its process group. */
void tn_tree_signal(struct tn_tree *tree, int signal, bool group);
/* Kill what can be found.  Call again until tn_tree_reap() says that nothing is left. */
void tn_tree_kill(struct tn_tree *tree);
/* Reap.  true: no child and no member of the cgroup is left. */
bool tn_tree_reap(struct tn_tree *tree);
/* It is dead: hang up on the tree's init. */
void tn_tree_forget(struct tn_tree *tree);

/* ---- mounts.c ------------------------------------------------------------ */

/* Each line of mountinfo, until visit() says no.  false: it cannot be read. */
bool tn_mounts_walk(bool (*visit)(void *arg, const char *line), void *arg);
/* Nothing in /proc is hidden or read-only: a new one would show no more than this one does. */
bool tn_proc_is_whole(void);
/* In a new mount and PID namespace: mount a /proc that shows it.  0 or errno. */
int tn_proc_mount(void);

/* ---- cgroup.c ------------------------------------------------------------ */

/* Make a cgroup below our own.  0 or errno. */
int tn_cgroup_make(struct tn_tree *tree);
void tn_cgroup_kill(const struct tn_tree *tree);
/* Nobody is in it.  true also if there is none. */
bool tn_cgroup_empty(const struct tn_tree *tree);
void tn_cgroup_remove(struct tn_tree *tree);

/* ---- tree_init.c ------------------------------------------------------------ */

/* Between guard and init, both ways. */
struct tn_tree_init_message {
    uint32_t kind; /* SPAWNED, FAILED, EXITED as reports; SIGNAL, STOP as commands */
    int32_t pid;
    int32_t value; /* status, errno or signal; SPAWNED: why it has no /proc of its own, or 0 */
    uint32_t stage;
};

/* The life of a tree's init.  Never returns. */
_Noreturn void tn_tree_init_main(const struct tn_tree_init_orders *orders);

/* ---- child.c ------------------------------------------------------------- */

/* In the new process: become what the block describes.  Returns only on failure. */
int tn_child_exec(const struct tn_tree_init_orders *orders, enum tn_guard_stage *stage);

/* ---- decide.c: what to do about it --------------------------------------- */

void tn_guard_report(const struct tn_guard_report *report);
/* A command of tenure's, with the descriptors that came with it, or -1. */
void tn_guard_obey(struct tn_guard *g, const struct tn_guard_command *command, const int fds[2]);
/* Messages from the tree's init. */
void tn_guard_hear(struct tn_guard *g, const struct tn_tree_init_message *message);
/* Tenure is dead (its pidfd says so), or has closed its socket. */
void tn_guard_orphan(struct tn_guard *g, bool dead);
/* Do everything that is due, and arm the timers for what will be.  Exits when
 * there is nothing left to guard. */
void tn_guard_act(struct tn_guard *g);

/* ---- hook.c -------------------------------------------------------------- */

/* Start what the block describes, if the term still runs. */
void tn_hook_start(struct tn_guard *g, int block, int64_t by_ns);
/* It has been reaped. */
void tn_hook_reaped(struct tn_hook *hook, int status);
void tn_hook_kill(const struct tn_hook *hook);
/* Report its end, if that was not done; dead: nothing is left of the tree.  true: it was the tree.
 */
bool tn_hook_tell(struct tn_hook *hook, bool dead);

/* ---- releaser.c ---------------------------------------------------------- */

/* One is prepared at the other end of the socket, which stays the caller's. */
void tn_releaser_take(struct tn_guard *g, int socket);
/* Messages from it, or its end. */
void tn_releaser_hear(struct tn_guard *g);
/*
 * The program is dead, and so is whoever else could release: tell the prepared
 * releaser, or become one if there is none or it did not answer.  Call again at
 * release_at_ns.
 */
void tn_releaser_run(struct tn_guard *g, int64_t now);

/* ---- watchdog.c ---------------------------------------------------------- */

/* May it be opened?  0 or errno.  Opening it would arm it, so it is not. */
int tn_watchdog_probe(const struct tn_guard_page *page);
/* 0 or errno. */
int tn_watchdog_start(struct tn_guard *g);
/* Pet it, if that is due. */
void tn_watchdog_pet(struct tn_guard *g, int64_t now);
/* Closes it the way that tells the device to stop. */
void tn_watchdog_stop(struct tn_guard *g);

#endif
