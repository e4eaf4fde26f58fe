/*
 * sqlite: with its files changed under a handle, or while they are being made:
 * what was answered stands, and what is gone is not taken for absent.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "sqlite_kit.h"

static const struct tenure_token absent;

/* ---- The file changed under a handle ---------------------------------------- */

static void replaced(void **state)
{
    struct tenure_token token = absent, other = absent;
    struct tenure_value value = {0};
    char away[200], path[128], url[160];

    (void)state;
    tenure_store *store = kit_open();
    assert_int_equal(kit_put(store, "k", &token, "old", 3), TENURE_OK);
    snprintf(away, sizeof away, "%s/away.db", kit_dir);
    /* Moved away: this is not absence.  Nor does another open of this process make it again. */
    assert_int_equal(rename(kit_path, away), 0);
    kit_refused(kit_url, TENURE_UNAVAILABLE, "removed while in use");
    assert_int_equal(kit_read(store, "k", &value), TENURE_UNAVAILABLE);
    assert_non_null(strstr(kit_err.text, "removed while in use"));
    assert_int_equal(kit_put(store, "k", &token, "lost", 4), TENURE_UNAVAILABLE);
    assert_int_equal(kit_size(kit_path), -1);
    /* Put back: it goes on. */
    assert_int_equal(rename(away, kit_path), 0);
    assert_int_equal(kit_put(store, "k", &token, "new", 3), TENURE_OK);
    /* Another database in its place: both handles see that one from now on. */
    snprintf(path, sizeof path, "%s", kit_path);
    snprintf(url, sizeof url, "%s", kit_url);
    kit_renew();
    tenure_store *fresh = kit_open();
    assert_int_equal(kit_put(fresh, "k", &other, "other", 5), TENURE_OK);
    tenure_store_close(fresh);
    assert_int_equal(rename(kit_path, path), 0);
    assert_int_equal(tenure_store_open(url, kit_soon(), &fresh, &kit_err), TENURE_OK);
    assert_int_equal(kit_put(store, "k", &token, "lost", 4), TENURE_CONFLICT);
    assert_int_equal(kit_read(store, "k", &value), TENURE_OK);
    assert_true(tenure_token_equal(&value.token, &other));
    tenure_value_free(&value);
    tenure_store_close(fresh);
    tenure_store_close(store);
}

/* Somebody tidies the -wal file away while two handles use it: what was
 * answered OK is still there, and the two go on seeing each other. */
static void log_removed(void **state)
{
    struct tenure_token token = absent;
    struct tenure_value value = {0};
    char wal[200];

    (void)state;
    snprintf(wal, sizeof wal, "%s-wal", kit_path);
    tenure_store *store = kit_open();
    assert_int_equal(kit_put(store, "k", &token, "one", 3), TENURE_OK);
    unlink(wal);
    assert_int_equal(kit_read(store, "k", &value), TENURE_OK);
    assert_true(tenure_token_equal(&value.token, &token));
    tenure_store *other = kit_open();
    assert_int_equal(kit_put(other, "k", &token, "two", 3), TENURE_OK);
    assert_int_equal(kit_read(store, "k", &value), TENURE_OK);
    assert_true(tenure_token_equal(&value.token, &token));
    tenure_value_free(&value);
    tenure_store_close(other);
    tenure_store_close(store);
}

/* The same with the -shm file, where the locks are: who came later would have others. */
static void locks_removed(void **state)
{
    struct tenure_token token = absent;
    char shm[200];

    (void)state;
    snprintf(shm, sizeof shm, "%s-shm", kit_path);
    tenure_store *store = kit_open();
    assert_int_equal(kit_put(store, "k", &token, "one", 3), TENURE_OK);
    unlink(shm);
    assert_int_equal(kit_put(store, "k", &token, "two", 3), TENURE_OK);
    assert_true(kit_size(shm) > 0);
    tenure_store_close(store);
}

/* Two names of one file are two logs. */
static void second_name(void **state)
{
    char other[200];

    (void)state;
    tenure_store_close(kit_open());
    snprintf(other, sizeof other, "%s/other.db", kit_dir);
    assert_int_equal(link(kit_path, other), 0);
    kit_refused(kit_url, TENURE_CONFIG, "second name");
    unlink(other);
    tenure_store_close(kit_open());
}

/* A waiter is told when its database is replaced. */
static void replaced_while_waiting(void **state)
{
    struct tenure_watch watch = {.key = "k"};
    char away[200];
    int status;

    (void)state;
    tenure_store *store = kit_open();
    assert_int_equal(kit_put(store, "k", &watch.seen, "x", 1), TENURE_OK);
    snprintf(away, sizeof away, "%s/away.db", kit_dir);
    pid_t pid = fork();
    if (pid == 0) {
        usleep(50000);
        _exit(rename(kit_path, away) != 0);
    }
    assert_int_equal(tenure_store_wait(store, &watch, 1, -1, kit_soon(), &kit_err),
                     TENURE_UNAVAILABLE);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    tenure_store_close(store);
}

/* Another process, in which use() runs and then sleeps; its handle stays open. */
static pid_t beside(void (*use)(tenure_store *store))
{
    int ready[2];
    char byte;

    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        tenure_store *store = kit_open();
        use(store);
        if (write(ready[1], "", 1) == 1)
            pause();
        _exit(1);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
    return pid;
}

static void end(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static void put_one(tenure_store *store)
{
    struct tenure_token token = absent;

    if (kit_put(store, "k", &token, "one", 3))
        _exit(1);
}

/* Everything stood in the log, and that is gone: this is not absence either. */
static void emptied_while_in_use(void **state)
{
    struct tenure_value value = {0};
    char path[200];

    (void)state;
    pid_t pid = beside(put_one);
    tenure_store *store = kit_open();
    assert_int_equal(kit_read(store, "k", &value), TENURE_OK);
    assert_false(tenure_token_absent(&value.token));
    snprintf(path, sizeof path, "%s-wal", kit_path);
    unlink(path);
    snprintf(path, sizeof path, "%s-shm", kit_path);
    unlink(path);
    assert_int_equal(kit_read(store, "k", &value), TENURE_UNAVAILABLE);
    assert_non_null(strstr(kit_err.text, "emptied while in use"));
    tenure_value_free(&value);
    tenure_store_close(store);
    end(pid);
}

/* The bell of a process that has no descriptor left is heard. */
static void rings_without_descriptors(void **state)
{
    struct tenure_watch watch = {.key = "k"};
    struct rlimit limit;
    int status = -1;

    (void)state;
    tenure_store *store = kit_open();
    assert_int_equal(kit_put(store, "k", &watch.seen, "x", 1), TENURE_OK);
    tenure_store_close(store);
    pid_t pid = fork();
    if (pid == 0) {
        store = kit_open();
        _exit(tenure_store_wait(store, &watch, 1, -1, kit_soon(), &kit_err) == TENURE_OK ? 0 : 1);
    }
    store = kit_open();
    int next = dup(0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    close(next);
    setrlimit(RLIMIT_NOFILE, &(struct rlimit){(rlim_t)next, limit.rlim_max});
    /* Until it is heard: the other may not be waiting yet. */
    for (int i = 0; i < 500 && waitpid(pid, &status, WNOHANG) == 0; i++) {
        usleep(10000);
        if (kit_put(store, "k", &watch.seen, "y", 1) != TENURE_OK)
            break;
    }
    setrlimit(RLIMIT_NOFILE, &limit);
    if (status != 0)
        end(pid);
    assert_int_equal(status, 0);
    tenure_store_close(store);
}

/* ---- Made by two at once ---------------------------------------------------- */

static int (*real_open)(const char *, int, int);
static int64_t slow_until;

/* While the log is opened for the first time, another makes the database, writes, and is killed. */
static int slow_open(const char *path, int flags, int mode)
{
    size_t n = strlen(path);

    if (slow_until && n > 4 && strcmp(path + n - 4, "-wal") == 0) {
        int64_t until = slow_until;
        int status = -1;

        slow_until = 0;
        pid_t pid = fork();
        if (pid == 0) {
            execl("/proc/self/exe", "test_sqlite_moved", "writes-and-dies", kit_url, (char *)NULL);
            _exit(1);
        }
        waitpid(pid, &status, 0);
        assert_int_equal(status, 0);
        while (tenure_now() < until)
            usleep(1000);
    }
    return real_open(path, flags, mode);
}

/* One who makes a database of an empty file syncs little, and fails: it does not throw away a log
 * of which others were told. */
static void made_in_vain(void **state)
{
    sqlite3_vfs *vfs = sqlite3_vfs_find("unix");
    struct tenure_value value = {0};
    tenure_store *store = NULL;
    char wal[200];

    (void)state;
    kit_write_file(kit_path, "", 0);
    sqlite3_syscall_ptr before = vfs->xGetSystemCall(vfs, "open");
    memcpy(&real_open, &before, sizeof real_open);
    vfs->xSetSystemCall(vfs, "open", (sqlite3_syscall_ptr)slow_open);
    int64_t deadline = tenure_now() + INT64_C(2000000000);
    slow_until = deadline;
    enum tenure_status status = tenure_store_open(kit_url, deadline, &store, &kit_err);
    vfs->xSetSystemCall(vfs, "open", NULL);
    assert_int_equal(slow_until, 0); /* it was that slow */
    assert_int_equal(status, TENURE_TIMEOUT);
    snprintf(wal, sizeof wal, "%s-wal", kit_path);
    assert_true(kit_size(wal) > 0);
    store = kit_open();
    assert_int_equal(kit_read(store, "k", &value), TENURE_OK);
    assert_int_equal(value.len, 3);
    tenure_value_free(&value);
    tenure_store_close(store);
}

/* What slow_open() starts; it is not closed. */
static int write_and_die(const char *url)
{
    struct tenure_token token = absent;

    if (tenure_store_module_dir(TN_BUILD_DIR, &kit_err))
        _exit(1);
    snprintf(kit_url, sizeof kit_url, "%s", url);
    _exit(kit_put(kit_open(), "k", &token, "one", 3) ? 1 : 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        KIT_TEST(replaced),
        KIT_TEST(log_removed),
        KIT_TEST(locks_removed),
        KIT_TEST(second_name),
        KIT_TEST(emptied_while_in_use),
        KIT_TEST(replaced_while_waiting),
        KIT_TEST(rings_without_descriptors),
        KIT_TEST(made_in_vain),
    };

    if (argc == 3 && strcmp(argv[1], "writes-and-dies") == 0)
        return write_and_die(argv[2]);
    return cmocka_run_group_tests_name("sqlite_moved", tests, NULL, NULL);
}
