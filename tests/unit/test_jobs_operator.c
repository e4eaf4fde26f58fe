/*
 * An operator that dies between any two of its writes, or is told of none of them: the same verb,
 * made again, completes what was left, and the group ends as if nothing had happened.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "faultstore.h"
#include "jobs/operator.h"

static struct tenure_error err;

static int64_t soon(void)
{
    return tenure_now() + INT64_C(30000000000);
}

/* From the n-th swap or batch on nothing is sent: the operator is dead, or its answers are lost. */
struct death {
    unsigned at, seen;
    enum tn_fault_action action;
};

static void die(void *arg, const struct tn_fault_event *event, struct tn_fault_plan *plan)
{
    struct death *d = arg;

    if (event->call != TN_CALL_SWAP && event->call != TN_CALL_BATCH)
        return;
    if (++d->seen < d->at)
        return;
    /* Dead: everything is refused.  A lost answer: this one was done, and then it is dead. */
    plan->action = d->seen == d->at ? d->action : TN_FAULT_FAIL;
    plan->status = TENURE_UNAVAILABLE;
}

/* ---- Verbs --------------------------------------------------------------- */

typedef enum tenure_status (*verb_fn)(const struct tn_jobs *g);

static const char *const all[] = {"a", "b", "c"};

static enum tenure_status add(const struct tn_jobs *g)
{
    struct tn_new_job jobs[3];
    size_t added;

    for (unsigned i = 0; i < 3; i++)
        jobs[i] = (struct tn_new_job){.id = all[i],
                                      .pin = "",
                                      .must = "zone=a",
                                      .prefer = "",
                                      .weight = i + 1,
                                      .spec = "spec",
                                      .spec_len = 4};
    return tn_jobs_add(g, jobs, 3, &added, &err);
}

static enum tenure_status want(const struct tn_jobs *g, enum tn_wanted wanted)
{
    size_t owned;

    return tn_jobs_want(g, all, 3, wanted, false, &owned, &err);
}

static enum tenure_status pause_all(const struct tn_jobs *g)
{
    return want(g, TN_WANTED_PAUSED);
}

static enum tenure_status add_paused(const struct tn_jobs *g)
{
    enum tenure_status status = add(g);

    return status ? status : pause_all(g);
}

static enum tenure_status resume_all(const struct tn_jobs *g)
{
    return want(g, TN_WANTED_RUNNING);
}

static enum tenure_status remove_all(const struct tn_jobs *g)
{
    return want(g, TN_WANTED_REMOVED);
}

static enum tenure_status pin_all(const struct tn_jobs *g)
{
    return tn_jobs_change(g, all, 3, 9, "w1", &err);
}

/* ---- What the group is --------------------------------------------------- */

static void describe(const struct tn_jobs *g, char *out, size_t size)
{
    struct tn_catalogue c;
    struct tn_job_now now[3];
    size_t n = 0;

    assert_int_equal(tn_catalogue_load(g->store, g->name, &c, soon(), &err), TENURE_OK);
    n += (size_t)snprintf(out + n, size - n, "%s", c.unfinished ? "unfinished " : "");
    for (uint32_t i = 0; i < tn_catalogue_size(&c); i++) {
        const struct tn_row *row = tn_catalogue_row(&c, i);

        if (row->id)
            n += (size_t)snprintf(out + n, size - n, "%u:%s,%u,%d,%s,%s ", i, row->id, row->weight,
                                  (int)row->wanted, row->pin, row->must);
    }
    tn_catalogue_free(&c);
    assert_int_equal(tn_jobs_read(g, all, 3, now, &err), TENURE_OK);
    for (unsigned i = 0; i < 3; i++)
        n += (size_t)snprintf(out + n, size - n, "%s=%s%s%d,%llu ", all[i],
                              now[i].absent ? "absent" : "", now[i].tombstone ? "tombstone" : "",
                              (int)now[i].job.wanted, (unsigned long long)now[i].job.epoch);
}

/* ---- The deaths ---------------------------------------------------------- */

static tn_fault *fault;

static void open_group(struct tn_jobs *g, const char *url)
{
    *g = (struct tn_jobs){.name = "g", .deadline = soon()};
    assert_int_equal(tenure_store_open(url, soon(), &g->store, &err), TENURE_OK);
}

/* `before` makes what `verb` needs, which makes so many writes; a batch is one. */
static void dies_at_every_write(verb_fn before, verb_fn verb, unsigned writes,
                                enum tn_fault_action action)
{
    char expected[1024], seen[1024];
    static unsigned count;
    bool died = true;

    for (unsigned at = 0; died; at++) {
        struct death death = {.at = at ? at : UINT32_MAX, .action = action};
        char inner[32], id[32], url[40];
        struct tn_jobs plain, dying;

        snprintf(id, sizeof id, "jobs-%u", ++count);
        snprintf(inner, sizeof inner, "memory:%s", id);
        snprintf(url, sizeof url, "fault:%s", id);
        open_group(&plain, inner);
        if (before)
            assert_int_equal(before(&plain), TENURE_OK);
        assert_int_equal(tn_fault_new(id, inner, &fault, &err), TENURE_OK);
        tn_fault_hook(fault, die, &death);
        open_group(&dying, url);
        dying.deadline = tenure_now() + INT64_C(150000000); /* it does not try for long */
        if (!at)
            dying.deadline = soon();
        enum tenure_status status = verb(&dying);
        died = at == 0 || death.seen >= at;
        if (at == 0)
            assert_true(status == TENURE_OK && death.seen == writes);
        tenure_store_close(dying.store);
        tn_fault_free(fault);
        assert_int_equal(verb(&plain), TENURE_OK); /* the same again, by somebody who lives */
        describe(&plain, at ? seen : expected, sizeof seen);
        if (at && strcmp(seen, expected) != 0)
            fail_msg("died at write %u: '%s' instead of '%s'", at, seen, expected);
        tenure_store_close(plain.store);
    }
}

static void every_verb(enum tn_fault_action action)
{
    dies_at_every_write(NULL, add, 5, action);
    dies_at_every_write(add, pause_all, 4, action);
    dies_at_every_write(add, remove_all, 11, action);
    dies_at_every_write(add, pin_all, 3, action);
    dies_at_every_write(add_paused, resume_all, 4, action);
}

static void operator_dies(void **state)
{
    (void)state;
    every_verb(TN_FAULT_FAIL);
}

/* The write was done, and nobody told the operator: it looks again, and goes on. */
static void answers_are_lost(void **state)
{
    (void)state;
    every_verb(TN_FAULT_DROP_ANSWER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operator_dies),
        cmocka_unit_test(answers_are_lost),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
