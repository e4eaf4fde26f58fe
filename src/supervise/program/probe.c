#include "supervise/program/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tenure/store.h"

/* ---- What to ask --------------------------------------------------------- */

/* "host:port", "[::1]:port" */
static enum tenure_status resolve(struct tn_probe_target *p, const char *text, size_t len,
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

enum tenure_status tn_probe_parse(struct tn_probe_target *p, const struct tn_probe_options *o,
                                  struct tenure_error *err)
{
    const char *spec = o->spec;

    memset(p, 0, sizeof *p);
    p->o = *o;
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
    if (p->watch.fd >= 0)
        close(p->watch.fd);
    tn_watch_set(&p->watch, -1, 0);
    p->asking = p->sent = false;
}

void tn_probe_switch(struct tn_probe *p, bool on, int64_t now)
{
    hang_up(p);
    p->on = on && p->to.kind != TN_PROBE_NONE;
    p->failures = 0;
    p->failed = p->trusted = false;
    p->timer.at_ns = p->on ? now + p->to.o.delay_ns : TN_NEVER;
    /* The first word is due when the delay is over and the time for one has passed. */
    if (p->on && p->to.kind == TN_PROBE_NOTIFY)
        p->timer.at_ns += p->to.o.timeout_ns;
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
    p->failed = p->failures >= p->to.o.threshold;
    p->timer.at_ns =
        now + (p->to.kind == TN_PROBE_NOTIFY ? p->to.o.timeout_ns : p->to.o.interval_ns);
}

/* "localhost" has two addresses, and a program may listen on the second only. */
static bool dial_from(struct tn_probe *p, unsigned first)
{
    hang_up(p);
    for (p->address_at = first; p->address_at < p->to.address_count; p->address_at++) {
        const struct sockaddr_storage *to = &p->to.addresses[p->address_at];

        int fd = socket(to->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        tn_watch_set(&p->watch, fd, POLLOUT);
        if (fd >= 0 &&
            (connect(fd, (const struct sockaddr *)to, sizeof *to) == 0 || errno == EINPROGRESS)) {
            p->asking = true;
            return true;
        }
        hang_up(p);
    }
    return false;
}

bool tn_probe_time(struct tn_probe *p, int64_t now)
{
    if (!p->on)
        return false;
    if (p->asking || p->to.kind == TN_PROBE_NOTIFY) {
        tn_probe_result(p, false, now); /* no answer in time */
        return false;
    }
    if (p->to.kind == TN_PROBE_EXEC) {
        p->asking = true;
        p->timer.at_ns = TN_NEVER; /* the command's own limit ends it, and that is a result */
        return true;
    }
    if (dial_from(p, 0))
        p->timer.at_ns = now + p->to.o.timeout_ns;
    else
        tn_probe_result(p, false, now);
    return false;
}

static void take_answer(struct tn_probe *p, int64_t now)
{
    char text[256];
    ssize_t n = recv(p->watch.fd, text, sizeof text - 1, 0);
    int code = 0;

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    text[n > 0 ? n : 0] = '\0';
    /* "HTTP/1.1 200 OK": the first bytes of an answer come together. */
    if (sscanf(text, "HTTP/%*d.%*d %d", &code) != 1)
        code = 0;
    tn_probe_result(p, code >= 200 && code < 400, now);
}

static void on_ready(void *arg, short events)
{
    struct tn_probe *p = arg;
    int64_t now = tenure_now();
    char text[512];
    int error = 0;
    socklen_t size = sizeof error;

    (void)events;
    if (p->sent) {
        take_answer(p, now);
        return;
    }
    getsockopt(p->watch.fd, SOL_SOCKET, SO_ERROR, &error, &size);
    if (error && dial_from(p, p->address_at + 1))
        return;
    if (error || p->to.kind == TN_PROBE_TCP) {
        tn_probe_result(p, error == 0, now);
        return;
    }
    int len = snprintf(text, sizeof text,
                       "GET %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: tenure\r\nConnection: "
                       "close\r\n\r\n",
                       p->to.path, p->to.host);
    if (send(p->watch.fd, text, (size_t)len, MSG_NOSIGNAL) != len) {
        tn_probe_result(p, false, now);
        return;
    }
    p->sent = true;
    tn_watch_set(&p->watch, p->watch.fd, POLLIN);
}

void tn_probe_open(struct tn_probe *p, const struct tn_probe_target *to, struct tn_loop *loop,
                   void (*due)(void *arg, int64_t now_ns), void *arg)
{
    *p = (struct tn_probe){.to = *to};
    tn_loop_watch(loop, &p->watch, -1, on_ready, p);
    tn_loop_timer(loop, &p->timer, due, arg);
}
