#include "store/redis/wait.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "os/poll.h"
#include "store/redis/bundle.h"

#define CHANNELS_MAX 32
#define ORIGIN_MAX   16
#define SILENCE_NS   INT64_C(2000000000) /* what was asked so long ago is not answered any more */

struct channel {
    char name[TN_REDIS_NAME_MAX]; /* of a register, or a pattern */
    bool pattern;
    unsigned
        asked;  /* the number of the request to subscribe that the server has not answered; or 0 */
    bool known; /* token is the register's, or news of a later one is on its way */
    struct tenure_token token;
};

struct tn_redis_news {
    struct tn_redis_link *link;
    struct channel channels[CHANNELS_MAX];
    unsigned n;
    unsigned asked;  /* requests so far; the first ones may be those of a login */
    unsigned logins; /* of those, not answered yet */
    bool greeted;    /* the login was sent */
    bool wide;       /* the user may only subscribe to everything */
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

    if (c && c->asked == 0) {
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

/* The one whose answer comes next; NULL: none is due. */
static struct channel *next_due(struct tn_redis_news *news)
{
    struct channel *next = NULL;

    for (unsigned i = 0; i < news->n; i++) {
        struct channel *c = &news->channels[i];

        if (c->asked && (!next || c->asked < next->asked))
            next = c;
    }
    return next;
}

/* ACL rules know patterns only word by word: one for all is the usual right. */
static enum tenure_status refused(struct tn_redis *h, struct tenure_error *err)
{
    const struct tenure_watch all = {.key = "", .prefix = true};
    struct channel *c = next_due(h->news);
    char name[TN_REDIS_NAME_MAX];

    channel_name(h, &all, true, name);
    if (err->code != TENURE_DENIED || !c || !c->pattern || strcmp(c->name, name) == 0)
        return err->code;
    h->news->wide = true;
    *c = h->news->channels[--h->news->n]; /* follow_all() asks for the wide one */
    return TENURE_OK;
}

static enum tenure_status digest(struct tn_redis *h, struct waiting *w, const redisReply *r,
                                 struct tenure_error *err)
{
    size_t last = r->type == REDIS_REPLY_ARRAY && r->elements > 0 ? r->elements - 1 : 0;

    if (h->news->logins) {
        h->news->logins--;
        return tn_redis_fault(r, NULL, err) ? err->code : TENURE_OK;
    }
    if (tn_redis_fault(r, NULL, err))
        return refused(h, err);
    if (last < 2 || r->element[0]->type != REDIS_REPLY_STRING ||
        r->element[last - 1]->type != REDIS_REPLY_STRING)
        return tenure_fail(err, TENURE_UNAVAILABLE, "this is not a message of a subscription");
    const char *kind = r->element[0]->str;
    bool pattern = strcmp(kind, "psubscribe") == 0;
    if (pattern || strcmp(kind, "subscribe") == 0) {
        struct channel *c = find(h->news, r->element[1]->str, pattern);

        if (c)
            c->asked = 0;
    } else if ((strcmp(kind, "message") == 0 || strcmp(kind, "pmessage") == 0) &&
               r->element[last]->type == REDIS_REPLY_STRING) {
        note(h, w, r->element[last - 1], r->element[last]);
    }
    return TENURE_OK;
}

/* Take in all messages that are there. */
static enum tenure_status drain(struct tn_redis *h, struct waiting *w, struct tenure_error *err)
{
    for (;;) {
        redisReply *r = NULL;
        enum tenure_status status = tn_redis_link_try_reply(h->news->link, &r, err);

        if (status || !r)
            return status;
        status = digest(h, w, r, err);
        freeReplyObject(r);
        if (status)
            return status;
    }
}

/* ---- Subscribing --------------------------------------------------------- */

/* Somewhere to listen, if there is nothing yet; it may not be connected. */
static enum tenure_status open_news(struct tn_redis *h, struct tenure_error *err)
{
    if (h->news)
        return TENURE_OK;
    h->news = calloc(1, sizeof *h->news);
    /* The same server as the link's, whatever its name resolves to by now. */
    if (h->news)
        h->news->link = tn_redis_link_new(&h->conf, tn_redis_link_addr(h->link));
    return h->news && h->news->link ? TENURE_OK
                                    : tenure_fail(err, TENURE_NOMEM, "redis: out of memory");
}

static void follow(struct tn_redis *h, const struct tenure_watch *watch,
                   struct tn_redis_bundle *bundle)
{
    if (channel_of(h, watch))
        return;
    struct channel *c = &h->news->channels[h->news->n++];
    memset(c, 0, sizeof *c);
    channel_name(h, watch, h->news->wide, c->name);
    c->pattern = watch->prefix;
    c->asked = ++h->news->asked;
    tn_redis_bundle_add(bundle, 2,
                        (const char *[]){c->pattern ? "PSUBSCRIBE" : "SUBSCRIBE", c->name}, NULL);
}

/* Until everything that was asked is answered.  News of other channels may come before. */
static enum tenure_status hear_all(struct tn_redis *h, int64_t deadline, struct tenure_error *err)
{
    enum tenure_status status = TENURE_OK;

    while (!status && (h->news->logins || next_due(h->news))) {
        redisReply *r = NULL;

        status = tn_redis_link_reply(h->news->link, deadline, &r, err);
        if (!status)
            status = digest(h, NULL, r, err);
        if (r)
            freeReplyObject(r);
    }
    return status;
}

/* Ask for all that is not followed yet, in one write; the login is in the first. */
static enum tenure_status ask_all(struct tn_redis *h, const struct waiting *w, int64_t deadline,
                                  struct tenure_error *err)
{
    struct tn_redis_bundle bundle = {0};
    enum tenure_status status = TENURE_OK;

    if (!h->news->greeted) {
        status =
            tn_redis_bundle_login(&bundle, h->conf.remote.user, &h->conf.remote.password, 0, err);
        h->news->logins = h->news->asked = bundle.count;
        h->news->greeted = true;
    }
    for (size_t i = 0; i < w->n && !status; i++)
        follow(h, &w->watches[i], &bundle);
    if (!status && bundle.n)
        status = tn_redis_bundle_send(&bundle, h->news->link, deadline, err);
    tn_redis_bundle_clear(&bundle);
    if (status)
        tn_redis_news_drop(h); /* nobody knows what of it has left */
    return status;
}

static enum tenure_status follow_once(struct tn_redis *h, const struct waiting *w, int64_t deadline,
                                      struct tenure_error *err)
{
    enum tenure_status status = open_news(h, err);

    if (!status)
        status = tn_redis_link_advance(h->news->link, deadline, err);
    if (!status)
        status = ask_all(h, w, deadline, err);
    return status ? status : hear_all(h, deadline, err);
}

/* Something was asked, or a connection begun, so long ago that the answer will not come. */
static bool deaf(struct tn_redis_news *news)
{
    return (!news->greeted || news->logins || next_due(news)) &&
           tn_redis_link_silent(news->link) >= SILENCE_NS;
}

static enum tenure_status follow_all(struct tn_redis *h, const struct waiting *w, int64_t deadline,
                                     struct tenure_error *err)
{
    if (h->news && (h->news->n + w->n > CHANNELS_MAX || deaf(h->news)))
        tn_redis_news_drop(h); /* begin anew, with what is wanted now */
    bool wide = h->news && h->news->wide;
    enum tenure_status status = follow_once(h, w, deadline, err);

    /* What may not be followed by its own name is followed by that of all. */
    return !status && h->news->wide && !wide ? follow_once(h, w, deadline, err) : status;
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
    /* What a wait that ends has begun, the next one goes on with. */
    if (status && status != TENURE_TIMEOUT && status != TENURE_CANCELLED)
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
