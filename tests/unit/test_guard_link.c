/* Tenure's side of the guard, against the real one. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "beside_guard.h"
#include "core/timing.h"
#include "os/poll.h"
#include "supervise/guard/link.h"
#include "supervise/program/program.h"
#include "tenure/store.h"

#define PATIENCE_NS (60 * TN_S) /* after which a test gives up; never a measure of speed */

struct bed {
    struct tn_guard_link link;
};

static int set_up(void **state)
{
    static struct bed b;
    /* A large K: a guard that has fired would otherwise soon end us, its tenure. */
    const struct tn_guard_wish wish = {
        .contain = TN_CONTAIN_GROUP, .kill_ns = 200 * TN_S, .stop_signal = SIGTERM};
    struct tenure_error err = {0};

    *state = &b;
    assert_int_equal(tn_guard_link_open(&b.link, &wish, &err), TENURE_OK);
    if (tn_guard_link_start(&b.link, &err) != TENURE_OK)
        fail_msg("%s", err.text);
    return 0;
}

static int tear_down(void **state)
{
    struct bed *b = *state;

    tn_guard_link_quit(&b->link);
    tn_guard_link_close(&b->link);
    return 0;
}

/* The next report of that kind. */
static struct tn_guard_report await(struct tn_guard_link *l, uint32_t kind)
{
    int64_t limit = tenure_now() + PATIENCE_NS;
    struct tn_guard_report r;

    for (;;) {
        struct pollfd fd = {.fd = l->socket, .events = POLLIN};

        if (tn_poll(&fd, 1, limit) <= 0)
            fail_msg("the guard never said %u", kind);
        if (tn_guard_link_next(l, &r) && r.kind == kind)
            return r;
        assert_true(tenure_now() < limit);
    }
}

static uint64_t word(const struct tn_guard_link *l)
{
    return atomic_load(&l->page->word);
}

static void spawn_as(struct tn_guard_link *l, char *const *args, bool warm)
{
    char *env[] = {NULL};
    struct tn_program program = {.args = args, .env = env, .warm = warm};
    struct tn_program_env_spec facts = {.name = "n", .id = "i", .epoch = 7};
    struct tenure_error err;
    int block;

    sigemptyset(&program.mask);
    assert_int_equal(tn_program_block(&program, &facts, &block, &err), TENURE_OK);
    assert_true(tn_guard_link_spawn(l, block, -1));
    close(block);
}

static void spawn(struct tn_guard_link *l, char *const *args)
{
    spawn_as(l, args, false);
}

static char sleep_[] = "/bin/sleep", long_[] = "1000";
static char *const sleeper[] = {sleep_, long_, NULL};

static void spawn_sleep(struct tn_guard_link *l)
{
    spawn(l, sleeper);
}

/* ---- The deadline -------------------------------------------------------- */

static void test_publishing_raises_and_clears(void **state)
{
    struct tn_guard_link *l = &((struct bed *)*state)->link;
    int64_t far = tenure_now() + 600 * TN_S;

    assert_true(word(l) == 0);
    assert_true(tn_guard_link_publish(l, far));
    assert_true(word(l) == (uint64_t)far);
    assert_true(tn_guard_link_publish(l, far + TN_S));
    assert_true(word(l) == (uint64_t)far + TN_S);
    assert_true(tn_guard_link_publish(l, 0));
    assert_true(word(l) == 0);
}

/* Once FIRED, that grant is never renewed; the next one may be. */
static void test_a_renewal_after_firing_never_raises_the_deadline(void **state)
{
    struct tn_guard_link *l = &((struct bed *)*state)->link;
    int64_t deadline = tenure_now() + 100 * TN_MS;

    assert_true(tn_guard_link_publish(l, deadline));
    await(l, TN_GUARD_FIRED);
    assert_true(word(l) == ((uint64_t)deadline | TN_WORD_FIRED));
    for (int i = 0; i < 3; i++) {
        assert_false(tn_guard_link_publish(l, tenure_now() + 600 * TN_S));
        assert_true(word(l) == ((uint64_t)deadline | TN_WORD_FIRED));
    }
    assert_false(tn_guard_link_publish(l, deadline - TN_MS)); /* nor lowers it */
    assert_true(word(l) == ((uint64_t)deadline | TN_WORD_FIRED));
    assert_true(tn_guard_link_publish(l, 0));
    assert_true(tn_guard_link_publish(l, tenure_now() + 600 * TN_S));
    assert_false(word(l) & TN_WORD_FIRED);
}

/* Renewals race with the firing: what it fired on is the last that was taken. */
static void test_renewals_that_race_with_the_firing(void **state)
{
    struct tn_guard_link *l = &((struct bed *)*state)->link;

    for (int round = 0; round < 100; round++) {
        int64_t margin = l->page->margin_ns, last = 0, next = tenure_now() + margin + TN_MS;

        while (tn_guard_link_publish(l, next)) {
            last = next;
            usleep((useconds_t)(round * 13 % 1100));
            next = tenure_now() + margin + TN_MS;
        }
        assert_true(word(l) == ((uint64_t)last | TN_WORD_FIRED));
        assert_false(tn_guard_link_publish(l, next + TN_S));
        assert_true(word(l) == ((uint64_t)last | TN_WORD_FIRED));
        assert_true(tn_guard_link_publish(l, 0));
    }
}

static void test_a_lowered_deadline_fires_in_time(void **state)
{
    struct tn_guard_link *l = &((struct bed *)*state)->link;

    assert_true(tn_guard_link_publish(l, tenure_now() + 600 * TN_S));
    int64_t near = tenure_now() + 100 * TN_MS;
    assert_true(tn_guard_link_publish(l, near));
    await(l, TN_GUARD_FIRED);
    assert_true(word(l) == ((uint64_t)near | TN_WORD_FIRED));
}

/* Let the guard run until it is about to make that call. */
static void run_to(pid_t guard, long call, uint64_t argument)
{
    struct __ptrace_syscall_info info;
    int status;

    for (;;) {
        assert_int_equal(ptrace(PTRACE_SYSCALL, guard, NULL, NULL), 0);
        assert_int_equal(waitpid(guard, &status, 0), guard);
        assert_true(WIFSTOPPED(status));
        if (WSTOPSIG(status) != (SIGTRAP | 0x80))
            continue;
        assert_true(ptrace(PTRACE_GET_SYSCALL_INFO, guard, sizeof info, &info) > 0);
        if (info.op == PTRACE_SYSCALL_INFO_ENTRY && info.entry.nr == (uint64_t)call &&
            (argument == 0 || info.entry.args[0] == argument))
            return;
    }
}

/* A warm program runs without a grant.  The guard has seen that there is none, and is about to
 * disarm the timer, when one is won: the timer stays armed for that one, or nobody would end the
 * program at its deadline. */
static void test_a_grant_is_won_while_the_guard_disarms(void **state)
{
#ifdef SYS_poll
    const long sleeps = SYS_poll;
#else
    const long sleeps = SYS_ppoll;
#endif
    struct tn_guard_link *l = &((struct bed *)*state)->link;
    struct itimerspec left = {0};
    int status;

    spawn_as(l, sleeper, true);
    await(l, TN_GUARD_SPAWNED);
    if (ptrace(PTRACE_SEIZE, l->pid, NULL, (void *)PTRACE_O_TRACESYSGOOD) != 0)
        skip(); /* nobody may trace here */
    assert_int_equal(ptrace(PTRACE_INTERRUPT, l->pid, NULL, NULL), 0);
    assert_int_equal(waitpid(l->pid, &status, 0), l->pid);
    tn_guard_link_signal(l, SIGCONT); /* wakes it up */
    run_to(l->pid, SYS_timerfd_settime, TN_GUARD_FD_TIMER);
    assert_true(tn_guard_link_publish(l, tenure_now() + 600 * TN_S));
    run_to(l->pid, sleeps, 0);
    assert_int_equal(timerfd_gettime(l->timer_fd, &left), 0);
    assert_int_equal(ptrace(PTRACE_DETACH, l->pid, NULL, NULL), 0);
    assert_true(left.it_value.tv_sec > 0);
}

/* ---- The program --------------------------------------------------------- */

static void test_nothing_runs_without_a_grant(void **state)
{
    struct tn_guard_link *l = &((struct bed *)*state)->link;

    spawn_sleep(l);
    await(l, TN_GUARD_REFUSED);
}

static void test_a_program_runs_and_is_stopped(void **state)
{
    struct tn_guard_link *l = &((struct bed *)*state)->link;

    assert_true(tn_guard_link_publish(l, tenure_now() + 600 * TN_S));
    spawn_sleep(l);
    await(l, TN_GUARD_SPAWNED);
    tn_guard_link_signal(l, SIGCONT); /* passed on, and harmless */
    tn_guard_link_stop(l, SIGTERM, tenure_now() + 600 * TN_S);
    struct tn_guard_report r = await(l, TN_GUARD_EXITED);
    assert_true(WIFSIGNALED(r.status) && WTERMSIG(r.status) == SIGTERM);
    await(l, TN_GUARD_DEAD);
    assert_false(word(l) & TN_WORD_FIRED);
}

static void test_the_deadline_ends_the_program(void **state)
{
    struct tn_guard_link *l = &((struct bed *)*state)->link;

    assert_true(tn_guard_link_publish(l, tenure_now() + 600 * TN_S));
    spawn_sleep(l);
    await(l, TN_GUARD_SPAWNED);
    assert_true(tn_guard_link_publish(l, tenure_now() + 200 * TN_MS));
    await(l, TN_GUARD_FIRED);
    await(l, TN_GUARD_DEAD);
}

static void test_what_cannot_be_executed(void **state)
{
    struct tn_guard_link *l = &((struct bed *)*state)->link;
    char missing[] = "/no/such/program";
    char *const args[] = {missing, NULL};

    assert_true(tn_guard_link_publish(l, tenure_now() + 600 * TN_S));
    spawn(l, args);
    struct tn_guard_report r = await(l, TN_GUARD_FAILED);
    assert_int_equal(r.error, ENOENT);
    assert_int_equal(r.stage, TN_STAGE_EXEC);
    await(l, TN_GUARD_DEAD);
}

/* ---- Its environment ----------------------------------------------------- */

static bool is_passed_on(const char *variable, const char *store, const char *state)
{
    char text[64], *env[] = {text, NULL};
    struct tn_program_env_spec facts = {.name = "n", .id = "i", .store = store, .state = state};
    bool found = false;

    snprintf(text, sizeof text, "%s=canary", variable);
    char **list = tn_program_env(env, &facts);
    assert_non_null(list);
    for (size_t i = 0; list[i]; i++)
        found |= strcmp(list[i], text) == 0;
    tn_program_env_free(list);
    return found;
}

/* What a URL names as the place of a password is not for the program. */
static void test_passwords_are_not_passed_on(void **state)
{
    static const char url[] = "redis://h:1/0?password_env=PW&ttl=1&sentinel_password_env=OTHER";

    (void)state;
    assert_false(is_passed_on("PW", url, NULL));
    assert_false(is_passed_on("OTHER", url, NULL));
    assert_false(is_passed_on("PW", NULL, url));
    assert_true(is_passed_on("P", url, url));
    assert_true(is_passed_on("PWS", url, url));
    assert_true(is_passed_on("PW", "redis://h:1/password_env=PW", "etcd://h?password_file=PW"));
    assert_true(is_passed_on("PW", "etcd://h?env=PW", "etcd://h?_env=P"));
    assert_false(
        is_passed_on("A_PW", "redis://h?password_env=A%5FPW", NULL)); /* as the store reads it */
    assert_false(is_passed_on("PW", "redis://h?password%5Fenv=PW", NULL));
    assert_false(is_passed_on("TENURE_X", NULL, NULL));
}

/* ---- Without a guard ----------------------------------------------------- */

static void test_without_a_guard_nothing_is_published(void **state)
{
    struct tn_guard_link *l = &((struct bed *)*state)->link;
    int64_t far = tenure_now() + 600 * TN_S;
    struct pollfd fd = {.fd = l->pidfd, .events = POLLIN};
    struct tenure_error err;

    assert_true(tn_guard_link_publish(l, far));
    tn_guard_link_kill(l);
    assert_int_equal(tn_poll(&fd, 1, tenure_now() + PATIENCE_NS), 1);
    waitpid(l->pid, NULL, 0);
    tn_guard_link_mark_dead(l);
    assert_false(tn_guard_link_publish(l, far + TN_S));
    assert_true(word(l) ==
                ((uint64_t)far | TN_WORD_FIRED)); /* the next guard cannot take it over */
    assert_int_equal(tn_guard_link_start(l, &err), TENURE_OK);
    assert_false(tn_guard_link_publish(l, far + TN_S));
    spawn_sleep(l);
    await(l, TN_GUARD_REFUSED);
    assert_true(tn_guard_link_publish(l, 0));
    assert_true(tn_guard_link_publish(l, far));
    spawn_sleep(l);
    await(l, TN_GUARD_SPAWNED);
}

static void test_quitting_ends_what_runs(void **state)
{
    struct tn_guard_link *l = &((struct bed *)*state)->link;

    assert_true(tn_guard_link_publish(l, tenure_now() + 600 * TN_S));
    spawn_sleep(l);
    pid_t program = await(l, TN_GUARD_SPAWNED).pid;
    tn_guard_link_quit(l);
    assert_int_equal(kill(program, 0), -1);
    assert_false(tn_guard_link_publish(l, tenure_now() + 600 * TN_S));
    tn_guard_link_quit(l); /* again: nothing to do */
}

static void test_facts_are_replaced_whole(void **state)
{
    struct tn_guard_link *l = &((struct bed *)*state)->link;
    char text[32] = "";

    assert_true(tn_guard_link_ticket(l, "long and old", 12));
    assert_true(tn_guard_link_ticket(l, "new", 3));
    assert_int_equal(pread(l->ticket_fd, text, sizeof text, 0), 3);
    assert_string_equal(text, "new");
}

int main(int argc, char **argv)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(test_publishing_raises_and_clears),
        CASE(test_a_renewal_after_firing_never_raises_the_deadline),
        CASE(test_renewals_that_race_with_the_firing),
        CASE(test_a_lowered_deadline_fires_in_time),
        CASE(test_a_grant_is_won_while_the_guard_disarms),
        CASE(test_nothing_runs_without_a_grant),
        CASE(test_a_program_runs_and_is_stopped),
        CASE(test_the_deadline_ends_the_program),
        CASE(test_what_cannot_be_executed),
        cmocka_unit_test(test_passwords_are_not_passed_on),
        CASE(test_without_a_guard_nothing_is_published),
        CASE(test_quitting_ends_what_runs),
        CASE(test_facts_are_replaced_whole),
    };

    if (argc < 2)
        return run_beside_the_guard(argv);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
