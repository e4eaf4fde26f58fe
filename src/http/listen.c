#include "http/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* A socket file that nobody answers on is left over from a crash.  (A connection
 * to a file that is no socket is refused as well; that one is not ours to remove.) */
static bool abandoned(const struct sockaddr_un *addr)
{
    struct stat st;

    if (lstat(addr->sun_path, &st) != 0 || !S_ISSOCK(st.st_mode))
        return false;
    /* Not blocking: whoever has it may be stopped, with others waiting before us. */
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool dead = fd >= 0 && connect(fd, (const struct sockaddr *)addr, sizeof *addr) != 0 &&
                errno == ECONNREFUSED;

    if (fd >= 0)
        close(fd);
    return dead;
}

static enum tenure_status listen_unix(const char *path, struct tn_listener *out,
                                      struct tenure_error *err)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    struct stat st = {0};

    if (path[0] != '/' || strlen(path) >= sizeof addr.sun_path)
        return tenure_fail(err, TENURE_CONFIG,
                           "'unix:%.120s' is not an address: give an absolute path of at most %zu "
                           "bytes",
                           path, sizeof addr.sun_path - 1);
    memcpy(addr.sun_path, path, strlen(path) + 1);
    if (abandoned(&addr))
        unlink(path);
    /* Not blocking: a client may be gone again before it is accepted. */
    out->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (out->fd < 0)
        return tenure_fail(err, TENURE_UNAVAILABLE, "no socket: %s", strerror(errno));
    /* The mode of an unbound socket is that of the file which bind() makes. */
    if (fchmod(out->fd, 0600) != 0 || bind(out->fd, (struct sockaddr *)&addr, sizeof addr) != 0 ||
        listen(out->fd, 128) != 0) {
        enum tenure_status status =
            tenure_fail(err, TENURE_UNAVAILABLE, "cannot listen on %s: %s", path, strerror(errno));
        close(out->fd);
        return status;
    }
    out->local = true;
    memcpy(out->path, path, strlen(path) + 1);
    if (lstat(path, &st) == 0) {
        out->device = st.st_dev;
        out->inode = st.st_ino;
    }
    return TENURE_OK;
}

void tn_listen_remove(const struct tn_listener *l)
{
    struct stat st;

    if (l->path[0] && lstat(l->path, &st) == 0 && st.st_dev == l->device && st.st_ino == l->inode)
        unlink(l->path);
}

static enum tenure_status split(const char *address, char *host, size_t size, const char **port,
                                struct tenure_error *err)
{
    const char *colon = strrchr(address, ':');
    const char *from = address;
    char *end;

    if (!colon || strtoul(colon + 1, &end, 10) > 65535 || *end || end == colon + 1)
        goto bad;
    size_t n = (size_t)(colon - address);
    if (n >= 2 && address[0] == '[' && address[n - 1] == ']') {
        from++;
        n -= 2;
    }
    if (n == 0 || n >= size)
        goto bad;
    memcpy(host, from, n);
    host[n] = '\0';
    *port = colon + 1;
    return TENURE_OK;
bad:
    return tenure_fail(err, TENURE_CONFIG,
                       "'%.100s' is not an address to listen on: write 127.0.0.1:8080, [::1]:8080 "
                       "or unix:/path",
                       address);
}

static uint16_t port_of(int fd)
{
    struct sockaddr_storage addr;
    socklen_t len = sizeof addr;

    if (getsockname(fd, (struct sockaddr *)&addr, &len) != 0)
        return 0;
    return addr.ss_family == AF_INET6 ? ntohs(((struct sockaddr_in6 *)&addr)->sin6_port)
                                      : ntohs(((struct sockaddr_in *)&addr)->sin_port);
}

enum tenure_status tn_listen(const char *address, struct tn_listener *out, struct tenure_error *err)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *found = NULL;
    struct tn_listener l = {.fd = -1};
    char host[256];
    const char *port = NULL;
    enum tenure_status status;
    int on = 1, code;

    if (strncmp(address, "unix:", 5) == 0) {
        status = listen_unix(address + 5, &l, err);
        if (!status)
            *out = l;
        return status;
    }
    status = split(address, host, sizeof host, &port, err);
    if (status)
        return status;
    code = getaddrinfo(host, port, &hints, &found);
    if (code != 0)
        return tenure_fail(err, TENURE_CONFIG, "cannot listen on %s: %s", address,
                           gai_strerror(code));
    l.fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (l.fd < 0 || setsockopt(l.fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        bind(l.fd, found->ai_addr, found->ai_addrlen) != 0 || listen(l.fd, 511) != 0) {
        status = tenure_fail(err, TENURE_UNAVAILABLE, "cannot listen on %s: %s", address,
                             strerror(errno));
        if (l.fd >= 0)
            close(l.fd);
    } else {
        l.port = port_of(l.fd);
        *out = l;
    }
    freeaddrinfo(found);
    return status;
}

bool tn_listen_peer_is_ours(int fd, uint32_t user)
{
    struct ucred peer;
    socklen_t len = sizeof peer;

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 &&
           (peer.uid == 0 || peer.uid == geteuid() || peer.uid == user);
}

void tn_listen_peer(int fd, char *out, size_t size)
{
    struct sockaddr_storage addr = {0};
    socklen_t len = sizeof addr, cred_len;
    struct ucred cred;
    char host[INET6_ADDRSTRLEN + 1 + 16], port[8]; /* with the scope of a link-local address */

    snprintf(out, size, "an unknown peer");
    if (getpeername(fd, (struct sockaddr *)&addr, &len) != 0)
        return;
    cred_len = sizeof cred;
    if (addr.ss_family == AF_UNIX) {
        if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &cred_len) == 0)
            snprintf(out, size, "uid %u, pid %d", (unsigned)cred.uid, (int)cred.pid);
        return;
    }
    if (getnameinfo((struct sockaddr *)&addr, len, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) == 0)
        snprintf(out, size, addr.ss_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host, port);
}
