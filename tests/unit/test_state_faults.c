/* Fenced state over a store that loses, delays and fails: each way of settling a commit. */
#include <pthread.h>
#include <semaphore.h>

#include "state_script.h"

/* ---- Answers ------------------------------------------------------------- */

static void lost_answer_is_read_back(void **state)
{
    tenure_state *a = lead("fault:f", 10), *b;

    assert_int_equal(put(a, "x", "1"), TENURE_OK);
    script = (struct script){.key = X, .swaps = {{.action = TN_FAULT_DROP_ANSWER}}};
    assert_int_equal(put(a, "x", "2"), TENURE_OK);
    assert_int_equal(script.n, 1); /* not written twice */
    b = lead(*state, 11);
    expect(b, "x", "2");
    tenure_state_close(a);
    tenure_state_close(b);
}

static void late_request_lands_once(void **state)
{
    struct tenure_document d = {0};
    tenure_state *a = lead("fault:f", 10), *op = lead(*state, 0);

    assert_int_equal(put(a, "x", "1"), TENURE_OK);
    script =
        (struct script){.key = X, .swaps = {{.action = TN_FAULT_LATER, .later_ns = INT64_MAX / 4}}};
    assert_int_equal(put(a, "x", "2"), TENURE_OK);
    assert_int_equal(tn_fault_flush(fault), 0); /* its base is gone */
    assert_int_equal(tenure_state_load(op, "docs", "x", &d, soon(), NULL), TENURE_OK);
    assert_int_equal(d.seq, 2);
    tenure_document_free(&d);
    tenure_state_close(a);
    tenure_state_close(op);
}

/* However often it was tried, the first try is known when it shows up. */
static void first_of_many_tries_is_ours(void **state)
{
    tenure_state *a = lead("fault:f", 10);

    (void)state;
    assert_int_equal(put(a, "x", "1"), TENURE_OK);
    script = (struct script){.key = X};
    script.swaps[0] = (struct tn_fault_plan){.action = TN_FAULT_LATER, .calls = 14};
    for (int i = 1; i < 12; i++)
        script.swaps[i].action = TN_FAULT_DROP_REQUEST;
    assert_int_equal(put(a, "x", "2"), TENURE_OK);
    assert_true(script.n > 5);
    expect(a, "x", "2");
    tenure_state_close(a);
}

/* x is 1; that it becomes 2 is on its way, and a later try of the same failed for certain. */
static void left_unknown(tenure_state *a)
{
    assert_int_equal(put(a, "x", "1"), TENURE_OK);
    script = (struct script){.key = X,
                             .swaps = {{.action = TN_FAULT_LATER, .later_ns = INT64_MAX / 4},
                                       {.action = TN_FAULT_FAIL, .status = TENURE_DENIED}}};
    assert_int_equal(put(a, "x", "2"), TENURE_UNKNOWN);
}

/* A later try that fails for certain says nothing about the first one. */
static void refused_retry_stays_unknown(void **state)
{
    tenure_state *a = lead("fault:f", 10);

    (void)state;
    left_unknown(a);
    assert_int_equal(tn_fault_flush(fault), 1);
    expect(a, "x", "2");
    script = (struct script){.key = X,
                             .swaps = {{.action = TN_FAULT_DROP_REQUEST},
                                       {.action = TN_FAULT_FAIL, .status = TENURE_UNAVAILABLE}}};
    assert_int_equal(put(a, "x", "3"), TENURE_OK); /* transient: tried again */
    script = (struct script){.key = X,
                             .swaps = {{.action = TN_FAULT_FAIL, .status = TENURE_UNAVAILABLE}}};
    assert_int_equal(put(a, "x", "4"), TENURE_UNAVAILABLE);
    expect(a, "x", "3");
    tenure_state_close(a);
}

/* Unknown at its deadline, and still on its way: what a load shows then is not changed by it. */
static void load_settles_what_is_unknown(void **state)
{
    tenure_state *a = lead("fault:f", 10);

    (void)state;
    left_unknown(a);
    script = (struct script){.key = X, .swaps = {{.action = TN_FAULT_DROP_ANSWER}}};
    expect(a, "x", "1");
    assert_int_equal(tn_fault_flush(fault), 0); /* its base is gone */
    expect(a, "x", "1");
    assert_int_equal(script.n, 1); /* settled once */
    assert_int_equal(put(a, "x", "3"), TENURE_OK);
    tenure_state_close(a);
}

/* Unknown at its deadline, it lands during the next commit, which goes on top. */
static void stray_is_recognised(void **state)
{
    tenure_state *a = lead("fault:f", 10);
    struct tenure_document d = {0};

    (void)state;
    assert_int_equal(put(a, "x", "1"), TENURE_OK);
    for (int i = 0; i < 7; i++) {
        script = (struct script){.key = X,
                                 .swaps = {{.action = TN_FAULT_LATER, .later_ns = INT64_MAX / 4},
                                           {.action = TN_FAULT_FAIL, .status = TENURE_DENIED}}};
        assert_int_equal(put(a, "x", "stray"), TENURE_UNKNOWN);
    }
    assert_int_equal(tn_fault_flush(fault), 1);
    assert_int_equal(put(a, "x", "3"), TENURE_OK);
    assert_int_equal(tenure_state_load(a, "docs", "x", &d, soon(), NULL), TENURE_OK);
    assert_string_equal((char *)d.value.data, "3");
    assert_int_equal(d.seq, 3);
    tenure_document_free(&d);
    tenure_state_close(a);
}

static void silence_until_the_deadline_is_unknown(void **state)
{
    tenure_state *a = lead("fault:f", 10);

    (void)state;
    assert_int_equal(put(a, "x", "1"), TENURE_OK);
    script = (struct script){
        .key = X, .swaps = {{.action = TN_FAULT_DROP_ANSWER}}, .reads_failed = UINT32_MAX};
    for (int i = 1; i < 12; i++)
        script.swaps[i] =
            (struct tn_fault_plan){.action = TN_FAULT_FAIL, .status = TENURE_UNAVAILABLE};
    script.swaps[11].before_ns = INT64_MAX / 4;
    assert_int_equal(put_by(a, "x", "2", within_ms(200)), TENURE_UNKNOWN);
    memset(&script, 0, sizeof script);
    expect(a, "x", "2");
    tenure_state_close(a);
}

/* ---- Operators ----------------------------------------------------------- */

/* Ours landed, its answer was lost, and an operator was quicker than our look. */
static void edit_over_a_lost_answer_is_not_undone(void **state)
{
    tenure_state *a = lead("fault:f", 10);
    struct tenure_commit c = {.collection = "docs", .id = "x", .data = "2", .len = 1};

    inner_url = *state;
    assert_int_equal(put(a, "x", "1"), TENURE_OK);
    script =
        (struct script){.key = X, .swaps = {{.action = TN_FAULT_DROP_ANSWER}}, .between = edit_x};
    assert_int_equal(tenure_state_commit(a, &c, 1, soon(), NULL), TENURE_OK); /* it took effect */
    assert_int_equal(c.seq, 2); /* the edit is the third */
    assert_int_equal(put(a, "x", "3"), TENURE_CONFLICT);
    expect(a, "x", "edited");
    assert_int_equal(put(a, "x", "3"), TENURE_OK);
    tenure_state_close(a);
}

/* Ours never landed, and now never will: but nobody can know that. */
static void edit_over_a_lost_request_is_not_undone(void **state)
{
    tenure_state *a = lead("fault:f", 10);

    inner_url = *state;
    assert_int_equal(put(a, "x", "1"), TENURE_OK);
    script =
        (struct script){.key = X, .swaps = {{.action = TN_FAULT_DROP_REQUEST}}, .between = edit_x};
    assert_int_equal(put(a, "x", "2"), TENURE_UNKNOWN);
    assert_int_equal(put(a, "x", "3"), TENURE_CONFLICT);
    expect(a, "x", "edited");
    tenure_state_close(a);
}

/* Whoever shares a batch with the one that is told does not undo the edit either. */
static void duplicates_in_a_batch_do_not_undo_an_edit(void **state)
{
    tenure_state *a = lead("fault:f", 10);
    struct tenure_commit c[3];

    inner_url = *state;
    for (int i = 0; i < 3; i++)
        c[i] = (struct tenure_commit){.collection = "docs", .id = "x", .data = &"abc"[i], .len = 1};
    assert_int_equal(tenure_state_commit(a, c, 3, soon(), NULL), TENURE_OK);
    for (int i = 0; i < 3; i++)
        assert_int_equal(c[i].seq, i + 1);
    expect(a, "x", "c");
    edit_x();
    assert_int_equal(tenure_state_commit(a, c, 3, soon(), NULL), TENURE_CONFLICT);
    for (int i = 0; i < 3; i++)
        assert_int_equal(c[i].status, TENURE_CONFLICT);
    expect(a, "x", "edited");
    tenure_state_close(a);
}

/* Sealing again is no look at the document. */
static void edit_before_a_second_seal_is_not_undone(void **state)
{
    tenure_state *a = lead("fault:f", 10);

    inner_url = *state;
    assert_int_equal(put(a, "x", "1"), TENURE_OK);
    seal(a);
    assert_int_equal(put(a, "x", "2"), TENURE_OK);
    edit_x();
    seal(a);
    assert_int_equal(put(a, "x", "3"), TENURE_CONFLICT);
    expect(a, "x", "edited");
    tenure_state_close(a);
}

/* An operator's create, on its way while the collection changes hands, gives the
 * leader before no document of its own. */
static void late_create_of_an_operator_revives_nobody(void **state)
{
    tenure_state *a = lead(*state, 10), *op = lead("fault:f", 0), *b;
    struct tenure_document none = {0};

    assert_int_equal(put(a, "other", "1"), TENURE_OK);
    script =
        (struct script){.key = X, .swaps = {{.action = TN_FAULT_LATER, .later_ns = INT64_MAX / 4}}};
    assert_int_equal(tenure_state_edit(op, "docs", "x", &none, "op", 2, soon(), NULL),
                     TENURE_UNKNOWN);
    b = lead(*state, 11);
    seal(b);
    assert_int_equal(tn_fault_flush(fault), 0);
    assert_int_equal(put(a, "x", "stale"), TENURE_FENCED);
    expect(b, "x", NULL);
    tenure_state_close(a);
    tenure_state_close(b);
    tenure_state_close(op);
}

/* A leader's creates and an operator's do not stand in each other's way. */
static void creates_of_both_go_together(void **state)
{
    tenure_state *a = lead(*state, 10), *op = lead(*state, 0), *b;
    char id[16];

    for (int i = 0; i < 1000; i++) {
        snprintf(id, sizeof id, "%s-%d", i % 2 ? "op" : "a", i);
        assert_int_equal(i % 2 ? edit(op, id, "v") : put(a, id, "v"), TENURE_OK);
    }
    b = lead(*state, 11);
    seal(b);
    for (int i = 0; i < 1000; i++) {
        snprintf(id, sizeof id, "%s-%d", i % 2 ? "op" : "a", i);
        expect(b, id, "v");
    }
    tenure_state_close(a);
    tenure_state_close(b);
    tenure_state_close(op);
}

/* ---- Waiting for others ---------------------------------------------------- */

static sem_t inside, go_on;

static void hold(void *arg, const struct tn_fault_event *event, struct tn_fault_plan *plan)
{
    (void)arg;
    (void)plan;
    if (event->call == TN_CALL_SWAP && event->key && strcmp(event->key, X) == 0) {
        sem_post(&inside);
        sem_wait(&go_on);
    }
}

static void *put_slowly(void *state)
{
    assert_int_equal(put(state, "x", "slow"), TENURE_OK);
    return NULL;
}

/* Who waits behind a slow commit is told at its own deadline, and nothing of it comes later. */
static void waits_until_its_own_deadline(void **state)
{
    tenure_state *a = lead("fault:f", 10);
    pthread_t thread;

    (void)state;
    seal(a);
    sem_init(&inside, 0, 0);
    sem_init(&go_on, 0, 0);
    tn_fault_hook(fault, hold, NULL);
    assert_int_equal(pthread_create(&thread, NULL, put_slowly, a), 0);
    sem_wait(&inside);
    assert_int_equal(put_by(a, "y", "never", within_ms(20)), TENURE_TIMEOUT);
    sem_post(&go_on);
    pthread_join(thread, NULL);
    expect(a, "x", "slow");
    expect(a, "y", NULL);
    assert_int_equal(put(a, "y", "later"), TENURE_OK);
    tenure_state_close(a);
    sem_destroy(&inside);
    sem_destroy(&go_on);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(lost_answer_is_read_back),
        T(late_request_lands_once),
        T(first_of_many_tries_is_ours),
        T(refused_retry_stays_unknown),
        T(load_settles_what_is_unknown),
        T(stray_is_recognised),
        T(silence_until_the_deadline_is_unknown),
        T(edit_over_a_lost_answer_is_not_undone),
        T(edit_over_a_lost_request_is_not_undone),
        T(duplicates_in_a_batch_do_not_undo_an_edit),
        T(edit_before_a_second_seal_is_not_undone),
        T(late_create_of_an_operator_revives_nobody),
        T(creates_of_both_go_together),
        T(waits_until_its_own_deadline),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
