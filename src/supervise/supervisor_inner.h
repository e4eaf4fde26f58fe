/* supervise/supervisor_inner.h - the supervisor's state; supervisor.c and its sisters share it. */
#ifndef TN_SUPERVISE_SUPERVISOR_INNER_H
#define TN_SUPERVISE_SUPERVISOR_INNER_H

#include <pthread.h>
#include <stdatomic.h>

#include "api/link.h"
#include "driver/driver.h"
#include "os/worker.h"
#include "state/http/socket.h"
#include "status/outage.h"
#include "supervise/helpers.h"
#include "supervise/notified.h"
#include "supervise/notify.h"
#include "supervise/prepared.h"
#include "supervise/role_file.h"
#include "supervise/supervisor.h"
#include "supervise/trace_file.h"

/* The guard has so long to answer the order to start the program. */
#define TN_GUARD_ANSWER_NS (10 * TN_S)

enum tn_program_state {
    TN_PROGRAM_NONE,     /* nothing of it is left, for certain */
    TN_PROGRAM_ASKED,    /* the guard was told, and has not answered */
    TN_PROGRAM_STARTING, /* it has; the program is not itself yet */
    TN_PROGRAM_RUNNING,
    TN_PROGRAM_ENDING, /* KILL has gone out, and is repeated until nothing is left */
    TN_PROGRAM_HOOK,   /* nothing of it is left; the release waits for --on-stopped */
};

/* Left by other threads, taken by the loop. */
struct tn_mailbox {
    pthread_mutex_t lock;
    pthread_cond_t quiet; /* signalled when a stop is done */
    struct tn_call taken; /* in the loop */

    /* The callbacks. */
    bool start;
    uint64_t epoch;
    bool stop;   /* until it is done */
    bool closed; /* the loop never ran: nothing was started, and nobody answers a stop */
    char why[64];
    bool leader_changed;
    char leader[TENURE_ID_MAX + 1];
    uint64_t leader_epoch;
    bool halted;
    enum tenure_status failed; /* the store could not be opened */
    char failure[TENURE_ERROR_TEXT_MAX + 1];
    bool unsealed; /* a seal failed, for the first time in its term */
    char unsealed_why[TENURE_ERROR_TEXT_MAX + 1];
    bool gave_up;  /* a term was given up for that */
    bool troubled; /* a store request failed since the last look */
    char trouble[TN_OUTAGE_TEXT];
    bool refused; /* it is about the record, not about the store */
    int64_t
        gone_ns;  /* until trouble became "": how long the store was gone; 0: it was the record */
    bool renewed; /* told at level debug */
    int64_t renewal_ns;

    /* The control register, as the driver read it. */
    struct tenure_control control;
    bool control_seen, control_changed, request_fresh;
    char held_for[TENURE_ID_MAX + 1]; /* a hand-over to him is on; "" if none */
    uint64_t held_epoch;              /* from that term */
    char self[TENURE_ID_MAX + 1];     /* who we are */

    /* What else decides whether we may claim. */
    bool unhealthy;
    unsigned better; /* candidates that should go first */
};

struct tn_supervisor {
    struct tn_loop loop;
    struct tn_watch guard_report, guard_end, signal, late, notification;
    const struct tn_run_options *options;
    struct tn_leader_page *leader_page; /* of the options; the driver writes there */
    const struct tn_run_codes *codes;
    struct tn_guard_link link;
    struct tn_prepared prepared; /* the releaser, for our own crash */
    struct tn_mailbox mailbox;
    struct tn_notify notify;
    struct tn_state_socket *socket; /* NULL: the program has no state */
    uint64_t unsealed_epoch;        /* of the callbacks' thread: told that it is not sealed yet */
    struct tn_helpers helpers;
    struct tn_trace_file *trace; /* NULL: none */
    struct tn_role_file role_file;
    /* NULL until it is made: requests for the state may come before, on threads of their own. */
    _Atomic(tenure_elector *) elector;
    struct tn_election *election; /* what we tell of it */
    struct tn_link *agent;        /* NULL: there is none */
    struct tn_api *api;           /* NULL: to nobody */
    _Atomic int64_t deadline_ns;
    _Atomic int64_t
        late_ns;       /* when the timer of late.fd fires; 0: no grant (supervise/guard_watch.h) */
    bool orphaned;     /* the guard is dead, and what it guarded is ours to end */
    bool orphans_told; /* that it does not die */
    int64_t orphaned_ns;
    struct tn_timer orphans; /* looked for again */
    bool has_terminal;       /* a hang-up means that the terminal is gone, and us with it */

    /* The program. */
    enum tn_program_state state;
    bool stop_passed_on; /* the stop in the mailbox has reached the guard */
    uint64_t epoch;      /* of our term; 0: we do not lead */
    bool unsealed;       /* the last try to seal the state failed; self.trouble says why */
    char id[TENURE_ID_MAX + 1];
    int status;     /* of wait(2), when it has ended */
    int exec_error; /* errno of a program that could not be started */
    bool passing;   /* for want of something that may be there the next time */
    bool has_status;
    bool fired; /* the guard fired: it did not end by itself */
    uint64_t fired_epoch;
    char why[64];        /* the stop that was passed on */
    bool restart_wanted; /* we end it to start it again */
    int64_t started_ns;
    unsigned crashes;          /* in a row, each soon after its start */
    struct tn_timer answer_by; /* the guard must have answered the order to start */
    struct tn_timer restart;   /* the pause ends */
    struct tn_timer quiet;     /* without a program: what clients were told has run out */
    struct tn_timer trim;      /* what the news needed is given back */

    /* Its hooks. */
    struct {
        bool runs; /* the guard has one: */
        enum tn_helper_kind kind;
        bool killed;          /* KILL has gone out to it */
        unsigned due;         /* kinds, as bits: when no other runs */
        struct tn_timer kept; /* --on-stopped cannot be run: the lease is kept until then */
    } hook;

    /* Its health. */
    struct tn_probe probe, candidate_probe;
    struct tn_worker *name_worker; /* resolves the names in new probes */
    struct tn_notified notified;   /* the program's own word */
    bool unwell;                   /* the probe says so, and something is being done about it */

    /* The other candidates. */
    bool controlled; /* the store is shared: there are others */
    bool paused;
    uint64_t roll; /* of the control register, when we last looked who is there */
    struct tenure_candidate self;
    struct tn_peer_sync peers;
    struct tn_worker *peer_worker;
    unsigned peer_jobs; /* not posted yet */
    bool enrolled;      /* the store is open, and told who we are */
    bool announced;
    struct tn_timer sync, yield, preempt;
    int64_t yield_for_ms;

    struct tn_outage outage; /* of the store, as it was told */
    struct tn_timer ping;    /* word to the service manager */
    bool began;              /* the loop ran */
    bool leaving;            /* we are on our way out */
    bool halted;             /* the elector is; what still runs has its grace */
    int64_t quit_at_ns;      /* which ends then at the latest */
    int64_t give_up_ns;      /* leaving, and the driver waits for something that nobody needs */
    int64_t withdraw_by_ns;  /* our record in the store is being removed */
    int64_t hurry_ns;        /* asked more than once: nothing is waited for beyond this */
    struct tn_timer end;     /* the next of these */
    int signals_seen;
    int64_t drain_by_ns; /* asked to go: the grace ends, whether the driver knows already or not */
    int stop_signal;
    int exit_code; /* when leaving */
    bool failed;   /* exit_code is not the program's, whatever it does */
    bool broken;   /* it was not the store that failed before anything began */
};

/* supervisor_mail.c */
void tn_supervisor_wake(struct tn_supervisor *s);
/* The state could not be sealed, for the first time in this term. */
void tn_supervisor_unsealed(struct tn_supervisor *s, const char *why);
/* The loop will not run: whoever asks for a stop is not kept waiting. */
void tn_supervisor_mail_close(struct tn_mailbox *m);
/* Have the elector and its driver write into the mailbox. */
void tn_supervisor_hear(struct tn_supervisor *s, struct tenure_elector_options *o,
                        struct tn_driver_hooks *hooks);
/* In the loop. */
void tn_supervisor_take_mail(struct tn_call *call);

/* supervisor.c */
/* Begin to go: the elector is shut down, its halt ends the loop. */
void tn_supervisor_leave(struct tn_supervisor *s);
/* The store could not be opened. */
void tn_supervisor_fail(struct tn_supervisor *s, enum tenure_status status, const char *text);
/* The elector has: the loop ends when nothing runs any more. */
void tn_supervisor_halt(struct tn_supervisor *s);
/* How long a planned stop may take. */
int64_t tn_supervisor_grace(const struct tn_supervisor *s);

/* supervisor_guard.c */
/* Start a guard.  CONFIG if it cannot do what was wished. */
enum tenure_status tn_supervisor_guard_open(struct tn_supervisor *s, struct tenure_error *err);
/* Have the driver and the peer sync tell it the deadline, and what they are busy with. */
void tn_supervisor_guard_hooks(struct tn_supervisor *s, struct tn_driver_hooks *hooks);
/* Does it do its duty?  Else it is ended, and the program with it. */
void tn_supervisor_guard_time(struct tn_supervisor *s, int64_t now);
/* Its reports and its end are waited for in the loop; none if it is dead. */
void tn_supervisor_watch_guard(struct tn_supervisor *s);

/* supervisor_signals.c */
/* Blocks what is handled; a signalfd, or -1. */
int tn_supervisor_signals_open(void);
void tn_supervisor_take_signals(void *arg, short events);

/* supervisor_api.c */
/* Before the elector: what happens is told to it.  NULL: out of memory. */
struct tn_election *tn_supervisor_election(const struct tn_supervisor *s);
/* After it: people may ask. */
enum tenure_status tn_supervisor_listen(struct tn_supervisor *s, struct tenure_error *err);

/* supervisor_program.c */
/* A term has begun. */
void tn_supervisor_lead(struct tn_supervisor *s, uint64_t epoch);
void tn_supervisor_start_program(struct tn_supervisor *s);
void tn_supervisor_restart_time(void *arg, int64_t now);
void tn_supervisor_stop_program(struct tn_supervisor *s, int64_t by_ns);
/* End it, and start it again. */
void tn_supervisor_restart_program(struct tn_supervisor *s, const char *why);
/* Nothing of the program is left, and nothing else has to be done first. */
void tn_supervisor_finish_death(struct tn_supervisor *s);
/* A running program leads from now on. */
void tn_supervisor_promote(struct tn_supervisor *s, int64_t at_ns);
/* The guard did not start it. */
void tn_supervisor_refused(struct tn_supervisor *s);
/* Nothing of its tree is left. */
void tn_supervisor_tree_dead(struct tn_supervisor *s, int64_t at_ns);

/* supervisor_reports.c */
void tn_supervisor_reports(struct tn_supervisor *s);
/* The guard has reported, or is dead. */
void tn_supervisor_on_report(void *arg, short events);
void tn_supervisor_guard_died(void *arg, short events);
/* KILL for everything that descends from us, but for hooks and probes.  true: nothing is left. */
bool tn_supervisor_kill_tree(struct tn_supervisor *s);
/* Without a guard: end what it guarded, then start another one. */
void tn_supervisor_orphans_time(void *arg, int64_t now);

/* supervisor_clients.c: elections without a program */
void tn_supervisor_lead_clients(struct tn_supervisor *s);
void tn_supervisor_stop_clients(struct tn_supervisor *s);
void tn_supervisor_clients_time(void *arg, int64_t now);
/* A term has begun, and its work: told to everybody. */
void tn_supervisor_note_start(struct tn_supervisor *s, int64_t at_ns);
/* What the releaser must know if we crash, before anything can run.  false: that term is over. */
bool tn_supervisor_leave_facts(struct tn_supervisor *s);

/* supervisor_reload.c */
void tn_supervisor_reload(struct tn_supervisor *s);

/* supervisor_hooks.c */
/* One of our own term, when it runs and no other does. */
void tn_supervisor_hook(struct tn_supervisor *s, enum tn_helper_kind kind);
/* Somebody leads, perhaps we; "": nobody. */
void tn_supervisor_hook_leader(struct tn_supervisor *s, const char *leader, uint64_t epoch);
/* Nothing of the program is left (state HOOK): end the hook that runs, then --on-stopped, then
 * tn_supervisor_finish_death(). */
void tn_supervisor_hooks_end(struct tn_supervisor *s);
/* The guard's word that a hook has ended. */
void tn_supervisor_hooked(struct tn_supervisor *s, const struct tn_guard_report *r);
/* The guard is dead, and its hook with it. */
void tn_supervisor_hooks_lost(struct tn_supervisor *s);
void tn_supervisor_hooks_time(void *arg, int64_t now);
/* A child of ours was reaped. */
void tn_supervisor_reaped(struct tn_supervisor *s, pid_t pid, int status);

/* supervisor_health.c */
/* Registers the probes, which probe nothing yet. */
void tn_supervisor_health_init(struct tn_supervisor *s);
enum tenure_status tn_supervisor_health_open(struct tn_supervisor *s, struct tenure_error *err);
void tn_supervisor_health_close(struct tn_supervisor *s);
/* The program runs, or does not. */
void tn_supervisor_health_program(struct tn_supervisor *s, bool runs);
void tn_supervisor_health_result(struct tn_supervisor *s, enum tn_helper_kind kind, bool well);
void tn_supervisor_health_notified(void *arg, short events);
/* What follows from the results; after each turn. */
void tn_supervisor_health_judge(struct tn_supervisor *s);
/* A candidate to hand over to was found, or none. */
void tn_supervisor_step_down_done(struct tn_supervisor *s, bool found);

/* supervisor_control.c */
void tn_supervisor_enrol(struct tn_supervisor *s);
void tn_supervisor_on_control(void *arg, const struct tenure_control *control, const char *damage,
                              bool *may_claim, int64_t *delay_ns);
void tn_supervisor_take_control(struct tn_supervisor *s, const struct tenure_control *c,
                                bool fresh);
void tn_supervisor_seen_leader(struct tn_supervisor *s, uint64_t epoch);
void tn_supervisor_healthy(struct tn_supervisor *s, bool healthy);
/* Jobs of the peer sync, soon; or at once. */
void tn_supervisor_sync(struct tn_supervisor *s, unsigned jobs);
void tn_supervisor_sync_now(struct tn_supervisor *s, unsigned jobs);
/* We leave: remove our record, if the store is well, instead of all other jobs. */
void tn_supervisor_withdraw(struct tn_supervisor *s, int64_t now);
/* Their timers. */
void tn_supervisor_control_open(struct tn_supervisor *s);

#endif
