/* Where HTTP listens: a socket that was left over is replaced, and nothing else is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "http/listen.h"

static char dir[64], address[128];
static const char *path = address + 5;

static int set_up(void **state)
{
    (void)state;
    strcpy(dir, "/tmp/test-listen-XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    snprintf(address, sizeof address, "unix:%s/it", dir);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(dir);
}

static void a_file_that_is_no_socket_stays(void **state)
{
    struct tn_listener l;
    struct tenure_error err;
    struct stat st;
    FILE *file = fopen(path, "w");

    (void)state;
    assert_true(file && fputs("precious", file) >= 0 && fclose(file) == 0);
    assert_int_equal(tn_listen(address, &l, &err), TENURE_UNAVAILABLE);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, 8);
}

static void what_a_crash_left_is_replaced_but_not_what_is_in_use(void **state)
{
    struct tn_listener first, second;
    struct tenure_error err;
    struct stat st;

    (void)state;
    assert_int_equal(tn_listen(address, &first, &err), TENURE_OK);
    assert_int_equal(tn_listen(address, &second, &err), TENURE_UNAVAILABLE);
    close(first.fd);
    assert_int_equal(tn_listen(address, &second, &err), TENURE_OK);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    close(second.fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_file_that_is_no_socket_stays, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_a_crash_left_is_replaced_but_not_what_is_in_use,
                                        set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
