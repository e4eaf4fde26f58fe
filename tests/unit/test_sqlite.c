/*
 * sqlite: where it differs from other stores: its URL, its file, its locks, its
 * log, and how it waits.  What every store must do is in tests/conformance.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "sqlite_kit.h"

static const struct tenure_token absent;

/* ---- The URL and the file ------------------------------------------------- */

static void url_forms(void **state)
{
    tenure_store *store = NULL;
    char url[300];

    (void)state;
    assert_int_equal(chdir(kit_dir), 0);
    assert_int_equal(tenure_store_open("sqlite:a.db", kit_soon(), &store, &kit_err), TENURE_OK);
    /* A later chdir() does not matter. */
    assert_int_equal(chdir("/"), 0);
    struct tenure_token token = absent;
    assert_int_equal(kit_put(store, "k", &token, "x", 1), TENURE_OK);
    tenure_store_close(store);
    snprintf(url, sizeof url, "sqlite://%s/a.db", kit_dir);
    assert_int_equal(tenure_store_open(url, kit_soon(), &store, &kit_err), TENURE_OK);
    struct tenure_value value = {0};
    assert_int_equal(kit_read(store, "k", &value), TENURE_OK);
    assert_true(tenure_token_equal(&value.token, &token));
    tenure_value_free(&value);
    tenure_store_close(store);
    /* Names that mean something to SQLite are only names here. */
    snprintf(url, sizeof url, "sqlite:%s/:memory:", kit_dir);
    assert_int_equal(tenure_store_open(url, kit_soon(), &store, &kit_err), TENURE_OK);
    tenure_store_close(store);
    snprintf(url, sizeof url, "%s/:memory:", kit_dir);
    assert_true(kit_size(url) > 0);
}

static void url_refused(void **state)
{
    char url[700];

    (void)state;
    kit_refused("sqlite:", TENURE_CONFIG, "name of a file");
    kit_refused("sqlite:/tmp/", TENURE_CONFIG, "name of a file");
    kit_refused("sqlite://host/path.db", TENURE_CONFIG, "no host");
    kit_refused("sqlite:/tmp/x.db?mode=ro", TENURE_CONFIG, "mode");
    snprintf(url, sizeof url, "sqlite:/%0600d", 1);
    kit_refused(url, TENURE_CONFIG, "longer than");
}

static mode_t mode_of(const char *path)
{
    struct stat st;

    assert_int_equal(stat(path, &st), 0);
    return st.st_mode & 0777;
}

static void file_as_made(void **state)
{
    char answer[200], wal[200];
    struct tenure_token token = absent;
    tenure_store *store = kit_open();

    (void)state;
    assert_int_equal(kit_put(store, "k", &token, "x", 1), TENURE_OK);
    snprintf(wal, sizeof wal, "%s-wal", kit_path);
    assert_int_equal(mode_of(kit_path), 0600);
    assert_int_equal(mode_of(wal), 0600);
    kit_ask(kit_path, "PRAGMA journal_mode", answer);
    assert_string_equal(answer, "wal");
    kit_ask(kit_path, "PRAGMA application_id", answer);
    assert_string_equal(answer, "1952804469");
    kit_ask(kit_path, "PRAGMA user_version", answer);
    assert_string_equal(answer, "1");
    tenure_store_close(store);
    /* The last one to close leaves one whole file behind. */
    assert_int_equal(kit_size(wal), -1);
    kit_ask(kit_path, "SELECT data FROM register WHERE key = 'k'", answer);
    assert_string_equal(answer, "x");
}

/* Numbers are shared by all registers and never come back (C2). */
static void versions_rise(void **state)
{
    struct tenure_token a = absent, b = absent;
    tenure_store *store = kit_open();
    long last = 0;

    (void)state;
    for (int i = 0; i < 20; i++) {
        struct tenure_token *token = i % 3 ? &a : &b;

        assert_int_equal(kit_put(store, i % 3 ? "a" : "b", token, "x", 1), TENURE_OK);
        assert_true(strtol(token->version, NULL, 10) > last);
        last = strtol(token->version, NULL, 10);
        if (i == 10) {
            tenure_store_close(store);
            store = kit_open();
        }
    }
    tenure_store_close(store);
}

static void strange_tokens(void **state)
{
    static const char *const versions[] = {"",
                                           "0",
                                           "01",
                                           " 1",
                                           "1 ",
                                           "+1",
                                           "-1",
                                           "1x",
                                           "0x1",
                                           "2",
                                           "9223372036854775807",
                                           "9223372036854775808",
                                           "99999999999999999999999999"};
    struct tenure_token token = absent;
    tenure_store *store = kit_open();

    (void)state;
    assert_int_equal(kit_put(store, "k", &token, "x", 1), TENURE_OK);
    assert_string_equal(token.version, "1");
    for (size_t i = 0; i < sizeof versions / sizeof versions[0]; i++) {
        struct tenure_token wrong = token;

        memset(wrong.version, 0, sizeof wrong.version);
        strcpy(wrong.version, versions[i]);
        assert_int_equal(kit_put(store, "k", &wrong, "y", 1), TENURE_CONFLICT);
    }
    assert_int_equal(kit_put(store, "k", &token, "y", 1), TENURE_OK);
    tenure_store_close(store);
}

/* ---- Using the handle from within a listing -------------------------------- */

struct inner {
    tenure_store *store;
    tenure_store *other;
    unsigned n;
};

static bool none(void *arg, const char *key, const struct tenure_value *value)
{
    (void)arg;
    (void)key;
    (void)value;
    return true;
}

/* A swap by somebody else must show in a read, although the listing began before. */
static bool visit_and_use(void *arg, const char *key, const struct tenure_value *value)
{
    struct inner *in = arg;
    struct tenure_value now = {0};
    struct tenure_token token = value->token;

    in->n++;
    assert_int_equal(kit_put(in->other, key, &token, "other", 5), TENURE_OK);
    assert_int_equal(kit_read(in->store, key, &now), TENURE_OK);
    assert_true(tenure_token_equal(&now.token, &token));
    assert_int_equal(kit_put(in->store, key, &token, "own", 3), TENURE_OK);
    assert_int_equal(
        tenure_store_list(in->store, "k", NULL, none, NULL, NULL, kit_soon(), &kit_err), TENURE_OK);
    tenure_value_free(&now);
    return true;
}

static void list_and_use(void **state)
{
    struct inner in = {.store = kit_open(), .other = kit_open()};
    char key[8];

    (void)state;
    for (int i = 0; i < 10; i++) {
        struct tenure_token token = absent;

        snprintf(key, sizeof key, "k%d", i);
        assert_int_equal(kit_put(in.store, key, &token, "x", 1), TENURE_OK);
    }
    assert_int_equal(
        tenure_store_list(in.store, "k", NULL, visit_and_use, &in, NULL, kit_soon(), &kit_err),
        TENURE_OK);
    assert_int_equal(in.n, 10);
    tenure_store_close(in.store);
    tenure_store_close(in.other);
}

/* ---- Locks ---------------------------------------------------------------- */

/* Somebody sits in a transaction: swaps end at their deadline, certain that
 * nothing happened, and reads go on. */
static void locked(void **state)
{
    struct tenure_token token = absent, before;
    struct tenure_value value = {0};
    struct tenure_swap swaps[2] = {{.key = "k", .data = "y", .len = 1}, {.key = "m"}};
    tenure_store *store = kit_open(), *fresh = NULL;

    (void)state;
    assert_int_equal(kit_put(store, "k", &token, "x", 1), TENURE_OK);
    before = token;
    sqlite3 *db = kit_raw(kit_path);
    kit_exec(db, "BEGIN IMMEDIATE");
    swaps[0].expect = token;
    memset(swaps[0].nonce, 1, TENURE_NONCE_SIZE);
    memset(swaps[1].nonce, 2, TENURE_NONCE_SIZE);
    /* More than once, if this process sleeps over its deadline before it starts. */
    for (int tries = 0; tries < 20 && !strstr(kit_err.text, "lock"); tries++) {
        int64_t deadline = tenure_now() + 30000000;

        assert_int_equal(tenure_store_swap(store, &swaps[0], deadline, &kit_err), TENURE_TIMEOUT);
        assert_true(tenure_now() >= deadline);
    }
    assert_non_null(strstr(kit_err.text, "lock"));
    assert_int_equal(tenure_store_swap_many(store, swaps, 2, tenure_now() + 30000000, &kit_err),
                     TENURE_TIMEOUT);
    assert_int_equal(swaps[0].status, TENURE_TIMEOUT);
    assert_int_equal(swaps[1].status, TENURE_TIMEOUT);
    assert_int_equal(kit_read(store, "k", &value), TENURE_OK);
    assert_true(tenure_token_equal(&value.token, &before));
    /* Opening does not need the lock either. */
    assert_int_equal(tenure_store_open(kit_url, kit_soon(), &fresh, &kit_err), TENURE_OK);
    tenure_store_close(fresh);
    kit_exec(db, "ROLLBACK");
    sqlite3_close(db);
    assert_int_equal(kit_put(store, "k", &token, "y", 1), TENURE_OK);
    tenure_value_free(&value);
    tenure_store_close(store);
}

/* ---- The log -------------------------------------------------------------- */

/* Nine pages, each of them new: one that is as it was is not written. */
static void put_new(tenure_store *store, struct tenure_token *token, int i)
{
    static char data[8000];

    memset(data, i, sizeof data);
    assert_int_equal(kit_put(store, "k", token, data, sizeof data), TENURE_OK);
}

/* Two handles, so that the log is never removed: it must be begun anew. */
static void log_stays_short(void **state)
{
    struct tenure_token token = absent;
    tenure_store *store = kit_open(), *idle = kit_open();
    struct tenure_value value = {0};
    char wal[200], answer[200];

    (void)state;
    snprintf(wal, sizeof wal, "%s-wal", kit_path);
    assert_int_equal(kit_read(idle, "k", &value), TENURE_OK);
    for (int i = 0; i < 2000; i++)
        put_new(store, &token, i);
    /* 2000 commits of nine pages each would be 18 MiB; checkpoints are due at 4. */
    assert_in_range(kit_size(wal), 1, 6 << 20);
    assert_int_equal(kit_read(idle, "k", &value), TENURE_OK);
    assert_true(tenure_token_equal(&value.token, &token));
    kit_ask(kit_path, "PRAGMA integrity_check", answer);
    assert_string_equal(answer, "ok");
    tenure_value_free(&value);
    tenure_store_close(store);
    tenure_store_close(idle);
}

/* A reader in the middle of the log keeps it from being begun anew, and a
 * writer in a transaction keeps it from being copied: neither stops swaps. */
static void log_pinned(void **state)
{
    struct tenure_token token = absent;
    tenure_store *store = kit_open();
    char wal[200];

    (void)state;
    snprintf(wal, sizeof wal, "%s-wal", kit_path);
    put_new(store, &token, -1);
    sqlite3 *db = kit_raw(kit_path);
    kit_exec(db, "BEGIN; SELECT * FROM register");
    for (int i = 0; i < 1200; i++)
        put_new(store, &token, i);
    assert_true(kit_size(wal) > 8 << 20);
    kit_exec(db, "COMMIT");
    for (int i = 0; i < 1200; i++)
        put_new(store, &token, i);
    /* Cut to the limit when it began anew. */
    assert_in_range(kit_size(wal), 1, 9 << 20);
    sqlite3_close(db);
    tenure_store_close(store);
}

/* ---- Waiting -------------------------------------------------------------- */

static enum tenure_status wait_key(tenure_store *store, const struct tenure_token *seen,
                                   int64_t deadline)
{
    struct tenure_watch watch = {.key = "k", .seen = *seen};

    return tenure_store_wait(store, &watch, 1, -1, deadline, &kit_err);
}

/* How often this thread went to sleep, and how long it ran, in microseconds. */
static void used(long *sleeps, long *cpu_us)
{
    struct rusage usage;

    getrusage(RUSAGE_THREAD, &usage);
    *sleeps = usage.ru_nvcsw;
    *cpu_us = (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000 + usage.ru_utime.tv_usec +
              usage.ru_stime.tv_usec;
}

/* Own commits and own reads are old news; a wait that nobody disturbs sleeps once. */
static void wait_sleeps(void **state)
{
    struct tenure_token token = absent;
    tenure_store *store = kit_open(), *other = kit_open();

    (void)state;
    /* The first wait subscribes, so that what follows is in the queue. */
    assert_int_equal(wait_key(store, &token, tenure_now() + 1000000), TENURE_TIMEOUT);
    for (int i = 0; i < 5; i++)
        assert_int_equal(kit_put(store, "k", &token, "x", 1), TENURE_OK);
    long sleeps[2], cpu_us[2];
    used(&sleeps[0], &cpu_us[0]);
    assert_int_equal(wait_key(store, &token, tenure_now() + 300000000), TENURE_TIMEOUT);
    used(&sleeps[1], &cpu_us[1]);
    assert_in_range(sleeps[1] - sleeps[0], 0, 3);
    /* It would run all the time if it span. */
    assert_in_range(cpu_us[1] - cpu_us[0], 0, 30000);
    tenure_store_close(other);
    tenure_store_close(store);
}

/* Changes elsewhere do not end a wait on a prefix. */
static void wait_prefix_exact(void **state)
{
    struct tenure_watch watch = {.key = "jobs/", .prefix = true};
    struct tenure_token a = absent, b = absent;
    tenure_store *store = kit_open(), *other = kit_open();

    (void)state;
    assert_int_equal(kit_put(store, "jobs/1", &a, "x", 1), TENURE_OK);
    assert_int_equal(
        tenure_store_list(store, "jobs/", NULL, none, NULL, watch.mark, kit_soon(), &kit_err),
        TENURE_OK);
    for (int i = 0; i < 3; i++)
        assert_int_equal(kit_put(other, "members/1", &b, "x", 1), TENURE_OK);
    assert_int_equal(tenure_store_wait(store, &watch, 1, -1, tenure_now() + 10000000, &kit_err),
                     TENURE_TIMEOUT);
    assert_int_equal(kit_put(other, "jobs/1", &a, "y", 1), TENURE_OK);
    assert_int_equal(tenure_store_wait(store, &watch, 1, -1, kit_soon(), &kit_err), TENURE_OK);
    /* A mark that is not ours, or from a later state than this one. */
    strcpy(watch.mark, "999");
    assert_int_equal(tenure_store_wait(store, &watch, 1, -1, kit_soon(), &kit_err), TENURE_OK);
    strcpy(watch.mark, "");
    assert_int_equal(tenure_store_wait(store, &watch, 1, -1, kit_soon(), &kit_err), TENURE_OK);
    tenure_store_close(other);
    tenure_store_close(store);
}

/* A commit by a process that lives on: only its bell can tell.  The deadline is
 * the failure. */
static void wait_bell(void **state)
{
    struct tenure_token token = absent;
    tenure_store *store = kit_open();

    (void)state;
    assert_int_equal(kit_put(store, "k", &token, "x", 1), TENURE_OK);
    pid_t pid = fork();
    if (pid == 0) {
        tenure_store *own = NULL;

        if (tenure_store_open(kit_url, kit_soon(), &own, &kit_err))
            _exit(1);
        usleep(50000);
        if (kit_put(own, "k", &token, "y", 1))
            _exit(1);
        pause();
    }
    enum tenure_status status = wait_key(store, &token, kit_soon());
    int left = kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    assert_int_equal(status, TENURE_OK);
    assert_int_equal(left, 0);
    tenure_store_close(store);
}

/* Runs in a child, after a while: SQL from a program that knows no bell. */
static pid_t edit_later(const char *sql)
{
    pid_t pid = fork();

    if (pid != 0)
        return pid;
    sqlite3 *db = NULL;
    usleep(50000);
    int rc = sqlite3_open(kit_path, &db);
    if (rc == SQLITE_OK)
        rc = sqlite3_busy_timeout(db, 20000);
    if (rc == SQLITE_OK)
        rc = sqlite3_exec(db, sql, NULL, NULL, NULL);
    sqlite3_close(db);
    _exit(rc == SQLITE_OK ? 0 : 1);
}

static void wait_foreign_edit(void **state)
{
    struct tenure_token token = absent;
    tenure_store *store = kit_open();
    int status;

    (void)state;
    assert_int_equal(kit_put(store, "k", &token, "x", 1), TENURE_OK);
    pid_t pid = edit_later("UPDATE register SET version = version + 1, nonce = randomblob(16)");
    assert_true(pid > 0);
    /* The deadline is the failure: the change would be seen only by then. */
    assert_int_equal(wait_key(store, &token, kit_soon()), TENURE_OK);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    tenure_store_close(store);
}

/* Without inotify it looks at intervals.  As a user of its own, whose instances
 * are used up, so that nobody else on this machine goes without. */
static void wait_deaf(void **state)
{
    int status;

    (void)state;
    if (geteuid() != 0)
        skip();
    kit_refused("sqlite:", TENURE_CONFIG, "name"); /* loads the module, as root */
    assert_int_equal(chown(kit_dir, 54321, 54321), 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct tenure_token token = absent;
        int n = 0;

        if (setresgid(54321, 54321, 54321) || setresuid(54321, 54321, 54321))
            _exit(1);
        while (n < 900 && inotify_init1(IN_CLOEXEC) >= 0)
            n++;
        tenure_store *store = NULL;
        if (n == 900 || tenure_store_open(kit_url, kit_soon(), &store, &kit_err))
            _exit(n == 900 ? 77 : 2);
        if (kit_put(store, "k", &token, "x", 1))
            _exit(3);
        if (wait_key(store, &token, tenure_now() + 200000000) != TENURE_TIMEOUT)
            _exit(4);
        pid_t editor = edit_later("UPDATE register SET nonce = randomblob(16)");
        if (wait_key(store, &token, kit_soon()) != TENURE_OK)
            _exit(5);
        waitpid(editor, &status, 0);
        tenure_store_close(store);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        skip();
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KIT_TEST(url_forms),
        KIT_TEST(url_refused),
        KIT_TEST(file_as_made),
        KIT_TEST(versions_rise),
        KIT_TEST(strange_tokens),
        KIT_TEST(list_and_use),
        KIT_TEST(locked),
        KIT_TEST(log_stays_short),
        KIT_TEST(log_pinned),
        KIT_TEST(wait_sleeps),
        KIT_TEST(wait_prefix_exact),
        KIT_TEST(wait_bell),
        KIT_TEST(wait_foreign_edit),
        KIT_TEST(wait_deaf),
    };

    return cmocka_run_group_tests_name("sqlite", tests, NULL, NULL);
}
