/* News of changes: a subscription on a connection of its own. */
#include "store/redis/wait.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "os/poll.h"
#include "store/redis/bundle.h"

#define ORIGIN_MAX 16
#define ATTEMPTS   3 /* a link may have died unnoticed; another node may be the master by now */

struct tn_redis_news {
    struct tn_redis_link *link;
    unsigned requests; /* so far; the first ones may be those of a login */
    unsigned logins;   /* of those, not answered yet */
    bool greeted;      /* the login was sent */
    bool wide;         /* the user may only subscribe to everything */
};

/* Of struct tn_followed: `number` is that of the request to subscribe that the server has not
 * answered, or 0; `feed` is not NULL if that asked for everything. */

/* ---- Marks --------------------------------------------------------------- */

bool tn_redis_mark(const char *seq, size_t n, const char *timeline,
                   char mark[TENURE_VERSION_MAX + 1])
{
    const char *space = memchr(seq, ' ', n);

    if (n == 0) {
        snprintf(mark, TENURE_VERSION_MAX + 1, "0.-.%s", timeline);
        return true;
    }
    if (!space || !tn_redis_number(seq, (size_t)(space - seq)))
        return false;
    size_t origin = n - (size_t)(space + 1 - seq);
    if (origin != ORIGIN_MAX || strspn(space + 1, "0123456789abcdef") < origin)
        return false;
    snprintf(mark, TENURE_VERSION_MAX + 1, "%.*s.%.*s.%s", (int)(space - seq), seq, (int)origin,
             space + 1, timeline);
    return true;
}

/* Cut a mark at its dots.  False if it is not one of this timeline. */
static bool parse_mark(const char *mark, const char *timeline, char number[24],
                       char origin[ORIGIN_MAX + 1])
{
    char line[TN_REDIS_TIMELINE + 1];

    return sscanf(mark, "%17[0-9].%16[0-9a-f-].%16[0-9a-f]", number, origin, line) == 3 &&
           strcmp(line, timeline) == 0;
}

/* ---- Messages ------------------------------------------------------------ */

/* A register has changed, or a message says so. */
static void take_message(struct tn_redis *h, const redisReply *name, const redisReply *text)
{
    size_t base = strlen(h->registers);
    struct tenure_token token;
    bool clear = tn_redis_decode_news(text->str, (size_t)text->len, h->timeline, &token);

    if (strncmp(name->str, h->registers, base) == 0)
        tn_watcher_event(&h->watcher, name->str + base, clear ? &token : NULL);
}

/* The one whose answer comes next; NULL: none is due. */
static struct tn_followed *next_due(const struct tn_redis *h)
{
    struct tn_followed *next = NULL;

    for (unsigned i = 0; i < h->watcher.n_followed; i++) {
        struct tn_followed *one = &h->watcher.followed[i];

        if (one->number && (!next || one->number < next->number))
            next = one;
    }
    return next;
}

static bool anything_due(const struct tn_redis *h)
{
    return h->news->logins || next_due(h);
}

/* ACL rules know patterns only word by word: one for all is the usual right. */
static enum tenure_status take_refusal(struct tn_redis *h, struct tenure_error *err)
{
    struct tn_followed *one = next_due(h);

    if (err->code != TENURE_DENIED || !one || !one->prefix || one->feed || !one->key[0])
        return err->code;
    h->news->wide = true;
    one->number = 0; /* subscribe() asks for everything instead */
    return TENURE_OK;
}

static enum tenure_status take_reply(struct tn_redis *h, const redisReply *r,
                                     struct tenure_error *err)
{
    size_t last = r->type == REDIS_REPLY_ARRAY && r->elements > 0 ? r->elements - 1 : 0;

    if (h->news->logins) {
        h->news->logins--;
        return tn_redis_fault(r, NULL, err) ? err->code : TENURE_OK;
    }
    if (tn_redis_fault(r, NULL, err))
        return take_refusal(h, err);
    if (last < 2 || r->element[0]->type != REDIS_REPLY_STRING ||
        r->element[last - 1]->type != REDIS_REPLY_STRING)
        return tenure_fail(err, TENURE_UNAVAILABLE, "this is not a message of a subscription");
    const char *kind = r->element[0]->str;
    if (strcmp(kind, "subscribe") == 0 || strcmp(kind, "psubscribe") == 0) {
        struct tn_followed *one = next_due(h); /* answers come in the order of the requests */

        if (one) {
            one->number = 0;
            tn_watcher_confirm(one);
        }
    } else if ((strcmp(kind, "message") == 0 || strcmp(kind, "pmessage") == 0) &&
               r->element[last]->type == REDIS_REPLY_STRING) {
        take_message(h, r->element[last - 1], r->element[last]);
    }
    return TENURE_OK;
}

/* All messages that are there. */
static enum tenure_status drain(struct tn_redis *h, struct tenure_error *err)
{
    for (;;) {
        redisReply *r = NULL;
        enum tenure_status status = tn_redis_link_try_reply(h->news->link, &r, err);

        if (status || !r)
            return status;
        status = take_reply(h, r, err);
        freeReplyObject(r);
        if (status)
            return status;
    }
}

static enum tenure_status next(struct tn_watcher *w, int64_t until, struct tenure_error *err)
{
    struct tn_redis *h = w->impl;
    enum tenure_status status = drain(h, err);

    if (status || w->changed || !until)
        return status;
    struct pollfd fds[2] = {{.fd = tn_redis_link_fd(h->news->link), .events = POLLIN},
                            {.fd = h->conf.cancel_fd, .events = POLLIN}};
    int ready = tn_poll(fds, 2, until);
    if (ready < 0)
        return tenure_fail(err, TENURE_UNAVAILABLE, "redis: poll: %s", strerror(errno));
    if (ready == 0)
        return TENURE_TIMEOUT;
    return fds[1].revents ? TENURE_CANCELLED : drain(h, err);
}

/* ---- Subscribing --------------------------------------------------------- */

static void unsubscribe(struct tn_watcher *w, struct tn_followed *one)
{
    struct tn_redis *h = w->impl;

    if (one || !h->news)
        return;
    tn_redis_link_close(h->news->link);
    free(h->news);
    h->news = NULL;
}

/* Somewhere to listen, if there is nothing yet; it may not be connected. */
static enum tenure_status open_news(struct tn_redis *h, struct tenure_error *err)
{
    if (h->news)
        return TENURE_OK;
    h->news = calloc(1, sizeof *h->news);
    /* The same server as the link's, whatever its name resolves to by now. */
    if (h->news)
        h->news->link = tn_redis_link_new(&h->conf, tn_redis_link_addr(h->link));
    if (h->news && h->news->link)
        return TENURE_OK;
    free(h->news);
    h->news = NULL;
    return tenure_fail(err, TENURE_NOMEM, "redis: out of memory");
}

static void add_request(struct tn_redis *h, struct tn_followed *one, struct tn_redis_bundle *bundle)
{
    bool wide = one->prefix && h->news->wide;
    char name[TN_REDIS_NAME_MAX];

    snprintf(name, sizeof name, "%s%s%s", h->registers, wide ? "" : one->key,
             one->prefix ? "*" : "");
    one->number = ++h->news->requests;
    one->feed = wide ? h->news : NULL;
    tn_redis_bundle_add(bundle, 2, (const char *[]){one->prefix ? "PSUBSCRIBE" : "SUBSCRIBE", name},
                        NULL);
}

/* Ask for all that is not followed yet, in one write; the login is in the first. */
static enum tenure_status send_requests(struct tn_redis *h, int64_t by, struct tenure_error *err)
{
    struct tn_redis_bundle bundle = {0};
    enum tenure_status status = TENURE_OK;

    if (!h->news->greeted) {
        status =
            tn_redis_bundle_login(&bundle, h->conf.remote.user, &h->conf.remote.password, 0, err);
        h->news->logins = h->news->requests = bundle.count;
        h->news->greeted = true;
    }
    for (unsigned i = 0; i < h->watcher.n_followed && !status; i++) {
        struct tn_followed *one = &h->watcher.followed[i];

        if (!one->live && !one->number)
            add_request(h, one, &bundle);
    }
    if (!status && bundle.n)
        status = tn_redis_bundle_send(&bundle, h->news->link, by, err);
    tn_redis_bundle_clear(&bundle);
    if (status)
        tn_watcher_drop(&h->watcher); /* how much of it has left cannot be told */
    return status;
}

/* Until everything that was asked is answered.  News of other channels may come before. */
static enum tenure_status read_answers(struct tn_redis *h, int64_t by, struct tenure_error *err)
{
    enum tenure_status status = TENURE_OK;

    while (!status && anything_due(h)) {
        redisReply *r = NULL;

        status = tn_redis_link_reply(h->news->link, by, &r, err);
        if (!status)
            status = take_reply(h, r, err);
        if (r)
            freeReplyObject(r);
    }
    return status;
}

static enum tenure_status subscribe(struct tn_watcher *w, int64_t by, struct tenure_error *err)
{
    struct tn_redis *h = w->impl;
    enum tenure_status status = tn_redis_ready(h, by, err);

    if (h->news && (!h->news->greeted || anything_due(h)) &&
        tn_redis_link_silent(h->news->link) >= TN_WATCHER_CONFIRM_NS)
        tn_watcher_drop(w);
    if (!status)
        status = open_news(h, err);
    if (!status)
        status = tn_redis_link_advance(h->news->link, by, err);
    /* What may not be followed by its own name is followed by that of all, in a second round. */
    for (bool once = true; !status && (once || !tn_watcher_live(w)); once = false) {
        status = send_requests(h, by, err);
        if (!status)
            status = read_answers(h, by, err);
    }
    return status;
}

/* ---- Comparing ----------------------------------------------------------- */

/* What is to be asked of the server. */
struct question {
    struct tn_redis_args args;
    char count[12];
    char names[TENURE_WATCH_MAX][TN_REDIS_NAME_MAX];
    char expect[TENURE_WATCH_MAX][TN_REDIS_HEAD_MAX];
    char number[TENURE_WATCH_MAX][24];
    char origin[TENURE_WATCH_MAX][ORIGIN_MAX + 1];
};

static void ask_registers(struct tn_redis *h, const struct tenure_watch *const *watches, size_t n,
                          struct question *q)
{
    int keys = 0;

    for (size_t i = 0; i < n; i++) {
        if (watches[i]->prefix)
            continue;
        snprintf(q->names[i], sizeof q->names[i], "%s%s", h->registers, watches[i]->key);
        tn_redis_args_text(&q->args, q->names[i]);
        tn_redis_expect(&watches[i]->seen, q->expect[keys++]);
    }
    for (int i = 0; i < keys; i++)
        tn_redis_args_text(&q->args, q->expect[i]);
    snprintf(q->count, sizeof q->count, "%d", keys + 2);
    q->args.lens[2] = strlen(q->count);
}

/* False: something has changed already. */
static bool compose(struct tn_redis *h, const struct tenure_watch *const *watches, size_t n,
                    struct question *q)
{
    tn_redis_args_text(&q->args, q->count);
    tn_redis_args_text(&q->args, h->seq);
    tn_redis_args_text(&q->args, h->log);
    ask_registers(h, watches, n, q);
    for (size_t i = 0; i < n; i++) {
        const struct tenure_watch *watch = watches[i];

        if (!watch->prefix && !tn_redis_same_timeline(&watch->seen, h->timeline))
            return false;
        if (!watch->prefix)
            continue;
        if (!parse_mark(watch->mark, h->timeline, q->number[i], q->origin[i]))
            return false;
        tn_redis_args_text(&q->args, watch->key);
        tn_redis_args_text(&q->args, q->number[i]);
        tn_redis_args_text(&q->args, q->origin[i]);
    }
    return true;
}

static enum tenure_status compare(struct tn_watcher *w, const struct tenure_watch *const *watches,
                                  size_t n, int64_t by, bool *changed, struct tenure_error *err)
{
    struct tn_redis *h = w->impl;
    struct question *q = calloc(1, sizeof *q);
    struct tn_redis_answer answer = {0};
    enum tenure_status status = TENURE_OK;
    unsigned tries = 0;

    if (!q || !tn_redis_args_init(&q->args, 3 + 4 * TENURE_WATCH_MAX)) {
        free(q);
        return tenure_fail(err, TENURE_NOMEM, "redis: out of memory");
    }
    *changed = !compose(h, watches, n, q);
    if (!*changed)
        status = tn_redis_run(h, TN_REDIS_CHECK, &q->args, by, &answer, err);
    if (answer.reply) {
        *changed = answer.reply->type != REDIS_REPLY_INTEGER || answer.reply->integer != 0;
        freeReplyObject(answer.reply);
    } else if (status) {
        tn_redis_try_again(h, &answer, &tries); /* at another node, if that one said so */
    }
    tn_redis_args_free(&q->args);
    free(q);
    return status;
}

static const struct tn_watcher_ops ops = {
    .subscribe = subscribe, .next = next, .compare = compare, .unsubscribe = unsubscribe};

void tn_redis_watcher_init(struct tn_redis *h)
{
    h->watcher = (struct tn_watcher){.ops = &ops,
                                     .impl = h,
                                     .scheme = "redis",
                                     .cancel_fd = &h->conf.cancel_fd,
                                     .attempts = ATTEMPTS};
}
