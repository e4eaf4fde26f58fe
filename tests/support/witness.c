/*
 * witness TABLE [WORD ...] - a supervised program that can prove when it ran.
 *
 * It takes a row in a table that all witnesses map, and writes the time there
 * for as long as it lives: CLOCK_BOOTTIME, no system call between looking at
 * the clock and writing it down.  Whoever kills it cannot make it lie.
 * tests/fault/world.py reads the table.
 *
 *   hook          first of all: it is not the program but a hook of its term
 *   stubborn      ignores TERM, INT and HUP
 *   daemon        leaves a daemon behind (double fork, new session), a witness too
 *   brood         two children, one of them in a session of its own, witnesses too
 *   slow=MS       takes so long to stop when asked to
 *   exit=CODE     ends at once
 *   after=MS      ends after that time, with code 0 or that of exit=
 */
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define ROWS 65536

struct row {
    _Atomic uint64_t epoch; /* 0: not taken yet */
    _Atomic int64_t started;
    _Atomic int64_t last;
    _Atomic int64_t pid;   /* in its own PID namespace */
    _Atomic uint64_t kind; /* 0: the program, 1: one of its descendants, 2: a hook */
    _Atomic uint64_t told; /* signals that it was told */
    char id[16];           /* of the candidate, cut to what fits */
};

struct table {
    _Atomic uint64_t next;
    uint64_t unused[7];
    struct row rows[ROWS];
};

static struct table *table;
static uint64_t epoch;
static volatile sig_atomic_t told;

static int64_t now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_BOOTTIME, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static struct row *sign_in(uint64_t kind)
{
    uint64_t n = atomic_fetch_add(&table->next, 1);

    if (n >= ROWS)
        exit(99);
    struct row *r = &table->rows[n];
    atomic_store(&r->pid, getpid());
    atomic_store(&r->kind, kind);
    const char *id = getenv("TENURE_ID");
    memcpy(r->id, id ? id : "", id ? strnlen(id, sizeof r->id) : 0);
    atomic_store(&r->started, now());
    atomic_store(&r->last, atomic_load(&r->started));
    atomic_store(&r->epoch, epoch); /* last: from here on the row counts */
    return r;
}

static void on_signal(int number)
{
    told = number;
}

/* Live for so long, or until told to stop. */
static void live(struct row *r, int64_t until, int stubborn, int64_t slow)
{
    while (now() < until) {
        atomic_store(&r->last, now());
        if (told && !stubborn) {
            atomic_store(&r->told, (uint64_t)told);
            if (slow == 0)
                return;
            until = now() + slow;
            stubborn = 1;
        }
        nanosleep(&(struct timespec){.tv_nsec = 300 * 1000}, NULL);
    }
    atomic_store(&r->last, now()); /* it may have slept for much longer than it meant to */
}

/* Returns when it has signed in, or was killed before. */
static void descendant(int session, int twice)
{
    int ends[2];
    char byte;

    if (pipe(ends) != 0)
        _exit(97);
    if (fork() != 0) {
        close(ends[1]);
        while (read(ends[0], &byte, 1) < 0)
            continue; /* a signal */
        close(ends[0]);
        return;
    }
    close(ends[0]);
    if (session)
        setsid();
    if (twice && fork() != 0)
        _exit(0);
    for (int i = 1; i < 32; i++)
        signal(i, SIG_IGN);
    struct row *r = sign_in(1);
    close(ends[1]);
    live(r, INT64_MAX, 1, 0);
    _exit(0);
}

int main(int argc, char **argv)
{
    const char *text = getenv("TENURE_EPOCH");
    int fd = argc > 1 ? open(argv[1], O_RDWR | O_CREAT, 0666) : -1;
    int64_t until = INT64_MAX, slow = 0;
    int stubborn = 0, code = 0;

    if (fd < 0 || ftruncate(fd, sizeof *table) != 0 || !text)
        return 98;
    table = mmap(NULL, sizeof *table, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (table == MAP_FAILED)
        return 98;
    close(fd);
    epoch = strtoull(text, NULL, 10);
    struct sigaction act = {.sa_handler = on_signal};
    sigaction(SIGTERM, &act, NULL);
    sigaction(SIGINT, &act, NULL);
    sigaction(SIGHUP, &act, NULL);
    sigaction(SIGUSR1, &act, NULL);
    /* Seen from here on, and ready: as PID 1 of a namespace it would not even
     * be ended by a TERM that it has no handler for. */
    struct row *r = sign_in(argc > 2 && strcmp(argv[2], "hook") == 0 ? 2 : 0);
    for (int i = 2; i < argc; i++) {
        if (strcmp(argv[i], "stubborn") == 0)
            stubborn = 1;
        else if (strcmp(argv[i], "daemon") == 0)
            descendant(1, 1);
        else if (strcmp(argv[i], "brood") == 0)
            descendant(0, 0), descendant(1, 0);
        else if (strncmp(argv[i], "slow=", 5) == 0)
            slow = atoll(argv[i] + 5) * 1000000;
        else if (strncmp(argv[i], "after=", 6) == 0)
            until = now() + atoll(argv[i] + 6) * 1000000;
        else if (strncmp(argv[i], "exit=", 5) == 0)
            code = atoi(argv[i] + 5), until = until == INT64_MAX ? 0 : until;
    }
    live(r, until, stubborn, slow);
    return code;
}
