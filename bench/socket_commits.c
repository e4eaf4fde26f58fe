/*
 * socket_commits PATH CONNECTIONS COUNT - commits through TENURE_SOCKET, as a program makes them:
 * CONNECTIONS at once, COUNT on each, of documents of their own.  Prints commits a second.
 *
 * socket_commits PATH batch KEYS ROUNDS - the same in requests of KEYS commits each.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

static const char *path;
static const char text[] =
    "a checkpoint: 1234567890 of source/0001, some 100 bytes as they are seen "
    "in the field.......";

static void check(bool good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "socket_commits: %s\n", what);
    exit(1);
}

static int dial(void)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    check(strlen(path) < sizeof to.sun_path, "the path is too long");
    strcpy(to.sun_path, path);
    check(fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to) == 0, "cannot connect");
    return fd;
}

/* Send a request, read its whole answer, which must be a 200. */
static void ask(int fd, const char *method, const char *target, const char *body, size_t len)
{
    char head[512], answer[262144];
    int n = snprintf(head, sizeof head,
                     "%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n", method,
                     target, len);
    size_t got = 0, whole = 0;

    check(send(fd, head, (size_t)n, MSG_MORE) == n, "cannot send");
    for (size_t sent = 0; sent < len;) {
        ssize_t part = write(fd, body + sent, len - sent);
        check(part > 0, "cannot send");
        sent += (size_t)part;
    }
    while (!whole || got < whole) {
        ssize_t part = read(fd, answer + got, sizeof answer - 1 - got);
        check(part > 0, "no answer");
        got += (size_t)part;
        answer[got] = '\0';
        char *end = strstr(answer, "\r\n\r\n"), *length = strcasestr(answer, "content-length:");
        if (end && length && !whole)
            whole = (size_t)(end + 4 - answer) + strtoul(length + 15, NULL, 10);
    }
    check(strncmp(answer, "HTTP/1.1 200", 12) == 0, answer);
}

struct writer {
    unsigned number, count;
};

static void *write_all(void *arg)
{
    const struct writer *w = arg;
    char target[64];
    int fd = dial();

    snprintf(target, sizeof target, "/v1/state/bench/%u", w->number);
    for (unsigned i = 0; i < w->count; i++)
        ask(fd, "PUT", target, text, sizeof text - 1);
    close(fd);
    return NULL;
}

static double now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static double at_once(unsigned n, unsigned count)
{
    pthread_t *threads = calloc(n, sizeof *threads);
    struct writer *writers = calloc(n, sizeof *writers);

    for (unsigned i = 0; i < n; i++) { /* made before they are measured */
        writers[i] = (struct writer){.number = i, .count = 1};
        write_all(&writers[i]);
        writers[i].count = count;
    }
    double from = now();
    for (unsigned i = 0; i < n; i++)
        check(pthread_create(&threads[i], NULL, write_all, &writers[i]) == 0, "no thread");
    for (unsigned i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    double took = now() - from;
    free(threads);
    free(writers);
    return n * count / took;
}

static double in_batches(unsigned keys, unsigned rounds)
{
    size_t size = 32 + (size_t)keys * (sizeof text + 64), len;
    char *body = malloc(size);
    int fd = dial();

    len = (size_t)snprintf(body, size, "{\"commits\":[");
    for (unsigned i = 0; i < keys; i++)
        len += (size_t)snprintf(body + len, size - len,
                                "%s{\"collection\":\"batch\",\"id\":\"%u\",\"data\":\"%s\"}",
                                i ? "," : "", i, text);
    len += (size_t)snprintf(body + len, size - len, "]}");
    ask(fd, "POST", "/v1/state", body, len);
    double from = now();
    for (unsigned i = 0; i < rounds; i++)
        ask(fd, "POST", "/v1/state", body, len);
    double took = now() - from;
    close(fd);
    free(body);
    return keys * rounds / took;
}

int main(int argc, char **argv)
{
    if (argc < 4)
        return 2;
    path = argv[1];
    if (argc == 5 && strcmp(argv[2], "batch") == 0)
        printf("%.0f\n", in_batches((unsigned)atoi(argv[3]), (unsigned)atoi(argv[4])));
    else
        printf("%.0f\n", at_once((unsigned)atoi(argv[2]), (unsigned)atoi(argv[3])));
    return 0;
}
