/*
 * What a server says first to everybody who connects.  The library keeps the server's version to
 * itself, so it is read on a connection of its own.
 */
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "store/nats/nats.h"

#define GREETING_MAX 16384

bool tn_nats_version_parse(const char *text, size_t n, unsigned version[3])
{
    json_t *root = n > 5 && memcmp(text, "INFO ", 5) == 0
                       ? json_loadb(text + 5, n - 5, JSON_DISABLE_EOF_CHECK, NULL)
                       : NULL;
    const char *words = json_string_value(json_object_get(root, "version"));
    unsigned v[3] = {0};
    bool sound = words && sscanf(words, "%9u.%9u.%9u", &v[0], &v[1], &v[2]) == 3;

    if (sound)
        memcpy(version, v, sizeof v);
    json_decref(root);
    return sound;
}

static enum tenure_status refused(const struct tn_nats *h, int error, struct tenure_error *err)
{
    char why[128];

    snprintf(why, sizeof why, "cannot connect: %s; is the server up, and is the address right?",
             strerror(error));
    return tn_nats_fail(h, TENURE_UNAVAILABLE, err, why);
}

static enum tenure_status finish_connecting(const struct tn_nats *h, int fd, int64_t by,
                                            struct tenure_error *err)
{
    int error = 0;
    socklen_t size = sizeof error;
    enum tenure_status status = tn_nats_await(h, fd, POLLOUT, by, err);

    if (!status && getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error)
        status = refused(h, error, err);
    return status;
}

static enum tenure_status read_greeting(const struct tn_nats *h, int fd, int64_t by,
                                        unsigned version[3], struct tenure_error *err)
{
    char text[GREETING_MAX];
    size_t n = 0;
    enum tenure_status status;

    while (!(status = tn_nats_await(h, fd, POLLIN, by, err))) {
        ssize_t got = recv(fd, text + n, sizeof text - n, 0);

        if (got < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (got <= 0)
            return tn_nats_fail(h, TENURE_UNAVAILABLE, err, "the server ended the connection");
        n += (size_t)got;
        if (memchr(text, '\n', n))
            return tn_nats_version_parse(text, n, version)
                       ? TENURE_OK
                       : tn_nats_fail(h, TENURE_UNAVAILABLE, err, "this is no NATS server");
        if (n == sizeof text)
            return tn_nats_fail(h, TENURE_UNAVAILABLE, err, "this is no NATS server");
    }
    return status;
}

enum tenure_status tn_nats_ask_version(struct tn_nats *h, int64_t by, unsigned version[3],
                                       struct tenure_error *err)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV};
    struct addrinfo *to = NULL;
    enum tenure_status status = TENURE_OK;
    int fd;

    if (getaddrinfo(tn_nats_link_address(h->link), h->conf.hosts[h->at].port, &hints, &to) != 0)
        return tn_nats_fail(h, TENURE_UNAVAILABLE, err, "the address cannot be used");
    fd = socket(to->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        status = tenure_fail(err, TENURE_UNAVAILABLE, "socket: %s", strerror(errno));
    else if (connect(fd, to->ai_addr, to->ai_addrlen) != 0)
        status = errno == EINPROGRESS ? finish_connecting(h, fd, by, err) : refused(h, errno, err);
    freeaddrinfo(to);
    if (!status)
        status = read_greeting(h, fd, by, version, err);
    if (fd >= 0)
        close(fd);
    return status;
}
