/*
 * race_elect - many real processes fight for one lease, thousands of times.
 *
 *     race_elect URL [--processes 6] [--terms 2000] [--kills 6] [--dir MODULES]
 *         [--traces DIR]
 *
 * Every process is a candidate through the public library.  Whoever leads
 * works for a moment, then steps down while all others want the lease; a few
 * leaders are killed with SIGKILL instead, so that their terms must run out.
 * The judge is independent of the product: the workers note on CLOCK_BOOTTIME,
 * in shared memory, when their work began and ended; no two may overlap, and
 * epochs must rise in the order of the terms.  With --traces each candidate also
 * leaves a trace, for the checkers of the simulator (tenure-sim --check).
 */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "supervise/trace_file.h"
#include "tenure/elector.h"
#include "tenure/store.h"

#define TERMS_MAX     100000
#define PROCESSES_MAX 64
#define TTL_MS        INT64_C(1000)
#define STALLS_MAX    1000
#define STALL_NS      INT64_C(200000000) /* less does not take up what lies between D and W */
#define AFTER_NS      INT64_C(300000000) /* who was to stop is scheduled again, and has stopped */

struct term {
    int64_t began_ns;
    _Atomic int64_t ended_ns; /* 0: still working, or killed */
    _Atomic int64_t last_ns;  /* last moment of work */
    uint64_t epoch;
    _Atomic pid_t pid; /* set last: the rest is filled */
};

struct board {
    _Atomic unsigned terms;
    _Atomic bool over;
    struct term term[TERMS_MAX];
};

/* When nobody ran: the machine stood still, and leases ended unseen (I1 is not promised then). */
struct stall {
    int64_t from_ns, until_ns;
};

static struct stall stalls[STALLS_MAX];
static unsigned n_stalls;
static int64_t awake_ns; /* 0: not known, for it has waited for somebody */

struct options {
    const char *url;
    const char *modules;
    const char *traces;
    unsigned processes, terms, kills;
};

static struct board *board;

/* Not the product's clock function: the judge has its own. */
static int64_t now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_BOOTTIME, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

/* ---- A candidate --------------------------------------------------------- */

struct worker {
    tenure_elector *elector;
    struct tn_trace_file *trace; /* NULL: none */
    char id[16];
    _Atomic(struct term *) term; /* the one at work, or NULL */
};

static void started(void *arg, const struct tenure_term *t)
{
    struct worker *w = arg;
    unsigned index = atomic_fetch_add(&board->terms, 1);
    struct term *term = &board->term[index % TERMS_MAX];

    term->epoch = t->epoch;
    term->began_ns = now_ns();
    atomic_store(&term->last_ns, term->began_ns);
    atomic_store(&term->pid, getpid());
    atomic_store(&w->term, term);
}

static void stopped(void *arg, const struct tenure_term *t, const char *why)
{
    struct worker *w = arg;
    struct term *term = atomic_exchange(&w->term, NULL);

    (void)t;
    (void)why;
    if (term)
        atomic_store(&term->ended_ns, now_ns());
}

static void work(struct worker *w)
{
    struct term *term = atomic_load(&w->term);
    bool leads = tenure_elector_leads(w->elector, NULL);

    if (!term || !leads)
        return;
    /* A moment's work, noted as it goes: a killed worker's end is its last note. */
    for (int i = 0; i < 20 && tenure_elector_leads(w->elector, NULL); i++) {
        if (atomic_load(&w->term) != term)
            break;
        atomic_store(&term->last_ns, now_ns());
        usleep(10);
    }
    tn_trace_file_program(w->trace, w->id, "order", 0, now_ns());
    tenure_elector_yield(w->elector, 1);
}

static void on_trace(void *arg, const struct tenure_trace *t)
{
    tn_trace_file_event(((struct worker *)arg)->trace, t);
}

static bool open_trace(const struct options *o, struct worker *w, struct tenure_error *err)
{
    struct tn_timing_wish wish = {.ttl_ns = TTL_MS * TN_MS};
    struct tn_timing timing;
    char path[4096];

    if (!o->traces)
        return true;
    snprintf(path, sizeof path, "%s/%s.trace", o->traces, w->id);
    tn_timing_plan(&wish, &timing);
    return tn_trace_file_open(path, "race", &timing, &w->trace, err) == TENURE_OK;
}

static int candidate(const struct options *o, unsigned seat)
{
    struct tenure_elector_options eo = TENURE_ELECTOR_OPTIONS;
    struct worker w = {0};
    struct tenure_error err;

    snprintf(w.id, sizeof w.id, "r%u", seat);
    eo.store = o->url;
    eo.name = "race";
    eo.id = w.id;
    eo.ttl_ms = TTL_MS;
    eo.trace = on_trace;
    eo.arg = &w;
    eo.started = started;
    eo.stopped = stopped;
    if (!open_trace(o, &w, &err) || (o->modules && tenure_store_module_dir(o->modules, &err)) ||
        tenure_elector_start(&eo, &w.elector, &err)) {
        fprintf(stderr, "race_elect: %s\n", err.text);
        return 1;
    }
    while (!atomic_load(&board->over)) {
        work(&w);
        usleep(50);
    }
    tn_trace_file_program(w.trace, w.id, "order", 0, now_ns());
    tenure_elector_stop(w.elector);
    tn_trace_file_close(w.trace);
    return 0;
}

/* Whoever takes the seat of one that was killed has its id, too. */
static pid_t fork_candidate(const struct options *o, unsigned seat)
{
    pid_t pid = fork();

    if (pid == 0)
        _exit(candidate(o, seat));
    return pid;
}

/* ---- The race ------------------------------------------------------------ */

/* Sleep for a moment; whoever comes back much later than it meant to was not let run. */
static void nap(void)
{
    usleep(200);
    int64_t now = now_ns();
    if (awake_ns && now - awake_ns > STALL_NS && n_stalls < STALLS_MAX)
        stalls[n_stalls++] = (struct stall){awake_ns, now};
    awake_ns = now;
}

/* Kill whoever works right now.  false: nobody does. */
static bool kill_leader(const struct options *o, pid_t *pids, bool *failed)
{
    unsigned n = atomic_load(&board->terms);
    struct term *term = n ? &board->term[n - 1] : NULL;

    if (!term || atomic_load(&term->ended_ns) || !term->pid)
        return false;
    for (unsigned i = 0; i < o->processes; i++) {
        int status;

        if (pids[i] != term->pid)
            continue;
        kill(pids[i], SIGKILL);
        waitpid(pids[i], &status, 0);
        pids[i] = fork_candidate(o, i);
        *failed |= pids[i] < 0;
        return true;
    }
    return false;
}

static bool run(const struct options *o, unsigned *killed)
{
    pid_t pids[PROCESSES_MAX];
    bool failed = false;
    unsigned next_kill = o->kills ? o->terms / (o->kills + 1) : UINT32_MAX;

    for (unsigned i = 0; i < o->processes; i++)
        failed |= (pids[i] = fork_candidate(o, i)) < 0;
    while (!failed && atomic_load(&board->terms) < o->terms) {
        if (*killed < o->kills && atomic_load(&board->terms) >= next_kill * (*killed + 1) &&
            kill_leader(o, pids, &failed)) {
            ++*killed;
            awake_ns = 0;
        }
        int status;
        if (waitpid(-1, &status, WNOHANG) > 0)
            failed = true; /* a candidate ended by itself: it could not start */
        nap();
    }
    atomic_store(&board->over, true);
    for (unsigned i = 0; i < o->processes; i++) {
        int status = 0;

        while (pids[i] > 0 && waitpid(pids[i], &status, WNOHANG) == 0)
            nap();
        failed |= status != 0;
    }
    return !failed;
}

/* ---- The judge ----------------------------------------------------------- */

static int by_beginning(const void *a, const void *b)
{
    const struct term *x = a, *y = b;

    return (x->began_ns > y->began_ns) - (x->began_ns < y->began_ns);
}

/* The one before was to stop while the machine stood still, and did when it ran again. */
static bool excused(int64_t began_ns, int64_t ended_ns)
{
    for (unsigned i = 0; i < n_stalls; i++) {
        if (began_ns >= stalls[i].from_ns && ended_ns <= stalls[i].until_ns + AFTER_NS)
            return true;
    }
    return false;
}

static unsigned judge(unsigned n)
{
    unsigned overlaps = 0, epochs = 0;
    int64_t latest_end = 0;
    uint64_t before = 0;

    qsort(board->term, n, sizeof board->term[0], by_beginning);
    for (unsigned i = 0; i < n; i++) {
        struct term *t = &board->term[i];
        int64_t end = t->ended_ns ? t->ended_ns : t->last_ns;

        if (!t->pid)
            continue; /* killed before it had filled its row: it has done nothing */
        if (t->began_ns < latest_end && !excused(t->began_ns, latest_end)) {
            overlaps++;
            printf("OVERLAP: pid %d epoch %llu began %lld ns before the last one ended\n",
                   (int)t->pid, (unsigned long long)t->epoch,
                   (long long)(latest_end - t->began_ns));
        }
        if (end > latest_end)
            latest_end = end;
        if (t->epoch <= before) {
            epochs++;
            printf("EPOCH: %llu follows %llu\n", (unsigned long long)t->epoch,
                   (unsigned long long)before);
        }
        before = t->epoch;
    }
    printf("race: %u terms, %u overlaps, %u epochs out of order, %u stalls of the machine\n", n,
           overlaps, epochs, n_stalls);
    return overlaps + epochs;
}

int main(int argc, char **argv)
{
    struct options o = {.processes = 6, .terms = 2000, .kills = 6};
    unsigned killed = 0;

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--processes") == 0 && i + 1 < argc)
            o.processes = (unsigned)atoi(argv[++i]);
        else if (strcmp(argv[i], "--terms") == 0 && i + 1 < argc)
            o.terms = (unsigned)atoi(argv[++i]);
        else if (strcmp(argv[i], "--kills") == 0 && i + 1 < argc)
            o.kills = (unsigned)atoi(argv[++i]);
        else if (strcmp(argv[i], "--dir") == 0 && i + 1 < argc)
            o.modules = argv[++i];
        else if (strcmp(argv[i], "--traces") == 0 && i + 1 < argc)
            o.traces = argv[++i];
        else
            o.url = argv[i];
    }
    if (!o.url || o.processes < 2 || o.processes > PROCESSES_MAX || o.terms > TERMS_MAX / 2) {
        fprintf(stderr, "usage: race_elect URL [--processes N] [--terms N] [--kills N]\n");
        return 2;
    }
    board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (board == MAP_FAILED)
        return 2;
    int64_t began = now_ns();
    bool ok = run(&o, &killed);
    unsigned n = atomic_load(&board->terms);
    unsigned bad = judge(n < TERMS_MAX ? n : TERMS_MAX);
    printf("race: %u leaders killed, %.1f s, %s\n", killed, (double)(now_ns() - began) / 1e9,
           ok && !bad ? "fine" : "FAILED");
    return ok && !bad ? 0 : 1;
}
