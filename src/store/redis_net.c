#include "redis_net.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "os/clock.h"
#include "os/poll.h"
#include "tenure/store.h"

#define FIRST_LOOK_MS 20
#define LOOK_AGAIN_NS 100000000

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

/* ---- Names --------------------------------------------------------------- */

/* What the resolver's thread writes to; it outlives a call that gave up. */
struct lookup {
    struct gaicb cb;
    struct addrinfo hints;
    struct tn_redis_addr addr;
};

static struct lookup *lookup_new(const struct tn_redis_addr *addr)
{
    struct lookup *l = calloc(1, sizeof *l);

    if (!l)
        return NULL;
    l->addr = *addr;
    l->hints.ai_socktype = SOCK_STREAM;
    l->hints.ai_flags = AI_NUMERICSERV | AI_ADDRCONFIG;
    l->cb.ar_name = l->addr.host;
    l->cb.ar_service = l->addr.port;
    l->cb.ar_request = &l->hints;
    return l;
}

/* getaddrinfo(3) has no deadline, and resolv.conf may allow it half a minute (C5). */
static int resolve_name(const struct tn_redis_addr *addr, int cancel_fd, int64_t deadline,
                        struct addrinfo **out)
{
    struct lookup *l = lookup_new(addr);
    struct gaicb *list[1];
    int rc;

    if (!l)
        return EAI_MEMORY;
    list[0] = &l->cb;
    rc = getaddrinfo_a(GAI_NOWAIT, list, 1, NULL);
    while (!rc && (rc = gai_error(&l->cb)) == EAI_INPROGRESS) {
        struct pollfd cancel = {.fd = cancel_fd, .events = POLLIN};
        int64_t left = deadline - tenure_now();

        if (left <= 0 || poll(&cancel, 1, 0) > 0) {
            /* A request that cannot be taken back keeps its memory. */
            if (gai_cancel(&l->cb) == EAI_CANCELED)
                free(l);
            return EAI_INPROGRESS;
        }
        if (left > LOOK_AGAIN_NS)
            left = LOOK_AGAIN_NS; /* gai_suspend's own clock stands still during a suspend */
        struct timespec slice = {.tv_nsec = (long)left};
        gai_suspend((const struct gaicb *const *)list, 1, &slice);
        rc = 0;
    }
    if (!rc)
        *out = l->cb.ar_result;
    free(l);
    return rc;
}

static enum tenure_status resolve(const struct tn_redis_addr *addr, int cancel_fd, int64_t deadline,
                                  struct addrinfo **out, struct tenure_error *err)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV};
    int rc = getaddrinfo(addr->host, addr->port, &hints, out);

    if (rc == EAI_NONAME)
        rc = resolve_name(addr, cancel_fd, deadline, out);
    if (rc == EAI_INPROGRESS)
        return tenure_fail(err, TENURE_TIMEOUT, "the name %s did not resolve in time", addr->host);
    if (rc == EAI_NONAME)
        return tenure_fail(err, TENURE_UNAVAILABLE, "there is no host called %s; check the URL",
                           addr->host);
    if (rc)
        return tenure_fail(err, TENURE_UNAVAILABLE, "the name %s does not resolve: %s", addr->host,
                           gai_strerror(rc));
    return TENURE_OK;
}

/* ---- Sockets ------------------------------------------------------------- */

static enum tenure_status finish_connect(int fd, int cancel_fd, int64_t deadline, int *error,
                                         struct tenure_error *err)
{
    socklen_t size = sizeof *error;
    enum tenure_status status = tn_redis_await(fd, POLLOUT, cancel_fd, deadline, err);

    if (status == TENURE_TIMEOUT)
        return tenure_fail(err, TENURE_TIMEOUT, "connecting took too long");
    if (!status && getsockopt(fd, SOL_SOCKET, SO_ERROR, error, &size) != 0)
        *error = errno;
    return status;
}

static enum tenure_status connect_to(const struct sockaddr *to, socklen_t len, int cancel_fd,
                                     int64_t deadline, int *out, struct tenure_error *err)
{
    int fd = socket(to->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    enum tenure_status status = TENURE_OK;
    int error = 0;

    if (fd < 0)
        return tenure_fail(err, TENURE_UNAVAILABLE, "socket: %s", strerror(errno));
    if (connect(fd, to, len) != 0) {
        error = errno;
        /* EAGAIN, from a Unix socket whose queue is full, cannot be polled for. */
        if (error == EINPROGRESS) {
            error = 0;
            status = finish_connect(fd, cancel_fd, deadline, &error, err);
        }
    }
    if (!status && error)
        status = tenure_fail(err, error == EACCES ? TENURE_DENIED : TENURE_UNAVAILABLE,
                             "cannot connect: %s", strerror(error));
    if (status)
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

static enum tenure_status connect_unix(const struct tn_redis_addr *addr, int cancel_fd,
                                       int64_t deadline, int *fd, struct tenure_error *err)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};

    snprintf(to.sun_path, sizeof to.sun_path, "%s", addr->host);
    return connect_to((const struct sockaddr *)&to, sizeof to, cancel_fd, deadline, fd, err);
}

static enum tenure_status connect_tcp(const struct tn_redis_addr *addr, int cancel_fd,
                                      int64_t deadline, int *fd, struct tn_redis_addr *real,
                                      struct tenure_error *err)
{
    struct addrinfo *found = NULL;
    enum tenure_status status = resolve(addr, cancel_fd, deadline, &found, err);
    unsigned left = 0;

    if (status)
        return status;
    for (struct addrinfo *a = found; a; a = a->ai_next)
        left++;
    for (struct addrinfo *a = found; a; a = a->ai_next, left--) {
        /* One dead address must not use up the time of the others. */
        int64_t now = tenure_now();

        status = connect_to(a->ai_addr, a->ai_addrlen, cancel_fd, now + (deadline - now) / left, fd,
                            err);
        if (status == TENURE_CANCELLED)
            break;
        if (status)
            continue;
        tune(*fd);
        if (real)
            getnameinfo(a->ai_addr, a->ai_addrlen, real->host, sizeof real->host, NULL, 0,
                        NI_NUMERICHOST);
        break;
    }
    freeaddrinfo(found);
    return status;
}

enum tenure_status tn_redis_connect(const struct tn_redis_addr *addr, int cancel_fd,
                                    int64_t deadline, int *fd, struct tn_redis_addr *real,
                                    struct tenure_error *err)
{
    if (tenure_now() >= deadline)
        return tenure_fail(err, TENURE_TIMEOUT, "no time was left to connect");
    return addr->port[0] ? connect_tcp(addr, cancel_fd, deadline, fd, real, err)
                         : connect_unix(addr, cancel_fd, deadline, fd, err);
}
