/*
 * supervise/machine.h - the program of one candidate, and the way out: a pure state machine.
 *
 *     step(machine, event, actions)
 *
 * What happens comes in with the time; what has to be done comes out, in order.  Nothing here reads
 * a clock, calls the system, allocates or locks (tests/unit/supervisor has its timelines).
 *
 * THE CALLER performs the actions in their order.  TICKET, KILL_TREE and START_GUARD are answered
 * by the events TICKET, TREE_* and GUARD_STARTED, and a SPAWN or HOOK that fails by SPAWN_* or
 * HOOK_FAILED, before anything else is stepped; each of them is the last of its list.
 * tn_machine_next() says when TIMER is due at the latest; it is stepped after every turn of the
 * loop, due or not.
 *
 * `now_ns` never goes back.  `deadline_ns` is what was last published to the guard; 0: no grant.
 */
#ifndef TN_SUPERVISE_MACHINE_H
#define TN_SUPERVISE_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

enum tn_program_state {
    TN_PROGRAM_NONE,      /* nothing of it is left, for certain */
    TN_PROGRAM_SERVING,   /* no program of its own: clients learn that this candidate leads */
    TN_PROGRAM_REQUESTED, /* the guard is to start it, and has not answered */
    TN_PROGRAM_STARTING,  /* it has; the program is not itself yet */
    TN_PROGRAM_RUNNING,
    TN_PROGRAM_ENDING,  /* KILL has gone out, and is repeated until nothing is left */
    TN_PROGRAM_STOPPED, /* nothing of it is left; the release waits for --on-stopped */
    TN_PROGRAM_STATES,
};

/* Of the whole supervisor. */
enum tn_life {
    TN_LIFE_ACTIVE,
    TN_LIFE_LEAVING, /* the elector is to shut down */
    TN_LIFE_HALTED,  /* it has; what still runs has its grace */
};

enum tn_hook_kind { TN_HOOK_STARTED, TN_HOOK_STOPPED, TN_HOOK_NEW_LEADER, TN_HOOK_KINDS };

/* After leadership was lost (not given up on request), and the program ended. */
enum tn_on_loss {
    TN_LOSS_STANDBY, /* contend again */
    TN_LOSS_EXIT,
    TN_LOSS_RESTART, /* contend again; a warm program is started again at once */
};
/* After the program has ended by itself. */
enum tn_on_exit {
    TN_EXIT_EXIT,    /* release, and exit with its code */
    TN_EXIT_RESTART, /* start it again, with growing pauses; too often: as YIELD */
    TN_EXIT_YIELD,   /* release, and contend again after a pause */
};

#define TN_MACHINE_EVENTS(X)                                                                       \
    X(TIMER)     /* time has passed; owes: the elector still owes something to the store */        \
    X(LEAD)      /* a term has begun: epoch */                                                     \
    X(LEAD_IDLE) /* likewise, and there is nothing to do in it */                                  \
    X(STOP)      /* it is over: lost; answered by ANSWER_STOP */                                   \
    X(LEADER)    /* somebody leads: ours */                                                        \
    X(ACCEPTED)  /* the guard's reports; SPAWNED and DEAD have at_ns */                            \
    X(SPAWNED)                                                                                     \
    X(FAILED)  /* it could not be started: error, passing */                                       \
    X(REFUSED) /* it was not: too late for this grant, or too early after the last */              \
    X(EXITED)  /* status */                                                                        \
    X(KILLS)                                                                                       \
    X(FIRED)                                                                                       \
    X(HOOK_ENDED) /* could_run */                                                                  \
    X(DEAD)       /* nothing of its tree is left */                                                \
    X(GUARD_DIED)                                                                                  \
    X(TREE_LEFT) /* something of what it guarded is left */                                        \
    X(TREE_GONE)                                                                                   \
    X(GUARD_STARTED) /* ok */                                                                      \
    X(TICKET)        /* ok: it was left */                                                         \
    X(SPAWN_INVALID) /* the program cannot be described */                                         \
    X(SPAWN_FAILED)  /* the guard takes no requests */                                             \
    X(HOOK_FAILED)                                                                                 \
    X(UNHEALTHY)      /* the program; ok: a hand-over may be requested */                          \
    X(STEP_DOWN_DONE) /* ok: a hand-over was requested */                                          \
    X(ASKED_TO_GO)    /* signal */                                                                 \
    X(GIVEN_UP)       /* the store could not be opened: code */                                    \
    X(RELOAD)                                                                                      \
    X(HALTED) /* the elector */

enum tn_machine_event_kind {
#define TN_X(name) TN_ON_##name,
    TN_MACHINE_EVENTS(TN_X)
#undef TN_X
        TN_MACHINE_EVENT_KINDS
};

struct tn_machine_event {
    enum tn_machine_event_kind kind;
    int64_t now_ns, deadline_ns;
    int64_t at_ns;
    uint64_t epoch;
    int error, status, signal, code;
    bool ok, owes, lost, ours, passing, could_run;
};

#define TN_MACHINE_ACTIONS(X)                                                                      \
    X(TICKET)      /* leave what the releaser needs if we crash, before anything can run */        \
    X(ROLE)        /* write the role file of a program that runs */                                \
    X(SPAWN)       /* write the role file, and have the guard start the program */                 \
    X(SIGNAL_WARM) /* a running program leads from now on */                                       \
    X(BEGAN)       /* the work of a term has begun, at at_ns: tell everybody */                    \
    X(RUNS)        /* the program runs: probe it */                                                \
    X(STOP)        /* signal, then KILL at at_ns */                                                \
    X(KILL)                                                                                        \
    X(ENDED)       /* nothing of it is left, at at_ns; ok: it ended by itself */                   \
    X(SERVED)      /* what clients were told has run out, at at_ns */                              \
    X(HOOK)        /* have the guard run a hook, and kill it at at_ns */                           \
    X(NO_HOOK)     /* it could not be run */                                                       \
    X(HOLD)        /* the lease is held until at_ns on purpose */                                  \
    X(KEEP_LEASE)  /* likewise, and nobody releases it earlier, not even after a crash */          \
    X(END_TERM)    /* write its end into the history: reason */                                    \
    X(ANSWER_STOP) /* the elector may release the lease */                                         \
    X(RELEASE)     /* the program ended by itself: likewise */                                     \
    X(YIELD)       /* do not contend for pause_ns: it crashed too often */                         \
    X(SYNC)        /* tell the other candidates */                                                 \
    X(FIRED)       /* the grant is over: tell the elector */                                       \
    X(TELL_FIRED)  /* the guard ends the program */                                                \
    X(KILL_GUARD)                                                                                  \
    X(KILL_TREE)  /* the guard is dead: kill what it guarded */                                    \
    X(TELL_STUCK) /* which does not die */                                                         \
    X(START_GUARD)                                                                                 \
    X(TELL_UNHEALTHY)                                                                              \
    X(STEP_DOWN) /* find a healthy candidate, and request a hand-over to it */                     \
    X(TELL_HANDOVER)                                                                               \
    X(TELL_RESTART)                                                                                \
    X(EXITED)      /* it ended by itself: so many times in a row, each soon after its start */     \
    X(TELL_STEADY) /* it has not done so for a while */                                            \
    X(TELL_LOST)   /* ok: it exits then */                                                         \
    X(TELL_LEAVING)                                                                                \
    X(TELL_HURRY)                                                                                  \
    X(LEAVE)    /* shut the elector down */                                                        \
    X(WITHDRAW) /* remove our record from the store, by at_ns */                                   \
    X(RELOAD)

enum tn_machine_action_kind {
#define TN_X(name) TN_DO_##name,
    TN_MACHINE_ACTIONS(TN_X)
#undef TN_X
        TN_MACHINE_ACTION_KINDS
};

/* Why a term ended, for its history. */
enum tn_term_end { TN_TERM_STOPPED, TN_TERM_SHUTDOWN, TN_TERM_PROGRAM, TN_TERM_CRASHES };

struct tn_machine_action {
    enum tn_machine_action_kind kind;
    uint64_t epoch; /* of the term that it is about */
    int64_t at_ns;
    int signal;
    unsigned count; /* YIELD, EXITED: crashes */
    bool ok;
    enum tn_hook_kind hook;
    enum tn_term_end end;
};

#define TN_MACHINE_ACTIONS_MAX 16

struct tn_machine_actions {
    unsigned n;
    struct tn_machine_action list[TN_MACHINE_ACTIONS_MAX];
};

struct tn_machine_config {
    bool has_program, warm;
    bool once; /* the program is requested once in this life, whatever ends it (supervise/once.h) */
    unsigned hooks; /* kinds, as bits, for which there is a command */
    enum tn_on_loss on_loss;
    enum tn_on_exit on_exit;
    unsigned crash_limit;
    int stop_signal, warm_signal;
    int64_t grace_ns, answer_ns, hook_timeout_ns, margin_ns;
    /* Exit codes. */
    int code_usage, code_lost, code_broken, code_cannot_run, code_not_found;
};

struct tn_machine {
    struct tn_machine_config cfg;
    const struct tn_machine_event *ev; /* during a step */
    struct tn_machine_actions *out;
    enum tn_program_state state;
    enum tn_life life;
    uint64_t epoch; /* of our term; 0: we do not lead */

    /* The program, and how it ended. */
    bool stopping; /* STOP came, and is not answered */
    bool fired;    /* the guard fired: it did not end by itself */
    bool ran;      /* the guard was told to start it; once: never again */
    uint64_t fired_epoch;
    int exec_error; /* errno of a program that could not be started */
    bool passing;   /* for want of something that may be there the next time */
    bool has_status;
    int status;          /* of wait(2) */
    bool restart_wanted; /* we end it to start it again */
    bool unhealthy;      /* and something is being done about it */
    unsigned crashes;    /* in a row, each soon after its start */
    unsigned looping;    /* likewise, and in all terms: 0 again once it lives */
    int64_t started_ns;  /* it was requested */
    int64_t restart_ns;  /* the pause ends */
    int64_t quiet_ns;    /* SERVING: what clients were told has run out */
    int64_t drain_by_ns; /* asked to go: the grace ends */
    int stop_signal;

    struct {
        bool runs; /* the guard has one: */
        enum tn_hook_kind kind;
        bool killed;     /* KILL has gone out to it */
        unsigned due;    /* kinds, as bits: when no other runs */
        int64_t kept_ns; /* --on-stopped cannot be run: the lease is kept until then */
    } hook;

    /* The guard is dead, and what it guarded is ours to end. */
    bool orphaned, stuck_told;
    int64_t orphaned_ns, orphans_ns;

    /* The way out. */
    unsigned asked;         /* to go, so many times */
    int64_t asked_ns;       /* the first time, */
    int asked_by;           /* by that signal */
    int exit_code;          /* when leaving */
    bool failed;            /* exit_code is not the program's, whatever it does */
    int64_t quit_ns;        /* what still runs ends then at the latest */
    int64_t give_up_ns;     /* the elector waits for something that nobody needs */
    int64_t withdraw_by_ns; /* our record in the store is being removed */
    int64_t hurry_ns;       /* asked more than once: nothing is waited for beyond this */
};

void tn_machine_init(struct tn_machine *m, const struct tn_machine_config *cfg);
void tn_machine_step(struct tn_machine *m, const struct tn_machine_event *ev,
                     struct tn_machine_actions *out);

/* Is a signal that asks us to go the same request as the first one, sent twice? */
bool tn_machine_is_repeated(int first, int64_t first_ns, int signal, int64_t now_ns);
/* When TIMER is due at the latest. */
int64_t tn_machine_next(const struct tn_machine *m, int64_t now_ns);
/* Nothing is left to be done; synced: nor in the store. */
bool tn_machine_is_over(const struct tn_machine *m, int64_t now_ns, bool synced);
/* The exit code of a program of which nothing is left. */
int tn_machine_program_code(const struct tn_machine *m);
/* A term's work is on: its hooks may run. */
bool tn_machine_term_runs(const struct tn_machine *m);
/* The program, or something of it, may still be there. */
bool tn_machine_alive(const struct tn_machine *m);
/* The guard has not killed by late_ns (supervise/guard/watch.h; 0: no grant), or answers nothing.
 */
bool tn_machine_guard_is_late(const struct tn_machine *m, int64_t late_ns, int64_t now_ns);

#endif
