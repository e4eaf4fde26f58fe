/* One connection: its states, its bytes, its times. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "replica/link/inner.h"

/* ---- Beginning and end ------------------------------------------------------ */

struct tn_peer *tn_peer_new(struct tn_transport *t, int fd, struct tn_target *target,
                            const char *address)
{
    struct tn_peer *p = calloc(1, sizeof *p);
    uint8_t *buffers = malloc((size_t)2 * TN_LINK_BUFFER);
    int on = 1;

    if (!p || !buffers) {
        free(p);
        free(buffers);
        close(fd);
        return NULL;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    p->transport = t;
    p->fd = fd;
    p->target = target;
    p->in = buffers;
    p->out = buffers + TN_LINK_BUFFER;
    p->queue_end = &p->queue;
    p->who.outbound = target != NULL;
    snprintf(p->who.address, sizeof p->who.address, "%s", address);
    p->deadline_ns = tenure_now() + TN_LINK_HANDSHAKE_NS;
    p->next = t->peers;
    t->peers = p;
    p->state = TN_PEER_CONNECTING;
    struct epoll_event event = {.events = p->events = EPOLLOUT, .data.ptr = p};
    if (epoll_ctl(t->poll_fd, EPOLL_CTL_ADD, fd, &event) != 0)
        tn_peer_end(p, "cannot wait for it: %s", strerror(errno));
    return p;
}

void tn_peer_free(struct tn_peer *p)
{
    tn_tls_end(p);
    tn_frames_free(p);
    free(p->in);
    free(p);
}

void tn_peer_end(struct tn_peer *p, const char *format, ...)
{
    struct tn_transport *t = p->transport;
    va_list args;

    if (p->state == TN_PEER_DEAD)
        return;
    if (!p->why[0]) {
        va_start(args, format);
        vsnprintf(p->why, sizeof p->why, format, args);
        va_end(args);
    }
    p->state = TN_PEER_DEAD;
    p->more = false;
    close(p->fd); /* which takes it out of the poll set */
    p->fd = -1;
    pthread_mutex_lock(&t->lock);
    p->ended = true;
    pthread_mutex_unlock(&t->lock);
    if (p->opened_ns)
        t->events->closed(t->ctx, p, p->why);
    else
        tn_transport_failed(t, p->target, p->who.address, p->why);
}

void tn_peer_linger(struct tn_peer *p)
{
    if (p->state == TN_PEER_DEAD)
        return;
    p->state = TN_PEER_LINGERING;
    p->more = true;
    p->deadline_ns = tenure_now() + TN_LINK_GOODBYE_NS;
}

/* ---- Bytes ------------------------------------------------------------------ */

static void lost(struct tn_peer *p, int code)
{
    char why[TN_LINK_WHY_MAX];

    if (!p->tls) {
        tn_peer_end(p, "the connection was lost: %s", code ? strerror(code) : "closed by the peer");
    } else if (code == GNUTLS_E_PREMATURE_TERMINATION || code == 0 || code == GNUTLS_E_PULL_ERROR ||
               code == GNUTLS_E_PUSH_ERROR) {
        tn_peer_end(p, "the connection was lost: closed by the peer");
    } else {
        tn_tls_fault(p, code, why);
        tn_peer_end(p, "%s", why);
    }
}

ssize_t tn_peer_fill(struct tn_peer *p)
{
    uint8_t *to = p->in + p->in_end;
    size_t room = TN_LINK_BUFFER - p->in_end;
    ssize_t n;

    if (p->tls) {
        n = gnutls_record_recv(p->tls, to, room);
        if (n == GNUTLS_E_AGAIN || n == GNUTLS_E_INTERRUPTED)
            return 0;
        if (n <= 0 && (n == 0 || gnutls_error_is_fatal((int)n))) {
            lost(p, (int)n);
            return -1;
        }
        if (n < 0)
            return 0;
        p->more = p->more || gnutls_record_check_pending(p->tls) > 0;
    } else {
        n = recv(p->fd, to, room, 0);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return 0;
        if (n <= 0) {
            lost(p, n ? errno : 0);
            return -1;
        }
    }
    p->in_end += (size_t)n;
    p->heard_ns = tenure_now();
    return n;
}

bool tn_peer_flush(struct tn_peer *p)
{
    while (p->state != TN_PEER_DEAD && p->out_at < p->out_end) {
        size_t size = p->out_end - p->out_at;
        ssize_t n = p->tls ? gnutls_record_send(p->tls, p->tls_retry ? NULL : p->out + p->out_at,
                                                p->tls_retry ? 0 : size)
                           : send(p->fd, p->out + p->out_at, size, MSG_NOSIGNAL);

        p->tls_retry = p->tls && (n == GNUTLS_E_AGAIN || n == GNUTLS_E_INTERRUPTED);
        if (p->tls_retry || (!p->tls && n < 0 && (errno == EAGAIN || errno == EINTR)))
            return false;
        if (n < 0) {
            lost(p, p->tls ? (int)n : errno);
            return false;
        }
        p->out_at += (size_t)n;
    }
    p->out_at = p->out_end = 0;
    return p->state != TN_PEER_DEAD;
}

size_t tn_peer_put(struct tn_peer *p, const void *bytes, size_t n)
{
    if (p->out_end == TN_LINK_BUFFER)
        tn_peer_flush(p);
    /* GnuTLS has read what it holds back: behind it there is room only once all is sent. */
    size_t room = p->state == TN_PEER_DEAD ? 0 : TN_LINK_BUFFER - p->out_end;
    if (n > room)
        n = room;
    memcpy(p->out + p->out_end, bytes, n);
    p->out_end += n;
    return n;
}

/* ---- States ----------------------------------------------------------------- */

void tn_peer_opened(struct tn_peer *p)
{
    struct tn_transport *t = p->transport;

    if (!tn_frames_begin(p)) {
        tn_peer_end(p, "out of memory");
        return;
    }
    p->state = TN_PEER_OPEN;
    p->deadline_ns = TN_NEVER;
    p->opened_ns = p->heard_ns = tenure_now();
    p->ping_ns = p->opened_ns + t->conf.silence_ns / 3;
    p->more = p->in_at < p->in_end;
    if (p->target)
        p->target->told[0] = '\0';
    t->events->opened(t->ctx, p, &p->who);
}

static void begin_request(struct tn_peer *p)
{
    p->state = TN_PEER_REQUEST;
    if (p->target) {
        tn_handshake_ask(p);
        tn_peer_flush(p);
    }
}

static void continue_tls(struct tn_peer *p)
{
    char why[TN_LINK_WHY_MAX];
    int code = gnutls_handshake(p->tls);

    if (code == 0) {
        begin_request(p);
    } else if (gnutls_error_is_fatal(code)) {
        tn_tls_fault(p, code, why);
        gnutls_alert_send_appropriate(p->tls, code);
        tn_peer_end(p, "%s", why);
    }
}

/* The socket is connected. */
static void begin(struct tn_peer *p)
{
    const struct tn_transport_conf *conf = &p->transport->conf;
    int code = 0;
    socklen_t size = sizeof code;

    getsockopt(p->fd, SOL_SOCKET, SO_ERROR, &code, &size);
    if (code) {
        tn_peer_end(p, "cannot connect: %s", strerror(code));
    } else if (p->target ? tn_tls_outbound(conf) : tn_tls_inbound(conf)) {
        p->state = TN_PEER_TLS;
        tn_tls_begin(p);
        if (p->state == TN_PEER_TLS)
            continue_tls(p);
    } else {
        begin_request(p);
    }
}

static void discard(struct tn_peer *p)
{
    p->in_at = p->in_end = 0;
    if (tn_peer_fill(p) > 0)
        p->in_end = 0;
}

static void linger(struct tn_peer *p, bool readable)
{
    if (!p->shut && tn_peer_flush(p)) {
        shutdown(p->fd, SHUT_WR);
        p->shut = true;
    }
    if (readable && p->state == TN_PEER_LINGERING)
        discard(p);
}

static void advance(struct tn_peer *p, bool readable)
{
    p->more = false;
    switch (p->state) {
    case TN_PEER_CONNECTING:
        begin(p);
        break;
    case TN_PEER_TLS:
        continue_tls(p);
        break;
    case TN_PEER_REQUEST:
        tn_peer_flush(p);
        if (readable && p->state == TN_PEER_REQUEST)
            tn_handshake_read(p);
        break;
    case TN_PEER_OPEN:
        p->turn = TN_LINK_TURN_BYTES;
        if (readable && tn_frames_want_read(p))
            tn_frames_read(p);
        if (p->state == TN_PEER_OPEN)
            tn_frames_write(p);
        break;
    case TN_PEER_LINGERING:
        linger(p, readable);
        break;
    case TN_PEER_DEAD:
        break;
    }
}

/* What the poll set waits for. */
static void set_events(struct tn_peer *p)
{
    uint32_t events = EPOLLIN;

    if (p->state == TN_PEER_DEAD)
        return;
    if (p->state == TN_PEER_CONNECTING ||
        (p->state == TN_PEER_TLS && gnutls_record_get_direction(p->tls)))
        events = EPOLLOUT;
    if (p->out_at < p->out_end || (p->state == TN_PEER_OPEN && tn_frames_want_write(p)))
        events |= EPOLLOUT;
    if (p->state == TN_PEER_OPEN && !tn_frames_want_read(p))
        events &= ~(uint32_t)EPOLLIN;
    if (events == p->events)
        return;
    struct epoll_event event = {.events = p->events = events, .data.ptr = p};
    if (epoll_ctl(p->transport->poll_fd, EPOLL_CTL_MOD, p->fd, &event) != 0)
        tn_peer_end(p, "cannot wait for it: %s", strerror(errno));
}

void tn_peer_ready(struct tn_peer *p, uint32_t events)
{
    if (p->state == TN_PEER_DEAD)
        return;
    advance(p, events & (EPOLLIN | EPOLLHUP | EPOLLERR));
    /* Nothing is read any more, and nothing can be written. */
    if (p->state == TN_PEER_OPEN && (events & (EPOLLHUP | EPOLLERR)) && !tn_frames_want_read(p))
        tn_peer_end(p, "the connection was lost");
    set_events(p);
}

/* ---- Times ------------------------------------------------------------------ */

void tn_peer_turn(struct tn_peer *p, int64_t now)
{
    int64_t silence = p->transport->conf.silence_ns;

    if (p->state == TN_PEER_DEAD)
        return;
    pthread_mutex_lock(&p->transport->lock);
    bool closing = p->closing;
    pthread_mutex_unlock(&p->transport->lock);
    if (closing && p->deadline_ns == TN_NEVER)
        p->deadline_ns = now + TN_LINK_GOODBYE_NS;
    if (now >= p->deadline_ns && p->state != TN_PEER_OPEN && p->state != TN_PEER_LINGERING)
        tn_peer_end(p, "the handshake took longer than %d s: is the peer stopped or overloaded?",
                    (int)(TN_LINK_HANDSHAKE_NS / 1000000000));
    else if (now >= p->deadline_ns)
        tn_peer_end(p, "the peer did not read the last message");
    else if (p->state == TN_PEER_OPEN && now - p->heard_ns >= silence)
        tn_peer_end(p, "nothing was heard of it for %.1f s", (double)silence / 1e9);
    if (p->state == TN_PEER_OPEN && now >= p->ping_ns) {
        tn_frames_ping(p);
        p->ping_ns = now + silence / 3;
    }
    if (p->state == TN_PEER_OPEN || p->more)
        advance(p, p->more);
    set_events(p);
}

int64_t tn_peer_next(const struct tn_peer *p)
{
    int64_t next = p->deadline_ns;

    if (p->more)
        return 0;
    if (p->state == TN_PEER_OPEN) {
        int64_t silent = p->heard_ns + p->transport->conf.silence_ns;

        next = silent < next ? silent : next;
        next = p->ping_ns < next ? p->ping_ns : next;
    }
    return next;
}
