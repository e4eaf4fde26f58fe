#include "campaign.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "board.h"

static volatile sig_atomic_t stopped;

static void stop(int sig)
{
    (void)sig;
    stopped = 1;
}

static double seconds_now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* ---- Workers ------------------------------------------------------------- */

static void note(struct sim_board *b, const struct sim_world *w, const struct sim_history *h)
{
    struct sim_tally *t = &b->tally[h->lasting];

    atomic_fetch_add(&t->histories, 1);
    atomic_fetch_add(&t->steps, w->counts.steps);
    atomic_fetch_add(&t->events, w->counts.events);
    atomic_fetch_add(&t->faults, w->counts.faults);
    atomic_fetch_add(&t->starts, w->counts.starts);
    atomic_fetch_add(&t->stated, w->plan.product);
    atomic_fetch_add(&t->commits, w->plan.product ? w->counts.commits : 0);
    atomic_fetch_add(&t->sim_ms, (uint64_t)(w->now_ns / TN_MS));
    unsigned worst = atomic_load(&b->worst_permille);
    while (w->counts.bound_permille > worst &&
           !atomic_compare_exchange_weak(&b->worst_permille, &worst, w->counts.bound_permille))
        continue;
    if (!w->failed)
        return;
    struct sim_found found = {.seed = h->seed, .lasting = h->lasting};
    snprintf(found.model, sizeof found.model, "%s", w->plan.family->name);
    snprintf(found.invariant, sizeof found.invariant, "%s", w->invariant);
    snprintf(found.why, sizeof found.why, "%s", w->why);
    sim_board_found(b, &found);
}

/* Which history is next?  Long ones come last; in a soak they come in between. */
static bool next(struct sim_board *b, const struct sim_campaign *c, struct sim_history *h)
{
    uint64_t tried = atomic_load(&b->next[0]) - c->from;

    h->lasting = c->soak && atomic_load(&b->next[1]) * SIM_SOAK_RATIO < tried;
    if (!h->lasting && tried < c->hostile) {
        h->seed = atomic_fetch_add(&b->next[0], 1);
        if (h->seed - c->from < c->hostile)
            return true;
    }
    h->lasting = true;
    h->seed = atomic_fetch_add(&b->next[1], 1);
    return h->seed < c->lasting;
}

static void work(struct sim_board *b, const struct sim_campaign *c, unsigned self)
{
    static struct sim_world w;
    static struct sim_history h;
    struct timespec before, after;

    h.model = c->model;
    h.ignore = c->ignore;
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    while (!atomic_load(&b->stop) && next(b, c, &h)) {
        b->at[self].seed = h.seed;
        b->at[self].lasting = h.lasting;
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
        sim_history_live(&w, &h, NULL, false);
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
        atomic_fetch_add(
            &b->tally[h.lasting].cpu_ns,
            (uint64_t)((after.tv_sec - before.tv_sec) * TN_S + after.tv_nsec - before.tv_nsec));
        note(b, &w, &h);
        if (w.failed && c->first)
            atomic_store(&b->stop, true);
    }
    _exit(0);
}

static bool spawn(struct sim_board *b, const struct sim_campaign *c, unsigned self)
{
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0)
        work(b, c, self);
    b->pid[self] = pid; /* the board is shared: only the parent may write this */
    return pid > 0;
}

/* A worker ended.  By an assertion or a crash: that is a violation, too. */
static bool reap(struct sim_board *b, const struct sim_campaign *c, unsigned self, int status)
{
    struct sim_found *at = &b->at[self];

    b->pid[self] = 0;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return true;
    snprintf(at->invariant, sizeof at->invariant, "crash");
    snprintf(at->model, sizeof at->model, "%s", c->model ? c->model->name : "by-seed");
    snprintf(at->why, sizeof at->why, "the process ended by signal %d (an assertion?)",
             WIFSIGNALED(status) ? WTERMSIG(status) : 0);
    sim_board_found(b, at);
    if (c->first)
        atomic_store(&b->stop, true);
    return atomic_load(&b->stop) || spawn(b, c, self);
}

static unsigned reap_all(struct sim_board *b, const struct sim_campaign *c)
{
    unsigned left = 0;
    int status;

    for (unsigned i = 0; i < c->jobs; i++) {
        if (b->pid[i] > 0 && waitpid(b->pid[i], &status, WNOHANG) > 0)
            reap(b, c, i, status);
        left += b->pid[i] > 0;
    }
    return left;
}

static void end_all(struct sim_board *b, const struct sim_campaign *c)
{
    for (unsigned i = 0; i < c->jobs; i++) {
        if (b->pid[i] > 0)
            kill(b->pid[i], SIGKILL);
    }
}

/* ---- The campaign -------------------------------------------------------- */

static void watch_over(struct sim_board *b, const struct sim_campaign *c, double began)
{
    double told = 0, saved = began, ending = 0;

    while (reap_all(b, c) > 0) {
        double now = seconds_now();

        if (stopped || (c->seconds > 0 && now - began >= c->seconds))
            atomic_store(&b->stop, true);
        if (atomic_load(&b->stop) && ending == 0)
            ending = now;
        if (ending > 0 && now - ending > 30)
            end_all(b, c); /* a history that does not end */
        if (c->progress && now - told >= 0.5) {
            sim_board_progress(b, now - began);
            told = now;
        }
        if (c->soak && now - saved >= 5) {
            sim_board_save(b, c->soak);
            saved = now;
        }
        usleep(20000);
    }
    if (c->progress)
        sim_board_progress(b, seconds_now() - began);
    if (c->progress)
        fputc('\n', stderr);
}

int sim_campaign_run(const struct sim_campaign *c)
{
    struct sim_board *b =
        mmap(NULL, sizeof *b, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    char err[400];
    int code = 2;

    if (b == MAP_FAILED) {
        fprintf(stderr, "tenure-sim: out of memory: %s\n", strerror(errno));
        return 2;
    }
    atomic_store(&b->next[0], c->from);
    if (c->soak && !sim_board_load(b, c->soak, err, sizeof err)) {
        fprintf(stderr, "tenure-sim: %s\n", err);
        goto done;
    }
    signal(SIGINT, stop);
    signal(SIGTERM, stop);
    double began = seconds_now();
    for (unsigned i = 0; i < c->jobs; i++) {
        if (!spawn(b, c, i)) {
            fprintf(stderr, "tenure-sim: cannot start a process: %s\n", strerror(errno));
            atomic_store(&b->stop, true);
        }
    }
    watch_over(b, c, began);
    if (c->soak)
        sim_board_save(b, c->soak);
    sim_board_report(b, c, seconds_now() - began);
    code = atomic_load(&b->n_found) ? 1 : 0;
done:
    munmap(b, sizeof *b);
    return code;
}
