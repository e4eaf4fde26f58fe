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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_waits_with_and_without_descriptors),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
