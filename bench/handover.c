/*
 * handover URL [ROUNDS] - from the end of one leader's work until the next one
 * leads, in microseconds: release, notification, claim.  Two processes take
 * turns through the public library; what is timed begins when stopped()
 * returns, before the release is written, and ends in the other's started().
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tenure/elector.h"

#define ROUNDS_MAX 10000
#define AWAY_MS    20

struct board {
    _Atomic int64_t ended_ns;
    _Atomic unsigned rounds;
    unsigned most;
    double took_us[ROUNDS_MAX];
};

static struct board *board;

static int64_t now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_BOOTTIME, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static _Atomic bool leading;

static void started(void *arg, const struct tenure_term *term)
{
    int64_t ended = atomic_exchange(&board->ended_ns, 0);
    unsigned round = atomic_load(&board->rounds);

    (void)arg;
    (void)term;
    if (ended && round < board->most) {
        board->took_us[round] = (double)(now_ns() - ended) / 1e3;
        atomic_store(&board->rounds, round + 1);
    }
    atomic_store(&leading, true);
}

static void stopped(void *arg, const struct tenure_term *term, const char *why)
{
    (void)arg;
    (void)term;
    (void)why;
    atomic_store(&leading, false);
    atomic_store(&board->ended_ns, now_ns());
}

static int candidate(const char *url)
{
    struct tenure_elector_options o = TENURE_ELECTOR_OPTIONS;
    struct tenure_error err;
    tenure_elector *e;

    o.store = url;
    o.name = "handover";
    o.started = started;
    o.stopped = stopped;
    if (tenure_elector_start(&o, &e, &err)) {
        fprintf(stderr, "handover: %s\n", err.text);
        return 1;
    }
    while (atomic_load(&board->rounds) < board->most) {
        /* The one that leaves keeps away until the other leads; then it settles down to wait. */
        usleep(2 * AWAY_MS * 1000);
        if (atomic_load(&leading))
            tenure_elector_yield(e, AWAY_MS);
    }
    tenure_elector_stop(e);
    return 0;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (board == MAP_FAILED)
        return 2;
    board->most = argc > 2 ? (unsigned)atoi(argv[2]) : 200;
    if (board->most > ROUNDS_MAX)
        board->most = ROUNDS_MAX;
    for (int i = 0; i < 2; i++) {
        if (fork() == 0)
            _exit(candidate(argv[1]));
    }
    int status, failed = 0;
    while (wait(&status) > 0)
        failed |= status;
    unsigned n = atomic_load(&board->rounds);
    if (failed || n == 0)
        return 1;
    qsort(board->took_us, n, sizeof(double), by_size);
    printf("median %.0f us, 90 %% %.0f us, %u rounds\n", board->took_us[n / 2],
           board->took_us[n * 9 / 10], n);
    return 0;
}
