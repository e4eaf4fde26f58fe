/* The thread that tells those who wait: an open stream delays nobody's finished work. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <semaphore.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "api/inner.h"

#define TRIES 200

/* Not linked: there are no elections here. */
struct tn_election_snapshot *tn_election_snapshot(struct tn_election *e, bool lists, uint64_t ping)
{
    (void)e, (void)lists, (void)ping;
    return NULL;
}

json_t *tn_snapshot_json(struct tn_election_snapshot *s)
{
    (void)s;
    return NULL;
}

bool tn_election_wants_refresh(struct tn_election *e)
{
    (void)e;
    return false;
}

void tn_election_refresh(struct tn_election *e)
{
    (void)e;
}

/* A server with one stream, and a request that is parked. */
static sem_t woken;
static atomic_uint published;

static void count(struct tn_http_server *server, struct tn_http_counts *counts)
{
    (void)server;
    *counts = (struct tn_http_counts){.streams = 1, .parked = 1};
}

static void publish(struct tn_http_server *server, unsigned channel, const char *text, size_t len)
{
    (void)server;
    (void)channel;
    (void)text;
    (void)len;
    published++;
}

static void wake(struct tn_http_server *server)
{
    (void)server;
    sem_post(&woken);
}

static void sweep(struct tn_http_server *server, int64_t longer_than_ns)
{
    (void)server;
    (void)longer_than_ns;
}

/* Poked, it wakes who is parked, whatever it has just told the streams.  So two pokes are met
 * between two messages, sooner or later: if it slept after each message they never were. */
static void streams_delay_nobody(void **state)
{
    static const struct tn_http_ops ops = {
        .count = count, .publish = publish, .wake = wake, .sweep = sweep};
    static struct tn_api_list none;
    struct tn_api api = {.http = &ops, .n_servers = 1};
    struct tenure_error err;
    unsigned before, tries = 0;

    (void)state;
    atomic_store(&api.list, &none);
    sem_init(&woken, 0, 0);
    api.event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    assert_int_equal(tn_api_events_start(&api, &err), TENURE_OK);
    do {
        before = published;
        for (int i = 0; i < 2; i++) {
            while (sem_trywait(&woken) == 0)
                continue;
            tn_api_notify(&api);
            sem_wait(&woken);
        }
    } while (published != before && ++tries < TRIES);
    assert_true(tries < TRIES);
    assert_true(published > 0);
    tn_api_events_stop(&api);
    close(api.event_fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(streams_delay_nobody)};

    return cmocka_run_group_tests_name("api_events", tests, NULL, NULL);
}
