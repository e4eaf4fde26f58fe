/* Links with TLS: certificates of both, and those that are not accepted. */
#include "certificate_kit.h"
#include "link_kit.h"

static char folder[] = "/tmp/tenure-tls-XXXXXX";
static struct pair authority, other, made[5];

static const char *file(const char *name)
{
    static char paths[8][96];
    static unsigned next;
    char *path = paths[next++ % 8];

    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static struct tn_transport_conf conf_with(const char *node, const char *cert, const char *key,
                                          const char *ca)
{
    struct tn_transport_conf conf = conf_of(node);

    conf.tls_cert = cert ? file(cert) : NULL;
    conf.tls_key = key ? file(key) : NULL;
    conf.tls_ca = ca ? file(ca) : NULL;
    return conf;
}

static int setup(void **unused)
{
    (void)unused;
    assert_non_null(mkdtemp(folder));
    authority = make_pair(folder, "ca", NULL, 9, NULL);
    other = make_pair(folder, "other-ca", NULL, 9, NULL);
    made[0] = make_pair(folder, "server", "localhost", 9, &authority);
    made[1] = make_pair(folder, "client", "client.example", 9, &authority);
    made[2] = make_pair(folder, "expired", "localhost", -1, &authority);
    made[3] = make_pair(folder, "elsewhere", "elsewhere.example", 9, &authority);
    made[4] = make_pair(folder, "foreign", "localhost", 9, &other);
    write_text(folder, "token", "swordfish\n", 10);
    return 0;
}

static int teardown(void **unused)
{
    static const char *const names[] = {"ca",      "other-ca",  "server", "client",
                                        "expired", "elsewhere", "foreign"};
    char name[32];

    (void)unused;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(name, sizeof name, "%s.pem", names[i]);
        unlink(file(name));
        snprintf(name, sizeof name, "%s.key", names[i]);
        unlink(file(name));
    }
    unlink(file("token"));
    rmdir(folder);
    for (size_t i = 0; i < sizeof made / sizeof made[0]; i++)
        free_pair(&made[i]);
    free_pair(&authority);
    free_pair(&other);
    return 0;
}

static void test_both_show_one(void **unused)
{
    struct node a, b;
    uint8_t *bytes = malloc(TN_MESSAGE_MAX);

    (void)unused;
    assert_non_null(bytes);
    memset(bytes, 'x', TN_MESSAGE_MAX);
    open_listener(&a, conf_with("a", "server.pem", "server.key", "ca.pem"));
    set_echo(&a, true);
    open_client(&b, conf_with("b", "client.pem", "client.key", "ca.pem"), &a, "localhost");
    UNTIL(&b, b.opened == 1);
    assert_string_equal(b.who.node, "a");
    for (uint64_t i = 1; i <= 8; i++) {
        size_t size = i % 2 ? TN_MESSAGE_MAX : 1;

        pthread_mutex_lock(&b.lock);
        assert_int_equal(tn_peer_send(b.peer, bytes, size), TENURE_OK);
        pthread_mutex_unlock(&b.lock);
        UNTIL(&b, b.received == i);
    }
    close_node(&b);
    close_node(&a);
    free(bytes);
}

/* The client says why it does not connect to who shows this. */
static void check_client_refuses(const char *name, const char *said)
{
    struct node a, b;
    char cert[32], key[32];

    snprintf(cert, sizeof cert, "%s.pem", name);
    snprintf(key, sizeof key, "%s.key", name);
    open_listener(&a, conf_with("a", cert, key, "ca.pem"));
    open_client(&b, conf_with("b", "client.pem", "client.key", "ca.pem"), &a, "localhost");
    UNTIL(&b, b.failed >= 1);
    if (!strstr(b.seen_fault, "its certificate is not accepted") || !strstr(b.seen_fault, said))
        fail_msg("%s: %s", name, b.seen_fault);
    UNTIL(&a, a.failed >= 1);
    close_node(&b);
    close_node(&a);
    assert_int_equal(a.opened + b.opened, 0);
}

static void test_certificates_that_are_not_accepted(void **unused)
{
    (void)unused;
    check_client_refuses("foreign", "issuer is unknown");
    check_client_refuses("expired", "expired");
    check_client_refuses("elsewhere", "name in the certificate does not match");
}

/* The listener says why it does not let this one in, which never opens there. */
static void check_listener_refuses(struct tn_transport_conf conf, const char *said)
{
    struct node a, b;

    open_listener(&a, conf_with("a", "server.pem", "server.key", "ca.pem"));
    open_client(&b, conf, &a, "localhost");
    UNTIL(&a, a.failed >= 1);
    if (!strstr(a.seen_fault, said))
        fail_msg("%s", a.seen_fault);
    UNTIL(&b, b.failed >= 1);
    close_node(&b);
    close_node(&a);
    assert_int_equal(a.opened + b.opened, 0);
}

static void test_clients_that_are_not_let_in(void **unused)
{
    (void)unused;
    check_listener_refuses(conf_with("b", NULL, NULL, "ca.pem"), "it showed no certificate");
    /* One that the listener does not ask for is not even shown. */
    check_listener_refuses(conf_with("b", "foreign.pem", "foreign.key", "ca.pem"),
                           "it showed no certificate");
    check_listener_refuses(conf_with("b", "expired.pem", "expired.key", "ca.pem"), "expired");
    check_listener_refuses(conf_of("b"), "TLS"); /* plain text */
}

static void test_a_token_over_tls(void **unused)
{
    struct node a, b;
    struct tn_transport_conf listener = conf_with("a", "server.pem", "server.key", NULL);
    struct tn_transport_conf client = conf_with("b", NULL, NULL, "ca.pem");

    (void)unused;
    listener.token_file = file("token");
    open_listener(&a, listener);
    open_client(&b, client, &a, "localhost");
    UNTIL(&b, b.failed >= 1);
    assert_non_null(strstr(b.seen_fault, "401"));
    close_node(&b);
    client.token_file = file("token");
    open_client(&b, client, &a, "localhost");
    UNTIL(&b, b.opened == 1);
    close_node(&b);
    close_node(&a);
}

/* A new certificate is shown once its files are there. */
static void test_replaced_certificates(void **unused)
{
    struct node a, b;
    struct pair fresh;

    (void)unused;
    fresh = make_pair(folder, "rotated", "localhost", -1, &authority);
    free_pair(&fresh);
    open_listener(&a, conf_with("a", "rotated.pem", "rotated.key", "ca.pem"));
    open_client(&b, conf_with("b", "client.pem", "client.key", "ca.pem"), &a, "localhost");
    UNTIL(&b, b.failed >= 1);
    fresh = make_pair(folder, "rotated", "localhost", 9, &authority);
    free_pair(&fresh);
    UNTIL(&b, b.opened >= 1);
    close_node(&b);
    close_node(&a);
    unlink(file("rotated.pem"));
    unlink(file("rotated.key"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both_show_one),
        cmocka_unit_test(test_certificates_that_are_not_accepted),
        cmocka_unit_test(test_clients_that_are_not_let_in),
        cmocka_unit_test(test_a_token_over_tls),
        cmocka_unit_test(test_replaced_certificates),
    };

    if (tn_module_dir(TN_BUILD_DIR, NULL))
        return 1;
    return cmocka_run_group_tests(tests, setup, teardown);
}
