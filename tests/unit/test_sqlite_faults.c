/*
 * sqlite: on files that are not what they should be, in places that do not
 * allow it, and on disks that are full.  Each is one line that says what to do,
 * nothing is lost, and nothing that cannot be read is taken for absent.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>

#include "sqlite_kit.h"

#define PAGE 1024 /* of a database that we have made */

static const struct tenure_token absent;

/* ---- Files that are something else ----------------------------------------- */

static void no_directory(void **state)
{
    char url[300];

    (void)state;
    snprintf(url, sizeof url, "sqlite:%s/none/such/x.db", kit_dir);
    kit_refused(url, TENURE_CONFIG, "mkdir -p");
    snprintf(url, sizeof url, "sqlite:%s", kit_dir);
    kit_refused(url, TENURE_CONFIG, "is a directory");
    kit_write_file(kit_path, "x", 1);
    snprintf(url, sizeof url, "sqlite:%s/x.db", kit_path);
    kit_refused(url, TENURE_CONFIG, "check the path");
    snprintf(url, sizeof url, "%s/fifo", kit_dir);
    assert_int_equal(mkfifo(url, 0600), 0);
    snprintf(url, sizeof url, "sqlite:%s/fifo", kit_dir);
    kit_refused(url, TENURE_CONFIG, "not a regular file");
}

/* The bytes of a file, to see that it was left alone. */
static char *slurp(const char *path, size_t *len)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    off_t size = kit_size(path);
    char *data = malloc((size_t)size + 1);

    assert_true(fd >= 0 && data);
    assert_int_equal(read(fd, data, (size_t)size), size);
    close(fd);
    *len = (size_t)size;
    return data;
}

static void refused_untouched(enum tenure_status status, const char *says)
{
    size_t before_len, after_len;
    char *before = slurp(kit_path, &before_len);

    kit_refused(kit_url, status, says);
    assert_non_null(strstr(kit_err.text, kit_path));
    char *after = slurp(kit_path, &after_len);
    assert_int_equal(before_len, after_len);
    assert_memory_equal(before, after, before_len);
    free(before);
    free(after);
}

static void other_program(void **state)
{
    (void)state;
    kit_outside(kit_path, "CREATE TABLE songs (title TEXT)");
    refused_untouched(TENURE_CONFIG, "some other program");
    kit_outside(kit_path, "DROP TABLE songs; VACUUM; PRAGMA user_version = 7");
    refused_untouched(TENURE_CONFIG, "some other program");
    kit_outside(kit_path, "PRAGMA user_version = 0; PRAGMA application_id = 12345");
    refused_untouched(TENURE_CONFIG, "some other program");
    unlink(kit_path);
    kit_outside(kit_path, "PRAGMA journal_mode = WAL; CREATE TABLE songs (title TEXT)");
    refused_untouched(TENURE_CONFIG, "some other program");
}

static void other_version(void **state)
{
    (void)state;
    tenure_store_close(kit_open());
    kit_outside(kit_path, "PRAGMA user_version = 2");
    refused_untouched(TENURE_CONFIG, "schema 2");
}

static void not_a_database(void **state)
{
    char text[5000];

    (void)state;
    memset(text, 'x', sizeof text);
    kit_write_file(kit_path, text, sizeof text);
    refused_untouched(TENURE_CORRUPT, "not a database");
    kit_write_file(kit_path, text, 10);
    refused_untouched(TENURE_CORRUPT, "not a database");
    memset(text, 0, sizeof text);
    kit_write_file(kit_path, text, sizeof text);
    refused_untouched(TENURE_CORRUPT, "not a database");
}

/* An empty file is an empty database, as it is for SQLite; but not if a log
 * says that there was more. */
static void empty_file(void **state)
{
    struct tenure_token token = absent;
    char wal[200], link[200];

    (void)state;
    kit_write_file(kit_path, "", 0);
    tenure_store *store = kit_open();
    assert_int_equal(kit_put(store, "k", &token, "x", 1), TENURE_OK);
    tenure_store_close(store);
    snprintf(wal, sizeof wal, "%s-wal", kit_path);
    kit_write_file(wal, "something", 9);
    kit_write_file(kit_path, "", 0);
    kit_refused(kit_url, TENURE_CORRUPT, "missing or empty");
    assert_int_equal(kit_size(wal), 9);
    snprintf(link, sizeof link, "sqlite:%s/link", kit_dir); /* the log is beside the file */
    assert_int_equal(symlink(kit_path, link + 7), 0);
    kit_refused(link, TENURE_CORRUPT, "missing or empty");
    assert_int_equal(kit_size(wal), 9);
    /* And where this process has never been. */
    kit_renew();
    snprintf(wal, sizeof wal, "%s-wal", kit_path);
    kit_write_file(wal, "something", 9);
    kit_refused(kit_url, TENURE_CORRUPT, "missing or empty");
    assert_int_equal(kit_size(wal), 9);
}

/* create=no: nothing is made, and nothing is begun in an empty file. */
static void not_to_be_made(void **state)
{
    char url[200];

    (void)state;
    snprintf(url, sizeof url, "%s?create=no", kit_url);
    kit_refused(url, TENURE_UNAVAILABLE, "mounted?");
    assert_int_equal(kit_size(kit_path), -1);
    kit_write_file(kit_path, "", 0);
    kit_refused(url, TENURE_UNAVAILABLE, "mounted?");
    assert_int_equal(kit_size(kit_path), 0);
    tenure_store_close(kit_open());
    tenure_store *store = NULL;
    assert_int_equal(tenure_store_open(url, kit_soon(), &store, &kit_err), TENURE_OK);
    tenure_store_close(store);
    snprintf(url, sizeof url, "%s?create=maybe", kit_url);
    kit_refused(url, TENURE_CONFIG, "must be no or yes");
}

/* ---- Damage ---------------------------------------------------------------- */

static void fill(unsigned n, size_t len)
{
    tenure_store *store = kit_open();
    char key[16], *data = calloc(1, len);

    for (unsigned i = 0; i < n; i++) {
        struct tenure_token token = absent;

        snprintf(key, sizeof key, "k%03u", i);
        assert_int_equal(kit_put(store, key, &token, data, len), TENURE_OK);
    }
    free(data);
    tenure_store_close(store);
}

/* Every register, and the listing: some call must say CORRUPT, and none may say
 * that a register is absent. */
static void told_as_damage(unsigned n, const char *what)
{
    struct tenure_value value = {0};
    tenure_store *store = NULL;
    enum tenure_status status = tenure_store_open(kit_url, kit_soon(), &store, &kit_err);
    bool told = status == TENURE_CORRUPT;
    char key[16];

    assert_true(status == TENURE_OK || status == TENURE_CORRUPT);
    for (unsigned i = 0; i < n && store; i++) {
        snprintf(key, sizeof key, "k%03u", i);
        status = kit_read(store, key, &value);
        assert_true(status == TENURE_OK || status == TENURE_CORRUPT);
        if (status == TENURE_OK && tenure_token_absent(&value.token))
            fail_msg("%s: '%s' is told as absent", what, key);
        if (status == TENURE_CORRUPT)
            assert_non_null(strstr(kit_err.text, kit_path));
        told = told || status == TENURE_CORRUPT;
    }
    tenure_store_close(store);
    tenure_value_free(&value);
    if (!told)
        fail_msg("%s: not noticed", what);
}

static void cut_short(void **state)
{
    (void)state;
    fill(50, 600);
    off_t size = kit_size(kit_path);
    for (off_t cut = size - PAGE; cut > 0; cut -= PAGE) {
        assert_int_equal(truncate(kit_path, cut), 0);
        told_as_damage(50, "a file cut short");
    }
    assert_int_equal(truncate(kit_path, 1000), 0);
    told_as_damage(50, "a file cut in its first page");
}

static void page_overwritten(void **state)
{
    char junk[PAGE];

    (void)state;
    memset(junk, 0xa5, sizeof junk);
    fill(50, 600);
    off_t pages = kit_size(kit_path) / PAGE;
    for (off_t page = 0; page < pages; page++) {
        size_t len;
        char *whole = slurp(kit_path, &len);
        int fd = open(kit_path, O_WRONLY | O_CLOEXEC);

        assert_int_equal(pwrite(fd, junk, sizeof junk, page * PAGE), sizeof junk);
        close(fd);
        /* A page that only an index of versions uses shows at the next swap. */
        tenure_store *store = NULL;
        struct tenure_value value = {0};
        bool told = tenure_store_open(kit_url, kit_soon(), &store, &kit_err) == TENURE_CORRUPT;
        for (unsigned i = 0; i < 50 && store; i++) {
            char key[16];

            snprintf(key, sizeof key, "k%03u", i);
            enum tenure_status status = kit_read(store, key, &value);
            assert_true(status == TENURE_CORRUPT ||
                        (status == TENURE_OK && !tenure_token_absent(&value.token)));
            if (status == TENURE_OK)
                status = kit_put(store, key, &value.token, "x", 1);
            assert_true(status == TENURE_OK || status == TENURE_CORRUPT);
            told = told || status == TENURE_CORRUPT;
        }
        tenure_store_close(store);
        tenure_value_free(&value);
        if (!told)
            fail_msg("page %d overwritten: not noticed", (int)page + 1);
        kit_write_file(kit_path, whole, len);
        free(whole);
    }
}

static void bad_row(const char *sql, enum tenure_status on_read, enum tenure_status on_swap)
{
    struct tenure_token token = absent;
    struct tenure_value value = {0};
    char all[400];

    tenure_store *store = kit_open();
    assert_int_equal(kit_read(store, "k", &value), TENURE_OK);
    token = value.token;
    assert_int_equal(kit_put(store, "k", &token, "x", 1), TENURE_OK);
    snprintf(all, sizeof all, "PRAGMA ignore_check_constraints = ON; %s", sql);
    kit_outside(kit_path, all);
    enum tenure_status status = kit_read(store, "k", &value);
    if (status != on_read)
        fail_msg("%s: read: %s: %s", sql, tenure_status_word(status), kit_err.text);
    if (!status)
        token = value.token;
    status = kit_put(store, "k", &token, "y", 1);
    if (status != on_swap)
        fail_msg("%s: swap: %s: %s", sql, tenure_status_word(status), kit_err.text);
    tenure_store_close(store);
    tenure_value_free(&value);
    kit_renew();
}

/* A damaged row ends no batch of reads; a damaged database ends all of it. */
static void hostile_row_in_the_middle(void **state)
{
    static const char *const keys[] = {"a", "never", "k", "z", "a"};
    struct tenure_read reads[5] = {0};
    tenure_store *store = kit_open();

    (void)state;
    for (const char *key = "akz"; *key; key++) {
        char name[2] = {*key, '\0'};
        struct tenure_token token = absent;

        assert_int_equal(kit_put(store, name, &token, key, 1), TENURE_OK);
    }
    kit_outside(kit_path, "PRAGMA ignore_check_constraints = ON;"
                          "UPDATE register SET nonce = x'00' WHERE key = 'k'");
    for (unsigned i = 0; i < 5; i++)
        reads[i].key = keys[i];
    assert_int_equal(tenure_store_read_many(store, reads, 5, kit_soon(), &kit_err), TENURE_OK);
    for (unsigned i = 0; i < 5; i++)
        assert_int_equal(reads[i].status, i == 2 ? TENURE_CORRUPT : TENURE_OK);
    assert_true(tenure_token_absent(&reads[1].value.token));
    assert_int_equal(reads[0].value.data[0], 'a');
    assert_int_equal(reads[3].value.data[0], 'z');
    assert_true(tenure_token_equal(&reads[0].value.token, &reads[4].value.token));
    kit_outside(kit_path, "DROP TABLE register");
    assert_int_equal(tenure_store_read_many(store, reads, 5, kit_soon(), &kit_err), TENURE_CORRUPT);
    for (unsigned i = 0; i < 5; i++) {
        assert_int_equal(reads[i].status, TENURE_CORRUPT);
        tenure_value_free(&reads[i].value);
    }
    tenure_store_close(store);
    kit_renew();
}

static void hostile_rows(void **state)
{
    (void)state;
    bad_row("UPDATE register SET nonce = x'00'", TENURE_CORRUPT, TENURE_CONFLICT);
    bad_row("UPDATE register SET prev = zeroblob(17)", TENURE_CORRUPT, TENURE_OK);
    bad_row("UPDATE register SET version = -5", TENURE_CORRUPT, TENURE_CONFLICT);
    bad_row("UPDATE register SET version = 0", TENURE_CORRUPT, TENURE_CONFLICT);
    bad_row("UPDATE register SET data = zeroblob(1048577)", TENURE_CORRUPT, TENURE_OK);
    bad_row("UPDATE register SET data = zeroblob(50000000)", TENURE_CORRUPT, TENURE_OK);
    bad_row("UPDATE register SET version = 9223372036854775807", TENURE_CORRUPT, TENURE_CONFLICT);
    bad_row("DROP TABLE register", TENURE_CORRUPT, TENURE_CORRUPT);
    bad_row("ALTER TABLE register RENAME COLUMN nonce TO once", TENURE_CORRUPT, TENURE_CORRUPT);
    bad_row("CREATE TRIGGER t BEFORE UPDATE ON register BEGIN SELECT raise(IGNORE); END", TENURE_OK,
            TENURE_OK);
}

static bool count(void *arg, const char *key, const struct tenure_value *value)
{
    (void)key;
    (void)value;
    ++*(unsigned *)arg;
    return true;
}

static void hostile_key(void **state)
{
    unsigned n = 0;

    (void)state;
    fill(3, 10);
    kit_outside(kit_path, "UPDATE register SET key = 'k001/../x' WHERE key = 'k001'");
    tenure_store *store = kit_open();
    assert_int_equal(tenure_store_list(store, "", NULL, count, &n, NULL, kit_soon(), &kit_err),
                     TENURE_CORRUPT);
    assert_int_equal(n, 1);
    tenure_store_close(store);
}

/* ---- Rights and space: in a child, which may lose its privileges ------------- */

static void in_child(int (*work)(void))
{
    int status;

    if (geteuid() != 0)
        skip();
    kit_refused("sqlite:", TENURE_CONFIG, "name"); /* loads the module, as root */
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        _exit(work());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        skip();
    assert_int_equal(status, 0);
}

static int says(enum tenure_status seen, enum tenure_status want, const char *text)
{
    if (seen == want && (!text || strstr(kit_err.text, text)))
        return 0;
    fprintf(stderr, "expected '%s' and \"%s\", saw '%s': %s\n", tenure_status_word(want),
            text ? text : "", tenure_status_word(seen), kit_err.text);
    return 1;
}

static int as_nobody(void)
{
    tenure_store *store = NULL;

    if (setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534))
        return 77;
    return says(tenure_store_open(kit_url, kit_soon(), &store, &kit_err), TENURE_DENIED,
                "write access");
}

static void no_rights(void **state)
{
    (void)state;
    /* A directory that cannot be entered, one that cannot be written, a file
     * that cannot be read, and one that cannot be written. */
    in_child(as_nobody);
    assert_int_equal(chmod(kit_dir, 0755), 0);
    in_child(as_nobody);
    tenure_store_close(kit_open());
    in_child(as_nobody);
    assert_int_equal(chmod(kit_path, 0644), 0);
    in_child(as_nobody);
    assert_int_equal(chmod(kit_path, 0666), 0);
    in_child(as_nobody); /* the -wal file has no place */
}

static int small_disk(void)
{
    if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
        mount("none", kit_dir, "tmpfs", 0, "size=512k"))
        return 77;
    return 0;
}

/* Fill what is left of the file system with a file that can be removed again. */
static void use_up(const char *path)
{
    static char block[4096];
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    while (fd >= 0 && write(fd, block, sizeof block) > 0)
        continue;
    close(fd);
}

static int full_disk(void)
{
    struct tenure_token token = absent, before;
    struct tenure_value value = {0};
    tenure_store *store = NULL;
    static char data[20000];
    char big[200];
    int bad = small_disk();

    if (bad)
        return bad;
    snprintf(big, sizeof big, "%s/big", kit_dir);
    /* Full from the start. */
    use_up(big);
    bad += says(tenure_store_open(kit_url, kit_soon(), &store, &kit_err), TENURE_UNAVAILABLE,
                "no space");
    unlink(big);
    bad += says(tenure_store_open(kit_url, kit_soon(), &store, &kit_err), TENURE_OK, NULL);
    bad += says(kit_put(store, "k", &token, "x", 1), TENURE_OK, NULL);
    before = token;
    /* Full meanwhile: reads go on, and so does all when there is space again. */
    use_up(big);
    for (int i = 0; i < 3; i++)
        bad += says(kit_put(store, "k", &token, data, sizeof data), TENURE_UNKNOWN, "no space");
    bad += says(kit_read(store, "k", &value), TENURE_OK, NULL);
    bad += !tenure_token_equal(&value.token, &before);
    unlink(big);
    bad += says(kit_put(store, "k", &token, data, sizeof data), TENURE_OK, NULL);
    tenure_store_close(store);
    store = NULL;
    bad += says(tenure_store_open(kit_url, kit_soon(), &store, &kit_err), TENURE_OK, NULL);
    bad += says(kit_read(store, "k", &value), TENURE_OK, NULL);
    bad += !tenure_token_equal(&value.token, &token);
    tenure_store_close(store);
    tenure_value_free(&value);
    return bad;
}

static int read_only_disk(void)
{
    struct tenure_token token = absent;
    struct tenure_value value = {0};
    tenure_store *store = NULL;
    int bad = small_disk();

    if (bad)
        return bad;
    if (mount("none", kit_dir, NULL, MS_REMOUNT | MS_RDONLY, NULL))
        return 77;
    bad +=
        says(tenure_store_open(kit_url, kit_soon(), &store, &kit_err), TENURE_DENIED, "Read-only");
    mount("none", kit_dir, NULL, MS_REMOUNT, NULL);
    bad += says(tenure_store_open(kit_url, kit_soon(), &store, &kit_err), TENURE_OK, NULL);
    bad += says(kit_put(store, "k", &token, "x", 1), TENURE_OK, NULL);
    tenure_store_close(store);
    mount("none", kit_dir, NULL, MS_REMOUNT | MS_RDONLY, NULL);
    store = NULL;
    bad += says(tenure_store_open(kit_url, kit_soon(), &store, &kit_err), TENURE_DENIED,
                "Read-only file system");
    tenure_value_free(&value);
    return bad;
}

static void disk_full(void **state)
{
    (void)state;
    in_child(full_disk);
}

static void disk_read_only(void **state)
{
    (void)state;
    in_child(read_only_disk);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KIT_TEST(no_directory),  KIT_TEST(other_program),
        KIT_TEST(other_version), KIT_TEST(not_a_database),
        KIT_TEST(empty_file),    KIT_TEST(not_to_be_made),
        KIT_TEST(cut_short),     KIT_TEST(page_overwritten),
        KIT_TEST(hostile_rows),  KIT_TEST(hostile_row_in_the_middle),
        KIT_TEST(hostile_key),   KIT_TEST(no_rights),
        KIT_TEST(disk_full),     KIT_TEST(disk_read_only),
    };

    return cmocka_run_group_tests_name("sqlite_faults", tests, NULL, NULL);
}
