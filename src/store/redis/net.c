#include "store/redis/net.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "os/clock.h"
#include "os/poll.h"
#include "os/resolve.h"
#include "tenure/store.h"

#define FIRST_LOOK_MS 20

enum tenure_status tn_redis_await(int fd, short events, int cancel_fd, int64_t deadline,
                                  struct tenure_error *err)
{
    struct pollfd both[2] = {{.fd = fd, .events = events}, {.fd = cancel_fd, .events = POLLIN}};
    int ms = tn_poll_ms(deadline);

    /* Nearly every answer is there within milliseconds: the timer that also
     * counts suspended time is only made for those that are not. */
    int ready = poll(both, 2, ms < FIRST_LOOK_MS ? ms : FIRST_LOOK_MS);
    if (ready == 0 || (ready < 0 && errno == EINTR))
        ready = tn_poll(both, 2, deadline);
    if (ready < 0)
        return tenure_fail(err, TENURE_UNAVAILABLE, "poll: %s", strerror(errno));
    if (ready == 0)
        return tenure_fail(err, TENURE_TIMEOUT, "the server did not answer in time");
    if (both[1].revents)
        return tenure_fail(err, TENURE_CANCELLED, "cancelled by the caller");
    return TENURE_OK;
}

/* ---- Sockets ------------------------------------------------------------- */

static enum tenure_status refused(int error, struct tenure_error *err)
{
    return tenure_fail(err, error == EACCES ? TENURE_DENIED : TENURE_UNAVAILABLE,
                       "cannot connect: %s; is the server up, and is the address right?",
                       strerror(error));
}

enum tenure_status tn_redis_connected(int fd, int cancel_fd, int64_t deadline,
                                      struct tenure_error *err)
{
    int error = 0;
    socklen_t size = sizeof error;
    enum tenure_status status = tn_redis_await(fd, POLLOUT, cancel_fd, deadline, err);

    if (status == TENURE_TIMEOUT)
        return tenure_fail(err, TENURE_TIMEOUT, "connecting took too long");
    if (!status && getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0)
        error = errno;
    return !status && error ? refused(error, err) : status;
}

/* On TIMEOUT and CANCELLED the socket goes on connecting. */
static enum tenure_status connect_to(const struct sockaddr *to, socklen_t len, int cancel_fd,
                                     int64_t deadline, int *out, struct tenure_error *err)
{
    int fd = socket(to->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    enum tenure_status status = TENURE_OK;

    if (fd < 0)
        return tenure_fail(err, TENURE_UNAVAILABLE, "socket: %s", strerror(errno));
    /* EAGAIN, from a Unix socket whose queue is full, cannot be polled for. */
    if (connect(fd, to, len) != 0)
        status = errno == EINPROGRESS ? tn_redis_connected(fd, cancel_fd, deadline, err)
                                      : refused(errno, err);
    if (status && status != TENURE_TIMEOUT && status != TENURE_CANCELLED)
        close(fd);
    else
        *out = fd;
    return status;
}

/* A peer that vanished without a word is noticed even by a silent subscription. */
static void tune(int fd)
{
    static const struct {
        int level, name, value;
    } options[] = {
        {IPPROTO_TCP, TCP_NODELAY, 1},  {SOL_SOCKET, SO_KEEPALIVE, 1},
        {IPPROTO_TCP, TCP_KEEPIDLE, 5}, {IPPROTO_TCP, TCP_KEEPINTVL, 2},
        {IPPROTO_TCP, TCP_KEEPCNT, 3},  {IPPROTO_TCP, TCP_USER_TIMEOUT, 10000},
    };

    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
        setsockopt(fd, options[i].level, options[i].name, &options[i].value, sizeof(int));
}

static enum tenure_status connect_unix(const struct tn_remote_addr *addr, int cancel_fd,
                                       int64_t deadline, int *fd, struct tenure_error *err)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};

    snprintf(to.sun_path, sizeof to.sun_path, "%s", addr->host);
    return connect_to((const struct sockaddr *)&to, sizeof to, cancel_fd, deadline, fd, err);
}

/* A numeric address, perhaps with a scope, and a port. */
static bool parse_address(const char *host, const char *port, struct addrinfo **out)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV};

    return getaddrinfo(host, port, &hints, out) == 0;
}

static enum tenure_status connect_tcp(const struct tn_remote_addr *addr, int cancel_fd,
                                      int64_t deadline, int *fd, struct tn_remote_addr *real,
                                      struct tenure_error *err)
{
    struct tn_addresses found;
    enum tenure_status status = tn_resolve(addr->host, cancel_fd, deadline, &found, err);

    if (status)
        return status;
    status = tenure_fail(err, TENURE_UNAVAILABLE, "%s has no usable address", addr->host);
    for (unsigned i = 0; i < found.n; i++) {
        /* One dead address must not use up the time of the others. */
        int64_t now = tenure_now(), until = now + (deadline - now) / (int64_t)(found.n - i);
        struct addrinfo *to = NULL;

        if (!parse_address(found.text[i], addr->port, &to))
            continue;
        status = connect_to(to->ai_addr, to->ai_addrlen, cancel_fd, until, fd, err);
        freeaddrinfo(to);
        if (status == TENURE_TIMEOUT && i + 1 < found.n) {
            close(*fd);
            *fd = -1;
        }
        if (*fd < 0)
            continue;
        tune(*fd);
        if (real)
            snprintf(real->host, sizeof real->host, "%s", found.text[i]);
        break;
    }
    return status;
}

enum tenure_status tn_redis_connect(const struct tn_remote_addr *addr, int cancel_fd,
                                    int64_t deadline, int *fd, struct tn_remote_addr *real,
                                    struct tenure_error *err)
{
    *fd = -1;
    if (tenure_now() >= deadline)
        return tenure_fail(err, TENURE_TIMEOUT, "no time was left to connect");
    return addr->port[0] ? connect_tcp(addr, cancel_fd, deadline, fd, real, err)
                         : connect_unix(addr, cancel_fd, deadline, fd, err);
}
