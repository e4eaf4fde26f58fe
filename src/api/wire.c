#include "api/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

const char *const tn_wire_headers[TN_WIRE_HEADERS] = {"Tenure-Epoch", "Tenure-Seq", "Tenure-Edited",
                                                      "Cache-Control"};

/* Nobody can change it any more, or take it away from under a reader. */
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

union control {
    struct cmsghdr header;
    char space[CMSG_SPACE(sizeof(int))];
};

/* ---- Bodies -------------------------------------------------------------- */

static int write_body(struct tn_wire_part body)
{
    int fd = memfd_create("tenure-body", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd >= 0 && pwrite(fd, body.bytes, body.len, 0) == (ssize_t)body.len &&
        fcntl(fd, F_ADD_SEALS, SEALS) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

unsigned char *tn_wire_read_body(int fd, size_t len)
{
    struct stat st = {0};
    int seals = fd >= 0 ? fcntl(fd, F_GET_SEALS) : SEALS;
    bool fits = len <= TN_WIRE_BODY_MAX && seals >= 0 && (seals & SEALS) == SEALS &&
                (fd < 0 ? len == 0 || fd == TN_WIRE_BODY_LOST
                        : fstat(fd, &st) == 0 && (size_t)st.st_size == len);
    unsigned char *body = fits && fd != TN_WIRE_BODY_LOST ? malloc(len + 1) : NULL;

    if (body && len > 0 && pread(fd, body, len, 0) != (ssize_t)len) {
        free(body);
        body = NULL;
    }
    if (body)
        body[len] = '\0';
    if (fd >= 0)
        close(fd);
    if (!body)
        errno = fits ? ENOMEM : EPROTO;
    return body;
}

/* ---- Messages ------------------------------------------------------------ */

static void attach(struct msghdr *m, union control *control, int fd)
{
    m->msg_control = control;
    m->msg_controllen = sizeof *control;
    struct cmsghdr *c = CMSG_FIRSTHDR(m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(c), &fd, sizeof fd);
}

bool tn_wire_send(int socket, enum tn_wire_kind kind, uint64_t number, struct tn_wire_part first,
                  struct tn_wire_part second, struct tn_wire_part body)
{
    struct tn_wire_head head = {.magic = TN_WIRE_MAGIC,
                                .version = TN_WIRE_VERSION,
                                .kind = (uint16_t)kind,
                                .number = number};
    struct iovec parts[] = {{.iov_base = &head, .iov_len = sizeof head},
                            {.iov_base = (void *)(uintptr_t)first.bytes, .iov_len = first.len},
                            {.iov_base = (void *)(uintptr_t)second.bytes, .iov_len = second.len}};
    struct msghdr m = {.msg_iov = parts, .msg_iovlen = 3};
    union control control = {0};
    int fd = body.len ? write_body(body) : -1;
    ssize_t n;

    if (body.len && fd < 0) {
        errno = ENOMEM;
        return false;
    }
    if (fd >= 0)
        attach(&m, &control, fd);
    do
        n = sendmsg(socket, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    int saved = errno;
    if (fd >= 0)
        close(fd);
    errno = saved;
    return n >= 0;
}

static int attached(struct msghdr *m)
{
    const struct cmsghdr *c = CMSG_FIRSTHDR(m);
    int fd = -1;

    if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
        c->cmsg_len >= CMSG_LEN(sizeof fd))
        memcpy(&fd, CMSG_DATA(c), sizeof fd);
    return fd;
}

int tn_wire_receive(int socket, union tn_wire_buffer *b, size_t *len, int *body)
{
    struct iovec part = {.iov_base = b, .iov_len = sizeof *b};
    union control control = {0};
    /* Without what CMSG_SPACE() adds: a second descriptor would fit there, and stay open. */
    struct msghdr m = {.msg_iov = &part,
                       .msg_iovlen = 1,
                       .msg_control = &control,
                       .msg_controllen = CMSG_LEN(sizeof(int))};
    ssize_t n;

    do
        n = recvmsg(socket, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n < 0 && errno == EAGAIN)
        return 0;
    *body = n >= 0 ? attached(&m) : -1;
    /* Cut short although there is room for one: we have no descriptor left. */
    if (n >= 0 && (m.msg_flags & MSG_CTRUNC) && *body < 0) {
        *body = TN_WIRE_BODY_LOST;
        m.msg_flags &= ~MSG_CTRUNC;
    }
    if (n >= (ssize_t)sizeof b->head && !(m.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) &&
        b->head.magic == TN_WIRE_MAGIC && b->head.version == TN_WIRE_VERSION) {
        *len = (size_t)n - sizeof b->head;
        return 1;
    }
    if (*body >= 0)
        close(*body);
    return -1;
}

/* ---- What follows a head ------------------------------------------------- */

bool tn_wire_is_header(const char *text, size_t size)
{
    if (strnlen(text, size) == size)
        return false;
    for (; *text; text++) {
        if (*text < 0x20 || *text > 0x7e)
            return false;
    }
    return true;
}

bool tn_wire_read_request(const void *bytes, size_t len, struct tn_wire_request *r, char **path)
{
    errno = EPROTO;
    if (len < sizeof *r || len - sizeof *r > TN_WIRE_PATH_MAX)
        return false;
    memcpy(r, bytes, sizeof *r);
    if (r->kind < TN_REQUEST_HANDOVER || r->kind > TN_REQUEST_STATE ||
        strnlen(r->method, sizeof r->method) == sizeof r->method ||
        !tn_wire_is_header(r->epoch, sizeof r->epoch) ||
        !tn_wire_is_header(r->peer, sizeof r->peer) ||
        memchr((const char *)bytes + sizeof *r, '\0', len - sizeof *r))
        return false;
    *path = strndup((const char *)bytes + sizeof *r, len - sizeof *r);
    return *path != NULL;
}

bool tn_wire_read_answer(const void *bytes, size_t len, struct tn_wire_answer *a)
{
    if (len != sizeof *a)
        return false;
    memcpy(a, bytes, sizeof *a);
    for (int i = 0; i < TN_WIRE_HEADERS; i++) {
        if (!tn_wire_is_header(a->headers[i], sizeof a->headers[i]))
            return false;
    }
    return a->status >= 200 && a->status <= 599 && tn_wire_is_header(a->type, sizeof a->type);
}
