/* The supervisor's own words: never in the way of leading, and always valid JSON. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/text.h"
#include "os/log.h"

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
    tn_log("leading", "epoch %d\033\177\302\233\303\251", 7);
    stderr_back();
    assert_true(read(ends[0], line, sizeof line - 1) > 0);
    assert_non_null(strstr(line, "\"id\":\"a\\\",\\\"event\\\":\\\"\\\\\","));
    assert_non_null(strstr(line, "\"event\":\"leading\",\"text\":\"epoch 7"
                                 "\\u001b\\u007f\\u009b\303\251\"}\n"));
    close(ends[0]);
    close(ends[1]);
}

/* Half a character makes a line that no reader of JSON takes. */
static void a_long_line_ends_with_a_whole_character(void **state)
{
    char line[4096] = "", text[4000] = "";
    int ends[2];

    (void)state;
    assert_int_equal(pipe(ends), 0);
    for (size_t i = 0; i < sizeof text - 1; i += 3)
        memcpy(text + i, "\u20ac", 3);
    for (size_t shift = 0; shift < 3; shift++) {
        tn_log_setup(TN_LOG_JSON, "job", "a");
        stderr_to(ends[1]);
        tn_log("leading", "%s\xff%s", &"xxx"[shift], text);
        stderr_back();
        ssize_t n = read(ends[0], line, sizeof line - 1);
        assert_true(n > 700);
        line[n] = '\0';
        assert_non_null(strstr(line, "x?\u20ac\u20ac"));
        for (const char *p = line; *p; p += tn_text_char(p))
            assert_true(tn_text_char(p) > 0);
        assert_string_equal(line + n - 6, "\u20ac\"}\n");
    }
    close(ends[0]);
    close(ends[1]);
}

/* What somebody asked for over HTTP is quoted: it does not begin a line of its own. */
static void a_line_is_one_line(void **state)
{
    char line[1024] = "";
    int ends[2];

    (void)state;
    assert_int_equal(pipe(ends), 0);
    tn_log_as("run");
    tn_log_setup(TN_LOG_TEXT, "job", "a");
    tn_log_stamp(TN_LOG_STAMP_NEVER);
    stderr_to(ends[1]);
    tn_log("order", "to %s", "x\ntenure run: job: \033[2J\302\2332Jleading");
    stderr_back();
    assert_true(read(ends[0], line, sizeof line - 1) > 0);
    assert_string_equal(line, "tenure run: job: to x?tenure run: job: ?[2J??2Jleading\n");
    close(ends[0]);
    close(ends[1]);
}

/* What each level lets through, by events that stand for the rest. */
static void a_level_is_a_limit(void **state)
{
    static const char *const events[] = {"failed", "lost", "leading", "renewed"};
    static const char *const words[] = {"error", "warn", "info", "debug"};

    (void)state;
    tn_log_setup(TN_LOG_JSON, "job", "a");
    for (int limit = TN_LEVEL_ERROR; limit <= TN_LEVEL_DEBUG; limit++) {
        char lines[2048] = "", wanted[32];
        int ends[2];

        assert_int_equal(pipe(ends), 0);
        tn_log_limit((enum tn_log_level)limit);
        stderr_to(ends[1]);
        for (int i = 0; i < 4; i++)
            tn_log(events[i], "line");
        tn_log("end", "that the pipe is not empty");
        tn_log_limit(TN_LEVEL_INFO);
        tn_log("end", "that the pipe is not empty");
        stderr_back();
        assert_true(read(ends[0], lines, sizeof lines - 1) > 0);
        for (int i = 0; i < 4; i++) {
            snprintf(wanted, sizeof wanted, "\"event\":\"%s\"", events[i]);
            assert_int_equal(strstr(lines, wanted) != NULL, i <= limit);
            tn_log_limit((enum tn_log_level)limit);
            assert_int_equal(tn_log_wants((enum tn_log_level)i), i <= limit);
            tn_log_limit(TN_LEVEL_INFO);
        }
        snprintf(wanted, sizeof wanted, "\"level\":\"%s\"", words[limit]);
        assert_non_null(strstr(lines, wanted));
        close(ends[0]);
        close(ends[1]);
    }
}

/* A flood of lines that strangers cause: one in so long, and the next says how many were not told.
 */
static void a_gate_lets_one_through(void **state)
{
    struct tn_log_gate gate = {0};
    unsigned skipped = 99;

    (void)state;
    assert_true(tn_log_pass(&gate, 1000, 10, &skipped));
    assert_int_equal(skipped, 0);
    assert_false(tn_log_pass(&gate, 1000, 10, &skipped));
    assert_false(tn_log_pass(&gate, 1009, 10, &skipped));
    assert_true(tn_log_pass(&gate, 1010, 10, &skipped));
    assert_int_equal(skipped, 2);
    assert_true(tn_log_pass(&gate, 1020, 10, &skipped));
    assert_int_equal(skipped, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reader_that_stands_still_holds_nobody_up),
        cmocka_unit_test(an_id_with_quotes_stays_one_member),
        cmocka_unit_test(a_long_line_ends_with_a_whole_character),
        cmocka_unit_test(a_line_is_one_line),
        cmocka_unit_test(a_level_is_a_limit),
        cmocka_unit_test(a_gate_lets_one_through),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
