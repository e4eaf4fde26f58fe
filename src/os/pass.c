#include "os/pass.h"

#include <string.h>
#include <sys/socket.h>

bool tn_pass_fd(int socket, const void *message, size_t len, int fd)
{
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct iovec part = {.iov_len = len};
    struct msghdr m = {.msg_iov = &part,
                       .msg_iovlen = 1,
                       .msg_control = &control,
                       .msg_controllen = sizeof control};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);

    memcpy(&part.iov_base, &message, sizeof part.iov_base); /* it is only read */
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &fd, sizeof fd);
    return sendmsg(socket, &m, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)len;
}
