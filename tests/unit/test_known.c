/* The stores that a process has used, and what it shares of them with those that follow it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "os/known.h"

static void test_the_first_identity_stays(void **unused)
{
    (void)unused;
    assert_null(tn_known_identity("/a"));
    assert_true(tn_known_add("/a", "one"));
    assert_true(tn_known_add("/a", "two"));
    assert_string_equal(tn_known_identity("/a"), "one");
}

static void test_what_another_process_has_used(void **unused)
{
    static const char other[] = "/b\0its identity\0/c\0another";
    int fd = memfd_create("known", 0);

    (void)unused;
    assert_int_equal(write(fd, other, sizeof other), sizeof other);
    tn_known_share(fd);
    assert_string_equal(tn_known_identity("/c"), "another");
    assert_string_equal(tn_known_identity("/b"), "its identity");
    assert_null(tn_known_identity("/d"));
    assert_true(tn_known_add("/d", "new"));
    assert_int_equal(lseek(fd, 0, SEEK_END), sizeof other + sizeof "/d" + sizeof "new");
    close(fd);
}

/* The environment outlives the descriptor: its number may be a database by then. */
static void test_another_file_of_that_number_is_left_alone(void **unused)
{
    int fd = memfd_create("known", 0), file;
    char text[16];
    FILE *data;

    (void)unused;
    tn_known_share(fd);
    data = tmpfile();
    assert_non_null(data);
    assert_int_equal(dup2(fileno(data), fd), fd);
    file = fd;
    assert_int_equal(pwrite(file, "/e\0stale", 9, 0), 9);
    assert_null(tn_known_identity("/e"));
    assert_true(tn_known_add("/f", "new"));
    assert_int_equal(pread(file, text, sizeof text, 0), 9);
    close(file);
    fclose(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_first_identity_stays),
        cmocka_unit_test(test_what_another_process_has_used),
        cmocka_unit_test(test_another_file_of_that_number_is_left_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
