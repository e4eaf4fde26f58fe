#include "store/redis/link.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "store/redis/net.h"
#include "store/redis/reply.h"
#include "store/redis/tls.h"

#define READ_SIZE 16384
#define ARGS_MAX  32

struct tn_redis_link {
    const struct tn_redis_conf *conf;
    int fd;
    void *tls; /* NULL: plain */
    redisReader *reader;
    redisReplyObjectFunctions limited; /* hiredis' own, with a bound on arrays */
    redisReplyObjectFunctions *original;
    struct tn_remote_addr named, addr; /* as it was named; as a number */
    bool connected, open;
    unsigned skip;    /* replies that nobody waits for any more */
    int64_t heard_ns; /* when something last came, or was asked for */
};

/* ---- Bytes --------------------------------------------------------------- */

/* As in tls.h: how many; 0 and *want; -1 and why. */
static ssize_t move_in(struct tn_redis_link *l, void *data, size_t n, short *want,
                       char why[TN_REDIS_TLS_WHY])
{
    if (l->tls)
        return tn_redis_tls->read(l->tls, data, n, want, why);
    ssize_t got = recv(l->fd, data, n, 0);
    *want = POLLIN;
    if (got > 0)
        return got;
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    snprintf(why, TN_REDIS_TLS_WHY, "%s",
             got < 0 ? strerror(errno) : "the server closed the connection");
    return -1;
}

static ssize_t move_out(struct tn_redis_link *l, const void *data, size_t n, short *want,
                        char why[TN_REDIS_TLS_WHY])
{
    if (l->tls)
        return tn_redis_tls->write(l->tls, data, n, want, why);
    ssize_t put = send(l->fd, data, n, MSG_NOSIGNAL);
    *want = POLLOUT;
    if (put > 0)
        return put;
    if (put == 0 || errno == EAGAIN || errno == EINTR)
        return 0;
    snprintf(why, TN_REDIS_TLS_WHY, "%s", strerror(errno));
    return -1;
}

static enum tenure_status await(struct tn_redis_link *l, short want, int64_t deadline,
                                struct tenure_error *err)
{
    enum tenure_status status = tn_redis_await(l->fd, want, l->conf->cancel_fd, deadline, err);

    if (!status)
        l->heard_ns = tenure_now();
    return status;
}

enum tenure_status tn_redis_link_send(struct tn_redis_link *l, const void *data, size_t n,
                                      int64_t deadline, size_t *sent, struct tenure_error *err)
{
    char why[TN_REDIS_TLS_WHY];
    enum tenure_status status = TENURE_OK;
    size_t done = 0;
    short want = 0;

    l->heard_ns = tenure_now();
    while (done < n && !status) {
        ssize_t put = move_out(l, (const char *)data + done, n - done, &want, why);

        if (put > 0)
            done += (size_t)put;
        else if (put < 0)
            status = tenure_fail(err, TENURE_UNAVAILABLE, "the connection broke: %s", why);
        else
            status = await(l, want, deadline, err);
    }
    if (sent)
        *sent = done;
    return status;
}

/* ---- Replies ------------------------------------------------------------- */

#if HIREDIS_MAJOR >= 1
typedef size_t array_size;
#else
typedef int array_size;
#endif

/* A server that announces a huge array must not make us allocate it. */
static void *limited_array(const redisReadTask *task, array_size elements)
{
    const struct tn_redis_link *l = task->privdata;

    if (elements > TN_REDIS_ARRAY_MAX)
        return NULL;
    return l->original->createArray(task, elements);
}

static bool make_reader(struct tn_redis_link *l)
{
    l->reader = redisReaderCreate();
    if (!l->reader)
        return false;
    l->original = l->reader->fn;
    l->limited = *l->original;
    l->limited.createArray = limited_array;
    l->reader->fn = &l->limited;
    l->reader->privdata = l;
    return true;
}

/* A complete reply that is already here and wanted, or NULL. */
static enum tenure_status next_reply(struct tn_redis_link *l, redisReply **reply,
                                     struct tenure_error *err)
{
    void *object = NULL;

    for (;; l->skip--, freeReplyObject(object)) {
        if (redisReaderGetReply(l->reader, &object) != REDIS_OK)
            return tenure_fail(err, TENURE_UNAVAILABLE, "the answer is not Redis' protocol: %s",
                               l->reader->errstr);
        if (!object || l->skip == 0)
            break;
    }
    if (!object && l->reader->len - l->reader->pos > TN_REDIS_REPLY_MAX)
        return tenure_fail(err, TENURE_UNAVAILABLE, "an answer is longer than %u bytes",
                           TN_REDIS_REPLY_MAX);
    *reply = object;
    return TENURE_OK;
}

/* Read what is there.  *got is 0 if nothing was. */
static enum tenure_status fill(struct tn_redis_link *l, ssize_t *got, short *want,
                               struct tenure_error *err)
{
    char buffer[READ_SIZE], why[TN_REDIS_TLS_WHY];

    *got = move_in(l, buffer, sizeof buffer, want, why);
    if (*got < 0)
        return tenure_fail(err, TENURE_UNAVAILABLE, "the connection broke: %s", why);
    if (*got > 0 && redisReaderFeed(l->reader, buffer, (size_t)*got) != REDIS_OK)
        return tenure_fail(err, TENURE_NOMEM, "out of memory for an answer");
    return TENURE_OK;
}

enum tenure_status tn_redis_link_try_reply(struct tn_redis_link *l, redisReply **reply,
                                           struct tenure_error *err)
{
    ssize_t got = 1;
    short want;

    *reply = NULL;
    for (;;) {
        enum tenure_status status = next_reply(l, reply, err);

        if (status || *reply || !got)
            return status;
        status = fill(l, &got, &want, err);
        if (status)
            return status;
    }
}

enum tenure_status tn_redis_link_reply(struct tn_redis_link *l, int64_t deadline,
                                       redisReply **reply, struct tenure_error *err)
{
    redisReply *r = NULL;
    ssize_t got = 0;
    short want = POLLIN;

    for (;;) {
        enum tenure_status status = next_reply(l, &r, err);

        if (!status && r) {
            *reply = r;
            return TENURE_OK;
        }
        /* The first time there is nothing yet: the request has only just left. */
        if (!status && got == 0)
            status = await(l, want, deadline, err);
        if (!status)
            status = fill(l, &got, &want, err);
        if (status)
            return status;
    }
}

int64_t tn_redis_link_silent(const struct tn_redis_link *l)
{
    return tenure_now() - l->heard_ns;
}

void tn_redis_link_skip(struct tn_redis_link *l)
{
    l->skip++;
}

bool tn_redis_link_idle(struct tn_redis_link *l)
{
    char byte, why[TN_REDIS_TLS_WHY];
    struct tenure_error none;
    redisReply *reply = NULL;
    short want;

    if (l->skip) {
        bool sound = !tn_redis_link_try_reply(l, &reply, &none) && !reply;

        if (reply)
            freeReplyObject(reply);
        if (!sound || l->skip)
            return sound;
    }
    return l->reader->pos == l->reader->len && move_in(l, &byte, 1, &want, why) == 0;
}

/* ---- Life ---------------------------------------------------------------- */

static enum tenure_status shake_hands(struct tn_redis_link *l, const char *name, int64_t deadline,
                                      struct tenure_error *err)
{
    char why[TN_REDIS_TLS_WHY];
    short want;
    enum tenure_status status;

    if (!tn_redis_tls)
        return tenure_fail(err, TENURE_UNSUPPORTED, "TLS is not in this module");
    status = l->tls ? TENURE_OK : tn_redis_tls->open(l->conf, name, l->fd, &l->tls, err);
    while (!status) {
        int done = tn_redis_tls->handshake(l->tls, &want, why);

        if (done > 0)
            break;
        if (done < 0)
            status = tenure_fail(err, done == -2 ? TENURE_DENIED : TENURE_UNAVAILABLE,
                                 "TLS with %.100s: %s", name, why);
        else
            status = await(l, want, deadline, err);
        if (status == TENURE_TIMEOUT)
            tenure_fail_context(err, "TLS with %.100s (does this port speak it?)", name);
    }
    return status;
}

struct tn_redis_link *tn_redis_link_new(const struct tn_redis_conf *conf,
                                        const struct tn_remote_addr *addr)
{
    struct tn_redis_link *l = calloc(1, sizeof *l);

    if (!l)
        return NULL;
    l->conf = conf;
    l->fd = -1;
    l->named = l->addr = *addr;
    if (!l->addr.name[0])
        memcpy(l->addr.name, addr->host, sizeof l->addr.name);
    l->heard_ns = tenure_now();
    if (make_reader(l))
        return l;
    tn_redis_link_close(l);
    return NULL;
}

enum tenure_status tn_redis_link_advance(struct tn_redis_link *l, int64_t deadline,
                                         struct tenure_error *err)
{
    const struct tn_redis_conf *conf = l->conf;
    char text[TN_REMOTE_ADDR_TEXT];
    enum tenure_status status = TENURE_OK;

    if (l->open)
        return TENURE_OK;
    if (l->fd < 0)
        status = tn_redis_connect(&l->named, conf->cancel_fd, deadline, &l->fd, &l->addr, err);
    else if (!l->connected)
        status = tn_redis_connected(l->fd, conf->cancel_fd, deadline, err);
    if (!status && !l->connected) {
        l->connected = true;
        l->heard_ns = tenure_now();
    }
    if (!status && conf->tls)
        status =
            shake_hands(l, conf->server_name ? conf->server_name : l->addr.name, deadline, err);
    l->open = !status;
    if (!status)
        return TENURE_OK;
    tn_remote_addr_text(&l->named, text);
    return tenure_fail_context(err, "redis: %s", text);
}

enum tenure_status tn_redis_link_open(const struct tn_redis_conf *conf,
                                      const struct tn_remote_addr *addr, int64_t deadline,
                                      struct tn_redis_link **link, struct tenure_error *err)
{
    struct tn_redis_link *l = tn_redis_link_new(conf, addr);
    enum tenure_status status = l ? tn_redis_link_advance(l, deadline, err)
                                  : tenure_fail(err, TENURE_NOMEM, "redis: out of memory");

    if (status)
        tn_redis_link_close(l);
    else
        *link = l;
    return status;
}

void tn_redis_link_close(struct tn_redis_link *l)
{
    if (!l)
        return;
    if (l->tls)
        tn_redis_tls->close(l->tls);
    if (l->reader)
        redisReaderFree(l->reader);
    if (l->fd >= 0)
        close(l->fd);
    free(l);
}

const struct tn_remote_addr *tn_redis_link_addr(const struct tn_redis_link *l)
{
    return &l->addr;
}

int tn_redis_link_fd(const struct tn_redis_link *l)
{
    return l->fd;
}

/* ---- Requests ------------------------------------------------------------ */

enum tenure_status tn_redis_link_ask(struct tn_redis_link *l, const char *const *argv,
                                     int64_t deadline, redisReply **reply, struct tenure_error *err)
{
    const char *args[ARGS_MAX];
    char *request = NULL;
    int argc = 0;

    while (argv[argc] && argc < ARGS_MAX) {
        args[argc] = argv[argc];
        argc++;
    }
    long n = (long)redisFormatCommandArgv(&request, argc, args, NULL);
    if (n < 0)
        return tenure_fail(err, TENURE_NOMEM, "redis: out of memory");
    enum tenure_status status = tn_redis_link_send(l, request, (size_t)n, deadline, NULL, err);
    explicit_bzero(request, (size_t)n); /* it may be AUTH */
    free(request);
    return status ? status : tn_redis_link_reply(l, deadline, reply, err);
}
