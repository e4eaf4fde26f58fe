/* agent/supervisor_inner.h - the supervisor's state; supervisor.c and its sisters share it. */
#ifndef TN_AGENT_SUPERVISOR_INNER_H
#define TN_AGENT_SUPERVISOR_INNER_H

#include <pthread.h>
#include <stdatomic.h>

#include "agent/notify.h"
#include "agent/state_socket.h"
#include "agent/supervisor.h"

#define TN_NEVER (INT64_MAX / 2)

enum tn_program_state {
    TN_PROGRAM_NONE,     /* nothing of it is left, for certain */
    TN_PROGRAM_ASKED,    /* the guard was told, and has not answered */
    TN_PROGRAM_STARTING, /* it has; the program is not itself yet */
    TN_PROGRAM_RUNNING,
    TN_PROGRAM_ENDING, /* KILL has gone out, and is repeated until nothing is left */
};

/* Left by the callbacks' and the driver's threads, taken by the loop. */
struct tn_mailbox {
    pthread_mutex_t lock;
    pthread_cond_t quiet; /* signalled when a stop is done */
    int event_fd;
    bool start;
    uint64_t epoch;
    char id[TENURE_ID_MAX + 1];
    bool stop; /* until it is done */
    char why[64];
    bool leader_changed;
    char leader[TENURE_ID_MAX + 1];
    uint64_t leader_epoch;
    bool halted;
};

struct tn_supervisor {
    const struct tn_run_options *options;
    const struct tn_run_codes *codes;
    struct tn_guard_link link;
    struct tn_mailbox mailbox;
    struct tn_notify notify;
    struct tn_state_socket *socket; /* NULL: the program has no state */
    uint64_t unsealed_epoch;        /* of the callbacks' thread: told that it is not sealed yet */
    tenure_elector *elector;
    int signal_fd;
    int late_fd; /* timerfd: the deadline is here, and the guard should have acted */
    _Atomic int64_t deadline_ns;
    bool has_terminal; /* a hang-up means that the terminal is gone */

    enum tn_program_state state;
    bool stop_passed_on; /* the stop in the mailbox has reached the guard */
    uint64_t epoch;      /* of the term that the program runs in; 0: none */
    char id[TENURE_ID_MAX + 1];
    pid_t pid;
    int status;     /* of wait(2), when it has ended */
    int exec_error; /* errno of a program that could not be started */
    bool has_status;
    bool fired; /* the guard fired: it did not end by itself */
    int64_t started_ns;

    unsigned crashes;      /* in a row, each soon after its start */
    int64_t restart_at_ns; /* RESTART: the pause ends */
    int64_t pet_at_ns;     /* word to the service manager */

    bool leaving; /* we are on our way out */
    int signals_seen;
    int stop_signal;
    int exit_code; /* when leaving */
    bool failed;   /* exit_code is not the program's, whatever it does */
};

/* supervisor_program.c */
void tn_supervisor_start_program(struct tn_supervisor *s);
void tn_supervisor_stop_program(struct tn_supervisor *s, int64_t by_ns);
void tn_supervisor_reports(struct tn_supervisor *s);
void tn_supervisor_guard_died(struct tn_supervisor *s);
/* Begin to go: the elector is shut down, its halt ends the loop. */
void tn_supervisor_leave(struct tn_supervisor *s);
/* Nothing of the program is left: answer the stop that waits for it. */
void tn_supervisor_answer_stop(struct tn_supervisor *s);

#endif
