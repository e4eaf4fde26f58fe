/*
 * A timer of this process's own.  Its signal is SIGCONT, so the kernel itself continues whoever was
 * stopped when something falls due: no timer that others can read does that.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "guard/guard.h"

#define S INT64_C(1000000000)

int tn_alarm_make(struct tn_alarm *alarm)
{
    struct sigevent event;

    memset(&event, 0, sizeof event);
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = SIGCONT;
    alarm->at_ns = TN_GUARD_NEVER;
    /* The library's own function would bring threads along, for a way of telling that is not ours.
     */
    return syscall(SYS_timer_create, CLOCK_BOOTTIME, &event, &alarm->id) == 0 ? 0 : errno;
}

struct itimerspec tn_guard_when(int64_t at_ns)
{
    struct itimerspec when = {0}; /* which disarms */

    if (at_ns < TN_GUARD_NEVER) {
        at_ns = at_ns > 0 ? at_ns : 1;
        when.it_value.tv_sec = (time_t)(at_ns / S);
        when.it_value.tv_nsec = (long)(at_ns % S);
    }
    return when;
}

void tn_alarm_set(struct tn_alarm *alarm, int64_t at_ns, int64_t now)
{
    struct itimerspec when = tn_guard_when(at_ns);

    /* What is set already and has not gone off need not be set again. */
    if (at_ns == alarm->at_ns && now < at_ns)
        return;
    alarm->at_ns = at_ns;
    syscall(SYS_timer_settime, alarm->id, TIMER_ABSTIME, &when, NULL);
}
