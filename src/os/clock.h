/* os/clock.h - the only place that asks the system for the time. */
#ifndef TN_OS_CLOCK_H
#define TN_OS_CLOCK_H

#include <stdint.h>

/* Milliseconds since 1970 on the wall clock: for people, and to raise epochs. */
uint64_t tn_wall_ms(void);

/* Milliseconds from now until deadline (CLOCK_BOOTTIME ns) for poll(2): rounded up, 0 if past. */
int tn_poll_ms(int64_t deadline);

#endif
