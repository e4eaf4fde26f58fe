/*
 * News of changes: a consumer of the stream for each register or prefix that is followed
 * (store/watcher.h).  Plain subscribers are no use: they see a message before the stream has
 * accepted it.  A consumer lives as long as somebody listens to its subject, and says every
 * HEARTBEAT how many messages it has sent.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/nats/nats.h"

#define SECOND    INT64_C(1000000000)
#define HEARTBEAT (2 * SECOND)
#define SILENCE   (5 * SECOND)
#define FORGOTTEN (10 * SECOND) /* a consumer that nobody listens to is removed */

/* ---- Events -------------------------------------------------------------- */

/* The sequences of a message, in the stream and of the consumer, from its reply subject:
 * $JS.ACK.[DOMAIN.ACCOUNT.]STREAM.CONSUMER.DELIVERED.SEQ.CONSUMER_SEQ.TIME.PENDING[.RANDOM] */
static bool parse_reply(const char *reply, unsigned long long *seq, unsigned *count)
{
    const char *token[13];
    int n = 0, at;

    for (const char *p = reply; p && n < 13; p = strchr(p, '.')) {
        p += n > 0; /* behind the dot */
        token[n++] = p;
    }
    if (n < 9 || strncmp(reply, "$JS.ACK.", 8) != 0)
        return false;
    at = n == 9 ? 5 : 7;
    *seq = strtoull(token[at], NULL, 10);
    *count = (unsigned)strtoull(token[at + 1], NULL, 10);
    return *seq > 0;
}

static void take_change(struct tn_nats *h, struct tn_followed *one, natsMsg *msg)
{
    struct tn_watcher *w = &h->watcher;
    struct tenure_token token = {0};
    char key[TENURE_KEY_MAX + 1];
    unsigned long long seq;
    unsigned count;

    if (!natsMsg_GetReply(msg) || !parse_reply(natsMsg_GetReply(msg), &seq, &count) ||
        count != ++one->number) {
        tn_watcher_lost(w, one);
        return;
    }
    if (!tn_nats_key(h, natsMsg_GetSubject(msg), key))
        return;
    snprintf(token.version, sizeof token.version, "%llu", seq);
    if (tn_frame_nonce(natsMsg_GetData(msg), (size_t)natsMsg_GetDataLength(msg), token.nonce))
        tn_watcher_event(w, key, &token);
    else
        tn_watcher_event(w, key, NULL);
}

static void take_message(struct tn_nats *h, struct tn_followed *one, natsMsg *msg)
{
    const char *status = NULL, *count = NULL;

    tn_watcher_heard(&h->watcher, one);
    if (natsMsgHeader_Get(msg, "Status", &status) != NATS_OK) {
        take_change(h, one, msg);
    } else if (natsMsgHeader_Get(msg, "Nats-Last-Consumer", &count) == NATS_OK &&
               strtoul(count, NULL, 10) != one->number) {
        tn_watcher_lost(&h->watcher, one); /* something got lost on the way */
    }
}

static bool take_messages(struct tn_nats *h)
{
    struct tn_watcher *w = &h->watcher;
    bool some = false;

    for (unsigned i = 0; i < w->n_followed; i++) {
        struct tn_followed *one = &w->followed[i];
        natsMsg *msg = NULL;

        while (one->feed && natsSubscription_NextMsg(&msg, one->feed, 0) == NATS_OK) {
            take_message(h, one, msg);
            natsMsg_Destroy(msg);
            some = true;
        }
    }
    return some;
}

static enum tenure_status next(struct tn_watcher *w, int64_t until, struct tenure_error *err)
{
    struct tn_nats *h = w->impl;
    enum tenure_status status;

    if (!h->link || !tn_watcher_live(w))
        return tenure_fail(err, TENURE_UNAVAILABLE, "nats: the connection has ended");
    if (take_messages(h))
        return TENURE_OK;
    status = tn_nats_turn(h, until, err);
    if (h->link && take_messages(h) && status == TENURE_TIMEOUT)
        status = TENURE_OK;
    return status;
}

/* ---- Subscribing --------------------------------------------------------- */

static void unsubscribe(struct tn_watcher *w, struct tn_followed *one)
{
    for (unsigned i = 0; i < w->n_followed; i++) {
        struct tn_followed *each = &w->followed[i];

        if (!one || each == one) {
            natsSubscription_Destroy(each->feed);
            each->feed = NULL;
        }
    }
}

static void send_consumer(struct tn_nats *h, struct tn_followed *one, struct tn_nats_call *call)
{
    char subject[sizeof h->inbox_name + 32], filter[TN_NATS_SUBJECT];
    char body[2 * TN_NATS_SUBJECT + 512];
    natsSubscription *feed = NULL;

    snprintf(subject, sizeof subject, "%s.w.%llu", h->inbox_name, ++h->next_id);
    if (one->prefix)
        tn_nats_wildcard(h, one->key, filter);
    else
        tn_nats_subject(h, one->key, filter);
    if (natsConnection_SubscribeSync(&feed, tn_nats_link_connection(h->link), subject) != NATS_OK) {
        call->done = true;
        call->failed = TENURE_UNAVAILABLE;
        return;
    }
    natsSubscription_SetPendingLimits(feed, -1, -1);
    one->feed = feed;
    one->number = 0;
    snprintf(body, sizeof body,
             "{\"stream_name\":\"KV_%s\",\"config\":{\"deliver_subject\":\"%s\","
             "\"deliver_policy\":\"new\",\"ack_policy\":\"none\",\"replay_policy\":\"instant\","
             "\"filter_subject\":\"%s\",\"idle_heartbeat\":%lld,\"inactive_threshold\":%lld,"
             "\"max_deliver\":1,\"mem_storage\":true,\"num_replicas\":1}}",
             h->conf.bucket, subject, filter, (long long)HEARTBEAT, (long long)FORGOTTEN);
    tn_nats_send_api(h, call, "CONSUMER.CREATE", body);
}

static enum tenure_status take_consumer(struct tn_nats *h, struct tn_followed *one,
                                        const struct tn_nats_call *call, struct tenure_error *err)
{
    json_t *root;
    int code;
    enum tenure_status status = tn_nats_answer(h, call, &root, &code, err);

    if (!status && code)
        status = tn_nats_explain(h, root, code, err);
    if (!status)
        tn_watcher_confirm(one);
    json_decref(root);
    return status;
}

/* One that should have said something is replaced. */
static void drop_silent(struct tn_watcher *w)
{
    int64_t now = tenure_now();

    for (unsigned i = 0; i < w->n_followed; i++) {
        struct tn_followed *one = &w->followed[i];

        if (one->live && now - one->heard_ns >= SILENCE)
            tn_watcher_lost(w, one);
    }
}

static enum tenure_status subscribe(struct tn_watcher *w, int64_t by, struct tenure_error *err)
{
    struct tn_nats *h = w->impl;
    struct tn_nats_call calls[TN_WATCHER_MAX] = {0};
    struct tn_followed *fresh[TN_WATCHER_MAX];
    enum tenure_status status = tn_nats_connect(h, by, err);
    size_t n = 0;

    if (status)
        return status;
    take_messages(h); /* from before: they may be a sign of life */
    drop_silent(w);
    for (unsigned i = 0; i < w->n_followed; i++) {
        if (!w->followed[i].live)
            fresh[n++] = &w->followed[i];
    }
    tn_nats_begin(h, calls, n);
    for (size_t i = 0; i < n; i++) {
        unsubscribe(w, fresh[i]);
        send_consumer(h, fresh[i], &calls[i]);
    }
    status = tn_nats_finish(h, by, err);
    for (size_t i = 0; i < n && !status; i++)
        status = take_consumer(h, fresh[i], &calls[i], err);
    for (size_t i = 0; i < n; i++)
        tn_nats_call_free(&calls[i]);
    return status;
}

/* ---- Comparing ----------------------------------------------------------- */

static enum tenure_status is_same(struct tn_nats *h, const struct tenure_watch *watch,
                                  const struct tn_nats_call *call, bool *same,
                                  struct tenure_error *err)
{
    struct tn_nats_message message;
    struct tenure_value value = {0};
    char mark[TENURE_VERSION_MAX + 1];
    enum tenure_status status = tn_nats_message(h, call, &message, err);

    if (!status && watch->prefix) {
        tn_nats_mark(&message, mark);
        *same = strcmp(mark, watch->mark) == 0;
    } else if (!status) {
        status = tn_nats_decode(watch->key, &message, &value, err);
        *same = status ? tn_damaged(&watch->seen) /* which only an operator has seen */
                       : tenure_token_equal(&value.token, &watch->seen);
        if (status == TENURE_CORRUPT)
            status = TENURE_OK;
    }
    tenure_value_free(&value);
    tn_nats_message_free(&message);
    return status;
}

static void send_compare(struct tn_nats *h, struct tn_nats_call *calls, size_t n, const void *arg)
{
    const struct tenure_watch *const *watches = arg;
    char subject[TN_NATS_SUBJECT];

    for (size_t i = 0; i < n; i++) {
        if (watches[i]->prefix)
            tn_nats_wildcard(h, watches[i]->key, subject);
        else
            tn_nats_subject(h, watches[i]->key, subject);
        tn_nats_send_last(h, &calls[i], subject);
    }
}

static enum tenure_status compare(struct tn_watcher *w, const struct tenure_watch *const *watches,
                                  size_t n, int64_t by, bool *changed, struct tenure_error *err)
{
    struct tn_nats *h = w->impl;
    struct tn_nats_call calls[TENURE_WATCH_MAX] = {0};
    enum tenure_status status = tn_nats_ask(h, calls, n, send_compare, watches, by, err);

    *changed = false;
    for (size_t i = 0; i < n; i++) {
        bool same = true;

        if (!status)
            status = is_same(h, watches[i], &calls[i], &same, err);
        *changed = *changed || !same;
        tn_nats_call_free(&calls[i]);
    }
    return status;
}

void tn_nats_watcher_init(struct tn_nats *h)
{
    static const struct tn_watcher_ops ops = {
        .subscribe = subscribe, .next = next, .compare = compare, .unsubscribe = unsubscribe};

    h->watcher = (struct tn_watcher){.ops = &ops,
                                     .impl = h,
                                     .scheme = "nats",
                                     .cancel_fd = &h->cancel_fd,
                                     .unanswered = &h->unanswered,
                                     .attempts = 2,
                                     .share = true,
                                     .silence_ns = SILENCE};
}
