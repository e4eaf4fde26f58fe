/* A worker's programs, against a launcher that the test plays: what is reported late, or twice. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/timing.h"
#include "guard/protocol.h"
#include "os/log.h"
#include "work/fleet.h"

#define ONE 1
#define TWO 2

struct bed {
    struct tn_fleet fleet;
    int launcher; /* its end of the socket */
    int64_t now_ns;
    unsigned stopped[TWO + 1]; /* how often the job's stopped() was called */
};

static void on_stopped(void *arg, uint32_t job, uint64_t epoch)
{
    struct bed *b = arg;

    (void)epoch;
    b->stopped[job]++;
}

static int set_up(void **state)
{
    static char path[] = "/bin/true";
    static char *const args[] = {path, NULL};
    static char *env[] = {NULL};
    static struct tn_program program = {.args = args, .env = env};
    static struct bed b;
    int ends[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    sigemptyset(&program.mask);
    b = (struct bed){.launcher = ends[1], .now_ns = 1000 * TN_S};
    tn_fleet_init(&b.fleet, &(struct tn_fleet_options){.program = &program,
                                                       .group = "g",
                                                       .id = "w",
                                                       .store = "memory:",
                                                       .socket = "TENURE_SOCKET=/none",
                                                       .dir = "/none",
                                                       .stop_signal = SIGTERM,
                                                       .rate = 1000,
                                                       .arg = &b,
                                                       .stopped = on_stopped});
    tn_fleet_attach(&b.fleet, ends[0]);
    *state = &b;
    return 0;
}

static int tear_down(void **state)
{
    struct bed *b = *state;

    close(b->fleet.socket);
    close(b->launcher);
    tn_fleet_free(&b->fleet);
    return 0;
}

/* What the fleet sends next; kind 0: nothing. */
static struct tn_launcher_command command(const struct bed *b)
{
    struct tn_launcher_command c;

    /* The description that comes with a SPAWN is dropped by the kernel. */
    if (recv(b->launcher, &c, sizeof c, MSG_DONTWAIT) != (ssize_t)sizeof c)
        c.kind = 0;
    return c;
}

static void report(const struct bed *b, uint32_t kind, uint32_t number)
{
    struct tn_launcher_report r = {.kind = kind, .number = number, .pid = 1};

    assert_int_equal(send(b->launcher, &r, sizeof r, 0), sizeof r);
}

/* Its number. */
static uint32_t start(struct bed *b, uint32_t job)
{
    b->now_ns += 100 * TN_S; /* it need not wait */
    assert_true(tn_fleet_start(&b->fleet, job, "job", 5, NULL, 0, b->now_ns));
    tn_fleet_act(&b->fleet, b->now_ns);
    struct tn_launcher_command c = command(b);
    assert_int_equal(c.kind, TN_GUARD_SPAWN);
    return c.number;
}

/* A program ends by itself while its job is stopped.  What the launcher says to that stop, if it
 * says anything, is not about the next program. */
static void test_an_old_report_is_of_no_other_job(void **state)
{
    struct bed *b = *state;
    uint32_t one = start(b, ONE);

    report(b, TN_GUARD_SPAWNED, one);
    assert_true(tn_fleet_read(&b->fleet, b->now_ns));
    report(b, TN_GUARD_EXITED, one);
    report(b, TN_GUARD_DEAD, one);
    tn_fleet_stop(&b->fleet, ONE, b->now_ns + TN_S, "moved", b->now_ns);
    tn_fleet_act(&b->fleet, b->now_ns);
    assert_int_equal(command(b).kind, TN_GUARD_STOP);
    assert_true(tn_fleet_read(&b->fleet, b->now_ns));
    assert_int_equal(b->stopped[ONE], 1);

    uint32_t two = start(b, TWO);
    assert_int_not_equal(one, two);
    report(b, TN_GUARD_DEAD, one);
    assert_true(tn_fleet_read(&b->fleet, b->now_ns));
    assert_int_equal(b->stopped[TWO], 0);
    assert_int_equal(tn_fleet_alive(&b->fleet), 1);
    report(b, TN_GUARD_DEAD, two);
    assert_true(tn_fleet_read(&b->fleet, b->now_ns));
    assert_int_equal(b->stopped[TWO], 1);
}

/* It has failed, and is remembered for the pause; the order to stop it comes late. */
static void test_one_start_is_one_stopped(void **state)
{
    struct bed *b = *state;
    uint32_t one = start(b, ONE);

    report(b, TN_GUARD_SPAWNED, one);
    report(b, TN_GUARD_EXITED, one);
    report(b, TN_GUARD_DEAD, one);
    assert_true(tn_fleet_read(&b->fleet, b->now_ns));
    assert_int_equal(b->stopped[ONE], 1);
    tn_fleet_stop(&b->fleet, ONE, b->now_ns + TN_S, "moved", b->now_ns);
    tn_fleet_stop(&b->fleet, TWO, b->now_ns + TN_S, "moved", b->now_ns); /* it never had one */
    assert_int_equal(b->stopped[ONE], 1);
    assert_int_equal(b->stopped[TWO], 0);
}

/* The order to stop it was not sent yet: there is nobody left to send it to. */
static void test_the_dead_are_not_stopped(void **state)
{
    struct bed *b = *state;
    uint32_t one = start(b, ONE);

    report(b, TN_GUARD_SPAWNED, one);
    report(b, TN_GUARD_EXITED, one);
    report(b, TN_GUARD_DEAD, one);
    assert_true(tn_fleet_read(&b->fleet, b->now_ns));
    one = start(b, ONE);
    report(b, TN_GUARD_SPAWNED, one);
    report(b, TN_GUARD_EXITED, one);
    assert_true(tn_fleet_read(&b->fleet, b->now_ns));
    tn_fleet_stop(&b->fleet, ONE, b->now_ns + TN_S, "moved", b->now_ns);
    report(b, TN_GUARD_DEAD, one);
    assert_true(tn_fleet_read(&b->fleet, b->now_ns));
    tn_fleet_act(&b->fleet, b->now_ns);
    assert_int_equal(command(b).kind, 0);
    assert_int_equal(b->stopped[ONE], 2);
}

/* ---- Many jobs of one program ------------------------------------------- */

#define MANY 20000

struct crowd {
    struct tn_fleet fleet;
    uint64_t epoch[MANY];     /* of the run that the program has; 0: none */
    unsigned stopped[MANY];   /* how often the job's stopped() was called */
    uint64_t last_over[MANY]; /* the epoch that it was called with */
};

static void on_give(void *arg, const struct tn_fleet_program *p)
{
    struct crowd *c = arg;

    assert_int_equal(c->epoch[p->job / 16], 0);
    c->epoch[p->job / 16] = p->epoch;
}

static void on_revoke(void *arg, const struct tn_fleet_program *p)
{
    struct crowd *c = arg;

    assert_int_equal(c->epoch[p->job / 16], p->epoch);
    c->epoch[p->job / 16] = 0;
}

static void on_overdue(void *arg, const struct tn_fleet_program *p)
{
    (void)arg;
    (void)p;
    fail();
}

static void on_over(void *arg, uint32_t job, uint64_t epoch)
{
    struct crowd *c = arg;

    c->stopped[job / 16]++;
    c->last_over[job / 16] = epoch;
}

/* Each sixteenth job of a group. */
static void start_some(struct crowd *c, uint32_t from, uint32_t step, uint64_t epoch)
{
    for (uint32_t i = from; i < MANY; i += step)
        assert_true(tn_fleet_start(&c->fleet, 16 * i, "job", epoch, NULL, 0, TN_S));
    tn_fleet_act(&c->fleet, TN_S);
}

static void end_some(struct crowd *c, uint32_t from, uint32_t step, uint64_t epoch)
{
    for (uint32_t i = from; i < MANY; i += step)
        tn_fleet_stop(&c->fleet, 16 * i, 2 * TN_S, "moved", TN_S);
    tn_fleet_act(&c->fleet, TN_S);
    for (uint32_t i = from; i < MANY; i += step) {
        tn_fleet_confirm(&c->fleet, 16 * i, epoch + 1, TN_S); /* of no run */
        tn_fleet_confirm(&c->fleet, 16 * i, epoch, TN_S);
        tn_fleet_confirm(&c->fleet, 16 * i, epoch, TN_S); /* once more: nothing is left */
    }
}

static void test_each_of_many_is_found_after_others_were_forgotten(void **state)
{
    static const struct tn_fleet_host host = {on_give, on_revoke, on_overdue};
    static struct crowd c;

    (void)state;
    tn_log_limit(TN_LEVEL_ERROR);
    tn_fleet_init(&c.fleet,
                  &(struct tn_fleet_options){.host = &host, .arg = &c, .stopped = on_over});
    tn_fleet_attach(&c.fleet, -1);
    start_some(&c, 0, 1, 5);
    end_some(&c, 0, 3, 5);
    assert_int_equal(tn_fleet_alive(&c.fleet), MANY - (MANY + 2) / 3);
    start_some(&c, 0, 3, 7); /* in the places of those */
    for (uint32_t i = 0; i < MANY; i++) {
        assert_int_equal(c.epoch[i], i % 3 ? 5 : 7);
        assert_int_equal(c.stopped[i], i % 3 ? 0 : 1);
    }
    end_some(&c, 1, 3, 5);
    end_some(&c, 2, 3, 5);
    end_some(&c, 0, 3, 7);
    assert_int_equal(tn_fleet_alive(&c.fleet), 0);
    for (uint32_t i = 0; i < MANY; i++) {
        assert_int_equal(c.epoch[i], 0);
        assert_int_equal(c.stopped[i], i % 3 ? 1 : 2);
        assert_int_equal(c.last_over[i], i % 3 ? 5 : 7);
    }
    assert_int_equal(c.fleet.table.count, MANY); /* no place was left unused */
    tn_fleet_free(&c.fleet);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_an_old_report_is_of_no_other_job, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_one_start_is_one_stopped, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_the_dead_are_not_stopped, set_up, tear_down),
        cmocka_unit_test(test_each_of_many_is_found_after_others_were_forgotten),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
