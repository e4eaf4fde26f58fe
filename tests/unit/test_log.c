/* The supervisor's own words: never in the way of leading, and always valid JSON. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/log.h"

static int saved = -1;

static void stderr_to(int fd)
{
    saved = dup(STDERR_FILENO);
    assert_true(saved >= 0 && dup2(fd, STDERR_FILENO) == STDERR_FILENO);
}

static void stderr_back(void)
{
    assert_int_equal(dup2(saved, STDERR_FILENO), STDERR_FILENO);
    close(saved);
}

/* Fails by hanging: the harness' own limit ends it. */
static void a_reader_that_stands_still_holds_nobody_up(void **state)
{
    static const char block[4096];
    int ends[2];

    (void)state;
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
    while (write(ends[1], block, sizeof block) > 0)
        continue;
    assert_int_equal(fcntl(ends[1], F_SETFL, 0), 0);
    tn_log_setup(TN_LOG_TEXT, "job", "a");
    stderr_to(ends[1]);
    tn_log("leading", "nobody reads this");
    stderr_back();
    close(ends[0]);
    close(ends[1]);
}

static void an_id_with_quotes_stays_one_member(void **state)
{
    char line[1024] = "";
    int ends[2];

    (void)state;
    assert_int_equal(pipe(ends), 0);
    tn_log_setup(TN_LOG_JSON, "job", "a\",\"event\":\"\\");
    stderr_to(ends[1]);
    tn_log("leading", "epoch %d", 7);
    stderr_back();
    assert_true(read(ends[0], line, sizeof line - 1) > 0);
    assert_non_null(strstr(line, "\"id\":\"a\\\",\\\"event\\\":\\\"\\\\\","));
    assert_non_null(strstr(line, "\"event\":\"leading\",\"text\":\"epoch 7\"}\n"));
    close(ends[0]);
    close(ends[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reader_that_stands_still_holds_nobody_up),
        cmocka_unit_test(an_id_with_quotes_stays_one_member),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
