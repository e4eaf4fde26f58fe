/*
 * work/capacity.h - how many programs the kill time K covers.  Pure arithmetic.
 *
 * At the deadline the guard ends every program of a worker, and K is how long that may take: others
 * claim the jobs right after it.  On two cores ending a thousand programs took 0.4 to 1.0 s, and a
 * hundred under a load average of 22 up to 0.26 s (bench/end_programs.c; docs/explanation/jobs.md).
 * So 100 ms and 2 ms for each program are counted.
 */
#ifndef TN_WORK_CAPACITY_H
#define TN_WORK_CAPACITY_H

#include <stdint.h>

#define TN_WORK_KILL_BASE_MS 100
#define TN_WORK_KILL_EACH_MS 2

/* The most programs that can be ended within it; 0: not even one. */
uint32_t tn_work_capacity(int64_t kill_ns);
/* The kill time that so many programs need. */
int64_t tn_work_kill_ns(uint32_t programs);

#endif
