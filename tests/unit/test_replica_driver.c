/* Drivers of a replicated state in one process: real disks, a real register, links that are cut. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/timing.h"
#include "replica/driver.h"
#include "replica/status.h"
#include "tenure/state.h"
#include "tests/support/replica_net.h"

#define LONG_NS (60 * TN_S) /* a condition that must come, on a machine however slow */

extern const struct tenure_store_ops *const tenure_store_module[];

static const struct tn_replica_host host = {.open = tenure_store_open,
                                            .close = tenure_store_close,
                                            .read = tenure_store_read,
                                            .swap = tenure_store_swap};

static char folder[64];
static unsigned worlds;

struct node {
    const char *id;
    char url[400];
    struct tn_replica_driver *driver;
};

struct world {
    char store[40];
    uint64_t epoch;
    struct node a, b, c;
};

static int64_t by(int64_t ns)
{
    return tenure_now() + ns;
}

static void start(struct world *w, struct node *n)
{
    struct tenure_error err = {0};

    if (tn_replica_driver_start(&host, n->url, w->store, "web", n->id, &n->driver, &err))
        fail_msg("%s", err.text);
}

static void stop(struct node *n)
{
    tn_replica_driver_stop(n->driver);
    n->driver = NULL;
}

static void make_node(struct world *w, struct node *n, const char *id, const char *peers,
                      const char *more)
{
    n->id = id;
    snprintf(
        n->url, sizeof n->url,
        "replica://%s/%u%s.db?preview=yes&listen=%u%s:1&peer=%s&heartbeat=20ms&timeout=300ms%s",
        folder, worlds, id, worlds, id, peers, more);
    start(w, n);
}

static void setup(struct world *w, const char *more)
{
    char peers[64];

    memset(w, 0, sizeof *w);
    worlds++;
    snprintf(w->store, sizeof w->store, "memory:replica%u", worlds);
    snprintf(peers, sizeof peers, "%ub:1,%uc:1", worlds, worlds);
    make_node(w, &w->a, "a", peers, more);
    snprintf(peers, sizeof peers, "%ua:1", worlds);
    make_node(w, &w->b, "b", peers, more);
}

static void teardown(struct world *w)
{
    stop(&w->a);
    stop(&w->b);
    stop(&w->c);
}

static void cut(const char *a, const char *b, bool heal)
{
    char from[16], to[16];

    snprintf(from, sizeof from, "%u%s:1", worlds, a);
    snprintf(to, sizeof to, "%u%s:1", worlds, b);
    if (heal)
        replica_net_heal(from, to);
    else
        replica_net_cut(from, to);
}

/* A term of that node, with a fresh grant. */
static enum tenure_status lead(struct world *w, struct node *n, int64_t ns, tenure_state **state,
                               struct tenure_error *err)
{
    struct tenure_grant grant = {.epoch = ++w->epoch};

    assert_int_equal(tenure_nonce(grant.id, err), TENURE_OK);
    return tenure_state_open(n->url, "web", &grant, by(ns), state, err);
}

static tenure_state *must_lead(struct world *w, struct node *n)
{
    struct tenure_error err = {0};
    tenure_state *state = NULL;

    if (lead(w, n, LONG_NS, &state, &err))
        fail_msg("%s", err.text);
    return state;
}

static enum tenure_status commit(tenure_state *state, const char *id, const char *data, int64_t ns)
{
    struct tenure_commit c = {
        .collection = "jobs", .id = id, .data = data, .len = strlen(data), .remove = data[0] == 0};
    struct tenure_error err = {0};

    return tenure_state_commit(state, &c, 1, by(ns), &err);
}

static void must_commit(tenure_state *state, const char *id, const char *data)
{
    assert_int_equal(commit(state, id, data, LONG_NS), TENURE_OK);
}

static void check(tenure_state *state, const char *id, const char *data)
{
    struct tenure_document d = {0};
    struct tenure_error err = {0};

    if (tenure_state_load(state, "jobs", id, &d, by(LONG_NS), &err))
        fail_msg("%s", err.text);
    assert_int_equal(d.exists, data[0] != 0);
    if (data[0])
        assert_string_equal((const char *)d.value.data, data);
    tenure_document_free(&d);
}

/* Wait until the status of a node holds this text. */
static void await_status(struct world *w, const struct node *n, const char *text)
{
    int64_t limit = by(LONG_NS);
    struct tenure_error err = {0};
    char *json = NULL;

    for (;;) {
        if (tn_replica_status(&host, n->url, w->store, "web", limit, &json, &err))
            fail_msg("%s", err.text);
        if (strstr(json, text) != NULL)
            break;
        if (tenure_now() > limit)
            fail_msg("%s is not in %s", text, json);
        free(json);
        usleep(5000);
    }
    free(json);
}

/* ---- Tests ------------------------------------------------------------------------------- */

static void test_acknowledged_by_the_standby(void **state)
{
    struct world w;
    tenure_state *s;

    (void)state;
    setup(&w, "");
    s = must_lead(&w, &w.a);
    must_commit(s, "1", "one");
    must_commit(s, "2", "two");
    must_commit(s, "1", "uno");
    must_commit(s, "2", "");
    check(s, "1", "uno");
    tenure_state_close(s);
    stop(&w.a); /* It is gone; the other has everything. */
    s = must_lead(&w, &w.b);
    check(s, "1", "uno");
    check(s, "2", "");
    tenure_state_close(s);
    teardown(&w);
}

static void test_not_acknowledged_without_the_standby(void **state)
{
    struct world w;
    tenure_state *s;

    (void)state;
    setup(&w, "");
    s = must_lead(&w, &w.a);
    must_commit(s, "1", "one");
    cut("a", "b", false);
    assert_int_equal(commit(s, "1", "lost?", 200 * TN_MS), TENURE_UNKNOWN);
    cut("a", "b", true);
    must_commit(s, "3", "three"); /* ... and with it what came before */
    check(s, "1", "lost?");
    tenure_state_close(s);
    stop(&w.a);
    s = must_lead(&w, &w.b);
    check(s, "1", "lost?");
    check(s, "3", "three");
    tenure_state_close(s);
    teardown(&w);
}

static void test_a_stale_leader_is_fenced(void **state)
{
    struct world w;
    tenure_state *old, *new;

    (void)state;
    setup(&w, "");
    old = must_lead(&w, &w.a);
    must_commit(old, "1", "one");
    cut("a", "b", false);
    new = must_lead(&w, &w.b);
    check(new, "1", "one");
    assert_int_equal(commit(old, "1", "stale", 200 * TN_MS), TENURE_UNKNOWN);
    cut("a", "b", true);
    must_commit(new, "2", "two"); /* The old one has rewound, and follows. */
    assert_int_equal(commit(old, "2", "stale", LONG_NS), TENURE_FENCED);
    check(new, "1", "one");
    await_status(&w, &w.a, "\"conflicts\": 1");
    tenure_state_close(old);
    tenure_state_close(new);
    stop(&w.b);
    new = must_lead(&w, &w.a);
    check(new, "1", "one");
    check(new, "2", "two");
    tenure_state_close(new);
    teardown(&w);
}

static void test_a_copy_that_is_no_member_is_refused(void **state)
{
    struct world w;
    tenure_state *s, *none = NULL;
    struct tenure_error err = {0};
    char peers[16];

    (void)state;
    setup(&w, "");
    s = must_lead(&w, &w.a);
    must_commit(s, "1", "one");
    cut("c", "a", false);
    snprintf(peers, sizeof peers, "%ua:1", worlds);
    make_node(&w, &w.c, "c", peers, "");
    assert_int_equal(lead(&w, &w.c, LONG_NS, &none, &err), TENURE_DENIED);
    assert_non_null(strstr(err.text, "not in the replica set"));
    tenure_state_close(s);
    s = must_lead(&w, &w.a);
    cut("c", "a", true);
    must_commit(s, "2", "two");
    await_status(&w, &w.c, "\"member\": true");
    tenure_state_close(s);
    stop(&w.a); /* Two are left of three: it goes on. */
    s = must_lead(&w, &w.c);
    check(s, "1", "one");
    check(s, "2", "two");
    tenure_state_close(s);
    teardown(&w);
}

/* More than a group holds, in a copy that comes late. */
static void test_a_new_copy_gets_everything(void **state)
{
    struct world w;
    tenure_state *s;
    char *data = calloc(1, 60001), id[16];

    (void)state;
    setup(&w, "&acks=available");
    s = must_lead(&w, &w.a);
    memset(data, 'x', 60000);
    for (unsigned i = 0; i < 40; i++) {
        snprintf(id, sizeof id, "%u", i);
        must_commit(s, id, data);
    }
    stop(&w.b);
    must_commit(s, "7", "seven"); /* available: alone, if need be */
    start(&w, &w.b);
    await_status(&w, &w.b, "\"member\": true");
    must_commit(s, "8", "eight");
    tenure_state_close(s);
    stop(&w.a);
    s = must_lead(&w, &w.b);
    check(s, "7", "seven");
    check(s, "8", "eight");
    check(s, "39", data);
    tenure_state_close(s);
    free(data);
    teardown(&w);
}

static void test_async(void **state)
{
    struct world w;
    tenure_state *s, *none = NULL;
    struct tenure_error err = {0};

    (void)state;
    setup(&w, "&mode=async&max_lag=2&unpublished=4");
    s = must_lead(&w, &w.a);
    must_commit(s, "1", "one");
    cut("a", "b", false);
    for (unsigned i = 0; i < 20; i++)
        must_commit(s, "2", "alone");
    assert_int_equal(lead(&w, &w.b, LONG_NS, &none, &err), TENURE_DENIED);
    assert_non_null(strstr(err.text, "behind the commit point"));
    tenure_state_close(s);
    teardown(&w);
}

static void test_one_process_a_file(void **state)
{
    struct world w;
    struct tn_replica_driver *second = NULL;
    struct tenure_error err = {0};

    (void)state;
    setup(&w, "");
    assert_int_equal(tn_replica_driver_start(&host, w.a.url, w.store, "web", "z", &second, &err),
                     TENURE_CONFIG);
    assert_non_null(strstr(err.text, "another process"));
    teardown(&w);
}

static int before(void **state)
{
    struct tenure_error err = {0};

    (void)state;
    snprintf(folder, sizeof folder, "/tmp/tenure-replica-XXXXXX");
    if (!mkdtemp(folder) || tenure_store_register(tenure_store_module[0], &err))
        return -1;
    return 0;
}

static int after(void **state)
{
    char command[100];

    (void)state;
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_acknowledged_by_the_standby),
        cmocka_unit_test(test_not_acknowledged_without_the_standby),
        cmocka_unit_test(test_a_stale_leader_is_fenced),
        cmocka_unit_test(test_a_copy_that_is_no_member_is_refused),
        cmocka_unit_test(test_a_new_copy_gets_everything),
        cmocka_unit_test(test_async),
        cmocka_unit_test(test_one_process_a_file),
    };

    return cmocka_run_group_tests(tests, before, after);
}
