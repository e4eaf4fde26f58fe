/*
 * sqlite: makes its file: whole, or of an empty one, and it is the same; by
 * two threads at once; and where the file system has no files without a name.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>

#include "sqlite_kit.h"

static const struct tenure_token absent;

/* What linkat() does here; the module's calls come to us first. */
static enum { LINKS, REFUSES, LETS_ANOTHER_COME } linking;
static pthread_t other;
static atomic_bool other_is_in;
static bool too_early; /* it was, while our descriptor of the same file was still to be closed */

static void *open_beside(void *arg)
{
    tenure_store *store = NULL;
    struct tenure_error err;

    (void)arg;
    if (tenure_store_open(kit_url, kit_soon(), &store, &err))
        return NULL;
    atomic_store(&other_is_in, true);
    return store;
}

int linkat(int from, const char *old, int to, const char *new, int flags)
{
    if (linking == REFUSES) {
        errno = EOPNOTSUPP;
        return -1;
    }
    int rc = (int)syscall(SYS_linkat, from, old, to, new, flags);
    if (rc == 0 && linking == LETS_ANOTHER_COME) {
        linking = LINKS;
        assert_int_equal(pthread_create(&other, NULL, open_beside, NULL), 0);
        for (int i = 0; i < 30 && !atomic_load(&other_is_in); i++)
            usleep(10000);
        too_early = atomic_load(&other_is_in);
    }
    return rc;
}

static void use_and_close(tenure_store *store)
{
    struct tenure_token token = absent;

    assert_int_equal(kit_put(store, "k", &token, "one", 3), TENURE_OK);
    tenure_store_close(store);
}

/* All that a file says about itself. */
static void describe(char out[1200])
{
    static const char *const questions[] = {
        "PRAGMA integrity_check",
        "PRAGMA page_size",
        "PRAGMA journal_mode",
        "PRAGMA auto_vacuum",
        "PRAGMA encoding",
        "PRAGMA application_id",
        "PRAGMA user_version",
        "SELECT group_concat(name) FROM sqlite_schema",
        "SELECT group_concat(sql) FROM sqlite_schema",
        "SELECT count(*) || ' ' || max(version) FROM register",
    };
    char answer[200];

    out[0] = '\0';
    for (size_t i = 0; i < sizeof questions / sizeof questions[0]; i++) {
        kit_ask(kit_path, questions[i], answer);
        strcat(strcat(out, answer), "; ");
    }
}

static void whole_or_of_an_empty_file(void **state)
{
    char whole[1200], filled[1200], fallen_back[1200];

    (void)state;
    use_and_close(kit_open());
    describe(whole);
    assert_non_null(strstr(whole, "ok; 2048; wal; "));
    kit_unlink();
    kit_write_file(kit_path, "", 0);
    use_and_close(kit_open());
    describe(filled);
    assert_string_equal(filled, whole);
    kit_unlink();
    linking = REFUSES;
    use_and_close(kit_open());
    linking = LINKS;
    describe(fallen_back);
    assert_string_equal(fallen_back, whole);
}

/* A descriptor that is closed takes the locks of its whole process with it, so one thread makes
 * the file and closes it before another opens it. */
static void two_threads(void **state)
{
    void *theirs;

    (void)state;
    linking = LETS_ANOTHER_COME;
    tenure_store *ours = kit_open();
    assert_int_equal(linking, LINKS);
    assert_int_equal(pthread_join(other, &theirs), 0);
    assert_non_null(theirs);
    assert_false(too_early);
    use_and_close(ours);
    tenure_store_close(theirs);
}

/* Whoever made it went away before anything was committed: the next one begins it. */
static void made_but_not_begun(void **state)
{
    struct tenure_value value = {0};
    char answer[200];

    (void)state;
    use_and_close(kit_open());
    kit_outside(kit_path, "DELETE FROM register; PRAGMA user_version = 0");
    tenure_store *store = kit_open();
    kit_ask(kit_path, "PRAGMA user_version", answer);
    assert_string_equal(answer, "1");
    assert_int_equal(kit_read(store, "k", &value), TENURE_OK);
    assert_true(tenure_token_absent(&value.token));
    tenure_value_free(&value);
    tenure_store_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KIT_TEST(whole_or_of_an_empty_file),
        KIT_TEST(two_threads),
        KIT_TEST(made_but_not_begun),
    };

    return cmocka_run_group_tests_name("sqlite_new", tests, NULL, NULL);
}
