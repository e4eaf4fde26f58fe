#include "supervise/program/notify.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

void tn_notify_open(struct tn_notify *n, const char *path, const char *usec)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};

    n->fd = -1;
    n->watchdog_ns = 0;
    if (!path || (path[0] != '/' && path[0] != '@') || strlen(path) >= sizeof to.sun_path)
        return;
    memcpy(to.sun_path, path, strlen(path));
    socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path));
    if (path[0] == '@')
        to.sun_path[0] = '\0'; /* a name without a file */
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, len) != 0) {
        if (fd >= 0)
            close(fd);
        return;
    }
    n->fd = fd;
    /* Twice as often as wanted, as sd_watchdog_enabled(3) advises. */
    long long us = usec ? atoll(usec) : 0;
    if (us > 0 && us < 86400000000LL)
        n->watchdog_ns = us * 1000 / 2;
}

void tn_notify(const struct tn_notify *n, const char *format, ...)
{
    char text[512];
    va_list args;

    if (n->fd < 0)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (send(n->fd, text, strlen(text), MSG_NOSIGNAL) < 0)
        return; /* a courtesy, not a condition */
}

void tn_notify_close(struct tn_notify *n)
{
    if (n->fd >= 0)
        close(n->fd);
    n->fd = -1;
}
