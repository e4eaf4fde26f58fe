/*
 * guarded FENCE - a tiny HTTP service that refuses leaders that were succeeded.
 *
 * PUT / with a Tenure-Epoch header stores the body: 204, or 409 if a later leader
 * was here, 400 if the header is missing or makes no sense.  GET / shows what is
 * stored.  The highest epoch is in the file FENCE, so a restart changes nothing.
 * Prints its port.  The check and the write are one step: one request at a time.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include <tenure/fence.h>

static char stored[4096];

/* The value of a header, terminated; NULL if it is not there. */
static char *header(char *request, const char *name)
{
    for (char *line = strstr(request, "\r\n"); line; line = strstr(line + 2, "\r\n")) {
        size_t n = strlen(name);

        if (strncasecmp(line + 2, name, n) == 0 && line[2 + n] == ':') {
            char *value = line + 3 + n + strspn(line + 3 + n, " ");
            char *copy = strndup(value, strcspn(value, "\r\n"));
            return copy;
        }
    }
    return NULL;
}

static const char *put(tenure_fence *fence, char *request, const char *body)
{
    struct tenure_error err = {0};
    char *epoch = header(request, "Tenure-Epoch");
    enum tenure_status status = tenure_fence_check_text(fence, epoch, &err);

    free(epoch);
    switch (status) {
    case TENURE_OK:
        snprintf(stored, sizeof stored, "%s", body);
        return "204 No Content";
    case TENURE_FENCED:
        return "409 Conflict";
    case TENURE_INVALID:
        return "400 Bad Request";
    default: /* a fence that cannot remember refuses */
        return "503 Service Unavailable";
    }
}

static void serve(tenure_fence *fence, int client)
{
    static char request[8192];
    char answer[4300];
    size_t used = 0;
    char *body = NULL;

    while (used < sizeof request - 1) {
        ssize_t n = read(client, request + used, sizeof request - 1 - used);

        if (n <= 0)
            return;
        used += (size_t)n;
        request[used] = '\0';
        body = strstr(request, "\r\n\r\n");
        char *length = body ? header(request, "Content-Length") : NULL;
        size_t want = length ? strtoul(length, NULL, 10) : 0;
        free(length);
        if (body && (size_t)(request + used - (body + 4)) >= want)
            break;
    }
    if (!body)
        return;
    bool get = strncmp(request, "GET ", 4) == 0;
    const char *status = get ? "200 OK" : put(fence, request, body + 4);
    int n = snprintf(answer, sizeof answer,
                     "HTTP/1.1 %s\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n%s", status,
                     get ? strlen(stored) : 0, get ? stored : "");
    if (write(client, answer, (size_t)n) < 0)
        perror("guarded");
}

int main(int argc, char **argv)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    struct tenure_error err = {0};
    tenure_fence *fence = NULL;
    int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (argc != 2) {
        fprintf(stderr, "usage: guarded FENCE\n");
        return 2;
    }
    if (tenure_fence_open(argv[1], &fence, &err)) {
        fprintf(stderr, "guarded: %s\n", err.text);
        return 1;
    }
    if (server < 0 || bind(server, (struct sockaddr *)&at, sizeof at) != 0 ||
        listen(server, 16) != 0 || getsockname(server, (struct sockaddr *)&at, &size) != 0) {
        perror("guarded");
        return 1;
    }
    printf("%d\n", ntohs(at.sin_port));
    fflush(stdout);
    for (;;) {
        int client = accept(server, NULL, NULL);

        if (client < 0)
            continue;
        serve(fence, client);
        close(client);
    }
}
