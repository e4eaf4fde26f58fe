/*
 * sqlite: with every allocation of SQLite's failed in turn.  Each call says so
 * or succeeds; what it says is true; and the handle works again afterwards.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define KIT_PARENT "/dev/shm"
#include "sqlite_kit.h"

static const struct tenure_token absent;
static sqlite3_mem_methods real;
static long countdown; /* the n-th allocation from now fails; 0: none does */
static bool failed;

static bool fails(void)
{
    if (countdown == 0 || --countdown > 0)
        return false;
    failed = true;
    return true;
}

static void *fail_malloc(int n)
{
    return fails() ? NULL : real.xMalloc(n);
}

static void *fail_realloc(void *block, int n)
{
    return fails() ? NULL : real.xRealloc(block, n);
}

static int setup(void **state)
{
    sqlite3_mem_methods ours;

    (void)state;
    if (sqlite3_config(SQLITE_CONFIG_GETMALLOC, &real) != SQLITE_OK)
        return -1;
    ours = real;
    ours.xMalloc = fail_malloc;
    ours.xRealloc = fail_realloc;
    return sqlite3_config(SQLITE_CONFIG_MALLOC, &ours) == SQLITE_OK ? 0 : -1;
}

static void arm(long n)
{
    failed = false;
    countdown = n;
}

/* ---- One call at a time, again and again until it no longer runs out --------- */

static tenure_store *store;

/* OK unless memory ran out. */
static void judge(enum tenure_status status, const char *what, long n)
{
    countdown = 0;
    if (status == TENURE_OK || (failed && status == TENURE_NOMEM))
        return;
    fail_msg("%s, allocation %ld: '%s': %s", what, n, tenure_status_word(status), kit_err.text);
}

static void opens(void **state)
{
    (void)state;
    for (long n = 1;; n++) {
        struct tenure_value value = {0};
        enum tenure_status status;

        store = NULL;
        arm(n);
        status = tenure_store_open(kit_url, kit_soon(), &store, &kit_err);
        judge(status, "open", n);
        assert_true((status == TENURE_OK) == (store != NULL));
        bool more = failed;
        tenure_store_close(store);
        store = kit_open();
        assert_int_equal(kit_read(store, "k", &value), TENURE_OK);
        tenure_value_free(&value);
        tenure_store_close(store);
        if (n % 2)
            kit_renew(); /* made anew every other time */
        if (!more && n % 2 == 0)
            break;
    }
}

static void reads(void **state)
{
    static char data[100000];
    struct tenure_token token = absent;

    (void)state;
    tenure_store_close(kit_open());
    for (long n = 1; n == 1 || failed; n++) {
        struct tenure_value value = {0};

        store = kit_open();
        if (n == 1)
            assert_int_equal(kit_put(store, "k", &token, data, sizeof data), TENURE_OK);
        arm(n);
        enum tenure_status status = kit_read(store, "k", &value);
        judge(status, "read", n);
        if (!status)
            assert_true(tenure_token_equal(&value.token, &token));
        bool more = failed;
        assert_int_equal(kit_read(store, "k", &value), TENURE_OK);
        assert_true(tenure_token_equal(&value.token, &token));
        tenure_value_free(&value);
        tenure_store_close(store);
        failed = more;
    }
}

/* A commit that runs out of memory is UNKNOWN, and a read tells. */
static void swaps(void **state)
{
    struct tenure_token token = absent;

    (void)state;
    for (long n = 1; n == 1 || failed; n++) {
        struct tenure_value value = {0};
        struct tenure_token next = token;

        store = kit_open();
        arm(n);
        enum tenure_status status = kit_put(store, "k", &next, "x", 1);
        countdown = 0;
        bool more = failed;
        assert_true(status == TENURE_OK ||
                    (failed && (status == TENURE_NOMEM || status == TENURE_UNKNOWN)));
        assert_int_equal(kit_read(store, "k", &value), TENURE_OK);
        if (status == TENURE_OK)
            assert_true(tenure_token_equal(&value.token, &next));
        else if (status == TENURE_NOMEM)
            assert_true(tenure_token_equal(&value.token, &token));
        token = value.token;
        assert_int_equal(kit_put(store, "k", &token, "y", 1), TENURE_OK);
        tenure_value_free(&value);
        tenure_store_close(store);
        failed = more;
    }
}

static bool count(void *arg, const char *key, const struct tenure_value *value)
{
    (void)key;
    (void)value;
    ++*(unsigned *)arg;
    return true;
}

static void lists_and_waits(void **state)
{
    struct tenure_token token = absent;

    (void)state;
    store = kit_open();
    assert_int_equal(kit_put(store, "a/1", &token, "x", 1), TENURE_OK);
    token = absent;
    assert_int_equal(kit_put(store, "a/2", &token, "x", 1), TENURE_OK);
    tenure_store_close(store);
    for (long n = 1; n == 1 || failed; n++) {
        struct tenure_watch watches[2] = {{.key = "a/", .prefix = true}, {.key = "a/2"}};
        unsigned seen = 0;

        store = kit_open();
        arm(n);
        enum tenure_status status = tenure_store_list(store, "a/", NULL, count, &seen,
                                                      watches[0].mark, kit_soon(), &kit_err);
        judge(status, "list", n);
        if (!status)
            assert_int_equal(seen, 2);
        bool more = failed;
        strcpy(watches[0].mark, "1"); /* a/2 came later: a change */
        watches[1].seen = token;
        arm(n);
        judge(tenure_store_wait(store, watches, 2, -1, kit_soon(), &kit_err), "wait", n);
        failed = failed || more;
        tenure_store_close(store);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {KIT_TEST(opens), KIT_TEST(reads), KIT_TEST(swaps),
                                       KIT_TEST(lists_and_waits)};

    return cmocka_run_group_tests_name("sqlite_memory", tests, setup, NULL);
}
