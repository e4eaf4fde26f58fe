/* work/inner.h - the worker's state, and what its files do for each other. */
#ifndef TN_WORK_INNER_H
#define TN_WORK_INNER_H

#include <pthread.h>
#include <stdatomic.h>

#include "os/loop.h"
#include "supervise/program/notify.h"
#include "work/fleet.h"
#include "work/listen.h"
#include "work/socket.h"
#include "work/work.h"

/* The process that starts the programs (guard/launcher.h). */
enum tn_launcher_state {
    TN_LAUNCHER_NONE,
    TN_LAUNCHER_ASKED,  /* the guard was told to run it */
    TN_LAUNCHER_UP,     /* it takes commands */
    TN_LAUNCHER_ENDING, /* it and what it runs are on their way out: the guard's DEAD follows */
};

/* What the driver's threads have for the loop, in its order. */
enum tn_work_message_kind {
    TN_WORK_MSG_START,
    TN_WORK_MSG_STOP,
    TN_WORK_MSG_STOP_ALL,
    TN_WORK_MSG_STOPPED, /* the one program has ended a job */
    TN_WORK_MSG_DEADLINE,
    TN_WORK_MSG_FIRED,
    TN_WORK_MSG_HALTED,
};
struct tn_work_message {
    struct tn_work_message *next;
    enum tn_work_message_kind kind;
    uint32_t job;
    int64_t at_ns;
    enum tn_jobs_cause cause;
    uint64_t epoch;
    char text[200]; /* the job's id; STOP_ALL: why */
    void *spec, *checkpoint;
    size_t spec_len, checkpoint_len;
};

struct tn_work {
    const struct tn_work_options *options;
    const struct tn_work_codes *codes;
    struct tn_loop loop;
    struct tn_watch signal, guard_report, guard_end, launcher_report, late;
    struct tn_timer fleet_timer, host_timer, tree_timer, hurry, ping;
    struct tn_call drain;
    struct tn_notify notify;

    struct tn_guard_link link;
    _Atomic int64_t deadline_ns, late_ns; /* of the driver's thread */
    _Atomic bool fired_told;              /* once a membership */
    bool killed;                          /* the guard has sent KILL to this launcher */
    bool guard_dead;                      /* its tree is being ended; it is not started again yet */
    enum tn_launcher_state launcher;
    int launcher_socket;       /* -1: none */
    int64_t launcher_up_ns;    /* since when it takes commands; 0: it never did */
    int64_t launcher_start_ns; /* the next one not before */

    struct tn_fleet fleet;     /* the jobs */
    struct tn_fleet host;      /* with --one-program: that program */
    struct tn_fleet *launched; /* the one of them whose programs the launcher runs */
    struct tn_work_socket *socket;
    tn_jobs_driver *driver;
    struct tn_work_listener *listener; /* NULL: it does not listen */
    bool stopping_all;                 /* reaped() is owed when nothing is left */
    bool leaving, halted;
    int64_t asked_ns; /* when it was last asked to go; 0: it was not */
    int exit_code;
    bool over;

    pthread_mutex_t lock; /* of the inbox */
    struct tn_work_message *first, **last;
};

/* ---- hooks.c: the driver's threads --------------------------------------- */

void tn_work_hooks(struct tn_work *w, struct tn_jobs_hooks *hooks);
/* A message without anything but its kind.  From any thread. */
void tn_work_post(struct tn_work *w, enum tn_work_message_kind kind);
/* The one program has ended that run.  From any thread. */
void tn_work_post_stopped(void *work, uint32_t job, uint64_t epoch);
/* The messages that have come, for the caller to free one by one with tn_work_message_free(). */
struct tn_work_message *tn_work_inbox_take(struct tn_work *w);
void tn_work_message_free(struct tn_work_message *m);

/* ---- one_program.c ------------------------------------------------------- */

extern const struct tn_fleet_host tn_work_one_program;
/* It runs; it is dead.  Of its fleet. */
void tn_work_host_started(void *arg, uint32_t job);
void tn_work_host_stopped(void *arg, uint32_t job, uint64_t epoch);
/* Have it, if there is a job for it. */
void tn_work_host_want(struct tn_work *w);

/* ---- guard.c: the guard and the launcher --------------------------------- */

enum tenure_status tn_work_guard_open(struct tn_work *w, struct tenure_error *err);
void tn_work_guard_close(struct tn_work *w);
/* In the loop. */
void tn_work_on_guard_report(void *arg, short events);
void tn_work_on_guard_end(void *arg, short events);
void tn_work_on_launcher(void *arg, short events);
void tn_work_on_late(void *arg, short events);
void tn_work_on_tree_timer(void *arg, int64_t now_ns);
/* Have a launcher, if there is something to start and it may be. */
void tn_work_launcher_want(struct tn_work *w);
/* A membership has begun: a crash must free the jobs of this one. */
void tn_work_renew_ticket(struct tn_work *w);
/* The guard has ended everything: the driver is told, once a membership. */
void tn_work_fired(struct tn_work *w);
/* On the heartbeat's thread: tell the guard. */
void tn_work_publish(struct tn_work *w, int64_t deadline_ns);

#endif
