/*
 * stalls FILE - notes when a processor of this machine stood still.
 *
 * A guard that the machine does not let run cannot kill in time, and nobody
 * promises that it does.  So on each processor a process that goes before all
 * guards sleeps for a millisecond, again and again, and appends to FILE when it
 * slept for much longer: two numbers on CLOCK_BOOTTIME, from and until.  Whoever
 * was only kept waiting by other programs is not excused by that: this one was
 * not kept waiting.
 *
 * Says "ready", and ends when its input does.  Fails if it may not go first.
 */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define MS INT64_C(1000000)

/* Longer than it takes to wake up and write on a processor that runs. */
#define LONG_NS (4 * MS)

static int64_t now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_BOOTTIME, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

/* On that processor, until whoever started it is gone. */
static void watch(int cpu, const char *path, int ready)
{
    struct sched_param before_guards = {.sched_priority = 2};
    int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (fd < 0 || sched_setaffinity(0, sizeof set, &set) != 0 ||
        sched_setscheduler(0, SCHED_RR, &before_guards) != 0)
        _exit(1);
    mlockall(MCL_CURRENT | MCL_FUTURE); /* a page that is gone is no stall of the machine */
    if (write(ready, "r", 1) != 1)
        _exit(1);
    close(ready);
    int64_t last = now();
    for (;;) {
        nanosleep(&(struct timespec){.tv_nsec = MS}, NULL);
        int64_t stall[2] = {last, now()};

        if (stall[1] - stall[0] > LONG_NS && write(fd, stall, sizeof stall) != sizeof stall)
            _exit(1);
        last = now();
    }
}

int main(int argc, char **argv)
{
    int ready[2], watchers = 0;
    cpu_set_t mine;
    char byte;

    if (argc != 2 || sched_getaffinity(0, sizeof mine, &mine) != 0 || pipe(ready) != 0)
        return 2;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &mine))
            continue;
        watchers++;
        if (fork() == 0)
            watch(cpu, argv[1], ready[1]);
    }
    close(ready[1]);
    while (watchers > 0 && read(ready[0], &byte, 1) == 1)
        watchers--;
    if (watchers > 0)
        return 1;
    puts("ready");
    fflush(stdout);
    while (read(0, &byte, 1) > 0)
        continue;
    return 0;
}
