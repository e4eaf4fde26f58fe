/* Opening a file: store, well and badly. */
#include "file_bed.h"

#include <limits.h>

#define HEX "0123456789abcdef0123456789abcdef"

/* What others do just before the store looks at what is in its directory. */
static void (*before_look)(void);

DIR *opendir(const char *path)
{
    void (*act)(void) = before_look;

    before_look = NULL;
    if (act)
        act();
    return fdopendir(open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

static int setup(void **state)
{
    struct bed *bed = calloc(1, sizeof *bed);

    bed_setup(bed, "");
    *state = bed;
    return 0;
}

static int teardown(void **state)
{
    bed_teardown(*state);
    free(*state);
    return 0;
}

/* Opening url fails with status and says text, in one line. */
static void must_fail(const char *url, enum tenure_status status, const char *text)
{
    struct tenure_error err = {0};
    tenure_store *store = NULL;

    if (tenure_store_open(url, soon(), &store, &err) != status || !strstr(err.text, text) ||
        strchr(err.text, '\n'))
        fail_msg("%s: expected '%s' and %s, saw '%s': %s", url, tenure_status_word(status), text,
                 tenure_status_word(err.code), err.text);
    assert_null(store);
}

static void bad_urls(void **state)
{
    struct bed *bed = *state;
    static const struct {
        const char *params;
        const char *says;
    } rows[] = {
        {"?retain=15", "retain=15"},    {"?retain=0s", "1s"},
        {"?retain=999999h", "604800s"}, {"?poll=1ms", "10ms"},
        {"?poll=x", "poll=x"},          {"?mode=0999", "0770"},
        {"?mode=0077", "owner"},        {"?mode=rwx", "mode=rwx"},
        {"?mode=-1", "mode=-1"},        {"?mode=77777", "mode=77777"},
        {"?fs=disk", "network"},        {"?create=maybe", "yes"},
        {"?color=red", "retain"},       {"?retain=151s", "retain=150s"},
    };
    char url[256];

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        snprintf(url, sizeof url, "file:%s%s", bed->root, rows[i].params);
        must_fail(url, TENURE_CONFIG, rows[i].says);
    }
    must_fail("file:", TENURE_CONFIG, "needs a directory");
    must_fail("file:/", TENURE_CONFIG, "cannot be a store");
    must_fail("file://host/dir", TENURE_CONFIG, "no hosts");
    snprintf(url, sizeof url, "file:%s?retain=150s&mode=0700&poll=2s&fs=local&create=no",
             bed->root);
    tenure_store *store;
    assert_int_equal(tenure_store_open(url, soon(), &store, &bed->err), TENURE_OK);
    tenure_store_close(store);
}

static void forms_of_a_path(void **state)
{
    struct bed *bed = *state;
    char url[256], cwd[PATH_MAX];
    tenure_store *store;

    must_swap(bed->store, bed, KEY, &(struct tenure_token){0}, "x");
    assert_non_null(getcwd(cwd, sizeof cwd));
    assert_int_equal(chdir(bed->dir), 0);
    static const char *const forms[] = {"file:store", "file:./store//", "file://%s",
                                        "file://localhost%s", "file:%s///"};
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        const char *at = strstr(forms[i], "%s");

        snprintf(url, sizeof url, "%.*s%s%s", at ? (int)(at - forms[i]) : (int)strlen(forms[i]),
                 forms[i], at ? bed->root : "", at ? at + 2 : "");
        if (tenure_store_open(url, soon(), &store, &bed->err))
            fail_msg("%s: %s", url, bed->err.text);
        /* The working directory may change under it. */
        assert_int_equal(chdir("/"), 0);
        must_hold(store, bed, KEY, "x");
        assert_int_equal(chdir(bed->dir), 0);
        tenure_store_close(store);
    }
    assert_int_equal(chdir(cwd), 0);
}

static void bad_directories(void **state)
{
    struct bed *bed = *state;
    char url[256], path[256];

    snprintf(url, sizeof url, "file:%s/no/dir", bed->dir);
    must_fail(url, TENURE_CONFIG, "above it is not there");
    snprintf(url, sizeof url, "file:%s/new?create=no", bed->dir);
    must_fail(url, TENURE_UNAVAILABLE, "mounted?");
    snprintf(path, sizeof path, "%s/plain", bed->dir);
    write_file(path, "x", 1);
    snprintf(url, sizeof url, "file:%s", path);
    must_fail(url, TENURE_CONFIG, "is not a directory");
    snprintf(url, sizeof url, "file:%s/below", path);
    must_fail(url, TENURE_CONFIG, "where a directory belongs");
    /* Somebody's directory is not filled with registers. */
    snprintf(url, sizeof url, "file:%s", bed->dir);
    must_fail(url, TENURE_CONFIG, "new or an empty directory");
    snprintf(path, sizeof path, "%s/.tmp", bed->dir);
    assert_int_equal(access(path, F_OK), -1);
    /* Empty but for what a file system puts there: fine. */
    snprintf(path, sizeof path, "%s/mount", bed->dir);
    assert_int_equal(mkdir(path, 0755), 0);
    snprintf(url, sizeof url, "file:%s?create=no", path);
    must_fail(url, TENURE_UNAVAILABLE, "holds no store");
    snprintf(path, sizeof path, "%s/mount/lost+found", bed->dir);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(url, sizeof url, "file:%s/mount", bed->dir);
    tenure_store *store;
    assert_int_equal(tenure_store_open(url, soon(), &store, &bed->err), TENURE_OK);
    tenure_store_close(store);
}

static struct bed *shared;

static void others_make_it(void)
{
    tenure_store *other = bed_open(shared, "?retain=20s");

    must_swap(other, shared, KEY, &(struct tenure_token){0}, "theirs");
    tenure_store_close(other);
}

/* Two who find nothing: the slower one finds a store, not somebody's directory. */
static void opened_by_two(void **state)
{
    struct bed *bed = *state;
    char url[128];

    shared = bed;
    snprintf(bed->root, sizeof bed->root, "%s/both", bed->dir);
    before_look = others_make_it;
    tenure_store *store = bed_open(bed, "");
    must_hold(store, bed, KEY, "theirs");
    tenure_store_close(store);
    /* Their retention counts. */
    snprintf(bed->root, sizeof bed->root, "%s/both2", bed->dir);
    snprintf(url, sizeof url, "file:%s?retain=30s", bed->root);
    before_look = others_make_it;
    must_fail(url, TENURE_CONFIG, "retain=20s");
}

static void bad_markers(void **state)
{
    struct bed *bed = *state;
    static const char *const lines[] = {"",
                                        "\n",
                                        "tenure-file 3 retain=150s\n",
                                        "tenure-file 1 retain=150s",
                                        "tenure-file 1 retain=0s\n",
                                        "tenure-file 1 retain=150s x\n",
                                        "tenure-file 1 retain=\n",
                                        "tenure-file 1 retain=150s\nidentity=\n",
                                        "tenure-file 1 retain=150s\nidentity=" HEX,
                                        "tenure-file 1 retain=150s\nidentity=" HEX "0\n",
                                        "tenure-file 1 retain=150s\nidentity=x" HEX "\n",
                                        "tenure-file 1 retain=150s\nidentity=" HEX "\n\n",
                                        "tenure-file 1 retain=150s\n\n",
                                        "something else\n"};
    char path[128], url[128], long_line[256];

    snprintf(path, sizeof path, "%s/.tenure", bed->root);
    snprintf(url, sizeof url, "file:%s", bed->root);
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        write_file(path, lines[i], strlen(lines[i]));
        must_fail(url, TENURE_CORRUPT, path);
    }
    /* What begins well and is cut where our buffer ends is not well. */
    snprintf(long_line, sizeof long_line, "tenure-file 1 retain=%0*d0s0000\n", 160, 15);
    write_file(path, long_line, strlen(long_line));
    must_fail(url, TENURE_CORRUPT, path);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    must_fail(url, TENURE_CORRUPT, path);
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(symlink("tenure-file 1 retain=20s", path), 0);
    must_fail(url, TENURE_CORRUPT, path);
}

/* ---- Only the first open may make it -------------------------------------- */

/* A call on the handle, and another open of the process, are both refused with that text. */
static void must_refuse(struct bed *bed, const char *text)
{
    char url[128];

    assert_int_equal(tenure_store_read(bed->store, KEY, &bed->value, soon(), &bed->err),
                     TENURE_UNAVAILABLE);
    assert_says(bed, text);
    assert_int_equal(swap_on(bed->store, bed, KEY, &(struct tenure_token){0}, "x").status,
                     TENURE_UNAVAILABLE);
    snprintf(url, sizeof url, "file:%s", bed->root);
    must_fail(url, TENURE_UNAVAILABLE, text);
}

/* What is unmounted under a process is not there, or empty: neither is a new store. */
static void not_made_again(void **state)
{
    struct bed *bed = *state;
    char away[128], path[128];

    must_swap(bed->store, bed, KEY, &(struct tenure_token){0}, "ours");
    snprintf(away, sizeof away, "%s/away", bed->dir);
    assert_int_equal(rename(bed->root, away), 0);
    must_refuse(bed, "is gone");
    assert_int_equal(access(bed->root, F_OK), -1);
    assert_int_equal(mkdir(bed->root, 0700), 0);
    must_refuse(bed, "is gone");
    snprintf(path, sizeof path, "%s/.tenure", bed->root);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(rmdir(bed->root), 0);
    assert_int_equal(rename(away, bed->root), 0);
    must_hold(bed->store, bed, KEY, "ours");
    tenure_store *again = bed_open(bed, "?create=no");
    must_hold(again, bed, KEY, "ours");
    tenure_store_close(again);
}

/* Another store in its place, made as `marker` says or by ourselves elsewhere, is refused. */
static void not_exchanged(struct bed *bed, const char *marker)
{
    char away[128], other[128], path[160];
    struct bed theirs = *bed;

    must_swap(bed->store, bed, KEY, &(struct tenure_token){0}, "ours");
    snprintf(theirs.root, sizeof theirs.root, "%s/theirs", bed->dir);
    theirs.store = bed_open(&theirs, "");
    must_swap(theirs.store, &theirs, KEY, &(struct tenure_token){0}, "theirs");
    tenure_store_close(theirs.store);
    snprintf(other, sizeof other, "%s", theirs.root);
    snprintf(path, sizeof path, "%s/.tenure", other);
    if (marker)
        write_file(path, marker, strlen(marker));
    snprintf(away, sizeof away, "%s/away", bed->dir);
    assert_int_equal(rename(bed->root, away), 0);
    assert_int_equal(rename(other, bed->root), 0);
    must_refuse(bed, "another store");
    assert_int_equal(rename(bed->root, other), 0);
    assert_int_equal(rename(away, bed->root), 0);
    must_hold(bed->store, bed, KEY, "ours");
}

static void another_store(void **state)
{
    not_exchanged(*state, NULL);
}

static void another_old_store(void **state)
{
    not_exchanged(*state, "tenure-file 2 retain=150s\n");
}

/* A store of before there were identities: known by when its marker was written, in every copy
 * that keeps times. */
static void old_store(void **state)
{
    struct bed *bed = *state, old = *bed;
    const struct timespec when[2] = {{.tv_sec = 1700000000, .tv_nsec = 123},
                                     {.tv_sec = 1700000000, .tv_nsec = 123}};
    const char *line = "tenure-file 1 retain=20s\n";
    char path[128];

    snprintf(old.root, sizeof old.root, "%s/old", bed->dir);
    assert_int_equal(mkdir(old.root, 0700), 0);
    snprintf(path, sizeof path, "%s/.tenure", old.root);
    write_file(path, line, strlen(line));
    assert_int_equal(utimensat(AT_FDCWD, path, when, 0), 0);
    old.store = bed_open(&old, "?retain=20s&create=no");
    must_swap(old.store, &old, KEY, &(struct tenure_token){0}, "kept");
    tenure_store_close(bed_open(&old, ""));
    /* A copy in its place. */
    assert_int_equal(unlink(path), 0);
    write_file(path, line, strlen(line));
    assert_int_equal(utimensat(AT_FDCWD, path, when, 0), 0);
    must_hold(old.store, &old, KEY, "kept");
    /* And one that was made by an earlier build under the mount point. */
    write_file(path, line, strlen(line));
    must_refuse(&old, "another store");
    not_exchanged(bed, line);
    tenure_store_close(old.store);
    tenure_value_free(&old.value);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(bad_urls, setup, teardown),
        cmocka_unit_test_setup_teardown(forms_of_a_path, setup, teardown),
        cmocka_unit_test_setup_teardown(bad_directories, setup, teardown),
        cmocka_unit_test_setup_teardown(opened_by_two, setup, teardown),
        cmocka_unit_test_setup_teardown(bad_markers, setup, teardown),
        cmocka_unit_test_setup_teardown(not_made_again, setup, teardown),
        cmocka_unit_test_setup_teardown(another_store, setup, teardown),
        cmocka_unit_test_setup_teardown(another_old_store, setup, teardown),
        cmocka_unit_test_setup_teardown(old_store, setup, teardown),
    };

    return cmocka_run_group_tests_name("file_open", tests, NULL, NULL);
}
