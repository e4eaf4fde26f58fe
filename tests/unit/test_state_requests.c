/* Requests in the queue: commits that come meanwhile are answered together, reads do not wait. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "state/http/queue.h"

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

static void work(void *arg, struct tn_state_request *const *requests, size_t n)
{
    struct world *w = arg;

    pthread_mutex_lock(&w->lock);
    if (strcmp(requests[0]->method, "GET") != 0) {
        w->rounds[w->n_rounds++] = n;
        w->working++;
        pthread_cond_broadcast(&w->word);
        while (!w->go)
            pthread_cond_wait(&w->word, &w->lock);
        w->working--;
    }
    pthread_mutex_unlock(&w->lock);
    for (size_t i = 0; i < n; i++) {
        requests[i]->reply = (struct tn_http_reply){.status = 200, .owned = true};
        requests[i]->reply.body = strdup(requests[i]->path);
        requests[i]->reply.len = strlen(requests[i]->path);
        w->last_turn = requests[i]->turn;
        w->last_program = requests[i]->by_program ? requests[i]->program : 0;
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

static struct tn_state_queue *open_queue(struct world *w)
{
    struct tn_state_queue_options options = {
        .answer = work, .wake = wake, .turn = turn, .span_ns = INT64_MAX, .arg = w};
    struct tn_state_queue *queue = NULL;
    struct tenure_error err;

    memset(w, 0, sizeof *w);
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->word, NULL);
    assert_int_equal(tn_state_queue_open(&options, &queue, &err), TENURE_OK);
    return queue;
}

/* As the server does it; true if it is parked. */
static bool send_request(struct tn_state_queue *queue, const char *method,
                         struct tn_http_memo *memo, const char *path, struct tn_http_reply *reply)
{
    struct tn_http_request request = {
        .method = method, .path = path, .connection_id = 3, .memo = memo, .header = no_header};

    *reply = (struct tn_http_reply){0};
    tn_state_queue_handle(queue, &request, reply);
    return reply->park;
}

static void gathers(void **state)
{
    struct tn_http_memo first = {0}, memos[MANY] = {{0}};
    struct tn_http_reply reply;
    struct world w;
    struct tn_state_queue *queue = open_queue(&w);

    (void)state;
    assert_true(send_request(queue, "PUT", &first, "/first", &reply));
    wait_working(&w);
    for (int i = 0; i < MANY; i++)
        assert_true(send_request(queue, "PUT", &memos[i], "/more", &reply));
    assert_true(send_request(queue, "PUT", &first, "/first", &reply)); /* it is not done */
    let_go(&w);
    wait_wakes(&w, 2);
    assert_int_equal(w.n_rounds, 2);
    assert_int_equal(w.rounds[0], 1);
    assert_int_equal(w.rounds[1], MANY);
    assert_false(send_request(queue, "PUT", &first, "/first", &reply));
    assert_int_equal(reply.status, 200);
    assert_string_equal(reply.body, "/first");
    free(reply.body);
    tn_state_queue_done(queue, &first);
    for (int i = 0; i < MANY; i++)
        tn_state_queue_done(queue, &memos[i]); /* hung up without its answer */
    tn_state_queue_close(queue);
}

/* The server has no room to park it, and says so: then it is not done either. */
static void without_room(void **state)
{
    struct tn_http_memo memo = {0};
    struct tn_http_request request = {
        .method = "PUT", .path = "/full", .full = true, .memo = &memo, .header = no_header};
    struct tn_http_reply reply = {0};
    struct world w;
    struct tn_state_queue *queue = open_queue(&w);

    (void)state;
    let_go(&w);
    tn_state_queue_handle(queue, &request, &reply);
    assert_true(reply.park);
    assert_null(memo.job);
    tn_state_queue_done(queue, &memo);
    tn_state_queue_close(queue);
    assert_int_equal(w.n_rounds, 0);
}

/* Over while it waits: it is not done at all. */
static void withdrawn(void **state)
{
    struct tn_http_memo first = {0}, second = {0}, third = {0};
    struct tn_http_reply reply;
    struct world w;
    struct tn_state_queue *queue = open_queue(&w);

    (void)state;
    assert_true(send_request(queue, "PUT", &first, "/first", &reply));
    wait_working(&w);
    assert_true(send_request(queue, "PUT", &second, "/second", &reply));
    tn_state_queue_done(queue, &second);
    assert_null(second.job);
    assert_true(send_request(queue, "PUT", &third, "/third", &reply)); /* the queue is whole */
    let_go(&w);
    wait_wakes(&w, 2);
    assert_int_equal(w.rounds[1], 1);
    assert_false(send_request(queue, "PUT", &third, "/third", &reply));
    assert_string_equal(reply.body, "/third");
    free(reply.body);
    tn_state_queue_done(queue, &first);
    tn_state_queue_done(queue, &third);
    tn_state_queue_close(queue);
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
    struct tn_state_queue *queue = open_queue(&w);
    pthread_t thread;

    (void)state;
    assert_true(send_request(queue, "PUT", &first, "/first", &reply));
    wait_working(&w);
    assert_int_equal(pthread_create(&thread, NULL, let_go_later, &w), 0);
    tn_state_queue_done(queue, &first);
    pthread_mutex_lock(&w.lock);
    assert_true(w.go);
    assert_int_equal(w.working, 0);
    pthread_mutex_unlock(&w.lock);
    pthread_join(thread, NULL);
    tn_state_queue_close(queue);
    tn_state_queue_close(NULL);
}

/* However long it waits, it is known what it came from. */
static void remembers(void **state)
{
    struct tn_http_memo first = {0}, second = {0};
    struct tn_http_reply reply;
    struct world w;
    struct tn_state_queue *queue = open_queue(&w);

    (void)state;
    w.turn = 10;
    assert_true(send_request(queue, "PUT", &first, "/first", &reply));
    wait_working(&w);
    assert_true(send_request(queue, "PUT", &second, "/second", &reply));
    w.turn = 12;
    assert_true(send_request(queue, "PUT", &second, "/second", &reply)); /* it has not come again */
    let_go(&w);
    wait_wakes(&w, 2);
    assert_int_equal(w.last_turn, 10);
    assert_int_equal(w.last_program, 3);
    tn_state_queue_done(queue, &first);
    tn_state_queue_done(queue, &second);
    tn_state_queue_close(queue);
}

/* A read is answered while a commit is under way. */
static void reads_pass(void **state)
{
    struct tn_http_memo first = {0}, read = {0};
    struct tn_http_reply reply;
    struct world w;
    struct tn_state_queue *queue = open_queue(&w);

    (void)state;
    assert_true(send_request(queue, "PUT", &first, "/first", &reply));
    wait_working(&w);
    assert_true(send_request(queue, "GET", &read, "/read", &reply));
    wait_wakes(&w, 1);
    assert_false(send_request(queue, "GET", &read, "/read", &reply));
    assert_string_equal(reply.body, "/read");
    free(reply.body);
    assert_true(send_request(queue, "PUT", &first, "/first", &reply));
    let_go(&w);
    tn_state_queue_done(queue, &read);
    tn_state_queue_done(queue, &first);
    tn_state_queue_close(queue);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(gathers),   cmocka_unit_test(without_room),
                                       cmocka_unit_test(withdrawn), cmocka_unit_test(waited_for),
                                       cmocka_unit_test(remembers), cmocka_unit_test(reads_pass)};

    return cmocka_run_group_tests_name("state_desk", tests, NULL, NULL);
}
