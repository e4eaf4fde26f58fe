/* The event loop: descriptors, timers and calls, each dealt with once and in order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "os/thread.h"
#include "os/worker.h"
#include "tenure/store.h"

static char seen[64];

static void note(const char *what)
{
    strcat(seen, what);
}

struct bed {
    struct tn_loop loop;
    struct tn_watch first, second;
    struct tn_timer timer, other;
    struct tn_call call;
};

static void first_ready(void *arg, short events)
{
    struct bed *b = arg;
    uint64_t count;

    assert_true(events & POLLIN);
    assert_int_equal(read(b->first.fd, &count, sizeof count), sizeof count);
    note("1");
}

static void second_ready(void *arg, short events)
{
    (void)arg;
    (void)events;
    note("2");
}

static void timer_expired(void *arg, int64_t now)
{
    const struct bed *b = arg;

    assert_true(now > 0 && b->timer.at_ns == TN_NEVER);
    note("t");
}

static void call_run(struct tn_call *call)
{
    (void)call;
    note("c");
}

static int set_up(void **state)
{
    static struct bed b;

    assert_int_equal(tn_loop_open(&b.loop, NULL), TENURE_OK);
    tn_loop_watch(&b.loop, &b.first, eventfd(0, EFD_CLOEXEC), first_ready, &b);
    tn_loop_watch(&b.loop, &b.second, eventfd(0, EFD_CLOEXEC), second_ready, &b);
    tn_loop_timer(&b.loop, &b.timer, timer_expired, &b);
    tn_loop_timer(&b.loop, &b.other, NULL, NULL);
    b.call = (struct tn_call){.run = call_run};
    seen[0] = '\0';
    *state = &b;
    return 0;
}

static int tear_down(void **state)
{
    struct bed *b = *state;

    close(b->first.fd);
    if (b->second.fd >= 0)
        close(b->second.fd);
    tn_loop_close(&b->loop);
    return 0;
}

static void make_ready(int fd)
{
    uint64_t one = 1;

    assert_int_equal(write(fd, &one, sizeof one), sizeof one);
}

static void test_a_turn_deals_with_all_in_order(void **state)
{
    struct bed *b = *state;

    b->timer.at_ns = 0;
    tn_loop_post(&b->loop, &b->call);
    make_ready(b->second.fd);
    make_ready(b->first.fd);
    tn_loop_turn(&b->loop);
    assert_string_equal(seen, "12ct");
}

static void test_a_timer_without_a_function_wakes_once(void **state)
{
    struct bed *b = *state;

    b->other.at_ns = 0;
    tn_loop_turn(&b->loop);
    assert_true(b->other.at_ns == TN_NEVER);
    assert_string_equal(seen, "");
}

static void test_a_call_that_is_posted_twice_runs_once(void **state)
{
    struct bed *b = *state;

    tn_loop_post(&b->loop, &b->call);
    tn_loop_post(&b->loop, &b->call);
    tn_loop_turn(&b->loop);
    assert_string_equal(seen, "c");
    tn_loop_post(&b->loop, &b->call); /* again: it is not posted any more */
    tn_loop_turn(&b->loop);
    assert_string_equal(seen, "cc");
}

static void test_a_cancelled_call_does_not_run(void **state)
{
    struct bed *b = *state;

    tn_loop_post(&b->loop, &b->call);
    tn_loop_cancel(&b->loop, &b->call);
    tn_loop_cancel(&b->loop, &b->call);
    b->other.at_ns = 0;
    tn_loop_turn(&b->loop);
    assert_string_equal(seen, "");
}

/* A guard that died and was replaced: its successor's descriptor may have the same number. */
static void replace_second(void *arg, short events)
{
    struct bed *b = arg;

    first_ready(arg, events);
    tn_watch_set(&b->second, b->second.fd, POLLIN);
}

static void test_what_was_ready_of_a_former_descriptor_is_forgotten(void **state)
{
    struct bed *b = *state;

    b->first.ready = replace_second;
    make_ready(b->first.fd);
    make_ready(b->second.fd);
    tn_loop_turn(&b->loop);
    assert_string_equal(seen, "1");
    tn_loop_turn(&b->loop); /* it still is */
    assert_string_equal(seen, "12");
}

/* ---- Worker -------------------------------------------------------------- */

struct work {
    struct tn_task task;
    pthread_mutex_t *held; /* until the test gives it back */
    char name;
};

static unsigned freed;
static pthread_mutex_t freed_lock = PTHREAD_MUTEX_INITIALIZER;

static void run(struct tn_task *task)
{
    const struct work *w = (const struct work *)task;

    if (w->held) {
        pthread_mutex_lock(w->held);
        pthread_mutex_unlock(w->held);
    }
}

static void done(struct tn_task *task)
{
    note((const char[]){((const struct work *)task)->name, '\0'});
}

static void free_work(struct tn_task *task)
{
    pthread_mutex_lock(&freed_lock);
    freed++;
    pthread_mutex_unlock(&freed_lock);
    free(task);
}

static void post(struct tn_worker *worker, char name, pthread_mutex_t *held)
{
    struct work *w = calloc(1, sizeof *w);

    assert_non_null(w);
    *w = (struct work){
        .task = {.run = run, .done = done, .free = free_work}, .held = held, .name = name};
    assert_int_equal(tn_worker_post(worker, &w->task, NULL), TENURE_OK);
}

static void test_tasks_run_one_after_another_and_are_done_in_the_loop(void **state)
{
    struct bed *b = *state;
    struct tn_worker *worker = tn_worker_new("test", &b->loop);

    assert_true(tn_worker_idle(worker));
    freed = 0;
    for (int round = 0; round < 3; round++) { /* each with a thread of its own */
        post(worker, 'a', NULL);
        post(worker, 'b', NULL);
        while (!tn_worker_idle(worker))
            tn_loop_turn(&b->loop);
    }
    assert_string_equal(seen, "ababab");
    assert_int_equal(freed, 6);
    tn_worker_free(worker);
}

static void test_a_task_that_hangs_is_left_to_itself(void **state)
{
    struct bed *b = *state;
    struct tn_worker *worker = tn_worker_new("test", &b->loop);
    pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;
    unsigned all = 0;

    freed = 0;
    pthread_mutex_lock(&held);
    post(worker, 'a', &held);
    post(worker, 'b', NULL);
    assert_false(tn_worker_idle(worker));
    tn_worker_free(worker);
    pthread_mutex_unlock(&held);
    while (all < 2) {
        pthread_mutex_lock(&freed_lock);
        all = freed;
        pthread_mutex_unlock(&freed_lock);
        usleep(1000);
    }
    assert_string_equal(seen, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_turn_deals_with_all_in_order, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_timer_without_a_function_wakes_once, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_call_that_is_posted_twice_runs_once, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_cancelled_call_does_not_run, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_was_ready_of_a_former_descriptor_is_forgotten,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_tasks_run_one_after_another_and_are_done_in_the_loop,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_task_that_hangs_is_left_to_itself, set_up,
                                        tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
