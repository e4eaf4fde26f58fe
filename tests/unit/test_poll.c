/* Waiting with a deadline, also when there are no descriptors left. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "os/poll.h"
#include "tenure/store.h"

static void it_waits_with_and_without_descriptors(void **state)
{
    int event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    uint64_t one = 1;
    struct rlimit before, none;

    (void)state;
    assert_true(event >= 0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    for (int round = 0; round < 2; round++) {
        struct pollfd fds[] = {{.fd = -1, .events = POLLIN}, {.fd = event, .events = POLLIN}};

        assert_int_equal(tn_poll(fds, 2, 0), 0);
        assert_int_equal(tn_poll(fds, 2, tenure_now() + 2000000), 0);
        assert_int_equal(write(event, &one, sizeof one), sizeof one);
        assert_int_equal(tn_poll(fds, 2, INT64_MAX / 2), 1);
        assert_int_equal(fds[1].revents, POLLIN);
        assert_int_equal(read(event, &one, sizeof one), sizeof one);
        none = before;
        none.rlim_cur = (rlim_t)event + 1; /* it was the lowest that was free */
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
        assert_true(round > 0 || dup(event) < 0);
    }
    setrlimit(RLIMIT_NOFILE, &before);
    close(event);
}

/* poll() itself refuses more entries than the limit. */
static void it_waits_for_more_than_the_limit(void **state)
{
    struct rlimit before, low;
    struct pollfd fds[3];
    int ends[2];

    (void)state;
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    low = (struct rlimit){2, before.rlim_max};
    for (int i = 0; i < 3; i++)
        fds[i] = (struct pollfd){.fd = ends[0], .events = POLLIN};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    int64_t from = tenure_now();
    int nothing = tn_poll(fds, 3, from + 30000000);
    int64_t until = tenure_now();
    bool written = write(ends[1], "x", 1) == 1;
    int all = tn_poll(fds, 3, until + INT64_C(60000000000));
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(nothing, 0);
    assert_true(until >= from + 30000000);
    assert_true(written);
    assert_int_equal(all, 3);
    assert_int_equal(fds[2].revents, POLLIN);
    close(ends[0]);
    close(ends[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_waits_with_and_without_descriptors),
        cmocka_unit_test(it_waits_for_more_than_the_limit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
