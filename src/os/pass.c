#include "os/pass.h"

#include <string.h>
#include <sys/socket.h>

bool tn_pass_fds(int socket, const void *message, size_t len, const int *fds, unsigned n)
{
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(TN_PASS_MAX * sizeof(int))];
    } control = {0};
    struct iovec part = {.iov_len = len};
    struct msghdr m = {.msg_iov = &part,
                       .msg_iovlen = 1,
                       .msg_control = &control,
                       .msg_controllen = CMSG_SPACE(n * sizeof *fds)};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);

    memcpy(&part.iov_base, &message, sizeof part.iov_base); /* it is only read */
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(n * sizeof *fds);
    memcpy(CMSG_DATA(c), fds, n * sizeof *fds);
    return sendmsg(socket, &m, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)len;
}
