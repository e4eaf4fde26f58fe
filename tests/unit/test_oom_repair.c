/*
 * Every allocation of a repair fails in turn: it says so, or does without, and
 * nothing of what was damaged is lost; the next one repairs it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <fcntl.h>
#include <glob.h>

#include "oom_kit.h"
#include "tenure/state.h"

static char dir[] = "/tmp/tenure-oom-XXXXXX";

static int64_t soon(void)
{
    return tenure_now() + INT64_C(20000000000);
}

/* ---- Damage ---------------------------------------------------------------- */

static void spoil_slot(void)
{
    char pattern[160];
    glob_t found;

    snprintf(pattern, sizeof pattern, "%s/slots/app/state/docs/x/@*", dir);
    assert_int_equal(glob(pattern, 0, NULL, &found), 0);
    int fd = open(found.gl_pathv[found.gl_pathc - 1], O_WRONLY | O_TRUNC);
    assert_int_equal(write(fd, "torn", 4), 4);
    close(fd);
    globfree(&found);
}

static void spoil_row(void)
{
    char path[100];
    sqlite3 *db = NULL;

    snprintf(path, sizeof path, "%s/db", dir);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db,
                                  "PRAGMA ignore_check_constraints = 1; UPDATE register SET nonce ="
                                  " x'746f726e' WHERE key = 'app/state/docs/x'",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    sqlite3_close(db);
}

/* ---- One repair, again and again --------------------------------------------- */

static void make(const char *url)
{
    struct tenure_document d = {0};
    tenure_state *op = NULL;

    assert_int_equal(tenure_state_open(url, "app", NULL, soon(), &op, NULL), TENURE_OK);
    assert_int_equal(tenure_state_load(op, "docs", "x", &d, soon(), NULL), TENURE_OK);
    assert_int_equal(tenure_state_edit(op, "docs", "x", &d, "good", 4, soon(), NULL), TENURE_OK);
    tenure_document_free(&d);
    tenure_state_close(op);
}

static enum tenure_status repair(const char *url, char *kept, struct tenure_error *err)
{
    tenure_state *op = NULL;
    enum tenure_status status = tenure_state_open(url, "app", NULL, soon(), &op, err);

    if (!status)
        status = tenure_state_repair(op, "docs", "x", "new", 3, NULL, kept, soon(), err);
    tenure_state_close(op);
    return status;
}

static bool count(void *arg, const char *id, const struct tenure_document *d, const char *damage)
{
    (void)id;
    (void)d;
    *(unsigned *)arg += !damage;
    return true;
}

/* It is repaired, and all that was ever damaged is kept. */
static void check(const char *url, unsigned long n)
{
    struct tenure_document d = {0};
    tenure_state *op = NULL;
    unsigned kept = 0;

    assert_int_equal(tenure_state_open(url, "app", NULL, soon(), &op, NULL), TENURE_OK);
    assert_int_equal(tenure_state_load(op, "docs", "x", &d, soon(), NULL), TENURE_OK);
    assert_string_equal((char *)d.value.data, "new");
    assert_int_equal(tenure_state_list(op, "docs.damaged", count, &kept, soon(), NULL), TENURE_OK);
    assert_int_equal(kept, n);
    tenure_document_free(&d);
    tenure_state_close(op);
}

static void each(const char *url, void (*spoil)(void), unsigned long step)
{
    unsigned long n = 1, rounds = 0;

    for (bool struck = true; struck; n += step) {
        char kept[TENURE_KEEP_MAX + 1] = "untouched";
        struct tenure_error err = {0};

        make(url);
        spoil();
        tn_oom_arm(n, ++rounds % 2);
        enum tenure_status status = repair(url, kept, &err);
        struck = tn_oom_disarm();
        if (status && !(struck && (status == TENURE_NOMEM || status == TENURE_UNKNOWN)))
            fail_msg("%s, allocation %lu: '%s': %s", url, n, tenure_status_word(status), err.text);
        if (status) {
            assert_string_equal(kept, "untouched");
            status = repair(url, kept, &err);
            if (status != TENURE_OK && status != TENURE_INVALID) /* it had been done */
                fail_msg("%s, after allocation %lu: %s", url, n, err.text);
        }
        check(url, rounds);
        assert_true(n < 5000);
    }
    print_message("%s: %lu allocations failed\n", url, rounds - 1);
    assert_true(rounds > 10);
}

static void of_a_slot(void **state)
{
    char url[100];

    (void)state;
    snprintf(url, sizeof url, "file:%s/slots?commits=slots", dir);
    each(url, spoil_slot, 1);
}

static void of_a_row(void **state)
{
    char url[100];

    (void)state;
    snprintf(url, sizeof url, "sqlite:%s/db", dir);
    each(url, spoil_row, 11); /* SQLite asks for a thousand and more */
}

/* ---- Set-up ------------------------------------------------------------------ */

static int setup(void **state)
{
    (void)state;
    if (access("/dev/shm", W_OK) == 0) /* a flush is of no use here */
        memcpy(dir, "/dev/shm/oomXXXXXX", sizeof "/dev/shm/oomXXXXXX");
    return kit_begin(dir);
}

static int teardown(void **state)
{
    (void)state;
    return kit_end(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(of_a_slot), cmocka_unit_test(of_a_row)};

    return cmocka_run_group_tests(tests, setup, teardown);
}
