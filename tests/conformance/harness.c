/* The run: options, handles, the order of the checks, and what is printed. */
#include "harness.h"

#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static const struct cf_check *const tables[] = {
    cf_checks_register, cf_checks_value, cf_checks_list,   cf_checks_wait, cf_checks_batch,
    cf_checks_reads,    cf_checks_purge, cf_checks_handle, cf_checks_race,
};
#define TABLES (sizeof tables / sizeof tables[0])

/* ---- Failing ------------------------------------------------------------- */

void cf_fail(struct cf *c, const char *format, ...)
{
    va_list args;

    if (c->failure[0])
        return;
    va_start(args, format);
    vsnprintf(c->failure, sizeof c->failure, format, args);
    va_end(args);
}

void cf_fail_status(struct cf *c, const char *what, enum tenure_status want,
                    enum tenure_status seen)
{
    bool text = seen != TENURE_OK && c->err.text[0];

    cf_fail(c, "%s: expected '%s', saw '%s'%s%s", what, tenure_status_word(want),
            tenure_status_word(seen), text ? ": " : "", text ? c->err.text : "");
}

void cf_job_fail(struct cf_job *job, const char *format, ...)
{
    va_list args;

    if (!job->failure[0]) {
        va_start(args, format);
        vsnprintf(job->failure, sizeof job->failure, format, args);
        va_end(args);
    }
    atomic_store(&job->shared->stop, 1);
}

void cf_note(struct cf *c, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(c->note, sizeof c->note, format, args);
    va_end(args);
}

/* ---- Hangs --------------------------------------------------------------- */

static char hang_text[200];
static volatile sig_atomic_t hang_fd = 1;

/* A call that never returns breaks C5; nothing can be saved, so the run ends. */
static void on_alarm(int signal_number)
{
    (void)signal_number;
    if (write(hang_fd, hang_text, strlen(hang_text)) < 0)
        _exit(3);
    _exit(1);
}

static void watch_for_hangs(struct cf *c)
{
    fflush(c->out);
    snprintf(hang_text, sizeof hang_text,
             "FAILED   %s: hangs: not done after %u s (C5)\n0 passed, 1 failed\n", c->check->name,
             c->opts.limit_s);
    alarm(c->opts.limit_s);
}

/* ---- Running ------------------------------------------------------------- */

static bool chosen(const struct cf *c, const struct cf_check *check)
{
    return !c->opts.filter || strstr(check->name, c->opts.filter);
}

static const char *skip_reason(const struct cf *c, const struct cf_check *check)
{
    if ((check->needs & CF_TWO) && !c->b)
        return "handles are private";
    if ((check->needs & CF_PRIVATE) && c->b)
        return "handles are not private";
    if ((check->needs & CF_PROCESSES) && !c->info.shared)
        return "the store is not shared between processes";
    if ((check->needs & CF_PROCESSES) && c->opts.no_processes)
        return "no processes wanted";
    return NULL;
}

static bool open_one(struct cf *c, tenure_store **store)
{
    enum tenure_status status = TENURE_OK;

    if (!*store)
        status = tenure_store_open(c->url, cf_deadline(c), store, &c->err);
    if (status)
        cf_fail_status(c, "open", TENURE_OK, status);
    return status == TENURE_OK;
}

/* Both handles stay open between checks: a store in memory lives as long as they do. */
static bool open_handles(struct cf *c)
{
    if (!open_one(c, &c->a))
        return false;
    c->info = *tenure_store_info(c->a);
    if (!c->opts.private_handles && !open_one(c, &c->b))
        return false;
    return true;
}

static void run_check(struct cf *c, const struct cf_check *check)
{
    c->check = check;
    c->number++;
    c->n_keys = 0;
    c->failure[0] = c->note[0] = c->err.text[0] = '\0';
    watch_for_hangs(c);
    if (open_handles(c))
        check->run(c);
    alarm(0);
    tenure_value_free(&c->v);
    tenure_value_free(&c->w);
}

static int run_all(struct cf *c)
{
    unsigned passed = 0, failed = 0, inapplicable = 0;

    for (size_t t = 0; t < TABLES; t++) {
        for (const struct cf_check *check = tables[t]; check->name; check++) {
            if (!chosen(c, check))
                continue;
            const char *reason = skip_reason(c, check);
            if (reason) {
                fprintf(c->out, "n/a      %s (%s)\n", check->name, reason);
                inapplicable++;
                continue;
            }
            run_check(c, check);
            if (c->failure[0])
                fprintf(c->out, "FAILED   %s: %s\n", check->name, c->failure);
            else
                fprintf(c->out, "ok       %s%s%s%s\n", check->name, c->note[0] ? " (" : "", c->note,
                        c->note[0] ? ")" : "");
            *(c->failure[0] ? &failed : &passed) += 1;
        }
    }
    fprintf(c->out, "%u passed, %u failed", passed, failed);
    if (inapplicable)
        fprintf(c->out, ", %u not applicable", inapplicable);
    fprintf(c->out, "\n");
    fflush(c->out);
    return failed || !passed ? 1 : 0;
}

static void print_names(const struct cf *c)
{
    for (size_t t = 0; t < TABLES; t++) {
        for (const struct cf_check *check = tables[t]; check->name; check++) {
            if (chosen(c, check))
                fprintf(c->out, "%s\n", check->name);
        }
    }
}

static void set_defaults(struct cf *c, const struct tenure_conformance_options *opts)
{
    uint8_t nonce[TENURE_NONCE_SIZE];

    if (opts)
        c->opts = *opts;
    c->out = c->opts.out ? c->opts.out : stdout;
    c->opts.processes = c->opts.processes ? c->opts.processes : 8;
    c->opts.rounds = c->opts.rounds ? c->opts.rounds : 2000;
    c->opts.seconds = c->opts.seconds ? c->opts.seconds : 4;
    c->opts.call_ms = c->opts.call_ms ? c->opts.call_ms : 120000;
    c->opts.limit_s = c->opts.limit_s ? c->opts.limit_s : 500;
    cf_nonce(nonce);
    if (c->opts.prefix)
        snprintf(c->base, sizeof c->base, "%s", c->opts.prefix);
    else
        snprintf(c->base, sizeof c->base, "conformance/%02x%02x%02x%02x", nonce[0], nonce[1],
                 nonce[2], nonce[3]);
}

static const char *bad_options(const struct cf *c)
{
    if (c->opts.version && c->opts.version != TENURE_CONFORMANCE_OPTIONS)
        return "the options are of another version";
    if (!tenure_key_valid(c->base) || strlen(c->base) > 64)
        return "the prefix must be a key of at most 64 bytes";
    if (c->opts.processes < 2 || c->opts.processes > CF_JOBS_MAX)
        return "processes must be 2 to 16";
    if (!c->url || strlen(c->url) >= sizeof c->shared->url)
        return "a store URL of at most 2047 bytes is needed";
    return NULL;
}

static enum tenure_status prepare(struct cf *c)
{
    enum tenure_status status = TENURE_OK;
    const char *bad = bad_options(c);

    if (bad)
        return tenure_fail(&c->err, TENURE_INVALID, "%s", bad);
    if (c->opts.module_dir)
        status = tenure_store_module_dir(c->opts.module_dir, &c->err);
    if (!status && c->opts.setup)
        status = c->opts.setup(c->opts.arg, &c->err);
    if (status)
        return status;
    c->shared = mmap(NULL, sizeof *c->shared, PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (c->shared == MAP_FAILED) {
        c->shared = NULL;
        return tenure_fail(&c->err, TENURE_NOMEM, "no shared memory");
    }
    snprintf(c->shared->url, sizeof c->shared->url, "%s", c->url);
    c->crew = cf_crew_new(c->shared);
    if (!c->crew)
        return tenure_fail(&c->err, TENURE_UNAVAILABLE, "cannot fork");
    if (!open_handles(c))
        return c->err.code;
    if (c->opts.private_handles && c->info.shared)
        return tenure_fail(&c->err, TENURE_INVALID, "a shared store has no private handles");
    return TENURE_OK;
}

int tenure_conformance_run(const char *url, const struct tenure_conformance_options *opts)
{
    static const struct cf_check opening = {.name = "open"};
    struct sigaction action = {.sa_handler = on_alarm}, before;
    struct cf c = {.url = url, .check = &opening};
    int result = 2;

    set_defaults(&c, opts);
    if (c.opts.list) {
        print_names(&c);
        return 0;
    }
    hang_fd = fileno(c.out) >= 0 ? fileno(c.out) : 1;
    sigaction(SIGALRM, &action, &before);
    watch_for_hangs(&c);
    if (prepare(&c) == TENURE_OK)
        result = run_all(&c);
    else
        fprintf(c.out, "FAILED   open: %s\n0 passed, 1 failed\n", c.err.text);
    alarm(0);
    sigaction(SIGALRM, &before, NULL);
    tenure_store_close(c.a);
    tenure_store_close(c.b);
    cf_crew_free(c.crew);
    if (c.shared)
        munmap(c.shared, sizeof *c.shared);
    return result;
}
