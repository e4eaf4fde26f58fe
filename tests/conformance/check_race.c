/* Many clients at once: one winner, one history, no lost wake-up. */
#include <stdlib.h>

#include "harness.h"

static const struct tenure_token absent;

/* Writes the first value, whose data are its nonce, as all the jobs here do. */
static bool first_value(struct cf *c, const char *key, struct tenure_token *token)
{
    struct tenure_swap swap = {.key = key, .len = TENURE_NONCE_SIZE};

    cf_nonce(swap.nonce);
    swap.data = swap.nonce;
    enum tenure_status status = cf_swap(c->a, &swap, cf_call_ns(c), &c->err);
    if (status)
        cf_fail_status(c, "create", TENURE_OK, status);
    *token = swap.token;
    return status == TENURE_OK;
}

/* ---- One token, many swaps ------------------------------------------------ */

/* The first job judges a round after everybody has answered. */
static void judge(struct cf_job *job, struct tenure_value *value)
{
    struct cf_shared *s = job->shared;
    unsigned winners = 0, unknown = 0;
    bool found = false;

    if (tenure_store_read(job->store, s->key, value, cf_job_deadline(job), &job->err)) {
        cf_job_fail(job, "read: %s", job->err.text);
        return;
    }
    for (unsigned i = 0; i < job->total; i++) {
        bool mine = memcmp(value->token.nonce, s->answers[i].nonce, TENURE_NONCE_SIZE) == 0;

        winners += s->answers[i].status == TENURE_OK;
        unknown += s->answers[i].status == TENURE_UNKNOWN;
        found = found || (mine && s->answers[i].status == TENURE_OK);
        if (mine && s->answers[i].status == TENURE_CONFLICT)
            cf_job_fail(job, "the swap that took effect was answered 'conflict' (C3)");
    }
    if (winners > 1 || (winners == 0 && unknown == 0))
        cf_job_fail(job, "%u swaps on one token: expected one 'ok', saw %u (C2)", job->total,
                    winners);
    else if (!found && winners == 1)
        cf_job_fail(job, "the value is not the one of the swap that was answered 'ok' (C1)");
    s->token = value->token;
    atomic_fetch_add(&s->count[0], 1);
    atomic_fetch_add(&s->count[1], unknown);
}

static void contest_job(struct cf_job *job)
{
    struct cf_shared *s = job->shared;
    struct tenure_value value = {0};

    for (uint64_t round = 0; round < s->rounds; round++) {
        struct tenure_token token = absent;

        if (!cf_job_meet(job))
            break;
        job->n_ops = 0;
        struct cf_op *op = cf_job_swap(job, &s->token, &token);
        if (!op)
            break;
        s->answers[job->index].status = op->status;
        memcpy(s->answers[job->index].nonce, op->nonce, TENURE_NONCE_SIZE);
        if (!cf_job_meet(job))
            break;
        if (job->index == 0) {
            judge(job, &value);
            if (round >= 20 && tenure_now() > s->until)
                s->rounds = round;
        }
        if (!cf_job_meet(job))
            break;
    }
    tenure_value_free(&value);
}

static void contest(struct cf *c, enum cf_mode mode)
{
    const char *key = cf_key(c, "k");
    struct tenure_token token;

    if (!first_value(c, key, &token))
        return;
    cf_crew_prepare(c, key)->token = token;
    cf_crew_run(c, mode, c->opts.processes, contest_job);
    cf_note(c, "%u at once, %llu rounds, %llu unknown", c->opts.processes,
            (unsigned long long)atomic_load(&c->shared->count[0]),
            (unsigned long long)atomic_load(&c->shared->count[1]));
}

static void contest_threads(struct cf *c)
{
    contest(c, CF_THREADS);
}

static void contest_processes(struct cf *c)
{
    contest(c, CF_FORKED);
}

/* ---- Linearizability ------------------------------------------------------ */

static void linear_job(struct cf_job *job)
{
    struct cf_shared *s = job->shared;
    struct tenure_value value = {0};
    struct tenure_token token;

    while (!atomic_load(&s->stop) && job->n_ops + 2 < CF_OPS_MAX &&
           (job->n_ops < 20 || (tenure_now() < s->until && job->n_ops < 2 * s->rounds))) {
        if (!cf_job_read(job, &value))
            break;
        /* Some only read; some swap on what they read a moment ago. */
        if (cf_random(&job->seed) % 3 == 0)
            continue;
        if (cf_random(&job->seed) % 4 == 0)
            cf_sleep_us(cf_random(&job->seed) % 200);
        if (!cf_job_swap(job, &value.token, &token))
            break;
    }
    tenure_value_free(&value);
}

/* Gathers the operations of all jobs, and a last read of our own. */
static void judge_history(struct cf *c, unsigned jobs, const struct tenure_token *first)
{
    struct cf_shared *s = c->shared;
    struct cf_history seen;
    char why[CF_TEXT];
    size_t n = 0, total = 1;

    for (unsigned i = 0; i < jobs; i++)
        total += s->jobs[i].n_ops;
    struct cf_op *ops = calloc(total, sizeof *ops);
    CF_WANT(c, ops, "out of memory");
    for (unsigned i = 0; i < jobs; i++) {
        memcpy(ops + n, s->ops[i], s->jobs[i].n_ops * sizeof *ops);
        n += s->jobs[i].n_ops;
    }
    ops[n] = (struct cf_op){.kind = CF_OP_READ, .start = tenure_now()};
    ops[n].status = cf_read(c, c->a, s->key);
    ops[n].end = tenure_now();
    memcpy(ops[n].nonce, c->v.token.nonce, TENURE_NONCE_SIZE);
    memcpy(ops[n].before, c->v.prev, TENURE_NONCE_SIZE);
    memcpy(ops[n].version, c->v.token.version, sizeof ops[n].version);
    if (ops[n].status)
        cf_fail_status(c, "read", TENURE_OK, ops[n].status);
    else if (!cf_history_check(ops, total, first->nonce, &seen, why, sizeof why))
        cf_fail(c, "%zu operations: %s", total, why);
    else
        cf_note(c, "%zu reads, %zu swaps, %zu took effect, %zu unknown", seen.reads, seen.swaps,
                seen.applied, seen.unknown);
    free(ops);
}

static void linear(struct cf *c, enum cf_mode mode)
{
    const char *key = cf_key(c, "k");
    struct tenure_token token;

    if (!first_value(c, key, &token))
        return;
    cf_crew_prepare(c, key);
    if (cf_crew_run(c, mode, c->opts.processes, linear_job))
        judge_history(c, c->opts.processes, &token);
}

static void linear_threads(struct cf *c)
{
    linear(c, CF_THREADS);
}

static void linear_processes(struct cf *c)
{
    linear(c, CF_FORKED);
}

/* ---- Death ---------------------------------------------------------------- */

/* Somebody is killed in the middle of a swap: the others go on, and its last
 * swap has happened or not, as any unknown one. */
static void killed_process(struct cf *c)
{
    const char *key = cf_key(c, "k");
    struct tenure_token token;
    uint64_t seed = (uint64_t)tenure_now();
    int64_t until = cf_until(c);
    unsigned kills = 0;

    if (!first_value(c, key, &token))
        return;
    for (; kills < 30 && (kills < 5 || tenure_now() < until) && !c->failure[0]; kills++) {
        struct tenure_swap swap = {.key = key, .len = TENURE_NONCE_SIZE};

        cf_crew_prepare(c, key)->rounds = CF_OPS_MAX;
        if (!cf_crew_start(c, CF_FORKED, 1, linear_job))
            return;
        cf_sleep_us(1000 + cf_random(&seed) % 20000);
        cf_crew_kill(c);
        judge_history(c, 1, &token);
        if (c->failure[0])
            return;
        swap.expect = c->v.token;
        cf_nonce(swap.nonce);
        swap.data = swap.nonce;
        enum tenure_status status = cf_swap(c->a, &swap, cf_call_ns(c), &c->err);
        /* Conflict: the dead one's request was still on its way. */
        if (status == TENURE_CONFLICT)
            status = cf_read(c, c->a, key);
        else
            c->v.token = swap.token;
        CF_STATUS(c, status, TENURE_OK, "swap after another process was killed");
        token = c->v.token;
    }
    cf_note(c, "%u kills", kills);
}

/* ---- Wake-ups ------------------------------------------------------------- */

/* Round i has been answered 'ok', by now at the latest. */
static void written(struct cf_shared *s, uint64_t i)
{
    atomic_store(&s->count[3], (uint64_t)tenure_now());
    atomic_store(&s->count[0], i);
}

/* A wait() that was answered TIMEOUT, for who has to tell why. */
struct timed_out {
    bool is; /* the last one was */
    int64_t began, deadline, ended;
    char text[120];
};

/* More than scheduling: who comes back so much later was stopped, or its machine was. */
#define STOPPED_NS INT64_C(1000000000)

static enum tenure_status wait_once(struct cf_job *job, const struct tenure_watch *watch,
                                    struct timed_out *timed_out)
{
    timed_out->began = tenure_now();
    timed_out->deadline = cf_job_deadline(job);
    enum tenure_status status =
        tenure_store_wait(job->store, watch, 1, -1, timed_out->deadline, &job->err);
    timed_out->ended = tenure_now();
    timed_out->is = status == TENURE_TIMEOUT;
    if (timed_out->is)
        snprintf(timed_out->text, sizeof timed_out->text, "%s", job->err.text);
    return timed_out->is ? TENURE_OK : status;
}

/*
 * wait() reached its deadline, and round i was there before (C6).  The writer cannot be further
 * than i: it waits for the one who asks.  Nothing is said of a waiter that was stopped over its
 * deadline: on a network the news may have come to nobody, and it was not asleep but away.
 */
static bool lost(struct cf_job *job, uint64_t i, const struct timed_out *t)
{
    struct cf_shared *s = job->shared;
    int64_t written = (int64_t)atomic_load(&s->count[3]);

    if (!t->is || atomic_load(&s->count[0]) < i || written >= t->deadline ||
        t->ended - t->deadline > STOPPED_NS)
        return false;
    cf_job_fail(job,
                "lost wake-up: wait() answered '%s' after %lld ms, %lld us after its deadline, "
                "although round %llu had been written %lld us before it (C6)",
                t->text, (long long)(t->ended - t->began) / 1000000,
                (long long)(t->ended - t->deadline) / 1000, (unsigned long long)i,
                (long long)(t->deadline - written) / 1000);
    return true;
}

/* Writes round after round, each at a random moment after the waiter has seen the last. */
static void race_writer(struct cf_job *job)
{
    struct cf_shared *s = job->shared;
    struct tenure_token token = s->token;

    for (uint64_t i = 1; !atomic_load(&s->stop); i++) {
        struct tenure_swap swap = {.key = s->key, .expect = token, .data = &i, .len = sizeof i};

        /* The last write ends the other's wait. */
        bool last = i >= s->rounds || (i > 20 && tenure_now() > s->until);
        if (last)
            atomic_store(&s->count[2], i);
        cf_nonce(swap.nonce);
        if (cf_swap(job->store, &swap, s->call_ns, &job->err)) {
            cf_job_fail(job, "swap: %s", job->err.text);
            return;
        }
        token = swap.token;
        written(s, i);
        if (last)
            return;
        while (atomic_load(&s->count[1]) < i && !atomic_load(&s->stop))
            cf_sleep_us(1);
        int64_t spin = tenure_now() + cf_random(&job->seed) % 100000;
        while (tenure_now() < spin)
            continue;
    }
}

struct last_seen {
    uint64_t round;
    struct tenure_token token;
};

static bool visit_round(void *arg, const char *key, const struct tenure_value *value)
{
    struct last_seen *seen = arg;

    (void)key;
    seen->token = value->token;
    if (value->len == sizeof seen->round)
        memcpy(&seen->round, value->data, sizeof seen->round);
    return true;
}

/* What is there now; for a prefix also the mark to wait with. */
static enum tenure_status look(struct cf_job *job, struct tenure_watch *watch,
                               struct last_seen *seen, struct tenure_value *value)
{
    struct cf_shared *s = job->shared;
    enum tenure_status status;

    if (watch->prefix)
        return tenure_store_list(job->store, s->prefix, NULL, visit_round, seen, watch->mark,
                                 cf_job_deadline(job), &job->err);
    status = tenure_store_read(job->store, s->key, value, cf_job_deadline(job), &job->err);
    if (!status)
        visit_round(seen, s->key, value);
    watch->seen = seen->token;
    return status;
}

static void race_waiter(struct cf_job *job)
{
    struct cf_shared *s = job->shared;
    struct tenure_value value = {0};
    struct last_seen seen = {0};
    struct timed_out timed_out = {0};

    while (!atomic_load(&s->stop)) {
        bool prefix = seen.round % 2;
        struct tenure_watch watch = {.key = prefix ? s->prefix : s->key, .prefix = prefix};
        uint64_t before = seen.round;
        enum tenure_status status = look(job, &watch, &seen, &value);

        if (status) {
            cf_job_fail(job, "read: %s", job->err.text);
            break;
        }
        if (seen.round != before && lost(job, seen.round, &timed_out))
            break;
        uint64_t last = atomic_load(&s->count[2]);
        atomic_store(&s->count[1], seen.round);
        if (last && seen.round >= last)
            break;
        if (wait_once(job, &watch, &timed_out)) {
            cf_job_fail(job, "wait: %s", job->err.text);
            break;
        }
    }
    tenure_value_free(&value);
}

static void race_job(struct cf_job *job)
{
    if (job->index == 0)
        race_writer(job);
    else
        race_waiter(job);
}

static void wait_race(struct cf *c, enum cf_mode mode)
{
    const char *key = cf_key(c, "p/k");
    struct tenure_token token;
    struct cf_shared *s;

    if (!first_value(c, key, &token))
        return;
    s = cf_crew_prepare(c, key);
    s->token = token;
    snprintf(s->prefix, sizeof s->prefix, "%s", cf_key(c, "p/"));
    cf_crew_run(c, mode, 2, race_job);
    cf_note(c, "%llu rounds", (unsigned long long)atomic_load(&s->count[1]));
}

static void wait_race_threads(struct cf *c)
{
    wait_race(c, CF_THREADS);
}

static void wait_race_processes(struct cf *c)
{
    wait_race(c, CF_FORKED);
}

/* ---- Ping-pong ------------------------------------------------------------ */

/* Two jobs write in turn: odd rounds are the first one's, even the other's. */
static void ping_pong_job(struct cf_job *job)
{
    struct cf_shared *s = job->shared;
    struct tenure_value value = {0};
    struct last_seen seen = {0};
    struct timed_out timed_out = {0};

    while (!atomic_load(&s->stop) && seen.round < s->rounds) {
        struct tenure_watch watch = {.key = s->key};
        uint64_t before = seen.round, next;
        enum tenure_status status = look(job, &watch, &seen, &value);

        if (status) {
            cf_job_fail(job, "read: %s", job->err.text);
            break;
        }
        if (seen.round != before && lost(job, seen.round, &timed_out))
            break;
        timed_out.is = false;
        next = seen.round + 1;
        if (seen.round < s->rounds && next % 2 == job->index) {
            struct tenure_swap swap = {.key = s->key, .expect = seen.token, .len = sizeof next};

            if (next > 20 && tenure_now() > s->until)
                next = s->rounds; /* ends both */
            swap.data = &next;
            cf_nonce(swap.nonce);
            if (cf_swap(job->store, &swap, s->call_ns, &job->err)) {
                cf_job_fail(job, "swap in turn: %s", job->err.text);
                break;
            }
            written(s, next);
            atomic_fetch_add(&s->count[1], 1);
            continue;
        }
        if (seen.round >= s->rounds)
            break;
        if (wait_once(job, &watch, &timed_out))
            cf_job_fail(job, "wait: %s", job->err.text);
    }
    tenure_value_free(&value);
}

static void ping_pong(struct cf *c, enum cf_mode mode)
{
    const char *key = cf_key(c, "k");
    struct tenure_token token;
    uint64_t zero = 0;

    CF_STATUS(c, cf_put(c, c->a, key, NULL, &zero, sizeof zero, &token), TENURE_OK, "create");
    cf_crew_prepare(c, key);
    cf_crew_run(c, mode, 2, ping_pong_job);
    cf_note(c, "%llu turns", (unsigned long long)atomic_load(&c->shared->count[1]));
}

static void ping_pong_threads(struct cf *c)
{
    ping_pong(c, CF_THREADS);
}

static void ping_pong_processes(struct cf *c)
{
    ping_pong(c, CF_FORKED);
}

const struct cf_check cf_checks_race[] = {
    {"contest-threads", contest_threads, CF_TWO},
    {"contest-processes", contest_processes, CF_TWO | CF_PROCESSES},
    {"linear-threads", linear_threads, CF_TWO},
    {"linear-processes", linear_processes, CF_TWO | CF_PROCESSES},
    {"killed-process", killed_process, CF_TWO | CF_PROCESSES},
    {"wait-race-threads", wait_race_threads, CF_TWO},
    {"wait-race-processes", wait_race_processes, CF_TWO | CF_PROCESSES},
    {"ping-pong-threads", ping_pong_threads, CF_TWO},
    {"ping-pong-processes", ping_pong_processes, CF_TWO | CF_PROCESSES},
    {NULL, NULL, 0},
};
