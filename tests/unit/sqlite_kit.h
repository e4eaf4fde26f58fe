/*
 * sqlite_kit.h - what the tests of sqlite: share: a fresh directory, handles
 * through the module as it is shipped, and SQLite itself to look behind it.
 *
 * Included after cmocka.h.  The helpers assert, so they are for the test's own
 * process; children of a race report by their exit status.
 */
#ifndef SQLITE_KIT_H
#define SQLITE_KIT_H

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tenure/store.h"

#ifndef KIT_PARENT
#define KIT_PARENT "/tmp" /* or where syncing costs nothing, if it is not what is tested */
#endif

static char kit_dir[64];   /* removed after each test */
static char kit_path[128]; /* kit_dir/registers.db */
static char kit_url[160];
static struct tenure_error kit_err;

__attribute__((unused)) static int64_t kit_soon(void)
{
    return tenure_now() + INT64_C(20000000000);
}

static int kit_setup(void **state)
{
    static bool known;

    (void)state;
    snprintf(kit_dir, sizeof kit_dir, "%s/tenure-sqlite-XXXXXX",
             access(KIT_PARENT, W_OK) == 0 ? KIT_PARENT : "/tmp");
    if (!mkdtemp(kit_dir))
        return -1;
    snprintf(kit_path, sizeof kit_path, "%s/registers.db", kit_dir);
    snprintf(kit_url, sizeof kit_url, "sqlite:%s", kit_path);
    if (!known && tenure_store_module_dir(TN_BUILD_DIR, &kit_err))
        return -1;
    known = true;
    return 0;
}

static int kit_remove(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static int kit_teardown(void **state)
{
    (void)state;
    return nftw(kit_dir, kit_remove, 8, FTW_DEPTH | FTW_PHYS);
}

#define KIT_TEST(function) cmocka_unit_test_setup_teardown(function, kit_setup, kit_teardown)

/* ---- Through the store ---------------------------------------------------- */

__attribute__((unused)) static tenure_store *kit_open(void)
{
    tenure_store *store = NULL;
    enum tenure_status status = tenure_store_open(kit_url, kit_soon(), &store, &kit_err);

    if (status)
        print_error("open: %s\n", kit_err.text);
    assert_int_equal(status, TENURE_OK);
    return store;
}

/* Opening answers status, with a text that holds `says`; nothing is returned. */
__attribute__((unused)) static void kit_refused(const char *url, enum tenure_status status,
                                                const char *says)
{
    tenure_store *store = NULL;
    enum tenure_status seen = tenure_store_open(url, kit_soon(), &store, &kit_err);

    if (seen != status || !strstr(kit_err.text, says))
        print_error("open %s: '%s': %s\n", url, tenure_status_word(seen), kit_err.text);
    assert_int_equal(seen, status);
    assert_null(store);
    assert_non_null(strstr(kit_err.text, says));
    assert_null(strchr(kit_err.text, '\n'));
}

/* Swap under a fresh nonce; *token is what is expected, and then what was written. */
__attribute__((unused)) static enum tenure_status kit_put(tenure_store *store, const char *key,
                                                          struct tenure_token *token,
                                                          const void *data, size_t len)
{
    struct tenure_swap swap = {.key = key, .expect = *token, .data = data, .len = len};

    if (tenure_nonce(swap.nonce, &kit_err))
        return TENURE_UNAVAILABLE;
    enum tenure_status status = tenure_store_swap(store, &swap, kit_soon(), &kit_err);
    if (!status)
        *token = swap.token;
    return status;
}

__attribute__((unused)) static enum tenure_status kit_read(tenure_store *store, const char *key,
                                                           struct tenure_value *value)
{
    return tenure_store_read(store, key, value, kit_soon(), &kit_err);
}

/* ---- Behind it ------------------------------------------------------------ */

__attribute__((unused)) static sqlite3 *kit_raw(const char *path)
{
    sqlite3 *db = NULL;

    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    sqlite3_busy_timeout(db, 20000);
    return db;
}

__attribute__((unused)) static void kit_exec(sqlite3 *db, const char *sql)
{
    char *text = NULL;

    if (sqlite3_exec(db, sql, NULL, NULL, &text) != SQLITE_OK)
        fail_msg("%s: %s", sql, text);
}

/* Run statements on the database from outside. */
__attribute__((unused)) static void kit_outside(const char *path, const char *sql)
{
    sqlite3 *db = kit_raw(path);

    kit_exec(db, sql);
    sqlite3_close(db);
}

__attribute__((unused)) static void kit_ask(const char *path, const char *sql, char answer[200])
{
    sqlite3 *db = kit_raw(path);
    sqlite3_stmt *stmt = NULL;

    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &stmt, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
    snprintf(answer, 200, "%s", (const char *)sqlite3_column_text(stmt, 0));
    sqlite3_finalize(stmt);
    sqlite3_close(db);
}

__attribute__((unused)) static void kit_write_file(const char *path, const void *data, size_t len)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, len), len);
    close(fd);
}

/* Remove the database with all that belongs to it.  The next has another name: one that was used
 * is not made again by the same process. */
__attribute__((unused)) static void kit_renew(void)
{
    static const char *const parts[] = {"", "-wal", "-shm"};
    static int count;
    char path[200];

    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        snprintf(path, sizeof path, "%s%s", kit_path, parts[i]);
        unlink(path);
    }
    snprintf(kit_path, sizeof kit_path, "%s/registers-%d.db", kit_dir, ++count);
    snprintf(kit_url, sizeof kit_url, "sqlite:%s", kit_path);
}

__attribute__((unused)) static off_t kit_size(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 ? st.st_size : -1;
}

#endif
