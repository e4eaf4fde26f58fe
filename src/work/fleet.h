/*
 * work/fleet.h - the runs of a worker's jobs: a program for each under one launcher
 * (guard/launcher.h), or all of them given to one program (struct tn_fleet_host).
 *
 *   WAITING ──> STARTING ──> RUNNING ──> STOPPING
 *      │            │           │            │
 *      └────────────┴───────────┴────────────┴──> dead: stopped() is called, once a start
 *
 * A program that ends by itself is dead too.  Its job is released and claimed again, so that each
 * run has an epoch of its own (J2); the next start of that job waits, longer after each failure.
 *
 * THREADS.  All of it belongs to one loop.  Nothing blocks.
 */
#ifndef TN_WORK_FLEET_H
#define TN_WORK_FLEET_H

#include "base/duration.h"
#include "guard/launcher.h"
#include "supervise/program/program.h"
#include "work/fleet_table.h"

/* The program that has many jobs: it confirms the end of each (tn_fleet_confirm()). */
struct tn_fleet_host {
    /* REQUIRED: it is to run that job. */
    void (*give)(void *arg, const struct tn_fleet_program *p);
    /* REQUIRED: it is to end it by p->by_ns; called again if that is earlier than before. */
    void (*revoke)(void *arg, const struct tn_fleet_program *p);
    /* REQUIRED: it did not, and must be killed. */
    void (*overdue)(void *arg, const struct tn_fleet_program *p);
};

struct tn_fleet_options {
    const struct tn_fleet_host *host; /* NULL: a program for each; else what follows up to rate is
                                       * not used */
    const struct tn_program *program;
    const char *group, *id; /* of the jobs, of this worker */
    const char *store;      /* the variables that its URL names are not for programs */
    const char *socket;     /* "TENURE_SOCKET=/path" */
    const char *dir;        /* where specifications are written, 0700 */
    uid_t user;             /* who reads them; 0: ourselves */
    int stop_signal;
    unsigned rate; /* programs started a second; 0: any */
    void *arg;
    /* OPTIONAL: its program runs. */
    void (*started)(void *arg, uint32_t job);
    /* Nothing of the job's program is left, or it was never started. */
    void (*stopped)(void *arg, uint32_t job, uint64_t epoch);
};

enum tn_fleet_state {
    TN_FLEET_WAITING,
    TN_FLEET_STARTING,
    TN_FLEET_RUNNING,
    TN_FLEET_STOPPING, /* or it has ended by itself, and left something behind */
    TN_FLEET_RESTING,  /* dead; remembered because it failed */
};

/* A job's program. */
struct tn_fleet_program {
    struct tn_fleet_program *next; /* of the table's */
    char id[128];                  /* "": the program that has many jobs */
    uint32_t job;
    uint32_t number; /* at the launcher: of this start alone, so that an old report finds nobody */
    bool used;
    enum tn_fleet_state state;
    bool stop_due;   /* the order to stop could not be sent yet */
    bool overdue;    /* that was said */
    int64_t by_ns;   /* KILL then, once it is to stop; TN_NEVER */
    const char *why; /* it is to stop; a literal */
    bool by_itself;  /* it ended, and nobody had asked */
    int32_t status;  /* of wait(2), if by_itself */
    int32_t error;   /* errno: it could not be started */
    uint32_t stage;
    uint64_t epoch;
    pid_t pid;
    int64_t started_ns; /* when it was told to start; RESTING: when it died */
    int64_t start_ns;   /* not before */
    unsigned failures;  /* in a row */
    void *spec;         /* malloc'ed; NULL: none */
    size_t spec_len;
};

struct tn_fleet {
    struct tn_fleet_options options;
    bool attached; /* to the launcher, or the program is there */
    int socket;    /* to the launcher; -1: there is none */
    struct tn_fleet_table table;
    uint32_t next_number;
    int64_t next_start_ns; /* by the rate */
};

void tn_fleet_init(struct tn_fleet *f, const struct tn_fleet_options *options);
/* Only when everything is dead. */
void tn_fleet_free(struct tn_fleet *f);

/* Start the program of a job that has none.  Takes spec (malloc'ed, or NULL).  false: no memory. */
bool tn_fleet_start(struct tn_fleet *f, uint32_t job, const char *id, uint64_t epoch, void *spec,
                    size_t spec_len, int64_t now_ns);
/* Stop it; KILL at by_ns.  stopped() may be called at once.  A job that has no program is left
 * alone: its stopped() has been called, and another would be taken for the next start's. */
void tn_fleet_stop(struct tn_fleet *f, uint32_t job, int64_t by_ns, const char *why,
                   int64_t now_ns);
/* Stop all of them.  May be repeated to hasten. */
void tn_fleet_stop_all(struct tn_fleet *f, int64_t by_ns, const char *why, int64_t now_ns);
/* The program that has it says that the run of that epoch has ended.  Nothing of an earlier one. */
void tn_fleet_confirm(struct tn_fleet *f, uint32_t job, uint64_t epoch, int64_t now_ns);
/* Send a signal to each program that runs. */
void tn_fleet_signal(struct tn_fleet *f, int signal);

/* A launcher is there: the socket stays the caller's.  Or the program is: -1. */
void tn_fleet_attach(struct tn_fleet *f, int socket);
/* The launcher takes nothing any more; its death, and that of what it runs, follows. */
void tn_fleet_hang_up(struct tn_fleet *f);
/* It is dead, and so is everything that it ran; what waits to be started goes on waiting. */
void tn_fleet_detach(struct tn_fleet *f, int64_t now_ns);
/* The launcher's socket is readable.  false: it has hung up. */
bool tn_fleet_read(struct tn_fleet *f, int64_t now_ns);
/* Send what is due.  When to call again: TN_NEVER if that takes an event. */
int64_t tn_fleet_act(struct tn_fleet *f, int64_t now_ns);

/* How many programs there are that are not dead, those that wait included. */
uint32_t tn_fleet_alive(const struct tn_fleet *f);

/* How long the job waits after so many failures in a row. */
int64_t tn_fleet_pause(unsigned failures);

#endif
