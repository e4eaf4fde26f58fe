/*
 * A document that rots under a leader: the next one seals the rest, and who led before does not
 * replace what it still knows by version and nonce (I4).  SQLite and the file system do the damage,
 * behind the store's back.
 */
#include <dirent.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include "state_kit.h"

static char folder[sizeof "/tmp/tenure-damage.XXXXXX"];

static void spoil_row(const char *sql)
{
    char path[64], all[200];
    sqlite3 *db = NULL;

    snprintf(path, sizeof path, "%s/db", folder);
    snprintf(all, sizeof all,
             "PRAGMA ignore_check_constraints = ON; UPDATE register SET %s WHERE key LIKE '%%/x'",
             sql);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, all, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_changes(db), 1);
    sqlite3_close(db);
}

/* The last byte of the last slot. */
static void spoil_slot(const char *how)
{
    char at[128], last[400] = "";
    struct dirent *entry;
    struct stat st;
    char byte;

    (void)how;
    snprintf(at, sizeof at, "%s/files/app/state/docs/x", folder);
    DIR *dir = opendir(at);
    assert_non_null(dir);
    while ((entry = readdir(dir))) {
        if (entry->d_name[0] == '@' && strcmp(entry->d_name, last) > 0)
            snprintf(last, sizeof last, "%s", entry->d_name);
    }
    int fd = openat(dirfd(dir), last, O_RDWR);
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(pread(fd, &byte, 1, st.st_size - 1), 1);
    byte ^= 1;
    assert_int_equal(pwrite(fd, &byte, 1, st.st_size - 1), 1);
    close(fd);
    closedir(dir);
}

static const struct damage {
    const char *scheme, *place;
    void (*spoil)(const char *how);
    const char *how;
    enum tenure_status on_seal;
} damages[] = {
    {"sqlite", "/db", spoil_row, "data = x'00'", TENURE_OK},
    {"sqlite", "/db", spoil_row, "data = CAST('text' AS BLOB)", TENURE_OK},
    {"sqlite", "/db", spoil_row, "prev = x'00'", TENURE_CORRUPT},
    {"sqlite", "/db", spoil_row, "tombstone = 7", TENURE_CORRUPT},
    {"sqlite", "/db", spoil_row, "data = zeroblob(1048577)", TENURE_CORRUPT},
    {"sqlite", "/db", spoil_row, "version = -5", TENURE_CORRUPT},
    {"file", "/files?commits=slots", spoil_slot, "a byte of its data", TENURE_OK},
};

static void after_the_seal(const struct damage *d, tenure_state *a, tenure_state *b,
                           tenure_state *c)
{
    struct tenure_document x = {0};
    struct tenure_error err = {0};

    assert_int_equal(put(b, "y", "2"), TENURE_OK);
    enum tenure_status status = put(a, "x", "stale");
    if (status != TENURE_CORRUPT && status != TENURE_FENCED)
        fail_msg("%s: a stale commit: %s", d->how, tenure_status_word(status));
    status = tenure_state_load(b, "docs", "x", &x, soon(), &err);
    if (status != TENURE_CORRUPT)
        fail_msg("%s: a load: %s", d->how, tenure_status_word(status));
    seal(c); /* again, over what is there now */
    assert_int_equal(put(b, "y", "stale"), TENURE_FENCED);
    expect(c, "y", "2");
    tenure_document_free(&x);
}

static void who_led_before_stays_out(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof damages / sizeof damages[0]; i++) {
        const struct damage *d = &damages[i];
        struct tenure_error err = {0};
        char url[96], tidy[64];

        /* A path of its own: this process does not make a store again that it knew. */
        strcpy(folder, "/tmp/tenure-damage.XXXXXX");
        assert_non_null(mkdtemp(folder));
        snprintf(url, sizeof url, "%s:%s%s", d->scheme, folder, d->place);
        tenure_state *a = lead(url, 10), *b = lead(url, 11), *c = lead(url, 12);
        assert_int_equal(put(a, "x", "1"), TENURE_OK);
        assert_int_equal(put(a, "y", "1"), TENURE_OK);
        d->spoil(d->how);
        enum tenure_status status = tenure_state_seal(b, "docs", soon(), &err);
        if (status != d->on_seal)
            fail_msg("%s: a seal: %s: %s", d->how, tenure_status_word(status), err.text);
        if (!status)
            after_the_seal(d, a, b, c);
        tenure_state_close(a);
        tenure_state_close(b);
        tenure_state_close(c);
        snprintf(tidy, sizeof tidy, "rm -rf %s", folder);
        assert_int_equal(system(tidy), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(who_led_before_stays_out)};
    struct tenure_error err;

    if (tenure_store_module_dir(TN_BUILD_DIR, &err))
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
