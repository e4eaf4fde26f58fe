#include "redis_wait.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "os/poll.h"

#define CHANNELS_MAX 32
#define ORIGIN_MAX   16

struct channel {
    char name[TN_REDIS_NAME_MAX]; /* of a register, or a pattern */
    bool pattern;
    bool known; /* token is the register's, or news of a later one is on its way */
    struct tenure_token token;
};

struct tn_redis_news {
    struct tn_redis_link *link;
    struct channel channels[CHANNELS_MAX];
    unsigned n;
    bool wide; /* the user may only subscribe to everything */
};

/* One wait in progress. */
struct waiting {
    const struct tenure_watch *watches;
    size_t n;
    bool asked; /* what is there was compared: from now on news count */
    bool news;  /* something watched has changed */
};

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

/* ---- Channels ------------------------------------------------------------ */

void tn_redis_news_drop(struct tn_redis *h)
{
    if (!h->news)
        return;
    tn_redis_link_close(h->news->link);
    free(h->news);
    h->news = NULL;
}

static struct channel *find(struct tn_redis_news *news, const char *name, bool pattern)
{
    for (unsigned i = 0; i < news->n; i++) {
        if (news->channels[i].pattern == pattern && strcmp(news->channels[i].name, name) == 0)
            return &news->channels[i];
    }
    return NULL;
}

static void channel_name(const struct tn_redis *h, const struct tenure_watch *watch, bool wide,
                         char out[TN_REDIS_NAME_MAX])
{
    snprintf(out, TN_REDIS_NAME_MAX, "%s%s%s", h->registers,
             watch->prefix && wide ? "" : watch->key, watch->prefix ? "*" : "");
}

static struct channel *channel_of(const struct tn_redis *h, const struct tenure_watch *watch)
{
    char name[TN_REDIS_NAME_MAX];

    channel_name(h, watch, h->news->wide, name);
    return find(h->news, name, watch->prefix);
}

void tn_redis_news_learn(struct tn_redis *h, const char *key, const struct tenure_token *token)
{
    const struct tenure_watch watch = {.key = key};
    struct channel *c = h->news ? channel_of(h, &watch) : NULL;

    if (c) {
        c->known = true;
        c->token = *token;
    }
}

/* ---- Messages ------------------------------------------------------------ */

/* A register has changed, or a message says so. */
static void note(struct tn_redis *h, struct waiting *w, const redisReply *name,
                 const redisReply *text)
{
    size_t base = strlen(h->registers);
    struct tenure_token token;
    bool clear = tn_redis_decode_news(text->str, (size_t)text->len, h->timeline, &token);

    if (strncmp(name->str, h->registers, base) != 0)
        return;
    const char *key = name->str + base;
    struct channel *c = find(h->news, name->str, false);
    if (c) {
        c->known = clear;
        if (clear)
            c->token = token;
    }
    for (size_t i = 0; w && w->asked && i < w->n; i++) {
        const struct tenure_watch *watch = &w->watches[i];

        if (watch->prefix ? strncmp(key, watch->key, strlen(watch->key)) == 0
                          : strcmp(key, watch->key) == 0 &&
                                !(clear && tenure_token_equal(&token, &watch->seen)))
            w->news = true;
    }
}

/* *confirmed counts subscriptions that the server has confirmed. */
static enum tenure_status digest(struct tn_redis *h, struct waiting *w, const redisReply *r,
                                 unsigned *confirmed, struct tenure_error *err)
{
    size_t last = r->type == REDIS_REPLY_ARRAY ? r->elements - 1 : 0;

    if (tn_redis_fault(r, NULL, err))
        return err->code;
    if (last < 2 || r->element[0]->type != REDIS_REPLY_STRING ||
        r->element[last - 1]->type != REDIS_REPLY_STRING)
        return tenure_fail(err, TENURE_UNAVAILABLE, "this is not a message of a subscription");
    const char *kind = r->element[0]->str;
    if (strcmp(kind, "subscribe") == 0 || strcmp(kind, "psubscribe") == 0)
        ++*confirmed;
    else if ((strcmp(kind, "message") == 0 || strcmp(kind, "pmessage") == 0) &&
             r->element[last]->type == REDIS_REPLY_STRING)
        note(h, w, r->element[last - 1], r->element[last]);
    return TENURE_OK;
}

/* Take in all messages that are there. */
static enum tenure_status drain(struct tn_redis *h, struct waiting *w, struct tenure_error *err)
{
    unsigned confirmed = 0;

    for (;;) {
        redisReply *r = NULL;
        enum tenure_status status = tn_redis_link_try_reply(h->news->link, &r, err);

        if (status || !r)
            return status;
        status = digest(h, w, r, &confirmed, err);
        freeReplyObject(r);
        if (status)
            return status;
    }
}

/* ---- Subscribing --------------------------------------------------------- */

static enum tenure_status open_news(struct tn_redis *h, int64_t deadline, struct tenure_error *err)
{
    enum tenure_status status;

    if (h->news)
        return TENURE_OK;
    h->news = calloc(1, sizeof *h->news);
    if (!h->news)
        return tenure_fail(err, TENURE_NOMEM, "redis: out of memory");
    /* The same server as the link's, whatever its name resolves to by now. */
    status =
        tn_redis_link_open(&h->conf, tn_redis_link_addr(h->link), deadline, &h->news->link, err);
    if (!status)
        status =
            tn_redis_link_login(h->news->link, h->conf.user, &h->conf.password, 0, deadline, err);
    if (status)
        tn_redis_news_drop(h);
    return status;
}

static enum tenure_status subscribe(struct tn_redis *h, const char *name, bool pattern,
                                    int64_t deadline, struct tenure_error *err)
{
    const char *const argv[] = {pattern ? "PSUBSCRIBE" : "SUBSCRIBE", name, NULL};
    redisReply *r = NULL;
    unsigned confirmed = 0;
    enum tenure_status status = tn_redis_link_ask(h->news->link, argv, deadline, &r, err);

    while (!status) {
        /* News of other channels may come before the confirmation. */
        status = digest(h, NULL, r, &confirmed, err);
        freeReplyObject(r);
        r = NULL;
        if (status || confirmed)
            break;
        status = tn_redis_link_reply(h->news->link, deadline, &r, err);
    }
    return status;
}

static enum tenure_status follow(struct tn_redis *h, const struct tenure_watch *watch,
                                 int64_t deadline, struct tenure_error *err)
{
    char name[TN_REDIS_NAME_MAX];
    enum tenure_status status;

    if (channel_of(h, watch))
        return TENURE_OK;
    channel_name(h, watch, h->news->wide, name);
    status = subscribe(h, name, watch->prefix, deadline, err);
    /* ACL rules know patterns only word by word: one for all is the usual right. */
    if (status == TENURE_DENIED && watch->prefix && !h->news->wide) {
        h->news->wide = true;
        if (channel_of(h, watch))
            return TENURE_OK;
        channel_name(h, watch, true, name);
        status = subscribe(h, name, true, deadline, err);
    }
    if (status)
        return status;
    struct channel *c = &h->news->channels[h->news->n++];
    memset(c, 0, sizeof *c);
    memcpy(c->name, name, sizeof name);
    c->pattern = watch->prefix;
    return TENURE_OK;
}

static enum tenure_status follow_all(struct tn_redis *h, const struct waiting *w, int64_t deadline,
                                     struct tenure_error *err)
{
    enum tenure_status status;

    if (h->news && h->news->n + w->n > CHANNELS_MAX)
        tn_redis_news_drop(h); /* begin anew, with what is wanted now */
    status = open_news(h, deadline, err);
    for (size_t i = 0; i < w->n && !status; i++)
        status = follow(h, &w->watches[i], deadline, err);
    return status;
}

/* ---- Comparing ----------------------------------------------------------- */

/* What is to be asked of the server; false: something has changed already. */
struct question {
    struct tn_redis_args args;
    char count[12];
    char names[TENURE_WATCH_MAX][TN_REDIS_NAME_MAX];
    char expect[TENURE_WATCH_MAX][TN_REDIS_HEAD_MAX];
    char number[TENURE_WATCH_MAX][24];
    char origin[TENURE_WATCH_MAX][ORIGIN_MAX + 1];
};

static bool compose(struct tn_redis *h, const struct waiting *w, struct question *q, int *asked)
{
    int keys = 0;

    *asked = 0;
    tn_redis_args_text(&q->args, q->count);
    tn_redis_args_text(&q->args, h->seq);
    tn_redis_args_text(&q->args, h->log);
    for (size_t i = 0; i < w->n; i++) {
        const struct tenure_watch *watch = &w->watches[i];
        struct channel *c = watch->prefix ? NULL : channel_of(h, watch);

        if (watch->prefix || (c && c->known && tenure_token_equal(&c->token, &watch->seen)))
            continue;
        if (!tn_redis_same_timeline(&watch->seen, h->timeline))
            return false;
        channel_name(h, watch, false, q->names[i]);
        tn_redis_args_text(&q->args, q->names[i]);
        tn_redis_expect(&watch->seen, q->expect[keys++]);
    }
    for (int i = 0; i < keys; i++)
        tn_redis_args_text(&q->args, q->expect[i]);
    for (size_t i = 0; i < w->n; i++) {
        const struct tenure_watch *watch = &w->watches[i];

        if (!watch->prefix)
            continue;
        if (!parse_mark(watch->mark, h->timeline, q->number[i], q->origin[i]))
            return false;
        tn_redis_args_text(&q->args, watch->key);
        tn_redis_args_text(&q->args, q->number[i]);
        tn_redis_args_text(&q->args, q->origin[i]);
        ++*asked;
    }
    *asked += keys;
    snprintf(q->count, sizeof q->count, "%d", keys + 2);
    q->args.lens[2] = strlen(q->count);
    return true;
}

/* Compare with what the server has now; sets w->news. */
static enum tenure_status compare(struct tn_redis *h, struct waiting *w, int64_t deadline,
                                  struct tn_redis_answer *answer, struct tenure_error *err)
{
    struct question *q = calloc(1, sizeof *q);
    enum tenure_status status = TENURE_OK;
    int asked = 0;

    if (!q || !tn_redis_args_init(&q->args, 3 + 4 * TENURE_WATCH_MAX)) {
        free(q);
        return tenure_fail(err, TENURE_NOMEM, "redis: out of memory");
    }
    if (!compose(h, w, q, &asked)) {
        w->news = true;
    } else if (asked) {
        status = tn_redis_run(h, TN_REDIS_CHECK, &q->args, deadline, answer, err);
        if (!status) {
            w->news = answer->reply->type != REDIS_REPLY_INTEGER || answer->reply->integer != 0;
            freeReplyObject(answer->reply);
            answer->reply = NULL;
        }
    }
    for (size_t i = 0; !status && !w->news && i < w->n; i++) {
        if (!w->watches[i].prefix)
            tn_redis_news_learn(h, w->watches[i].key, &w->watches[i].seen);
    }
    tn_redis_args_free(&q->args);
    free(q);
    return status;
}

/* ---- Waiting ------------------------------------------------------------- */

/* Subscribe, then compare (C6). */
static enum tenure_status set_out_once(struct tn_redis *h, struct waiting *w, int64_t deadline,
                                       struct tenure_error *err)
{
    struct tn_redis_answer answer = {0};
    enum tenure_status status;
    unsigned tries = 0;

    do {
        memset(&answer, 0, sizeof answer);
        w->asked = false;
        status = tn_redis_ready(h, deadline, err);
        if (!status)
            status = follow_all(h, w, deadline, err);
        if (!status)
            status = drain(h, w, err);
        if (!status) {
            w->asked = true;
            status = compare(h, w, deadline, &answer, err);
        }
    } while (status && tn_redis_try_again(h, &answer, &tries));
    if (status)
        tn_redis_news_drop(h);
    return status;
}

/* A connection that was idle may have died unnoticed, or dies just now: once more. */
static enum tenure_status set_out(struct tn_redis *h, struct waiting *w, int64_t deadline,
                                  struct tenure_error *err)
{
    enum tenure_status status = set_out_once(h, w, deadline, err);

    return status == TENURE_UNAVAILABLE ? set_out_once(h, w, deadline, err) : status;
}

/* OK: the descriptor of the news is readable. */
static enum tenure_status doze(int fd, int wake_fd, int64_t deadline, struct tenure_error *err)
{
    struct pollfd fds[2] = {{.fd = fd, .events = POLLIN}, {.fd = wake_fd, .events = POLLIN}};
    int ready = tn_poll(fds, 2, deadline);

    if (ready < 0)
        return tenure_fail(err, TENURE_UNAVAILABLE, "redis: poll: %s", strerror(errno));
    if (ready == 0)
        return tenure_fail(err, TENURE_TIMEOUT, "redis: nothing changed");
    if (fds[1].revents)
        return tenure_fail(err, TENURE_CANCELLED, "redis: wait was cancelled");
    return TENURE_OK;
}

static enum tenure_status wait_inner(struct tn_redis *h, struct waiting *w, int wake_fd,
                                     int64_t deadline, struct tenure_error *err)
{
    enum tenure_status status = set_out(h, w, deadline, err);

    while (!status && !w->news) {
        status = doze(h->news->link ? tn_redis_link_fd(h->news->link) : -1, wake_fd, deadline, err);
        if (status)
            return status;
        if (drain(h, w, err)) {
            /* The subscription broke: what was missed is found by comparing again. */
            tn_redis_news_drop(h);
            status = set_out(h, w, deadline, err);
        }
    }
    return status;
}

enum tenure_status tn_redis_wait(struct tn_redis *h, const struct tenure_watch *watches, size_t n,
                                 int wake_fd, int64_t deadline, struct tenure_error *err)
{
    struct waiting w = {.watches = watches, .n = n};
    struct pollfd wake = {.fd = wake_fd, .events = POLLIN};
    enum tenure_status status;

    /* Woken already: better now than in the middle of an exchange. */
    if (n == 0 || poll(&wake, 1, 0) > 0)
        return doze(-1, wake_fd, deadline, err);
    h->conf.cancel_fd = wake_fd;
    status = wait_inner(h, &w, wake_fd, deadline, err);
    h->conf.cancel_fd = -1;
    return status;
}
