/*
 * floor_file - how many records a second a directory takes here, made the way
 * that survives a crash and excludes others: write a new file, sync it, link it
 * to the next number, sync the directory.  An acquire and a release are two.
 *
 *   floor_file DIR [N]        prints records a second over N (default 1000)
 *   floor_file DIR N MS       pauses MS after each; prints the CPU they took, in ms:
 *                             less a leader with such renewals cannot take
 *   floor_file DIR turns      two at each line of standard input (turns.h)
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "turns.h"

#define KEEP 8 /* numbered records that stay, as in the file: store */

static void check(int ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "floor_file: %s: %s\n", what, strerror(errno));
    exit(1);
}

static double now(clockid_t clock)
{
    struct timespec ts;

    clock_gettime(clock, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void number(char name[32], int i)
{
    snprintf(name, 32, "%020d", i);
}

static int dir, made;

static void record(void *arg)
{
    char name[32], data[500] = {0};

    (void)arg;
    number(name, made);
    int fd = openat(dir, "new", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    check(fd >= 0, "open");
    check(write(fd, data, sizeof data) == (ssize_t)sizeof data, "write");
    check(fsync(fd) == 0, "fsync");
    check(close(fd) == 0, "close");
    check(linkat(dir, "new", dir, name, 0) == 0, "link");
    check(unlinkat(dir, "new", 0) == 0, "unlink");
    check(fsync(dir) == 0, "fsync of the directory");
    number(name, made - KEEP);
    if (made >= KEEP)
        check(unlinkat(dir, name, 0) == 0, "unlink");
    made++;
}

int main(int argc, char **argv)
{
    bool by_turns = argc == 3 && strcmp(argv[2], "turns") == 0;
    int n = by_turns ? 1 : argc > 2 ? atoi(argv[2]) : 1000;
    int pause_ms = argc > 3 ? atoi(argv[3]) : 0;
    char path[4096], name[32];

    if (argc < 2 || n < 1) {
        fprintf(stderr, "usage: floor_file DIR [N [MS] | turns]\n");
        return 2;
    }
    snprintf(path, sizeof path, "%s/floor-%d", argv[1], (int)getpid());
    check(mkdir(path, 0700) == 0, path);
    dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    check(dir >= 0, path);
    if (by_turns)
        turns(record, NULL);
    double start = now(CLOCK_MONOTONIC), cpu = now(CLOCK_PROCESS_CPUTIME_ID);
    for (int i = 0; i < n && !by_turns; i++) {
        record(NULL);
        if (pause_ms)
            usleep((useconds_t)pause_ms * 1000);
    }
    if (by_turns)
        ;
    else if (pause_ms)
        printf("%.2f\n", 1e3 * (now(CLOCK_PROCESS_CPUTIME_ID) - cpu));
    else
        printf("%.0f\n", n / (now(CLOCK_MONOTONIC) - start));
    for (int i = made < KEEP ? 0 : made - KEEP; i < made; i++) {
        number(name, i);
        unlinkat(dir, name, 0);
    }
    close(dir);
    rmdir(path);
    return 0;
}
