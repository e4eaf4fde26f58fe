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
#include "status/snapshot.h"
#include "supervise/guard/prepared.h"
#include "supervise/helpers.h"
#include "supervise/machine.h"
#include "supervise/program/notified.h"
#include "supervise/program/notify.h"
#include "supervise/program/role_file.h"
#include "supervise/supervisor.h"
#include "supervise/trace_file.h"

/* Left by other threads, taken by the loop. */
struct tn_inbox {
    pthread_mutex_t lock;

    /* The callbacks. */
    bool start;
    uint64_t epoch;
    bool stop; /* until it is done */
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
    uint64_t known_epoch;  /* of the last leader that was seen */
    bool memory_changed;   /* that of the store: */
    uint64_t forgot_epoch; /* what it held and does not hold any more; 0: it knows all */
    bool refused;          /* it is about the record, not about the store */
    int64_t
        gone_ns;  /* until trouble became "": how long the store was gone; 0: it was the record */
    bool renewed; /* told at level debug */
    int64_t renewal_ns;

    bool prove; /* the leader has been silent */
    struct tn_lease suspect;
    struct tenure_token suspect_token;

    /* The control register, as the driver read it. */
    struct tenure_control control;
    bool control_seen, control_changed, request_fresh;
    char held_for[TENURE_ID_MAX + 1]; /* a hand-over to him is on; "" if none */
    uint64_t held_epoch;              /* from that term */
    char self[TENURE_ID_MAX + 1];     /* who we are */

    /* What else decides whether we may claim. */
    bool unhealthy;
    bool duplicate;  /* another process has our id, and comes first */
    unsigned better; /* candidates that should go first */
};

#define TN_QUEUED_MAX 8

struct tn_supervisor {
    struct tn_loop loop;
    struct tn_watch guard_report, guard_end, signal, late, notification, callbacks;
    const struct tn_run_options *options;
    struct tn_leader_page *leader_page; /* of the options; the driver writes there */
    const struct tn_run_codes *codes;
    struct tn_guard_link link;
    struct tn_prepared prepared; /* the releaser, for our own crash */
    struct tn_inbox inbox;
    struct tn_worker *seal_worker;
    struct tn_task sealing; /* on it */
    bool seals;             /* and no callback is run meanwhile */
    struct tn_timer reseal; /* it could not */
    struct tn_call drain;   /* of the inbox, in the loop; under the loop's lock, not the inbox's */
    struct tn_notify notify;
    struct tn_state_socket *socket; /* NULL: the program has no state */
    const struct tn_replica_module *replica_module;
    struct tn_replica_driver *replica; /* NULL: the state is not replicated */
    uint64_t unsealed_epoch;           /* by who seals: told that it is not sealed yet */
    uint64_t idle_epoch;               /* likewise: nothing is to be done in that term */
    struct tn_timer waited;            /* options->once gives up */
    bool last_look;                    /* as soon as it knows who leads */
    atomic_bool begun;                 /* its owner began a term, and nothing has come of it yet */
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
        late_ns;       /* when the timer of late.fd fires; 0: no grant (supervise/guard/watch.h) */
    bool has_terminal; /* a hang-up means that the terminal is gone, and us with it */

    /* The program, its hooks, and the way out. */
    struct tn_machine machine;
    struct tn_timer machine_timer;
    struct tn_machine_event queued[TN_QUEUED_MAX]; /* while one is being stepped */
    unsigned n_queued;
    bool stepping;
    bool stop_taken; /* the stop in the inbox */
    bool stop_lost;  /* nobody asked for it */
    char why[96];    /* its reason */
    bool unsealed;   /* the last try to seal the state failed; self.trouble says why */
    char id[TENURE_ID_MAX + 1];
    struct tn_timer trim; /* what the news needed is given back */

    /* Its health. */
    struct tn_probe probe, candidate_probe;
    struct tn_worker *name_worker; /* resolves the names in new probes */
    struct tn_notified notified;   /* the program's own word */

    /* The other candidates. */
    bool controlled; /* the store is shared: there are others */
    bool paused;
    uint64_t membership; /* of the control register, when we last ranked ourselves */
    struct tenure_candidate self;
    struct tn_peer_sync peers;
    struct tn_worker *peer_worker;
    unsigned peer_jobs; /* not posted yet */
    bool registered;    /* the store is open, and has our record */
    bool announced;
    struct tn_timer sync, yield, preempt;
    struct tn_timer contend;   /* what we stepped down for is over */
    struct tn_timer duplicate; /* our record is written again; NEVER: no other process has our id */
    unsigned unanswered;       /* times that it was, since another process was found in it */
    int64_t yield_for_ms;
    char yield_why[96]; /* what the elector calls stepping down, in full; "": just that */

    struct tn_lease suspect; /* the leader that is being proved dead */

    struct tn_outage outage;         /* of the store, as it was told */
    char warnings[TN_WARNINGS][160]; /* "": none */
    struct tn_timer ping;            /* word to the service manager */
    bool began;                      /* the loop ran */
    bool broken;                     /* it was not the store that failed before anything began */
};

/* supervisor_callbacks.c */
/* false: out of memory. */
bool tn_supervisor_callbacks_open(struct tn_supervisor *s);
/* There is an elector, and the loop runs. */
void tn_supervisor_callbacks_begin(struct tn_supervisor *s);

/* supervisor_inbox.c */
void tn_supervisor_wake(struct tn_supervisor *s);
/* The state could not be sealed, for the first time in this term. */
void tn_supervisor_unsealed(struct tn_supervisor *s, const char *why);
/* Have the elector and its driver post into the inbox. */
void tn_supervisor_inbox_connect(struct tn_supervisor *s, struct tenure_elector_options *o,
                                 struct tn_driver_hooks *hooks);
/* In the loop. */
void tn_supervisor_inbox_drain(struct tn_call *call);
/* The stop that came is done. */
void tn_supervisor_answer_stop(struct tn_supervisor *s);

/* supervisor.c */
/* How long a planned stop may take. */
int64_t tn_supervisor_grace(const struct tn_supervisor *s);
/* The exit code for what ended us. */
int tn_supervisor_code_for(const struct tn_supervisor *s, enum tenure_status status);

/* supervisor_actions.c */
/* Something happened: step the machine, and do what it says. */
void tn_supervisor_step(struct tn_supervisor *s, const struct tn_machine_event *ev);
void tn_supervisor_happened(struct tn_supervisor *s, enum tn_machine_event_kind kind);

/* supervisor_guard.c */
/* Start a guard.  CONFIG if it cannot do what was wished. */
enum tenure_status tn_supervisor_guard_open(struct tn_supervisor *s, struct tenure_error *err);
/* Have the driver and the peer sync tell it the deadline, and what they are busy with. */
void tn_supervisor_guard_hooks(struct tn_supervisor *s, struct tn_driver_hooks *hooks);
/* Is it late?  Then it is ended, and the program with it. */
void tn_supervisor_guard_check(struct tn_supervisor *s, int64_t now);
/* Its reports and its end are waited for in the loop; none if it is dead. */
void tn_supervisor_guard_watch(struct tn_supervisor *s);
/* The guard has reported, or is dead. */
void tn_supervisor_on_report(void *arg, short events);
void tn_supervisor_guard_died(void *arg, short events);
/* KILL for everything that descends from us, but for hooks and probes.  true: nothing is left. */
bool tn_supervisor_kill_tree(struct tn_supervisor *s);
/* Another one, after the first has died. */
bool tn_supervisor_guard_restart(struct tn_supervisor *s);

/* supervisor_signals.c */
/* Blocks what is handled; a signalfd, or -1. */
int tn_supervisor_signals_open(void);
void tn_supervisor_take_signals(void *arg, short events);

/* supervisor_api.c */
/* Before the elector: what happens is told to it.  NULL: out of memory. */
struct tn_election *tn_supervisor_election(const struct tn_supervisor *s);
/* After it: people may ask. */
enum tenure_status tn_supervisor_listen(struct tn_supervisor *s, struct tenure_error *err);

/* supervisor_replica.c */
/* With the elector's id, before it contends.  Nothing, if the state is not replicated. */
enum tenure_status tn_supervisor_replica_start(struct tn_supervisor *s, struct tenure_error *err);
void tn_supervisor_replica_stop(struct tn_supervisor *s);

/* supervisor_once.c */
/* Its timer. */
void tn_supervisor_once_open(struct tn_supervisor *s);
/* Have the driver ask its owner before the command starts. */
void tn_supervisor_once_hooks(struct tn_supervisor *s, struct tn_driver_hooks *hooks);
/* Before a term's lease is released: did something begin that did not run?  arg: the supervisor. */
void tn_supervisor_once_released(void *arg);
/* Somebody else holds the lease; "": it is paused. */
void tn_supervisor_once_held(struct tn_supervisor *s, const char *by);
/* Nothing of the command is left. */
void tn_supervisor_once_ended(struct tn_supervisor *s, int code, bool by_itself);

/* supervisor_reload.c */
void tn_supervisor_reload(struct tn_supervisor *s);
/* What the machine decides by, and a reload may change: from s->options. */
void tn_supervisor_set_policy(struct tn_supervisor *s);

/* supervisor_hooks.c */
/* One of our own term, killed at by_ns.  false: it could not be run. */
bool tn_supervisor_hook_run(struct tn_supervisor *s, enum tn_hook_kind kind, int64_t by_ns);
void tn_supervisor_hook_not_run(enum tn_hook_kind kind, const char *why);
/* A candidate leads, perhaps we; "": none. */
void tn_supervisor_hook_leader(struct tn_supervisor *s, const char *leader, uint64_t epoch);
/* The guard's report that a hook has ended. */
void tn_supervisor_hook_ended(struct tn_supervisor *s, const struct tn_guard_report *r);
/* A child of ours was reaped. */
void tn_supervisor_reaped(struct tn_supervisor *s, pid_t pid, int status);

/* supervisor_proof.c */
void tn_supervisor_proof_hooks(struct tn_supervisor *s, struct tn_driver_hooks *hooks);
/* The leader has been silent. */
void tn_supervisor_proof_begin(struct tn_supervisor *s, const struct tn_lease *suspect,
                               const struct tenure_token *token);
/* Whether it is our turn to run the command is known. */
void tn_supervisor_proof_turn(struct tn_supervisor *s, bool ours);
/* It has ended, as wait(2) tells; -1: it could not be run. */
void tn_supervisor_proof_ended(struct tn_supervisor *s, int status);

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

/* supervisor_duplicate.c */
void tn_supervisor_duplicate_open(struct tn_supervisor *s);
/* Another process wrote this into our own record. */
void tn_supervisor_duplicate_found(struct tn_supervisor *s, const struct tenure_candidate *other);
/* It is there no longer. */
void tn_supervisor_duplicate_over(struct tn_supervisor *s);

/* supervisor_warnings.c */
__attribute__((format(printf, 3, 4))) void tn_supervisor_warn(struct tn_supervisor *s,
                                                              unsigned warning, const char *format,
                                                              ...);
/* The gravest one; "" if there is none. */
const char *tn_supervisor_warning(const struct tn_supervisor *s);
void tn_supervisor_exited(struct tn_supervisor *s, unsigned in_a_row);
void tn_supervisor_compare_lease(struct tn_supervisor *s);
void tn_supervisor_forgot(struct tn_supervisor *s, uint64_t was);

/* supervisor_control.c */
void tn_supervisor_register(struct tn_supervisor *s);
/* Our record as it would be if nobody else had our id. */
struct tenure_candidate tn_supervisor_record(const struct tn_supervisor *s);
void tn_supervisor_on_control(void *arg, const struct tenure_control *control, const char *damage,
                              bool *may_claim, int64_t *delay_ns);
void tn_supervisor_take_control(struct tn_supervisor *s, const struct tenure_control *c,
                                bool fresh);
void tn_supervisor_seen_leader(struct tn_supervisor *s, uint64_t epoch);
void tn_supervisor_healthy(struct tn_supervisor *s, bool healthy);
/* What decides whether we may claim has changed. */
void tn_supervisor_apply_claim(struct tn_supervisor *s);
/* Jobs of the peer sync, soon; or at once. */
void tn_supervisor_sync(struct tn_supervisor *s, unsigned jobs);
void tn_supervisor_sync_now(struct tn_supervisor *s, unsigned jobs);
/* We leave: remove our record, if the store is well, instead of all other jobs. */
void tn_supervisor_withdraw(struct tn_supervisor *s, int64_t now);
/* Their timers. */
void tn_supervisor_control_open(struct tn_supervisor *s);

#endif
