/*
 * sim/clock.h - a candidate's boot clock against the simulator's true time.
 *
 * A clock is a straight line from an anchor; a change of rate, a freeze or a
 * reboot sets a new anchor.  It never goes back, except over a reboot, where
 * nothing that read it is left.
 */
#ifndef SIM_CLOCK_H
#define SIM_CLOCK_H

#include <stdint.h>

#define SIM_NEVER (INT64_MAX / 4)

struct sim_clock {
    int64_t true_ns;  /* the anchor: at this true time ... */
    int64_t local_ns; /* ... it showed this */
    uint64_t rate;    /* local per true, in 2^-32 */
    uint64_t inverse; /* true per local, in 2^-56 */
};

/* Starts at local_ns, with a rate of 1 + ppm / 10^6. */
void sim_clock_init(struct sim_clock *c, int64_t true_ns, int64_t local_ns, int32_t ppm);
/* From now on another rate. */
void sim_clock_set_rate(struct sim_clock *c, int64_t true_ns, int32_t ppm);
/* It stood still until now, since it showed local_ns (a virtual machine was paused). */
void sim_clock_stood(struct sim_clock *c, int64_t true_ns, int64_t local_ns);
/* What it shows.  true_ns is not before the anchor. */
int64_t sim_clock_local(const struct sim_clock *c, int64_t true_ns);
/* The first true instant at which it shows local_ns or more; SIM_NEVER if far away. */
int64_t sim_clock_true(const struct sim_clock *c, int64_t local_ns);

#endif
