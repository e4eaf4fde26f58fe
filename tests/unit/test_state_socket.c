/* The program's socket over a store that is slow: what was asked of one term is not done in
 * another. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/timing.h"
#include "faultstore.h"
#include "rot_store.h"
#include "state/http/http.h"
#include "state/http/socket.h"

#define STORE "memory:desk"

static sem_t inside, answer;
static atomic_bool slow;
static struct tn_state_socket *program_socket;

/* The next change of "slow" waits for a word. */
static void hold(void *arg, const struct tn_fault_event *e, struct tn_fault_plan *plan)
{
    (void)arg;
    (void)plan;
    if (e->call != TN_CALL_SWAP || !e->key || !strstr(e->key, "/slow") ||
        !atomic_exchange(&slow, false))
        return;
    sem_post(&inside);
    sem_wait(&answer);
}

static void fenced(void *arg, uint64_t floor)
{
    (void)arg;
    (void)floor;
}

static _Atomic uint64_t begun; /* the epoch in which the program works */

static uint64_t term(void *arg, bool *draining)
{
    (void)arg;
    *draining = false;
    return begun;
}

static int64_t time_left(void *arg)
{
    (void)arg;
    return 60 * TN_S;
}

static int64_t grace_ns = 100 * TN_S;

static int64_t grace(void *arg)
{
    (void)arg;
    return grace_ns;
}

/* ---- As the program does it ---------------------------------------------- */

static int send_request(const char *method, const char *id, const char *body)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char text[512];

    snprintf(address.sun_path, sizeof address.sun_path, "%s",
             strchr(tn_state_socket_variable(program_socket), '=') + 1);
    assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof address), 0);
    int n = snprintf(text, sizeof text,
                     "%s %s%s HTTP/1.1\r\nHost: x\r\nContent-Length: %zu\r\n"
                     "Connection: close\r\n\r\n%s",
                     method, *id == '/' ? "" : "/v1/state/docs/", id, strlen(body), body);
    assert_int_equal(write(fd, text, (size_t)n), n);
    return fd;
}

/* Its status; *text is what was sent, up to the end. */
static int take_answer(int fd, char text[2048])
{
    size_t len = 0;
    ssize_t n;

    while (len < 2047 && (n = read(fd, text + len, 2047 - len)) > 0)
        len += (size_t)n;
    text[len] = '\0';
    close(fd);
    assert_memory_equal(text, "HTTP/1.1 ", 9);
    return atoi(text + 9);
}

static int ask(const char *method, const char *id, const char *body, char text[2048])
{
    return take_answer(send_request(method, id, body), text);
}

/* ---- The terms ----------------------------------------------------------- */

static void seal(uint64_t epoch)
{
    uint8_t grant[TENURE_NONCE_SIZE];
    struct tenure_error err;
    uint64_t floor;
    bool gained;

    memset(grant, (int)epoch, sizeof grant);
    assert_int_equal(tn_state_socket_seal(program_socket, epoch, grant, &floor, &gained, &err),
                     TENURE_OK);
}

static void *seal_12(void *arg)
{
    (void)arg;
    seal(12);
    return NULL;
}

/* Somebody else's term, elsewhere.  To be closed at the end: the memory lasts as long as a user. */
static tenure_state *lead_11(void)
{
    struct tenure_grant grant = {.epoch = 11};
    struct tenure_commit c = {.collection = "docs", .id = "x", .data = "of 11", .len = 5};
    int64_t deadline = tenure_now() + 20 * TN_S;
    struct tenure_error err;
    tenure_state *other;

    memset(grant.id, 11, sizeof grant.id);
    assert_int_equal(tenure_state_open(STORE, "app", &grant, deadline, &other, &err), TENURE_OK);
    assert_int_equal(tenure_state_seal(other, "docs", deadline, &err), TENURE_OK);
    assert_int_equal(tenure_state_commit(other, &c, 1, deadline, &err), TENURE_OK);
    return other;
}

/* A header that nobody sent, and a request that came over the API. */
static const char *no_header(const struct tn_http_request *request, const char *name)
{
    (void)request;
    (void)name;
    return NULL;
}

static void *ask_otherwise(void *arg)
{
    struct tn_http_request request = {.method = "PUT",
                                      .path = "/v1/state/docs/x",
                                      .body = (const unsigned char *)"of 10",
                                      .body_len = 5,
                                      .header = no_header};
    struct tn_http_reply reply = {0};

    tn_state_socket_answer(program_socket, &request, &reply);
    *(unsigned *)arg = reply.status;
    if (reply.owned)
        free(reply.body);
    return NULL;
}

/* Term 10: one commit is in the store, another waits behind it.  The program dies, somebody else
 * leads and commits, and we lead again: the one that waited must not be done under that grant. */
static void waits_into_another_term(void **state)
{
    unsigned otherwise = 0;
    pthread_t sealer, client;
    char text[2048];

    (void)state;
    seal(10);
    assert_int_equal(ask("PUT", "x", "first", text), 200);
    assert_int_equal(ask("PUT", "slow", "1", text), 200);
    slow = true;
    int first = send_request("PUT", "slow", "2");
    sem_wait(&inside);
    int second = send_request("PUT", "x", "of 10");
    usleep(200 * 1000); /* it is being written */
    tenure_state *other = lead_11();
    assert_int_equal(pthread_create(&sealer, NULL, seal_12, NULL), 0);
    usleep(200 * 1000); /* it waits for that */
    assert_int_equal(pthread_create(&client, NULL, ask_otherwise, &otherwise), 0);
    usleep(200 * 1000);
    sem_post(&answer);
    pthread_join(sealer, NULL);
    pthread_join(client, NULL);
    assert_int_equal(take_answer(first, text), 409);
    assert_int_equal(take_answer(second, text), 409);
    assert_non_null(strstr(text, "\"not-leader\""));
    assert_int_equal(otherwise, 409);
    assert_int_equal(ask("GET", "x", "", text), 200);
    assert_non_null(strstr(text, "\r\n\r\nof 11"));
    assert_int_equal(ask("PUT", "x", "of 12", text), 200);
    assert_int_equal(ask("GET", "x", "", text), 200);
    assert_non_null(strstr(text, "\r\n\r\nof 12"));
    tenure_state_close(other);
}

/* More than the server can park: one is answered 503, and it is that one that is not done. */
static void more_than_there_is_room_for(void **state)
{
    static const char *const ids[] = {"a", "b", "c"};
    struct pollfd fds[3];
    char text[2048];
    int refused = 0;

    (void)state;
    seal(20);
    slow = true;
    int first = send_request("PUT", "slow", "3");
    sem_wait(&inside);
    for (int i = 0; i < 3; i++)
        fds[i] = (struct pollfd){.fd = send_request("PUT", ids[i], "x"), .events = POLLIN};
    assert_int_equal(poll(fds, 3, -1), 1);
    sem_post(&answer);
    while (!fds[refused].revents)
        refused++;
    for (int i = 0; i < 3; i++)
        assert_int_equal(take_answer(fds[i].fd, text), i == refused ? 503 : 200);
    assert_int_equal(take_answer(first, text), 200);
    for (int i = 0; i < 3; i++)
        assert_int_equal(ask("GET", ids[i], "", text), i == refused ? 404 : 200);
}

/* ---- A large state ------------------------------------------------------- */

static const char *const large[] = {"docs", "more", NULL};
enum { DOCS = 300, PATIENCE = 40, TRIES = 60 };

static enum tenure_status commit_in(tenure_state *s, const char *collection, int i)
{
    char id[16];
    struct tenure_commit c = {.collection = collection, .id = id, .data = "1", .len = 1};

    snprintf(id, sizeof id, "d%04d", i);
    return tenure_state_commit(s, &c, 1, tenure_now() + 20 * TN_S, NULL);
}

/* How many tries it took; more than TRIES: it was not sealed in so many. */
static int seal_often(struct tn_state_socket *s, uint64_t epoch)
{
    uint8_t grant[TENURE_NONCE_SIZE] = {(uint8_t)epoch};
    enum tenure_status status = TENURE_TIMEOUT;
    struct tenure_error err;
    uint64_t floor;
    bool gained;
    int tries = 0;

    while (status == TENURE_TIMEOUT && tries++ < TRIES)
        status = tn_state_socket_seal(s, epoch, grant, &floor, &gained, &err);
    assert_true(status == TENURE_OK || status == TENURE_TIMEOUT);
    return status ? TRIES + 1 : tries;
}

/* No listing ends in its time: what was done in one try is not done again in the next, so that
 * after some all is sealed.  Where a listing tells everything or nothing, tries get longer. */
static void larger_than_a_try(void **state)
{
    struct tn_state_socket_options options = {.store = "rot:large",
                                              .name = "app",
                                              .seal = large,
                                              .time_left = time_left,
                                              .term = term,
                                              .grace = grace};
    struct tenure_grant grant = {.epoch = 10};
    struct tn_state_socket *s = NULL;
    struct tenure_error err;
    tenure_state *before;
    int tries;

    (void)state;
    assert_int_equal(tenure_store_register(&rot_ops, &err), TENURE_OK);
    assert_int_equal(tenure_state_open(options.store, "app", &grant, INT64_MAX, &before, &err),
                     TENURE_OK);
    for (int i = 0; i < DOCS; i++) {
        assert_int_equal(commit_in(before, "docs", i), TENURE_OK);
        assert_int_equal(commit_in(before, "more", i), TENURE_OK);
    }
    assert_int_equal(tn_state_socket_open(&options, &s, &err), TENURE_OK);
    rot_patience = PATIENCE;
    tries = seal_often(s, 11);
    assert_true(tries > 2 && tries <= TRIES);
    rot_patience = 0;
    assert_int_equal(commit_in(before, "docs", DOCS - 1), TENURE_FENCED);
    rot_lists_ns = 10 * TN_S;
    tries = seal_often(s, 12);
    assert_true(tries > 2 && tries <= TRIES);
    rot_lists_ns = 60 * TN_S; /* longer than the term lasts: half of that is the most */
    assert_true(seal_often(s, 13) > TRIES);
    rot_lists_ns = 10 * TN_S;
    grace_ns = 12 * TN_S; /* an order to stop would be noticed too late */
    assert_true(seal_often(s, 14) > TRIES);
    grace_ns = 16 * TN_S;
    assert_true(seal_often(s, 15) <= TRIES);
    rot_lists_ns = 0;
    tn_state_socket_close(s);
    tenure_state_close(before);
}

static bool is_told_that_it_leads(void)
{
    char text[2048];

    assert_int_equal(ask("GET", "/v1/leadership", "", text), 200);
    return strstr(text, "\"leading\":true");
}

/* The time left is that of the grant, which comes before its seal, and before its term begins (I4).
 */
static void a_grant_leads_when_its_term_has_begun(void **state)
{
    (void)state;
    seal(21);
    assert_false(is_told_that_it_leads());
    begun = 21;
    assert_true(is_told_that_it_leads());
    begun = 0; /* the next grant is there, and is not sealed */
    assert_false(is_told_that_it_leads());
    begun = 22;
    assert_false(is_told_that_it_leads());
    seal(22);
    assert_true(is_told_that_it_leads());
    begun = 0;
}

static int open_all(void **state)
{
    static const char *const sealed[] = {"docs", NULL};
    struct tn_state_socket_options options = {.store = "fault:desk",
                                              .name = "app",
                                              .seal = sealed,
                                              .fenced = fenced,
                                              .time_left = time_left,
                                              .term = term,
                                              .grace = grace};
    struct rlimit files = {.rlim_cur = 128, .rlim_max = 128}; /* four connections, three parked */
    struct tenure_error err;
    tn_fault *fault;

    assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
    sem_init(&inside, 0, 0);
    sem_init(&answer, 0, 0);
    assert_int_equal(tenure_store_module_dir(TN_BUILD_DIR, &err), TENURE_OK);
    assert_int_equal(tn_fault_new("desk", STORE, &fault, &err), TENURE_OK);
    tn_fault_hook(fault, hold, NULL);
    *state = fault;
    return tn_state_socket_open(&options, &program_socket, &err);
}

static int close_all(void **state)
{
    tn_state_socket_close(program_socket);
    tn_fault_free(*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(waits_into_another_term),
                                       cmocka_unit_test(a_grant_leads_when_its_term_has_begun),
                                       cmocka_unit_test(more_than_there_is_room_for),
                                       cmocka_unit_test(larger_than_a_try)};

    return cmocka_run_group_tests_name("state_socket", tests, open_all, close_all);
}
