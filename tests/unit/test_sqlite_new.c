/*
 * sqlite: makes its file: whole, or of an empty one, and it is the same; by two
 * threads at once; where a file cannot be named so; beside what others left; and
 * whatever descriptors the process has.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <limits.h>
#include <pthread.h>
#include <sys/syscall.h>

#include "sqlite_kit.h"

static const struct tenure_token absent;

/* What renameat2() does here; the module's calls come to us first. */
static enum { RENAMES, REFUSES, LETS_ANOTHER_COME } renaming;
static int renamed;     /* files, so far */
static bool still_open; /* one of them was, when it got its name */
static pthread_t other;

static void *open_beside(void *arg)
{
    tenure_store *store = NULL;
    struct tenure_error err;

    (void)arg;
    return tenure_store_open(kit_url, kit_soon(), &store, &err) ? NULL : store;
}

static bool is_open(const char *path)
{
    char link[64], to[PATH_MAX];

    for (int fd = 0; fd < 256; fd++) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        ssize_t n = readlink(link, to, sizeof to - 1);
        to[n > 0 ? n : 0] = '\0';
        if (strcmp(to, path) == 0)
            return true;
    }
    return false;
}

int renameat2(int from, const char *old, int to, const char *new, unsigned flags)
{
    if (renaming == REFUSES) {
        errno = EINVAL;
        return -1;
    }
    still_open |= is_open(old);
    int rc = (int)syscall(SYS_renameat2, from, old, to, new, flags);
    renamed += rc == 0;
    if (rc == 0 && renaming == LETS_ANOTHER_COME) {
        renaming = RENAMES;
        assert_int_equal(pthread_create(&other, NULL, open_beside, NULL), 0);
    }
    return rc;
}

static void nothing_is_left(void)
{
    char fresh[PATH_MAX];

    snprintf(fresh, sizeof fresh, "%s-new", kit_path);
    assert_int_equal(access(fresh, F_OK), -1);
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
    kit_renew();
    kit_write_file(kit_path, "", 0);
    use_and_close(kit_open());
    describe(filled);
    assert_string_equal(filled, whole);
    kit_renew();
    renaming = REFUSES;
    use_and_close(kit_open());
    renaming = RENAMES;
    nothing_is_left();
    describe(fallen_back);
    assert_string_equal(fallen_back, whole);
}

/* A descriptor that is closed takes the locks of its whole process with it, so one thread has
 * closed the file before another can open it. */
static void two_threads(void **state)
{
    void *theirs;

    (void)state;
    renaming = LETS_ANOTHER_COME;
    tenure_store *ours = kit_open();
    assert_int_equal(renaming, RENAMES);
    assert_int_equal(pthread_join(other, &theirs), 0);
    assert_non_null(theirs);
    assert_false(still_open);
    nothing_is_left();
    use_and_close(ours);
    tenure_store_close(theirs);
}

/* What another left behind, or is still writing, is not touched: an empty file will do. */
static void beside_another_maker(void **state)
{
    char fresh[PATH_MAX];
    struct stat st;

    (void)state;
    renamed = 0;
    snprintf(fresh, sizeof fresh, "%s-new", kit_path);
    kit_write_file(fresh, "half", 4);
    use_and_close(kit_open());
    assert_int_equal(renamed, 0);
    assert_int_equal(stat(fresh, &st), 0);
    assert_int_equal(st.st_size, 4);
    assert_int_equal(unlink(fresh), 0);
}

/* A journal without its database would be rolled back into ours. */
static void beside_a_journal(void **state)
{
    char journal[PATH_MAX];
    tenure_store *store = NULL;
    struct tenure_error err;

    (void)state;
    snprintf(journal, sizeof journal, "%s-journal", kit_path);
    kit_write_file(journal, "pages", 5);
    assert_int_equal(tenure_store_open(kit_url, kit_soon(), &store, &err), TENURE_CORRUPT);
    assert_non_null(strstr(err.text, "-journal is not"));
    assert_int_equal(access(kit_path, F_OK), -1);
    assert_int_equal(unlink(journal), 0);
}

/* Whoever made it went away before anything was committed: the next one begins it. */
static void made_but_not_begun(void **state)
{
    struct tenure_value value = {0};
    char answer[200], made[200];

    (void)state;
    use_and_close(kit_open());
    kit_outside(kit_path, "DELETE FROM register; PRAGMA user_version = 0");
    snprintf(made, sizeof made, "%s/made.db", kit_dir);
    assert_int_equal(rename(kit_path, made), 0);
    kit_renew();
    assert_int_equal(rename(made, kit_path), 0);
    tenure_store *store = kit_open();
    kit_ask(kit_path, "PRAGMA user_version", answer);
    assert_string_equal(answer, "1");
    assert_int_equal(kit_read(store, "k", &value), TENURE_OK);
    assert_true(tenure_token_absent(&value.token));
    tenure_value_free(&value);
    tenure_store_close(store);
}

/* What another thread writes to a standard stream that is closed does not end up in the file. */
static void beside_a_closed_stream(void **state)
{
    int kept = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 100);

    (void)state;
    renamed = 0;
    close(STDIN_FILENO);
    use_and_close(kit_open());
    if (kept >= 0) {
        dup2(kept, STDIN_FILENO);
        close(kept);
    }
    assert_int_equal(renamed, 0);
    nothing_is_left();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KIT_TEST(whole_or_of_an_empty_file), KIT_TEST(two_threads),
        KIT_TEST(beside_another_maker),      KIT_TEST(beside_a_journal),
        KIT_TEST(made_but_not_begun),        KIT_TEST(beside_a_closed_stream),
    };

    return cmocka_run_group_tests_name("sqlite_new", tests, NULL, NULL);
}
