/* Messages as frames.  wslay has one message at a time; the others wait in the queue. */
#include <gnutls/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "replica/link/inner.h"

#define WORTH_SENDING 16384u /* bytes: a record of TLS */
#define STEPS_MAX     256u   /* of writing to one peer, before others have their turn */

static ssize_t take_bytes(wslay_event_context_ptr ctx, uint8_t *bytes, size_t n, int flags,
                          void *arg)
{
    struct tn_peer *p = arg;

    (void)flags;
    if (p->in_at == p->in_end) {
        p->in_at = p->in_end = 0;
        p->more = p->turn == 0;
        ssize_t got = p->more ? 0 : tn_peer_fill(p);
        if (got <= 0) {
            wslay_event_set_error(ctx, got ? WSLAY_ERR_CALLBACK_FAILURE : WSLAY_ERR_WOULDBLOCK);
            return -1;
        }
        p->turn -= (size_t)got < p->turn ? (size_t)got : p->turn;
    }
    if (n > p->in_end - p->in_at)
        n = p->in_end - p->in_at;
    memcpy(bytes, p->in + p->in_at, n);
    p->in_at += n;
    return (ssize_t)n;
}

static ssize_t put_bytes(wslay_event_context_ptr ctx, const uint8_t *bytes, size_t n, int flags,
                         void *arg)
{
    struct tn_peer *p = arg;

    (void)flags;
    n = tn_peer_put(p, bytes, n);
    if (n > 0)
        return (ssize_t)n;
    wslay_event_set_error(ctx, p->state == TN_PEER_DEAD ? WSLAY_ERR_CALLBACK_FAILURE
                                                        : WSLAY_ERR_WOULDBLOCK);
    return -1;
}

static int make_mask(wslay_event_context_ptr ctx, uint8_t *mask, size_t n, void *arg)
{
    (void)arg;
    if (gnutls_rnd(GNUTLS_RND_NONCE, mask, n) == 0)
        return 0;
    wslay_event_set_error(ctx, WSLAY_ERR_CALLBACK_FAILURE);
    return -1;
}

static void take_goodbye(struct tn_peer *p, const struct wslay_event_on_msg_recv_arg *arg)
{
    char reason[126];
    size_t n = arg->msg_length > 2 ? arg->msg_length - 2 : 0;

    if (p->why[0])
        return;
    if (n)
        memcpy(reason, arg->msg + 2, n);
    reason[n] = '\0';
    tn_text_tame(reason, '?');
    snprintf(p->why, sizeof p->why, "the peer closed the connection (%u)%s%s",
             (unsigned)arg->status_code, n ? ": " : "", reason);
}

static void take_message(wslay_event_context_ptr ctx, const struct wslay_event_on_msg_recv_arg *arg,
                         void *user)
{
    struct tn_peer *p = user;
    struct tn_transport *t = p->transport;
    static const char text[] = "only binary messages are understood";

    if (arg->opcode == WSLAY_CONNECTION_CLOSE) {
        take_goodbye(p, arg);
    } else if (arg->opcode == WSLAY_TEXT_FRAME) {
        snprintf(p->why, sizeof p->why, "it sent text: %s", text);
        wslay_event_shutdown_read(ctx);
        wslay_event_queue_close(ctx, WSLAY_CODE_UNSUPPORTED_DATA, (const uint8_t *)text,
                                sizeof text - 1);
        p->goodbye = true;
    } else if (arg->opcode == WSLAY_BINARY_FRAME && !p->goodbye) {
        t->events->received(t->ctx, p, arg->msg, arg->msg_length);
    }
}

bool tn_frames_begin(struct tn_peer *p)
{
    static const struct wslay_event_callbacks calls = {.recv_callback = take_bytes,
                                                       .send_callback = put_bytes,
                                                       .genmask_callback = make_mask,
                                                       .on_msg_recv_callback = take_message};
    int code = p->target ? wslay_event_context_client_init(&p->frames, &calls, p)
                         : wslay_event_context_server_init(&p->frames, &calls, p);

    if (code)
        return false;
    wslay_event_config_set_max_recv_msg_length(p->frames, TN_MESSAGE_MAX);
    return true;
}

void tn_frames_free(struct tn_peer *p)
{
    if (p->frames)
        wslay_event_context_free(p->frames);
    p->frames = NULL;
    for (struct tn_queued *next, *q = p->queue; q; q = next) {
        next = q->next;
        free(q);
    }
}

void tn_frames_read(struct tn_peer *p)
{
    int code = wslay_event_recv(p->frames);

    if (p->state == TN_PEER_DEAD)
        return;
    if (code == WSLAY_ERR_NOMEM)
        tn_peer_end(p, "out of memory");
    if (!code || p->state == TN_PEER_DEAD)
        return;
    /* A closing frame is queued, and will be sent. */
    p->goodbye = true;
    if (!p->why[0])
        snprintf(p->why, sizeof p->why, "its frames cannot be understood");
}

/* Who has waited for room hears of it.  The lock is not held. */
static void account(struct tn_peer *p, size_t sent)
{
    struct tn_transport *t = p->transport;

    pthread_mutex_lock(&t->lock);
    p->queued -= sent;
    bool drained = p->full && p->queued <= TN_PEER_QUEUE_MAX / 2;
    if (drained)
        p->full = false;
    pthread_mutex_unlock(&t->lock);
    if (drained)
        t->events->drained(t->ctx, p);
}

static struct tn_queued *take_queued(struct tn_peer *p, bool *closing)
{
    struct tn_transport *t = p->transport;

    pthread_mutex_lock(&t->lock);
    struct tn_queued *q = p->queue;
    if (q && !(p->queue = q->next))
        p->queue_end = &p->queue;
    *closing = p->closing;
    pthread_mutex_unlock(&t->lock);
    return q;
}

/* The next message, or the closing frame behind the last one. */
static void feed(struct tn_peer *p)
{
    bool closing;
    struct tn_queued *q = take_queued(p, &closing);

    if (q) {
        struct wslay_event_msg msg = {WSLAY_BINARY_FRAME, q->bytes, q->size};
        int code = wslay_event_queue_msg(p->frames, &msg);

        p->under_way = q->size;
        free(q);
        if (code == WSLAY_ERR_NOMEM)
            tn_peer_end(p, "out of memory");
    } else if (closing && !p->goodbye) {
        size_t n = strnlen(p->closing_why, 120);

        p->goodbye = true;
        snprintf(p->why, sizeof p->why, "closed by this node: %s", p->closing_why);
        wslay_event_queue_close(p->frames, WSLAY_CODE_POLICY_VIOLATION,
                                (const uint8_t *)p->closing_why, n);
        wslay_event_shutdown_read(p->frames);
    }
}

/* One step of writing.  false: there is nothing to write, or it cannot be written now. */
static bool write_some(struct tn_peer *p)
{
    if (wslay_event_get_queued_msg_count(p->frames) == 0) {
        size_t sent = p->under_way;

        p->under_way = 0;
        if (sent)
            account(p, sent);
        feed(p);
    }
    if (p->state != TN_PEER_OPEN || !wslay_event_want_write(p->frames))
        return false;
    if (wslay_event_send(p->frames))
        tn_peer_end(p, "out of memory");
    return p->state == TN_PEER_OPEN && (p->out_end - p->out_at < WORTH_SENDING || tn_peer_flush(p));
}

void tn_frames_write(struct tn_peer *p)
{
    unsigned steps = 0;

    while (steps < STEPS_MAX && write_some(p))
        steps++;
    p->more = p->more || steps == STEPS_MAX;
    if (p->state != TN_PEER_OPEN)
        return;
    tn_peer_flush(p);
    if (p->state == TN_PEER_OPEN && p->out_at == p->out_end && !wslay_event_want_read(p->frames) &&
        !wslay_event_want_write(p->frames)) {
        if (!p->why[0] && wslay_event_get_status_code_sent(p->frames) == WSLAY_CODE_MESSAGE_TOO_BIG)
            snprintf(p->why, sizeof p->why,
                     "it sent a message of more than %u bytes: make its documents smaller",
                     TN_MESSAGE_MAX);
        if (wslay_event_get_close_received(p->frames))
            tn_peer_end(p, "the connection was closed");
        else
            tn_peer_linger(p);
    }
}

void tn_frames_ping(struct tn_peer *p)
{
    const struct wslay_event_msg ping = {.opcode = WSLAY_PING};

    wslay_event_queue_msg(p->frames, &ping);
}

bool tn_frames_want_read(const struct tn_peer *p)
{
    return wslay_event_get_read_enabled(p->frames);
}

bool tn_frames_want_write(struct tn_peer *p)
{
    return wslay_event_want_write(p->frames);
}

enum tenure_status tn_frames_send(struct tn_peer *p, const void *bytes, size_t size)
{
    struct tn_transport *t = p->transport;
    enum tenure_status status = TENURE_OK;

    if (size == 0 || size > TN_MESSAGE_MAX)
        return TENURE_INVALID;
    struct tn_queued *q = malloc(sizeof *q + size);
    if (!q)
        return TENURE_NOMEM;
    q->next = NULL;
    q->size = size;
    memcpy(q->bytes, bytes, size);
    pthread_mutex_lock(&t->lock);
    if (p->ended || p->closing) {
        status = TENURE_CANCELLED;
    } else if (p->queued && p->queued + size > TN_PEER_QUEUE_MAX) {
        p->full = true;
        status = TENURE_UNAVAILABLE;
    } else {
        *p->queue_end = q;
        p->queue_end = &q->next;
        p->queued += size;
    }
    pthread_mutex_unlock(&t->lock);
    if (status)
        free(q);
    else
        tn_transport_wake(t);
    return status;
}
