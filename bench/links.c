/*
 * links - what a link of replication carries on this machine, as JSON: plain and with TLS, the
 * median of round trips of 200 bytes, and bytes a second in messages of 64 KiB and of 1 MiB.
 *
 *     links [SECONDS]       of each measurement; default 2
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../tests/unit/certificate_kit.h"
#include "os/module.h"
#include "replica/transport.h"
#include "tenure/store.h"

#define ROUNDS_MAX 200000

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct tn_peer *client; /* the client's end */
static uint64_t bytes_received, answers;
static bool echo, room;

static void opened(void *ctx, struct tn_peer *peer, const struct tn_peer_identity *who)
{
    (void)ctx;
    pthread_mutex_lock(&lock);
    if (who->outbound)
        client = peer;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void received(void *ctx, struct tn_peer *peer, const uint8_t *bytes, size_t size)
{
    bool listener = *(bool *)ctx;

    pthread_mutex_lock(&lock);
    if (listener)
        bytes_received += size;
    else
        answers++;
    bool answer = listener && echo;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&lock);
    if (answer && tn_peer_send(peer, bytes, size))
        abort();
}

static void drained(void *ctx, struct tn_peer *peer)
{
    (void)ctx;
    (void)peer;
    pthread_mutex_lock(&lock);
    room = true;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&lock);
}

static void closed(void *ctx, struct tn_peer *peer, const char *why)
{
    (void)ctx;
    (void)why;
    pthread_mutex_lock(&lock);
    if (client == peer)
        client = NULL;
    pthread_mutex_unlock(&lock);
}

static void failed(void *ctx, const char *address, const char *why)
{
    (void)ctx;
    fprintf(stderr, "links: %s: %s\n", address, why);
}

static int by_size(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

/* The median of round trips, in ns. */
static int64_t measure_rounds(double seconds)
{
    static int64_t took[ROUNDS_MAX];
    char message[200] = "";
    int64_t end = tenure_now() + (int64_t)(seconds * 1e9);
    size_t n = 0;

    pthread_mutex_lock(&lock);
    echo = true;
    while (n < ROUNDS_MAX && tenure_now() < end) {
        int64_t from = tenure_now();
        uint64_t before = answers;

        if (tn_peer_send(client, message, sizeof message))
            abort();
        while (answers == before)
            pthread_cond_wait(&changed, &lock);
        took[n++] = tenure_now() - from;
    }
    echo = false;
    pthread_mutex_unlock(&lock);
    qsort(took, n, sizeof took[0], by_size);
    return n ? took[n / 2] : 0;
}

/* Bytes a second. */
static double measure_bytes(double seconds, size_t size)
{
    uint8_t *message = calloc(1, size);
    int64_t from = tenure_now(), end = from + (int64_t)(seconds * 1e9);
    uint64_t sent = 0;

    if (!message)
        abort();
    pthread_mutex_lock(&lock);
    uint64_t before = bytes_received;
    while (tenure_now() < end) {
        room = false;
        enum tenure_status status = tn_peer_send(client, message, size);

        if (status == TENURE_OK)
            sent += size;
        else if (status != TENURE_UNAVAILABLE)
            abort();
        while (status == TENURE_UNAVAILABLE && !room)
            pthread_cond_wait(&changed, &lock);
    }
    while (bytes_received - before < sent)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    free(message);
    return (double)sent / ((double)(tenure_now() - from) / 1e9);
}

static void measure(const char *folder, bool tls, double seconds)
{
    static const struct tn_transport_events events = {opened, received, drained, closed, failed};
    static bool listens = true, connects = false;
    struct tn_transport_conf conf = {
        .election = "bench", .node = "bench", .silence_ns = INT64_C(60000000000)};
    struct tn_transport *listener, *connector;
    struct tenure_error err = {0};
    char target[64], cert[96], key[96], ca[96];
    const char *targets[] = {target};

    snprintf(cert, sizeof cert, "%s/node.pem", folder);
    snprintf(key, sizeof key, "%s/node.key", folder);
    snprintf(ca, sizeof ca, "%s/ca.pem", folder);
    if (tls) {
        conf.tls_cert = cert;
        conf.tls_key = key;
        conf.tls_ca = ca;
    }
    conf.listen = "127.0.0.1:0";
    if (tn_transport_open(&listener, &conf, &events, &listens, &err))
        goto bad;
    snprintf(target, sizeof target, "localhost:%u", tn_transport_port(listener));
    conf.listen = NULL;
    conf.targets = targets;
    conf.target_count = 1;
    if (tn_transport_open(&connector, &conf, &events, &connects, &err))
        goto bad;
    pthread_mutex_lock(&lock);
    while (!client)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    printf("{\"tls\": %s, \"round_trip_us\": %.1f, ", tls ? "true" : "false",
           (double)measure_rounds(seconds) / 1e3);
    printf("\"mb_s_64k\": %.1f, ", measure_bytes(seconds, 65536) / 1e6);
    printf("\"mb_s_1m\": %.1f}\n", measure_bytes(seconds, 1u << 20) / 1e6);
    tn_transport_close(connector);
    tn_transport_close(listener);
    return;
bad:
    fprintf(stderr, "links: %s\n", err.text);
    exit(1);
}

int main(int argc, char **argv)
{
    double seconds = argc > 1 ? atof(argv[1]) : 2;
    char folder[] = "/tmp/tenure-links-XXXXXX", path[96];

    if (tn_module_dir(TN_BUILD_DIR, NULL) || !mkdtemp(folder))
        return 1;
    struct pair ca = make_pair(folder, "ca", NULL, 9, NULL);
    struct pair node = make_pair(folder, "node", "localhost", 9, &ca);
    measure(folder, false, seconds);
    measure(folder, true, seconds);
    free_pair(&ca);
    free_pair(&node);
    for (size_t i = 0; i < 4; i++) {
        snprintf(path, sizeof path, "%s/%s.%s", folder, i < 2 ? "ca" : "node",
                 i % 2 ? "key" : "pem");
        unlink(path);
    }
    rmdir(folder);
    return 0;
}
