/*
 * A crew: jobs that run at once, as threads or as processes.
 *
 * Processes come from a nursery, forked before the first store was opened, when
 * there was one thread: a client library with threads of its own does not
 * survive a fork.  The nursery forks a fresh process for each job.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

enum order { ORDER_FORK, ORDER_REAP, ORDER_KILL };

struct message {
    enum order order;
    unsigned index;
};

struct cf_crew {
    pid_t nursery;
    int fd;
    enum cf_mode mode;
    unsigned total; /* 0: nobody is at work */
    cf_job_fn fn;
    pthread_t threads[CF_JOBS_MAX];
    bool started[CF_JOBS_MAX];
};

/* ---- A job --------------------------------------------------------------- */

static void run_job(struct cf_job *job)
{
    struct cf_shared *s = job->shared;
    enum tenure_status status =
        tenure_store_open(s->url, cf_job_deadline(job), &job->store, &job->err);

    if (status)
        cf_job_fail(job, "cannot open a handle of its own: %s", job->err.text);
    atomic_fetch_add(&s->ready, 1);
    while (!atomic_load(&s->go))
        cf_sleep_us(50);
    if (!status)
        s->fn(job);
    tenure_store_close(job->store);
    job->store = NULL;
}

static void *thread_main(void *arg)
{
    run_job(arg);
    return NULL;
}

/* ---- The nursery --------------------------------------------------------- */

static pid_t fork_job(struct cf_shared *shared, unsigned index, int fd)
{
    pid_t pid = fork();

    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(fd);
    run_job(&shared->jobs[index]);
    _exit(0);
}

static int reap(pid_t pid)
{
    int status = -1;

    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    return status;
}

static _Noreturn void nursery_main(struct cf_shared *shared, int fd)
{
    pid_t pids[CF_JOBS_MAX] = {0};
    struct message m;

    while (recv(fd, &m, sizeof m, 0) == (ssize_t)sizeof m) {
        int answer = 0;

        if (m.order == ORDER_FORK) {
            pids[m.index] = fork_job(shared, m.index, fd);
            answer = pids[m.index] > 0 ? 0 : -1;
        } else {
            if (m.order == ORDER_KILL)
                kill(pids[m.index], SIGKILL);
            answer = reap(pids[m.index]);
        }
        if (send(fd, &answer, sizeof answer, MSG_NOSIGNAL) < 0)
            break;
    }
    _exit(0);
}

struct cf_crew *cf_crew_new(struct cf_shared *shared)
{
    struct cf_crew *crew = calloc(1, sizeof *crew);
    int fds[2];

    if (!crew || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0) {
        free(crew);
        return NULL;
    }
    fflush(NULL);
    crew->nursery = fork();
    if (crew->nursery == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(fds[0]);
        nursery_main(shared, fds[1]);
    }
    close(fds[1]);
    crew->fd = fds[0];
    if (crew->nursery < 0) {
        close(crew->fd);
        free(crew);
        return NULL;
    }
    return crew;
}

void cf_crew_free(struct cf_crew *crew)
{
    if (!crew)
        return;
    close(crew->fd);
    reap(crew->nursery);
    free(crew);
}

/* Sends an order to the nursery; its answer, or -1. */
static int order(struct cf_crew *crew, enum order what, unsigned index)
{
    struct message m = {.order = what, .index = index};
    int answer;

    if (send(crew->fd, &m, sizeof m, MSG_NOSIGNAL) != (ssize_t)sizeof m)
        return -1;
    while (recv(crew->fd, &answer, sizeof answer, 0) != (ssize_t)sizeof answer) {
        if (errno != EINTR)
            return -1;
    }
    return answer;
}

/* ---- A crew at work ------------------------------------------------------ */

struct cf_shared *cf_crew_prepare(struct cf *c, const char *key)
{
    struct cf_shared *s = c->shared;

    atomic_store(&s->ready, 0);
    atomic_store(&s->go, 0);
    atomic_store(&s->stop, 0);
    atomic_store(&s->arrived, 0);
    atomic_store(&s->turn, 0);
    for (size_t i = 0; i < sizeof s->count / sizeof s->count[0]; i++)
        atomic_store(&s->count[i], 0);
    memset(&s->token, 0, sizeof s->token);
    memset(s->answers, 0, sizeof s->answers);
    snprintf(s->key, sizeof s->key, "%s", key);
    snprintf(s->prefix, sizeof s->prefix, "%s", key);
    s->rounds = c->opts.rounds;
    s->call_ns = (int64_t)c->opts.call_ms * 1000000;
    return s;
}

static bool start_one(struct cf *c, unsigned i)
{
    struct cf_crew *crew = c->crew;
    struct cf_job *job = &c->shared->jobs[i];

    memset(job, 0, sizeof *job);
    job->index = i;
    job->total = crew->total;
    job->shared = c->shared;
    job->ops = c->shared->ops[i];
    job->seed = (uint64_t)tenure_now() + i;
    crew->started[i] = crew->mode == CF_THREADS
                           ? pthread_create(&crew->threads[i], NULL, thread_main, job) == 0
                           : order(crew, ORDER_FORK, i) == 0;
    return crew->started[i];
}

bool cf_crew_start(struct cf *c, enum cf_mode mode, unsigned total, cf_job_fn fn)
{
    struct cf_crew *crew = c->crew;
    unsigned started = 0;

    crew->mode = mode;
    crew->total = total;
    c->shared->fn = fn;
    c->shared->until = cf_until(c);
    while (started < total && start_one(c, started))
        started++;
    if (started < total) {
        cf_fail(c, "the system refuses to start %s %u of %u",
                mode == CF_THREADS ? "thread" : "process", started + 1, total);
        atomic_store(&c->shared->stop, 1);
    }
    /* A process that dies before it is ready is noticed by the limit of the check. */
    while (atomic_load(&c->shared->ready) < started)
        cf_sleep_us(50);
    atomic_store(&c->shared->go, 1);
    if (started == total)
        return true;
    cf_crew_wait(c);
    return false;
}

static void finish_one(struct cf *c, unsigned i)
{
    struct cf_crew *crew = c->crew;
    const struct cf_job *job = &c->shared->jobs[i];

    if (!crew->started[i])
        return;
    crew->started[i] = false;
    if (crew->mode == CF_THREADS) {
        pthread_join(crew->threads[i], NULL);
    } else {
        int status = order(crew, ORDER_REAP, i);

        if (status != 0) {
            atomic_store(&c->shared->stop, 1);
            cf_fail(c, "process %u of %u died (%s %d)", i + 1, crew->total,
                    WIFSIGNALED(status) ? "signal" : "status",
                    WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
        }
    }
    if (job->failure[0])
        cf_fail(c, "%s %u of %u: %s", crew->mode == CF_THREADS ? "thread" : "process", i + 1,
                crew->total, job->failure);
}

bool cf_crew_wait(struct cf *c)
{
    for (unsigned i = 0; i < c->crew->total; i++)
        finish_one(c, i);
    c->crew->total = 0;
    return c->failure[0] == '\0';
}

bool cf_crew_kill(struct cf *c)
{
    int status = order(c->crew, ORDER_KILL, 0);

    c->crew->started[0] = false;
    c->crew->total = 0;
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

bool cf_crew_run(struct cf *c, enum cf_mode mode, unsigned total, cf_job_fn fn)
{
    return cf_crew_start(c, mode, total, fn) && cf_crew_wait(c);
}

/* ---- For jobs ------------------------------------------------------------ */

int64_t cf_job_deadline(const struct cf_job *job)
{
    return tenure_now() + job->shared->call_ns;
}

bool cf_job_meet(struct cf_job *job)
{
    struct cf_shared *s = job->shared;
    unsigned turn = atomic_load(&s->turn);

    if (atomic_fetch_add(&s->arrived, 1) + 1 == job->total) {
        atomic_store(&s->arrived, 0);
        atomic_fetch_add(&s->turn, 1);
    }
    for (unsigned spins = 0; atomic_load(&s->turn) == turn; spins++) {
        if (atomic_load(&s->stop))
            return false;
        if (spins < 50)
            sched_yield();
        else
            cf_sleep_us(50);
    }
    return true;
}

/*
 * What is recorded so far is in the shared memory before what follows: a killed
 * process leaves an operation that is whole up to the line it had reached.
 */
static void so_far(void)
{
    atomic_signal_fence(memory_order_seq_cst);
}

static struct cf_op *record(struct cf_job *job, enum cf_op_kind kind)
{
    if (job->n_ops == CF_OPS_MAX)
        return NULL;
    struct cf_op *op = &job->ops[job->n_ops];

    /* Unknown until it is answered: this process may be killed before. */
    *op = (struct cf_op){.kind = kind, .status = TENURE_UNKNOWN};
    op->start = tenure_now();
    return op;
}

struct cf_op *cf_job_read(struct cf_job *job, struct tenure_value *value)
{
    struct cf_op *op = record(job, CF_OP_READ);

    if (!op)
        return NULL;
    op->status =
        tenure_store_read(job->store, job->shared->key, value, cf_job_deadline(job), &job->err);
    op->end = tenure_now();
    if (op->status) {
        cf_job_fail(job, "read: expected 'ok', saw '%s': %s", tenure_status_word(op->status),
                    job->err.text);
        return NULL;
    }
    /* A history begins with a first value: from then on it is never absent. */
    if (tenure_token_absent(&value->token)) {
        cf_job_fail(job, "a read tells as absent what has been written (C1)");
        return NULL;
    }
    if (!value->tombstone && (value->len != TENURE_NONCE_SIZE ||
                              memcmp(value->data, value->token.nonce, TENURE_NONCE_SIZE) != 0)) {
        cf_job_fail(job, "torn: the data of a read are not those of its token");
        return NULL;
    }
    memcpy(op->nonce, value->token.nonce, TENURE_NONCE_SIZE);
    memcpy(op->before, value->prev, TENURE_NONCE_SIZE);
    memcpy(op->version, value->token.version, sizeof op->version);
    so_far();
    job->n_ops++;
    return op;
}

struct cf_op *cf_job_swap(struct cf_job *job, const struct tenure_token *expect,
                          struct tenure_token *token)
{
    struct tenure_swap swap = {.key = job->shared->key, .expect = *expect};
    struct cf_op *op = record(job, CF_OP_SWAP);

    if (!op)
        return NULL;
    cf_nonce(swap.nonce);
    swap.data = swap.nonce;
    swap.len = TENURE_NONCE_SIZE;
    memcpy(op->nonce, swap.nonce, TENURE_NONCE_SIZE);
    memcpy(op->before, expect->nonce, TENURE_NONCE_SIZE);
    so_far();
    job->n_ops++;
    so_far();
    enum tenure_status status =
        tenure_store_swap(job->store, &swap, cf_job_deadline(job), &job->err);
    op->end = tenure_now();
    if (status == TENURE_OK) {
        memcpy(op->version, swap.token.version, sizeof op->version);
        *token = swap.token;
    }
    so_far();
    op->status = status; /* last: it says that the rest is there */
    if (status != TENURE_OK && status != TENURE_CONFLICT && status != TENURE_UNKNOWN) {
        cf_job_fail(job, "swap: expected 'ok', 'conflict' or 'unknown', saw '%s': %s",
                    tenure_status_word(status), job->err.text);
        return NULL;
    }
    return op;
}
