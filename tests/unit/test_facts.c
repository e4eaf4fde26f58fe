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

#include "agent/hub_inner.h"
#include "tenure/store.h"

/* The hub's thread is not there. */
void tn_hub_wake(struct tn_hub *hub)
{
    (void)hub;
}

static struct tn_facts *page;
static int page_fd = -1;

static int set_up(void **state)
{
    (void)state;
    page = tn_facts_new(&page_fd);
    return page ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    tn_facts_unmap(page);
    return close(page_fd);
}

static struct tn_facts_view look(void)
{
    struct tn_facts_view v;

    tn_facts_read(page, &v);
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
    tn_facts_lead(page, until, until, 7);
    while (tenure_now() < until)
        continue;
    struct tn_facts_view v = look();
    assert_false(v.leads);
    assert_int_equal(v.epoch, 0);
    assert_int_equal(v.left_ns, 0);
}

static void a_grant_that_is_sealed_leads_nothing_yet(void **state)
{
    int64_t until = tenure_now() + 60 * TN_S;

    (void)state;
    tn_facts_lead(page, 0, until, 0);
    assert_false(look().leads);
    assert_true(look().left_ns > 0);
    tn_facts_lead(page, until, until, 9);
    assert_true(look().leads);
    assert_int_equal(look().epoch, 9);
    tn_facts_lead(page, 0, until, 0);
    assert_false(look().leads);
}

static void an_answer_holds_no_longer_than_was_said(void **state)
{
    int64_t until = tenure_now() + 60 * TN_S;

    (void)state;
    tn_facts_lead(page, until, until, 9);
    atomic_store(&page->answer_ns, 3 * TN_S);
    assert_int_equal(look().left_ns, 3 * TN_S);
    tn_facts_clear(page);
    assert_false(look().leads);
}

/* Its end is seen before anybody has waited for it. */
static void the_dead_lead_nothing(void **state)
{
    struct tn_hub hub = {.lock = PTHREAD_MUTEX_INITIALIZER};
    struct tn_far far = {.hub = &hub, .facts = page};
    int64_t until = tenure_now() + 600 * TN_S;
    siginfo_t info;
    pid_t pid = fork();

    (void)state;
    if (pid == 0) {
        pause();
        _exit(0);
    }
    far.life_fd = (int)syscall(SYS_pidfd_open, pid, 0);
    assert_true(far.life_fd >= 0);
    tn_facts_lead(page, until, until, 5);
    atomic_store(&page->running, true);
    assert_true(tn_far_table.leads(&far));
    assert_true(tn_far_table.ready(&far));
    assert_false(tn_far_table.stopping(&far));
    kill(pid, SIGKILL);
    assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
    assert_true(look().leads); /* the page alone does not know */
    assert_false(tn_far_table.leads(&far));
    assert_false(tn_far_table.ready(&far));
    assert_true(tn_far_table.stopping(&far)); /* and it is no standby either */
    json_t *told = tn_far_table.leadership(&far);
    assert_true(json_is_false(json_object_get(told, "leading")));
    assert_int_equal(json_integer_value(json_object_get(told, "left_ms")), 0);
    json_decref(told);
    waitpid(pid, NULL, 0);
    close(far.life_fd);
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

    return cmocka_run_group_tests_name("facts", tests, NULL, NULL);
}
