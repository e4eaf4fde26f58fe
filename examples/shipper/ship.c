/*
 * ship - ships the lines of a growing file to another one, with the library alone.
 *
 *     cc ship.c $(pkg-config --cflags --libs tenure) -o ship
 *     ./ship sqlite:/tmp/ship.db SOURCE SINK
 *
 * Start it as often as you like: one of them ships, from where the last one
 * left off.  Lines are sent first and the place is moved afterwards, so a crash
 * in between sends some of them twice and none never.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenure/tenure.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct tenure_grant current; /* of our term; epoch 0: none */
static int working;

static void started(void *arg, const struct tenure_term *term)
{
    (void)arg;
    pthread_mutex_lock(&lock);
    current = term->grant;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

/* Returns when the work has ended: the lease is released after that. */
static void stopped(void *arg, const struct tenure_term *term, const char *why)
{
    (void)arg, (void)term;
    fprintf(stderr, "ship: stops: %s\n", why);
    pthread_mutex_lock(&lock);
    current.epoch = 0;
    while (working)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

static int64_t soon(void)
{
    return tenure_now() + 5000000000;
}

/* Whole lines from place on; how many bytes. */
static size_t take(int source, off_t place, char *buffer, size_t size)
{
    ssize_t n = pread(source, buffer, size, place);

    while (n > 0 && buffer[n - 1] != '\n')
        n--;
    return n > 0 ? (size_t)n : 0;
}

/* Ship while we lead.  Returns why it ended. */
static enum tenure_status ship(tenure_elector *elector, tenure_state *state, int source, int sink,
                               struct tenure_error *error)
{
    struct tenure_document document = {0};
    char buffer[4096], text[24];
    off_t place = 0;
    enum tenure_status status =
        tenure_state_load(state, "shipper", "place", &document, soon(), error);

    if (!status && document.exists)
        place = (off_t)strtoll((char *)document.value.data, NULL, 10);
    tenure_document_free(&document);
    if (!status && write(sink, "\n", 1) != 1) /* what an earlier one left half written ends here */
        status = TENURE_UNAVAILABLE;
    while (!status && tenure_elector_leads(elector, NULL)) {
        struct tenure_commit commit = {.collection = "shipper", .id = "place", .data = text};
        size_t n = take(source, place, buffer, sizeof buffer);

        if (n == 0) {
            usleep(10000);
            continue;
        }
        if (write(sink, buffer, n) != (ssize_t)n || fsync(sink) != 0)
            return tenure_fail(error, TENURE_UNAVAILABLE, "the sink is full");
        place += (off_t)n;
        commit.len = (size_t)snprintf(text, sizeof text, "%lld", (long long)place);
        do
            status = tenure_state_commit(state, &commit, 1, soon(), error);
        while (status == TENURE_UNKNOWN && tenure_elector_leads(elector, NULL));
    }
    return status;
}

static void lead(tenure_elector *elector, const char *url, const struct tenure_grant *grant,
                 int source, int sink)
{
    struct tenure_error error = {0};
    tenure_state *state = NULL;
    enum tenure_status status = tenure_state_open(url, "ship", grant, soon(), &state, &error);

    if (!status)
        status = ship(elector, state, source, sink, &error);
    if (status)
        fprintf(stderr, "ship: %s\n", error.text);
    if (status == TENURE_FENCED) /* the next term's epoch must be higher */
        tenure_elector_fenced(elector, tenure_state_floor(state));
    else if (status)
        tenure_elector_yield(elector, 1000);
    tenure_state_close(state);
}

int main(int argc, char **argv)
{
    struct tenure_elector_options options = TENURE_ELECTOR_OPTIONS;
    struct tenure_error error;
    tenure_elector *elector;

    if (argc < 4) {
        fprintf(stderr, "usage: ship STORE SOURCE SINK [TTL-MS]\n");
        return 2;
    }
    int source = open(argv[2], O_RDONLY | O_CLOEXEC);
    int sink = open(argv[3], O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    if (source < 0 || sink < 0) {
        perror("ship");
        return 1;
    }
    options.store = argv[1];
    options.name = "ship";
    options.ttl_ms = argc > 4 ? atoi(argv[4]) : 0;
    options.started = started;
    options.stopped = stopped;
    if (tenure_elector_start(&options, &elector, &error) != TENURE_OK) {
        fprintf(stderr, "ship: %s\n", error.text);
        return 1;
    }
    for (struct tenure_grant grant = {0};;) {
        pthread_mutex_lock(&lock);
        working = 0;
        pthread_cond_broadcast(&changed);
        while (current.epoch == 0 || current.epoch == grant.epoch)
            pthread_cond_wait(&changed, &lock);
        grant = current;
        working = 1;
        pthread_mutex_unlock(&lock);
        lead(elector, argv[1], &grant, source, sink);
    }
}
