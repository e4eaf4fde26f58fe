/*
 * lead URL FILE - leads through the library and nothing else: no guard, no
 * program.  Appends the time at which it was told that it leads, as stamp does.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <tenure/elector.h>
#include <time.h>
#include <unistd.h>

static void started(void *arg, const struct tenure_term *term)
{
    struct timespec ts;
    char line[64];

    (void)term;
    clock_gettime(CLOCK_BOOTTIME, &ts);
    int n = snprintf(line, sizeof line, "%lld %d\n", (long long)ts.tv_sec * 1000000000 + ts.tv_nsec,
                     (int)getpid());
    int fd = open(arg, O_WRONLY | O_APPEND | O_CREAT, 0600);
    if (fd < 0 || write(fd, line, (size_t)n) != n)
        _exit(1);
    close(fd);
}

int main(int argc, char **argv)
{
    struct tenure_elector_options options = TENURE_ELECTOR_OPTIONS;
    struct tenure_error error;
    tenure_elector *elector;
    sigset_t set;
    int signo;

    if (argc != 3) {
        fprintf(stderr, "usage: lead URL FILE\n");
        return 2;
    }
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, NULL);
    options.store = argv[1];
    options.name = "bench";
    options.started = started;
    options.arg = argv[2];
    if (tenure_elector_start(&options, &elector, &error) != TENURE_OK) {
        fprintf(stderr, "lead: %s\n", error.text);
        return 1;
    }
    sigwait(&set, &signo);
    tenure_elector_stop(elector);
    return 0;
}
