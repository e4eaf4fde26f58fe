/* The election's end of the socket pair to its agent: every request is answered, whatever it is and
 * whatever there is a lack of. */
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "api/inner.h"
#include "api/link.h"

/* ---- What it works with: requests that are done at once ------------------- */

static struct tn_http_reply next;
static char fine[] = "fine";

struct tn_jobs *tn_jobs_new(int event_fd)
{
    (void)event_fd;
    return (struct tn_jobs *)&next;
}

void tn_jobs_close(struct tn_jobs *jobs)
{
    (void)jobs;
}

struct tn_job *tn_job_start(struct tn_jobs *jobs, enum tn_request_kind kind,
                            struct tn_election *election, const struct tn_http_request *request,
                            struct tn_http_reply *reply)
{
    (void)kind;
    (void)election;
    (void)request;
    (void)reply;
    return (struct tn_job *)jobs;
}

const struct tn_http_reply *tn_job_reply(struct tn_job *job)
{
    (void)job;
    return &next;
}

void tn_job_forget(struct tn_job *job)
{
    (void)job;
}

void tn_election_on_change(struct tn_election *e, enum tn_watcher who, void (*changed)(void *arg),
                           void *arg)
{
    (void)e;
    (void)who;
    (void)changed;
    (void)arg;
}

struct tn_election_snapshot *tn_election_snapshot(struct tn_election *e, bool lists, uint64_t ping)
{
    (void)e;
    (void)lists;
    (void)ping;
    return NULL;
}

size_t tn_snapshot_size(uint32_t n_listed, uint32_t n_terms)
{
    return n_listed + n_terms;
}

void tn_election_refresh(struct tn_election *e)
{
    (void)e;
}

bool tn_election_wants_refresh(struct tn_election *e)
{
    (void)e;
    return false;
}

/* ---- The agent ------------------------------------------------------------ */

struct bed {
    struct tn_loop loop;
    struct tn_link *link;
    int ends[2]; /* the agent's first */
    union tn_wire_buffer in;
};

static int open_bed(void **state)
{
    struct bed *b = calloc(1, sizeof *b);

    assert_non_null(b);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, b->ends), 0);
    assert_int_equal(tn_loop_open(&b->loop, NULL), TENURE_OK);
    assert_int_equal(tn_link_open(&b->loop, b->ends[1], NULL, &b->link, NULL), TENURE_OK);
    next = (struct tn_http_reply){.status = 200, .type = "text/plain", .body = fine, .len = 4};
    *state = b;
    return 0;
}

static int close_bed(void **state)
{
    struct bed *b = *state;

    tn_link_close(b->link);
    tn_loop_close(&b->loop);
    close(b->ends[0]);
    close(b->ends[1]);
    free(b);
    return 0;
}

static void send_request(struct bed *b, uint64_t number, uint32_t kind, const char *body)
{
    struct tn_wire_request r = {
        .kind = kind, .body_len = (uint32_t)strlen(body), .method = "PUT", .epoch = "1"};

    assert_true(tn_wire_send(b->ends[0], TN_WIRE_REQUEST, number,
                             (struct tn_wire_part){&r, sizeof r}, (struct tn_wire_part){"/x", 2},
                             (struct tn_wire_part){body, strlen(body)}));
}

static void expect_answer(struct bed *b, uint64_t number, unsigned status, const char *text)
{
    struct tn_wire_answer a;
    size_t len;
    int fd;

    assert_int_equal(tn_wire_receive(b->ends[0], &b->in, &len, &fd), 1);
    assert_int_equal(b->in.head.kind, TN_WIRE_ANSWER);
    assert_int_equal(b->in.head.number, number);
    assert_true(tn_wire_read_answer(b->in.bytes + sizeof b->in.head, len, &a));
    assert_int_equal(a.status, status);
    unsigned char *body = tn_wire_read_body(fd, a.body_len);
    assert_non_null(body);
    assert_non_null(strstr((char *)body, text));
    free(body);
}

static int lowest_fd(void)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

    if (fd >= 0)
        close(fd);
    return fd;
}

/* ---- Cases ---------------------------------------------------------------- */

static void test_nonsense_is_answered(void **state)
{
    struct bed *b = *state;

    for (uint64_t n = 1; n <= 2 * TN_WIRE_OPEN_MAX; n++) {
        send_request(b, n, 99, "");
        tn_loop_turn(&b->loop);
        expect_answer(b, n, 400, "invalid");
    }
    send_request(b, 99, TN_REQUEST_STATE, "");
    tn_loop_turn(&b->loop);
    expect_answer(b, 99, 200, "fine");
}

static void test_too_long_an_answer(void **state)
{
    struct bed *b = *state;

    next.len = TN_WIRE_BODY_MAX + 1;
    send_request(b, 1, TN_REQUEST_STATE, "");
    tn_loop_turn(&b->loop);
    expect_answer(b, 1, 503, "too-long");
}

static void test_no_descriptors(void **state)
{
    struct bed *b = *state;
    struct rlimit files, none;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    none = files;
    send_request(b, 1, TN_REQUEST_STATE, "a body");
    send_request(b, 2, TN_REQUEST_STATE, "");
    none.rlim_cur = (rlim_t)lowest_fd();
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    tn_loop_turn(&b->loop);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
    expect_answer(b, 1, 503, ""); /* its body was lost */
    expect_answer(b, 2, 503, ""); /* the answer's body was */
    send_request(b, 3, TN_REQUEST_STATE, "a body");
    tn_loop_turn(&b->loop);
    expect_answer(b, 3, 200, "fine");
}

/* More waits than the socket takes: all of it is sent once there is room. */
static void test_an_agent_that_reads_late(void **state)
{
    struct bed *b = *state;
    int small = 1;

    assert_int_equal(setsockopt(b->ends[1], SOL_SOCKET, SO_SNDBUF, &small, sizeof small), 0);
    for (uint64_t n = 1; n <= TN_WIRE_OPEN_MAX; n++)
        send_request(b, n, TN_REQUEST_STATE, "");
    tn_loop_turn(&b->loop);
    for (uint64_t n = 1; n <= TN_WIRE_OPEN_MAX; n++) {
        struct pollfd there = {.fd = b->ends[0], .events = POLLIN};

        if (poll(&there, 1, 0) == 0)
            tn_loop_turn(&b->loop);
        expect_answer(b, n, 200, "fine");
    }
}

static void test_two_descriptors(void **state)
{
    struct bed *b = *state;
    struct tn_wire_head head = {.magic = TN_WIRE_MAGIC, .version = TN_WIRE_VERSION};
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(2 * sizeof(int))];
    } control = {0};
    int fds[2] = {b->ends[0], b->ends[0]}, fd = -1, before = lowest_fd();
    size_t len;

    for (size_t size = 0; size <= sizeof head; size += sizeof head) {
        struct iovec part = {.iov_base = &head, .iov_len = size};
        struct msghdr m = {.msg_iov = &part,
                           .msg_iovlen = 1,
                           .msg_control = &control,
                           .msg_controllen = sizeof control};
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);

        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof fds);
        memcpy(CMSG_DATA(c), fds, sizeof fds);
        assert_int_equal(sendmsg(b->ends[0], &m, 0), (ssize_t)size);
        assert_int_equal(tn_wire_receive(b->ends[1], &b->in, &len, &fd), -1);
        assert_int_equal(lowest_fd(), before);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_nonsense_is_answered, open_bed, close_bed),
        cmocka_unit_test_setup_teardown(test_too_long_an_answer, open_bed, close_bed),
        cmocka_unit_test_setup_teardown(test_no_descriptors, open_bed, close_bed),
        cmocka_unit_test_setup_teardown(test_an_agent_that_reads_late, open_bed, close_bed),
        cmocka_unit_test_setup_teardown(test_two_descriptors, open_bed, close_bed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
