/*
 * Connections that are handed over, by the one process that has the other end of a socket pair:
 * no address leads here, so that nobody else can come, or stand in the way.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "http/server.h"

/* -1: the other end is closed. */
static int next_connection(int from)
{
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof(int))];
    } control;
    char word;
    struct iovec part = {.iov_base = &word, .iov_len = sizeof word};
    ssize_t n;

    for (;;) {
        struct msghdr m = {.msg_iov = &part,
                           .msg_iovlen = 1,
                           .msg_control = &control,
                           .msg_controllen = sizeof control};
        int fd = -1;

        n = recvmsg(from, &m, MSG_CMSG_CLOEXEC);
        if (n == 0 || (n < 0 && errno != EINTR))
            return -1;
        const struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&m) : NULL;
        if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
            memcpy(&fd, CMSG_DATA(c), sizeof fd);
        if (fd >= 0)
            return fd;
    }
}

static void *take_all(void *arg)
{
    struct tn_http_server *s = arg;
    struct sockaddr address = {.sa_family = AF_UNIX};
    int fd;

    while ((fd = next_connection(s->listener.fd)) >= 0)
        MHD_add_connection(s->daemon, fd, &address, sizeof address); /* closes it if it is full */
    return NULL;
}

bool tn_handed_start(struct tn_http_server *s)
{
    s->handed_started = pthread_create(&s->handed, NULL, take_all, s) == 0;
    return s->handed_started;
}

void tn_handed_stop(struct tn_http_server *s)
{
    if (!s->handed_started)
        return;
    shutdown(s->listener.fd, SHUT_RDWR);
    pthread_join(s->handed, NULL);
    close(s->listener.fd);
}
