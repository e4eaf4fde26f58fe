/* Requests on a connection, and their answers. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "os/poll.h"
#include "store/nats/nats.h"
#include "store/patience.h"

/* ---- The loop ------------------------------------------------------------ */

void tn_nats_drop(struct tn_nats *h)
{
    struct tn_nats_link *link = h->link;

    if (!link)
        return;
    tn_watcher_drop(&h->watcher); /* whose subscriptions are this connection's */
    h->link = NULL;
    natsSubscription_Destroy(h->inbox);
    h->inbox = NULL;
    tn_nats_link_free(link);
}

/* An answer, to whoever still waits for it. */
static void take_answer(struct tn_nats *h, natsMsg *msg)
{
    const char *dot = strrchr(natsMsg_GetSubject(msg), '.');
    unsigned long long id = dot ? strtoull(dot + 1, NULL, 16) : 0;

    for (size_t i = 0; i < h->n_calls; i++) {
        struct tn_nats_call *call = &h->calls[i];

        if (call->id == id && !call->done) {
            call->done = true;
            call->answer = msg;
            return;
        }
    }
    natsMsg_Destroy(msg);
}

static bool take_answers(struct tn_nats *h)
{
    natsMsg *msg = NULL;
    bool some = false;

    while (natsSubscription_NextMsg(&msg, h->inbox, 0) == NATS_OK) {
        take_answer(h, msg);
        some = true;
    }
    return some;
}

/* A request that the user may not make is not answered, but told on the side, with its subject in
 * quotes.  With our inbox there it may have been carried out, and only its answer does not come. */
static void take_denials(struct tn_nats *h)
{
    const char *text = NULL, *quote;

    if (natsConnection_GetLastError(tn_nats_link_connection(h->link), &text) !=
            NATS_NOT_PERMITTED ||
        !text)
        return;
    quote = strchr(text, '"');
    for (size_t i = 0; i < h->n_calls; i++) {
        struct tn_nats_call *call = &h->calls[i];
        size_t n = strlen(call->subject);
        bool own = quote && strncasecmp(quote + 1, call->subject, n) == 0 && quote[1 + n] == '"';

        if (!call->done && (own || strstr(text, h->inbox_name))) {
            call->done = true;
            call->deaf = !own;
            call->failed = TENURE_DENIED;
        }
    }
}

static enum tenure_status lose(struct tn_nats *h, struct tenure_error *err)
{
    tn_nats_drop(h);
    return tn_nats_fail(h, TENURE_UNAVAILABLE, err, "the server ended the connection");
}

enum tenure_status tn_nats_turn(struct tn_nats *h, int64_t until, struct tenure_error *err)
{
    natsConnection *connection = tn_nats_link_connection(h->link);
    struct pollfd both[2] = {{.fd = tn_nats_link_fd(h->link), .events = POLLIN},
                             {.fd = h->cancel_fd, .events = POLLIN}};
    int ready;

    tn_nats_link_write(h->link);
    if (natsConnection_IsClosed(connection))
        return lose(h, err);
    if (tn_nats_link_wants_write(h->link))
        both[0].events |= POLLOUT;
    ready = until <= tenure_now() ? poll(both, 2, 0) : tn_poll(both, 2, until);
    if (ready < 0 && errno != EINTR)
        return tenure_fail(err, TENURE_UNAVAILABLE, "poll: %s", strerror(errno));
    if (ready > 0 && both[0].revents & (POLLIN | POLLHUP | POLLERR))
        tn_nats_link_read(h->link);
    if (natsConnection_IsClosed(connection)) {
        take_answers(h);
        return lose(h, err);
    }
    tn_nats_link_write(h->link);
    take_answers(h);
    take_denials(h);
    if (ready > 0 && both[1].revents)
        return tenure_fail(err, TENURE_CANCELLED, "cancelled by the caller");
    if (ready <= 0 && tenure_now() >= until)
        return tn_nats_fail(h, TENURE_TIMEOUT, err, "the server did not answer in time");
    return TENURE_OK;
}

/* ---- Connecting ---------------------------------------------------------- */

static enum tenure_status listen_for_answers(struct tn_nats *h, struct tenure_error *err)
{
    natsConnection *connection = tn_nats_link_connection(h->link);
    uint8_t nonce[TENURE_NONCE_SIZE];
    char hex[TN_NONCE_HEX + 1], subject[sizeof h->inbox_name + 4];

    if (tenure_nonce(nonce, err))
        return err->code;
    tn_hex_encode(nonce, sizeof nonce, hex);
    snprintf(h->inbox_name, sizeof h->inbox_name, "_INBOX.%s", hex);
    snprintf(subject, sizeof subject, "%s.*", h->inbox_name);
    if (natsConnection_SubscribeSync(&h->inbox, connection, subject) != NATS_OK ||
        natsSubscription_SetPendingLimits(h->inbox, -1, -1) != NATS_OK)
        return tn_nats_fail(h, TENURE_UNAVAILABLE, err, "answers cannot be subscribed to");
    return TENURE_OK;
}

/* What arrived since the last call is taken in first: the connection may have ended meanwhile. */
static bool is_alive(struct tn_nats *h)
{
    struct tenure_error ignored;
    int cancel_fd = h->cancel_fd;
    enum tenure_status status = TENURE_OK;

    h->cancel_fd = -1;
    while (h->link && !status)
        status = tn_nats_turn(h, 0, &ignored);
    h->cancel_fd = cancel_fd;
    return h->link != NULL;
}

static void choose_next_server(struct tn_nats *h)
{
    h->at = (h->at + 1) % h->conf.n_hosts;
}

enum tenure_status tn_nats_connect(struct tn_nats *h, int64_t deadline, struct tenure_error *err)
{
    enum tenure_status status = TENURE_OK;

    if (is_alive(h))
        return TENURE_OK;
    for (unsigned left = h->conf.n_hosts; left; left--) {
        int64_t by = tn_attempt_until(deadline, left, left);

        if (tenure_now() >= deadline)
            return tn_nats_fail(h, TENURE_TIMEOUT, err, "no time was left to connect");
        status = tn_nats_dial(h, by, err);
        if (!status)
            status = listen_for_answers(h, err);
        if (!status)
            status = tn_nats_open_bucket(h, by, err);
        if (!status)
            break;
        tn_nats_drop(h); /* also if cancelled: nobody has looked at the bucket */
        if (status != TENURE_UNAVAILABLE && status != TENURE_TIMEOUT)
            break;
        choose_next_server(h);
    }
    return status;
}

/* ---- Calls --------------------------------------------------------------- */

void tn_nats_begin(struct tn_nats *h, struct tn_nats_call *calls, size_t n)
{
    h->calls = calls;
    h->n_calls = n;
}

void tn_nats_send(struct tn_nats *h, struct tn_nats_call *call, const char *subject,
                  const char *expect, const void *data, size_t len)
{
    char reply[sizeof h->inbox_name + 24];
    natsMsg *msg = NULL;
    natsStatus s;

    call->id = ++h->next_id;
    snprintf(call->subject, sizeof call->subject, "%s", subject);
    snprintf(reply, sizeof reply, "%s.%08llx", h->inbox_name, call->id);
    s = h->link ? natsMsg_Create(&msg, subject, reply, data, (int)len) : NATS_CONNECTION_CLOSED;
    if (s == NATS_OK && expect)
        s = natsMsgHeader_Set(msg, "Nats-Expected-Last-Subject-Sequence", expect);
    if (s == NATS_OK)
        s = natsConnection_PublishMsg(tn_nats_link_connection(h->link), msg);
    natsMsg_Destroy(msg);
    if (s != NATS_OK) {
        call->done = true;
        call->failed = s == NATS_NO_MEMORY ? TENURE_NOMEM : TENURE_UNAVAILABLE;
    }
}

void tn_nats_send_api(struct tn_nats *h, struct tn_nats_call *call, const char *what,
                      const char *body)
{
    char subject[TN_NATS_SUBJECT];

    snprintf(subject, sizeof subject, "$JS.API.%s.KV_%s", what, h->conf.bucket);
    tn_nats_send(h, call, subject, NULL, body, strlen(body));
}

static bool all_done(const struct tn_nats *h)
{
    for (size_t i = 0; i < h->n_calls; i++) {
        if (!h->calls[i].done)
            return false;
    }
    return true;
}

enum tenure_status tn_nats_finish(struct tn_nats *h, int64_t deadline, struct tenure_error *err)
{
    enum tenure_status status = TENURE_OK;

    while (!status && !all_done(h))
        status = h->link ? tn_nats_turn(h, deadline, err)
                         : tn_nats_fail(h, TENURE_UNAVAILABLE, err, "not connected");
    h->calls = NULL;
    h->n_calls = 0;
    if (status && status != TENURE_CANCELLED) {
        h->unanswered++;
        tn_nats_drop(h);
        choose_next_server(h); /* this one hangs, perhaps */
    }
    return status;
}

void tn_nats_call_free(struct tn_nats_call *call)
{
    natsMsg_Destroy(call->answer);
    memset(call, 0, sizeof *call);
}

/* ---- Answers ------------------------------------------------------------- */

static enum tenure_status tell_failed(struct tn_nats *h, const struct tn_nats_call *call,
                                      struct tenure_error *err)
{
    char name[TN_REMOTE_ADDR_TEXT + 16];

    if (call->failed == TENURE_NOMEM)
        return tenure_fail(err, TENURE_NOMEM, "nats: out of memory");
    if (call->failed == TENURE_UNAVAILABLE)
        return tn_nats_fail(h, TENURE_UNAVAILABLE, err, "the request could not be sent");
    tn_nats_name(h, name, sizeof name);
    tn_nats_drop(h); /* the next connection has the rights that the user has by then */
    return tenure_fail(err, TENURE_DENIED,
                       "%s: the user may not publish to %s, or not receive the answer; see "
                       "docs/reference/stores/nats.md",
                       name, call->subject);
}

enum tenure_status tn_nats_answer(struct tn_nats *h, const struct tn_nats_call *call, json_t **root,
                                  int *code, struct tenure_error *err)
{
    json_error_t why;
    const json_t *error;

    *root = NULL;
    *code = 0;
    if (call->failed)
        return tell_failed(h, call, err);
    if (natsMsg_IsNoResponders(call->answer)) {
        h->unready = true;
        tn_nats_drop(h); /* the next connection looks for the bucket */
        return tn_nats_fail(
            h, TENURE_UNAVAILABLE, err,
            "nobody serves the bucket: JetStream is off, or its leader is being elected");
    }
    *root = json_loadb(natsMsg_GetData(call->answer), (size_t)natsMsg_GetDataLength(call->answer),
                       0, &why);
    if (!json_is_object(*root)) {
        json_decref(*root);
        *root = NULL;
        tn_nats_drop(h);
        return tn_nats_fail(h, TENURE_UNAVAILABLE, err,
                            "the server sent an answer that cannot be read");
    }
    error = json_object_get(*root, "error");
    if (error) {
        *code = (int)json_integer_value(json_object_get(error, "err_code"));
        if (*code == 0)
            *code = -1;
    }
    return TENURE_OK;
}

enum tenure_status tn_nats_explain(struct tn_nats *h, const json_t *root, int code,
                                   struct tenure_error *err)
{
    const char *text =
        json_string_value(json_object_get(json_object_get(root, "error"), "description"));
    char why[200];

    h->unready = true;
    if (code == TN_NATS_NO_STREAM) {
        tn_nats_drop(h); /* the next connection makes the bucket */
        return tn_nats_fail(h, TENURE_UNAVAILABLE, err, "the bucket is gone");
    }
    snprintf(why, sizeof why, "the server says: %.150s (%d)", text ? text : "an error", code);
    return tn_nats_fail(h, TENURE_UNAVAILABLE, err, why);
}

/* ---- Reading ------------------------------------------------------------- */

/* A majority agrees on it as on any change: what was answered before is known to its leader. */
static enum tenure_status pass_barrier(struct tn_nats *h, int64_t by, struct tenure_error *err)
{
    struct tn_nats_call call = {0};
    char subject[TN_NATS_SUBJECT];
    json_t *root = NULL;
    int code;
    enum tenure_status status;

    if (h->replicas < 2)
        return TENURE_OK;
    snprintf(subject, sizeof subject, "$KV.%s.read", h->conf.bucket);
    tn_nats_begin(h, &call, 1);
    tn_nats_send(h, &call, subject, NULL, "", 0);
    status = tn_nats_finish(h, by, err);
    if (!status)
        status = tn_nats_answer(h, &call, &root, &code, err);
    if (!status && code)
        status = tn_nats_explain(h, root, code, err);
    json_decref(root);
    tn_nats_call_free(&call);
    return status;
}

static enum tenure_status ask_once(struct tn_nats *h, struct tn_nats_call *calls, size_t n,
                                   tn_nats_send_fn send, const void *arg, int64_t by,
                                   struct tenure_error *err)
{
    enum tenure_status status = tn_nats_connect(h, by, err);

    if (!status)
        status = pass_barrier(h, by, err);
    if (status)
        return status;
    tn_nats_begin(h, calls, n);
    send(h, calls, n, arg);
    status = tn_nats_finish(h, by, err);
    for (size_t i = 0; i < n && !status; i++) {
        if (calls[i].failed)
            status = tell_failed(h, &calls[i], err);
    }
    return status;
}

enum tenure_status tn_nats_ask(struct tn_nats *h, struct tn_nats_call *calls, size_t n,
                               tn_nats_send_fn send, const void *arg, int64_t deadline,
                               struct tenure_error *err)
{
    enum tenure_status status = TENURE_OK;

    for (unsigned left = h->conf.n_hosts + 1; left; left--) {
        int64_t by = tn_attempt_until(deadline, left, left > 1 ? left - 1 : 1);

        status = ask_once(h, calls, n, send, arg, by, err);
        if (!tn_attempt_again(status, left, deadline))
            break;
        for (size_t i = 0; i < n; i++)
            tn_nats_call_free(&calls[i]);
    }
    return status;
}
