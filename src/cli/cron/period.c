#include "cli/cron/period.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/duration.h"
#include "os/clock.h"
#include "tenure/lease.h"

/* By how much clocks may differ without a word. */
#define SKEW_S  60
/* How often a record is read that the holder of the lock may be about to write. */
#define LOOK_NS 100000000

/* ---- Options ------------------------------------------------------------- */

int cli_period_choose(const struct cli_period *p, const char *option, const char *const *words)
{
    char list[128] = "";

    for (int i = 0; words[i]; i++) {
        if (strcmp(words[i], optarg) == 0)
            return i;
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", words[i]);
    }
    exit(cli_misuse(p->command.verb, "%s '%.40s': give one of %s", option, optarg, list));
}

void cli_period_take(struct cli_period *p, int opt)
{
    static const char *const retries[] = {"never", "lost", "failed", NULL};

    if (opt == CLI_PERIOD_RETRY) {
        p->retry = (enum tn_retry)cli_period_choose(p, "--retry", retries);
    } else {
        p->waits = true;
        p->wait_ns = cli_duration(p->command.verb, "--wait", optarg);
    }
}

/* ---- The record ---------------------------------------------------------- */

static int64_t limit(const struct cli_period *p)
{
    return tenure_now() + p->command.common.timeout_ns;
}

/* Under a grant this seals it.  Nothing there: state NONE. */
static enum tenure_status load(struct cli_period *p, tenure_state *state,
                               struct tn_period_record *last, struct tenure_error *err)
{
    struct tenure_document d = {0};
    enum tenure_status status = tenure_state_load(state, p->collection, p->id, &d, limit(p), err);

    memset(last, 0, sizeof *last);
    if (!status && d.exists)
        status = tn_period_record_decode(d.value.data, d.value.len, last, err);
    tenure_document_free(&d);
    return status;
}

/* State NONE: there is none any more. */
static enum tenure_status commit(struct cli_period *p, const struct tn_period_record *record,
                                 int64_t deadline, struct tenure_error *err)
{
    size_t len;
    char *text = tn_period_record_encode(record, &len);
    struct tenure_commit c = {.collection = p->collection,
                              .id = p->id,
                              .data = text,
                              .len = len,
                              .remove = record->state == TN_PERIOD_NONE};

    if (!text)
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    enum tenure_status status = tenure_state_commit(p->state, &c, 1, deadline, err);
    free(text);
    return status;
}

/* ---- Under the lock ------------------------------------------------------ */

static void describe(struct cli_period *p, const struct tn_plan *plan,
                     const struct tn_period_record *last, uint64_t epoch)
{
    struct tn_period_record *r = &p->record;
    bool again = strcmp(last->period, r->period) == 0;

    r->state = plan->kind == TN_PLAN_RUN ? TN_PERIOD_RUNNING : plan->state;
    r->tries = plan->kind == TN_PLAN_RUN ? (again ? last->tries : 0) + 1 : 0;
    r->epoch = epoch;
    r->started_ms = plan->kind == TN_PLAN_RUN ? tn_wall_ms() : 0;
    gethostname(r->by, sizeof r->by - 1);
    snprintf(r->schedule, sizeof r->schedule, "%s", p->schedule);
    snprintf(p->variable, sizeof p->variable, "TENURE_PERIOD=%s", r->period);
}

/* One try.  A record of our own last try, whose answer was lost, is not somebody else's run. */
static enum tenure_status begin_with(struct cli_period *p, const struct tenure_grant *grant,
                                     bool *wanted, struct tenure_error *err)
{
    struct tn_period_record last;
    enum tenure_status status = load(p, p->state, &last, err);

    if (status)
        return status;
    if (p->epoch && last.epoch == p->epoch)
        last = p->before;
    memset(&p->record, 0, sizeof p->record);
    struct tn_plan plan = p->plan(p, &last, &p->record);
    *wanted = plan.kind == TN_PLAN_RUN;
    if (plan.kind == TN_PLAN_NOTHING)
        return TENURE_OK;
    describe(p, &plan, &last, grant->epoch);
    p->before = last;
    p->epoch = grant->epoch;
    return commit(p, &p->record, limit(p), err);
}

static enum tenure_status begin(void *arg, const struct tenure_grant *grant, bool *wanted,
                                uint64_t *floor, struct tenure_error *err)
{
    struct cli_period *p = arg;

    tenure_state_close(p->state);
    p->state = NULL;
    enum tenure_status status = tenure_state_open(p->command.run.o.elector.store, p->command.name,
                                                  grant, limit(p), &p->state, err);
    if (!status)
        status = begin_with(p, grant, wanted, err);
    if (status == TENURE_FENCED)
        *floor = tenure_state_floor(p->state);
    if (status == TENURE_FENCED || tenure_status_class(status) != TENURE_CLASS_PERMANENT)
        return status;
    /* Nobody runs what may have been run, nor tries for ever what is refused. */
    *wanted = false;
    if (status == TENURE_CORRUPT)
        p->code = cli_fail(p->command.verb, CLI_FAILED,
                           "%s; look at it with `tenure state get --name %s %s/%s`", err->text,
                           p->command.name, p->collection, p->id);
    else
        p->code = cli_fail_with(p->command.verb, err);
    return TENURE_OK;
}

/* Then it is not begun either. */
static void not_run(void *arg, int64_t by_ns)
{
    struct cli_period *p = arg;
    struct tenure_error err;

    if (commit(p, &p->before, by_ns, &err))
        cli_fail(p->command.verb, 0, "%s was not run, and counts as begun: %s", p->record.period,
                 err.text);
}

static void ended(void *arg, int code, bool by_itself, int64_t by_ns)
{
    struct cli_period *p = arg;
    struct tn_period_record *r = &p->record;
    struct tenure_error err;

    r->state = !by_itself ? TN_PERIOD_INTERRUPTED : code == 0 ? TN_PERIOD_DONE : TN_PERIOD_FAILED;
    r->code = code;
    r->ended_ms = tn_wall_ms();
    if (commit(p, r, by_ns, &err))
        cli_fail(p->command.verb, 0,
                 "the result of %s (code %d) could not be written, so it counts as not ended: %s",
                 r->period, code, err.text);
}

/* ---- One call ------------------------------------------------------------ */

static void tell_not_ended(const struct cli_period *p, const struct tn_period_record *last)
{
    cli_fail(p->command.verb, 0,
             "%s: %s was begun by %s and did not end; it is not run again without --retry lost",
             p->command.name, last->period, last->by);
}

/* Somebody should know: a period that was begun and not ended, and nobody holds the lock; or one
 * that is still to come. */
static void warn_of_odd(const struct cli_period *p, const struct tn_period_record *last)
{
    struct tenure_lease_view view = TENURE_LEASE_VIEW;
    int code;

    if (p->command.run.o.log_level < TN_LEVEL_WARN)
        return;
    if (last->at_s > (int64_t)(tn_wall_ms() / 1000) + SKEW_S)
        cli_fail(p->command.verb, 0,
                 "%s: the last period %s is in the future, and nothing runs until then; check the "
                 "clock of this machine and of %s",
                 p->command.name, last->period, last->by);
    if (last->state == TN_PERIOD_INTERRUPTED)
        tell_not_ended(p, last);
    if (last->state != TN_PERIOD_RUNNING)
        return;
    tenure_store *store = cli_open(p->command.verb, &p->command.common, &code);
    if (!store)
        return;
    if (tenure_lease_look(store, p->command.name, &view, limit(p), NULL) == TENURE_OK &&
        (view.state != TENURE_LEASE_HELD || view.epoch != last->epoch))
        tell_not_ended(p, last);
    tenure_store_close(store);
}

/* Before anybody contends.  false: *code is the exit code. */
static bool is_due(struct cli_period *p, int *code)
{
    struct tn_period_record last, next = {0};
    struct tenure_error err;
    tenure_state *state = NULL;
    enum tenure_status status = tenure_state_open(p->command.run.o.elector.store, p->command.name,
                                                  NULL, limit(p), &state, &err);

    if (!status)
        status = load(p, state, &last, &err);
    tenure_state_close(state);
    *code = CLI_OK;
    if (status) {
        *code = cli_fail_with(p->command.verb, &err);
        return false;
    }
    struct tn_plan plan = p->plan(p, &last, &next);
    p->due = (struct tn_period_record){.at_s = next.at_s, .epoch = last.epoch};
    if (plan.kind == TN_PLAN_RUN)
        memcpy(p->due.period, next.period, sizeof next.period);
    if (plan.kind != TN_PLAN_NOTHING)
        return true;
    warn_of_odd(p, &last);
    return false;
}

/* Has anybody run what was due here, or does the holder of the lock? */
static bool is_handled(const struct tn_period_record *due, const struct tn_period_record *last,
                       const struct tenure_lease_view *view)
{
    if (last->state == TN_PERIOD_NONE || last->at_s < due->at_s)
        return false;
    if (last->at_s > due->at_s || last->state == TN_PERIOD_DONE || last->epoch != due->epoch)
        return true;
    return last->state == TN_PERIOD_RUNNING && view->state == TENURE_LEASE_HELD &&
           view->epoch == last->epoch;
}

/* Somebody else has the lock.  That says nothing about this period: another one of that name may
 * run, or nothing, if it is paused.  A holder has as long as a request to write what it begins. */
static int taken(struct cli_period *p, tenure_store *store, tenure_state *state)
{
    const struct cli_command *c = &p->command;
    int64_t by = limit(p);

    for (;;) {
        struct tenure_lease_view view = TENURE_LEASE_VIEW;
        struct tn_period_record last;
        struct tenure_error err;
        enum tenure_status status = tenure_lease_look(store, c->name, &view, limit(p), &err);

        if (!status)
            status = load(p, state, &last, &err); /* after the lease: what it wrote is there */
        if (status)
            return cli_fail_with(c->verb, &err);
        if (is_handled(&p->due, &last, &view))
            return CLI_OK;
        if (view.state != TENURE_LEASE_HELD)
            return cli_fail(c->verb, CLI_TAKEN,
                            "%s: %s is not run: the lock was taken, or is paused (`tenure status`)",
                            c->name, p->due.period);
        if (tenure_now() >= by)
            return cli_fail(c->verb, CLI_TAKEN,
                            "%s: %s is not run: %s holds the lock, for something else", c->name,
                            p->due.period, view.holder);
        nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL);
    }
}

static int code_if_taken(struct cli_period *p)
{
    const struct cli_command *c = &p->command;
    struct tenure_error err;
    tenure_state *state = NULL;
    int code = CLI_OK;

    if (!p->due.period[0])
        return CLI_OK; /* there was nothing to run */
    tenure_store *store = cli_open(c->verb, &c->common, &code);
    if (!store)
        return code;
    if (tenure_state_open(c->run.o.elector.store, c->name, NULL, limit(p), &state, &err))
        code = cli_fail_with(c->verb, &err);
    else
        code = taken(p, store, state);
    tenure_state_close(state);
    tenure_store_close(store);
    return code;
}

bool cli_period_prepare(struct cli_period *p, int *code)
{
    if (!p->command.common.store) {
        *code = cli_misuse(p->command.verb,
                           "missing --store (or TENURE_STORE): give the one that all machines "
                           "share, or each of them runs it");
        return false;
    }
    return cli_command_prepare(&p->command, code);
}

int cli_period_run(struct cli_period *p, bool *ran)
{
    struct cli_command *c = &p->command;
    bool waits = p->waits ? p->wait_ns > 0 : p->retry != TN_RETRY_NEVER;
    int code;

    if (ran)
        *ran = false;
    if (!is_due(p, &code))
        return code;
    p->env[0] = p->variable;
    p->epoch = 0;
    p->code = 0;
    memset(&p->record, 0, sizeof p->record);
    c->once = (struct tn_once){.try_only = !waits,
                               .quiet = true,
                               .must_return = true,
                               .until_ns = !waits     ? limit(p)
                                           : p->waits ? tenure_now() + p->wait_ns
                                                      : TN_NEVER,
                               .code_taken = CLI_TAKEN,
                               .arg = p,
                               .begin = begin,
                               .ended = ended,
                               .not_run = not_run,
                               .env = p->env};
    code = cli_command_run(c, c->name);
    tenure_state_close(p->state);
    p->state = NULL;
    if (p->code)
        return p->code;
    if (c->once.taken && code == CLI_TAKEN)
        return code_if_taken(p);
    if (ran)
        *ran = c->once.ran;
    return code;
}
