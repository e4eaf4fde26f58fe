/* The persistent fence: no bypass, no forgetting, no guessing. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "tenure/fence.h"

static char dir[] = "/tmp/tenure-fence-XXXXXX";
static char path[128];

static int set_up(void **state)
{
    (void)state;
    if (!mkdtemp(dir))
        return -1;
    snprintf(path, sizeof path, "%s/fence", dir);
    return 0;
}

static int tear_down(void **state)
{
    char command[160];

    (void)state;
    snprintf(command, sizeof command, "rm -rf %s", dir);
    return system(command);
}

static tenure_fence *open_fence(void)
{
    struct tenure_error err;
    tenure_fence *f = NULL;

    if (tenure_fence_open(path, &f, &err))
        fail_msg("%s", err.text);
    return f;
}

static void highest_wins_and_survives_a_restart(void **state)
{
    uint8_t a[16] = "a", b[16] = "b";
    tenure_fence *f = open_fence();

    (void)state;
    assert_int_equal(tenure_fence_highest(f), 0);
    assert_int_equal(tenure_fence_check(f, 5, a, NULL), TENURE_OK);
    assert_int_equal(tenure_fence_check(f, 5, a, NULL), TENURE_OK);
    assert_int_equal(tenure_fence_check(f, 5, b, NULL), TENURE_FENCED);
    assert_int_equal(tenure_fence_check(f, 4, a, NULL), TENURE_FENCED);
    assert_int_equal(tenure_fence_check(f, 7, b, NULL), TENURE_OK);
    assert_int_equal(tenure_fence_check(f, 5, a, NULL), TENURE_FENCED);
    tenure_fence_close(f);
    f = open_fence();
    assert_int_equal(tenure_fence_highest(f), 7);
    assert_int_equal(tenure_fence_check(f, 6, a, NULL), TENURE_FENCED);
    assert_int_equal(tenure_fence_check(f, 7, a, NULL), TENURE_FENCED);
    assert_int_equal(tenure_fence_check(f, 7, NULL, NULL), TENURE_OK); /* epochs alone */
    tenure_fence_close(f);
}

static void zero_and_overflow_are_nobodys(void **state)
{
    tenure_fence *f = open_fence();

    (void)state;
    assert_int_equal(tenure_fence_check(f, 0, NULL, NULL), TENURE_INVALID);
    assert_int_equal(tenure_fence_check(f, UINT64_C(1) << 53, NULL, NULL), TENURE_INVALID);
    assert_int_equal(tenure_fence_check(f, UINT64_MAX, NULL, NULL), TENURE_INVALID);
    assert_int_equal(tenure_fence_check_text(f, NULL, NULL), TENURE_INVALID);
    assert_int_equal(tenure_fence_check_text(f, "", NULL), TENURE_INVALID);
    assert_int_equal(tenure_fence_check_text(f, "0", NULL), TENURE_INVALID);
    assert_int_equal(tenure_fence_check_text(f, "-1", NULL), TENURE_INVALID);
    assert_int_equal(tenure_fence_check_text(f, "12x", NULL), TENURE_INVALID);
    assert_int_equal(tenure_fence_check_text(f, "99999999999999999999999", NULL), TENURE_INVALID);
    assert_int_equal(tenure_fence_check_text(f, "8 zz", NULL), TENURE_INVALID);
    assert_int_equal(tenure_fence_check_text(f, "8 00112233445566778899aabbccddeeff", NULL),
                     TENURE_OK);
    assert_int_equal(tenure_fence_check_text(f, "7", NULL), TENURE_FENCED);
    tenure_fence_close(f);
}

static void one_process_a_file(void **state)
{
    tenure_fence *f = open_fence(), *g = NULL;
    struct tenure_error err;

    (void)state;
    assert_int_equal(tenure_fence_open(path, &g, &err), TENURE_UNAVAILABLE);
    assert_null(g);
    tenure_fence_close(f);
    assert_int_equal(tenure_fence_open("/nonexistent/dir/fence", &g, &err), TENURE_CONFIG);
    tenure_fence_close(NULL);
}

/* What cannot be remembered is refused, and a damaged fence accepts nothing. */
static void damage_refuses(void **state)
{
    static const char *const texts[] = {"", "garbage\n",
                                        "tenure-fence 1 9 00112233445566778899aabbccddeeff 0\n",
                                        "tenure-fence 1 9"};
    struct tenure_error err;
    tenure_fence *f = NULL;

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        int fd = open(path, O_WRONLY | O_TRUNC | O_CREAT, 0600);

        assert_true(write(fd, texts[i], strlen(texts[i])) == (ssize_t)strlen(texts[i]));
        close(fd);
        assert_int_equal(tenure_fence_open(path, &f, &err), TENURE_CORRUPT);
        assert_null(f);
    }
    unlink(path);
    f = open_fence();
    assert_int_equal(tenure_fence_check(f, 20, NULL, &err), TENURE_OK);
    char blocked[160];
    snprintf(blocked, sizeof blocked, "%s.new", path);
    assert_int_equal(mkdir(blocked, 0700), 0); /* the next write must fail */
    assert_int_equal(tenure_fence_check(f, 21, NULL, &err), TENURE_UNAVAILABLE);
    assert_int_equal(tenure_fence_highest(f), 20);
    assert_int_equal(tenure_fence_check(f, 20, NULL, &err), TENURE_OK);
    rmdir(blocked);
    assert_int_equal(tenure_fence_check(f, 21, NULL, &err), TENURE_OK);
    tenure_fence_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(highest_wins_and_survives_a_restart),
        cmocka_unit_test(zero_and_overflow_are_nobodys),
        cmocka_unit_test(one_process_a_file),
        cmocka_unit_test(damage_refuses),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
