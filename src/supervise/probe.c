#include "supervise/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define NEVER (INT64_MAX / 2)

/* ---- What to ask --------------------------------------------------------- */

/* "host:port", "[::1]:port" */
static enum tenure_status resolve(struct tn_probe *p, const char *text, size_t len,
                                  struct tenure_error *err)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV}, *found;
    char copy[160];

    snprintf(copy, sizeof copy, "%.*s", (int)len, text);
    snprintf(p->host, sizeof p->host, "%.127s", copy);
    char *colon = strrchr(copy, ':');
    if (!colon || len >= sizeof copy || colon == copy)
        return tenure_fail(err, TENURE_CONFIG, "probe: '%s' needs a host and a port", copy);
    *colon = '\0';
    char *host = copy;
    if (*host == '[' && colon[-1] == ']') {
        host++;
        colon[-1] = '\0';
    }
    int failed = getaddrinfo(host, colon + 1, &hints, &found);
    if (failed)
        return tenure_fail(err, TENURE_CONFIG, "probe: %s: %s", p->host, gai_strerror(failed));
    for (struct addrinfo *a = found; a && p->address_count < TN_PROBE_ADDRESSES; a = a->ai_next)
        memcpy(&p->addresses[p->address_count++], a->ai_addr, a->ai_addrlen);
    freeaddrinfo(found);
    return TENURE_OK;
}

enum tenure_status tn_probe_open(struct tn_probe *p, const struct tn_probe_options *o,
                                 struct tenure_error *err)
{
    const char *spec = o->spec;

    memset(p, 0, sizeof *p);
    p->o = *o;
    p->fd = -1;
    p->next_ns = NEVER;
    if (!spec)
        return TENURE_OK;
    if (strncmp(spec, "exec:", 5) == 0 && spec[5]) {
        p->kind = TN_PROBE_EXEC;
        p->command = spec + 5;
        return TENURE_OK;
    }
    if (strcmp(spec, "notify") == 0) {
        p->kind = TN_PROBE_NOTIFY;
        return TENURE_OK;
    }
    if (strncmp(spec, "tcp:", 4) == 0) {
        p->kind = TN_PROBE_TCP;
        return resolve(p, spec + 4, strlen(spec + 4), err);
    }
    if (strncmp(spec, "http://", 7) == 0) {
        size_t len = strcspn(spec + 7, "/");

        p->kind = TN_PROBE_HTTP;
        snprintf(p->path, sizeof p->path, "%s", spec[7 + len] ? spec + 7 + len : "/");
        return resolve(p, spec + 7, len, err);
    }
    return tenure_fail(err, TENURE_CONFIG,
                       "probe '%.60s': give exec:COMMAND, http://HOST:PORT/PATH, tcp:HOST:PORT or "
                       "notify",
                       spec);
}

/* ---- Asking -------------------------------------------------------------- */

static void hang_up(struct tn_probe *p)
{
    if (p->fd >= 0)
        close(p->fd);
    p->fd = -1;
    p->asking = p->sent = false;
}

void tn_probe_switch(struct tn_probe *p, bool on, int64_t now)
{
    hang_up(p);
    p->on = on && p->kind != TN_PROBE_NONE;
    p->failures = 0;
    p->failed = p->trusted = false;
    p->next_ns = p->on ? now + p->o.delay_ns : NEVER;
    /* The first word is due when the delay is over and the time for one has passed. */
    if (p->on && p->kind == TN_PROBE_NOTIFY)
        p->next_ns += p->o.timeout_ns;
}

void tn_probe_result(struct tn_probe *p, bool well, int64_t now)
{
    hang_up(p);
    if (!p->on)
        return;
    p->good += well;
    p->bad += !well;
    p->trusted |= well;
    p->failures = well ? 0 : p->failures + 1;
    p->failed = p->failures >= p->o.threshold;
    p->next_ns = now + (p->kind == TN_PROBE_NOTIFY ? p->o.timeout_ns : p->o.interval_ns);
}

/* "localhost" has two addresses, and a program may listen on the second only. */
static bool dial_from(struct tn_probe *p, unsigned first)
{
    hang_up(p);
    for (p->address_at = first; p->address_at < p->address_count; p->address_at++) {
        const struct sockaddr_storage *to = &p->addresses[p->address_at];

        p->fd = socket(to->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (p->fd >= 0 && (connect(p->fd, (const struct sockaddr *)to, sizeof *to) == 0 ||
                           errno == EINPROGRESS)) {
            p->asking = true;
            return true;
        }
        hang_up(p);
    }
    return false;
}

bool tn_probe_time(struct tn_probe *p, int64_t now)
{
    if (!p->on || now < p->next_ns)
        return false;
    if (p->asking || p->kind == TN_PROBE_NOTIFY) {
        tn_probe_result(p, false, now); /* no answer in time */
        return false;
    }
    if (p->kind == TN_PROBE_EXEC) {
        p->asking = true;
        p->next_ns = NEVER; /* the command's own limit ends it, and that is a result */
        return true;
    }
    if (dial_from(p, 0))
        p->next_ns = now + p->o.timeout_ns;
    else
        tn_probe_result(p, false, now);
    return false;
}

static void take_answer(struct tn_probe *p, int64_t now)
{
    char text[256];
    ssize_t n = recv(p->fd, text, sizeof text - 1, 0);
    int code = 0;

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    text[n > 0 ? n : 0] = '\0';
    /* "HTTP/1.1 200 OK": the first bytes of an answer come together. */
    if (sscanf(text, "HTTP/%*d.%*d %d", &code) != 1)
        code = 0;
    tn_probe_result(p, code >= 200 && code < 400, now);
}

void tn_probe_ready(struct tn_probe *p, int64_t now)
{
    char text[512];
    int error = 0;
    socklen_t size = sizeof error;

    if (p->fd < 0)
        return;
    if (p->sent) {
        take_answer(p, now);
        return;
    }
    getsockopt(p->fd, SOL_SOCKET, SO_ERROR, &error, &size);
    if (error && dial_from(p, p->address_at + 1))
        return;
    if (error || p->kind == TN_PROBE_TCP) {
        tn_probe_result(p, error == 0, now);
        return;
    }
    int len = snprintf(text, sizeof text,
                       "GET %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: tenure\r\nConnection: "
                       "close\r\n\r\n",
                       p->path, p->host);
    if (send(p->fd, text, (size_t)len, MSG_NOSIGNAL) != len)
        tn_probe_result(p, false, now);
    else
        p->sent = true;
}

int tn_probe_fd(const struct tn_probe *p, short *events)
{
    *events = p->sent ? POLLIN : POLLOUT;
    return p->fd;
}

int64_t tn_probe_due(const struct tn_probe *p)
{
    return p->on ? p->next_ns : NEVER;
}
