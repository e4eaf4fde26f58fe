/* A node to connect to: its addresses, and when to try again. */
#include <errno.h>
#include <gnutls/crypto.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "replica/link/inner.h"

#define WAIT_MIN_NS INT64_C(100000000)
#define WAIT_MAX_NS INT64_C(5000000000)

struct lookup {
    struct tn_task task;
    struct tn_target *target;
    char *host;
    struct tn_addresses found;
    enum tenure_status status;
    struct tenure_error err;
};

/* Later each time, and not when everybody else does. */
static void back_off(struct tn_target *target)
{
    uint32_t random = 0;

    gnutls_rnd(GNUTLS_RND_NONCE, &random, sizeof random);
    target->wait_ns *= 2;
    if (target->wait_ns < WAIT_MIN_NS)
        target->wait_ns = WAIT_MIN_NS;
    if (target->wait_ns > WAIT_MAX_NS)
        target->wait_ns = WAIT_MAX_NS;
    target->at_ns = tenure_now() + target->wait_ns / 2 +
                    (int64_t)(random % 1024) * (target->wait_ns / 2) / 1024;
}

static void connect_next(struct tn_target *target)
{
    struct tn_transport *t = target->transport;
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST};
    struct addrinfo *found = NULL;
    const char *address = target->found.text[target->next++];
    int fd = -1, code = getaddrinfo(address, target->port, &hints, &found);

    if (code == 0)
        fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || (connect(fd, found->ai_addr, found->ai_addrlen) != 0 && errno != EINPROGRESS)) {
        tn_transport_failed(t, target, target->address,
                            code ? gai_strerror(code) : strerror(errno));
        if (fd >= 0)
            close(fd);
    } else {
        target->peer = tn_peer_new(t, fd, target, target->address);
    }
    if (found)
        freeaddrinfo(found);
    if (!target->peer)
        back_off(target);
}

static void resolve(struct tn_task *task)
{
    struct lookup *l = (struct lookup *)task;

    l->status = tn_resolve(l->host, -1, tenure_now() + TN_LINK_HANDSHAKE_NS, &l->found, &l->err);
}

static void resolved(struct tn_task *task)
{
    struct lookup *l = (struct lookup *)task;
    struct tn_target *target = l->target;

    target->resolving = false;
    if (l->status || l->found.n == 0) {
        tn_transport_failed(target->transport, target, target->address, l->err.text);
        back_off(target);
        return;
    }
    target->found = l->found;
    target->next = 0;
    connect_next(target);
}

static void free_lookup(struct tn_task *task)
{
    struct lookup *l = (struct lookup *)task;

    free(l->host);
    free(l);
}

void tn_target_begin(struct tn_target *target)
{
    struct lookup *l = calloc(1, sizeof *l);
    char *host = strdup(target->host);

    target->at_ns = TN_NEVER;
    if (!l || !host) {
        free(l);
        free(host);
        back_off(target);
        return;
    }
    l->task = (struct tn_task){.run = resolve, .done = resolved, .free = free_lookup};
    l->target = target;
    l->host = host;
    target->resolving = tn_worker_post(target->transport->worker, &l->task, NULL) == TENURE_OK;
    if (!target->resolving)
        back_off(target);
}

/* The connection of a target is over. */
void tn_target_lost(struct tn_target *target, const struct tn_peer *p)
{
    target->peer = NULL;
    if (p->opened_ns && tenure_now() - p->opened_ns > WAIT_MAX_NS)
        target->wait_ns = 0;
    if (!p->opened_ns && target->next < target->found.n)
        connect_next(target);
    else
        back_off(target);
}
