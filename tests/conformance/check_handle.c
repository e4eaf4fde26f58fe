/* Handles: they see each other, they close cleanly, and data outlive them. */
#include <dirent.h>
#include <stdlib.h>

#include "harness.h"

static void two_handles(struct cf *c)
{
    const char *key = cf_key(c, "k");
    struct tenure_token token;

    CF_STATUS(c, cf_put(c, c->a, key, NULL, "a", 1, &token), TENURE_OK, "create");
    for (unsigned i = 0; i < 50; i++) {
        tenure_store *writer = i % 2 ? c->a : c->b, *reader = i % 2 ? c->b : c->a;

        CF_STATUS(c, cf_put(c, writer, key, &token, &i, sizeof i, &token), TENURE_OK,
                  "swap on a token that the other handle got");
        CF_STATUS(c, cf_read(c, reader, key), TENURE_OK, "read");
        if (!cf_value_is(c, "a swap of the other handle (C1)", &token, &i, sizeof i, false))
            return;
    }
}

static void private_handle(struct cf *c)
{
    const char *key = cf_key(c, "k");
    tenure_store *other = NULL;

    CF_STATUS(c, cf_put(c, c->a, key, NULL, "a", 1, NULL), TENURE_OK, "create");
    CF_STATUS(c, tenure_store_open(c->url, cf_deadline(c), &other, &c->err), TENURE_OK, "open");
    enum tenure_status status = cf_read(c, other, key);
    tenure_store_close(other);
    CF_STATUS(c, status, TENURE_OK, "read");
    CF_WANT(c, tenure_token_absent(&c->v.token), "a handle that is private sees the other's data");
}

static int open_descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int n = 0;

    while (dir && readdir(dir))
        n++;
    if (dir)
        closedir(dir);
    return n;
}

static void open_close(struct cf *c)
{
    const char *key = cf_key(c, "k");
    int before = 0;

    tenure_store_close(NULL);
    for (unsigned i = 0; i < 30; i++) {
        tenure_store *store = NULL;
        struct tenure_store_info info;

        CF_STATUS(c, tenure_store_open(c->url, cf_deadline(c), &store, &c->err), TENURE_OK, "open");
        info = *tenure_store_info(store);
        enum tenure_status status = cf_read(c, store, key);
        /* A wait leaves watches and timers behind, which close() must end. */
        struct tenure_watch watch = cf_watch(key, &c->v.token);
        if (!status)
            tenure_store_wait(store, &watch, 1, -1, cf_after_ms(1), &c->err);
        tenure_store_close(store);
        CF_STATUS(c, status, TENURE_OK, "read on a fresh handle");
        CF_WANT(c, info.shared == c->info.shared && info.data_max == c->info.data_max,
                "two handles differ in their info");
        if (i == 9)
            before = open_descriptors();
    }
    int after = open_descriptors();
    CF_WANT(c, after < before + 20, "20 handles left %d descriptors open", after - before);
}

static void open_deadline_past(struct cf *c)
{
    tenure_store *const untouched = (tenure_store *)&c->err;
    tenure_store *store = untouched;
    enum tenure_status status = tenure_store_open(c->url, 1, &store, &c->err);

    if (status == TENURE_OK) {
        tenure_store_close(store);
        return;
    }
    CF_WANT(c, status == TENURE_TIMEOUT || status == TENURE_UNAVAILABLE,
            "open after its deadline: expected 'timeout' or 'ok', saw '%s': %s",
            tenure_status_word(status), c->err.text);
    CF_WANT(c, store == untouched, "a failed open changed the handle");
}

static void reopen(struct cf *c)
{
    const char *key = cf_key(c, "k");
    const char *gone = cf_key(c, "gone");
    struct tenure_token token, dead;

    CF_STATUS(c, cf_put(c, c->a, key, NULL, "stays", 5, &token), TENURE_OK, "create");
    CF_STATUS(c, cf_erase(c, c->a, gone, NULL, &dead), TENURE_OK, "erase");
    tenure_store_close(c->a);
    tenure_store_close(c->b);
    c->a = c->b = NULL;
    CF_STATUS(c, tenure_store_open(c->url, cf_deadline(c), &c->a, &c->err), TENURE_OK, "open");
    CF_STATUS(c, tenure_store_open(c->url, cf_deadline(c), &c->b, &c->err), TENURE_OK, "open");
    CF_STATUS(c, cf_read(c, c->a, key), TENURE_OK, "read after all handles were closed");
    if (!cf_value_is(c, "after all handles were closed", &token, "stays", 5, false))
        return;
    CF_STATUS(c, cf_read(c, c->b, gone), TENURE_OK, "read");
    if (!cf_value_is(c, "after all handles were closed", &dead, NULL, 0, true))
        return;
    CF_STATUS(c, cf_put(c, c->b, key, &token, "on", 2, NULL), TENURE_OK, "swap after reopening");
}

static void read_job(struct cf_job *job)
{
    struct tenure_value value = {0};
    struct cf_op *op = cf_job_read(job, &value);
    struct tenure_swap swap = {.key = job->shared->key, .len = TENURE_NONCE_SIZE};

    cf_nonce(swap.nonce);
    swap.data = swap.nonce;
    swap.expect = value.token;
    if (op && !tenure_token_equal(&value.token, &job->shared->token))
        cf_job_fail(job, "expected version '%s', saw '%s'", job->shared->token.version,
                    value.token.version);
    else if (op && cf_swap(job->store, &swap, job->shared->call_ns, &job->err) != TENURE_OK)
        cf_job_fail(job, "swap: expected 'ok', saw '%s': %s", tenure_status_word(swap.status),
                    job->err.text);
    else
        job->shared->token = swap.token;
    tenure_value_free(&value);
}

static void two_processes(struct cf *c)
{
    const char *key = cf_key(c, "k");
    struct tenure_swap swap = {.key = key, .len = TENURE_NONCE_SIZE};

    cf_nonce(swap.nonce);
    swap.data = swap.nonce;
    CF_STATUS(c, cf_swap(c->a, &swap, cf_call_ns(c), &c->err), TENURE_OK, "create");
    for (unsigned i = 0; i < 5; i++) {
        cf_crew_prepare(c, key)->token = swap.token;
        if (!cf_crew_run(c, CF_FORKED, 1, read_job))
            return;
        CF_STATUS(c, cf_read(c, c->a, key), TENURE_OK, "read");
        CF_WANT(c, tenure_token_equal(&c->v.token, &c->shared->token),
                "a swap by another process is not seen (C1)");
        swap.token = c->v.token;
    }
}

const struct cf_check cf_checks_handle[] = {
    {"private-handle", private_handle, CF_PRIVATE},
    {"two-handles", two_handles, CF_TWO},
    {"two-processes", two_processes, CF_TWO | CF_PROCESSES},
    {"open-close", open_close, 0},
    {"open-deadline-past", open_deadline_past, 0},
    {"reopen", reopen, CF_TWO | CF_PROCESSES},
    {NULL, NULL, 0},
};
