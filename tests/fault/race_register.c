/*
 * race_register - many processes count in one register, and nothing is lost.
 *
 *   race_register URL [--processes N] [--seconds N] [--pause] [--lie] [--dir DIR]
 *
 * The register holds how often each process has swapped it.  Each one reads,
 * adds one to its own count and swaps.  At every read it knows how many of its
 * swaps took effect, so it notices at once
 *
 *   - a success that is not there, or was undone       (its count is too low)
 *   - a refused swap that took effect all the same     (its count is too high)
 *   - two successes on one token                       (somebody's count is too low)
 *   - a read that does not show an earlier success     (its count is too low)
 *
 * --pause stops processes (SIGSTOP) at any point for longer than the shortest
 * retention of the file: store, while the others go on.  --lie makes link()
 * fail now and then after it was done, and fail without having been done, as
 * with a file server that loses answers.
 *
 * --dir names the directory of the store modules.
 * Exit status: 0 all is accounted for, 1 not, 2 it could not run.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tenure/store.h"

#define MAX     16
#define S       INT64_C(1000000000)
#define KEY     "race/count"
#define ANSWERS 14

struct counts {
    long of[MAX];
};

/* What each process tells the parent. */
static struct {
    long done, reads, maybe, landed;
    long answers[ANSWERS];
} * told;

static bool lie;
static unsigned lie_seed;

/* ---- A link() that lies --------------------------------------------------- */

/* In this program, so the library's calls come here first. */
int linkat(int from, const char *old, int to, const char *name, int flags)
{
    static const int errors[] = {EIO, ESTALE, ETIMEDOUT, EEXIST};
    unsigned dice = lie ? (unsigned)rand_r(&lie_seed) % 100 : 99;

    /* EEXIST without having been done is no lie of a server, so it is not told. */
    if (dice < 4) {
        errno = errors[dice % 3];
        return -1;
    }
    long answer = syscall(SYS_linkat, from, old, to, name, flags);
    if (dice < 24 && answer == 0) {
        errno = errors[dice % 4];
        return -1;
    }
    return (int)answer;
}

/* ---- One process ---------------------------------------------------------- */

static void die(int me, const char *what, const struct tenure_error *err)
{
    fprintf(stderr, "race_register: process %d: %s%s%s\n", me, what, err ? ": " : "",
            err ? err->text : "");
    _exit(1);
}

static void parse(int me, const struct tenure_value *value, struct counts *counts)
{
    const char *p = (const char *)value->data;

    memset(counts, 0, sizeof *counts);
    if (tenure_token_absent(&value->token))
        return;
    for (int i = 0; i < MAX; i++) {
        char *end;

        counts->of[i] = strtol(p, &end, 10);
        if (end == p)
            die(me, "the register does not hold the counts", NULL);
        p = end;
    }
}

static void print(const struct counts *counts, char *text, size_t size)
{
    size_t used = 0;

    for (int i = 0; i < MAX; i++)
        used += (size_t)snprintf(text + used, size - used, "%ld ", counts->of[i]);
}

/* What the last answers mean, now that the register has been read. */
static void judge(int me, long seen, bool *pending)
{
    long done = told[me].done;

    if (*pending && seen == done + 1) {
        told[me].landed++;
        told[me].done = ++done;
    }
    *pending = false;
    if (seen < done)
        die(me, "a success is gone", NULL);
    if (seen > done)
        die(me, "a refused swap took effect", NULL);
}

static void run(int me, const char *url, const char *dir, int64_t until)
{
    struct tenure_error err = {0};
    struct tenure_value value = {0};
    tenure_store *store = NULL;
    bool pending = false;
    char text[MAX * 21];

    lie_seed = (unsigned)getpid();
    if (dir)
        tenure_store_module_dir(dir, NULL);
    if (tenure_store_open(url, tenure_now() + 60 * S, &store, &err))
        die(me, "open", &err);
    for (;;) {
        struct counts counts;

        if (tenure_store_read(store, KEY, &value, tenure_now() + 60 * S, &err))
            die(me, "read", &err);
        told[me].reads++;
        parse(me, &value, &counts);
        judge(me, counts.of[me], &pending);
        if (tenure_now() >= until)
            break;
        counts.of[me]++;
        print(&counts, text, sizeof text);
        struct tenure_swap swap = {
            .key = KEY, .expect = value.token, .data = text, .len = strlen(text)};
        tenure_nonce(swap.nonce, NULL);
        tenure_store_swap(store, &swap, tenure_now() + 60 * S, &err);
        told[me].answers[swap.status]++;
        if (swap.status == TENURE_OK)
            told[me].done++;
        else if (swap.status == TENURE_UNKNOWN)
            pending = true;
        else if (swap.status != TENURE_CONFLICT)
            die(me, "swap", &err);
        told[me].maybe += pending;
    }
    tenure_value_free(&value);
    tenure_store_close(store);
    _exit(0);
}

/* ---- The parent ----------------------------------------------------------- */

/* Stop all but two of them for a while, again and again. */
static void disturb(const pid_t *pids, int n, int64_t until)
{
    unsigned seed = 1;

    while (tenure_now() < until) {
        int spared = rand_r(&seed) % n;

        usleep(20000 + (useconds_t)rand_r(&seed) % 80000);
        for (int i = 2; i < n; i++)
            kill(pids[(spared + i) % n], SIGSTOP);
        usleep(2200000 + (useconds_t)rand_r(&seed) % 600000);
        for (int i = 2; i < n; i++)
            kill(pids[(spared + i) % n], SIGCONT);
    }
}

static int settle(const char *url, const char *dir, int n)
{
    struct tenure_error err = {0};
    struct tenure_value value = {0};
    struct counts counts;
    tenure_store *store = NULL;
    long answers[ANSWERS] = {0}, reads = 0, landed = 0, total = 0, expected = 0;

    if (dir)
        tenure_store_module_dir(dir, NULL);
    if (tenure_store_open(url, tenure_now() + 60 * S, &store, &err) ||
        tenure_store_read(store, KEY, &value, tenure_now() + 60 * S, &err)) {
        fprintf(stderr, "race_register: at the end: %s\n", err.text);
        return 1;
    }
    parse(-1, &value, &counts);
    for (int i = 0; i < n; i++) {
        total += counts.of[i];
        expected += told[i].done;
        reads += told[i].reads;
        landed += told[i].landed;
        for (int j = 0; j < ANSWERS; j++)
            answers[j] += told[i].answers[j];
    }
    tenure_value_free(&value);
    tenure_store_close(store);
    printf("%ld successes (%ld of them unknown at first), %ld conflicts, %ld unknown, %ld reads; "
           "the register counts %ld\n",
           expected, landed, answers[TENURE_CONFLICT], answers[TENURE_UNKNOWN], reads, total);
    if (total != expected || expected == 0) {
        fprintf(stderr, "race_register: %ld successes, but the register counts %ld\n", expected,
                total);
        return 1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"processes", required_argument, NULL, 'n'}, {"seconds", required_argument, NULL, 's'},
        {"pause", no_argument, NULL, 'p'},           {"lie", no_argument, NULL, 'l'},
        {"dir", required_argument, NULL, 'd'},       {0}};
    int n = 8, seconds = 5, option, failed = 0;
    bool pause = false;
    const char *dir = NULL;
    pid_t pids[MAX];

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (option) {
        case 'n':
            n = atoi(optarg);
            break;
        case 's':
            seconds = atoi(optarg);
            break;
        case 'p':
            pause = true;
            break;
        case 'l':
            lie = true;
            break;
        case 'd':
            dir = optarg;
            break;
        default:
            return 2;
        }
    }
    if (optind != argc - 1 || n < 1 || n > MAX || seconds < 1) {
        fprintf(stderr, "usage: race_register URL [--processes N] [--seconds N] [--pause] [--lie] "
                        "[--dir DIR]\n");
        return 2;
    }
    told =
        mmap(NULL, MAX * sizeof *told, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (told == MAP_FAILED)
        return 2;
    int64_t until = tenure_now() + seconds * S;
    for (int i = 0; i < n; i++) {
        pids[i] = fork();
        if (pids[i] < 0)
            return 2;
        if (pids[i] == 0)
            run(i, argv[optind], dir, until);
    }
    if (pause)
        disturb(pids, n, until);
    for (int i = 0; i < n; i++) {
        int status;

        failed |= waitpid(pids[i], &status, 0) != pids[i] || status != 0;
    }
    lie = false;
    return failed | settle(argv[optind], dir, n);
}
