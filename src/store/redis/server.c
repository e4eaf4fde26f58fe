#include "store/redis/server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/redis/greet.h"
#include "store/redis/wait.h"

#define TRIES_MAX   3
#define ARGS_BEFORE 2                   /* EVALSHA sha */
#define SILENCE_NS  INT64_C(2000000000) /* no request may last longer */

/* ---- Arguments ----------------------------------------------------------- */

bool tn_redis_args_init(struct tn_redis_args *args, int cap)
{
    /* Two places are left in front, for the command itself. */
    args->argv = calloc((size_t)cap + ARGS_BEFORE, sizeof *args->argv);
    args->lens = calloc((size_t)cap + ARGS_BEFORE, sizeof *args->lens);
    args->n = ARGS_BEFORE;
    args->cap = cap + ARGS_BEFORE;
    if (args->argv && args->lens)
        return true;
    tn_redis_args_free(args);
    return false;
}

void tn_redis_args_free(struct tn_redis_args *args)
{
    free(args->argv);
    free(args->lens);
    memset(args, 0, sizeof *args);
}

void tn_redis_args_reset(struct tn_redis_args *args)
{
    args->n = ARGS_BEFORE;
}

void tn_redis_args_add(struct tn_redis_args *args, const char *text, size_t n)
{
    if (args->n == args->cap)
        abort(); /* our own arithmetic is wrong */
    args->argv[args->n] = text;
    args->lens[args->n++] = n;
}

void tn_redis_args_text(struct tn_redis_args *args, const char *text)
{
    tn_redis_args_add(args, text, strlen(text));
}

/* ---- Requests ------------------------------------------------------------ */

/* Append WAIT to a formatted request. */
static bool add_wait(const struct tn_redis *h, int64_t deadline, char **request, long *n)
{
    int64_t ms = (deadline - tenure_now()) / 1000000 * 3 / 4;
    char text[128], count[12], limit[24], *grown;

    snprintf(count, sizeof count, "%u", h->conf.replicas);
    snprintf(limit, sizeof limit, "%lld", (long long)(ms < 1 ? 1 : ms));
    int more = snprintf(text, sizeof text, "*3\r\n$4\r\nWAIT\r\n$%zu\r\n%s\r\n$%zu\r\n%s\r\n",
                        strlen(count), count, strlen(limit), limit);
    grown = realloc(*request, (size_t)(*n + more));
    if (!grown)
        return false;
    memcpy(grown + *n, text, (size_t)more);
    *request = grown;
    *n += more;
    return true;
}

static enum tenure_status in_place(const struct tn_redis *h, struct tenure_error *err)
{
    char text[TN_REMOTE_ADDR_TEXT];

    tn_remote_addr_text(&h->at, text);
    return tenure_fail_context(err, "redis: %s", text);
}

static enum tenure_status gone(struct tn_redis *h, struct tenure_error *err)
{
    tn_redis_drop(h);
    return in_place(h, err);
}

/* The request is given up, but is its link?  A wait ends when somebody wants it to, and what had to
 * be set up first has used the time of the request: neither says anything about the link.  It is
 * dropped if it was silent for as long as an answer may take. */
static bool outlives(const struct tn_redis *h, enum tenure_status status, bool brief)
{
    int64_t longest = brief ? SILENCE_NS : h->span_ns - h->span_ns / 8;

    return (status == TENURE_TIMEOUT || status == TENURE_CANCELLED) &&
           tn_redis_link_silent(h->link) < longest;
}

static enum tenure_status exchange(struct tn_redis *h, const char *request, size_t n, bool wait,
                                   bool brief, int64_t deadline, struct tn_redis_answer *answer,
                                   struct tenure_error *err)
{
    redisReply *acks = NULL;
    unsigned due = wait ? 2 : 1;
    size_t sent = 0;
    enum tenure_status status = tn_redis_link_send(h->link, request, n, deadline, &sent, err);

    answer->lost = sent > 0;
    if (!status && !(status = tn_redis_link_reply(h->link, deadline, &answer->reply, err)))
        due--;
    if (!status && wait)
        status = tn_redis_link_reply(h->link, deadline, &acks, err);
    if (status && answer->reply) {
        freeReplyObject(answer->reply);
        answer->reply = NULL;
    }
    if (status && sent == n && outlives(h, status, brief)) {
        while (due-- > 0)
            tn_redis_link_skip(h->link);
        return in_place(h, err);
    }
    if (status)
        return gone(h, err);
    answer->lost = false;
    if (acks) {
        answer->unconfirmed =
            acks->type != REDIS_REPLY_INTEGER || acks->integer < (long long)h->conf.replicas;
        freeReplyObject(acks);
    }
    return TENURE_OK;
}

static enum tenure_status run_once(struct tn_redis *h, enum tn_redis_script script,
                                   const struct tn_redis_args *args, int64_t deadline,
                                   struct tn_redis_answer *answer, struct tenure_error *err)
{
    bool brief = script == TN_REDIS_CHECK, wait = h->conf.replicas && !brief;
    char *request = NULL;

    memset(answer, 0, sizeof *answer);
    args->argv[0] = "EVALSHA";
    args->lens[0] = strlen(args->argv[0]);
    args->argv[1] = h->sha[script];
    args->lens[1] = TN_REDIS_SHA;
    long n = (long)redisFormatCommandArgv(&request, args->n, args->argv, args->lens);
    if (n < 0 || (wait && !add_wait(h, deadline, &request, &n))) {
        free(request);
        return tenure_fail(err, TENURE_NOMEM, "redis: out of memory for a request");
    }
    enum tenure_status status = exchange(h, request, (size_t)n, wait, brief, deadline, answer, err);
    free(request);
    if (status)
        return status;
    answer->fault = tn_redis_fault(answer->reply, &h->moved, err);
    if (answer->fault == TN_REDIS_FAULT_NONE)
        return TENURE_OK;
    freeReplyObject(answer->reply);
    answer->reply = NULL;
    return in_place(h, err);
}

/* ---- A fresh link -------------------------------------------------------- */

void tn_redis_drop_setup(struct tn_redis *h)
{
    tn_redis_link_close(h->setup.link);
    memset(&h->setup, 0, sizeof h->setup);
}

/* One that was silent for as long as a request may last will not answer any more: a new connection
 * is worth more.  Twice as long if somebody has taken it: that may be a proxy, which has to connect
 * too. */
static bool goes_on(const struct tn_redis_setup *s, enum tenure_status status)
{
    int64_t longest = s->asked ? 2 * s->patience_ns : s->patience_ns - s->patience_ns / 8;

    return status == TENURE_CANCELLED ||
           (status == TENURE_TIMEOUT && tn_redis_link_silent(s->link) < longest);
}

/* Go on with what was begun to that address, or begin.  On failure there is no link, but after
 * TIMEOUT and CANCELLED perhaps one half set up. */
static enum tenure_status establish(struct tn_redis *h, const struct tn_remote_addr *to,
                                    int64_t deadline, struct tn_redis_answer *a,
                                    struct tenure_error *err)
{
    struct tn_redis_setup *s = &h->setup;
    int64_t span = deadline - tenure_now();
    enum tenure_status status;

    memset(a, 0, sizeof *a);
    h->at = *to;
    if (s->link && (strcmp(s->to.host, to->host) != 0 || strcmp(s->to.port, to->port) != 0))
        tn_redis_drop_setup(h);
    if (!s->link) {
        s->to = *to;
        s->link = tn_redis_link_new(&h->conf, to);
    }
    if (!s->link)
        return tenure_fail(err, TENURE_NOMEM, "redis: out of memory");
    if (span > s->patience_ns)
        s->patience_ns = span;
    status = tn_redis_greet(h, deadline, a, err);
    if (!status) {
        h->link = s->link;
        s->link = NULL;
    }
    if (!status || !goes_on(s, status))
        tn_redis_drop_setup(h);
    return status;
}

/* Follow MOVED from one node of a cluster to the one that has our slot. */
static enum tenure_status reach(struct tn_redis *h, const struct tn_remote_addr *to,
                                int64_t deadline, struct tenure_error *err)
{
    struct tn_redis_answer a;
    struct tn_remote_addr next = *to;
    enum tenure_status status = TENURE_OK;

    for (unsigned hops = 0; hops < TRIES_MAX; hops++) {
        status = establish(h, &next, deadline, &a, err);
        if (a.fault != TN_REDIS_FAULT_MOVED)
            return status;
        next = h->moved;
    }
    return status;
}

/* One host after the other.  Who is not there in time makes room for the next; the last is kept. */
static enum tenure_status reach_any(struct tn_redis *h, int64_t deadline, struct tenure_error *err)
{
    enum tenure_status status = TENURE_UNAVAILABLE;

    for (unsigned i = 0, left = h->conf.n_hosts; i < h->conf.n_hosts; i++, left--) {
        int64_t now = tenure_now();

        status = reach(h, &h->conf.hosts[i], now + (deadline - now) / left, err);
        if (tenure_status_class(status) != TENURE_CLASS_TRANSIENT || status == TENURE_CANCELLED)
            break;
    }
    return status;
}

static enum tenure_status connect_any(struct tn_redis *h, int64_t deadline,
                                      struct tenure_error *err)
{
    struct tn_remote_addr moved = h->moved, begun = h->setup.to;
    enum tenure_status status = TENURE_UNAVAILABLE;
    int64_t now = tenure_now();

    if (h->conf.kind == TN_REDIS_SENTINEL) {
        struct tn_remote_addr master;

        status = tn_redis_sentinels_ask(&h->sentinels, deadline, &master, err);
        return status ? status : reach(h, &master, deadline, err);
    }
    if (h->setup.link) {
        status = reach(h, &begun, deadline, err);
        if (!status || h->setup.link)
            return status;
    }
    memset(&h->moved, 0, sizeof h->moved);
    if (moved.host[0]) {
        /* The node may be the very one that is down: ask the others then. */
        status = reach(h, &moved, now + (deadline - now) / 2, err);
        if (!status || h->setup.link)
            h->moved = moved;
        if (!status || status == TENURE_CANCELLED)
            return status;
        if (h->setup.link)
            return reach(h, &moved, deadline, err);
    }
    return reach_any(h, deadline, err);
}

void tn_redis_drop(struct tn_redis *h)
{
    tn_redis_link_close(h->link);
    h->link = NULL;
    /* The next link may lead elsewhere: a subscription here would be deaf. */
    tn_watcher_drop(&h->watcher);
}

enum tenure_status tn_redis_ready(struct tn_redis *h, int64_t deadline, struct tenure_error *err)
{
    h->span_ns = deadline - tenure_now();
    if (h->span_ns <= 0)
        return tenure_fail(err, TENURE_TIMEOUT, "redis: no time was left");
    if (h->link && !tn_redis_link_idle(h->link))
        tn_redis_drop(h);
    if (h->link && h->conf.check) {
        struct tn_remote_addr master;
        enum tenure_status status = tn_redis_sentinels_ask(&h->sentinels, deadline, &master, err);

        if (status)
            return status;
        if (strcmp(master.host, h->at.host) == 0 && strcmp(master.port, h->at.port) == 0)
            return TENURE_OK;
        tn_redis_drop(h);
    }
    return h->link ? TENURE_OK : connect_any(h, deadline, err);
}

/* ---- Running ------------------------------------------------------------- */

enum tenure_status tn_redis_run(struct tn_redis *h, enum tn_redis_script script,
                                const struct tn_redis_args *args, int64_t deadline,
                                struct tn_redis_answer *answer, struct tenure_error *err)
{
    enum tenure_status status = run_once(h, script, args, deadline, answer, err);

    if (answer->fault != TN_REDIS_FAULT_NOSCRIPT)
        return status;
    /* SCRIPT FLUSH: nothing was run, so it may be sent again. */
    status = tn_redis_load_scripts(h, deadline, err);
    answer->fault = TN_REDIS_FAULT_FINAL;
    if (status)
        return gone(h, err);
    return run_once(h, script, args, deadline, answer, err);
}

bool tn_redis_try_again(struct tn_redis *h, const struct tn_redis_answer *answer, unsigned *tries)
{
    if (answer->fault != TN_REDIS_FAULT_MOVED && answer->fault != TN_REDIS_FAULT_ROUTE)
        return false;
    tn_redis_drop(h);
    return ++*tries < TRIES_MAX;
}

/* A read is also repeated if its connection broke: that harms nobody. */
static bool read_again(struct tn_redis *h, enum tenure_status status,
                       const struct tn_redis_answer *answer, unsigned *tries)
{
    if (status == TENURE_UNAVAILABLE && answer->lost)
        return ++*tries < 2;
    return tn_redis_try_again(h, answer, tries);
}

static enum tenure_status confirmed(struct tn_redis *h, const struct tn_redis_answer *answer,
                                    struct tenure_error *err)
{
    if (!answer->unconfirmed)
        return TENURE_OK;
    return tenure_fail(err, TENURE_UNAVAILABLE,
                       "redis: fewer than %u replicas have confirmed what the master holds",
                       h->conf.replicas);
}

enum tenure_status tn_redis_ask(struct tn_redis *h, enum tn_redis_script script,
                                const struct tn_redis_args *args, int64_t deadline,
                                redisReply **reply, struct tenure_error *err)
{
    struct tn_redis_answer answer;
    enum tenure_status status;
    unsigned tries = 0;

    do {
        memset(&answer, 0, sizeof answer);
        status = tn_redis_ready(h, deadline, err);
        if (!status)
            status = tn_redis_run(h, script, args, deadline, &answer, err);
    } while (status && read_again(h, status, &answer, &tries));
    if (!status && (status = confirmed(h, &answer, err)))
        freeReplyObject(answer.reply);
    if (!status)
        *reply = answer.reply;
    return status;
}

enum tenure_status tn_redis_fetch(struct tn_redis *h, enum tn_redis_script script, const char *name,
                                  size_t most, int64_t deadline, redisReply **reply,
                                  struct tenure_error *err)
{
    struct tn_redis_args args;
    char limit[24];

    if (!tn_redis_args_init(&args, 6))
        return tenure_fail(err, TENURE_NOMEM, "redis: out of memory");
    snprintf(limit, sizeof limit, "%zu", most);
    tn_redis_args_text(&args, "3");
    tn_redis_args_text(&args, h->seq);
    tn_redis_args_text(&args, h->sync);
    tn_redis_args_text(&args, name);
    tn_redis_args_text(&args, h->conf.replicas ? "1" : "0");
    tn_redis_args_text(&args, limit);
    enum tenure_status status = tn_redis_ask(h, script, &args, deadline, reply, err);
    tn_redis_args_free(&args);
    return status;
}
