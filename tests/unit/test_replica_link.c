/* Links on real sockets, without TLS: messages both ways, hostile and silent peers, reconnecting.
 */
#include "link_kit.h"

static void send_to(struct node *n, const void *bytes, size_t size)
{
    enum tenure_status status;

    do {
        unsigned before;

        pthread_mutex_lock(&n->lock);
        before = n->drained;
        assert_non_null(n->peer);
        status = tn_peer_send(n->peer, bytes, size);
        pthread_mutex_unlock(&n->lock);
        if (status == TENURE_UNAVAILABLE)
            UNTIL(n, n->drained > before);
    } while (status == TENURE_UNAVAILABLE);
    assert_int_equal(status, TENURE_OK);
}

static void test_round_trips(void **unused)
{
    static const size_t sizes[] = {1, 125, 126, 4096, 65535, 65536, 1u << 20, TN_MESSAGE_MAX, 2};
    struct node a, b;
    uint8_t *bytes = malloc(TN_MESSAGE_MAX);
    uint64_t sum = 0, total = 0, count = 0;

    (void)unused;
    assert_non_null(bytes);
    for (size_t i = 0; i < TN_MESSAGE_MAX; i++)
        bytes[i] = (uint8_t)(i * 7 + 3);
    open_listener(&a, conf_of("a"));
    set_echo(&a, true);
    open_client(&b, conf_of("b"), &a, "127.0.0.1");
    UNTIL(&b, b.opened == 1);
    assert_string_equal(b.who.node, "a");
    assert_true(b.who.outbound);
    UNTIL(&a, a.opened == 1);
    assert_string_equal(a.who.node, "b");
    assert_false(a.who.outbound);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        send_to(&b, bytes, sizes[i]);
        sum = sum * 31 + bytes[0] + bytes[sizes[i] - 1];
        total += sizes[i];
        count++;
        UNTIL(&b, b.received == count);
    }
    assert_int_equal(b.bytes, total);
    assert_true(b.sum == sum);
    /* Many at once stay whole and in order. */
    UNTIL(&a, a.received == count);
    set_echo(&a, false);
    sum = a.sum;
    for (size_t i = 0; i < 3000; i++) {
        size_t size = 1 + i * 37 % 5000;

        bytes[0] = (uint8_t)i;
        sum = sum * 31 + bytes[0] + bytes[size - 1];
        send_to(&b, bytes, size);
    }
    UNTIL(&a, a.received == count + 3000);
    assert_true(a.sum == sum);
    assert_int_equal(tn_peer_send(b.peer, bytes, TN_MESSAGE_MAX + 1), TENURE_INVALID);
    close_node(&b);
    UNTIL(&a, a.closed == 1);
    assert_non_null(strstr(a.seen_why, "the node is stopping"));
    close_node(&a);
    free(bytes);
}

static void test_last_word(void **unused)
{
    struct node a, b;

    (void)unused;
    open_listener(&a, conf_of("a"));
    open_client(&b, conf_of("b"), &a, "127.0.0.1");
    UNTIL(&a, a.opened == 1);
    pthread_mutex_lock(&a.lock);
    assert_int_equal(tn_peer_send(a.peer, "refusal", 7), TENURE_OK);
    tn_peer_close(a.peer, "it is of another election");
    assert_int_equal(tn_peer_send(a.peer, "more", 4), TENURE_CANCELLED);
    pthread_mutex_unlock(&a.lock);
    UNTIL(&a, a.closed >= 1);
    assert_string_equal(a.seen_why, "closed by this node: it is of another election");
    UNTIL(&b, b.closed >= 1);
    assert_string_equal(b.seen_why,
                        "the peer closed the connection (1008): it is of another election");
    assert_int_equal(b.received, 1);
    assert_int_equal(b.bytes, 7);
    /* It connects again, and so it does when the other one comes back. */
    UNTIL(&b, b.opened == 2);
    UNTIL(&a, a.opened == 2);
    char address[64];
    snprintf(address, sizeof address, "127.0.0.1:%u", tn_transport_port(a.transport));
    close_node(&a);
    UNTIL(&b, b.closed == 2);
    struct tn_transport_conf conf = conf_of("a");
    conf.listen = address;
    open_node(&a, &conf);
    UNTIL(&b, b.opened == 3);
    close_node(&b);
    close_node(&a);
}

static void test_not_for_us(void **unused)
{
    struct node a, b;
    struct tn_transport_conf conf = conf_of("b");

    (void)unused;
    open_listener(&a, conf_of("a"));
    conf.election = "team/db";
    open_client(&b, conf, &a, "127.0.0.1");
    UNTIL(&b, b.failed >= 1);
    assert_non_null(strstr(b.seen_fault, "404 Not Found): this node replicates another election"));
    UNTIL(&a, a.failed >= 1);
    assert_non_null(strstr(a.seen_fault, "another election"));
    assert_int_equal(b.opened + a.opened, 0);
    close_node(&b);
    close_node(&a);
}

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "we");

    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    assert_int_equal(chmod(path, 0600), 0);
}

static void test_secrets(void **unused)
{
    char folder[] = "/tmp/tenure-link-XXXXXX", good[64], bad[64];
    struct node a, b;

    (void)unused;
    assert_non_null(mkdtemp(folder));
    snprintf(good, sizeof good, "%s/good", folder);
    snprintf(bad, sizeof bad, "%s/bad", folder);
    write_file(good, "swordfish\n");
    write_file(bad, "barracuda\n");
    for (int basic = 0; basic < 2; basic++) {
        struct tn_transport_conf conf = conf_of("a"), wrong = conf_of("b"), none = conf_of("c");

        conf.user = wrong.user = basic ? "replica" : NULL;
        *(basic ? &conf.password_file : &conf.token_file) = good;
        *(basic ? &wrong.password_file : &wrong.token_file) = bad;
        open_listener(&a, conf);
        open_client(&b, wrong, &a, "127.0.0.1");
        UNTIL(&b, b.failed >= 1);
        assert_non_null(
            strstr(b.seen_fault, "401 Unauthorized): the token or password is missing"));
        close_node(&b);
        open_client(&b, none, &a, "127.0.0.1");
        UNTIL(&b, b.failed >= 1);
        assert_non_null(strstr(b.seen_fault, "401 Unauthorized"));
        close_node(&b);
        UNTIL(&a, a.failed >= 1);
        assert_null(strstr(a.seen_fault, "barracuda"));
        assert_int_equal(a.opened, 0);
        open_client(&b, conf, &a, "127.0.0.1");
        UNTIL(&b, b.opened == 1);
        close_node(&b);
        close_node(&a);
    }
    unlink(good);
    unlink(bad);
    rmdir(folder);
}

/* Each is refused with this status, or hung up on; the listener goes on. */
static void test_hostile_handshakes(void **unused)
{
    static const struct {
        const char *request, *status;
    } cases[] = {
        {"\r\n\r\n", "400"},
        {"GET / HTTP/1.0\r\n\r\n", "400"},
        {"POST /v1/replicate/team/web HTTP/1.1\r\n\r\n", "400"},
        {"GET /v1/replicate/team/web HTTP/1.1\r\n\r\n", "426"},
        {"GET /v1/replicate/team/../web HTTP/1.1\r\n\r\n", "404"},
        {"GET /metrics HTTP/1.1\r\n\r\n", "404"},
        {"GET /v1/replicate/team/web HTTP/1.1\nHost: x\r\n\r\n", "400"},
        {"GET /v1/replicate/team/web HTTP/1.1\r\nA: \x01\r\n\r\n", "400"},
        {REQUEST_HEAD REQUEST_NODE "\r\n", "426"},
        {REQUEST_HEAD REQUEST_NODE "Sec-WebSocket-Protocol: tenure.2\r\n\r\n", "426"},
        {REQUEST_HEAD REQUEST_PROTO "\r\n", "400"},
        {REQUEST_HEAD REQUEST_NODE REQUEST_NODE REQUEST_PROTO "\r\n", "400"},
        {REQUEST_HEAD "Sec-WebSocket-Key: x\r\n" REQUEST_NODE REQUEST_PROTO "\r\n", "400"},
        {"\x16\x03\x01\x02\r\n\r\n", "400"},
    };
    struct node a;
    char heard[2048], *large = malloc(70000);

    (void)unused;
    assert_non_null(large);
    open_listener(&a, conf_of("a"));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int fd = dial(tn_transport_port(a.transport));

        say(fd, cases[i].request, strlen(cases[i].request));
        hear_all(fd, heard, sizeof heard);
        if (strncmp(heard, "HTTP/1.1 ", 9) != 0 || strncmp(heard + 9, cases[i].status, 3) != 0)
            fail_msg("%s: %s", cases[i].request, heard);
        close(fd);
    }
    int fd = dial(tn_transport_port(a.transport));
    memset(large, 'x', 70000);
    say(fd, large, 70000);
    hear_all(fd, heard, sizeof heard);
    assert_true(!heard[0] || strstr(heard, "HTTP/1.1 431 "));
    close(fd);
    assert_int_equal(a.opened, 0);
    close(dial_in(tn_transport_port(a.transport)));
    UNTIL(&a, a.closed == 1);
    close_node(&a);
    free(large);
}

/* A frame by hand, as far as its first byte: a final one of this kind, masked with zeros. */
static void say_frame(int fd, uint8_t opcode, uint64_t size)
{
    uint8_t head[15] = {(uint8_t)(0x80 | opcode), 0x80 | 127};

    for (int i = 0; i < 8; i++)
        head[2 + i] = (uint8_t)(size >> (56 - 8 * i));
    say(fd, head, sizeof head);
}

static unsigned closing_code(int fd)
{
    char heard[512];
    size_t n = hear_all(fd, heard, sizeof heard);

    assert_true(n >= 4 && (uint8_t)heard[0] == 0x88);
    return (unsigned)(uint8_t)heard[2] << 8 | (uint8_t)heard[3];
}

static void test_hostile_frames(void **unused)
{
    struct node a;

    (void)unused;
    open_listener(&a, conf_of("a"));
    /* Too large: it is not waited for, and nothing is kept for it. */
    int fd = dial_in(tn_transport_port(a.transport));
    say_frame(fd, 2, TN_MESSAGE_MAX + 1);
    assert_int_equal(closing_code(fd), 1009);
    UNTIL(&a, a.closed == 1);
    assert_non_null(strstr(a.seen_why, "it sent a message of more than 1114112 bytes"));
    close(fd);
    fd = dial_in(tn_transport_port(a.transport));
    say_frame(fd, 2, UINT64_C(1) << 62);
    assert_int_equal(closing_code(fd), 1009);
    close(fd);
    /* In parts, each of which is small enough. */
    fd = dial_in(tn_transport_port(a.transport));
    uint8_t *part = calloc(1, 8 + 65000);
    assert_non_null(part);
    for (unsigned i = 0; i < 20; i++) {
        memcpy(part, ((uint8_t[]){i == 0 ? 2 : 0, 0x80 | 126, 65000 >> 8, 65000 & 0xff}), 4);
        say(fd, part, 8 + 65000);
    }
    free(part);
    UNTIL(&a, a.closed == 3);
    assert_non_null(strstr(a.seen_why, "it sent a message of more than"));
    close(fd);
    fd = dial_in(tn_transport_port(a.transport));
    say(fd, "\x81\x81\0\0\0\0x", 7);
    assert_int_equal(closing_code(fd), 1003);
    close(fd);
    fd = dial_in(tn_transport_port(a.transport));
    say(fd, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 11);
    char heard[8];
    assert_int_equal(hear_all(fd, heard, sizeof heard), 2);
    assert_memory_equal(heard, "\x88\0", 2);
    close(fd);
    UNTIL(&a, a.closed == 5);
    assert_string_equal(a.seen_why, "its frames cannot be understood");
    assert_int_equal(a.received, 0);
    close_node(&a);
}

static void test_silence(void **unused)
{
    struct tn_transport_conf conf = conf_of("a");
    struct node a, b;
    char heard[64];

    (void)unused;
    conf.silence_ns = 600 * INT64_C(1000000);
    open_listener(&a, conf);
    /* It is asked, says nothing, and is hung up on. */
    int fd = dial_in(tn_transport_port(a.transport));
    UNTIL(&a, a.closed == 1);
    assert_non_null(strstr(a.seen_why, "nothing was heard of it for 0.6 s"));
    assert_true(hear_all(fd, heard, sizeof heard) >= 2);
    assert_memory_equal(heard, "\x89\0", 2); /* a ping */
    close(fd);
    /* Two that have nothing to say stay connected, which nobody can wait for: see the pings. */
    conf.silence_ns = INT64_C(60000000000);
    conf.node = "b";
    open_client(&b, conf, &a, "127.0.0.1");
    UNTIL(&b, b.opened == 1);
    close_node(&b);
    close_node(&a);
}

static void test_slow_reader(void **unused)
{
    struct tn_transport_conf conf = conf_of("a");
    struct node a;
    uint8_t *bytes = calloc(1, 1u << 20);
    enum tenure_status status = TENURE_OK;
    unsigned sent = 0;

    (void)unused;
    assert_non_null(bytes);
    conf.silence_ns = 3 * INT64_C(1000000000);
    open_listener(&a, conf);
    int fd = dial_in(tn_transport_port(a.transport));
    UNTIL(&a, a.opened == 1);
    /* It takes what the sockets and the queue hold, and no more. */
    while (status != TENURE_CANCELLED && sent < 1000) {
        pthread_mutex_lock(&a.lock);
        status = a.peer ? tn_peer_send(a.peer, bytes, 1u << 20) : TENURE_CANCELLED;
        pthread_mutex_unlock(&a.lock);
        if (status == TENURE_OK)
            sent++;
        else
            usleep(1000);
    }
    assert_int_equal(status, TENURE_CANCELLED);
    assert_true(sent >= 4 && sent < 100);
    UNTIL(&a, a.closed == 1);
    assert_non_null(strstr(a.seen_why, "nothing was heard of it"));
    close(fd);
    close_node(&a);
    free(bytes);
}

static void test_hundred_strangers(void **unused)
{
    struct node a, b;
    int fds[100];

    (void)unused;
    open_listener(&a, conf_of("a"));
    for (unsigned i = 0; i < 100; i++) {
        fds[i] = dial(tn_transport_port(a.transport));
        if (i % 2)
            say(fds[i], "GET /v1", 7);
    }
    open_client(&b, conf_of("b"), &a, "127.0.0.1");
    UNTIL(&b, b.opened == 1);
    UNTIL(&a, a.opened == 1);
    char heard[64];
    hear_all(fds[0], heard, sizeof heard); /* the oldest was hung up on */
    for (unsigned i = 0; i < 100; i++)
        close(fds[i]);
    close_node(&b);
    close_node(&a);
}

/* A secret that is not there, or empty, opens nothing: else the listener would ask for none. */
static void test_missing_secrets(void **unused)
{
    static const char *const values[] = {NULL, ""};
    struct tn_transport *transport = NULL;
    struct tenure_error err = {0};

    (void)unused;
    for (unsigned i = 0; i < 4; i++) {
        struct tn_transport_conf conf = conf_of("a");

        if (values[i / 2])
            setenv("TENURE_TEST_SECRET", values[i / 2], 1);
        conf.listen = "127.0.0.1:0";
        conf.user = i % 2 ? "replica" : NULL;
        *(i % 2 ? &conf.password_env : &conf.token_env) = "TENURE_TEST_SECRET";
        assert_int_equal(tn_transport_open(&transport, &conf, &node_events, NULL, &err),
                         TENURE_CONFIG);
        assert_non_null(strstr(err.text, "TENURE_TEST_SECRET"));
    }
    unsetenv("TENURE_TEST_SECRET");
    assert_null(transport);
}

static void test_configuration(void **unused)
{
    static const struct {
        const char *listen, *target, *token, *user, *cert, *key;
        bool plain;
        const char *said;
    } cases[] = {
        {"0.0.0.0:0", .said = "is not on this machine, and there is no TLS"},
        {":0", .said = "is not on this machine, and there is no TLS"},
        {":0", .plain = true, .said = "a token or a password is needed"},
        {NULL, "192.0.2.1:7", .said = "is not on this machine, and there is no TLS"},
        {NULL, "192.0.2.1", .said = "is not an address to connect to"},
        {NULL, "ws://192.0.2.1:7", .said = "is not an address to connect to"},
        {NULL, "a:b", .said = "is not an address to connect to"},
        {NULL, "h:70000", .said = "is not an address to connect to"},
        {"nowhere", .said = "is not an address to listen on"},
        {"127.0.0.1:0", .cert = "/nowhere", .said = "given together"},
        {"127.0.0.1:0", .cert = "/nowhere", .key = "/nowhere", .said = "no certificate with"},
        {"127.0.0.1:0", .token = "/x", .user = "u", .said = "not both"},
        {"127.0.0.1:0", .user = "u", .said = "the password of 'u' is missing"},
    };

    (void)unused;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *targets[] = {cases[i].target};
        struct tn_transport_conf conf = conf_of("a");
        struct tn_transport *transport = NULL;
        struct tenure_error err = {0};

        conf.listen = cases[i].listen;
        conf.targets = targets;
        conf.target_count = cases[i].target != NULL;
        conf.token_file = cases[i].token;
        conf.user = cases[i].user;
        conf.tls_cert = cases[i].cert;
        conf.tls_key = cases[i].key;
        conf.plain = cases[i].plain;
        assert_int_equal(tn_transport_open(&transport, &conf, &node_events, NULL, &err),
                         TENURE_CONFIG);
        assert_null(transport);
        if (!strstr(err.text, cases[i].said))
            fail_msg("%zu: %s", i, err.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trips),
        cmocka_unit_test(test_last_word),
        cmocka_unit_test(test_not_for_us),
        cmocka_unit_test(test_secrets),
        cmocka_unit_test(test_hostile_handshakes),
        cmocka_unit_test(test_hostile_frames),
        cmocka_unit_test(test_silence),
        cmocka_unit_test(test_slow_reader),
        cmocka_unit_test(test_hundred_strangers),
        cmocka_unit_test(test_missing_secrets),
        cmocka_unit_test(test_configuration),
    };

    if (tn_module_dir(TN_BUILD_DIR, NULL))
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
