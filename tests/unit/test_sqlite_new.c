/*
 * sqlite: makes its file: whole, or of an empty one, and it is the same; by
 * two threads at once; where the file system has no files without a name, or
 * forgets them; and whatever descriptors the process and the thread have.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/vfs.h>

#include "sqlite_kit.h"

static const struct tenure_token absent;

/* What linkat() does here; the module's calls come to us first. */
static enum { LINKS, REFUSES, LETS_ANOTHER_COME } linking;
static int linked;       /* files, so far */
static int linked_fd;    /* the last one's descriptor */
static uint32_t on_disk; /* what file system the directory is said to be on; 0: the truth */
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
    linked += rc == 0;
    linked_fd = atoi(strrchr(old, '/') + 1);
    if (rc == 0 && linking == LETS_ANOTHER_COME) {
        linking = LINKS;
        assert_int_equal(pthread_create(&other, NULL, open_beside, NULL), 0);
        for (int i = 0; i < 30 && !atomic_load(&other_is_in); i++)
            usleep(10000);
        too_early = atomic_load(&other_is_in);
    }
    return rc;
}

int statfs(const char *path, struct statfs *fs)
{
    int fd = open(path, O_PATH | O_CLOEXEC); /* to close it drops no locks */
    int rc = fd < 0 ? -1 : fstatfs(fd, fs);
    if (fd >= 0)
        close(fd);
    if (rc == 0 && on_disk)
        fs->f_type = on_disk;
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
    if (linking != LINKS) {
        tenure_store_close(ours);
        linking = LINKS;
        skip(); /* this file system is not one of those */
    }
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

/* A flush of a file without a name is worth nothing on btrfs before Linux 6.17: after a power cut
 * the file was empty, beside a log with all that was acknowledged.  An overlay may lie on it. */
static void where_a_flush_counts(void **state)
{
    static const uint32_t others[] = {0x9123683e, 0x794c7630, 0xf2f52010, 0x12345678};
    char whole[1200], made[1200];

    (void)state;
    use_and_close(kit_open());
    describe(whole);
    linked = 0;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        kit_unlink();
        on_disk = others[i];
        use_and_close(kit_open());
        on_disk = 0;
        describe(made);
        assert_string_equal(made, whole);
    }
    assert_int_equal(linked, 0);
}

/* What another thread writes to a standard stream that is closed does not end up in the file. */
static void beside_a_closed_stream(void **state)
{
    int kept = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 100);

    (void)state;
    linked_fd = 100;
    close(STDIN_FILENO);
    use_and_close(kit_open());
    if (kept >= 0) {
        dup2(kept, STDIN_FILENO);
        close(kept);
    }
    assert_true(linked_fd > STDERR_FILENO);
}

static void *open_with_own_descriptors(void *arg)
{
    tenure_store *store = NULL;
    struct tenure_error err;

    if (unshare(CLONE_FILES) != 0)
        return arg;
    close(*(int *)arg);
    enum tenure_status status = tenure_store_open(kit_url, kit_soon(), &store, &err);
    tenure_store_close(store);
    return status ? NULL : arg;
}

/* A thread may have descriptors of its own: the number of ours is another file's elsewhere. */
static void in_a_thread_with_its_own(void **state)
{
    char other_path[160];
    pthread_t thread;
    struct stat st;
    void *fine;

    (void)state;
    use_and_close(kit_open()); /* what is opened once, and stays so */
    kit_unlink();
    snprintf(other_path, sizeof other_path, "%s/other", kit_dir);
    int other_fd = open(other_path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_true(other_fd > STDERR_FILENO);
    assert_int_equal(pthread_create(&thread, NULL, open_with_own_descriptors, &other_fd), 0);
    assert_int_equal(pthread_join(thread, &fine), 0);
    assert_int_equal(fstat(other_fd, &st), 0);
    close(other_fd);
    assert_int_equal(st.st_nlink, 1);
    assert_non_null(fine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KIT_TEST(whole_or_of_an_empty_file), KIT_TEST(two_threads),
        KIT_TEST(made_but_not_begun),        KIT_TEST(where_a_flush_counts),
        KIT_TEST(beside_a_closed_stream),    KIT_TEST(in_a_thread_with_its_own),
    };

    return cmocka_run_group_tests_name("sqlite_new", tests, NULL, NULL);
}
