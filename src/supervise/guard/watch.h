/*
 * supervise/guard/watch.h - when the guard has to be taken for stopped.  Pure: times
 * in, times out.
 *
 * The guard sends KILL a margin before the deadline.  Half a margin later it must
 * have said so; else somebody stopped the guard, and tenure ends it and with it
 * the program.  A margin of 50 ms, times in milliseconds:
 *
 *     a deadline that comes                 a definite loss (I9): the deadline is now
 *     10000  renewed; deadline 21270        10000  told: deadline 10000
 *     21220  the guard sends KILL           10000  the guard sends KILL, as soon as it runs
 *     21245  it is late                     10025  it is late
 *     21270  the deadline
 *
 * On the right the moment for KILL has passed already when the guard is told, so
 * it gets its half of a margin from there.  Nothing is dead later for that but
 * what is guarded by a stopped guard, and that by an eighth of K at most.
 */
#ifndef TN_SUPERVISE_GUARD_WATCH_H
#define TN_SUPERVISE_GUARD_WATCH_H

#include <stdint.h>

/* deadline_ns was told at told_ns.  From when on a guard that has not killed is late; 0: never,
 * there is no grant. */
int64_t tn_guard_late_at(int64_t deadline_ns, int64_t told_ns, int64_t margin_ns);

#endif
