/* Waiting: at once, on a change, until the deadline, until woken. */
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "harness.h"

static const struct tenure_token absent;

/* ---- One handle ---------------------------------------------------------- */

static void wait_already(struct cf *c)
{
    const char *key = cf_key(c, "k");
    struct tenure_token one, two, wrong;

    CF_STATUS(c, cf_put(c, c->a, key, NULL, "1", 1, &one), TENURE_OK, "create");
    CF_STATUS(c, cf_wait(c, key, &absent, -1, cf_deadline(c)), TENURE_OK,
              "wait for a change since it was absent");
    CF_STATUS(c, cf_put(c, c->a, key, &one, "2", 1, &two), TENURE_OK, "swap");
    CF_STATUS(c, cf_wait(c, key, &one, -1, cf_deadline(c)), TENURE_OK,
              "wait with a token that is stale already");
    wrong = two;
    wrong.nonce[0] ^= 1;
    CF_STATUS(c, cf_wait(c, key, &wrong, -1, cf_deadline(c)), TENURE_OK,
              "wait with the right version and another nonce");
    CF_STATUS(c, cf_wait(c, cf_key(c, "never"), &two, -1, cf_deadline(c)), TENURE_OK,
              "wait with a token on an absent register");
}

/* A return without a change is allowed, but not for ever: then nobody could sleep. */
static void wait_quiet(struct cf *c)
{
    const char *key = cf_key(c, "k");
    struct tenure_token token;

    CF_STATUS(c, cf_put(c, c->a, key, NULL, "1", 1, &token), TENURE_OK, "create");
    for (unsigned part = 0; part < 2; part++) {
        enum tenure_status status = TENURE_OK;
        int64_t deadline = 0;

        for (unsigned tries = 0; tries < 100 && status == TENURE_OK; tries++) {
            deadline = cf_after_ms(30);
            status = part == 0 ? cf_wait(c, key, &token, -1, deadline)
                               : cf_wait(c, cf_key(c, "never"), &absent, -1, deadline);
        }
        CF_STATUS(c, status, TENURE_TIMEOUT, "wait on a register that does not change");
        CF_WANT(c, tenure_now() >= deadline, "'timeout' before the deadline");
    }
}

struct marked {
    unsigned n;
    unsigned stop_after;
};

static bool visit(void *arg, const char *key, const struct tenure_value *value)
{
    struct marked *m = arg;

    (void)key;
    (void)value;
    return ++m->n != m->stop_after;
}

static enum tenure_status list_mark(struct cf *c, const char *prefix, unsigned stop_after,
                                    struct tenure_watch *watch)
{
    struct marked m = {.stop_after = stop_after};

    *watch = (struct tenure_watch){.key = prefix, .prefix = true};
    return tenure_store_list(c->a, prefix, NULL, visit, &m, watch->mark, cf_deadline(c), &c->err);
}

static void wait_prefix_quiet(struct cf *c)
{
    const char *prefix = cf_key(c, "p/");
    enum tenure_status status = TENURE_OK;
    struct tenure_watch watch;

    for (unsigned empty = 0; empty < 2; empty++) {
        status = TENURE_OK;
        for (unsigned tries = 0; tries < 100 && status == TENURE_OK; tries++) {
            CF_STATUS(c, list_mark(c, prefix, 0, &watch), TENURE_OK, "list");
            status = tenure_store_wait(c->a, &watch, 1, -1, cf_after_ms(30), &c->err);
        }
        CF_STATUS(c, status, TENURE_TIMEOUT,
                  empty ? "wait on a prefix where nothing changes" : "wait on an empty prefix");
        if (!empty)
            CF_STATUS(c, cf_put(c, c->a, cf_key(c, "p/a"), NULL, "1", 1, NULL), TENURE_OK,
                      "create");
    }
}

/* After list() every kind of change under the prefix ends a wait at once. */
static void wait_prefix_already(struct cf *c)
{
    const char *prefix = cf_key(c, "p/");
    const char *key = cf_key(c, "p/a/b");
    struct tenure_token token = absent;
    struct tenure_watch watch;

    for (unsigned part = 0; part < 4; part++) {
        static const char *const what[] = {"a create", "a swap", "an erase", "a re-creation"};

        CF_STATUS(c, list_mark(c, prefix, part == 1 ? 1 : 0, &watch), TENURE_OK, "list");
        if (part == 2)
            CF_STATUS(c, cf_erase(c, c->a, key, &token, &token), TENURE_OK, "erase");
        else
            CF_STATUS(c, cf_put(c, c->a, key, &token, "1", 1, &token), TENURE_OK, "swap");
        CF_STATUS(c, tenure_store_wait(c->a, &watch, 1, -1, cf_deadline(c), &c->err), TENURE_OK,
                  what[part]);
    }
}

static void wait_woken(struct cf *c)
{
    const char *key = cf_key(c, "k");
    struct tenure_token token;
    enum tenure_status status = TENURE_OK;
    struct pollfd ready;
    int fds[2];

    CF_STATUS(c, cf_put(c, c->a, key, NULL, "1", 1, &token), TENURE_OK, "create");
    CF_WANT(c, pipe(fds) == 0, "no pipe");
    if (write(fds[1], "x", 1) != 1)
        cf_fail(c, "cannot write to a pipe");
    for (unsigned tries = 0; tries < 100 && status == TENURE_OK; tries++)
        status = cf_wait(c, key, &token, fds[0], cf_deadline(c));
    ready = (struct pollfd){.fd = fds[0], .events = POLLIN};
    int left = poll(&ready, 1, 0);
    close(fds[0]);
    close(fds[1]);
    CF_STATUS(c, status, TENURE_CANCELLED, "wait while wake_fd is readable");
    CF_WANT(c, left == 1, "wait() drained wake_fd");
}

static int wake_pipe[2];

static void wake_job(struct cf_job *job)
{
    cf_sleep_us(20000);
    if (write(wake_pipe[1], "x", 1) != 1)
        cf_job_fail(job, "cannot write to a pipe");
}

static void wait_woken_later(struct cf *c)
{
    const char *key = cf_key(c, "k");
    enum tenure_status status = TENURE_OK;

    CF_WANT(c, pipe(wake_pipe) == 0, "no pipe");
    cf_crew_prepare(c, key);
    if (cf_crew_start(c, CF_THREADS, 1, wake_job)) {
        for (unsigned tries = 0; tries < 100 && status == TENURE_OK; tries++)
            status = cf_wait(c, key, &absent, wake_pipe[0], cf_deadline(c));
        cf_crew_wait(c);
    }
    close(wake_pipe[0]);
    close(wake_pipe[1]);
    CF_STATUS(c, status, TENURE_CANCELLED, "wait until wake_fd becomes readable");
}

static void wait_limits(struct cf *c)
{
    struct tenure_watch watches[TENURE_WATCH_MAX + 1];

    for (unsigned i = 0; i <= TENURE_WATCH_MAX; i++)
        watches[i] = cf_watch(cf_key(c, "k%u", i), &absent);
    CF_STATUS(c,
              tenure_store_wait(c->a, watches, TENURE_WATCH_MAX + 1, -1, cf_deadline(c), &c->err),
              TENURE_INVALID, "more watches than allowed");
    watches[0] = (struct tenure_watch){.key = "a//", .prefix = true};
    CF_STATUS(c, tenure_store_wait(c->a, watches, 1, -1, cf_deadline(c), &c->err), TENURE_INVALID,
              "a watch on a bad prefix");
}

/* ---- Two handles --------------------------------------------------------- */

/* Swaps the shared key, after a while, so that the other side sleeps by then. */
static void change_job(struct cf_job *job)
{
    struct cf_shared *s = job->shared;
    struct tenure_swap swap = {.key = s->key, .expect = s->token};

    cf_sleep_us(20000);
    cf_nonce(swap.nonce);
    swap.tombstone = s->rounds == 1;
    swap.data = swap.nonce;
    swap.len = swap.tombstone ? 0 : sizeof swap.nonce;
    if (s->rounds == 2) {
        enum tenure_status status =
            tenure_store_swap_many(job->store, &swap, 1, cf_job_deadline(job), &job->err);

        if (status && status != TENURE_UNKNOWN)
            cf_job_fail(job, "swap_many: %s", job->err.text);
        else if (cf_settle(job->store, &swap, s->call_ns, &job->err))
            cf_job_fail(job, "swap_many: '%s'", tenure_status_word(swap.status));
    } else if (cf_swap(job->store, &swap, s->call_ns, &job->err)) {
        cf_job_fail(job, "swap: %s", job->err.text);
    }
    s->token = swap.token;
    /* Only now is the change certain to be there. */
    atomic_store(&s->count[0], 1);
}

/*
 * Waits until the change of change_job() shows.  Reaching the deadline although
 * the change is there is a lost wake-up (C6).
 */
static void until_changed(struct cf *c, enum cf_mode mode, const char *key,
                          const struct tenure_token *seen, struct tenure_watch *watches, size_t n)
{
    struct cf_shared *s = c->shared;
    enum tenure_status status = TENURE_OK;

    snprintf(s->key, sizeof s->key, "%s", key);
    s->token = *seen;
    atomic_store(&s->count[0], 0);
    atomic_store(&s->ready, 0);
    atomic_store(&s->go, 0);
    if (!cf_crew_start(c, mode, 1, change_job))
        return;
    c->v.token = *seen;
    while (!c->failure[0] && tenure_token_equal(&c->v.token, seen)) {
        status = tenure_store_wait(c->a, watches, n, -1, cf_deadline(c), &c->err);
        if (status)
            cf_fail_status(c, "wait for a change by somebody else", TENURE_OK, status);
        status = cf_read(c, c->a, key);
        if (status)
            cf_fail_status(c, "read", TENURE_OK, status);
    }
    if (cf_crew_wait(c) && !tenure_token_equal(&c->v.token, &s->token))
        cf_fail(c, "the value read after wait() is not the one written");
}

static void wait_changes(struct cf *c, enum cf_mode mode)
{
    const char *key = cf_key(c, "k");
    struct tenure_token seen = absent;

    cf_crew_prepare(c, key);
    /* A create, a swap, an erase, a batch. */
    for (unsigned part = 0; part < 4 && !c->failure[0]; part++) {
        struct tenure_watch watch = cf_watch(key, &seen);

        c->shared->rounds = part == 2 ? 1 : part == 3 ? 2 : 0;
        until_changed(c, mode, key, &seen, &watch, 1);
        seen = c->v.token;
    }
}

static void wait_other_handle(struct cf *c)
{
    wait_changes(c, CF_THREADS);
}

static void wait_other_process(struct cf *c)
{
    wait_changes(c, CF_FORKED);
}

static void wait_several(struct cf *c)
{
    struct tenure_watch watches[TENURE_WATCH_MAX];
    struct tenure_token tokens[TENURE_WATCH_MAX];

    for (unsigned i = 0; i < TENURE_WATCH_MAX; i++) {
        CF_STATUS(c, cf_put(c, c->a, cf_key(c, "k%u", i), NULL, "1", 1, &tokens[i]), TENURE_OK,
                  "create");
    }
    cf_crew_prepare(c, "x");
    c->shared->rounds = 0;
    for (unsigned i = 0; i < TENURE_WATCH_MAX && !c->failure[0]; i++) {
        for (unsigned k = 0; k < TENURE_WATCH_MAX; k++)
            watches[k] = cf_watch(cf_key(c, "k%u", k), &tokens[k]);
        until_changed(c, CF_THREADS, watches[i].key, &tokens[i], watches, TENURE_WATCH_MAX);
        tokens[i] = c->v.token;
    }
}

static void wait_prefix(struct cf *c)
{
    const char *prefix = cf_key(c, "p/");
    struct tenure_watch watches[2];
    struct tenure_token seen = absent;

    cf_crew_prepare(c, "x");
    for (unsigned i = 0; i < 6 && !c->failure[0]; i++) {
        const char *key = i < 3 ? cf_key(c, "p/a") : cf_key(c, "p/deep/er/%u", i);

        c->shared->rounds = i == 2;
        if (i >= 3)
            seen = absent;
        /* Together with a register that does not change. */
        CF_STATUS(c, list_mark(c, prefix, 0, &watches[0]), TENURE_OK, "list");
        watches[1] = cf_watch(cf_key(c, "never"), &absent);
        until_changed(c, CF_THREADS, key, &seen, watches, 2);
        seen = c->v.token;
    }
}

const struct cf_check cf_checks_wait[] = {
    {"wait-already", wait_already, 0},
    {"wait-quiet", wait_quiet, 0},
    {"wait-prefix-quiet", wait_prefix_quiet, 0},
    {"wait-prefix-already", wait_prefix_already, 0},
    {"wait-woken", wait_woken, 0},
    {"wait-woken-later", wait_woken_later, 0},
    {"wait-limits", wait_limits, 0},
    {"wait-other-handle", wait_other_handle, CF_TWO},
    {"wait-other-process", wait_other_process, CF_TWO | CF_PROCESSES},
    {"wait-several", wait_several, CF_TWO},
    {"wait-prefix", wait_prefix, CF_TWO},
    {NULL, NULL, 0},
};
