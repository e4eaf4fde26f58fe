/*
 * sqlite: many processes on one file: made by all of them at once, opened and
 * closed by all of them, swapped by all of them, and some of them killed in
 * the middle of it.  Every swap that was answered OK counts exactly once.  And
 * one that is stopped while it waits: what it slept over, it hears of.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "sqlite_kit.h"

#define CREW 8

static const struct tenure_token absent;

/* In memory that all processes share. */
static struct shared {
    _Atomic unsigned arrived;
    _Atomic unsigned done[CREW]; /* swaps answered OK, counted by whoever made them */
    _Atomic unsigned unsure;     /* answered UNKNOWN */
    _Atomic unsigned stop;
    int64_t deadline; /* of wait_until_deadline() */
} * shared;

static int map_shared(void **state)
{
    (void)state;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return shared == MAP_FAILED ? -1 : 0;
}

static void meet(unsigned total)
{
    atomic_fetch_add(&shared->arrived, 1);
    while (atomic_load(&shared->arrived) < total && !atomic_load(&shared->stop))
        sched_yield();
}

static int complain(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, kit_err.text);
    atomic_store(&shared->stop, 1); /* nobody waits for this one */
    return 1;
}

static pid_t start(int (*work)(unsigned), unsigned index)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        _exit(work(index));
    assert_true(pid > 0);
    return pid;
}

static bool reap(pid_t pid)
{
    int status;

    return waitpid(pid, &status, 0) == pid && status == 0;
}

static void crew(int (*work)(unsigned))
{
    pid_t pids[CREW];

    memset(shared, 0, sizeof *shared);
    kit_refused("sqlite:", TENURE_CONFIG, "name"); /* loads the module before the fork */
    for (unsigned i = 0; i < CREW; i++)
        pids[i] = start(work, i);
    bool well = true;
    for (unsigned i = 0; i < CREW; i++)
        well = reap(pids[i]) && well;
    assert_true(well);
}

static unsigned total_done(void)
{
    unsigned total = 0;

    for (unsigned i = 0; i < CREW; i++)
        total += atomic_load(&shared->done[i]);
    return total;
}

/* The data of "k" is a number; one more, if nobody else was faster. */
static enum tenure_status add_one(tenure_store *store, struct tenure_value *value)
{
    unsigned number = 0;
    enum tenure_status status = kit_read(store, "k", value);

    if (status)
        return status;
    struct tenure_token token = value->token;
    if (value->len == sizeof number)
        memcpy(&number, value->data, sizeof number);
    number++;
    return kit_put(store, "k", &token, &number, sizeof number);
}

static void assert_number(unsigned low, unsigned high)
{
    struct tenure_value value = {0};
    tenure_store *store = kit_open();
    unsigned number = 0;
    char answer[200];

    assert_int_equal(kit_read(store, "k", &value), TENURE_OK);
    assert_int_equal(value.len, sizeof number);
    memcpy(&number, value.data, sizeof number);
    assert_in_range(number, low, high);
    kit_ask(kit_path, "PRAGMA integrity_check", answer);
    assert_string_equal(answer, "ok");
    tenure_value_free(&value);
    tenure_store_close(store);
}

/* ---- Made by all at once --------------------------------------------------- */

#define ROUNDS 100

static int make_it(unsigned index)
{
    for (unsigned round = 1; round <= ROUNDS; round++) {
        struct tenure_token token = absent;
        tenure_store *store = NULL;
        char url[200];

        snprintf(url, sizeof url, "sqlite:%s/r%u.db", kit_dir, round);
        meet(CREW * round);
        if (tenure_store_open(url, kit_soon(), &store, &kit_err))
            return complain("open");
        enum tenure_status status = kit_put(store, "k", &token, &index, sizeof index);
        if (status == TENURE_OK)
            atomic_fetch_add(&shared->done[index], 1);
        else if (status != TENURE_CONFLICT)
            return complain("create");
        tenure_store_close(store);
    }
    return 0;
}

static void made_at_once(void **state)
{
    (void)state;
    crew(make_it);
    /* One winner a round. */
    assert_int_equal(total_done(), ROUNDS);
}

/* ---- Opened and closed by all: the last one out removes the log -------------- */

static int come_and_go(unsigned index)
{
    struct tenure_value value = {0};

    meet(CREW);
    for (unsigned i = 0; i < 60; i++) {
        tenure_store *store = NULL;

        if (tenure_store_open(kit_url, kit_soon(), &store, &kit_err))
            return complain("open");
        enum tenure_status status = add_one(store, &value);
        if (status == TENURE_OK)
            atomic_fetch_add(&shared->done[index], 1);
        else if (status != TENURE_CONFLICT)
            return complain("swap");
        tenure_store_close(store);
    }
    tenure_value_free(&value);
    return 0;
}

static void opened_and_closed(void **state)
{
    (void)state;
    crew(come_and_go);
    assert_number(total_done(), total_done());
}

/* ---- Swapped by all --------------------------------------------------------- */

static int swap_on(unsigned index)
{
    struct tenure_value value = {0};
    tenure_store *store = NULL;

    if (tenure_store_open(kit_url, kit_soon(), &store, &kit_err))
        return complain("open");
    meet(CREW);
    while (atomic_load(&shared->done[index]) < 150) {
        enum tenure_status status = add_one(store, &value);

        if (status == TENURE_OK)
            atomic_fetch_add(&shared->done[index], 1);
        else if (status != TENURE_CONFLICT)
            return complain("swap");
    }
    tenure_store_close(store);
    tenure_value_free(&value);
    return 0;
}

/* 1,200 swaps on one token each, and more than one checkpoint under way. */
static void swapped_at_once(void **state)
{
    (void)state;
    crew(swap_on);
    assert_int_equal(total_done(), CREW * 150);
    assert_number(CREW * 150, CREW * 150);
}

/* ---- Killed in the middle ---------------------------------------------------- */

#define VICTIMS 3
#define KILLS   40

static int swap_until_stopped(unsigned index)
{
    struct tenure_value value = {0};
    tenure_store *store = NULL;

    if (tenure_store_open(kit_url, kit_soon(), &store, &kit_err))
        return complain("open");
    while (!atomic_load(&shared->stop)) {
        enum tenure_status status = add_one(store, &value);

        if (status == TENURE_OK)
            atomic_fetch_add(&shared->done[index], 1);
        else if (status != TENURE_CONFLICT)
            return complain("swap");
    }
    tenure_store_close(store);
    tenure_value_free(&value);
    return 0;
}

/* Victims are killed wherever they are; the others never see an error, and
 * every answer that was given still holds.  A victim may have committed one
 * swap that it could not count any more. */
static void killed(void **state)
{
    pid_t victims[VICTIMS], others[2];
    unsigned before;

    (void)state;
    memset(shared, 0, sizeof *shared);
    kit_refused("sqlite:", TENURE_CONFIG, "name");
    for (unsigned i = 0; i < 2; i++)
        others[i] = start(swap_until_stopped, VICTIMS + i);
    for (unsigned i = 0; i < VICTIMS; i++)
        victims[i] = start(swap_until_stopped, i);
    for (unsigned i = 0; i < KILLS; i++) {
        int status;

        usleep((i * 7919) % 13 * 500);
        assert_int_equal(kill(victims[i % VICTIMS], SIGKILL), 0);
        assert_int_equal(waitpid(victims[i % VICTIMS], &status, 0), victims[i % VICTIMS]);
        assert_true(WIFSIGNALED(status));
        /* The others go on: one more swap of theirs, after the kill. */
        before = atomic_load(&shared->done[VICTIMS]) + atomic_load(&shared->done[VICTIMS + 1]);
        while (atomic_load(&shared->done[VICTIMS]) + atomic_load(&shared->done[VICTIMS + 1]) ==
                   before &&
               !atomic_load(&shared->stop))
            usleep(100);
        victims[i % VICTIMS] = start(swap_until_stopped, i % VICTIMS);
    }
    atomic_store(&shared->stop, 1);
    bool well = true;
    for (unsigned i = 0; i < VICTIMS; i++)
        well = reap(victims[i]) && well;
    for (unsigned i = 0; i < 2; i++)
        well = reap(others[i]) && well;
    assert_true(well);
    assert_number(total_done(), total_done() + KILLS);
}

/* All of them killed at once, so that the log must be recovered: nothing that
 * was answered OK is gone. */
static void all_killed(void **state)
{
    unsigned allowed = 0;
    pid_t pids[4];

    (void)state;
    memset(shared, 0, sizeof *shared);
    kit_refused("sqlite:", TENURE_CONFIG, "name");
    for (unsigned round = 0; round < 10; round++) {
        unsigned goal = total_done() + 30;

        for (unsigned i = 0; i < 4; i++)
            pids[i] = start(swap_until_stopped, i);
        while (total_done() < goal && !atomic_load(&shared->stop))
            usleep(100);
        assert_false(atomic_load(&shared->stop));
        for (unsigned i = 0; i < 4; i++)
            assert_int_equal(kill(pids[i], SIGKILL), 0);
        for (unsigned i = 0; i < 4; i++)
            assert_int_equal(waitpid(pids[i], NULL, 0), pids[i]);
        allowed += 4;
        assert_number(total_done(), total_done() + allowed);
    }
}

/* ---- Stopped over the deadline ------------------------------------------------ */

/* Exits with what wait() answers to who has seen "k" as it is. */
static int wait_until_deadline(unsigned index)
{
    struct tenure_value value = {0};
    tenure_store *store = NULL;

    (void)index;
    if (tenure_store_open(kit_url, kit_soon(), &store, &kit_err) || kit_read(store, "k", &value))
        return complain("open and read");
    struct tenure_watch watch = {.key = "k", .seen = value.token};
    enum tenure_status status = tenure_store_wait(store, &watch, 1, -1, shared->deadline, &kit_err);
    tenure_value_free(&value);
    tenure_store_close(store);
    return (int)status;
}

/* Has this process a timer?  wait() makes one when it has compared and goes to sleep. */
static bool has_timer(pid_t pid)
{
    char path[64], target[64];
    bool found = false;

    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    DIR *dir = opendir(path);
    for (struct dirent *entry; dir && !found && (entry = readdir(dir));) {
        ssize_t len = readlinkat(dirfd(dir), entry->d_name, target, sizeof target - 1);

        target[len > 0 ? len : 0] = '\0';
        found = strstr(target, "timerfd");
    }
    if (dir)
        closedir(dir);
    return found;
}

/* One attempt, with a deadline so far away; what wait() answered is in *answer.  false: this
 * machine was too slow to write before the deadline, and nothing is proven. */
static bool stop_a_waiter(int64_t span, int *answer)
{
    struct tenure_value value = {0};
    int status = 0;

    shared->deadline = tenure_now() + span;
    pid_t pid = start(wait_until_deadline, 0);
    while (!has_timer(pid) && waitpid(pid, &status, WNOHANG) == 0)
        usleep(100);
    if (kill(pid, SIGSTOP) != 0)
        return false; /* it has reached the deadline, and was reaped */
    tenure_store *store = kit_open();
    enum tenure_status swapped = add_one(store, &value);
    bool in_time = tenure_now() < shared->deadline;
    tenure_value_free(&value);
    tenure_store_close(store);
    while (tenure_now() < shared->deadline)
        usleep(1000);
    kill(pid, SIGCONT);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(swapped, TENURE_OK);
    assert_true(WIFEXITED(status));
    *answer = WEXITSTATUS(status);
    return in_time;
}

/* The bell rang before the deadline, and the waiter comes to look after it.  TIMEOUT would be a
 * lost wake-up: nobody has compared since. */
static void stopped_over_the_deadline(void **state)
{
    int answer = -1;

    (void)state;
    memset(shared, 0, sizeof *shared);
    kit_refused("sqlite:", TENURE_CONFIG, "name");
    for (int64_t span = INT64_C(400000000); !stop_a_waiter(span, &answer); span *= 2)
        assert_true(span < INT64_C(60000000000));
    assert_int_equal(answer, TENURE_OK);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        KIT_TEST(made_at_once), KIT_TEST(opened_and_closed), KIT_TEST(swapped_at_once),
        KIT_TEST(killed),       KIT_TEST(all_killed),        KIT_TEST(stopped_over_the_deadline),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests_name("sqlite_race", tests, map_shared, NULL);
}
