/* The desk: what comes while it works is done together, and nobody is left behind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "state/http/desk.h"

#define MANY 20

/* Not linked: only the answer to an empty memory. */
void tn_http_answer_error(struct tn_http_reply *reply, unsigned status, const char *error,
                          const char *detail)
{
    (void)error;
    (void)detail;
    reply->status = status;
}

/* Work that waits for a word, and notes its rounds. */
struct world {
    pthread_mutex_t lock;
    pthread_cond_t word;
    bool go;
    unsigned n_rounds, wakes, working;
    size_t rounds[64];
    uint64_t turn;                    /* in hand */
    uint64_t last_turn, last_program; /* of the last one that was done */
};

static void work(void *arg, struct tn_state_ask *const *asks, size_t n)
{
    struct world *w = arg;

    pthread_mutex_lock(&w->lock);
    w->rounds[w->n_rounds++] = n;
    w->working++;
    pthread_cond_broadcast(&w->word);
    while (!w->go)
        pthread_cond_wait(&w->word, &w->lock);
    w->working--;
    pthread_mutex_unlock(&w->lock);
    for (size_t i = 0; i < n; i++) {
        asks[i]->reply = (struct tn_http_reply){.status = 200, .owned = true};
        asks[i]->reply.body = strdup(asks[i]->path);
        asks[i]->reply.len = strlen(asks[i]->path);
        w->last_turn = asks[i]->turn;
        w->last_program = asks[i]->by_program ? asks[i]->program : 0;
    }
}

static void wake(void *arg)
{
    struct world *w = arg;

    pthread_mutex_lock(&w->lock);
    w->wakes++;
    pthread_cond_broadcast(&w->word);
    pthread_mutex_unlock(&w->lock);
}

static uint64_t turn(void *arg)
{
    return ((struct world *)arg)->turn;
}

static void let_go(struct world *w)
{
    pthread_mutex_lock(&w->lock);
    w->go = true;
    pthread_cond_broadcast(&w->word);
    pthread_mutex_unlock(&w->lock);
}

static void wait_working(struct world *w)
{
    pthread_mutex_lock(&w->lock);
    while (!w->working)
        pthread_cond_wait(&w->word, &w->lock);
    pthread_mutex_unlock(&w->lock);
}

static void wait_wakes(struct world *w, unsigned n)
{
    pthread_mutex_lock(&w->lock);
    while (w->wakes < n)
        pthread_cond_wait(&w->word, &w->lock);
    pthread_mutex_unlock(&w->lock);
}

static const char *no_header(const struct tn_http_request *request, const char *name)
{
    (void)request;
    (void)name;
    return NULL;
}

static struct tn_state_desk *open_desk(struct world *w)
{
    struct tn_state_desk_options options = {.work = work, .wake = wake, .turn = turn, .arg = w};
    struct tn_state_desk *desk = NULL;
    struct tenure_error err;

    memset(w, 0, sizeof *w);
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->word, NULL);
    assert_int_equal(tn_state_desk_open(&options, &desk, &err), TENURE_OK);
    return desk;
}

/* As the server does it; true if it is parked. */
static bool ask(struct tn_state_desk *desk, struct tn_http_memo *memo, const char *path,
                struct tn_http_reply *reply)
{
    struct tn_http_request request = {
        .method = "PUT", .path = path, .visit = 3, .memo = memo, .header = no_header};

    *reply = (struct tn_http_reply){0};
    tn_state_desk_handle(desk, &request, reply);
    return reply->park;
}

static void gathers(void **state)
{
    struct tn_http_memo first = {0}, memos[MANY] = {{0}};
    struct tn_http_reply reply;
    struct world w;
    struct tn_state_desk *desk = open_desk(&w);

    (void)state;
    assert_true(ask(desk, &first, "/first", &reply));
    wait_working(&w);
    for (int i = 0; i < MANY; i++)
        assert_true(ask(desk, &memos[i], "/more", &reply));
    assert_true(ask(desk, &first, "/first", &reply)); /* it is not done */
    let_go(&w);
    wait_wakes(&w, 2);
    assert_int_equal(w.n_rounds, 2);
    assert_int_equal(w.rounds[0], 1);
    assert_int_equal(w.rounds[1], MANY);
    assert_false(ask(desk, &first, "/first", &reply));
    assert_int_equal(reply.status, 200);
    assert_string_equal(reply.body, "/first");
    free(reply.body);
    tn_state_desk_done(desk, &first);
    for (int i = 0; i < MANY; i++)
        tn_state_desk_done(desk, &memos[i]); /* hung up without its answer */
    tn_state_desk_close(desk);
}

/* The server has no room to park it, and says so: then it is not done either. */
static void without_room(void **state)
{
    struct tn_http_memo memo = {0};
    struct tn_http_request request = {
        .method = "PUT", .path = "/full", .full = true, .memo = &memo, .header = no_header};
    struct tn_http_reply reply = {0};
    struct world w;
    struct tn_state_desk *desk = open_desk(&w);

    (void)state;
    let_go(&w);
    tn_state_desk_handle(desk, &request, &reply);
    assert_true(reply.park);
    assert_null(memo.job);
    tn_state_desk_done(desk, &memo);
    tn_state_desk_close(desk);
    assert_int_equal(w.n_rounds, 0);
}

/* Over while it waits: it is not done at all. */
static void withdrawn(void **state)
{
    struct tn_http_memo first = {0}, second = {0}, third = {0};
    struct tn_http_reply reply;
    struct world w;
    struct tn_state_desk *desk = open_desk(&w);

    (void)state;
    assert_true(ask(desk, &first, "/first", &reply));
    wait_working(&w);
    assert_true(ask(desk, &second, "/second", &reply));
    tn_state_desk_done(desk, &second);
    assert_null(second.job);
    assert_true(ask(desk, &third, "/third", &reply)); /* the queue is whole */
    let_go(&w);
    wait_wakes(&w, 2);
    assert_int_equal(w.rounds[1], 1);
    assert_false(ask(desk, &third, "/third", &reply));
    assert_string_equal(reply.body, "/third");
    free(reply.body);
    tn_state_desk_done(desk, &first);
    tn_state_desk_done(desk, &third);
    tn_state_desk_close(desk);
}

static void *let_go_later(void *arg)
{
    usleep(20000);
    let_go(arg);
    return NULL;
}

/* Over while it is being done: the body is the server's, so it is waited for. */
static void waited_for(void **state)
{
    struct tn_http_memo first = {0};
    struct tn_http_reply reply;
    struct world w;
    struct tn_state_desk *desk = open_desk(&w);
    pthread_t thread;

    (void)state;
    assert_true(ask(desk, &first, "/first", &reply));
    wait_working(&w);
    assert_int_equal(pthread_create(&thread, NULL, let_go_later, &w), 0);
    tn_state_desk_done(desk, &first);
    pthread_mutex_lock(&w.lock);
    assert_true(w.go);
    assert_int_equal(w.working, 0);
    pthread_mutex_unlock(&w.lock);
    pthread_join(thread, NULL);
    tn_state_desk_close(desk);
    tn_state_desk_close(NULL);
}

/* However long it waits, it is known what it came from. */
static void remembers(void **state)
{
    struct tn_http_memo first = {0}, second = {0};
    struct tn_http_reply reply;
    struct world w;
    struct tn_state_desk *desk = open_desk(&w);

    (void)state;
    w.turn = 10;
    assert_true(ask(desk, &first, "/first", &reply));
    wait_working(&w);
    assert_true(ask(desk, &second, "/second", &reply));
    w.turn = 12;
    assert_true(ask(desk, &second, "/second", &reply)); /* it has not come again */
    let_go(&w);
    wait_wakes(&w, 2);
    assert_int_equal(w.last_turn, 10);
    assert_int_equal(w.last_program, 3);
    tn_state_desk_done(desk, &first);
    tn_state_desk_done(desk, &second);
    tn_state_desk_close(desk);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(gathers), cmocka_unit_test(without_room),
                                       cmocka_unit_test(withdrawn), cmocka_unit_test(waited_for),
                                       cmocka_unit_test(remembers)};

    return cmocka_run_group_tests_name("state_desk", tests, NULL, NULL);
}
