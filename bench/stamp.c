/*
 * stamp FILE [once | exec COMMAND...] - the program that the benchmarks
 * supervise: appends the time at which it began, in nanoseconds of
 * CLOCK_BOOTTIME, then waits to be ended.  With exec it becomes COMMAND, whose
 * time from exec on is then known without that of whoever started it.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    struct timespec ts;
    char line[64];

    clock_gettime(CLOCK_BOOTTIME, &ts);
    int n = snprintf(line, sizeof line, "%lld %d\n", (long long)ts.tv_sec * 1000000000 + ts.tv_nsec,
                     (int)getpid());
    int fd = argc > 1 ? open(argv[1], O_WRONLY | O_APPEND | O_CREAT, 0600) : 1;
    if (fd < 0 || write(fd, line, (size_t)n) != n)
        return 1;
    if (argc > 2 && strcmp(argv[2], "once") == 0)
        return 0;
    if (argc > 3 && strcmp(argv[2], "exec") == 0) {
        close(fd);
        execvp(argv[3], argv + 3);
        return 127;
    }
    for (;;)
        pause();
}
