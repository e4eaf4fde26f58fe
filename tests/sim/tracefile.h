/*
 * sim/tracefile.h - traces of real processes (src/supervise/trace_file.h), and of
 * whoever tests them, as one list of events on the machine's own time.
 *
 * A candidate's file tells what its elector and its program did.  A judge's
 * file (its header has "judge") tells what only the test knows: when a program
 * proved that it was alive, which faults were injected, what was asked for.
 */
#ifndef SIM_TRACEFILE_H
#define SIM_TRACEFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/timing.h"

/* X(NAME, word): events of candidates, then those of judges. */
#define SIM_EVENT_MAP(X)                                                                           \
    X(BEGINS, "begins") /* made of a header: a process */                                          \
    X(LEADER, "leader")                                                                            \
    X(GRANTED, "granted")                                                                          \
    X(STARTED, "started")                                                                          \
    X(RENEWED, "renewed")                                                                          \
    X(STOPPING, "stopping")                                                                        \
    X(STOPPED, "stopped")                                                                          \
    X(RELEASED, "released")                                                                        \
    X(TROUBLE, "trouble")                                                                          \
    X(REFUSED, "refused")                                                                          \
    X(HALTED, "halted")                                                                            \
    X(RUNNING, "running")                                                                          \
    X(DEAD, "dead")                                                                                \
    X(ACTS, "acts")           /* epoch; until_ns: alive from then to then, at least */             \
    X(ACTED, "acted")         /* made of the former */                                             \
    X(FAULT, "fault")         /* id, or "" for all: something that may cost leadership */          \
    X(KILLED, "killed")       /* id: the process is gone */                                        \
    X(ORDER, "order")         /* id: asked to step down, to end */                                 \
    X(RECORD, "record")       /* the lease record was lost, restored or edited */                  \
    X(CALM, "calm")           /* the faults are over */                                            \
    X(LOADED, "loaded")       /* epoch, value: what a leader found in its state, sealed */         \
    X(COMMITTED, "committed") /* epoch, value, took_ns: acknowledged */                            \
    X(ACKED, "acked")         /* made of the former */

enum sim_event_kind {
#define SIM_X(name, word) SIM_EV_##name,
    SIM_EVENT_MAP(SIM_X)
#undef SIM_X
};

struct sim_event {
    enum sim_event_kind kind;
    unsigned order; /* among those of one instant: as they were read */
    int64_t at_ns;  /* the machine's CLOCK_BOOTTIME, as deadline_ns */
    char id[128];   /* "": none */
    char leader[128];
    char text[80];
    uint64_t epoch;
    uint64_t value;
    int64_t deadline_ns;
    int64_t took_ns;
    int64_t until_ns;
    int64_t offset_ns; /* of the clock that stamped it */
    struct tn_timing timing;
};

struct sim_events {
    struct sim_event *list; /* sorted by time */
    size_t n, cap;
    uint64_t lost; /* lines that a disk was too slow for */
};

/*
 * Append what is in the file.  false: err says where it is no trace, a trace of
 * another version, or damaged.  A last line that was cut short is no damage:
 * whoever wrote it was killed.
 */
bool sim_events_read(struct sim_events *e, const char *path, char *err, size_t size);
/* All files are read: bring them into one order. */
void sim_events_sort(struct sim_events *e);
void sim_events_free(struct sim_events *e);
/* "granted", ... */
const char *sim_event_word(enum sim_event_kind kind);

#endif
