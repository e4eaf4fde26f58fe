/* Who leads, as an agent reads it from a page that it shares with an election's process. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/proxy_inner.h"
#include "tenure/store.h"

/* The proxy's thread and the listener are not there. */
void tn_proxy_wake(struct tn_proxy *proxy)
{
    (void)proxy;
}

void tn_api_wake(struct tn_api *api)
{
    (void)api;
}

void tn_api_notify(void *api)
{
    (void)api;
}

static struct tn_leader_page *page;
static int page_fd = -1;

static int set_up(void **state)
{
    (void)state;
    page = tn_leader_page_new(&page_fd);
    return page ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    tn_leader_page_unmap(page);
    return close(page_fd);
}

static struct tn_leader_view look(void)
{
    struct tn_leader_view v;

    tn_leader_page_read(page, &v);
    return v;
}

static void a_new_page_leads_nothing(void **state)
{
    (void)state;
    assert_false(look().leads);
    assert_int_equal(look().left_ns, 0);
    assert_int_equal(ftruncate(page_fd, 0), -1); /* nobody can take it away */
}

static void time_alone_ends_leadership(void **state)
{
    int64_t until = tenure_now() + 20 * TN_MS;

    (void)state;
    tn_leader_page_write(page, until, until, 7);
    while (tenure_now() < until)
        continue;
    struct tn_leader_view v = look();
    assert_false(v.leads);
    assert_int_equal(v.epoch, 0);
    assert_int_equal(v.left_ns, 0);
}

static void a_grant_that_is_sealed_leads_nothing_yet(void **state)
{
    int64_t until = tenure_now() + 60 * TN_S;

    (void)state;
    tn_leader_page_write(page, 0, until, 0);
    assert_false(look().leads);
    assert_true(look().left_ns > 0);
    tn_leader_page_write(page, until, until, 9);
    assert_true(look().leads);
    assert_int_equal(look().epoch, 9);
    tn_leader_page_write(page, 0, until, 0);
    assert_false(look().leads);
}

static void an_answer_holds_no_longer_than_was_said(void **state)
{
    int64_t until = tenure_now() + 60 * TN_S;

    (void)state;
    tn_leader_page_write(page, until, until, 9);
    atomic_store(&page->answer_ns, 3 * TN_S);
    assert_int_equal(look().left_ns, 3 * TN_S);
    tn_leader_page_clear(page);
    assert_false(look().leads);
}

/* Its end is seen before anybody has waited for it. */
static void the_dead_lead_nothing(void **state)
{
    static struct tn_proxy proxy = {.lock = PTHREAD_MUTEX_INITIALIZER};
    struct tn_upstream upstream = {.proxy = &proxy, .page = page};
    struct tn_leader_view v;
    int64_t until = tenure_now() + 600 * TN_S;
    siginfo_t info;
    pid_t pid = fork();

    (void)state;
    if (pid == 0) {
        pause();
        _exit(0);
    }
    upstream.life_fd = (int)syscall(SYS_pidfd_open, pid, 0);
    assert_true(upstream.life_fd >= 0);
    tn_leader_page_write(page, until, until, 5);
    atomic_store(&page->running, true);
    tn_remote_table.leader(&upstream, &v);
    assert_true(v.leads && v.running);
    assert_false(tn_remote_table.stopping(&upstream));
    kill(pid, SIGKILL);
    assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
    assert_true(look().leads); /* the page alone does not know */
    tn_remote_table.leader(&upstream, &v);
    assert_false(v.leads || v.running);
    assert_true(tn_remote_table.stopping(&upstream)); /* and it is no standby either */
    struct tn_election_snapshot *s = tn_remote_table.snapshot(&upstream, true, 0);
    assert_non_null(s);
    assert_false(s->leads);
    assert_int_equal(s->left_ns, 0);
    free(s);
    waitpid(pid, NULL, 0);
    close(upstream.life_fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_new_page_leads_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(time_alone_ends_leadership, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_grant_that_is_sealed_leads_nothing_yet, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(an_answer_holds_no_longer_than_was_said, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_dead_lead_nothing, set_up, tear_down),
    };

    return cmocka_run_group_tests_name("leader_page", tests, NULL, NULL);
}
