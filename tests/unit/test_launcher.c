/* Many programs under one guard: the launcher, by itself and under the real guard. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "beside_guard.h"
#include "core/timing.h"
#include "guard/launcher.h"
#include "os/pass.h"
#include "os/poll.h"
#include "supervise/guard/link.h"
#include "supervise/program/program.h"
#include "tenure/store.h"

#define PATIENCE_NS (60 * TN_S) /* after which a test gives up; never a measure of speed */

static char folder[] = "/tmp/tenure-launcher-XXXXXX";
static char guard_path[] = TN_BUILD_DIR "/tenure-guard", launcher_arg[] = TN_LAUNCHER_ARG;

struct bed {
    int socket;
    pid_t pid;
};

static int set_up(void **state)
{
    static struct bed b;
    int ends[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    b.pid = fork();
    if (b.pid == 0) {
        dup2(ends[1], TN_LAUNCHER_FD);
        fcntl(TN_LAUNCHER_FD, F_SETFD, 0); /* if it was that already */
        execl(guard_path, guard_path, launcher_arg, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    b.socket = ends[0];
    *state = &b;
    return 0;
}

static void hang_up(struct bed *b)
{
    int status = -1;

    if (b->socket < 0)
        return;
    close(b->socket);
    b->socket = -1;
    assert_int_equal(waitpid(b->pid, &status, 0), b->pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static int tear_down(void **state)
{
    hang_up(*state);
    return 0;
}

/* ---- Commands and reports ------------------------------------------------ */

static int describe(const char *script)
{
    char shell[] = "/bin/sh", flag[] = "-c", text[512], path[] = "PATH=/usr/bin:/bin";
    char *const args[] = {shell, flag, text, NULL};
    char *env[] = {path, NULL};
    struct tn_program program = {.args = args, .env = env, .cwd = folder};
    struct tn_program_env_spec spec = {.name = "n", .id = "i", .epoch = 7};
    struct tenure_error err;
    int block = -1;

    snprintf(text, sizeof text, "%s", script);
    sigemptyset(&program.mask);
    assert_int_equal(tn_program_block(&program, &spec, &block, &err), TENURE_OK);
    return block;
}

static void spawn_on(int socket, uint32_t number, const char *script)
{
    struct tn_launcher_command c = {.kind = TN_GUARD_SPAWN, .number = number};
    int block = describe(script);

    assert_true(tn_pass_fds(socket, &c, sizeof c, &block, 1));
    close(block);
}

static void stop(const struct bed *b, uint32_t number, int64_t by_ns)
{
    struct tn_launcher_command c = {
        .kind = TN_GUARD_STOP, .number = number, .signal = SIGTERM, .by_ns = by_ns};

    assert_int_equal(send(b->socket, &c, sizeof c, 0), sizeof c);
}

static struct tn_launcher_report next_on(int socket)
{
    struct pollfd fd = {.fd = socket, .events = POLLIN};
    struct tn_launcher_report r;

    if (tn_poll(&fd, 1, tenure_now() + PATIENCE_NS) <= 0)
        fail_msg("the launcher says nothing");
    assert_int_equal(recv(socket, &r, sizeof r, 0), sizeof r);
    return r;
}

static struct tn_launcher_report expect_on(int socket, uint32_t kind, uint32_t number)
{
    struct tn_launcher_report r = next_on(socket);

    assert_int_equal(r.kind, kind);
    assert_int_equal(r.number, number);
    return r;
}

static struct tn_launcher_report expect(const struct bed *b, uint32_t kind, uint32_t number)
{
    return expect_on(b->socket, kind, number);
}

/* A program's process id, which its script has put into a file of that name. */
static pid_t pid_in(const char *name)
{
    int64_t limit = tenure_now() + PATIENCE_NS;
    char path[128], text[32];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    for (;;) {
        FILE *file = fopen(path, "re");
        bool whole = file && fgets(text, sizeof text, file) && strchr(text, '\n');

        if (file)
            fclose(file);
        if (whole) {
            unlink(path);
            return (pid_t)strtol(text, NULL, 10);
        }
        assert_true(tenure_now() < limit);
        usleep(1000);
    }
}

static bool is_alive(pid_t pid)
{
    return kill(pid, 0) == 0;
}

/* ---- Tests --------------------------------------------------------------- */

static void test_one_is_stopped_and_the_other_goes_on(void **state)
{
    struct bed *b = *state;

    spawn_on(b->socket, 1, "exec sleep 1000");
    pid_t one = expect(b, TN_GUARD_SPAWNED, 1).pid;
    spawn_on(b->socket, 2, "exec sleep 1000");
    pid_t two = expect(b, TN_GUARD_SPAWNED, 2).pid;
    assert_true(is_alive(one) && is_alive(two));
    stop(b, 1, tenure_now() + PATIENCE_NS);
    struct tn_launcher_report r = expect(b, TN_GUARD_EXITED, 1);
    assert_true(WIFSIGNALED(r.status) && WTERMSIG(r.status) == SIGTERM);
    expect(b, TN_GUARD_DEAD, 1);
    assert_false(is_alive(one));
    assert_true(is_alive(two));
    spawn_on(b->socket, 1, "exit 3"); /* its number is free again */
    expect(b, TN_GUARD_SPAWNED, 1);
    assert_int_equal(WEXITSTATUS(expect(b, TN_GUARD_EXITED, 1).status), 3);
    expect(b, TN_GUARD_DEAD, 1);
    hang_up(b);
    assert_false(is_alive(two));
}

/* DEAD means all of it: also what has left its process group and its parent. */
static void test_what_a_program_leaves_behind_dies_with_it(void **state)
{
    struct bed *b = *state;

    spawn_on(b->socket, 7, "setsid sh -c 'echo $$ >left; exec sleep 1000' & wait");
    expect(b, TN_GUARD_SPAWNED, 7);
    pid_t left = pid_in("left");
    stop(b, 7, tenure_now() + PATIENCE_NS);
    expect(b, TN_GUARD_EXITED, 7);
    expect(b, TN_GUARD_DEAD, 7);
    assert_false(is_alive(left));
}

static void test_what_ignores_the_signal_is_killed(void **state)
{
    struct bed *b = *state;

    spawn_on(b->socket, 1, "trap '' TERM; echo $$ >deaf; while :; do sleep 1000; done");
    expect(b, TN_GUARD_SPAWNED, 1);
    pid_t deaf = pid_in("deaf");
    stop(b, 1, tenure_now() + TN_MS);
    expect(b, TN_GUARD_DEAD, 1);
    assert_false(is_alive(deaf));
}

/* Somebody kills an init, or stops it: what hung from it is found all the same. */
static void test_an_init_that_is_attacked(void **state)
{
    struct bed *b = *state;

    spawn_on(b->socket, 1,
             "echo $PPID >init; setsid sh -c 'echo $$ >left; exec sleep 1000' & wait");
    expect(b, TN_GUARD_SPAWNED, 1);
    spawn_on(b->socket, 2, "exec sleep 1000");
    pid_t other = expect(b, TN_GUARD_SPAWNED, 2).pid;
    pid_t left = pid_in("left");
    kill(pid_in("init"), SIGKILL);
    expect(b, TN_GUARD_DEAD, 1);
    assert_false(is_alive(left));
    assert_true(is_alive(other));

    spawn_on(b->socket, 3, "echo $PPID >init; exec sleep 1000");
    pid_t three = expect(b, TN_GUARD_SPAWNED, 3).pid;
    kill(pid_in("init"), SIGSTOP);
    stop(b, 3, tenure_now() + TN_MS);
    expect(b, TN_GUARD_DEAD, 3);
    assert_false(is_alive(three));
}

static void test_orders_that_make_no_sense(void **state)
{
    struct bed *b = *state;
    char missing[] = "/no/such/program";
    char *const args[] = {missing, NULL}, *env[] = {NULL};
    struct tn_program program = {.args = args, .env = env};
    struct tn_program_env_spec spec = {.name = "n", .id = "i"};
    struct tn_launcher_command c = {.kind = TN_GUARD_SPAWN, .number = 5};
    struct tn_launcher_report r;
    struct tenure_error err;
    int block;

    stop(b, 9, 0); /* nothing runs under it: what ran has been reported, and nothing is said */
    spawn_on(b->socket, 1, "exec sleep 1000");
    expect(b, TN_GUARD_SPAWNED, 1);
    spawn_on(b->socket, 1, "exit");
    expect(b, TN_GUARD_REFUSED, 1);
    assert_int_equal(send(b->socket, &c, sizeof c, 0), sizeof c); /* without a description */
    r = expect(b, TN_GUARD_FAILED, 5);
    assert_int_equal(r.stage, TN_STAGE_BLOCK);
    while (next_on(b->socket).kind != TN_GUARD_DEAD)
        continue;
    sigemptyset(&program.mask);
    assert_int_equal(tn_program_block(&program, &spec, &block, &err), TENURE_OK);
    assert_true(tn_pass_fds(b->socket, &c, sizeof c, &block, 1));
    close(block);
    r = expect(b, TN_GUARD_FAILED, 5);
    assert_int_equal(r.error, ENOENT);
    assert_int_equal(r.stage, TN_STAGE_EXEC);
    while (next_on(b->socket).kind != TN_GUARD_DEAD)
        continue;
    stop(b, 1, tenure_now() + PATIENCE_NS);
    expect(b, TN_GUARD_EXITED, 1);
    expect(b, TN_GUARD_DEAD, 1);
}

/* Many that end while others begin: an init that is young has copies of the others' sockets. */
static void test_many_that_come_and_go(void **state)
{
    struct bed *b = *state;
    unsigned begun = 0, dead = 0;

    while (dead < 400) {
        for (; begun < 400 && begun - dead < 24; begun++)
            spawn_on(b->socket, begun, "exit 0");
        dead += next_on(b->socket).kind == TN_GUARD_DEAD;
    }
}

/* The deadline of the guard is everybody's, and only the launcher has the socket. */
static void test_the_guard_ends_them_all(void **state)
{
    const struct tn_guard_wish wish = {
        .contain = TN_CONTAIN_GROUP, .kill_ns = 200 * TN_S, .stop_signal = SIGTERM};
    char *const args[] = {guard_path, launcher_arg, NULL}, *env[] = {NULL};
    struct tn_program program = {.args = args, .env = env};
    struct tn_program_env_spec spec = {.name = "n", .id = "i", .epoch = 7};
    struct tn_guard_link link;
    struct tn_guard_report report;
    struct tenure_error err;
    pid_t pids[20];
    int ends[2], block;

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    assert_int_equal(tn_guard_link_open(&link, &wish, &err), TENURE_OK);
    if (tn_guard_link_start(&link, &err) != TENURE_OK)
        fail_msg("%s", err.text);
    assert_true(tn_guard_link_publish(&link, tenure_now() + 600 * TN_S));
    sigemptyset(&program.mask);
    assert_int_equal(tn_program_block(&program, &spec, &block, &err), TENURE_OK);
    assert_true(tn_guard_link_spawn(&link, block, ends[1]));
    close(block);
    close(ends[1]);
    for (uint32_t i = 0; i < 20; i++)
        spawn_on(ends[0], i,
                 i % 2 ? "exec sleep 1000" : "ls /proc/self/fd | wc -l >fds; sleep 1000");
    for (uint32_t i = 0; i < 20; i++) {
        struct tn_launcher_report r = next_on(ends[0]);

        assert_int_equal(r.kind, TN_GUARD_SPAWNED);
        pids[r.number] = r.pid;
    }
    assert_int_equal(pid_in("fds"), 4); /* 0, 1, 2, and the one with which ls looks */
    assert_true(tn_guard_link_publish(&link, tenure_now() + 200 * TN_MS));
    do {
        struct pollfd fd = {.fd = link.socket, .events = POLLIN};

        assert_int_equal(tn_poll(&fd, 1, tenure_now() + PATIENCE_NS), 1);
        assert_true(tn_guard_link_next(&link, &report));
    } while (report.kind != TN_GUARD_DEAD);
    for (int i = 0; i < 20; i++)
        assert_false(is_alive(pids[i]));
    close(ends[0]);
    tn_guard_link_quit(&link);
    tn_guard_link_close(&link);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_one_is_stopped_and_the_other_goes_on, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_what_a_program_leaves_behind_dies_with_it, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_what_ignores_the_signal_is_killed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_an_init_that_is_attacked, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_orders_that_make_no_sense, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_many_that_come_and_go, set_up, tear_down),
        cmocka_unit_test(test_the_guard_ends_them_all),
    };

    if (argc < 2)
        return run_beside_the_guard(argv);
    if (!mkdtemp(folder) || chmod(folder, 0755) != 0)
        return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command) == 0 ? failed : 1;
}
