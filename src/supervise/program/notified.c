#include "supervise/program/notified.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "guard/children.h"

#define ROUND_MAX 64

/* ---- Life ---------------------------------------------------------------- */

static enum tenure_status listen_at(struct tn_notified *n, struct tenure_error *err)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int on = 1;

    snprintf(n->path, sizeof n->path, "%s/notify", n->dir);
    memcpy(name.sun_path, n->path, strlen(n->path));
    n->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    /* Credentials before there is a name to send to: no message comes without. */
    if (n->fd < 0 || setsockopt(n->fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) != 0 ||
        bind(n->fd, (struct sockaddr *)&name, sizeof name) != 0)
        return tenure_fail(err, TENURE_UNAVAILABLE, "cannot listen to the program at %s: %s",
                           n->path, strerror(errno));
    return TENURE_OK;
}

enum tenure_status tn_notified_open(struct tn_notified *n, const struct tn_program *program,
                                    struct tenure_error *err)
{
    uid_t other = 0;
    enum tenure_status status = tn_program_user(program, &other, err);

    *n = TN_NOTIFIED_NONE;
    n->user = program->user ? other : geteuid();
    if (!status)
        status = tn_socket_dir_make(n->dir, err);
    if (!status)
        status = listen_at(n, err);
    if (!status)
        status = tn_socket_dir_give(n->dir, n->path, other, err);
    if (status)
        tn_notified_close(n);
    return status;
}

void tn_notified_close(struct tn_notified *n)
{
    if (n->fd >= 0)
        close(n->fd);
    if (n->path[0])
        unlink(n->path);
    if (n->dir[0])
        rmdir(n->dir);
    *n = TN_NOTIFIED_NONE;
}

/* ---- What was said ------------------------------------------------------- */

bool tn_notified_is_well(const char *text, size_t len)
{
    static const char *const words[] = {"WATCHDOG=1", "READY=1"};
    const char *end = text + len;

    while (text < end) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        size_t n = (size_t)((newline ? newline : end) - text);

        for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
            if (n == strlen(words[i]) && memcmp(text, words[i], n) == 0)
                return true;
        }
        text += n + 1;
    }
    return false;
}

/* Who runs as the program's user is not yet the program. */
static bool believed(const struct tn_notified *n, struct msghdr *m, pid_t guard)
{
    struct cmsghdr *c = CMSG_FIRSTHDR(m);
    struct ucred who;

    if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_CREDENTIALS ||
        (m->msg_flags & MSG_TRUNC))
        return false;
    memcpy(&who, CMSG_DATA(c), sizeof who);
    return who.uid == n->user && tn_children_descends(who.pid, guard);
}

bool tn_notified_take(const struct tn_notified *n, pid_t guard)
{
    char text[4096];
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof(struct ucred))];
    } control;
    struct iovec part = {.iov_base = text, .iov_len = sizeof text};
    struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control};
    bool well = false;

    /* Who talks without end does not keep us from our other duties. */
    for (int i = 0; i < ROUND_MAX; i++) {
        m.msg_controllen = sizeof control;
        ssize_t len = recvmsg(n->fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        if (len < 0)
            break;
        well |= tn_notified_is_well(text, (size_t)len) && believed(n, &m, guard);
    }
    return well;
}
