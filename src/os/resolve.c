#include "resolve.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "os/poll.h"
#include "os/thread.h"

/* One look-up, owned by the caller and by its thread; the last one frees it. */
struct lookup {
    atomic_int owners;
    int done_fd; /* eventfd: readable when rc and found are set */
    int rc;
    struct addrinfo *found;
    char host[256];
};

static void let_go(struct lookup *l)
{
    if (!l || atomic_fetch_sub(&l->owners, 1) > 1)
        return;
    if (l->found)
        freeaddrinfo(l->found);
    if (l->done_fd >= 0)
        close(l->done_fd);
    free(l);
}

static void *look_up(void *arg)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG};
    struct lookup *l = arg;
    uint64_t one = 1;

    tn_thread_name("tenure-resolve");
    l->rc = getaddrinfo(l->host, NULL, &hints, &l->found);
    while (write(l->done_fd, &one, sizeof one) < 0 && errno == EINTR)
        continue;
    let_go(l);
    return NULL;
}

static bool numeric(const char *host)
{
    struct in6_addr address;
    char plain[INET6_ADDRSTRLEN];

    /* A link-local address may name its scope: fe80::1%eth0. */
    snprintf(plain, sizeof plain, "%.*s", (int)strcspn(host, "%"), host);
    return inet_pton(AF_INET, host, &address) == 1 || inet_pton(AF_INET6, plain, &address) == 1;
}

static void copy_addresses(const struct addrinfo *found, struct tn_addresses *out)
{
    out->n = 0;
    for (; found && out->n < TN_RESOLVE_MAX; found = found->ai_next) {
        if (getnameinfo(found->ai_addr, found->ai_addrlen, out->text[out->n],
                        sizeof out->text[out->n], NULL, 0, NI_NUMERICHOST) == 0)
            out->n++;
    }
}

static enum tenure_status start(const char *host, struct lookup **out, struct tenure_error *err)
{
    struct lookup *l = calloc(1, sizeof *l);
    enum tenure_status status;
    pthread_t thread;

    if (!l)
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    atomic_init(&l->owners, 2);
    snprintf(l->host, sizeof l->host, "%s", host);
    l->done_fd = eventfd(0, EFD_CLOEXEC);
    if (l->done_fd < 0)
        status = tenure_fail(err, TENURE_UNAVAILABLE, "eventfd: %s", strerror(errno));
    else
        status = tn_thread_start(&thread, look_up, l, err);
    if (status) {
        atomic_store(&l->owners, 1);
        let_go(l);
        return status;
    }
    pthread_detach(thread);
    *out = l;
    return TENURE_OK;
}

enum tenure_status tn_resolve(const char *host, int wake_fd, int64_t deadline,
                              struct tn_addresses *out, struct tenure_error *err)
{
    struct pollfd fds[2] = {{.events = POLLIN}, {.fd = wake_fd, .events = POLLIN}};
    struct lookup *l = NULL;
    enum tenure_status status;
    uint64_t done;

    if (strlen(host) >= sizeof l->host)
        return tenure_fail(err, TENURE_CONFIG, "a host name of more than 255 bytes");
    if (numeric(host)) {
        out->n = 1;
        snprintf(out->text[0], sizeof out->text[0], "%s", host);
        return TENURE_OK;
    }
    status = start(host, &l, err);
    if (status)
        return status;
    fds[0].fd = l->done_fd;
    int ready = tn_poll(fds, 2, deadline);
    /* Reading it is what orders the other thread's answer before our look at it. */
    if (ready > 0 && fds[0].revents && read(l->done_fd, &done, sizeof done) < 0)
        ready = -1;
    if (ready < 0)
        status = tenure_fail(err, TENURE_UNAVAILABLE, "poll: %s", strerror(errno));
    else if (ready == 0)
        status = tenure_fail(err, TENURE_TIMEOUT, "the name %s was not resolved in time", host);
    else if (!fds[0].revents)
        status = tenure_fail(err, TENURE_CANCELLED, "interrupted");
    else if (l->rc)
        status = tenure_fail(err, TENURE_UNAVAILABLE, "the name %s cannot be resolved: %s", host,
                             gai_strerror(l->rc));
    else
        copy_addresses(l->found, out);
    let_go(l);
    return status;
}

bool tn_host_is_local(const char *host)
{
    struct in_addr four;
    struct in6_addr six;

    if (strcasecmp(host, "localhost") == 0)
        return true;
    if (inet_pton(AF_INET, host, &four) == 1)
        return (ntohl(four.s_addr) >> 24) == 127;
    return inet_pton(AF_INET6, host, &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six);
}
